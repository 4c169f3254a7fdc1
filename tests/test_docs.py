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


PAGES = {
    "fitting": "tailback fit cable.yaml",
    "sweeps": "tailback sweep kmax.yaml --out runs/kmax",
    "tuning": "tailback tune bursts.yaml --out runs/bursts",
}
"""Pages with files and a command, and the figures that it prints with them."""


@pytest.mark.parametrize("page", PAGES)
def test_figures_of_a_page_are_what_its_command_prints(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    scenario = re.search(r"```yaml\n(# Four.*?)```", TUTORIAL, re.DOTALL)
    assert scenario is not None
    (tmp_path / "four-to-one.yaml").write_text(scenario[1], encoding="utf-8")
    for name, content in re.findall(r"```yaml\n(?:# ([\w.-]+\.yaml)\n)(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tailback.cli", *shlex.split(PAGES[page])[1:]],
        cwd=tmp_path,
        env={"COLUMNS": "200", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    shown = re.search(
        r"```text\n((?:\$ .*\n)?(?:1 of 3|switch\.ecn\.k_max  |Trial 24).*?)```", text, re.DOTALL
    )
    assert shown is not None
    lines = [line for line in shown[1].splitlines() if line.strip() and not line.startswith("$ ")]
    assert len(lines) > 3
    for line in re.split(r"(?<=[.:%)])\s*\n", "\n".join(lines)):
        assert " ".join(line.split()) in words, line
