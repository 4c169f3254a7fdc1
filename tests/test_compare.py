"""Comparing runs: settings, figures, noise, flows in pairs, the page, and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tailback
from tailback import cli
from tailback.errors import InputError
from tailback.results import Result

INCAST = {
    "name": "incast",
    "run": {"duration": "300us"},
    "topology": {"kind": "star", "hosts": 4},
    "traffic": [{"kind": "write", "from": "h0..h2", "to": "h3", "start_interval": "5us"}],
}
POISSON = {
    "name": "poisson",
    "run": {"duration": "200us"},
    "topology": {"kind": "star", "hosts": 4},
    "traffic": [{"kind": "poisson", "load": 0.5, "sizes": "fb_hadoop"}],
}


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    slower = ["topology.link.rate=25Gbps"]
    return {
        "incast": tailback.run(INCAST),
        "again": tailback.run(INCAST),
        "no-ecn": tailback.run(INCAST, sets=["switch.ecn=null"]),
        "more": tailback.run(
            {**INCAST, "traffic": [*INCAST["traffic"], {"kind": "write", "from": "h1", "to": "h2"}]}  # type: ignore[misc]
        ),
        **{f"a{seed}": tailback.run(POISSON, seed=seed) for seed in range(1, 5)},
        **{f"b{seed}": tailback.run(POISSON, seed=seed, sets=slower) for seed in range(1, 5)},
    }


def test_runs_that_are_the_same_differ_in_nothing(runs: dict[str, Result]) -> None:
    found = tailback.compare(runs["incast"], runs["again"])
    assert (found.settings.num_rows, found.findings.num_rows) == (0, 0)
    assert {row["verdict"] for row in found.figures.to_pylist() if row["side"] == "B"} == {"same"}
    assert found.stuck[0] == found.stuck[1]
    assert found.flow_changes[0].higher == found.flow_changes[0].lower == 0


def test_what_was_set_is_a_row_and_nothing_else_is(runs: dict[str, Result]) -> None:
    found = tailback.compare(runs["incast"], runs["no-ecn"])
    (row,) = found.settings.to_pylist()
    assert (row["setting"], row["B"]) == ("switch.ecn", "null")
    assert row["A"].startswith("k_min: ")
    marks = next(row for row in found.findings.to_pylist() if row["finding"] == "ECN marks")
    assert marks["A"] != marks["B"] == "none"
    assert "Differences may be noise" in repr(found)
    assert found._repr_html_().startswith("<pre>A  incast")


def test_flows_are_paired_by_item_ends_and_index(runs: dict[str, Result]) -> None:
    found = tailback.compare(runs["incast"], runs["more"])
    rows = found.flows.to_pylist()
    assert [(row["src"], row["dst"], row["state_a"], row["state_b"]) for row in rows] == [
        ("h0", "h3", "running", "running"),
        ("h1", "h3", "running", "running"),
        ("h2", "h3", "running", "running"),
        ("h1", "h2", None, "running"),
    ]
    (changes,) = found.flow_changes
    assert (changes.paired, changes.only_first, changes.only_here, changes.measure) == (3, 0, 1, "goodput")
    names = found.settings.column("setting").to_pylist()
    assert "traffic.1.from" in names
    assert not any(name.startswith("traffic.0") for name in names)


def test_seeds_tell_what_is_noise(runs: dict[str, Result]) -> None:
    sides = [[runs[f"{side}{seed}"] for seed in range(1, 5)] for side in "ab"]
    rows = {row["figure"]: row for row in tailback.compare(*sides).figures.to_pylist() if row["side"] == "B"}
    assert rows["Flows done"]["verdict"] == "differs"
    assert rows["Flows done"]["change"] == pytest.approx(-0.75, abs=0.15)
    assert rows["Flows done"]["p"] < 0.05
    # Seeds of one side against others of it: nothing is said, as they have none in common.
    others = tailback.compare(sides[0][:2], sides[0][2:])
    assert {row.verdict(1) for row in others.main_figures} <= {"", "same"}
    assert "Differences may be noise" in repr(others)
    # Messages are paired within their seed.
    assert set(tailback.compare(*sides).flows.column("seed").to_pylist()) == {1, 2, 3, 4}


def test_the_command_prints_writes_a_page_and_gives_json(
    runs: dict[str, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        runs[f"a{seed}"].write(tmp_path / "a" / f"seed-{seed}")
        runs[f"b{seed}"].write(tmp_path / "b" / f"seed-{seed}")
    page = tmp_path / "page.html"
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert cli.main(["compare", *both, "--page", str(page)]) == 0
    out = capsys.readouterr().out
    assert "topology.link.rate" in out
    assert "poisson, seeds 1, 2" in out
    assert max(map(len, out.splitlines())) > 120  # what is piped is not wrapped
    html = page.read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {"throughput-compared", "completion-compared"} <= set(ids)
    assert cli.main(["compare", *both, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [side["seeds"] for side in data["sides"]] == [[1, 2], [1, 2]]
    assert data["settings"][0]["setting"] == "topology.link.rate"
    assert data["flows"][0]["measure"] == "completion time"


def test_bad_input_is_a_line(
    runs: dict[str, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs["incast"].write(tmp_path / "run")
    for arguments, line in (
        ([tmp_path / "run"], "found 1 to compare, expected 2 to 26"),
        ([tmp_path / "run", tmp_path / "x"], f"{tmp_path / 'x'}: found no such folder"),
        ([tmp_path / "run", tmp_path], f"{tmp_path}: found no summary.json, expected the folder of a run"),
    ):
        assert cli.main(["compare", *map(str, arguments)]) == 2
        assert capsys.readouterr().err.startswith(line)
    with pytest.raises(InputError, match="seed 1 twice on side A"):
        tailback.compare([runs["a1"], runs["a1"]], runs["b1"])
