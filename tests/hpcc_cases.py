"""Runs folders of cases of the HPCC simulator and says whether its outputs come out equal to the byte.

`python tests/hpcc_cases.py FOLDER...`: each folder is a case, or holds cases. A line a case: lines of its
outputs, CPU seconds, how many times as long that simulator took (its `counters.txt`), and the first
line that is not equal.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tailback
from tailback.hpcc.inputs import load_inputs

OUTPUTS = ("fct.txt", "pfc.txt", "qlen.txt")


@dataclass(frozen=True)
class Compared:
    """A case: its first difference, if there is one; lines of its outputs; CPU seconds here and there."""

    difference: str
    lines: int
    seconds: float
    theirs: float


def cases(folder: Path) -> Iterator[Path]:
    """The cases in a folder, or the folder itself."""
    if (folder / "config.txt").is_file():
        yield folder
        return
    yield from sorted(path.parent for path in folder.glob("*/config.txt"))


def compare(case: Path) -> Compared:
    """Runs a case."""
    inputs = load_inputs(case / "config.txt", beside=True)
    start = time.process_time()
    result = tailback.run_hpcc(inputs)
    seconds = time.process_time() - start
    lines, difference = 0, ""
    for name in OUTPUTS:
        path = case / name
        ours = result.outputs.get(name, b"")
        # An empty output may be left out of a case, and no case has an empty queue-length file.
        if not path.is_file() and (name == "qlen.txt" or not ours):
            continue
        theirs = path.read_bytes() if path.is_file() else b""
        lines += theirs.count(b"\n")
        difference = difference or first_difference(name, ours, theirs)
    return Compared(difference, lines, seconds, recorded_seconds(case))


def first_difference(name: str, ours: bytes, theirs: bytes) -> str:
    """The first line that is not equal; nothing if all are."""
    if ours == theirs:
        return ""
    here, there = ours.decode().splitlines(), theirs.decode().splitlines()
    for number, (our, their) in enumerate(zip(here, there, strict=False), 1):
        if our != their:
            return f"{name}:{number}: {our!r}, expected {their!r}"
    return f"{name}: {len(here)} lines, expected {len(there)}"


def recorded_seconds(case: Path) -> float:
    """CPU seconds that that simulator took; not a number where they were not recorded."""
    path = case / "counters.txt"
    for line in path.read_text().splitlines() if path.is_file() else ():
        words = line.split()
        if words[0] == "run_cpu_s":
            return float(words[1])
    return float("nan")


def main() -> int:
    """1 if any case is not equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path)
    unequal = 0
    for case in (case for folder in parser.parse_args().folder for case in cases(folder)):
        found = compare(case)
        unequal += found.difference != ""
        times = f"{found.seconds:8.3f} s {found.theirs / found.seconds:6.1f} x"
        print(f"{case.name:32}{found.lines:8,} lines {times}  {found.difference or 'equal'}", flush=True)
    return int(unequal > 0)


if __name__ == "__main__":
    sys.exit(main())
