"""`tailback signals`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tailback import text
from tailback.cli.basics import command_app, echo
from tailback.cli.common import bad_input
from tailback.notebook import as_text
from tailback.recorded.bins import PS_PER_S
from tailback.run_folder import read_run, reading

app = command_app()

MAX_ROWS_PER_SIGNAL = 10


@app.command()
def signals(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print all of them as JSON.")] = False,
) -> None:
    """Print the congestion signals between nodes.

    Signals are marks, pauses, CNPs, NAKs, delay probes, stalls and drops. There is a line for each signal,
    queue and pair of nodes, the most frequent first. signals.parquet has their times.
    """
    with bad_input(), reading(folder):
        rows = read_run(folder).signal_log.summed()
    echo(json.dumps(rows, indent=2) if as_json else _words(rows))


def _words(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "There were no signals."
    shown = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("Signal", "Queue", "From", "To", "How much", "First", "Last"):
        shown.add_column(name, justify="right" if name == "How much" else "left", no_wrap=True)
    left, number = 0, dict.fromkeys((row["signal"] for row in rows), 0)
    for row in rows:
        number[row["signal"]] += 1
        if number[row["signal"]] > MAX_ROWS_PER_SIGNAL:
            left += 1
            continue
        much = (
            text.count(row["count"])
            if row["duration_ps"] is None
            else text.duration(row["duration_ps"] / PS_PER_S)
        )
        times = (text.duration(row[name] / PS_PER_S) for name in ("first_ps", "last_ps"))
        shown.add_row(row["signal"], row["queue"] or "", row["from"] or "", row["to"] or "", much, *times)
    return as_text(shown) + (f"\n{text.plural(left, 'more row')}: --json has all." if left else "")
