"""Routes that the seed draws are the same on several cores."""

from __future__ import annotations

import tailback


def test_routes_by_seed_are_the_same_on_two_cores() -> None:
    sets = ["run.duration=200us", "run.ecmp_by_seed=true"]
    one, two = (
        tailback.run("roce-fat-tree-all-to-all", sets=sets, seed=3, threads=threads) for threads in (1, 2)
    )
    assert two.flows.equals(one.flows)
    assert two.series.equals(one.series)
