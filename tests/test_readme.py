"""The README's commands run as printed, in order, twice; its example and what it prints are as shown."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = dict.fromkeys(re.findall(r"```(?:console|text)\n(.*?)```", README, re.DOTALL))
MAKE = ["make demo", "make test"]
"""The commands of the first block: CI begins with them."""


def commands() -> list[str]:
    lines = [line for block in BLOCKS for line in block.splitlines() if line.startswith("$ ")]
    return [line.removeprefix("$ ").split("   #")[0].rstrip() for line in lines]


def answer_in_readme() -> str:
    """What the first run prints in the README, without how it breaks lines."""
    block = next(block for block in BLOCKS if "Throughput" in block)
    return " ".join(block[block.index("Throughput") :].split())


def namespaces_are_permitted() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run(["unshare", "-rn", "true"]).returncode


def test_the_commands_run_pasted_in_order_twice(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("runs"))
    # The folder above the one of this Python's programs; the README has it as .venv.
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    lines = commands()
    assert [line.split("#")[0].strip() for line in lines[:2]] == MAKE
    pasted = [line for line in lines[2:] if namespaces_are_permitted() or not line.startswith("unshare")]
    script = "set -e\n" + "".join(f"echo '$' {line!r}\n{line}\n" for line in pasted)
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        assert "Traceback" not in done.stderr
        said = done.stdout.split("$ tailback check")[0]
        speed = said.index("Speed ")
        assert " ".join(said[said.index("Throughput") : speed].split()) == answer_in_readme()


def test_the_example_is_the_file() -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    name, _, rest = shown.partition("\n")
    assert rest == (ROOT / name.removeprefix("# ")).read_text()


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [shown] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(ROOT / "examples")
    exec(shown, {})
