"""Sentences say one of a thing as one: findings of runs and captures whose counts are all 1."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import tailback
from hpcc_files import write
from tailback import text
from tailback.capture_option import CAPTURE_FILE, Capture
from tailback.captured import analyze
from tailback.captured.words import findings as findings_of_capture
from tailback.metrics import findings
from tailback.metrics.metric import summarise
from tailback.results import Result
from tailback.scenario import loads

PLURAL_VERB = re.compile(r"(?<![\w.,])1(?: of [\d,]+)?(?: [A-Za-z-]+){0,3} (were|are|have|stand|wait|end)\b")
PLURAL_NOUN = re.compile(r"(?<![\w.,±+-])1 (?!of )((?:[A-Z][A-Za-z0-9]+ |[a-z]+ )?[A-Za-z-]*[a-rt-z]s)\b")
NO_PLURALS = {
    "is",
    "was",
    "has",
    "ms",
    "ns",
    "us",
    "this",
    "as",
    "its",
    "bits",
    "Gbit/s",
    "needs",
    "sends",
    "says",
    "stands",
    "counts",
    "pauses",
    "ends",
    "seems",
}


def faults(sentence: str) -> list[str]:
    """Parts of a sentence that have 1 of several things."""
    nouns = [one[0] for one in PLURAL_NOUN.finditer(sentence) if one[1].split()[-1] not in NO_PLURALS]
    nouns = [one for one in nouns if not set(one.split()[1:-1]) & NO_PLURALS]
    return nouns + [one[0] for one in PLURAL_VERB.finditer(sentence)]


def ones(value: Any) -> Any:
    """The same with every count above 1 as 1."""
    if isinstance(value, dict):
        return {key: ones(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [ones(one) for one in value]
    return 1 if isinstance(value, int) and not isinstance(value, bool) and value > 1 else value


@pytest.mark.parametrize(
    "wrong",
    [
        "1 of 16 were not read: RoCE v1 (1).",
        "until all 1 messages of x, 1 KB in all",
        "(1 ms to 2 ms, 1 times)",
        "1 data packets that arrived",
        "transmit queues were stopped 1 times.",
        "1 READ response are counted",
    ],
)
def test_the_search_finds_what_it_is_for(wrong: str) -> None:
    assert faults(wrong)


@pytest.mark.parametrize(
    "right",
    ["1 of 16 was not read", "1 ms behind others", "21 packets were", "1 packet was lost", "0.1 were"],
)
def test_the_search_finds_nothing_in_a_good_sentence(right: str) -> None:
    assert not faults(right)


@pytest.mark.parametrize("noun", ["packet", "switch", "recovery", "query", "RNR NAK", "queue pair"])
def test_a_noun_and_its_verb(noun: str) -> None:
    assert text.plural(1, noun) == f"1 {noun}"
    assert text.noun(1, noun) == noun
    several = text.noun(2, noun)
    assert several != noun
    assert text.plural(2000, noun) == f"2,000 {several}"
    assert [text.verb(number, "is", "are") for number in (0, 1, 2)] == ["are", "is", "are"]


SCENARIOS = {
    "incast": "switch: {shared: 64KiB}\ntraffic:\n  - {kind: write, from: h0..h3, to: h4, qps: 2, message: 4KiB}",
    "lossy": "switch: {shared: 64KiB, lossless: [], ecn: null}\n"
    "traffic:\n  - {kind: write, from: h0..h3, to: h4, qps: 2}",
    "tcp": "switch: {shared: 64KiB, lossless: [], ecn: null}\ntraffic:\n"
    "  - {kind: tcp, from: h0..h1, to: h2}\n  - {kind: write, from: h3, to: h2}",
    "messages": "traffic:\n  - {kind: all-to-all, message: 1MB}\n  - {kind: poisson, load: 0.5, sizes: websearch}",
    "ranks": "traffic:\n  - {kind: all-reduce, size: 1MB, hosts: h0..h3, repeat: 2}\n"
    "  - {kind: all-gather, size: 1GB, hosts: h0..h3, repeat: 2}",
    "latency": "traffic:\n  - {kind: write-latency, from: h0, to: h1}\n  - {kind: write, from: h2, to: h1}",
}


def run(name: str, folder: Path) -> Result:
    if name == "hpcc":
        return tailback.run_hpcc(write(folder))
    if name not in SCENARIOS:
        return tailback.run(
            name, sets=["run.duration=250ms" if name == "poor-mans-cp" else "run.duration=80ms"]
        )
    head = f"name: {name}\nrun: {{duration: 3ms}}\ntopology: {{kind: star, hosts: 5}}\n"
    return tailback.run(loads(head + SCENARIOS[name] + "\n"))


@pytest.mark.parametrize("name", [*SCENARIOS, "hpcc", "veth-dark-buffer", "veth-bql", "poor-mans-cp"])
def test_findings_of_a_run_say_one_as_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(name, tmp_path)
    plain = [f"{one.figure} {one.words}" for one in findings(result)]
    summary = ones(summarise(result))
    for module in [one for key, one in sys.modules.items() if key.startswith("tailback.metrics.")]:
        if hasattr(module, "summarise"):
            monkeypatch.setattr(module, "summarise", lambda _: summary)
    said = [f"{one.figure} {one.words}" for one in findings(result)]
    assert [(one, faults(one)) for one in plain + said if faults(one)] == []
    assert len(said) > 3


@pytest.mark.parametrize("name", ["incast", "lossy", "tcp"])
def test_findings_of_a_capture_say_one_as_one(name: str, tmp_path: Path) -> None:
    head = f"name: {name}\nrun: {{duration: 500us}}\ntopology: {{kind: star, hosts: 5}}\n"
    scenario = loads(head + SCENARIOS[name] + "\n")
    tailback.run(scenario, out=tmp_path / "run", report=False, capture=Capture.parse(["all"]))
    data = analyze(tmp_path / "run" / CAPTURE_FILE).data
    # What no capture here has is there once, too.
    data["classes"]["not_read"] = {"RoCE v1": 1}
    data["classes"] |= {"captured_twice": 1, "link_pauses": 1}
    data["clock"] |= {"without_time": 1, "backwards": 1}
    data |= {"lost_by_capture": 1, "unassigned_rnr_naks": 1, "unassigned_naks": [1] * 5}
    for one in data["interfaces"]:
        one |= {"icrc_bad": 1, "trimmed": 1, "outer_ce": 1, "read_answers": 1}
    for row in data["connections"]:
        row |= {"perhaps_captured_twice": 1, "unseen_gaps": 1, "unseen": 1, "out_of_order": 1}
    one_each = ones(data)
    one_each["connections"] = one_each["connections"][:1]
    said = [f"{one.figure} {one.words}" for each in (data, one_each) for one in findings_of_capture(each)]
    assert [(one, faults(one)) for one in said if faults(one)] == []
    assert len(said) > 12
