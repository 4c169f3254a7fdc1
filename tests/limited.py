"""Code in a process of its own that cannot take the machine with it, and what it took."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Any, NamedTuple

MIB = 1 << 20


class Took(NamedTuple):
    """What the code printed as its last line, as JSON; its CPU-seconds, and its peak memory in MiB."""

    said: Any
    cpu_s: float
    peak_mib: int


_AFTER = """
import json, re, resource
_use = resource.getrusage(resource.RUSAGE_SELF)
_peak = int(re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1]) // 1024
print(json.dumps([said, _use.ru_utime + _use.ru_stime, _peak]))
"""


def run(code: str, *arguments: str, memory_mib: int = 4096, cpu_s: int = 100) -> Took:
    """Runs Python code that leaves its answer in `said`; more memory or CPU time than this ends it."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mib * MIB, memory_mib * MIB))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))

    done = subprocess.run(
        [sys.executable, "-c", code + _AFTER, *arguments],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return Took(*json.loads(done.stdout.splitlines()[-1]))
