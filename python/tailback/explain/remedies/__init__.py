"""The catalogue of remedies: what may help a run, when it is worth trying, and what it changes.

Each file of this folder has a function `remedies(case)` that yields what is worth trying, by the signs in
counters, signals and settings. A remedy is tried by running the scenario again with its change: what it gains
is measured, never estimated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from tailback.explain.remedy import Plan, Remedy
from tailback.explain.sender import Senders
from tailback.explain.stages import Stage, Stages
from tailback.explain.verdict import Verdict, stages_passed
from tailback.explain.ways import Port
from tailback.recorded.setup import TCP
from tailback.recorded.signals import CE_MARK, DROP
from tailback.text import natural

__all__ = ["Case", "Plan", "Remedy", "numbered"]


@dataclass
class Case:
    """A run as remedies see it."""

    verdict: Verdict
    plan: Plan
    scenario: Mapping[str, Any]
    """The scenario with all defaults filled in."""

    def __post_init__(self) -> None:
        self.seen = self.verdict.seen

    @cached_property
    def faults(self) -> list[dict[str, Any]]:
        """Faults of the run."""
        return list(self.seen.result.faults)

    @cached_property
    def listed(self) -> set[str]:
        """Items of single messages."""
        return set(self.seen.result.setup.listed_items)

    def setting(self, path: str) -> Any:
        """A setting of the scenario; None where there is none."""
        found: Any = self.scenario
        for part in path.split("."):
            if isinstance(found, Mapping):
                found = found.get(part)
            else:
                return None
        return found

    @property
    def traffic(self) -> list[Mapping[str, Any]]:
        """The items of traffic."""
        return list(self.scenario.get("traffic") or [])

    def item(self, number: int) -> str:
        """The name of an item of traffic in results."""
        return f"{self.traffic[number]['kind']}{number}"

    @cached_property
    def stages_of(self) -> dict[tuple[str, str], list[Stage]]:
        """By kind and group, the stages that traffic passes, the fullest first."""
        seen, groups = self.seen, self.verdict.groups
        stages = Stages(seen)
        senders = Senders(stages)
        found: dict[tuple[str, str], dict[str, Stage]] = {}
        for pair in seen.pairs:
            for ports, _ in seen.routes(pair):
                passed = stages_passed(stages, senders, pair, ports)
                own = [senders.window(pair), senders.fetched(pair), senders.loss(pair, passed)]
                if pair.ways:
                    own.append(senders.limiter(pair, stages.port(pair.ways[0][0])))
                for stage in [*passed, *(one for one in own if one is not None)]:
                    known = found.setdefault((stage.kind, groups.name(stage)), {})
                    if stage.where not in known or known[stage.where].use < stage.use:
                        known[stage.where] = stage
        return {
            key: sorted(known.values(), key=lambda one: (-one.use, natural(one.where)))
            for key, known in found.items()
        }

    # Signs

    @cached_property
    def drops(self) -> int:
        """Packets dropped in the run."""
        return self.seen.drops

    @cached_property
    def pauses(self) -> int:
        """PFC frames that stopped ports or let them go on."""
        return int(self.seen.meta["packets"]["pfc"])

    @cached_property
    def marks(self) -> int:
        """Packets marked."""
        return self.seen.told_count(CE_MARK)

    @cached_property
    def dropped_at(self) -> dict[Port, float]:
        """Packets that each port dropped, in the span."""
        found = {port: self.seen.port_told(port, DROP) for port in self.seen.egress_of}
        return {port: count for port, count in found.items() if count}

    @cached_property
    def priorities(self) -> dict[str, set[tuple[str, int]]]:
        """By protocol, the items and priorities of flows."""
        found: dict[str, set[tuple[str, int]]] = defaultdict(set)
        flows = self.seen.flows
        if not {"protocol", "priority", "item"} <= set(flows.column_names):
            return found
        table = flows.select(["protocol", "item", "priority"]).group_by(
            ["protocol", "item", "priority"], use_threads=False
        )
        for row in table.aggregate([]).to_pylist():
            found[row["protocol"]].add((row["item"], row["priority"]))
        return found

    @property
    def has_roce(self) -> bool:
        """True if there is RoCE."""
        return (
            bool(pc.any(pc.not_equal(self.seen.flows.column("protocol"), TCP)).as_py())
            if ("protocol" in self.seen.flows.column_names)
            else True
        )

    @cached_property
    def lossless(self) -> list[int]:
        """Priorities under PFC at switches."""
        return list(self.setting("switch.lossless") or [])

    def free_priority(self) -> int | None:
        """A class that no traffic uses and that is neither strict nor lossless."""
        used = {priority for items in self.priorities.values() for _, priority in items}
        used |= {*self.lossless, *(self.setting("switch.strict") or []), *(self.setting("host.strict") or [])}
        cnp = self.setting("host.cnp_priority")
        used |= {cnp} if isinstance(cnp, int) else set()
        return next((number for number in (1, 2, 4, 5, 0, 7, 3) if number not in used), None)

    def down(self) -> list[str]:
        """Links that failed in the run."""
        return list(dict.fromkeys("-".join(sorted(link)) for _, link, up in self.seen.link_changes if not up))


def numbered(case: Case, *kinds: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Items of traffic of these kinds, each with its number in the list."""
    for number, item in enumerate(case.traffic):
        if item["kind"] in kinds:
            yield number, item
