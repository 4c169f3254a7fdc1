"""The outcome of a run of one scenario."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tailback import interrupts
from tailback.cli.common import say, say_json
from tailback.cli.status import DONE, FAULT
from tailback.cli.terminal import echo
from tailback.running import Interrupted

if TYPE_CHECKING:
    from tailback.results import Result


def even_in_part(run: Callable[[], Result]) -> Result:
    """The result of a run, even of one that was interrupted."""
    try:
        return run()
    except Interrupted as interrupted:
        return interrupted.result


def conclude(result: Result, folder: Path, quiet: bool, as_json: bool = False) -> int:
    """Prints the outcome of a run. Returns the exit status."""
    for fault in result.faults:
        echo(f"fault: {fault['kind']} at {fault['where']}: {fault['text']}", err=True)
    # A deadlock also ends a run before its time.
    interrupted = not result.complete and all(fault["kind"] != "deadlock" for fault in result.faults)
    if as_json:
        say_json({"folder": str(folder), **result.summary})
        return interrupts.status() if interrupted else FAULT if result.faults else DONE
    report = folder / "report.html"
    where = str(folder) if quiet else f"\n{report if report.is_file() else folder}"
    say([] if quiet else [result.closing_table()], where)
    return interrupts.status() if interrupted else FAULT if result.faults else DONE
