"""A comparison as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tailback import text
from tailback.comparison.differences import Figure, FlowChanges
from tailback.comparison.tables import ComparisonTables
from tailback.metrics import in_words

MAX_SETTINGS = 20
VERDICT_STYLES = {"differs": "bold", "noise": "dim", "same": "dim"}


def rendered(comparison: ComparisonTables) -> RenderableType:
    parts: list[RenderableType] = [_sides(comparison)]
    for heading, table, none in (
        ("Settings that differ", _settings(comparison), "none: differences come from seeds or versions"),
        ("Bottleneck", _stuck(comparison), ""),
        ("Figures", _figures(comparison), "none"),
        ("Findings that differ", _findings(comparison), "none"),
        ("Paired flows", _flows(comparison), ""),
    ):
        parts += ["", Text(heading, style="bold")]
        parts.append(table if table.row_count else Text(f"  {none}", style="dim"))
    if (note := note_on_seeds(comparison)) is not None:
        parts += ["", Text(note, style="dim")]
    return Group(*parts)


def note_on_seeds(comparison: ComparisonTables) -> str | None:
    """A note where sides have too few common seeds to detect noise."""
    first = comparison.sides[0]
    if all(len(first.runs.keys() & side.runs.keys()) > 1 for side in comparison.sides):
        return None
    return (
        "Differences may be noise: to know, at least two seeds must be on both sides. "
        "Run both with --seeds 1..4, and compare those folders."
    )


def _table(columns: Sequence[str], right: bool = False) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if right and number else "left", overflow="fold")
    return table


def _sides(comparison: ComparisonTables) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for side in comparison.sides:
        seeds = ", ".join(map(str, list(side.runs)[:8])) + (", ..." if len(side.runs) > 8 else "")
        what = f"{side.first.name}, {'seed' if len(side.runs) == 1 else 'seeds'} {seeds}"
        table.add_row(Text(side.label, style="bold"), Text(side.name), Text(what, style="dim"))
    return table


def _settings(comparison: ComparisonTables) -> Table:
    table = _table(["", *(side.label for side in comparison.sides)])
    rows = comparison.settings_that_differ
    for row in rows[:MAX_SETTINGS]:
        table.add_row(row.name, *map(Text, row.values))
    if len(rows) > MAX_SETTINGS:
        table.add_row(Text(f"and {len(rows) - MAX_SETTINGS} more: --json has all", style="dim"))
    return table


def _stuck(comparison: ComparisonTables) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for side, one in zip(comparison.sides, comparison.stuck, strict=True):
        often = f" In {one.same} of {one.runs} seeds." if one.runs > 1 else ""
        sure = one.sure.partition(":")[0]
        table.add_row(Text(f"  {side.label}", style="bold"), Text(f"{one.headline} {sure}.{often}"))
    return table


def _figures(comparison: ComparisonTables) -> Table:
    further = comparison.sides[1:]
    several = all(len(side.runs) > 1 for side in comparison.sides)
    table = _table([""], right=True)
    for side in comparison.sides:
        table.add_column(side.label, justify="right", no_wrap=True)
    for side in further:
        table.add_column(f"{side.label} to A", justify="right", no_wrap=True)
        if several:
            table.add_column("")
    for figure in comparison.main_figures:
        cells: list[RenderableType] = [Text(spread(figure, at)) for at in range(len(comparison.sides))]
        for at in range(1, len(comparison.sides)):
            verdict = figure.verdict(at)
            cells.append(Text(change(figure, at), style=VERDICT_STYLES.get(verdict, "")))
            if several:
                cells.append(Text(verdict, style=VERDICT_STYLES.get(verdict, "")))
        table.add_row(figure.name, *cells)
    return table


def spread(figure: Figure, at: int) -> str:
    """'92.1 Gbit/s'; with several seeds '92.1 Gbit/s (91.8 to 92.3)'."""
    values, mean = list(figure.values[at].values()), figure.means[at]
    if mean is None:
        return text.MISSING
    words = in_words(mean, figure.unit)
    if len(values) < 2 or min(values) == max(values):
        return words
    return f"{words} ({in_words(min(values), figure.unit)} to {in_words(max(values), figure.unit)})"


def change(figure: Figure, at: int) -> str:
    """'+3.1 %', '2.4 x', 'same', or '' without a ratio."""
    share = figure.change(at)
    if share is None or not math.isfinite(share):
        return "same" if figure.verdict(at) == "same" else ""
    if share == 0:
        return "same"
    return (
        f"{text.significant(share + 1, 2)} x"
        if share > 1
        else f"{100 * share:+.{1 if abs(share) < 0.1 else 0}f} %"
    )


def _findings(comparison: ComparisonTables) -> Table:
    table = _table(["", *(side.label for side in comparison.sides)], right=True)
    tones = {"fault": "bold red", "warning": "yellow"}
    for row in comparison.findings_that_differ:
        shown = zip(row.figures, row.tones, strict=True)
        table.add_row(row.what, *(Text(one or text.MISSING, tones.get(tone, "")) for one, tone in shown))
    return table


def _flows(comparison: ComparisonTables) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in comparison.flow_changes:
        table.add_row(Text(f"  {one.side}", style="bold"), Text(flows_in_words(one)))
        for flow in one.extremes:
            table.add_row("", Text(f"  {flow_in_words(flow, one.measure)}", style="dim"))
    return table


def flows_in_words(one: FlowChanges) -> str:
    """'81 flows are in A and B; ...'."""
    words = f"{text.plural(one.paired, 'flow')} {'is' if one.paired == 1 else 'are'} in A and {one.side}"
    if one.only_first or one.only_here:
        words += f", {text.count(one.only_first)} in A only, {text.count(one.only_here)} in {one.side} only"
    if not one.measure:
        return f"{words}."
    more, less = ("longer", "shorter") if one.measure == "completion time" else ("higher", "lower")
    equal = one.compared - one.higher - one.lower
    assert one.median is not None
    return (
        f"{words}. Their {one.measure} in {one.side} is {more} for {text.count(one.higher)}, {less} for "
        f"{text.count(one.lower)}, the same for {text.count(equal)}; the median is "
        f"{text.significant(one.median)} times that in A."
    )


def flow_in_words(flow: dict[str, Any], measure: str) -> str:
    """'poisson0, h5 to h27, number 0: 1.2 ms, then 3.4 ms (2.8 x)'."""
    say = (lambda value: text.duration(value / 1e12)) if measure == "completion time" else text.rate
    seed = "" if flow["seed"] is None else f", seed {flow['seed']}"
    name = f"{flow['item']}, {flow['src']} to {flow['dst']}, number {flow['index']}{seed}"
    return f"{name}: {say(flow['first'])}, here {say(flow['here'])} ({text.significant(flow['ratio'])} x)"
