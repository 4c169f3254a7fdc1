"""The table that a run ends with in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tailback import text
from tailback.metrics import Finding, findings
from tailback.recorded.run import Recorded


def rows_of(found: Iterable[Finding]) -> Table:
    """One row a finding."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found:
        style = {"fault": "bold red", "warning": "yellow"}.get(finding.tone, "")
        table.add_row(finding.what, Text(finding.figure, style=style), Text(finding.words, style="dim"))
    return table


def closing_table(result: Recorded) -> Table:
    """One row a finding, the same as the report begins with; faults and a partial run stand first."""
    table = rows_of(findings(result))
    if (live := result.meta.get("live")) is not None:
        table.add_row("Clock", *_clock(live, result))
        return table
    if result.meta.get("lab") is not None:  # nothing was simulated
        return table
    table.add_row(
        "Speed",
        f"{text.significant(result.hops_per_cpu_s / 1e6)} M/s",
        f"packet-hops per CPU-second; took {text.duration(result.wall_s)} for "
        f"{text.duration(result.bins.end_s)} simulated",
    )
    return table


def _clock(live: Mapping[str, Any], result: Recorded) -> tuple[str, str]:
    """Of a run with real packets: how slow its clock was, and how far from even."""
    took = live["ran_s"] + live["stood_s"]
    figure = "real time" if live["slowdown"] == 1 else f"1 / {text.significant(live['slowdown'])}"
    late = live["late_ns"]
    words = (
        f"of real time; {text.duration(result.bins.end_s)} took {text.duration(took)}, of which the clock "
        f"stood still for {text.duration(live['stood_s'])}, while others had the CPU. Frames left "
        f"{text.duration(late[0] / 1e9)} late, 1 % of them {text.duration(late[1] / 1e9)} or more. "
        f"{text.plural(live['checked_messages'], 'message')} {text.verb(live['checked_messages'], 'was', 'were')} compared with what was sent, "
        f"{text.count(live['wrong_messages'])} of them wrong"
    )
    return figure, words.removeprefix("of real time; ") if live["slowdown"] == 1 else words
