"""What is compared: sides, each a run or the runs of several seeds."""

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

One = str | os.PathLike[str] | Recorded
Given = One | Sequence[One]
"""What a side can be given as: a result, the folder of a run or of several seeds, or several of these."""

Made = TypeVar("Made")

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SEED = "seed-"


@dataclass(frozen=True)
class Side:
    """One of those that are compared. `label` is its letter, `name` what it was given as."""

    label: str
    name: str
    runs: Mapping[int, Recorded]
    """By seed, in their order."""

    @property
    def first(self) -> Recorded:
        """The run of its lowest seed, which stands for it where one run is looked at."""
        return next(iter(self.runs.values()))


def sides(given: Sequence[Given]) -> list[Side]:
    """The sides, with letters in their order.

    Raises:
        InputError: fewer than two or more than 26, or one that is not the folder of a run, or of runs.
    """
    if not 2 <= len(given) <= len(LETTERS):
        raise InputError.at("", f"found {len(given)} to compare, expected 2 to {len(LETTERS)}")
    return [_side(label, one) for label, one in zip(LETTERS, given, strict=False)]


def of_each(sides: Sequence[Side], make: Callable[[Side], Made]) -> list[Made]:
    """Something made of each side.

    Raises:
        InputError: it cannot be made of the files of one; it names that one.
    """
    made = []
    for side in sides:
        with reading(side.name):
            made.append(make(side))
    return made


def _side(label: str, given: Given) -> Side:
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


def _runs(one: One) -> list[Recorded]:
    if isinstance(one, Recorded):
        return [one]
    folder = Path(one)
    if not folder.exists():
        raise InputError.at(str(folder), "found no such folder, expected the folder of a run")
    inside = sorted(file.parent for file in folder.glob(f"{SEED}*/{SUMMARY_FILE}"))
    if inside and not (folder / SUMMARY_FILE).is_file():
        return [read_run(run) for run in inside]
    return [read_run(folder)]
