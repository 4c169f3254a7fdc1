"""A line for a shell on a host of a lab: on this machine, or through ssh."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tailback.lab.model import LOCAL_HOST, LabHost

SSH_COMMAND = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
"""No questions: keys and known hosts are the user's own matter."""
COMMAND_TIMEOUT_S = 60.0
"""The longest that a line may take that runs no test."""


def command(host: LabHost, line: str | Sequence[str]) -> list[str]:
    """A line for a shell, or the words of a command, as a process's arguments. No shell reads words here."""
    if host.at == LOCAL_HOST:
        return ["sh", "-c", line] if isinstance(line, str) else list(line)
    return [*SSH_COMMAND, host.at, line if isinstance(line, str) else shlex.join(line)]


def ask(
    host: LabHost, line: str | Sequence[str], patience_s: float = COMMAND_TIMEOUT_S
) -> tuple[int, str, str]:
    """Runs a line or words: status, output, what was said on stderr. 255 is a host that is not reached."""
    try:
        done = subprocess.run(
            command(host, line),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=patience_s,
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"no end within {patience_s:g} s"
    except OSError as error:
        return 255, "", f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return done.returncode, done.stdout, done.stderr


def last_line(said: str) -> str:
    """What a tool said last, which is mostly why."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


@contextmanager
def started(host: LabHost, line: str) -> Iterator[subprocess.Popen[str]]:
    """A line that runs beside others; at the end it is stopped if it still runs."""
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
