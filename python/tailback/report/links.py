"""How busy links were: by tier as a table, and between switches as heat."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tailback import text
from tailback.explain.groups import HOST_TIER, Groups
from tailback.explain.observed import Observed
from tailback.explain.stages import FULL_BUSY_SHARE
from tailback.explain.ways import Port
from tailback.recorded.bins import Array
from tailback.recorded.run import Recorded
from tailback.report.figures import Figure, Json, Plot, View, layout, pack
from tailback.report.tables import TextTable
from tailback.report.tailback_chart import QUEUE_COLORS

UP, DOWN = "up", "down"
ROW_PX = 18
LEAST_PX, MOST_PX = 170, 560
MOST_NAMES = 24
"""More names than this beside a heat map lie over each other."""


@dataclass(frozen=True)
class Side:
    """The ports of a tier in one direction, each with its busy share, and by the switch that chooses."""

    tier: str
    direction: str
    uses: dict[Port, float]

    @property
    def by_lower(self) -> dict[str, dict[str, float]]:
        """Lower node, upper node, busy share."""
        found: dict[str, dict[str, float]] = defaultdict(dict)
        for (a, b), use in self.uses.items():
            low, high = (a, b) if self.direction == UP else (b, a)
            found[low][high] = use
        return found

    @property
    def imbalance(self) -> tuple[str, float] | None:
        """Of the lower node whose links to or from above differ most: its name, and its busiest link over
        the mean of all of them; None where no node has several.
        """
        ratios = {
            node: max(uses.values()) * len(uses) / sum(uses.values())
            for node, uses in self.by_lower.items()
            if len(uses) > 1 and any(uses.values())
        }
        worst = max(ratios, key=lambda node: ratios[node], default=None)
        return None if worst is None else (worst, ratios[worst])


def sides(result: Recorded) -> tuple[list[Side], tuple[float, float]]:
    """Every tier in both directions, hosts first, and the part of the run in seconds that it is about."""
    seen = Observed(result)
    groups = Groups(seen)
    level, tier = groups.levels, groups.tier
    found: dict[tuple[int, str, str], dict[Port, float]] = defaultdict(dict)
    for wire in seen.network.wires:
        for port in ((wire.a, wire.b), (wire.b, wire.a)):
            low = level.get(port[0], 0) <= level.get(port[1], 0)
            use = min(1.0, seen.wire_share(port)) if port in seen.sent_by else 0.0
            found[min(level.get(end, 0) for end in port), tier[frozenset(port)], UP if low else DOWN][
                port
            ] = use
    order = sorted(found, key=lambda key: (key[0], key[1], key[2] == DOWN))
    return [Side(name, direction, found[key]) for key in order for _, name, direction in [key]], seen.span


def links(result: Recorded) -> tuple[list[Plot], TextTable]:
    """Heat between switches, where there are several, and a row a tier and direction."""
    if len(result.setup.network.wires) < 2 or not result.counters.num_rows:
        return [], _table([], (0.0, 0.0))
    every, span = sides(result)
    return _heat(result, every, span), _table(every, span)


def _table(every: list[Side], span: tuple[float, float]) -> TextTable:
    rows = []
    for side in every:
        uses = np.array(list(side.uses.values()))
        busiest = max(side.uses, key=lambda port: side.uses[port])
        uneven = side.imbalance if side.tier != HOST_TIER else None
        rows.append(
            [
                "hosts" if side.tier == HOST_TIER else side.tier,
                side.direction,
                text.count(len(uses)),
                text.share(float(uses.mean())),
                text.share(float(uses.min())),
                text.share(float(uses.max())),
                f"{busiest[0]} to {busiest[1]}" if uses.any() else text.MISSING,
                text.count(int((uses >= FULL_BUSY_SHARE).sum())),
                text.MISSING if uneven is None else f"{text.significant(uneven[1])} at {uneven[0]}",
            ]
        )
    return TextTable(
        "links",
        "Links, by tier",
        f"Busy share of each link's wire, from {text.duration(span[0])} to {text.duration(span[1])}, when "
        "most of the traffic was delivered. Up is away from the hosts. ECMP imbalance: the busiest of the "
        "links that a switch has upwards, or that lead down to it, over the mean of them, where that is "
        "most; 1 is even.",
        ["Tier", "Direction", "Links", "Mean", "Least", "Most", "Busiest", "Full", "ECMP imbalance"],
        rows,
        [False, False, True, True, True, True, False, True, True],
    )


def _heat(result: Recorded, every: list[Side], span: tuple[float, float]) -> list[Plot]:
    figures = []
    for number, side in enumerate(every):
        # Of hosts at a single switch the table says it all.
        if side.tier != HOST_TIER and len(side.uses) > 1 and any(side.uses.values()):
            figures.append(_figure(result, number, side))
    if not figures:
        return []
    words = (
        f"Busy share of each link between switches, {text.duration(span[0])} to {text.duration(span[1])}: a "
        "row for each switch below, a column for each above, or for each of its links where not all are "
        "connected. An uneven row is what ECMP's choice of routes made of it."
    )
    return [Plot("heat", "Links between switches", words, figures)]


def _figure(result: Recorded, number: int, side: Side) -> Figure:
    lower = side.by_lower
    rows = sorted(lower, key=text.natural)
    upper = sorted({name for one in lower.values() for name in one}, key=text.natural)
    meshed = all(len(one) == len(upper) for one in lower.values())
    width = len(upper) if meshed else max(len(one) for one in lower.values())
    heat: Array = np.full((len(rows), width), np.nan)
    names = [[""] * width for _ in rows]
    for y, low in enumerate(rows):
        for x, high in enumerate(upper if meshed else sorted(lower[low], key=text.natural)):
            heat[y, x] = lower[low][high] * 100
            names[y][x] = f"{low} to {high}" if side.direction == UP else f"{high} to {low}"
    height = int(min(MOST_PX, max(LEAST_PX, ROW_PX * len(rows) + 70)))
    data: list[Json] = [
        {
            "type": "heatmap",
            "z": pack(heat),
            "customdata": names,
            "coloraxis": "coloraxis",
            "xgap": 1 if width <= MOST_NAMES else 0,
            "ygap": 1 if len(rows) <= MOST_NAMES else 0,
            "hoverongaps": False,
            "hovertemplate": "%{customdata}: %{z:.1f} %<extra></extra>",
        }
    ]
    look = layout(View(result), "Below (name)", (len(rows) - 0.5, -0.5), height=height)
    look["yaxis"] |= _names(rows) | {"rangemode": "normal", "showgrid": False, "automargin": True}
    look["xaxis"] |= _names(upper if meshed else [str(i + 1) for i in range(width)]) | {
        "range": [-0.5, width - 0.5]
    }
    look["xaxis"]["title"] = {
        **look["xaxis"]["title"],
        "text": "Above (name)" if meshed else "Link of the switch (rank)",
    }
    look["margin"] = {**look["margin"], "r": 60}
    look["coloraxis"] = {
        "cmin": 0,
        "cmax": 100,
        "colorscale": [[i / (len(QUEUE_COLORS) - 1), color] for i, color in enumerate(QUEUE_COLORS)],
        "colorbar": {
            "thickness": 10,
            "ticksuffix": " %",
            "nticks": 5,
            "outlinewidth": 0,
            "tickfont": {"size": 11},
        },
    }
    uses = np.array(list(side.uses.values()))
    label = (
        f"Busy share of {text.plural(len(uses), 'link')} of {side.tier}, {side.direction}: mean "
        f"{text.share(float(uses.mean()))}, from {text.share(float(uses.min()))} to "
        f"{text.share(float(uses.max()))}. The table Links, by tier, has more."
    )
    return Figure(f"heat-{number}", f"{side.tier}, {side.direction}", label, height, data, look)


def _names(names: list[str]) -> Json:
    every = -(-len(names) // MOST_NAMES)
    places = list(range(0, len(names), every))
    return {"tickvals": places, "ticktext": [names[place] for place in places], "nticks": 0}
