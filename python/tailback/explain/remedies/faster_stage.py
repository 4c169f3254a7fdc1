"""A faster stage: a tier of links, or the same part of all hosts or bridges, with twice its capacity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tailback.explain.remedies import Case, Remedy
from tailback.explain.remedies.patches import doublings, links, together
from tailback.explain.stages import Stage


def remedies(case: Case) -> Iterator[Remedy]:
    """Every tier and part that traffic passes: which of them is slow is what the trials are to find."""
    yield from _tiers(case)
    parts: dict[str, dict[str, Remedy]] = {}
    for (kind, where), double in doublings(case.plan).items():
        if kind != "link":
            parts.setdefault(kind, {})[where] = Remedy(kind, "", "", edit=double, where=where)
    for kind, singles in parts.items():
        group = case.verdict.groups.name(Stage(kind, "", 0.0, False))
        edits = [one.edit for one in singles.values() if one.edit is not None]
        yield Remedy(kind, "", "", edit=partial(together, doubles=edits), where=group, singles=singles)


def _tiers(case: Case) -> Iterator[Remedy]:
    tiers: dict[str, list[int]] = {}
    for number, link in enumerate(case.plan["links"]):
        name = case.verdict.groups.tier.get(frozenset((link["a"], link["b"])))
        if name is not None:
            tiers.setdefault(name, []).append(number)
    for name, numbers in tiers.items():
        if ("link", name) not in case.stages_of:
            continue
        singles: dict[str, Remedy] = {}
        for number in numbers:
            a, b = case.plan["links"][number]["a"], case.plan["links"][number]["b"]
            one = Remedy("link", "", "", edit=partial(links, numbers=[number]))
            singles |= {where: replace(one, where=where) for where in (f"{a}:{b}", f"{b}:{a}")}
        yield Remedy("link", "", "", edit=partial(links, numbers=numbers), where=name, singles=singles)
