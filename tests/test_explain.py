"""Explain: right where the truth is known, and from what can be seen alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tailback
from explain_published import truth as truth_by_role
from explain_runs import draw
from explain_truth import NONE, answer, find, named, record
from tailback.cli import main
from tailback.explain import as_text, explain, page, trials
from tailback.explain.observed import Observed
from tailback.plan import make_plan
from tailback.results import Result
from tailback.scenario import load

SHORT = ["run.duration=4ms", "memory_load.0.start=1us", "memory_load.1.start=2us"]


@pytest.fixture(scope="module")
def contended() -> Result:
    return tailback.run("memory-contention", sets=SHORT)


def written(result: Result) -> str:
    return as_text(page(explain(result)))


def test_contended_memory_is_the_bottleneck(contended: Result) -> None:
    verdict = explain(contended)
    assert verdict.key == ("memory", "h1")
    assert verdict.candidates[0].held > 0.9
    assert verdict.candidates[0].gain is None


def test_a_page_cites_counters_with_units_and_says_what_to_do(contended: Result) -> None:
    words = written(contended)
    assert words.startswith("The bottleneck is probably memory of h1.\n")
    for needed in (
        "h1/pcie stalled_share",
        "h1/nic-rx pausing_share",
        "sw0:h1/tc3 paused_share",
        "Gbit/s",
        "(else ",
    ):
        assert needed in words
    assert "Try less traffic of cores" in words
    assert "Fairly sure: it is from counters, and no trial was run." in words
    assert "higher" not in words
    assert max(len(line) for line in words.splitlines() if not line.startswith("  ")) <= 100


def test_a_name_says_nothing(contended: Result) -> None:
    before = written(contended)
    contended.meta["name"] = "the-pcie-is-slow"
    contended.setup.__dict__["scenario_yaml"] = "name: the-pcie-is-slow\nabout: Every link is too slow.\n"
    assert written(contended) == before


def test_what_was_set_up_to_be_slow_is_not_looked_at(contended: Result) -> None:
    """Of a plan only nameplates count: all else may be gone, and the page is the same."""
    before = written(contended)
    plan = contended.setup.plan
    plan["memory_loads"] = []
    for nic in plan["nics"]:
        nic["congestion"] = [{"none": {}}]
        path = nic["host_path"]
        path["target"]["memory"] = {"own": {"bandwidth": path["target"]["memory"]["own"]["bandwidth"]}}
        path["pcie"] = {key: path["pcie"][key] for key in ("rate", "max_payload")}
        path["receive_buffers"] = []
    assert written(contended) == before


def test_a_lone_flow_at_line_rate_waits_for_both_links() -> None:
    result = tailback.run("first-flow")
    assert explain(result).key == ("link", "hosts")
    assert "The bottleneck is probably the links of hosts." in written(result)


def test_an_incast_waits_for_the_link_to_its_receiver() -> None:
    result = tailback.run(
        "cc-incast", sets=["run.duration=1ms", "topology.hosts=5", "traffic.0.from=h0..h3", "traffic.0.to=h4"]
    )
    assert explain(result).key == ("link", "sw0:h4")


def test_a_window_of_one_message_is_the_senders() -> None:
    result = tailback.run("first-flow", sets=["traffic.0.depth=1", "traffic.0.message=4KiB"])
    assert explain(result).key == ("window", "h0")


def test_few_messages_are_the_applications_doing() -> None:
    flows = {"kind": "flows", "list": [f"h0 h1 64KiB {at * 50}us" for at in range(20)]}
    result = tailback.run(
        {
            "name": "seldom",
            "run": {"duration": "2ms"},
            "topology": {"kind": "star", "hosts": 2},
            "traffic": [flows],
        }
    )
    assert explain(result).none == "the application offers no more"


def test_one_message_from_each_of_many_waits_for_the_link_that_they_share() -> None:
    one_each = [f"h{sender} h8 4MB 0us" for sender in range(8)]
    result = tailback.run(
        {
            "name": "one-each",
            "run": {"duration": "3ms"},
            "topology": {"kind": "star", "hosts": 9},
            "traffic": [{"kind": "flows", "list": one_each}],
        }
    )
    assert explain(result).key == ("link", "sw0:h8")


def test_a_page_of_nothing_says_so() -> None:
    flow = {"kind": "flows", "list": [f"h0 h1 4KiB {at * 50}us" for at in range(20)]}
    result = tailback.run(
        {
            "name": "seldom",
            "run": {"duration": "1ms"},
            "topology": {"kind": "star", "hosts": 2},
            "traffic": [flow],
        }
    )
    words = as_text(page(explain(result)))
    assert "Fairly sure: it is from counters" in words
    assert "other stage" not in words


def test_a_bridge_with_a_slow_core_waits_for_it() -> None:
    sets = ["run.duration=20ms", "bridge.costs.receive=20us", "traffic.1.start=1us"]
    result = tailback.run("poor-mans-cp", sets=sets)
    assert explain(result).key == ("softirq", "br0")


def test_the_command_prints_the_page_and_refuses_what_is_no_run(
    contended: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tailback.run("first-flow", out=tmp_path / "run")
    assert main(["explain", str(tmp_path / "run"), "--no-try"]) == 0
    assert capsys.readouterr().out.split() == written(folder).split()  # not wrapped when piped
    assert main(["explain", str(tmp_path / "run"), "--json", "--no-try"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["where"]) == explain(folder).key
    assert said["sure"].split(":")[0] in ("Sure", "Fairly sure", "A guess")
    assert "Where it is stuck" in (tmp_path / "run" / "report.html").read_text()
    assert main(["explain", str(tmp_path)]) == 2
    assert "found no summary.json, expected the folder of a run" in capsys.readouterr().err


QUICK = [(QUICK_SEED, number) for QUICK_SEED in (5,) for number in range(14)]


def test_it_is_mostly_right_on_drawn_runs() -> None:
    """A sample of what tools/explain_accuracy.py does in full: see docs/explain.md."""
    wrong: list[Any] = []
    for job in QUICK:
        one = draw(*job)
        scenario, plan = one.plan()
        said, truth = answer(scenario, plan, tried=True), find(plan, seeds=1)
        if said != named(truth.stage):
            wrong.append((one.words, truth, said))
    assert len(wrong) <= 3, wrong


ALL_TO_ALL = ["run.duration=2ms", "topology.hosts=6", "traffic.0.start_interval=10us"]


def test_links_full_side_by_side_are_worth_what_doubling_all_gives() -> None:
    scenario = load("roce-all-to-all", sets=ALL_TO_ALL)
    plan = make_plan(scenario)
    result = Result.from_recording(scenario, plan, record(plan), 1.0, 1.0, False)
    verdict = trials.tried(result, explain(result))
    assert verdict.key == ("link", "hosts")
    first = verdict.candidates[0]
    assert {one.stage.where for one in first.members} >= {f"sw0:h{number}" for number in range(6)}
    assert first.gain == pytest.approx(truth_by_role(plan).gains["link", "receivers"], abs=0.05)
    assert "links of hosts, full" in as_text(page(verdict))


def test_pairs_that_are_not_looked_at_count_for_what_links_need(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Observed(tailback.run("roce-all-to-all", sets=ALL_TO_ALL))
    assert len(whole.pairs) == 30
    monkeypatch.setattr("tailback.explain.ways.MOST_PAIRS", 10)
    drawn = Observed(whole.result)
    assert len(drawn.pairs) == 10
    assert sum(pair.weight for pair in drawn.pairs) == pytest.approx(1)
    assert drawn.through == whole.through
    by_hand = sum(pair.share for pair in whole.pairs if pair.dst == "h3")
    assert whole.through["sw0", "h3"] == pytest.approx(by_hand)


@pytest.mark.parametrize("late", ["0us", "100ms"])
def test_a_flood_between_namespaces_waits_for_the_consumers_core(late: str) -> None:
    plan, said = namespaces("veth-dark-buffer", f"traffic.0.start={late}", "run.duration=200ms")
    assert said == named(find(plan, seeds=1).stage) == ("softirq", "consumer")


@pytest.mark.parametrize(("ring", "stage"), [(30, ("ring", "producer-consumer")), (64, NONE)])
def test_batches_of_64_frames_need_a_ring_as_long(ring: int, stage: tuple[str, str]) -> None:
    plan, said = namespaces("veth-xdp", f"veth.ring={ring}", "run.duration=20ms")
    assert said == named(find(plan, seeds=1).stage) == stage


def test_a_consumer_that_takes_all_is_no_bottleneck() -> None:
    sets = ["traffic.0.interval=102us", "run.duration=200ms"]
    plan, said = namespaces("veth-dark-buffer", *sets)
    assert said == named(find(plan, seeds=1).stage) == NONE


def test_what_waits_at_the_end_only_holds_nothing() -> None:
    assert namespaces("veth-dark-buffer", "traffic.0.start=195ms", "run.duration=200ms")[1] == NONE


def namespaces(name: str, *sets: str) -> tuple[Any, Any]:
    """Plan and verdict of a run with namespaces."""
    scenario = load(name, sets=list(sets))
    plan = make_plan(scenario)
    return plan, answer(scenario, plan)
