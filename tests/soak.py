"""Runs drawn scenarios and checks each: `python tests/soak.py --seed 7 --runs 5000`.

A line for each failure holds the command that repeats it. That one makes the scenario small, too.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import yaml
from drawn import Drawn, draw
from drawn_runs import failures
from tailback.errors import InputError

RENDERED_EVERY = 8
"""Every so many runs are written, with their report: what takes the longest."""
SLICE = 40
MOST_TRIALS = 400


def run(seed: int, number: int) -> list[str]:
    """What is wrong with the run of this number."""
    return failures(draw(seed, number), number % RENDERED_EVERY == 0)


def _slice(seed: int, first: int, end: int) -> list[tuple[int, list[str]]]:
    return [(number, found) for number in range(first, end) if (found := run(seed, number))]


def name_of(failure: str) -> str:
    """What a failure is called, without its figures."""
    return re.sub(r"\d+", "#", failure.split(": ")[0])


def smaller(drawn: Drawn, fails: Callable[[Drawn], bool]) -> Drawn:
    """As much of a scenario taken out as can be while it fails."""
    trials = 0
    again = True
    while again:
        again = False
        for data in _cuts(drawn.data):
            trials += 1
            if trials > MOST_TRIALS:
                return drawn
            candidate = Drawn(drawn.name, data, drawn.files)
            try:
                candidate.load()
            except (InputError, OSError):
                continue
            if fails(candidate):
                drawn, again = candidate, True
                break
    return drawn


def _cuts(data: Any) -> Iterator[Any]:
    """The scenario without one of its values, the largest parts first; then with one number halved."""

    def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, inner in items:
            yield (*path, key)
            yield from places(inner, (*path, key))

    def at(copied: Any, path: tuple[Any, ...]) -> Any:
        for part in path:
            copied = copied[part]
        return copied

    every = sorted(places(data), key=len)
    for path in every:
        copied = copy.deepcopy(data)
        del at(copied, path[:-1])[path[-1]]
        yield copied
    for path in every:
        value = at(data, path)
        number = re.fullmatch(r"(\d+)(.*)", str(value)) if not isinstance(value, (bool, float)) else None
        if number and int(number[1]) > 1 and path[-1] != "seed":
            copied = copy.deepcopy(data)
            half = f"{int(number[1]) // 2}{number[2]}"
            at(copied, path[:-1])[path[-1]] = int(half) if isinstance(value, int) else half
            yield copied


def repeat(seed: int, number: int, small: bool) -> int:
    """Runs one again, and prints it as small as it fails."""
    drawn, rendered = draw(seed, number), number % RENDERED_EVERY == 0
    found = failures(drawn, rendered)
    for line in found:
        print(line)
    if found and small:
        name = name_of(found[0])
        drawn = smaller(drawn, lambda one: name in map(name_of, failures(one, rendered)))
    for file, text in drawn.files.items():
        print(f"# {file}:", *text.splitlines(), sep="\n#   ")
    print(yaml.safe_dump(drawn.data, sort_keys=False, default_flow_style=None), end="")
    if found and small:
        print(*(f"# {line}" for line in failures(drawn, rendered)), sep="\n")
    return 1 if found else 0


def soak(seed: int, first: int, runs: int, jobs: int) -> int:
    """Runs many, and prints a line for each that fails."""
    done = failed = 0
    names: Counter[str] = Counter()
    with ProcessPoolExecutor(jobs) as pool:
        slices = [(at, min(at + SLICE, first + runs)) for at in range(first, first + runs, SLICE)]
        tasks = {pool.submit(_slice, seed, *one): one for one in slices}
        for task in as_completed(tasks):
            begin, end = tasks[task]
            for number, found in task.result():
                failed += 1
                names.update({name_of(line) for line in found})
                command = f"python tests/soak.py --seed {seed} --run {number}"
                print(f"\r{command}  # {found[0]}" + f" (and {len(found) - 1} more)" * (len(found) > 1))
            done += end - begin
            print(f"\r{done} of {runs} runs, {failed} failed", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"seed {seed}: {done} runs, {failed} failed")
    for name, count in names.most_common():
        print(f"{count:6d}  {name}")
    return 1 if failed else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--run", type=int, help="only this one, made small if it fails")
    parser.add_argument("--whole", action="store_true", help="with --run: as it was drawn")
    given = parser.parse_args()
    if given.run is not None:
        return repeat(given.seed, given.run, not given.whole)
    return soak(given.seed, given.first, given.runs, given.jobs)


if __name__ == "__main__":
    sys.exit(main())
