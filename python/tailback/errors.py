"""Errors of input: all problems at once, one line each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from tailback.limits import MAX_PROBLEMS

Path = tuple[str | int, ...]
"""Path of a value in a scenario: names of fields and indices of lists."""

_MAX_FOUND_CHARS = 60
_MAX_SHOWN_INTEGER = 10**30


def dotted(path: Path) -> str:
    """`("traffic", 0, "qps")` as `traffic.0.qps`, on one line whatever the names are."""
    return ".".join(str(part) if isinstance(part, int) else plain(part) for part in path)


def one_line(text: str) -> str:
    """The text with all unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def plain(text: str, longest: int = _MAX_FOUND_CHARS) -> str:
    """The text escaped, on one line, and cut to `longest` characters."""
    escaped = one_line(text[: longest + 1])
    return escaped if len(escaped) <= longest else escaped[: longest - 3] + "..."


def found(value: object) -> str:
    """A value as a message names it after "found", in the words of YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < _MAX_SHOWN_INTEGER else "a number of more than 30 digits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return f'"{plain(value)}"'
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    return f"a Python {type(value).__name__}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to `name`."""
    names = {one.lower(): one for one in known}
    matches = difflib.get_close_matches(name[:_MAX_FOUND_CHARS].lower(), list(names), n=1, cutoff=0.6)
    return names[matches[0]] if matches else None


def one_of(name: object, known: Iterable[str]) -> str:
    """The choices as a message names them, with the most similar one first."""
    names = list(known)
    likely = nearest(name, names) if isinstance(name, str) else None
    if len(names) == 1:
        return names[0]
    if likely is None:
        return f"one of {', '.join(names)}"
    return f"{likely} (or another of {', '.join(n for n in names if n != likely)})"


class Problem(NamedTuple):
    """One problem of an input.

    `place` names the source of the value: `file:line`, an option such as `--set`, or "" for Python values.
    """

    place: str
    path: Path
    text: str

    def __str__(self) -> str:
        name = dotted(self.path)
        separator = " " if self.place.startswith("--") else ": "
        where = separator.join(part for part in (one_line(self.place), name) if part)
        return f"{where}: {self.text}" if where else self.text


class InputError(ValueError):
    """A file, an option or a value cannot be used. `problems` holds all problems or the first hundred; the
    text has one line for each.

    >>> str(InputError.at("a.yaml:3", "expected a time such as 5ms, found 5", ("run", "duration")))
    'a.yaml:3: run.duration: expected a time such as 5ms, found 5'
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) > MAX_PROBLEMS:
            more = Problem("", (), f"found more problems than these {MAX_PROBLEMS}, expected none")
            self.problems = (*self.problems[:MAX_PROBLEMS], more)
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def at(cls, place: str, text: str, path: Path = ()) -> InputError:
        return cls([Problem(place, path, text)])

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        """Pickles the problems instead of the text."""
        return type(self), (self.problems,)
