"""Runs one scenario with several seeds: a folder for each result, and one table.

Each run equals that of `tailback run --seed N`. An interrupt ends all runs and keeps the folders of complete
runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailback import interrupts, text
from tailback.executors.calls import OnShare
from tailback.files.out_folder import OutFolder, replace_file
from tailback.metrics import in_words, main_metrics, value_at
from tailback.running import RunFailed, claimed, run_checked
from tailback.scenario import load
from tailback.study.driver import Driver, result_of
from tailback.study.run import reporting

if TYPE_CHECKING:
    from rich.table import Table


@dataclass
class SeedRuns:
    folder: Path
    summaries: dict[int, dict[str, Any]] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def faults(self) -> list[tuple[int, dict[str, Any]]]:
        return [(seed, fault) for seed, one in sorted(self.summaries.items()) for fault in one["faults"]]

    def figures(self) -> list[dict[str, Any]]:
        """Mean, minimum and maximum of each main figure over all seeds that have it."""
        rows = []
        for metric in main_metrics(self.summaries.values()):
            values = {
                seed: value
                for seed in sorted(self.summaries)
                if (value := value_at(self.summaries[seed], metric.path)) is not None
            }
            if values:
                rows.append(
                    {
                        "figure": metric.label,
                        "unit": metric.unit,
                        "mean": sum(values.values()) / len(values),
                        "min": min(values.values()),
                        "max": max(values.values()),
                        "seeds": len(values),
                    }
                )
        return rows

    def table(self) -> Table:
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column(f"Over {text.plural(len(self.summaries), 'seed')}", style="bold", no_wrap=True)
        for name in ("Mean", "Least", "Most"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self.figures():
            table.add_row(row["figure"], *(in_words(row[key], row["unit"]) for key in ("mean", "min", "max")))
        return table


def run_seeds(
    scenario: str,
    seeds: Sequence[int],
    out: Path | OutFolder,
    *,
    sets: Sequence[str] = (),
    jobs: int = 1,
    progress: OnShare | None = None,
    controllers: Mapping[str, str] | None = None,
    report: bool = True,
) -> SeedRuns:
    """Runs a scenario with each seed, `jobs` at a time, into `out/seed-N`; `out/seeds.json` has the figures.

    An interrupt keeps complete runs. seeds.json is written last: a folder without it is incomplete.
    `controllers` are congestion controllers in Python: `FILE.py:CLASS` by name. Without `report` the runs have
    no report.html.

    Raises:
        InputError: the scenario, or `out`, cannot be used; nothing was run and nothing written.
        OSError: `out` could not be written. Complete runs stay; seeds.json is not written. The same holds for:
        MemoryError: a run had too little memory.
        RunFailed: a run ended without a result.
    """
    # Errors of input do not depend on the seed; the runs load the scenario again in their own processes.
    load(scenario, sets=sets, seed=seeds[0], controllers=controllers)
    source = _Source(scenario, tuple(sets), dict(controllers or {}), report)
    with claimed(out) as folder:
        return _run_all(source, seeds, folder.path, jobs, progress)


class _Source(NamedTuple):
    scenario: str
    sets: tuple[str, ...]
    controllers: dict[str, str]
    report: bool


def _run_all(
    source: _Source, seeds: Sequence[int], out: Path, jobs: int, progress: OnShare | None
) -> SeedRuns:
    done = SeedRuns(out)
    share = progress or (lambda seed, share: None)
    try:
        with Driver(jobs=jobs, share=share) as driver:
            calls = ((seed, (_run_one, source, seed, _folder(out, seed))) for seed in seeds)
            for seed, future in driver.futures(calls):
                try:
                    # This comes first, so that an interrupt does not remove the folder of a complete run.
                    done.summaries[seed] = result_of(f"with seed {seed}", future)
                except Exception as error:
                    raise _error_of_seed(seed, error) from None
    except KeyboardInterrupt:
        done.interrupted = True
    finally:
        with interrupts.noted():
            for seed in set(seeds) - set(done.summaries):
                for rest in (*out.glob(f".seed-{seed}.*"), _folder(out, seed)):
                    shutil.rmtree(rest, ignore_errors=True)
    if done.summaries:
        written = {"figures": done.figures(), "seeds": sorted(done.summaries)}
        words = json.dumps(written, indent=1, sort_keys=True, allow_nan=False)
        replace_file(out / "seeds.json", (words + "\n").encode())
    return done


def _folder(out: Path, seed: int) -> Path:
    return out / f"seed-{seed}"


def _run_one(source: _Source, seed: int, out: Path) -> dict[str, Any]:
    """The task of a process: runs one seed, writes the folder, and returns the figures."""
    checked = load(source.scenario, sets=source.sets, seed=seed, controllers=source.controllers)
    result = run_checked(checked, None, reporting(seed, checked.run.duration))
    result.write(out, source.report)
    return result.summary


def _error_of_seed(seed: int, error: Exception) -> Exception:
    if isinstance(error, (OSError, RunFailed)):
        return error
    if isinstance(error, MemoryError):
        return MemoryError(f"seed {seed}")
    return RunFailed(f"seed {seed}: {' '.join(str(error).split()) or type(error).__name__}")
