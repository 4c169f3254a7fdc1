"""How often `tailback explain` is right: on drawn runs, and on published experiments with their names hidden.

    .venv/bin/python tools/explain_accuracy.py --seed 2 --runs 200 [--wrong]
    .venv/bin/python tools/explain_accuracy.py --published
    .venv/bin/python tools/explain_accuracy.py --world --seed 5 --runs 200 [--family veth] [--wrong]

Truth is the stage whose doubled capacity raises throughput most (tests/explain_truth.py). Verdicts are tried,
as `tailback explain` does unasked with runs so short; with --estimate they are what counters say alone.
docs/explain.md holds the figures of the last full run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import explain_published
import explain_runs
import explain_work
import explain_world
from explain_truth import Key, Truth, answer, find, named, record
from tailback.explain import explain, page_of, trials
from tailback.results import Result


class Row(NamedTuple):
    """A run: what it was, its truth, and what explain said."""

    words: str
    truth: Truth
    said: Key


def drawn(job: tuple[int, int], tried: bool) -> Row:
    """A drawn run of this seed and number."""
    one = explain_runs.draw(*job)
    scenario, plan = one.plan()
    return Row(f"{one.name}: {one.words}", find(plan), answer(scenario, plan, tried))


def published(name: str) -> Row:
    """A published run, tried if that takes less than a minute."""
    return Row(name, *explain_published.judge(name))


class WorldRow(NamedTuple):
    """A run: what it was, what doubling each group gave, what explain named, and what that gave."""

    family: str
    words: str
    gains: dict[tuple[str, str], float]
    said: Key
    gives: float | None
    sure: str
    right: bool


def world(job: tuple[int, int, str | None], tried: bool) -> WorldRow | None:
    """A drawn run of this seed, number and family; nothing where its settings do not go together."""
    one = explain_world.draw(*job)
    try:
        scenario, plan = one.plan()
    except ValueError:
        return None
    result = Result.from_recording(scenario, {**plan, "name": "hidden"}, record(plan), 1.0, 1.0, False)
    verdict = explain(result)
    if tried and trials.why_not(result) is None:
        verdict = trials.tried(result, verdict)
    truth = explain_work.find(plan)
    gives = explain_work.said_gain(truth, verdict, {})
    right = explain_work.judge(truth, verdict.key, gives)
    sure = page_of(result, verdict).sure.split(":")[0]
    return WorldRow(one.family, one.words, truth.gains, verdict.key, gives, sure, right)


def of_world(rows: Iterable[WorldRow | None], wrong: bool) -> str:
    """How often it is right, in each family, and where it is sure."""
    found = [row for row in rows if row is not None]
    lines = [f"{'right':<35} {sum(row.right for row in found)} of {len(found)}"]
    for family in dict.fromkeys(row.family for row in found):
        kept = [row for row in found if row.family == family]
        lines.append(f"{family:<35} {sum(row.right for row in kept)} of {len(kept)}")
    for word in ("Sure", "Fairly sure", "A guess"):
        kept = [row for row in found if row.sure == word]
        lines.append(f"{word:<35} {sum(row.right for row in kept)} of {len(kept)}")
    if wrong:
        for row in found:
            if not row.right:
                gains = sorted(row.gains.items(), key=lambda one: -one[1])[:3]
                shown = ", ".join(f"{' '.join(group)} {gain:+.0%}" for group, gain in gains)
                gives = "" if row.gives is None else f", which gives {row.gives:+.0%}"
                lines.append(f"{row.words} | {shown} | said {' '.join(row.said)}{gives} | {row.sure}")
    return "\n".join(lines)


HOST_PATH = ("pcie", "credits", "memory", "gpu")
"""Stages behind a receiver's NIC. Of memory that cores load and credits that wait for it either is a cause.
"""


def merged(stage: Key) -> Key:
    """The same with a receiver's PCIe, credits, memory and GPU as one stage."""
    return ("host path", stage[1]) if stage[0] in HOST_PATH else stage


def table(rows: Iterable[Row], wrong: bool) -> str:
    """Accuracy in all and by stage, and who was taken for whom."""
    rows = list(rows)
    right = [row for row in rows if row.said == named(row.truth.stage)]
    tied = [row for row in rows if row.said in {named(stage) for stage in row.truth.tied}]
    one = [row for row in rows if merged(row.said) == merged(named(row.truth.stage))]
    counts = {"right": right, "right, either of a tie": tied, "right, a host's path as one stage": one}
    lines = [
        *(
            f"{words:<35} {len(kept)} of {len(rows)} = {len(kept) / len(rows):.1%}"
            for words, kept in counts.items()
        ),
        "",
        "truth      right    of",
    ]
    kinds = Counter(row.truth.stage[0] for row in rows)
    good = Counter(row.truth.stage[0] for row in right)
    lines += [f"{kind:<10} {good[kind]:>5} {count:>5}" for kind, count in sorted(kinds.items())]
    taken = Counter((row.truth.stage[0], row.said[0]) for row in rows if row not in right)
    lines += ["", "truth      taken for   times"]
    lines += [
        f"{a:<10} {b:<10} {count:>5}"
        for (a, b), count in sorted(taken.items(), key=lambda one: (-one[1], one))
    ]
    if wrong:
        for row in rows:
            if row.said != named(row.truth.stage):
                gains = sorted(row.truth.gains.items(), key=lambda one: -one[1])[:3]
                shown = ", ".join(f"{' '.join(stage)} +{gain:.0%}" for stage, gain in gains)
                lines.append(f"{row.words} | {shown} | said {' '.join(row.said)}")
    return "\n".join(lines)


def main() -> None:
    """The command."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seed", type=int, default=2)
    options.add_argument("--runs", type=int, default=200, choices=range(1, 100_001), metavar="N")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--published", action="store_true")
    options.add_argument("--world", action="store_true", help="fabrics, hosts, bridges and namespaces")
    options.add_argument("--family", choices=sorted({*explain_world.OF_EIGHT}), help="one of these only")
    options.add_argument("--estimate", action="store_true", help="verdicts by counters alone, not tried")
    options.add_argument("--wrong", action="store_true", help="list the runs that it got wrong")
    given = options.parse_args()
    with Pool(given.jobs) as pool:
        if given.world:
            jobs = [(given.seed, number, given.family) for number in range(given.runs)]
            print(of_world(pool.imap(partial(world, tried=not given.estimate), jobs), given.wrong))
            return
        if given.published:
            rows = []
            for row in pool.imap(published, explain_published.names()):
                rows.append(row)
                mark = "right" if row.said == named(row.truth.stage) else "WRONG"
                truth, said = " ".join(row.truth.stage), " ".join(row.said)
                print(f"{mark}  {row.words:<45} truth {truth:<28} said {said}", flush=True)
        else:
            of = [(given.seed, number) for number in range(given.runs)]
            rows = pool.map(partial(drawn, tried=not given.estimate), of, chunksize=2)
    print(table(rows, given.wrong))


if __name__ == "__main__":
    main()
