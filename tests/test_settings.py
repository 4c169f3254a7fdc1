"""A setting is declared once: in a class of the scenario, or in the engine and then in no class by hand."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from tailback.limits import RESULT_BINS
from tailback.scenario import controllers, declared
from tailback.scenario.by_place import Part
from tailback.scenario.fields import Declared
from tailback.scenario.model import Scenario
from tailback.scenario.round_trip import MAX_WINDOW

CRATES = Path(__file__).parents[1] / "crates"
CHOOSES = ("kind", "profile")
"""Fields that say which section it is: their values differ, and so does each declaration."""


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections that a field may hold."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (list, dict, Union, UnionType, Annotated):
        for inner in get_args(annotation):
            yield from models(inner)


def sections() -> list[type[BaseModel]]:
    """All sections of a scenario, each once."""
    found: dict[type[BaseModel], None] = {}
    left = [Scenario]
    while left:
        section = left.pop()
        if section not in found:
            found[section] = None
            left += [one for field in section.model_fields.values() for one in models(field.annotation)]
    return list(found)


def engine() -> tuple[Counter[str], dict[str, set[str]]]:
    """`struct.field` of all that the sources of the engine declare, and how often; what several structs have
    in common is the field of the macro that declares them. And the fields of each struct.
    """
    texts = [file.read_text(encoding="utf-8") for file in sorted(CRATES.glob("*/src/**/*.rs"))]
    found: Counter[str] = Counter()
    common: dict[str, set[str]] = {}
    for name, body in (one for text in texts for one in re.findall(_MACRO, text, re.S | re.M)):
        if "parameters! {" in body and name != "parameters":
            rows = re.findall(r"^ {16}(\w+): .* = ", body, re.M)
            found.update(f"{name}!.{row}" for row in rows)
            common[name] = set(rows)
    made = "|".join(["parameters", *common])
    structs = {}
    for text in texts:
        blocks = re.findall(rf"^(?:\w+::)?({made})! \{{\n(.*?)^\}}", text, re.S | re.M)
        for macro, block in blocks:
            struct = re.search(r"pub struct (\w+) \{(\}|.*?^    \})", block, re.S | re.M)
            assert struct, block
            own = re.findall(r"^        (\w+): ", struct[2], re.M)
            found.update(f"{struct[1]}.{name}" for name in own)
            shared = common.get(macro, set()) - (
                set() if block.startswith("    spread\n") else {"start_spread"}
            )
            structs[struct[1]] = {*own, *shared}
    return found, structs


_MACRO = r"^macro_rules! (\w+) \{\n(.*?)^\}"


def test_no_section_declares_a_setting_again() -> None:
    """A class may add to what it is made from; it may not write it anew."""
    twice = {
        f"{section.__name__}.{name}"
        for section in sections()
        for name, times in Counter(
            name for one in section.__mro__ for name in vars(one).get("__annotations__", {})
        ).items()
        if name in section.model_fields and name not in CHOOSES and times > 1
    }
    assert not twice


def test_what_is_auto_is_declared_by_the_engine() -> None:
    made = {declared.__name__, controllers.__name__}
    own = {
        f"{one.__name__}.{name}"
        for section in sections()
        for one in section.__mro__
        if one.__module__ not in made and not issubclass(section, Part)  # of settings declared elsewhere
        for name in vars(one).get("__annotations__", {})
        if name in section.model_fields and section.model_fields[name].default == "auto"
    }
    assert not own


def test_what_the_engine_declares_is_declared_once() -> None:
    found, structs = engine()
    assert {name for name in found if "!" in name} >= {"traffic!.start", "traffic!.stop", "agent!.write_time"}
    assert [name for name, times in found.items() if times > 1] == []
    # Sections of one struct each; the parameters of controllers are in a module of their own.
    made = {
        name: set(kind.__annotations__) - {"kind"}
        for name, kind in vars(declared).items()
        if inspect.isclass(kind) and issubclass(kind, Declared) and kind is not Declared
    }
    assert [name for name, fields in made.items() if fields not in structs.values()] == []


def test_what_repeats_a_bound_has_that_bound() -> None:
    """Two limits stand where the scenario's classes cannot be imported, or need the number alone."""
    bins, window = (
        next(bound.le for bound in section.model_fields[name].metadata if hasattr(bound, "le"))
        for section, name in ((declared.Record, "max_bins"), (declared.Transport, "window_packets"))
    )
    assert bins == RESULT_BINS
    assert window == MAX_WINDOW


def test_every_declared_section_is_one_of_a_scenario() -> None:
    used = {one for section in sections() for one in section.__mro__}
    unused = {
        name
        for name, kind in vars(declared).items()
        if inspect.isclass(kind) and issubclass(kind, Declared) and kind is not Declared and kind not in used
    }
    assert not unused
