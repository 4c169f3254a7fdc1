"""A run whose messages another simulator's front end sends, in the HPCC simulator's network or natively."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from tailback.errors import InputError

if TYPE_CHECKING:
    from tailback._engine import HpccRecording, Progress, Recording


class Recorded(NamedTuple):
    """What the engine recorded, ranks that finished (rank, ns, ns computed), and that simulator's files."""

    recording: Recording
    finished: list[tuple[int, int, int]]
    outputs: dict[str, bytes | BinaryIO]


class WorkRun:
    """A run; its work may turn out to be impossible."""

    def __init__(self, workload: str | os.PathLike[str], make: Callable[[], Any], native: bool) -> None:
        """`make` gives the engine's simulation, or a ValueError with a place and what is wrong there."""
        self._file = os.fspath(workload)
        self._native = native
        try:
            self._simulation = make()
        except ValueError as error:
            place, _, problem = str(error).partition(": ")
            raise InputError.at(place, problem) from None

    def advance(self, max_events: int) -> Progress:
        """Executes events."""
        try:
            progress: Progress = self._simulation.advance(max_events)
        except ValueError as error:
            raise InputError.at(self._file, str(error)) from None
        return progress

    def keep_in(self, folder: str) -> None:
        """What there is very much of goes to files in this folder."""
        self._simulation.keep_in(folder)

    def finish(self) -> Recorded:
        """Ends the run."""
        if self._native:
            finished = self._simulation.ranks_finished()
            return Recorded(self._simulation.finish(), finished, {})
        recorded = self._simulation.finish()
        return Recorded(recorded.recording, recorded.finished, own_files(recorded))


def own_files(recorded: HpccRecording) -> dict[str, bytes | BinaryIO]:
    """`fct.txt` and `pfc.txt` of a run. A long `fct.txt` is there already, and stays there."""
    # Arrow takes a while to load, and reading the files does not need it.
    from tailback.hpcc.outputs import FCT, PFC, pfc_text

    fct = recorded.fct if recorded.fct_file is None else recorded.fct_file.open("rb")
    return {FCT: fct, PFC: pfc_text(recorded.pfc)}
