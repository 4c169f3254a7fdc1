"""What a command loads: each module that nobody needs costs every run some milliseconds."""

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


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]])
def test_help_loads_no_tables(tmp_path: Path, arguments: list[str]) -> None:
    assert not of(loaded(tmp_path, *arguments), "numpy", "pyarrow", "jinja2")


def test_the_version_is_that_of_the_engine(tmp_path: Path) -> None:
    unused = ("numpy", "pyarrow", "jinja2", "pydantic", "importlib.metadata")
    assert not of(loaded(tmp_path, "--version"), *unused)


def test_the_list_of_scenarios_loads_none(tmp_path: Path) -> None:
    assert not of(loaded(tmp_path, "list"), "numpy", "pyarrow", "jinja2", "tailback.scenario.declared")


def test_a_run_loads_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    modules = loaded(tmp_path, "run", "tiny.yaml", "--quiet", "--no-report", "--out", "out")
    assert of(modules, "tailback._engine", "tailback.summary", "pyarrow.parquet")
    elsewhere = (
        "drawing",
        "explain",
        "findings",
        "report",
        "comparison",
        "executors",
        "sweeps",
        "fitting",
        "tuning",
    )
    others = (
        "astra",
        "simai",
        "hpcc",
        "live",
        "point",
        "captured",
        "reproduce",
        "notebook",
        "trace",
        "workload",
    )
    assert not of(modules, *(f"tailback.{name}" for name in elsewhere + others))
    libraries = (
        "rich",
        "jinja2",
        "pandas",
        "ray",
        "plotly",
        "pyarrow.dataset",
        "numpy.ma",
        "numpy.random",
        "concurrent.futures",
        "multiprocessing",
        "asyncio",
    )
    assert not of(modules, *libraries)


def test_a_report_loads_no_other_simulators(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    modules = loaded(tmp_path, "run", "tiny.yaml", "--quiet", "--out", "out")
    assert of(modules, "tailback.report", "tailback.explain", "jinja2")
    others = ("astra", "simai", "hpcc", "workload", "explain.trials", "comparison", "captured")
    libraries = ("rich", "concurrent.futures")
    assert not of(modules, *(f"tailback.{name}" for name in others), *libraries)


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
