"""Libraries that take a tenth of a second or more to load are loaded by commands that use them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TINY = """name: tiny
run: {duration: 25ms}
topology: {kind: star, hosts: 2}
traffic:
  - {kind: write, from: h0, to: h1}
"""
LOADS = """import sys
from tailback.cli import main
status = main(sys.argv[1:])
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
sys.exit(status)
"""


def loaded(folder: Path, *arguments: str) -> set[str]:
    """The modules that are there at the end of a command."""
    command = [sys.executable, "-c", LOADS, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines())


def of(modules: set[str], *packages: str) -> set[str]:
    """Those of some packages."""
    return {one for one in modules if any(one == name or one.startswith(f"{name}.") for name in packages)}


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], ["list"]])
def test_what_needs_no_tables_loads_none(tmp_path: Path, arguments: list[str]) -> None:
    assert not of(loaded(tmp_path, *arguments), "numpy", "pyarrow")


def test_a_run_with_its_report_loads_nothing_heavy_that_it_has_no_use_for(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    modules = loaded(tmp_path, "run", "tiny.yaml", "--quiet", "--out", "out")
    assert of(modules, "tailback.report", "pyarrow.parquet")
    assert not of(modules, "pandas", "ray", "plotly", "scipy", "asyncio")


CONTROLLER = """import pandas
from tailback import Controller

class Mine(Controller):
    pass
"""


@pytest.mark.parametrize("controller", [False, True])
def test_the_command_loads_pandas_only_for_code_of_users(tmp_path: Path, controller: bool) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "mine.py").write_text(CONTROLLER)
    (tmp_path / "pandas.py").write_text("import sys\nprint('pandas', file=sys.stderr)\n__version__ = '0.1'\n")
    words = ["run", "tiny.yaml", "--quiet", "--no-report", "--out", "out"]
    words += ["--controller", "mine.py:Mine"] if controller else []
    done = subprocess.run(
        [sys.executable, "-m", "tailback.cli", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("pandas" in done.stderr) == controller
