"""Plain data with the origin of every value: a scenario before it is checked.

YAML is read node by node, for two reasons: every value keeps its line, and the text decides neither how deep
nor how large the data becomes. The scalars are those of the YAML 1.2 core schema, so `no` is a text and
`1:30` is not 90.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from tailback.errors import InputError, Path, Problem, found
from tailback.limits import MAX_DEPTH, MAX_PROBLEMS, MAX_VALUES, SCENARIO_BYTES
from tailback.units import format_size

_YAML_TAG_PREFIX = "tag:yaml.org,2002:"
_INTEGER_PATTERN = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT_PATTERN = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY_PATTERN = re.compile(r"[-+]?\.(inf|Inf|INF)")
_MAX_NUMBER_CHARS = 100
_CONSTANT_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass
class Document:
    """Plain data (dict, list, str, int, float, bool, None), and the origin of each value.

    `origins` has `file:line`, `--set` or `""` (Python) for the path of every value given. Files that it names
    are looked for in `folder`.
    """

    data: Any
    origins: dict[Path, str] = field(default_factory=dict)
    folder: FilePath = field(default_factory=FilePath)

    def origin(self, path: Path) -> str:
        """Origin of the value at `path`; if it is missing, that of the mapping or list that should hold it."""
        while path and path not in self.origins:
            path = path[:-1]
        return self.origins.get(path, "")

    def put(self, path: Path, new: Document) -> None:
        """Sets the value at `path`, and creates mappings above it.

        Raises:
            InputError: what is on the way is neither a mapping nor a list with that index.
        """
        label = new.origin(())
        holder = self.data
        for depth, part in enumerate(path):
            here = path[:depth]
            last = depth + 1 == len(path)
            if isinstance(holder, list):
                if not isinstance(part, int) or part >= len(holder):
                    choice = (
                        f"an index of 0 to {len(holder) - 1}" if holder else "another path: the list is empty"
                    )
                    text = f"found {found(part)} below {_name(here)}, expected {choice}"
                    raise InputError.at(label, text, path)
                key: Any = part
            elif isinstance(holder, dict):
                key = str(part)
            else:
                text = f"found {found(holder)} at {_name(here)}, expected a mapping or a list"
                raise InputError.at(label, text, path)
            if last:
                if key in _keys(holder):
                    self._forget((*_real(path[:-1], self.data), key), holder[key])
                holder[key] = new.data
            else:
                if isinstance(holder, dict) and holder.get(key) is None:
                    holder[key] = {}
                    self.origins[_real(path[: depth + 1], self.data)] = label
                holder = holder[key]
        real = _real(path, self.data)
        self.origins.update({real + p: label for p in new.origins})

    def _forget(self, path: Path, value: Any) -> None:
        """Removes the origins of a value and of everything below it."""
        self.origins.pop(path, None)
        if isinstance(value, (dict, list)):
            for key in _keys(value):
                self._forget((*path, key), value[key])

    def remove(self, path: Path) -> None:
        """Removes the value at `path`, which is below mappings only, and mappings that become empty."""
        holder = self.data
        for part in path[:-1]:
            holder = holder[part]
        del holder[path[-1]]
        self.origins = {p: o for p, o in self.origins.items() if p[: len(path)] != path}
        if not holder and len(path) > 1:
            self.remove(path[:-1])


def _keys(holder: Any) -> Any:
    return range(len(holder)) if isinstance(holder, list) else holder


def _name(path: Path) -> str:
    return ".".join(map(str, path)) or "the top"


def _real(path: Path, data: Any) -> Path:
    """`path` with the type of key that each container has: a name in a mapping, an index in a list."""
    real: list[str | int] = []
    for part in path:
        real.append(part if isinstance(data, list) else str(part))
        data = data[real[-1]]
    return tuple(real)


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML up to the node graph, with limited nesting."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=f"nesting deeper than {MAX_DEPTH}", problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Builder:
    """Turns a node graph into a `Document`, and collects problems."""

    def __init__(self, label: str, lines: bool, max_values: int) -> None:
        self.label = label
        self.max_values = max_values
        self.lines = lines
        self.origins: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self.values = 0
        self.open: set[int] = set()

    def place(self, node: yaml.Node) -> str:
        return f"{self.label}:{node.start_mark.line + 1}" if self.lines else self.label

    def refuse(self, node: yaml.Node, path: Path, text: str) -> None:
        self.problems.append(Problem(self.place(node), path, text))
        if len(self.problems) > MAX_PROBLEMS:
            raise InputError(self.problems)

    def build(self, node: yaml.Node, path: Path, place: str) -> Any:
        """The data of a node; `place` is that of its key, where readers look for it."""
        self.values += 1
        if self.values > self.max_values:
            text = f"found more than {self.max_values} values (aliases expanded), expected at most that many"
            raise InputError.at(place, text, path[:4])
        self.origins[path] = place
        if id(node) in self.open:
            self.refuse(node, path, "found an alias inside of what it stands for, expected no recursion")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == _YAML_TAG_PREFIX + "map":
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode) and node.tag == _YAML_TAG_PREFIX + "seq":
                return [self.build(item, (*path, i), self.place(item)) for i, item in enumerate(node.value)]
            if isinstance(node, yaml.ScalarNode):
                return self._scalar(node, path)
        finally:
            self.open.discard(id(node))
        self.refuse(node, path, f"found the tag {found(node.tag)}, expected plain YAML")
        return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        first: dict[str, str] = {}
        for key_node, value_node in node.value:
            is_name = isinstance(key_node, yaml.ScalarNode)
            key = key_node.value if is_name else None
            if not isinstance(key, str) or not is_name:
                self.refuse(key_node, path, "found a list or a mapping as a field name, expected text")
            elif key in data:
                text = f"found this field twice (first at {first[key]}), expected it once"
                self.refuse(key_node, (*path, key), text)
            else:
                first[key] = self.place(key_node)
                data[key] = None
                data[key] = self.build(value_node, (*path, key), self.place(key_node))
        return data

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text: str = node.value
        tag = node.tag.removeprefix(_YAML_TAG_PREFIX)
        if tag == "plain":
            return _plain_scalar(text)
        if tag == "str":
            return text
        kinds: dict[str, Any] = {"null": type(None), "bool": bool, "int": int, "float": (int, float)}
        if tag in kinds and isinstance(value := _plain_scalar(text), kinds[tag]):
            return value
        self.refuse(node, path, f"found {found(text)} with the tag {found(node.tag)}, expected plain YAML")
        return None


# A plain scalar without a tag is marked as one, so that `!!str 5` and `5` can be told apart.
_Loader.add_implicit_resolver(_YAML_TAG_PREFIX + "plain", re.compile(""), None)


def _plain_scalar(text: str) -> Any:
    """The value of a plain scalar by the YAML 1.2 core schema."""
    if text in _CONSTANT_WORDS:
        return _CONSTANT_WORDS[text]
    if len(text) <= _MAX_NUMBER_CHARS:
        if _INTEGER_PATTERN.fullmatch(text):
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if _FLOAT_PATTERN.fullmatch(text):
            return float(text)
        if _INFINITY_PATTERN.fullmatch(text):
            return -math.inf if text[0] == "-" else math.inf
        if text in (".nan", ".NaN", ".NAN"):
            return math.nan
    return text


def from_yaml(
    text: str | bytes, label: str, *, lines: bool = True, max_bytes: int = SCENARIO_BYTES
) -> Document:
    """Reads YAML of at most `max_bytes`; `label` names it in messages, with the line if `lines`.

    Raises:
        InputError: not UTF-8, not YAML, too large, too deep, a field twice, tags.
    """
    if len(text) > max_bytes:
        large = f"found more than {format_size(max_bytes)}, expected at most that"
        raise InputError.at(label, large)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            place = f"{label}:{line}" if lines else label
            problem = Problem(place, (), "found bytes that are not UTF-8, expected text")
            raise InputError([problem]) from None
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    # PyYAML also raises errors of its internals: ValueError, OverflowError and others.
    except Exception as error:
        line, what = _yaml_problem(error, text, loader.line if loader else 0)
        place = f"{label}:{line + 1}" if lines else label
        raise InputError.at(place, f"not readable as YAML: {what}") from None
    place = f"{label}:1" if lines else label
    if node is None:
        return Document(None, {(): place})
    # The same number of values per byte for every size.
    builder = _Builder(label, lines, MAX_VALUES * max(1, max_bytes // SCENARIO_BYTES))
    data = builder.build(node, (), place)
    if builder.problems:
        raise InputError(builder.problems)
    return Document(data, builder.origins)


def _yaml_problem(error: Exception, text: str, line: int) -> tuple[int, str]:
    """The line, from 0, and the problem there; `line` is where reading stopped."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.problem, error.context) if part)
        return mark.line if mark else line, " ".join(what.split())
    if isinstance(error, yaml.reader.ReaderError):
        return text.count("\n", 0, error.position), f"the character {error.character!a} is not allowed"
    return line, " ".join(str(error).split())


def from_python(value: Mapping[str, object], label: str = "") -> Document:
    """Copies Python data: mappings with text keys, lists or tuples, scalars.

    Raises:
        InputError: anything else, too large, too deep (what contains itself is too deep).
    """
    document = Document(None)
    problems: list[Problem] = []

    def copy(value: object, path: Path) -> Any:
        document.origins[path] = label
        if len(path) > MAX_DEPTH or len(document.origins) > MAX_VALUES:
            text = f"found more than {MAX_VALUES} values or {MAX_DEPTH} levels, expected at most that many"
            raise InputError.at(label, text, path[:4])
        if isinstance(value, Mapping):
            names = {key: key for key in value if isinstance(key, str)}
            for key in value:
                if key not in names:
                    problems.append(Problem(label, path, f"found the field name {found(key)}, expected text"))
            return {name: copy(value[name], (*path, name)) for name in names}
        if isinstance(value, (list, tuple)):
            return [copy(item, (*path, index)) for index, item in enumerate(value)]
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        text = f"found {found(value)}, expected text, a number, a list or a mapping"
        problems.append(Problem(label, path, text))
        return None

    document.data = copy(value, ())
    if problems:
        raise InputError(problems)
    return document


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value with its dotted path. Lists of scalars, and empty lists and mappings, are single values."""
    entries: Iterable[tuple[Any, Any]] | None = None
    if isinstance(value, Mapping) and value:
        entries = value.items()
    elif isinstance(value, list) and any(isinstance(one, (Mapping, list)) for one in value):
        entries = enumerate(value)
    if entries is None:
        yield name, value
        return
    for key, one in entries:
        yield from flat(one, f"{name}.{key}" if name else str(key))
