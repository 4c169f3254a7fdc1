"""Words that the glossary retires are neither in the book nor in texts that the command prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
# Pages in docs/reference are made of the sources of the engine and of the front end.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"),
]
COUNTED = "packets|hops|packet-hops|messages|frames|bytes|bits?|calls|runs|times|writes|marks|flows"
RETIRED = {
    "told": r"\btold\b",
    "sent again": r"\b(?:sen[dt]s?|sending) (?:it |them )?again\b",
    "packets a second": rf"\b(?:{COUNTED}|[kMG]?B|\d+) a (?:CPU-)?second\b",
    "holds traffic": r"\bholds? (?:the )?traffic\b|\bh[eo]ld up\b",
    "way": r"\bon (?:its|the|their) way\b|'s way\b|\b(?:several|equal|free) ways\b|\ba way (?:there|on|back)\b"
    r"|\bthe (?:other )?way(?: back)?\b(?!,? (?:that|round))",
    "looks at": r"\blook(?:s|ed|ing)? (?:at|through)\b|\ba look\b",
    "ScenarioError": r"ScenarioError",
    "measure": r"\b(?:a|the|each|one|new|first|of|by|two|three|other|observed|these|which) measures?\b"
    r"|\bmeasures (?:of|that|as|are|with)\b",
    "the books": r"\b(?:the|whose|its) books\b|\bbooks (?:balance|that)\b",
    "the house": r"\bthe house\b|\brooms and walls\b",
}
# Still in texts of the front end; a word leaves this set when its last text is mended.
NOT_YET_IN_SOURCES = {
    "told",
    "sent again",
    "packets a second",
    "holds traffic",
    "way",
    "looks at",
}


def prose(text: str) -> str:
    """A page without code, addresses of links, and the table of retired words."""
    text = text.split("## Retired words")[0]
    text = re.sub(r"^```.*?^```|^    .*$", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """String literals with a space in them; docstrings only of commands, which print them."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        printed = id(node) not in silent or "cli" in file.parts
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and printed:
            yield node.lineno, node.value


def found(word: str, text: str) -> list[str]:
    around = re.compile(rf".{{0,40}}(?:{RETIRED[word]}).{{0,40}}", re.S | re.I)
    return [" ".join(one.split()) for one in around.findall(text)]


@pytest.mark.parametrize("word", RETIRED)
def test_the_book_has_no_retired_word(word: str) -> None:
    every = {page.name: found(word, prose(page.read_text(encoding="utf-8"))) for page in PAGES}
    assert {name: hits for name, hits in every.items() if hits} == {}


@pytest.mark.parametrize("word", sorted(RETIRED.keys() - NOT_YET_IN_SOURCES))
def test_no_text_of_the_command_has_a_retired_word(word: str) -> None:
    hits = []
    for file in sorted((ROOT / "python" / "tailback").rglob("*.py")):
        hits += [f"{file.name}:{line}: {hit}" for line, text in texts(file) for hit in found(word, text)]
    assert hits == []


def test_every_retired_word_has_one_to_use() -> None:
    table = GLOSSARY.read_text(encoding="utf-8").split("## Retired words")[1]
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", table, re.M))
    for word in RETIRED:
        assert any(word in old for old in rows), word
