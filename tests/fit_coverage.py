"""Hides settings of a lab, lets fits look for them, and counts how often their intervals hold them.

`make fit-coverage`: each draw is a lab of its own, observed with an error in runs, and
a whole fit with other seeds, once with one unknown and once with two. No draw has seeds of another: what
those of a fit have in common moves all its points, and one set of them would be one draw.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import tailback
from tailback.executors import Threads
from tailback.study.posterior_rounds import fit

LAB: dict[str, Any] = {
    "name": "lab",
    "run": {"duration": "1ms"},
    "topology": {"kind": "star", "hosts": 4},
    "traffic": [{"kind": "poisson", "load": 0.3, "sizes": "alistorage"}],
}
FREE = {"topology.link.delay": (200e-9, 5e-6), "topology.link.loss": (0.001, 0.05)}
SEEN = {"fct.all.fct_s.p50": ("us", 1e6, 0.2), "losses.retransmitted_share": ("%", 1e2, 1.0)}
"""The unit of each figure in the lab, how many of it one is, and the standard deviation of its error."""
LAB_RUNS = 10


class Held(NamedTuple):
    """Whether the interval of an unknown holds what was hidden."""

    unknowns: int
    setting: str
    hidden: float
    low: float
    high: float

    @property
    def held(self) -> bool:
        return self.low <= self.hidden <= self.high


def in_words(path: str, value: float) -> str:
    return f"{value * 1e12:.0f}ps" if path.endswith("delay") else f"{value:.6f}"


def observed(
    lab: dict[str, Any], hidden: dict[str, float], number: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """What the lab sees: means over runs that no fit makes, and its own error."""
    sets = [f"{path}={in_words(path, value)}" for path, value in hidden.items()]
    runs = [
        tailback.run(lab, sets=sets, seed=100_000 + LAB_RUNS * number + one).summary
        for one in range(LAB_RUNS)
    ]
    seen = []
    for path, (unit, scale, error) in SEEN.items():
        values: list[Any] = []
        for value in runs:
            for part in path.split("."):
                value = value[part]
            values.append(value)
        said = scale * float(np.mean(values)) + error * float(rng.standard_normal())
        seen.append(
            {
                "metric": path.removeprefix("losses."),
                "value": said,
                "unit": unit,
                "tolerance": error,
                "runs": LAB_RUNS,
            }
        )
    return seen


def look(number: int, sizes: str, seeds: int) -> list[Held]:
    """Hides settings, observes and fits: with one unknown, and with two."""
    rng = np.random.default_rng([7, number])
    lab = {**LAB, "traffic": [{**LAB["traffic"][0], "sizes": sizes}]}
    found = []
    for unknowns in (1, 2):
        priors = dict(list(FREE.items())[:unknowns])
        hidden = {
            path: math.exp(rng.uniform(math.log(low), math.log(high))) for path, (low, high) in priors.items()
        }
        result = fit(
            observed(lab, hidden, number, rng)[:unknowns],
            lab,
            free={
                path: {"low": in_words(path, low), "high": in_words(path, high), "scale": "log"}
                for path, (low, high) in priors.items()
            },
            seeds=f"{seeds * number + 1}..{seeds * (number + 1)}",
            executor=Threads(1),
        )
        for (path, value), unknown in zip(hidden.items(), result.found.unknowns, strict=True):
            free = result.asked.free[path]
            found.append(
                Held(unknowns, path, value, float(free.value(unknown.low)), float(free.value(unknown.high)))
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--sizes", default="alistorage")
    parser.add_argument("--seeds", type=int, default=3, help="of each fit")
    asked = parser.parse_args()
    draws = asked.draws
    counted: dict[tuple[int, str], list[bool]] = {}
    with ProcessPoolExecutor() as pool:
        for number, found in enumerate(
            pool.map(look, range(draws), repeat(asked.sizes), repeat(asked.seeds)), 1
        ):
            for one in found:
                counted.setdefault((one.unknowns, one.setting), []).append(one.held)
                if not one.held:
                    print(f"draw {number}, {one.unknowns} unknown: {one}")
            print(f"{number} of {draws}", end="\r", flush=True)
    for (unknowns, setting), held in counted.items():
        print(f"{unknowns} unknown: {setting}: 90 % intervals hold {sum(held)} of {len(held)}")


if __name__ == "__main__":
    main()
