"""A sample of every failure point; `make failure-points` tries all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent / "failure_points" / "enumerate.py"


@pytest.mark.skipif(sys.platform != "linux", reason="what is preloaded is written for Linux")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no cc to build what is preloaded")
def test_whatever_fails_leaves_the_whole_a_part_or_nothing() -> None:
    command = [sys.executable, str(TOOL), "--every", "16"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *cases, last = done.stdout.splitlines()
    assert len(cases) == 6
    assert int(last.split()[0]) > 100
    assert " 0 broke a promise" in last
