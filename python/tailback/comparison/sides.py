"""The sides of a comparison: each is a run, or runs with several seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tailback.errors import InputError
from tailback.files.out_folder import SUMMARY_FILE
from tailback.recorded.run import Recorded
from tailback.run_folder import read_run, reading

RunInput = str | os.PathLike[str] | Recorded
SideInput = RunInput | Sequence[RunInput]
"""A result, the folder of a run or of several seeds, or several of these."""

Computed = TypeVar("Computed")

SIDE_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SEED_FOLDER_PREFIX = "seed-"


@dataclass(frozen=True)
class Side:
    """A side: `label` is its letter, `name` the folder or result that the user gave."""

    label: str
    name: str
    runs: Mapping[int, Recorded]
    """By seed, in ascending order."""

    @property
    def first(self) -> Recorded:
        """The run with the lowest seed, which represents the side where a single run is needed."""
        return next(iter(self.runs.values()))


def sides(given: Sequence[SideInput]) -> list[Side]:
    """Reads all sides and gives them letters in their order.

    Raises:
        InputError: there are fewer than two or more than 26, or one is not the folder of a run or of runs.
    """
    if not 2 <= len(given) <= len(SIDE_LETTERS):
        raise InputError.at("", f"found {len(given)} to compare, expected 2 to {len(SIDE_LETTERS)}")
    return [_side(label, one) for label, one in zip(SIDE_LETTERS, given, strict=False)]


def for_each_side(sides: Sequence[Side], make: Callable[[Side], Computed]) -> list[Computed]:
    """Calls `make` for each side.

    Raises:
        InputError: the files of a side are damaged; the message names the side.
    """
    made = []
    for side in sides:
        with reading(side.name):
            made.append(make(side))
    return made


def _side(label: str, given: SideInput) -> Side:
    several = [given] if isinstance(given, (str, os.PathLike, Recorded)) else list(given)
    if not several:
        raise InputError.at("", "found an empty list, expected the runs of a side")
    runs: dict[int, Recorded] = {}
    for result in (result for one in several for result in _runs(one)):
        with reading(result.name if isinstance(given, Recorded) else str(given)):
            seed = int(result.meta["seed"])
        if seed in runs:
            raise InputError.at("", f"found seed {seed} twice on side {label}, expected each seed once")
        runs[seed] = result
    name = ", ".join(one.name if isinstance(one, Recorded) else os.fspath(one) for one in several)
    return Side(label, name, dict(sorted(runs.items())))


def _runs(one: RunInput) -> list[Recorded]:
    if isinstance(one, Recorded):
        return [one]
    folder = Path(one)
    if not folder.exists():
        raise InputError.at(str(folder), "found no such folder, expected the folder of a run")
    inside = sorted(file.parent for file in folder.glob(f"{SEED_FOLDER_PREFIX}*/{SUMMARY_FILE}"))
    if inside and not (folder / SUMMARY_FILE).is_file():
        return [read_run(run) for run in inside]
    return [read_run(folder)]
