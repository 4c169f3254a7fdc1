"""Every recipe of the cookbook runs as printed, but for lines that need root or another machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hpcc_files import write
from test_readme import namespaces_are_permitted

ROOT = Path(__file__).parent.parent
COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
RECIPES = {part.splitlines()[0]: part for part in re.split(r"^### ", COOKBOOK, flags=re.M)[1:]}
FAULTY = "Can my fabric deadlock?"
"""The recipe whose runs end with a fault, and so with status 1."""
CAPTURE = ROOT / "crates" / "proto" / "tests" / "data" / "rxe_write.pcap"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cookbook")
    shutil.copytree(ROOT / "examples", place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
    for name, text in re.findall(r"^```\w+\n# ([\w.]+)\n(.*?)^```", COOKBOOK, re.M | re.S):
        (place / name).write_text(text, encoding="utf-8")
    write(place / "mix")
    shutil.copy(CAPTURE, place / "mirror.pcap")
    return place


def lines(recipe: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", recipe, re.M | re.S)
    every = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    never = ("sudo ", "ssh ") if namespaces_are_permitted() else ("sudo ", "ssh ", "unshare ")
    return [line for line in every if not line.startswith(never)]


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_runs(title: str, folder: Path) -> None:
    recipe = RECIPES[title]
    if "to_pandas" in recipe:
        pytest.importorskip("pandas")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = [f"{line} || test $? = 1" if title == FAULTY else line for line in lines(recipe)]
    for code in re.findall(r"^```python\n(.*?)^```", recipe, re.M | re.S):
        commands.append(f"python - <<'END'\n{code}END")
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(commands)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_there_are_recipes() -> None:
    assert 20 <= len(RECIPES) <= 30
