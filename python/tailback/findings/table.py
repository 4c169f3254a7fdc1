"""The table that a run ends with in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from tailback import text
from tailback.findings import findings
from tailback.findings.finding import Finding
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
    table.add_row(
        "Speed",
        f"{text.significant(result.hops_per_cpu_s / 1e6)} M/s",
        f"packet-hops per CPU-second; took {text.duration(result.wall_s)} for "
        f"{text.duration(result.bins.end_s)} simulated",
    )
    return table
