"""The resolved scenario as YAML, with the origin of every value beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tailback.controller import split
from tailback.errors import InputError, Path, one_line
from tailback.limits import MAX_OUTSTANDING
from tailback.scenario.by_place import Part
from tailback.scenario.congestion import ack_every, kinds, section_of
from tailback.scenario.controllers import Controllers
from tailback.scenario.document import from_yaml
from tailback.scenario.fields import Section
from tailback.scenario.headroom import headrooms, shared
from tailback.scenario.host_control import iio_threshold, pcie_threshold
from tailback.scenario.host_path import FOLLOW_FROM_PRESET, HostPath
from tailback.scenario.model import Run, Scenario, Transport
from tailback.scenario.profiles import parameters, profiles_of, resolve
from tailback.scenario.receive_buffer import every_threshold
from tailback.scenario.round_trip import longest_round_trip
from tailback.scenario.tcp import Tcp
from tailback.scenario.traffic import Churn, Write
from tailback.units import format_duration, format_rate, format_size

_AUTO_VALUES: dict[str, Callable[[Scenario], str]] = {
    "headroom": lambda scenario: _sizes(headrooms(scenario)),
    "lossy": lambda scenario: _lossy(scenario),
    "xoff": lambda scenario: _sizes(xoff for xoff, _ in every_threshold(scenario)),
    "xon": lambda scenario: _sizes(xon for _, xon in every_threshold(scenario)),
    "shared": lambda scenario: _sizes(shared(scenario).values()),
    "iio_threshold": lambda scenario: _each_rate(
        scenario, lambda rate: f"{iio_threshold(scenario.host.rhcc, rate):g} lines"
    ),
    "pcie_threshold": lambda scenario: _each_rate(
        scenario, lambda rate: format_rate(pcie_threshold(scenario.host.hostcc, rate))
    ),
}
"""The value of `auto` in a scenario, for its comment."""

_CONTROLLER_SECTIONS: tuple[Any, ...] = tuple(field.annotation for field in Controllers.model_fields.values())
_FILE_KEYS = ("path", "file", "sizes", "graph")
"""Keys that may name a file."""
INPUTS_FOLDER = "inputs"
"""Folder in a result with files that the scenario refers to."""
_UNQUOTED_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_ .-]*[A-Za-z0-9_]|[0-9]+(?:\.[0-9]+)?[A-Za-z]+")
"""Names, and quantities with their units."""
_MAX_INLINE_ITEMS = 16
"""Longer lists have a line for each item."""

_MAX_ALIGNED_CHARS = 44
"""Longer lines do not shift the comments of all other lines."""


class _Line(NamedTuple):
    text: str
    comment: str = ""
    default: str = ""
    """Source of the default, if a given value equals it."""


def show(scenario: Scenario, *, comments: bool = True, files: Mapping[str, str] | None = None) -> str:
    """The complete scenario with all defaults. It loads again, to the same plan.

    Args:
        comments: Add the origin of each value: a file and line, an option, or the source of the default.
        files: New names for files that the scenario refers to.
    """
    plain, commented = shown(scenario, files or {})
    return commented if comments else plain


def shown(scenario: Scenario, files: Mapping[str, str]) -> tuple[str, str]:
    """The text of `show` without comments, and with them."""
    lines = list(_mapping(scenario, scenario, (), 0, files))
    width = max(len(line.text) for line in lines if line.comment and len(line.text) <= _MAX_ALIGNED_CHARS)
    commented = (f"{line.text:<{width}}  # {line.comment}" if line.comment else line.text for line in lines)
    return "".join(f"{line.text}\n" for line in lines), "".join(f"{line}\n" for line in commented)


def with_defaults(scenario: Scenario, files: Mapping[str, str]) -> str:
    """As `show`, but a given value that equals its default has the default's source as comment.

    A scenario from `show`, or from the folder of a result, gives all values.
    """
    lines = _mapping(scenario, scenario, (), 0, files)
    return "".join(f"{line.text}  # {line.default or line.comment}\n" for line in lines)


def resolved_yaml(scenario: Scenario) -> str:
    """The complete scenario without origins: equal runs have equal texts. Files have their names in the folder of
    a result.
    """
    return show(scenario, comments=False, files=input_names(scenario))


def input_names(scenario: Scenario) -> dict[str, str]:
    """Names in the folder of a result of files that a scenario refers to."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for name in (*scenario.inputs, *scenario.long_inputs):
        copy = last = PurePath(name).name
        number = 1
        while copy.lower() in taken:  # some file systems ignore case
            number += 1
            copy = f"{number}-{last}"
        taken.add(copy.lower())
        names[name] = f"{INPUTS_FOLDER}/{copy}"
    return names


def _mapping(
    scenario: Scenario,
    part: BaseModel,
    path: Path,
    indent: int,
    files: Mapping[str, str],
    usual_part: BaseModel | None = None,
) -> Iterator[_Line]:
    """`usual_part`: the part with the values that follow from other settings if they are not given."""
    if isinstance(part, HostPath):
        part, usual_part = part.resolved(), part.usual()
    given = part.model_fields_set if isinstance(part, Part) else None
    dumped = part.model_dump(by_alias=True, exclude_unset=given is not None)
    sources, absent = _derived_values(scenario, part), _absent(scenario)
    for name, field in type(part).model_fields.items():
        key = field.alias or name
        if (part is scenario and key in absent) or (given is not None and name not in given):
            continue
        value = getattr(part, name)
        here: Path = (*path, key)
        head = f"{' ' * indent}{key}:"
        if isinstance(value, BaseModel):
            yield _Line(head)
            beneath = getattr(usual_part, name, None)
            yield from _mapping(scenario, value, here, indent + 2, files, beneath)
        elif isinstance(value, list) and value and isinstance(value[0], BaseModel):
            yield _Line(head)
            for index, item in enumerate(value):
                for number, line in enumerate(_mapping(scenario, item, (*here, index), indent + 4, files)):
                    text = line.text if number else f"{' ' * (indent + 2)}- {line.text.lstrip()}"
                    yield line._replace(text=text)
        elif isinstance(value, list) and len(value) > _MAX_INLINE_ITEMS:
            yield _Line(head, _origin(scenario, here, ""))
            for text in dumped[key]:
                yield _Line(f"{' ' * (indent + 2)}- {_scalar(text)}")
        else:
            resolved, source = sources.get(name, (dumped[key], _source(field)))
            comment = _origin(scenario, here, source)
            default, plain = "", comment
            setup = scenario.overridden_presets.get(here)
            follows = name in FOLLOW_FROM_PRESET and value == getattr(usual_part, name, None)
            if here in scenario.origins and here not in scenario.filled:
                profile = _of_profile(scenario, part, name).get(name)
                if setup is not None and json.dumps(setup[0]) == json.dumps(dumped[key]):
                    default = one_line(setup[1])
                elif setup is None and (follows or _is_default(value, field)):
                    default = one_line(f"default: {source}")
                elif profile is not None and profile[0] == dumped[key]:
                    default = one_line(f"default: {profile[1]}")
            # `auto` is only resolved in sections that are in use.
            if value == "auto" and isinstance(part, _CONTROLLER_SECTIONS):
                if any(part is section_of(scenario.host, kind) for kind in kinds(scenario)):
                    comment += _round_trip(scenario)
            elif value == "auto" and name in _AUTO_VALUES:  # a free text may be "auto", too
                comment += _AUTO_VALUES[name](scenario)
            default += comment.removeprefix(plain) if default else ""
            if key in _FILE_KEYS:
                resolved = files.get(resolved, resolved)
            elif key == "controllers":
                resolved = {own: _with_new_path(text, files) for own, text in resolved.items()}
            yield _Line(f"{head} {_scalar(resolved)}", comment, default)


def _with_new_path(text: str | None, files: Mapping[str, str]) -> str | None:
    """FILE.py:CLASS with the file's new name."""
    if text is None:
        return None
    path, name = split(text)
    return f"{files.get(path, path)}:{name}"


def _absent(scenario: Scenario) -> set[str]:
    """Sections that describe nothing in this network."""
    there = {
        "host": scenario.network.hosts,
        "switch": scenario.network.switches,
        "switches": scenario.network.switches,
        "bridge": scenario.bridge,
        "veth": scenario.veth,
    }
    return {name for name, what in there.items() if not what}


def _sizes(sizes: Iterable[int]) -> str:
    low, *more = sorted(set(sizes))
    return "; here " + (f"{format_size(low)} to {format_size(more[-1])}" if more else format_size(low))


def _each_rate(scenario: Scenario, value: Callable[[int], str]) -> str:
    rates = sorted(set(scenario.network.host_rates))
    return "; here " + " to ".join(value(rate) for rate in dict.fromkeys((rates[0], rates[-1])))


def _lossy(scenario: Scenario) -> str:
    pools = scenario.switch.pools
    return "" if pools is None else _sizes(pools.split(size)[1] for size in shared(scenario).values())


def _round_trip(scenario: Scenario) -> str:
    found = longest_round_trip(scenario)
    return f"; here {format_duration(found.time)}: {found.why}"


def _derived_values(scenario: Scenario, part: BaseModel) -> dict[str, tuple[Any, str]]:
    """Values derived from other settings, with their sources."""
    # Implied values are written out, because this text is loaded again.
    found: dict[str, tuple[Any, str]] = {}
    if isinstance(part, Run):
        if part.until == "done" and ("run", "duration") not in scenario.origins:
            found["duration"] = (
                format_duration(part.duration),
                "with run.until: done, the most that it may take",
            )
        return found
    if isinstance(part, (Write, Churn)) and "depth" not in part.model_fields_set:
        usual = type(part).model_fields["depth"]
        if part.depth != usual.default:
            words = f"{usual.default} ({_source(usual)}), less for messages of {format_size(part.message)}"
            found["depth"] = (part.depth, f"{words}: {MAX_OUTSTANDING} packets may be outstanding")
        return found
    if isinstance(part, Transport):
        packets, reason = ack_every(scenario)
        if reason:
            found["ack_every"] = (packets, reason)
        if part.adaptive_timeout is not None and part.adaptive_timeout > part.ack_timeout:
            found["adaptive_timeout"] = (format_duration(part.ack_timeout), "at most ack_timeout")
        return found
    if isinstance(part, Tcp):
        if part.uses_ecn and not part.ecn:
            found["ecn"] = (True, "dctcp needs marks")
        return found
    if not isinstance(part, Section) or not profiles_of(part):
        return {}
    # A value that depends on the link rate stays null if rates differ.
    each = [resolve(part, rate) for rate in sorted(set(scenario.network.host_rates))]
    return {
        name: (
            parameter.value if all(other[name].value == parameter.value for other in each) else None,
            parameter.source,
        )
        for name, parameter in each[0].items()
    }


def _of_profile(scenario: Scenario, part: BaseModel, name: str) -> dict[str, tuple[Any, str]]:
    """The value of a setting in its profile."""
    if not isinstance(part, Section) or not profiles_of(part) or name not in parameters(part):
        return {}
    return _derived_values(scenario, part.model_copy(update={name: None}))


def _is_default(value: Any, field: FieldInfo) -> bool:
    return not field.is_required() and bool(value == field.get_default(call_default_factory=True))


def _source(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra["source"]) if isinstance(extra, dict) and "source" in extra else "the whole section is"


def _origin(scenario: Scenario, path: Path, source: str) -> str:
    if path in scenario.filled:
        return one_line(scenario.filled[path])
    if path not in scenario.origins:
        return one_line(f"default: {source}")
    return one_line(scenario.origins[path] or "given in Python")


def _scalar(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_scalar(item)}" for key, item in value.items()) + "}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value)
    if _is_plain(text):
        return text
    quoted: str = yaml.dump(text, default_style='"', allow_unicode=True, width=float("inf"))
    return quoted.rstrip("\n")


def _key(name: str) -> str:
    return name if name.isdigit() else _scalar(name)


def _is_plain(text: str) -> bool:
    """True if the text needs no quotes, also in a list."""
    if _UNQUOTED_PATTERN.fullmatch(text) and text.lower() not in ("true", "false", "null"):
        return True
    if "," in text or "\n" in text or not text:
        return False
    try:
        return bool(from_yaml(f"[{text}]", "").data == [text])
    except InputError:
        return False
