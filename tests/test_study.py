"""The driver of studies: whatever ends one, and wherever, resumed it comes to the same tables."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from executor_tasks import end_process, report_and_end_process, slowly
from tailback.errors import InputError
from tailback.executors import Threads
from tailback.running import RunFailed
from tailback.study.driver import Driver, result_of
from tailback.study.grid import SweepProgress, sweep
from tailback.study.journal import NAME, Journal
from tailback.study.posterior_rounds import FitInterrupted, fit
from tailback.study.tpe import tune
from test_sweep import TINY

SWEEP: dict[str, Any] = {"scenario": TINY, "vary": {"host.mtu": ["1024B", "4096B"]}, "seeds": "1..3"}
TUNE: dict[str, Any] = {
    "workloads": [{"scenario": TINY}],
    "tune": {"traffic.0.load": {"low": 0.2, "high": 0.6}, "host.mtu": ["1024B", "4096B"]},
    "objectives": [{"metric": "goodput.whole_run_bps", "goal": "more"}],
    "seeds": "1..2",
    "held_out_seeds": "5..6",
    "trials": 5,
}
FIT: dict[str, Any] = {
    "scenario": TINY,
    "free": {"traffic.0.load": "0.2..0.6"},
    "observations": [{"metric": "goodput.whole_run_bps", "value": 8, "unit": "Gbit/s", "tolerance": 1}],
    "seeds": "1..2",
    "points": 5,
    "refine": 2,
}
Study = Callable[..., Any]


def _sweep(**more: Any) -> bool:
    return sweep(**({} if more.get("resume") else SWEEP), **more).complete


def _tune(**more: Any) -> bool:
    pytest.importorskip("optuna")
    return tune(**({} if more.get("resume") else TUNE), **more).complete


def _fit(**more: Any) -> bool:
    pytest.importorskip("sklearn")
    try:
        fit(**({} if more.get("resume") else {"measured": FIT}), **more)
    except FitInterrupted:
        return False
    return True


STUDIES = {
    _sweep: ("summary.parquet", "means.parquet"),
    _tune: ("trials.parquet", "tuned.json"),
    _fit: ("posterior.parquet", "observations.parquet", "fit.json"),
}


class Counting(Threads):
    """Counts runs, and is interrupted in place of one of them."""

    def __init__(self, interrupted_at: int = 0) -> None:
        super().__init__(1)
        self.count, self._at = 0, interrupted_at

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        self.count += 1
        if self.count == self._at:
            raise KeyboardInterrupt
        return super().submit(task, *arguments, **more)


@pytest.fixture(scope="module", params=STUDIES, ids=lambda study: study.__name__[1:])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Study, Path, int]:
    """A study that nothing disturbed, its folder, and how many runs it took."""
    out, executor = tmp_path_factory.mktemp("whole") / "x", Counting()
    assert request.param(out=out, executor=executor)
    return request.param, out, executor.count


def tables(study: Study, folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in STUDIES[study]}


def journals(folder: Path) -> list[Path]:
    return sorted(folder.rglob(NAME))


def test_interrupted_at_any_run_and_resumed_the_tables_are_the_same(
    whole: tuple[Study, Path, int], tmp_path: Path
) -> None:
    study, undisturbed, runs = whole
    for at in sorted({2, runs, *random.Random(1).sample(range(2, runs + 1), 3)}):
        out = tmp_path / str(at)
        try:
            assert not study(out=out, executor=Counting(at))
        except KeyboardInterrupt:  # of a tuning, in the runs of the scenarios as they are
            assert study is _tune
        rest = Counting()
        assert study(out=out, resume=True, executor=rest)
        assert rest.count <= runs
        assert tables(study, out) == tables(study, undisturbed), at


def test_killed_at_any_byte_of_the_journal_and_resumed_the_tables_are_the_same(
    whole: tuple[Study, Path, int], tmp_path: Path
) -> None:
    """As SIGKILL leaves it: a journal is only ever added to, and its last line may lack its end."""
    study, undisturbed, runs = whole
    draw = random.Random(2)
    for number in range(4):
        out = tmp_path / str(number)
        shutil.copytree(undisturbed, out)
        for name in STUDIES[study]:
            (out / name).unlink()
        *complete, cut = (
            draw.sample(journals(out), 1) if study is not _fit else journals(out)[: number % 3 + 1]
        )
        for later in set(journals(out)) - {*complete, cut}:
            shutil.rmtree(later.parent)
        data = cut.read_bytes()
        cut.write_bytes(data[: draw.randrange(len(data))])
        kept = sum(path.read_bytes().count(b"\n") for path in journals(out))
        rest = Counting()
        assert study(out=out, resume=True, executor=rest)
        assert rest.count == runs - kept
        assert tables(study, out) == tables(study, undisturbed), number


def test_a_damaged_line_is_said_in_one_line_and_its_run_repeated(
    whole: tuple[Study, Path, int], tmp_path: Path
) -> None:
    study, undisturbed, _ = whole
    out = tmp_path / "x"
    shutil.copytree(undisturbed, out)
    journal = journals(out)[0]
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"status"', b'"stat\\u0000us"')
    journal.write_bytes(b"".join(lines))
    rest = Counting()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert study(out=out, resume=True, executor=rest)
    (line,) = {str(one.message) for one in said}
    assert line.startswith(f"{journal}:2: found ")
    assert line.endswith("; the run is repeated")
    assert rest.count == 1
    assert tables(study, out) == tables(study, undisturbed)


def test_a_journal_of_the_older_form_is_said_in_one_line(tmp_path: Path) -> None:
    out = tmp_path / "x"
    assert _sweep(out=out, executor=Threads(1))
    rows = [json.loads(line) for line in (out / NAME).read_bytes().splitlines()]
    (out / NAME).unlink()
    with Journal(out) as journal:
        for row in rows:
            row["measures"] = row.pop("metrics")
            del row["check"]
            journal.add([row])
    rest = Counting()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert _sweep(out=out, resume=True, executor=rest)
    (line,) = {str(one.message) for one in said}
    assert line == (
        f"{out / NAME}: found 6 lines of an older form, with measures in place of metrics; their runs are repeated"
    )
    assert rest.count == 6


def test_a_second_study_in_the_folder_of_one_that_runs_is_refused(tmp_path: Path) -> None:
    out, refused = tmp_path / "x", []

    class Second(SweepProgress):
        def ended(self, row: dict[str, Any]) -> None:
            for study in STUDIES:
                with pytest.raises(InputError) as error:
                    study(out=out, executor=Threads(1))
                refused.append(str(error.value))

    assert sweep(**{**SWEEP, "seeds": 1}, out=out, executor=Threads(1), progress=Second()).complete
    assert len(refused) == 6
    assert all("found another run that writes there" in one and "\n" not in one for one in refused), refused


def test_sigkill_leaves_what_resumes_to_the_same_tables(tmp_path: Path) -> None:
    """The process of the command itself is killed, between and amid its runs."""
    asked = tmp_path / "s.json"
    asked.write_text(json.dumps(SWEEP))
    command = [sys.executable, "-m", "tailback.cli", "sweep", str(asked), "-q", "-j", "1", "--out"]
    out = tmp_path / "x"
    with subprocess.Popen([*command, str(out)], stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while (
            not ((out / NAME).exists() and (out / NAME).read_bytes().count(b"\n")) and process.poll() is None
        ):
            assert time.monotonic() < until
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
    assert sweep(out=out, resume=True, executor=Threads(1)).complete
    assert sweep(SWEEP, out=tmp_path / "y", executor=Threads(1)).complete
    assert tables(_sweep, out) == tables(_sweep, tmp_path / "y")


@pytest.mark.parametrize("executor", [None, Threads(2)], ids=["processes", "threads"])
def test_what_calls_gave_comes_with_its_place(executor: Executor | None) -> None:
    with Driver(jobs=2, executor=executor) as driver:
        gave = {
            place: future.result() for place, future in driver.futures((n, (pow, n, 2)) for n in range(50))
        }
    assert gave == {n: n * n for n in range(50)}


def test_nothing_is_begun_after_a_run_that_was_cut_short() -> None:
    with Driver(jobs=1, threads=True, finishes=True, is_cut_short=lambda gave: gave == 3) as driver:
        gave = [future.result() for _, future in driver.futures((n, (int, n)) for n in range(50))]
    assert gave == [0, 1, 2, 3]


def test_runs_under_way_end_with_what_they_have() -> None:
    with Driver(jobs=2, finishes=True, share=lambda run, share: driver.stop()) as driver:
        gave = [future.result() for _, future in driver.futures((n, (slowly, n)) for n in range(20))]
    assert 1 <= len(gave) <= 2
    assert all(one == "stopped" for one in gave)


def test_workers_that_a_signal_to_the_group_ends_are_no_failures() -> None:
    with Driver(jobs=1, finishes=True, share=lambda run, share: driver.stop()) as driver:
        gave = list(driver.futures([("a", (report_and_end_process,))]))
    assert gave == []


def test_a_run_whose_process_is_ended_is_named() -> None:
    with Driver(jobs=1) as driver:
        ((place, future),) = driver.futures([("a", (end_process,))])
    with pytest.raises(RunFailed, match=r"^the run a was ended by signal 9"):
        result_of(place, future)
