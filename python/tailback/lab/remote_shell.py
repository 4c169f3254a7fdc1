"""Runs commands on hosts of a lab: on this machine, or through ssh."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tailback.lab.model import LOCAL_HOST, LabHost

SSH_COMMAND = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
"""BatchMode: ssh must not ask; keys and known hosts are set up by the user."""
COMMAND_TIMEOUT_S = 60.0
"""For commands that run no test."""


def command(host: LabHost, line: str | Sequence[str]) -> list[str]:
    """The process arguments for a line of a shell, or for the words of a command, which run without a shell."""
    if host.at == LOCAL_HOST:
        return ["sh", "-c", line] if isinstance(line, str) else list(line)
    return [*SSH_COMMAND, host.at, line if isinstance(line, str) else shlex.join(line)]


def ask(
    host: LabHost, line: str | Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S
) -> tuple[int, str, str]:
    """Runs a line or words; returns status, stdout and stderr. Status 255: the host was not reached."""
    try:
        done = subprocess.run(
            command(host, line),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"no end within {timeout_s:g} s"
    except OSError as error:
        return 255, "", f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return done.returncode, done.stdout, done.stderr


def last_line(said: str) -> str:
    """The last line of a tool's output, usually the reason of a failure."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


@contextmanager
def started(host: LabHost, line: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a line in the background; stops it at the end of the block."""
    process = subprocess.Popen(
        command(host, line),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
