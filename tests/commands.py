"""The command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "tailback.cli"]


def start(*arguments: str | Path, **more: Any) -> subprocess.Popen[str]:
    """Starts it, with both streams caught."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **streams)


def cpu_s(process: subprocess.Popen[str]) -> float:
    """CPU time that it has used; so that nothing depends on what else the machine does."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_it_simulates(process: subprocess.Popen[str], for_s: float = 0.4) -> None:
    """The engine is the last that is loaded; then some CPU time."""
    deadline = time.monotonic() + 90
    begun = None
    while process.poll() is None and time.monotonic() < deadline:
        if begun is None:
            begun = cpu_s(process) if "/_engine" in Path(f"/proc/{process.pid}/maps").read_text() else None
        elif cpu_s(process) >= begun + for_s:
            return
        time.sleep(0.005)
    raise AssertionError("it has not come to simulate")
