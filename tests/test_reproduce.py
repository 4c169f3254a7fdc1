"""Published experiments, run: the verdicts on their claims, and what is written of them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import executor_tasks
import pytest
from pydantic import ValidationError
from rich.console import Console
from synthetic import made_up
from tailback import cli, interrupts, library
from tailback.errors import InputError
from tailback.executors import Threads
from tailback.metrics import METRICS
from tailback.results import Result
from tailback.running import RunFailed
from tailback.study.claims import engine, judge, planned_runs, reproduce, reproduce_all
from tailback.study.published import Calibrated, Check, Claim, Experiment, load_published
from tailback.study.reproduction import Measured, Reproduction, Row, Spread

NAME = "roce-rocks"
IDS = ["C1", "C2", "C3", "C4", "C4b", *(f"C{number}" for number in range(5, 12)), "C12a", "C12b", "C13"]


class Runner:
    """Gives made-up results instead of running anything, and keeps what it was asked for."""

    def __init__(self, **more: Any) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.more = more

    def __call__(self, scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
        self.asked.append((scenario, dict(sets)))
        progress(0.5)
        dropping = scenario.endswith("512")
        return made_up(lossless="lossless" in scenario, always_dropping=dropping, **self.more)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    return reproduce(NAME, tmp_path_factory.mktemp("out") / "r", runner=Runner())


def printed(done: Reproduction) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(done.table(), *done.sensitivity_tables())
    return capture.get()


def test_an_unknown_name_is_one_line() -> None:
    with pytest.raises(InputError, match="expected roce-rocks") as refused:
        reproduce("roce-rock")
    assert "\n" not in str(refused.value)


def test_a_folder_in_use_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    runner = Runner()
    with pytest.raises(InputError, match="not empty"):
        reproduce(NAME, tmp_path, runner=runner)
    assert runner.asked == []


def spread_of(wanted: dict[str, Any], values: list[float]) -> Row:
    """A claim's row, with this measured at the fitted value and at both ends."""
    constant = Calibrated(
        what="", value="2", why="", fitted_to=["Y"], path="x", between=["1", "3"], range_from="a fit",
        carried_to=["X"], settled_by="perf",
    )  # fmt: skip
    check = Check(metric="naks", why="words", **wanted)
    claim = Claim(id="X", says="", where="", run="a", kind="predicted", checks=[check])
    lossy = made_up(lossless=False)
    ends = [[Measured(check, value)] for value in values]
    return judge(claim, {"a": lossy}, False, [Spread(constant, ends)])


def test_what_only_the_fitted_value_meets_is_missed() -> None:
    count = METRICS["naks"](made_up(lossless=False))
    edge = spread_of({"equals": count}, [count - 1, count + 1])
    assert edge.verdict == "missed"
    assert "knife's edge" in edge.why_missed
    assert spread_of({"at_most": count}, [count - 1, count + 1]).verdict == "met"
    both = spread_of({"at_most": 0}, [count - 1, count + 1])
    assert both.verdict == "missed"
    assert "edge" not in both.why_missed


def test_a_prediction_has_an_interval() -> None:
    count = METRICS["naks"](made_up(lossless=False))
    row = spread_of({"at_least": 1}, [count - 1, count + 2])
    assert row.interval(0) == f"{count - 1:g} to {count + 2:g}"
    assert row.spread[0].in_words == "with x 1 to 3: met at both"
    assert row.spread[0].as_json()["checks"] == [[count - 1], [count + 2]]
    assert spread_of({"at_least": 1}, [count, count]).interval(0) == ""


def test_a_row_a_claim(done: Reproduction) -> None:
    assert [row.claim.id for row in done.rows] == IDS
    words = printed(done)
    for expected in ("C1", "C4", "predicted", "0.35 %", "section 3.2.1", "traffic.0.start_interval"):
        assert expected in words


def test_the_run_of_the_assumption_is_not_repeated() -> None:
    runner = Runner()
    reproduce(NAME, runner=runner)
    assert len(runner.asked) == len({(scenario, *sorted(sets.items())) for scenario, sets in runner.asked})
    assert runner.asked[0] == (
        "roce-incast-lossless",
        {"host.dcqcn.clamp_tgt_rate": "true", "run.duration": "6s"},
    )


def test_files(done: Reproduction) -> None:
    assert done.folder is not None
    for run in ("lossless", "lossy", "lossy-512"):
        assert (done.folder / "runs" / run / "report.html").is_file()
    rows = json.loads((done.folder / "reproduce.json").read_text())["claims"]
    assert [row["verdict"] for row in rows] == [row.verdict for row in done.rows]
    html = (done.folder / "reproduce.html").read_text()
    assert 'href="runs/lossy-512/report.html"' in html
    for word in ("given", "assumed", "calibrated", "predicted"):
        assert word in html


def test_the_same_runs_give_the_same_files(done: Reproduction, tmp_path: Path) -> None:
    again = reproduce(NAME, tmp_path / "r", runner=Runner())
    assert done.folder is not None
    assert again.folder is not None
    for name in ("reproduce.json", "reproduce.html"):
        assert (again.folder / name).read_bytes() == (done.folder / name).read_bytes()


def test_quick_runs_say_so(tmp_path: Path) -> None:
    runner = Runner(bins=150)
    done = reproduce(NAME, tmp_path / "r", quick=True, runner=runner)
    assert runner.asked[0][1]["run.duration"] == "400ms"
    assert {row.verdict for row in done.rows} <= {"met", "missed", "too short"}
    assert "(quick)" in printed(done)
    assert 'class="badge">quick' in (tmp_path / "r" / "reproduce.html").read_text()


def test_strict_is_about_missed_claims_only() -> None:
    experiment = load_published(NAME)
    for verdict, strict, status in (("missed", True, 1), ("missed", False, 0), ("too short", True, 0)):
        rows = [Row(experiment.claims[0], [], verdict, quick=False)]  # type: ignore[arg-type]
        assert Reproduction(NAME, experiment, True, strict, rows=rows).exit_status == status


def test_an_interrupted_experiment_stops_and_says_so(tmp_path: Path) -> None:
    runner = Runner(complete=False)
    done = reproduce(NAME, tmp_path / "r", runner=runner)
    assert len(runner.asked) == 1
    assert {row.verdict for row in done.rows} == {"not run"}
    assert done.exit_status == 130
    assert "partial" in (tmp_path / "r" / "reproduce.html").read_text()


def test_progress_names_each_run() -> None:
    seen: list[tuple[str, float]] = []
    reproduce(NAME, runner=Runner(), progress=lambda what, share: seen.append((what, share)))
    assert seen[:4] == [("lossless", 0.0), ("lossless", 0.5), ("lossless", 1.0), ("lossy", 0.0)]


@pytest.mark.parametrize(
    ("bound", "value", "holds"),
    [
        ({"at_least": 0.97}, 0.97, True),
        ({"at_least": 0.97}, 0.96, False),
        ({"at_most": 0.0035}, 0.0036, False),
        ({"equals": 0}, 0.0, True),
        ({"equals": 1}, 0.9, False),
        ({"between": (1, 2)}, 1.5, True),
        ({"between": (1, 2)}, 2.5, False),
        ({"at_least": 1}, math.nan, None),
        ({}, 3.0, None),
    ],
)
def test_bounds(bound: dict[str, Any], value: float, holds: bool | None) -> None:
    assert Check(metric="naks", **bound).holds(value) is holds


def test_a_miss_says_why_and_a_met_claim_does_not() -> None:
    wanted = Check(metric="naks", at_most=0, why="none")
    why = {"if_missed": "because", "settled_by": "a capture"}
    claim = Claim(id="X", says="", where="", run="a", kind="predicted", checks=[wanted], **why)
    lossless, lossy = (made_up(lossless=flag) for flag in (True, False))
    assert judge(claim, {"a": lossless}, quick=False).why_missed == ""
    assert judge(claim, {"a": lossy}, quick=False).why_missed == "because"
    assert judge(claim, {"a": lossy}, quick=False).settled_by == "a capture"
    assert judge(claim, {"a": lossless}, quick=False).settled_by == ""
    assert judge(claim, {"a": lossy}, quick=True).why_missed == "", "the reason is about full runs"


def test_a_measure_relative_to_another_run() -> None:
    check = Check(metric="min_max_ratio", params={"since": "start"}, relative_to="fair", at_most=0.9)
    fair, unfair = made_up(), made_up(lossless=False, always_dropping=True)
    value = check.value({"fair": fair, "unfair": unfair}, "unfair")
    ratios = [METRICS["min_max_ratio"](result, since="start") for result in (unfair, fair)]
    assert value == pytest.approx(ratios[0] / ratios[1])
    assert value < 0.9


def test_what_cannot_be_measured_is_missed_unless_quick() -> None:
    claim = next(claim for claim in load_published(NAME).claims if claim.id == "C1")
    short = {"lossless": made_up(bins=105)}
    assert judge(claim, short, quick=False).verdict == "missed"
    assert judge(claim, short, quick=True).verdict in ("too short", "missed")


@pytest.mark.parametrize(
    "broken",
    [
        {"checks": [{"metric": "happiness", "at_least": 1, "why": "w"}]},
        {"checks": [{"metric": "naks", "why": "w"}]},
        {"checks": [{"metric": "naks", "at_least": 1, "at_most": 2, "why": "w"}]},
        {"checks": [{"metric": "naks", "at_least": 1}]},
        {"run": "elsewhere"},
        {"kind": "hoped"},
    ],
)
def test_a_broken_experiment_is_refused(broken: dict[str, Any]) -> None:
    good = load_published(NAME).model_dump(exclude_none=True)
    Experiment.model_validate(good)
    good["claims"] = [{**good["claims"][0], **broken}]
    with pytest.raises(ValidationError):
        Experiment.model_validate(good)


def test_a_check_on_another_run_than_the_claims() -> None:
    check = Check(metric="dropped_packets", run="lossy", at_least=1, why="there are some")
    claim = Claim(id="X", says="", where="", run="lossless", kind="predicted", checks=[check])
    lossless, lossy = made_up(), made_up(lossless=False)
    assert check.value({"lossless": lossless, "lossy": lossy}, "lossless") == sum(
        drop["packets"] for drop in lossy.meta["drops"]
    )
    assert claim.runs == ["lossless", "lossy"]
    assert judge(claim, {"lossless": lossless, "lossy": lossy}, quick=False).verdict == "met"
    assert judge(claim, {"lossless": lossless}, quick=False).verdict == "not run"
    assert check.name_in_words == "dropped packets (lossy)"
    ratio = Check(metric="counter_ratio", params={"of": "rp_cnp_handled", "to": "np_cnp_sent"}, equals=1)
    assert ratio.name_in_words == "rp_cnp_handled over np_cnp_sent"


def test_only_some_claims_run_what_these_need(tmp_path: Path) -> None:
    runner = Runner()
    done = reproduce(NAME, tmp_path / "r", only=["C13", "C2"], runner=runner)
    assert [row.claim.id for row in done.rows] == ["C2", "C13"]
    assert list(done.results) == ["lossless", "cnp-own-class", "cnp-data-class"]
    assert {scenario for scenario, _ in runner.asked} == {"roce-incast-lossless", "roce-cnp-class"}
    assert {name for item, _ in done.sensitivity for name in item.claims} == {"C2", "C13"}
    assert json.loads((tmp_path / "r" / "reproduce.json").read_text())["only"] == ["C2", "C13"]


def test_a_claim_that_there_is_none_of_is_one_line() -> None:
    runner = Runner()
    with pytest.raises(InputError, match="--only: found C99, expected claims out of C1, C2") as refused:
        reproduce(NAME, only=["C1", "C99"], runner=runner)
    assert "\n" not in str(refused.value)
    assert runner.asked == []


def test_a_table_with_expected_values_has_a_plot_against_them(tmp_path: Path) -> None:
    reproduce(NAME, tmp_path / "r", only=["C6"], runner=Runner())
    html = (tmp_path / "r" / "reproduce.html").read_text()
    figures = json.loads(html.split('id="figures">')[1].split("</script>")[0])["figures"]
    [figure] = [one for one in figures if one["id"].startswith("table-")]
    assert [trace["name"] for trace in figure["data"]] == ["expected", "measured"]
    assert "Dashed, expected: share of connections" in html
    assert figure["data"][0]["x"] == ["8", "16", "32", "64", "128"]


def test_a_table_of_named_variants_has_a_plot_of_one_measure_over_another(tmp_path: Path) -> None:
    runner = Runner()
    done = reproduce("rhcc", tmp_path / "r", only=["E8"], runner=runner)
    item, variants = next(one for one in done.sensitivity if one[0].kind == "ablation")
    assert [variant.value for variant in variants] == list(item.variants)
    # Each variant was run with its own overrides; the run itself was not run again.
    asked = [sets for _, sets in runner.asked]
    for name, overrides in item.variants.items():
        assert sum(overrides.items() <= sets.items() for sets in asked) >= 1, name
    assert len(asked) == len({tuple(sorted(sets.items())) for sets in asked})
    html = (tmp_path / "r" / "reproduce.html").read_text()
    figures = json.loads(html.split('id="figures">')[1].split("</script>")[0])["figures"]
    figure = next(one for one in figures if one["id"] == "table-0-tradeoff")
    assert figure["data"][0]["text"] == list(item.variants)
    assert sorted(label["text"] for label in figure["layout"]["annotations"]) == sorted(item.variants)
    assert "Ablation: RHCC" in html
    assert "Prediction beyond the paper: " in html
    assert "neither (the run itself)" in html


def test_what_is_varied_is_one_setting_or_named_variants() -> None:
    good = load_published("rhcc").model_dump(exclude_none=True)
    good["sensitivity"][0]["path"] = "host.mtu"
    with pytest.raises(ValidationError, match="path and values, or variants"):
        Experiment.model_validate(good)
    good = load_published("rhcc").model_dump(exclude_none=True)
    good["sensitivity"][0]["plot"]["of"] = "naks"
    with pytest.raises(ValidationError, match="found plot of naks"):
        Experiment.model_validate(good)


def test_all_experiments_make_one_report(tmp_path: Path) -> None:
    asked, told = Runner(), set[str]()
    done = reproduce_all(
        tmp_path / "r", quick=True, jobs=2, runner=asked, progress=lambda one, _: told.add(one)
    )
    assert [one.name for one in done.experiments] == list(library.published())
    claims = [claim.id for name in library.published() for claim in load_published(name).claims]
    page = (tmp_path / "r" / "reproduce.html").read_text()
    for one in done.experiments:
        assert (tmp_path / "r" / one.name / "reproduce.html").is_file()
        for row in one.rows:
            assert f'href="{one.name}/reproduce.html#claim-{row.claim.id}"' in page
    written = json.loads((tmp_path / "r" / "reproduce.json").read_text())
    assert [claim["id"] for one in written["experiments"] for claim in one["claims"]] == claims
    assert (
        len(told) == len(asked.asked) == sum(planned_runs(name, quick=True) for name in library.published())
    )


def test_what_waits_is_not_begun_after_an_interrupt(tmp_path: Path) -> None:
    runner = Runner(complete=False)
    done = reproduce_all(tmp_path / "r", runner=runner)
    assert len(runner.asked) == 1
    assert done.interrupted
    assert done.exit_status == 130
    assert "partial" in (tmp_path / "r" / "reproduce.html").read_text()


def test_several_jobs_give_the_same_files(done: Reproduction, tmp_path: Path) -> None:
    again = reproduce(NAME, tmp_path / "r", runner=Runner(), jobs=4)
    assert done.folder is not None
    assert again.folder is not None
    assert (again.folder / "reproduce.json").read_bytes() == (done.folder / "reproduce.json").read_bytes()


def test_ctrl_c_ends_the_runs_under_way() -> None:
    def one(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
        if asked:
            os.kill(os.getpid(), signal.SIGINT)
        asked.append(scenario)
        try:
            while True:
                progress(0.5)
                time.sleep(0.001)
        except KeyboardInterrupt:
            return made_up(complete=False)

    asked: list[str] = []
    # Whoever starts tests in the background may have them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = reproduce(NAME, runner=one, jobs=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(asked) == 2
    assert done.exit_status == 130


def test_a_second_ctrl_c_says_where_the_complete_runs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
        asked.append(scenario)
        if len(asked) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            while not interrupts._received:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
        with contextlib.suppress(KeyboardInterrupt):
            while len(asked) == 2:
                progress(0.5)
                # Time for the second one to arrive before this run ends, and with it the whole.
                time.sleep(0.2)
        return made_up(complete=len(asked) < 2)

    asked: list[str] = []
    # In this process, which gets the interrupts.
    monkeypatch.setattr("tailback.study.claims.engine", one)
    monkeypatch.setattr("tailback.executors.calls.Processes", Threads)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = cli.main(["reproduce", NAME, "--out", str(tmp_path / "r"), "--jobs", "1", "--quick"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 130
    told = capsys.readouterr().err
    assert told.endswith(f"; complete runs are in {tmp_path / 'r' / 'runs'}\n")
    assert (tmp_path / "r" / "runs" / "lossless" / "report.html").is_file()
    assert not (tmp_path / "r" / "reproduce.json").exists()


def test_a_run_whose_process_is_ended_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailback.study.claims.engine", executor_tasks.end_process)
    with pytest.raises(RunFailed, match=r"^the run \w+ was ended by signal 9"):
        reproduce(NAME, tmp_path / "r", quick=True, only=["C2"])


def test_runs_in_processes_are_those_in_this_one(tmp_path: Path) -> None:
    """Down to the page and the folders of the runs."""
    both = [tmp_path / "processes", tmp_path / "threads"]
    reproduce("gpudirect-pfc", both[0], quick=True, only=["B2"], jobs=2)
    reproduce("gpudirect-pfc", both[1], quick=True, only=["B2"], runner=engine)
    files = [sorted(str(f.relative_to(out)) for f in out.rglob("*") if f.is_file()) for out in both]
    assert files[0] == files[1]
    for name in files[0]:
        if not name.endswith("timing.json"):
            assert (both[0] / name).read_bytes() == (both[1] / name).read_bytes(), name


def test_a_chosen_bound_says_so_and_from_where_on_it_would_hold() -> None:
    chosen = Check(metric="naks", at_most=2, chosen=True, why="words")
    assert (chosen.met_from(1.0), chosen.met_from(3.0)) == ("", "; met from 3 on")
    assert Check(metric="naks", at_most=2, why="a figure").met_from(3.0) == ""
    given = Check(metric="naks", at_least=1, kind="calibrated", chosen=True, why="words")
    claim = Claim(id="X", says="", where="", run="a", kind="predicted", checks=[given])
    assert claim.counted_as == "predicted", "what was fitted is no prediction's bound"
    assert claim.model_copy(update={"checks": [given, chosen]}).counted_as == "predicted, bound chosen"
    assert claim.model_copy(update={"checks": [chosen], "kind": "calibrated"}).counted_as == "calibrated"
