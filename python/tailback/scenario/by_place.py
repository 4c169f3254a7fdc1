"""Settings of some switches and links, by their names: `switches` and `links` in a scenario.

An entry of `switches` gives a part of the settings of `switch`, one of `links` a part of what the topology gives a link.
Entries are laid over these one after another, in the order of the file, so that of two entries that give a setting of
the same switch or link the later one counts.
"""

from __future__ import annotations

import dataclasses
import re
from fnmatch import fnmatchcase
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, Field, create_model
from pydantic_core import PydanticCustomError

from tailback.scenario import declared
from tailback.scenario.fields import Section, setting
from tailback.scenario.hosts import check_entry, expand, split_entry
from tailback.scenario.network import Network, Wire
from tailback.scenario.presets import PRESETS
from tailback.scenario.switch import Switch


def _of_switch(preset: str) -> dict[str, Any]:
    """The settings of a preset below `switch`, as in a file."""
    settings: dict[str, Any] = {}
    for path, value, _ in PRESETS[preset]:
        first, *keys = path.split(".")
        if first == "switch":
            part = settings.setdefault(keys[0], {}) if len(keys) == 2 else settings
            part[keys[-1]] = value
    return settings


SWITCH_PRESETS = {name: settings for name in PRESETS if (settings := _of_switch(name))}
"""What presets of switches and of fabrics set of a switch."""

_ONE_OR_LIST = BeforeValidator(
    lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]
)

WILD_CARDS = re.compile(r"[A-Za-z*?][A-Za-z0-9_*?-]{0,40}")


def _checked_pattern(entry: str) -> str:
    if not (WILD_CARDS.fullmatch(entry) or (split_entry(entry) and check_entry(entry) is None)):
        expected = "a node such as leaf0, a range such as leaf0..leaf3, or a pattern such as leaf*"
        raise PydanticCustomError("found_expected", "{expected}", {"expected": expected, "found": entry})
    return entry


NodePatterns = Annotated[list[Annotated[str, AfterValidator(_checked_pattern)]], _ONE_OR_LIST]
"""Nodes by name, range or pattern; one of them, or a list."""


def matches(patterns: list[str], name: str) -> bool:
    return any(
        fnmatchcase(name, one) if WILD_CARDS.fullmatch(one) else name in expand(one) for one in patterns
    )


def _section_in(annotation: Any) -> type[Section] | None:
    """The section that a field holds, or may hold."""
    is_union = get_origin(annotation) in (Union, UnionType)
    kinds = [one for one in (get_args(annotation) if is_union else (annotation,)) if one is not NoneType]
    alone = len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], Section)
    return kinds[0] if alone else None


_SECTIONS = {key for key, field in Switch.model_fields.items() if _section_in(field.annotation)}


class Part(Section):
    """Some settings of a section: those that `model_fields_set` names."""


def _partial(section: type[Section], name: str, **more: Any) -> type[Section]:
    """A section with the fields of another, none of them required and none compared with others: they are checked
    with what they are laid over.
    """
    fields: dict[str, Any] = {}
    for key, field in section.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        annotation: Any = field.annotation
        default: dict[str, Any] = {"default": None if field.default_factory else field.default}
        if (below := _section_in(annotation)) is not None:
            annotation = part = _partial(below, f"{name}_{key}")
            if field.default_factory is not None:
                default = {"default_factory": part}
            if NoneType in get_args(field.annotation):
                annotation = part | None
        elif field.metadata:
            annotation = Annotated[(annotation, *field.metadata)]
        fields[key] = (annotation, Field(**default, description=field.description, json_schema_extra=extra))
    return create_model(name, __base__=Part, **more, **fields)


class _At(Section):
    at: NodePatterns = Field(
        description="The switches: a name, a range `leaf0..leaf3`, a pattern `leaf*`, or a list of these.",
        min_length=1,
        max_length=1000,
    )
    preset: str | None = setting(
        None, f"A family of switches: {', '.join(SWITCH_PRESETS)}.", "what `switch` has"
    )


if TYPE_CHECKING:

    class SwitchesAt(_At, Switch):
        """Settings of some switches, in place of those of `switch`."""

else:
    SwitchesAt = _partial(
        Switch,
        "SwitchesAt",
        at=(NodePatterns, _At.model_fields["at"]),
        preset=(
            Annotated[str, AfterValidator(lambda name: _known_preset(name))] | None,
            _At.model_fields["preset"],
        ),
    )
    SwitchesAt.__doc__ = (
        "Any settings of [`switch`](#switch), of some switches, in place of those that `switch` gives."
    )


_LINK_PATTERN = re.compile(r"[A-Za-z0-9_*?-]+-[A-Za-z0-9_*?-]+")


def _checked_link(entry: str) -> str:
    if len(entry) > 100 or not _LINK_PATTERN.fullmatch(entry):
        expected = "a link by its two ends such as leaf0-spine1, or a pattern such as leaf0-spine*"
        raise PydanticCustomError("found_expected", "{expected}", {"expected": expected, "found": entry})
    return entry


LinkPatterns = Annotated[list[Annotated[str, AfterValidator(_checked_link)]], _ONE_OR_LIST]
_LINKS_AT = Field(
    description="The links: two ends `leaf0-spine1`, a pattern `leaf0-spine*`, or a list of these; either end may "
    "come first.",
    min_length=1,
    max_length=1000,
)

if TYPE_CHECKING:

    class LinksAt(declared.Link):
        """Settings of some links, in place of those of the topology."""

        at: LinkPatterns = _LINKS_AT

else:
    LinksAt = _partial(declared.Link, "LinksAt", at=(LinkPatterns, _LINKS_AT))
    LinksAt.__doc__ = (
        "Any settings of a [link](#link), of some links, in place of those that `topology` gives."
    )


def is_link(pattern: str, wire: Wire) -> bool:
    return fnmatchcase(wire.name, pattern) or fnmatchcase(f"{wire.b}-{wire.a}", pattern)


def with_own_links(network: Network, entries: list[LinksAt]) -> Network:
    """A network whose links have what entries give them."""
    wires = network.wires
    for entry in entries:
        own = {name: getattr(entry, name) for name in entry.model_fields_set - {"at"}}
        wires = [
            wire._replace(**own) if any(is_link(pattern, wire) for pattern in entry.at) else wire
            for wire in wires
        ]
    return dataclasses.replace(network, wires=wires)


def _known_preset(name: str) -> str:
    if name not in SWITCH_PRESETS:
        expected = f"one of {', '.join(SWITCH_PRESETS)}"
        raise PydanticCustomError("found_expected", "{expected}", {"expected": expected, "found": name})
    return name


def given(entry: Section) -> dict[str, Any]:
    """What an entry gives, as in a file; its preset's settings are those that it does not give itself."""
    own = entry.model_dump(by_alias=True, exclude_unset=True)
    own.pop("at")
    preset = own.pop("preset", None)
    return own if preset is None else laid_over(SWITCH_PRESETS[preset], own)


def laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Settings over others: sections, such as `ecn`, setting by setting; everything else as a whole."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if key in _SECTIONS and isinstance(under, dict) and isinstance(value, dict):
            merged[key] = {**under, **value}
        else:
            merged[key] = value
    return merged


def switches_by_name(base: Switch, entries: list[SwitchesAt], names: list[str]) -> dict[str, Switch]:
    """The settings of each switch. Switches that the same entries name share them.

    Raises:
        ValidationError: settings of entries and of `switch` contradict each other; not for scenarios from `load`.
    """
    if not entries:
        return dict.fromkeys(names, base)
    whole = base.model_dump(by_alias=True, exclude_unset=True)
    made: dict[tuple[int, ...], Switch] = {(): base}
    found = {}
    for name in names:
        named = tuple(i for i, entry in enumerate(entries) if matches(entry.at, name))
        if named not in made:
            settings = whole
            for index in named:
                settings = laid_over(settings, given(entries[index]))
            made[named] = Switch.model_validate(settings)
        found[name] = made[named]
    return found
