"""Walls between the modules of the Python front: which file imports which, and that none does in a circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "python"


def imports(root: Path) -> dict[str, set[str]]:
    """The modules below a folder, and which of them each names in an import: at its head, in a function, or
    for its annotations alone.
    """
    files = {_name(file.relative_to(root)): file for file in sorted(root.rglob("*.py"))}
    return {name: _imported(name, file, set(files)) for name, file in files.items()}


def _name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, file: Path, known: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute"
            inner = {f"{node.module}.{one.name}" for one in node.names}
            found.update(inner & known or {str(node.module)})
    return (found & known) - {name}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules each of which imports all others of its group, by whatever way."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph[ahead.pop()] - seen
            seen |= new
            ahead += new
        reached[start] = seen
    groups = {
        frozenset(other for other in seen if start in reached[other])
        for start, seen in reached.items()
        if start in seen
    }
    return sorted(sorted(group) for group in groups)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = imports(ROOT)
    assert len(graph) > 100
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("room", "never"),
    [
        ("tailback.scenario", ("plan", "recorded", "measures", "results", "report", "running")),
        ("tailback.plan", ("recorded", "measures", "results", "report", "running")),
        (
            "tailback.recorded",
            ("measures", "summary", "findings", "explain", "counters", "report", "results"),
        ),
        ("tailback.metrics", ("summary", "findings", "explain", "counters", "report", "results")),
        ("tailback.report", ("results", "run_folder", "cli")),
    ],
)
def test_data_goes_one_way(room: str, never: tuple[str, ...]) -> None:
    outside = tuple(f"tailback.{name}" for name in never)
    for name, imported in imports(ROOT).items():
        if name == room or name.startswith(f"{room}."):
            wrong = [
                one for one in imported if one in outside or one.startswith(tuple(f"{o}." for o in outside))
            ]
            assert wrong == [], name


def test_a_circle_is_seen(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "from p import b\n",
        "p/b.py": "def f():\n    import p.c\n",
        "p/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\n",
        "p/d.py": "from p.a import A\n",
    }
    (tmp_path / "p").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert circles(imports(tmp_path)) == [["p.a", "p.b", "p.c"]]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"]])
def test_what_takes_long_to_load_is_loaded_when_it_is_needed(arguments: list[str]) -> None:
    code = (
        "import sys, tailback.cli; tailback.cli.main(sys.argv[1:]);"
        "print(sorted({'numpy', 'pyarrow', 'jinja2', 'rich', 'tailback.scenario'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
