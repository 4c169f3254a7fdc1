"""The page on the structure of the engine is true: which component uses which; and no circles of components."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from test_walls import circles

ROOT = Path(__file__).parents[1]
CRATES = ROOT / "crates"
NAMES = {f"tailback_{name}": name for name in ("proto", "sim", "analyze", "live")}
"""Crates by the names that others use them by."""

TESTS = ("tests", "by_node")
"""Files that are in no build but that of the tests."""

ROOTS = ("proto/src/lib.rs", "sim/src/lib.rs", "analyze/src/lib.rs", "live/src/lib.rs")
"""Files that only say what there is."""

SETTINGS_OF_THE_PLAN = {"fabric", "host path", "TCP", "Linux", "recorder"}
"""Components that use the plan, and that the plan uses for the settings declared there."""


def module_of(file: Path, crates: Path) -> tuple[str, ...]:
    """Crate and modules of a source file."""
    crate, _, *parts = file.relative_to(crates).with_suffix("").parts
    return (crate, *parts[: -1 if parts[-1] in ("lib", "mod") else None])


def names_in(text: str) -> tuple[list[list[str]], dict[str, list[str]]]:
    """The paths that a source names: in `use`, each of a group by itself, and in the code; and what it only
    hands on (`pub use`), by name. Tests are left out.
    """
    code = re.sub(r"//.*", "", re.split(r"#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod \w+ \{", text)[0])
    named = [path.split("::") for path in re.findall(r"\b(?:crate|super|tailback_\w+)(?:::\w+)+", code)]
    handed_on: dict[str, list[str]] = {}
    for public, used in re.findall(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", code, re.M):
        for path in _paths(re.sub(r"\s+", "", used), []):
            if public and len(path) > 1:  # a macro is handed on by its name alone
                handed_on[path[-1]] = path
            elif not public:
                named.append(path)
    return named, handed_on


def _paths(tree: str, before: list[str]) -> Iterator[list[str]]:
    head, brace, rest = tree.partition("{")
    own = before + [part for part in head.split("::") if part]
    if not brace:
        yield own
        return
    depth, start = 0, 0
    inner = rest[: rest.rindex("}")] + ","
    for at, letter in enumerate(inner):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if inner[start:at]:
                yield from _paths(inner[start:at], own)
            start = at + 1


def files_used(crates: Path = CRATES) -> dict[str, set[str]]:
    """Which source files each names something of. What a file only hands on is named where it is declared."""
    files = {
        module_of(file, crates): file
        for file in sorted(crates.glob("*/src/**/*.rs"))
        if file.stem not in TESTS
    }
    read = {module: names_in(file.read_text(encoding="utf-8")) for module, file in files.items()}

    def declaring(module: tuple[str, ...], path: list[str]) -> tuple[str, ...] | None:
        """The module that declares what `module` calls so; none: it is of no crate here."""
        head, *rest = path
        if head == "crate":
            full = (module[0], *rest)
        elif head == "super":
            ups = next((at for at, part in enumerate(path) if part != "super"), len(path))
            full = (*module[:-ups], *path[ups:])
        elif head in NAMES:
            full = (NAMES[head], *rest)
        else:
            full = (*module, *path)
        known = next((full[:end] for end in range(len(full), 0, -1) if full[:end] in files), None)
        if known is None or len(known) == len(full):
            return known if known and len(known) > 1 else None
        further = read[known][1].get(full[len(known)])
        # What a crate's root declares itself is its macros.
        return declaring(known, further) if further else known if len(known) > 1 else None

    graph = {}
    for module, file in files.items():
        found = {declaring(module, path) for path in read[module][0]} - {None, module}
        graph[str(file.relative_to(crates))] = {str(files[one].relative_to(crates)) for one in found if one}
    return graph


def components() -> dict[str, tuple[str, set[str]]]:
    """By component of the page: its folder or file, below `crates`, and the components that it uses."""
    page = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*([\w ]+)\*\* \| `([^`]+)` \|.*\| ([^|]*) \|$", page, re.M)
    return {name: (place, {one for one in uses.split(", ") if one != "-"}) for name, place, uses in rows}


def component_of(file: str, places: dict[str, str]) -> str:
    """The component of a file: the one with the longest place."""
    inside = [component for component, place in places.items() if file.removesuffix(".rs").startswith(place)]
    assert inside, f"{file} is in no component of docs/structure.md"
    return max(inside, key=lambda component: len(places[component]))


def test_the_page_is_true() -> None:
    drawn = components()
    places = {component: place for component, (place, _) in drawn.items()}
    found: dict[str, set[str]] = {component: set() for component in drawn}
    for file, used in files_used().items():
        if file not in ROOTS:
            component = component_of(file, places)
            found[component] |= {component_of(other, places) for other in used} - {component}
    assert {component: sorted(uses) for component, uses in found.items()} == {
        component: sorted(uses) for component, (_, uses) in drawn.items()
    }


def test_no_components_use_each_other_in_a_circle() -> None:
    uses = {name: set(used) for name, (_, used) in components().items()}
    uses["plan"] -= SETTINGS_OF_THE_PLAN
    assert circles(uses) == []


def test_a_circle_of_files_is_seen(tmp_path: Path) -> None:
    files = {
        "sim/src/lib.rs": "mod a;\nmod b;\n",
        "sim/src/a/mod.rs": "mod c;\nuse c::{d::E, F};\npub(crate) use super::d::G;\n",
        "sim/src/a/c.rs": "use super::super::b::{G, H};\n#[cfg(test)]\nmod tests { use crate::d::I; }\n",
        "sim/src/b.rs": "fn f() { crate::a::g(crate::a::G); }\n",
        "sim/src/d.rs": "// crate::b\npub struct G;\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    graph = files_used(tmp_path)
    assert circles(graph) == [["sim/src/a/c.rs", "sim/src/a/mod.rs", "sim/src/b.rs"]]
    assert graph["sim/src/b.rs"] == {"sim/src/a/mod.rs", "sim/src/d.rs"}
