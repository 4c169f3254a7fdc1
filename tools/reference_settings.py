"""The settings of a scenario: their paths, the sections that they are in, and what each takes."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from tailback.scenario.by_place import Part
from tailback.scenario.by_rate import ByRate
from tailback.scenario.classes import CnpPriority, NumberMapping
from tailback.scenario.hosts import HostSet
from tailback.scenario.model import Scenario
from tailback.scenario.profiles import ControllerNames, profiles_of
from tailback.units import Quantity

FROM_PROFILE = "the profile's"
OR_NULL = ", or `null`"


@dataclass(frozen=True)
class Setting:
    """A key of a scenario: its path in dots, and its declaration."""

    path: str
    key: str
    field: FieldInfo
    holder: type[BaseModel]

    @property
    def source(self) -> str:
        """Where the default comes from; empty for a key without one, and for a whole section."""
        extra = self.field.json_schema_extra
        return str(extra.get("source", "")) if isinstance(extra, dict) else ""

    @property
    def default(self) -> str:
        """The default as a file would have it."""
        if self.field.is_required():
            return "required"
        if of_profile(self.holder, self.key):
            return FROM_PROFILE
        if section(self.field.annotation) and self.field.default is PydanticUndefined:
            return "the section's defaults"
        return f"`{as_written(self.key, self.field)}`"


def as_written(key: str, field: FieldInfo) -> str:
    """A default in the words of YAML."""
    value = field.default
    quantity = next((rule for rule in rules(field) if isinstance(rule, Quantity)), None)
    if by_rate := next((rule for rule in rules(field) if isinstance(rule, ByRate)), None):
        return str(by_rate.format(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if key == "mtu":  # powers of two are what people call MTUs by, in bytes
        return f"{value}B"
    if isinstance(value, list) and value and isinstance(value[0], BaseModel):
        return json.dumps([one.model_dump(exclude_defaults=True) for one in value]).replace('"', "")
    if quantity is not None and isinstance(value, list):
        return f"[{', '.join(map(quantity.format, value))}]"
    if quantity is not None and isinstance(value, int):
        return quantity.format(value)
    if isinstance(value, tuple):
        return ", ".join(value)
    return '""' if value == "" else str(value)


def rules(field: FieldInfo) -> list[Any]:
    """What restricts a field: the metadata of its own type and of those inside it."""
    return [*field.metadata, *inner_rules(field.annotation)]


def inner_rules(annotation: Any) -> list[Any]:
    """The metadata of the types inside an annotation."""
    found = list(annotation.__metadata__) if get_origin(annotation) is Annotated else []
    for part in get_args(annotation):
        found += inner_rules(part) if get_origin(annotation) is not Literal else []
    return found


def takes(field: FieldInfo, key: str) -> str:
    """What may stand after a key, in words."""
    words = kind(field.annotation, rules(field), key)
    if type(None) in get_args(field.annotation) and not (
        section(field.annotation) and field.default is not None
    ):
        words += OR_NULL
    return words


def kind(annotation: Any, limits: list[Any], key: str) -> str:
    """The type in words, without null."""
    quantity = next((rule for rule in limits if isinstance(rule, Quantity)), None)
    if by_rate := next((rule for rule in limits if isinstance(rule, ByRate)), None):
        what = by_rate.expected.removeprefix("a ")
        return f"{what}; or a mapping of rates to such: `{{25Gbps: ..., 100Gbps: ...}}`"
    if numbered := next((rule for rule in limits if isinstance(rule, NumberMapping)), None):
        total = f", {numbered.total} in all" if numbered.total else ""
        return f"{numbered.expected.removeprefix('a ')}{total}"
    if names := next((rule for rule in limits if isinstance(rule, ControllerNames)), None):
        return " or ".join(f"`{name}`" for name in names.built_in) + ", or a name of `controllers`"
    if key == "controllers":
        return "a mapping of names to `FILE.py:CLASS`"
    if get_args(CnpPriority)[1] in limits:
        return "whole number, 0 to 7, or `data`"
    plain = strip(annotation)
    if quantity is not None:
        return ("a list, each a " if get_origin(plain) is list else "") + quantity_in_words(quantity)
    if annotation in (get_args(HostSet)[0], HostSet):
        return "hosts: `h0`, `h0..h15`, `all`, or a list of these"
    if found := models(annotation):
        what = "a list of mappings" if get_origin(plain) is list else "a mapping"
        if len(found) == 1:
            return f"{what}, see [{anchor_of(found[0])}](#{anchor_of(found[0])})"
        kinds = ", ".join(f"[{kind_of(model)}](#{anchor_of(model)})" for model in found)
        return f"{what}, by `kind`: {kinds}"
    if get_origin(plain) is list:
        return list_in_words(get_args(plain)[0])
    if get_origin(plain) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(plain))
    if plain is bool:
        return "`true` or `false`"
    if plain in (int, float):
        words = [
            word for part in get_args(annotation) if get_origin(part) is Literal for word in get_args(part)
        ]
        return (
            ("whole number" if plain is int else "number")
            + span(limits)
            + "".join(f", or `{w}`" for w in words)
        )
    return "text"


def list_in_words(each: Any) -> str:
    """A list of priorities, of other numbers, of words or of texts."""
    plain = strip(each)
    if get_origin(plain) is Literal:
        words = " or ".join(f"`{word}`" for word in get_args(plain))
        return f"{words}, or a list of these"
    if plain is not int:
        return "a list of texts"
    fields = [rule for rule in inner_rules(each) if isinstance(rule, FieldInfo)]
    bounds = span([bound for field in fields for bound in field.metadata])
    return f"a list of {'priorities' if bounds == ', 0 to 7' else 'whole numbers'}{bounds}"


def strip(annotation: Any) -> Any:
    """A type without null and without annotations."""
    if get_origin(annotation) is Annotated:
        return strip(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return strip(next(part for part in get_args(annotation) if part is not type(None)))
    return annotation


def span(limits: list[Any]) -> str:
    """`, 0 to 7`, from the bounds of a number."""
    low = next((rule.ge for rule in limits if isinstance(rule, Ge)), None)
    above = next((rule.gt for rule in limits if isinstance(rule, Gt)), None)
    high = next((rule.le for rule in limits if isinstance(rule, Le)), None)
    below = next((rule.lt for rule in limits if isinstance(rule, Lt)), None)
    start = f"{low:,g}" if low is not None else f"above {above:g}" if above is not None else ""
    if below is not None:
        return f", {start} to below {below:g}"
    if high is None:
        return f", {start} or more" if start else ""
    if high in (2**32 - 1, 2**40, 2**63 - 1):
        return f", {start} to 2^{high.bit_length() - (high & 1 == 0)}{' - 1' if high & 1 else ''}"
    return f", {start} to {high:,g}" if isinstance(high, float) else f", {start} to {high:,}"


def quantity_in_words(quantity: Quantity) -> str:
    """A quantity with its unit and bounds, and the words that may stand in its place."""
    top = "" if quantity.maximum == 2**63 - 1 else quantity.format(quantity.maximum)
    words = quantity.noun
    if quantity.choices:
        return f"{words}: {', '.join(f'`{choice}`' for choice in quantity.choices_in_words())}"
    if quantity.minimum <= 1 < quantity.maximum:
        words += ", above 0" if quantity.minimum == 1 else ""
        words += f", up to {top}" if top else ""
    else:
        words += f", {quantity.format(quantity.minimum)} to {top}"
    return words + "".join(f", or `{word}`" for word in quantity.words)


def models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a key's value, or an item of it, is a mapping of: several where `kind` chooses."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is Literal:
        return []
    return [model for part in get_args(annotation) for model in models(part)]


def section(annotation: Any) -> bool:
    """True if a key's value is a mapping or a list of mappings."""
    return bool(models(annotation))


def kind_of(model: type[BaseModel]) -> str:
    """The `kind` of a model; empty for one that is not chosen by it."""
    field = model.model_fields.get("kind")
    return str(get_args(field.annotation)[0]) if field else ""


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """All mappings of a scenario with their paths, each before what it holds, and each model once."""
    seen: set[type[BaseModel]] = set()

    def walk(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
        if model in seen:
            return
        seen.add(model)
        yield path, model
        inner = f"{path} ({kind_of(model)})" if kind_of(model) else path
        for setting in settings(model, inner):
            for below in models(setting.field.annotation):
                yield from walk(below, setting.path.replace(f" ({kind_of(model)})", ""))

    return walk(Scenario, "")


def anchor_of(model: type[BaseModel]) -> str:
    """The anchor of a model's section."""
    found = list(sections())
    path = next(path for path, other in found if other is model)
    name = path.split(".")[-1]
    # host.tcp are the settings, traffic of kind tcp is what is sent.
    shared = not kind_of(model) and name in {kind_of(other) for _, other in found}
    return anchor(kind_of(model) or (path.replace(".", "-") if shared else name)) or "scenario"


def settings(model: type[BaseModel], path: str) -> Iterator[Setting]:
    """The keys of one mapping; of settings by place those that no other section has."""
    for name, field in model.model_fields.items():
        if issubclass(model, Part) and name not in ("at", "preset"):
            continue
        key = field.alias or name
        is_list = section(field.annotation) and get_origin(field.annotation) is list
        full = ".".join(part for part in (path, key) if part) + ("[]" if is_list else "")
        yield Setting(full, key, field, model)


def all_settings() -> list[Setting]:
    """Every key of a scenario, in the order of a file."""
    return [
        setting
        for path, model in sections()
        for setting in settings(model, f"{path} ({kind_of(model)})" if kind_of(model) else path)
    ]


def anchor(text: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^a-z0-9_-]", "", text.lower())


def of_profile(model: type[BaseModel], key: str) -> bool:
    """True if a key's default is that of a profile."""
    return bool(profiles_of(model)) and key != "profile"
