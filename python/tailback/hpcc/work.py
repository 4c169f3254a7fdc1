"""A run whose messages come from the front end of ASTRA-sim or SimAI, on the HPCC simulator's network model or
Tailback's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from tailback.errors import InputError

if TYPE_CHECKING:
    from tailback._engine import HpccRecording, Progress, Recording


class WorkRecording(NamedTuple):
    """The engine's recording, finished ranks (rank, ns, ns computed), and the simulator's output files."""

    recording: Recording
    finished: list[tuple[int, int, int]]
    outputs: dict[str, bytes | BinaryIO]


class WorkRun:
    """A run in the engine. The work may prove impossible during the run."""

    def __init__(self, workload: str | os.PathLike[str], make: Callable[[], Any], native: bool) -> None:
        """`make` returns the engine's simulation, or raises a ValueError with `place: problem`."""
        self._file = os.fspath(workload)
        self._native = native
        try:
            self._simulation = make()
        except ValueError as error:
            place, _, problem = str(error).partition(": ")
            raise InputError.at(place, problem) from None

    def advance(self, max_events: int) -> Progress:
        try:
            progress: Progress = self._simulation.advance(max_events)
        except ValueError as error:
            raise InputError.at(self._file, str(error)) from None
        return progress

    def keep_in(self, folder: str) -> None:
        self._simulation.keep_in(folder)

    def finish(self) -> WorkRecording:
        if self._native:
            finished = self._simulation.ranks_finished()
            return WorkRecording(self._simulation.finish(), finished, {})
        recorded = self._simulation.finish()
        return WorkRecording(recorded.recording, recorded.finished, own_files(recorded))


def own_files(recorded: HpccRecording) -> dict[str, bytes | BinaryIO]:
    """`fct.txt` and `pfc.txt` of a run. A long `fct.txt` stays in the file that the engine has written."""
    # Arrow takes a tenth of a second to load; reading the files does not need it.
    from tailback.hpcc.outputs import FCT_FILE, PFC_FILE, pfc_text

    fct = recorded.fct if recorded.fct_file is None else recorded.fct_file.open("rb")
    return {FCT_FILE: fct, PFC_FILE: pfc_text(recorded.pfc)}
