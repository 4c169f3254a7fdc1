"""The book says what the program does: the reference pages, and the figures of the tutorial."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
FABRICS = (ROOT / "docs" / "fabrics.md").read_text(encoding="utf-8")


def shown_runs() -> Iterator[tuple[str, list[str]]]:
    """Commands of both tutorials with the parts of their output that it shows, cut at lines of dots."""
    for block in re.findall(r"```console\n(.*?)```", TUTORIAL + FABRICS, re.DOTALL):
        for command, output in re.findall(r"^\$ (tailback (?:run|show) .*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            parts = [part.strip() for part in re.split(r"^\.\.\.$", output, flags=re.M) if part.strip()]
            if parts:
                yield command, parts


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("command", "parts"), list(shown_runs()))
def test_the_tutorials_show_what_comes_out(command: str, parts: list[str], tmp_path: Path) -> None:
    scenario = re.search(r"```yaml\n(# Four.*?)```", TUTORIAL, re.DOTALL)
    assert scenario is not None
    (tmp_path / "four-to-one.yaml").write_text(scenario[1], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tailback.cli", *shlex.split(command)[1:]],
        cwd=tmp_path,
        env={"COLUMNS": "80", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    words = " ".join((done.stdout + done.stderr).split())
    for part in parts:
        assert " ".join(part.split()) in words, done.stdout + done.stderr
