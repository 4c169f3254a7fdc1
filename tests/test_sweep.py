"""Sweeps: the same tables whatever carries them out, and whatever happens in between."""

from __future__ import annotations

import errno
import json
import random
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tailback
from tailback.errors import InputError
from tailback.executors import Processes, Threads, WorkerLost
from tailback.metrics import Metric
from tailback.study.effects import effects
from tailback.study.grid import SweepProgress, sweep
from tailback.study.journal import NAME, Journal
from tailback.study.sweep_result import SweepResult

TINY = {
    "name": "tiny",
    "run": {"duration": "20us"},
    "topology": {"kind": "star", "hosts": 3},
    "traffic": [{"kind": "poisson", "load": 0.5, "sizes": "fb_hadoop"}],
}
ASKED: dict[str, Any] = {
    "scenario": TINY,
    "vary": {"traffic.0.load": [0.3, 0.6], "host.mtu": ["1024B", "4096B"]},
    "seeds": "1..3",
    "metrics": ["dropped_packets", "goodput.whole_run_bps", "iteration_time", "ideal_payload_share"],
}
TABLES = ("summary.parquet", "means.parquet", "sweep.html")


def files(folder: Path) -> dict[str, bytes]:
    """What equal sweeps have in common: not the journal, which has times."""
    names = [*TABLES, *(str(file.relative_to(folder)) for file in folder.glob("runs/*/*"))]
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sweep") / "x"
    assert sweep(ASKED, out=out, executor=Threads(1)).complete
    return out


class Counting(Threads):
    """Counts, and fails the tasks that it is told to."""

    def __init__(self, fails: Callable[[int], BaseException | None] = lambda number: None) -> None:
        super().__init__(1)
        self.count = 0
        self.fails = fails

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        self.count += 1
        error = self.fails(self.count)
        if error is None:
            return super().submit(task, *arguments, **more)
        future: Future[Any] = Future()
        future.set_exception(error)
        return future


def test_tables_have_each_run_and_each_point(undisturbed: Path) -> None:
    runs = pq.read_table(undisturbed / "summary.parquet").to_pylist()
    assert [(row["point"], row["seed"]) for row in runs] == [(p, s) for p in range(4) for s in (1, 2, 3)]
    row = runs[4]
    assert (row["traffic.0.load"], row["host.mtu"], row["status"], row["message"]) == (
        "0.3",
        "4096B",
        "done",
        "",
    )
    alone = tailback.run(TINY, sets=["traffic.0.load=0.3", "host.mtu=4096B"], seed=2)
    assert row["goodput.whole_run_bps"] == alone.summary["goodput"]["whole_run_bps"]
    assert row["Iteration time"] is None
    dataset = pq.read_table(undisturbed / "runs")
    assert dataset.num_rows == 12
    assert set(dataset.column("point").to_pylist()) == {0, 1, 2, 3}
    means = pq.read_table(undisturbed / "means.parquet").to_pylist()
    of_point = [row["goodput.whole_run_bps"] for row in runs[3:6]]
    (mean,) = [r for r in means if (r["point"], r["measure"]) == (1, "goodput.whole_run_bps")]
    assert mean["mean"] == pytest.approx(sum(of_point) / 3)
    assert mean["low"] < mean["mean"] < mean["high"]
    assert (mean["unit"], mean["seeds"]) == ("bit/s", 3)


@pytest.mark.parametrize("executor", [lambda: Processes(1), lambda: Processes(2), lambda: Threads(3)])
def test_tables_are_the_same_wherever_it_runs(
    executor: Callable[[], Executor], undisturbed: Path, tmp_path: Path
) -> None:
    sweep(ASKED, out=tmp_path / "x", executor=executor())
    assert files(tmp_path / "x") == files(undisturbed)


def test_what_is_done_is_not_run_again(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    first = Counting(lambda number: KeyboardInterrupt() if number == 6 else None)
    stopped = sweep(ASKED, out=out, executor=first)
    assert (stopped.interrupted, stopped.complete) == (True, False)
    assert len(stopped.rows) < 12
    rest = Counting()
    again = sweep(out=out, resume=True, executor=rest)
    assert rest.count == 12 - len(stopped.rows)
    assert again.complete
    assert files(out) == files(undisturbed)
    none = Counting()
    sweep(ASKED, out=out, resume=True, executor=none)
    assert none.count == 0


def test_a_run_that_fails_is_a_row_and_is_tried_again(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    errors: dict[int, BaseException] = {
        3: WorkerLost.by(-signal.SIGKILL),
        5: MemoryError(),
        7: RuntimeError("two\nlines"),
    }
    told: list[dict[str, Any]] = []

    class Told(SweepProgress):
        def ended(self, row: dict[str, Any]) -> None:
            told.append(row)

    done = sweep(ASKED, out=out, executor=Counting(errors.get), progress=Told())
    messages = {(row["point"], row["seed"]): row["message"] for row in done.failed}
    assert messages[2, 1].startswith("the run was ended by signal 9")
    assert messages[0, 2] == "out of memory"
    assert messages[2, 2] == "two lines"
    assert len(messages) == 3
    assert len(told) == 12
    assert done.complete
    assert "the run was ended by signal 9" in (out / "sweep.html").read_text()
    rest = Counting()
    assert not sweep(out=out, resume=True, executor=rest).failed
    assert rest.count == 3
    assert files(out) == files(undisturbed)


@pytest.mark.parametrize("torn", [b"", b'{"key": "x', b'{"key": 3}\nnot json\n[]\n{"a'])
def test_a_torn_journal_loses_that_run_alone(torn: bytes, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    out.mkdir()
    (out / "sweep.json").write_bytes((undisturbed / "sweep.json").read_bytes())
    lines = (undisturbed / NAME).read_bytes().splitlines(keepends=True)
    (out / NAME).write_bytes(b"".join(lines[:7]) + torn)
    rest, told = Counting(), list[str]()

    class Told(SweepProgress):
        def damaged(self, line: str) -> None:
            told.append(line)

    sweep(out=out, resume=True, executor=rest, progress=Told())
    assert [line.partition(": ")[0] for line in told] == [
        f"{out / NAME}:{8 + at}" for at in range(torn.count(b"\n"))
    ]
    assert rest.count == 5
    assert files(out) == files(undisturbed)
    with Journal(out) as journal:
        assert len([key for key in journal.done if key != 3]) == 12


def test_another_scenario_or_measure_is_another_run(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    sweep(ASKED, out=out, executor=Threads(1))
    more = Counting()
    sweep({**ASKED, "seeds": "1..4"}, out=out, resume=True, executor=more)
    assert more.count == 4
    others = Counting()
    sweep({**ASKED, "set": {"host.dcqcn.rpg_gd": 10}}, out=out, resume=True, executor=others)
    assert others.count == 12


def test_a_scenario_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(json.dumps(TINY))

    def change(number: int) -> None:
        if number == 2:
            other = tmp_path / "other.yaml"
            other.write_text(json.dumps({**TINY, "run": {"duration": "30us"}}))
            other.replace(file)  # at once: a run reads it meanwhile

    done = sweep(scenario=str(file), seeds="1..3", executor=Counting(change))
    words = {row["message"] for row in done.failed}
    assert words == {"the scenario, or tailback itself, has changed since the sweep began"}


def test_seeds_of_a_point_that_is_read_once_are_those_of_runs_alone() -> None:
    done = sweep(scenario=TINY, seeds="1..3", metrics=["goodput.whole_run_bps"], executor=Threads(1))
    alone = [tailback.run(TINY, seed=seed).summary["goodput"]["whole_run_bps"] for seed in (1, 2, 3)]
    assert len(set(alone)) == 3
    assert [row["metrics"]["goodput.whole_run_bps"] for row in done.rows] == alone


def test_an_impossible_point_is_named_and_the_others_run(tmp_path: Path) -> None:
    done = sweep(
        scenario=TINY,
        vary={"host.mtu": ["1024B", "1025B"]},
        seeds="1..2",
        out=tmp_path / "x",
        executor=Threads(1),
    )
    assert [row["status"] for row in done.rows] == ["done", "done", "impossible", "impossible"]
    assert done.rows[2]["message"].startswith("--set host.mtu: found")
    page = (tmp_path / "x" / "sweep.html").read_text()
    assert page.count("--set host.mtu: found") == 1


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"vary": {"host.mtuu": ["1024B", "4096B"]}},
            "--set host.mtuu: found an unknown field, expected mtu",
        ),
        ({"vary": {"host.mtu": ["7B"]}}, "--set host.mtu: found"),
        ({"scenario": "nothing-such"}, "nothing-such: found no such file"),
        ({"set": {"host.mtuu": 1}}, "--set host.mtuu: found an unknown field"),
    ],
)
def test_bad_input_is_a_line_and_nothing_is_written(
    fields: dict[str, Any], line: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        sweep({**ASKED, **fields}, out=tmp_path / "x")
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used(undisturbed: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found a folder that is not empty"):
        sweep(ASKED, out=undisturbed)
    with pytest.raises(InputError, match=r"found no sweep\.json, expected the folder of a sweep"):
        sweep(out=tmp_path / "none", resume=True)
    with pytest.raises(InputError, match="resume: found no folder"):
        sweep(ASKED, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="found a file, expected a new or empty folder"):
        sweep(ASKED, out=tmp_path / "file")


def test_run_folders_are_kept_where_asked(tmp_path: Path) -> None:
    asked = {**ASKED, "vary": {}, "keep": True, "seeds": "1..2"}
    sweep(asked, out=tmp_path / "x", executor=Threads(1))
    tailback.run(TINY, seed=2, out=tmp_path / "one")
    kept = tmp_path / "x" / "folders" / "point-0" / "seed-2"
    assert (kept / "summary.json").read_bytes() == (tmp_path / "one" / "summary.json").read_bytes()


@pytest.fixture(scope="module")
def loads(undisturbed: Path) -> SweepResult:
    return sweep(out=undisturbed, resume=True)


def test_effects_say_what_is_noise(loads: SweepResult) -> None:
    lines = loads.lines()
    of = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}
    assert of.pop("No difference, host.mtu") == "Dropped packets."
    assert "95 % interval" in of["goodput.whole_run_bps, traffic.0.load"]
    assert of["Iteration time, host.mtu"] == "cannot be said: no run has a value of it."


def test_what_cannot_be_said_has_its_reason(tmp_path: Path) -> None:
    """Where one value of a setting has runs, it is not said that no run has the figure."""
    for values, why in (
        (["1024B", "7B"], "runs of no two values have a seed in common."),
        (["1024B"], "all points have the same value of host.mtu."),
    ):
        asked = {**ASKED, "vary": {"host.mtu": values}, "seeds": "1..2", "metrics": ["Throughput"]}
        done = sweep(asked, out=tmp_path / str(len(values)), executor=Threads(1))
        assert f"Throughput, host.mtu: cannot be said: {why}" in done.lines()


def test_where_no_point_is_possible_each_says_why() -> None:
    with pytest.raises(InputError) as refused:
        sweep(scenario=TINY, vary={"host.mtu": ["7B", "8B"]})
    first, second = str(refused.value).splitlines()
    assert first.startswith("impossible: host.mtu=7B: --set host.mtu: found")
    assert second.startswith("impossible: host.mtu=8B: --set host.mtu: found")


def test_an_effect_that_noise_elsewhere_hides_is_said() -> None:
    rng = random.Random(1)
    one = Metric("metric", "index", "x.y")
    points = [{"a": a, "b": b} for a in ("1", "2") for b in ("1", "2", "3")]
    noisy = {(b, seed): rng.gauss(0, 10) for b in "123" for seed in range(5)}

    def by_seed(number: int, _: Metric) -> dict[int, float]:
        a, b = points[number]["a"], points[number]["b"]
        quiet = 0.01 * rng.random() + 3 * (b == "2")
        return {seed: noisy[b, seed] if a == "1" else quiet + 0.01 * rng.random() for seed in range(5)}

    first, second = effects(points, ["a", "b"], [one], by_seed, sampled=False)
    assert second.verdict == "noise on average"
    assert {tuple(alone.others.items()) for alone in second.alone} == {(("a", "2"),)}
    assert "But with a=2 an effect: 1 to 2 +3." in second.in_words
    assert "and 1 more such" in second.in_words
    assert first.verdict == "noise"


def test_effects_are_paired_by_seed_and_adjusted_together() -> None:
    """A seed moves all values by far more than the setting does; what it does to all of them goes out."""
    points = [{"a": value, "b": other} for value in ("1", "2", "3") for other in ("x", "y")]
    of_seed = {1: 100.0, 2: 900.0, 3: 400.0, 4: 250.0}
    of_value = {"1": 0.0, "2": 0.1, "3": 5.0}
    wobble = {("2", 1): 0.4, ("2", 3): -0.3, ("3", 2): 0.2, ("3", 4): -0.1}

    def by_seed(number: int, shown: Metric) -> dict[int, float]:
        value, of_other = points[number]["a"], 8.0 if points[number]["b"] == "y" else 0.0
        return {
            seed: base + of_value[value] + of_other + wobble.get((value, seed), 0)
            for seed, base in of_seed.items()
        }

    one = Metric("x", "index", "Length")
    first, second = effects(points, ["a", "b"], [one], by_seed, sampled=False)
    assert [(pair.first, pair.second, pair.is_noise) for pair in first.pairs] == [
        ("1", "2", True),
        ("1", "3", False),
        ("2", "3", False),
    ]
    words = "Length, a: an effect. More than noise: 2 of 3 comparisons; the largest, 1 to 3 +5.0"
    assert first.in_words.startswith(words)
    assert second.in_words == "Length, b: an effect. x to y +8 (the same with each of 4 seeds)."


def test_what_a_notebook_shows(loads: SweepResult) -> None:
    assert repr(loads) == "<Sweep of tiny: 4 points, 3 seeds>"
    html = loads._repr_html_()
    assert html.count("<tr>") == 5
    assert "host.mtu" in html
    assert loads.runs.schema.field("goodput.whole_run_bps").metadata == {b"unit": b"bit/s"}


def test_a_sample_is_correlated() -> None:
    done = sweep(
        scenario=TINY,
        vary={"traffic.0.load": {"low": 0.1, "high": 0.8}},
        sample={"points": 8},
        seeds="1..2",
        set={"run.duration": "100us"},
        metrics=["goodput.whole_run_bps"],
        pareto={},
        executor=Threads(1),
    )
    assert "Rank correlation +" in done.lines()[0]


def test_the_front_has_what_no_other_beats() -> None:
    done = sweep(
        scenario=TINY,
        vary={"host.mtu": ["1024B", "2048B", "4096B"]},
        seeds=[1],
        metrics=["ideal_payload_share", "dropped_packets"],
        pareto={"ideal_payload_share": "more", "Dropped packets": "less"},
        executor=Threads(1),
    )
    assert done.front == [2]
    assert "no other beats in both" in done.page()


def test_a_disk_that_fills_up_loses_nothing_that_was_said(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "x"
    calls = 0

    def full(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise OSError(errno.ENOSPC, "No space left on device")

    told: list[dict[str, Any]] = []

    class Told(SweepProgress):
        def ended(self, row: dict[str, Any]) -> None:
            told.append(row)

    monkeypatch.setattr("tailback.study.journal.os.fsync", full)
    with monkeypatch.context() as patched:
        patched.setattr("tailback.study.driver.replace_file", lambda path, data: path.write_bytes(data))
        with pytest.raises(OSError, match=r"No space left on device.*journal\.jsonl"):
            sweep(ASKED, out=out, executor=Threads(1), progress=Told())
    monkeypatch.undo()
    rest = Counting()
    sweep(out=out, resume=True, executor=rest)
    assert rest.count <= 12 - len(told) < 12
    assert files(out) == files(undisturbed)
