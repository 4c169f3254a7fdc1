"""Builds a checked `Scenario` from plain data, or reports all problems."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tailback.controller import CLASS_IN_FILE_FORM, Checked, Factory, checked, from_source, split
from tailback.errors import InputError, Path, Problem, found, one_of
from tailback.limits import CONTROLLER_BYTES, MAX_PROBLEMS
from tailback.scenario.checks import conflicts
from tailback.scenario.controllers import BUILT_IN_CONTROLLERS, Controllers
from tailback.scenario.document import Document
from tailback.scenario.fields import kind_of
from tailback.scenario.hosts import Budget
from tailback.scenario.model import Scenario

_EXPECTED_BY_ERROR = {
    "missing": "a value",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
    "string_unicode": "text",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-', at most 64, a letter or digit first",
}
_BOUND_WORDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "too_short": ("a list of at least", "min_length"),
    "too_long": ("a list of at most", "max_length"),
    "string_too_long": ("text of at most", "max_length"),
}


def build(document: Document, factories: Mapping[str, Factory] | None = None) -> Scenario:
    """Checks a document. `factories` are controllers given as Python objects.

    Raises:
        InputError: has all problems of fields, and all conflicts between fields.
    """
    problems: list[Problem] = []
    refused: list[Path] = []
    scenario, data = None, document.data
    section = data.get("controllers") if isinstance(data, dict) else None
    named = tuple(map(str, section)) if isinstance(section, dict) else ()
    # Refused fields are removed and the rest is checked again, so that one mistake does not hide another.
    while scenario is None:
        try:
            scenario = Scenario.model_validate(data, context=Budget(controllers=named))
        except ValidationError as error:
            found_wrong = islice(error.errors(include_url=False), MAX_PROBLEMS + 1)
            fresh = [problem_of(details, document) for details in found_wrong]
            problems += [problem for problem in fresh if not _follows_from(problem, refused, conflict=False)]
            taken_out = _without(data, [problem.path for problem in fresh])
            enough = len(problems) > MAX_PROBLEMS
            if enough or taken_out is data or taken_out == data:  # NaN is not equal to itself
                break
            refused += [problem.path for problem in fresh]
            data = taken_out
    if scenario is not None:
        scenario._folder = document.folder
        scenario._factories.update(factories or {})
        problems += [Problem(document.origin(path), path, text) for path, text in _own_controllers(scenario)]
    if scenario is not None and scenario.own_controllers.keys() == scenario.controllers.keys():
        first = islice(conflicts(scenario), MAX_PROBLEMS + 1)
        found_out = [Problem(document.origin(path), path, text) for path, text in first]
        problems += [problem for problem in found_out if not _follows_from(problem, refused, conflict=True)]
    if problems or scenario is None:
        raise InputError(problems)
    scenario.origins.update(document.origins)
    return scenario


def with_seed(scenario: Scenario, seed: int) -> Scenario:
    """A checked scenario with another seed, without reading it again.

    Raises:
        InputError: the traffic that this seed draws cannot be run.
    """
    other = scenario.model_copy(update={"run": scenario.run.model_copy(update={"seed": seed})})
    other._messages, other._placed = {}, {}
    first = islice(conflicts(other), MAX_PROBLEMS + 1)
    problems = [Problem(scenario.origins.get(path, ""), path, text) for path, text in first]
    if problems:
        raise InputError(problems)
    return other


def _own_controllers(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Loads controllers in Python; yields their problems."""
    for name, text in scenario.controllers.items():
        try:
            scenario.own_controllers[name] = _own_controller(scenario, name, text)
        except InputError as error:
            yield ("controllers", name), error.problems[0].text
        except ValueError as error:
            yield ("controllers", name), str(error)


def _own_controller(scenario: Scenario, name: str, text: str | None) -> Checked:
    if name in BUILT_IN_CONTROLLERS or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,40}", name):
        raise ValueError(
            f'found the name "{name}", expected letters, digits and _, and no built-in controller\'s'
        )
    path, kind = split(text) if text is not None else ("", "")
    source = scenario.read(path, CONTROLLER_BYTES) if path else b""
    factory = scenario._factories.get(name)
    if factory is None:
        if text is None:
            raise ValueError(
                f"found null, a class that was given in Python and is in no file, expected {CLASS_IN_FILE_FORM}"
            )
        factory = from_source(source, str(scenario._folder / path), kind)
    return checked(name, factory)


_SETTINGS_OF_CONFLICTS: dict[str, list[Path]] = {
    "switch": [
        ("topology",),
        ("links",),
        *(("host", name) for name in ("mtu", "congestion", "tcp", *Controllers.model_fields)),
        *(("switch", name) for name in ("buffer", "shared", "lossless", "latency", "pfc", "pools", "strict")),
        ("switches",),
    ],
    "links": [("topology",)],
    "switches": [
        ("topology",),
        ("switch",),
        ("host", "mtu"),
        ("host", "tcp"),
        ("host", "congestion"),
        ("host", "transport"),
    ],
    "host": [
        ("topology",),
        *(
            ("host", name)
            for name in ("congestion", *Controllers.model_fields, "rhcc", "hostcc", "transport")
        ),
        *(("host", name) for name in ("qos", "cnp_priority", "strict")),
        *(("host", name) for name in ("mtu", "tcp", "path", "path_by_host")),
        ("switch", "lossless"),
    ],
    "traffic": [("topology",), ("run",), ("host", "cnp_priority")],
    "failures": [("topology",), ("run",)],
    "memory_load": [("topology",), ("run",), ("host", "path"), ("host", "path_by_host")],
    "bridge": [("topology",), ("bridge",)],
    "record": [("topology",)],
    "topology": [],
    "veth": [("topology",)],
    "qos": [("topology",)],
    "controllers": [],
}
"""Settings that the checks of conflicts in each section depend on."""


def _follows_from(problem: Problem, refused: list[Path], *, conflict: bool) -> bool:
    """True if a problem may only exist because refused fields were replaced by their defaults."""
    sources = _SETTINGS_OF_CONFLICTS[str(problem.path[0])] if conflict else []
    for path in refused:
        own = problem.path[: len(path)] == path or path[: len(problem.path)] == problem.path
        named = isinstance(path[-1], str) and path[-1] in problem.text
        if own or named or any(path[: len(source)] == source for source in sources):
            return True
    return False


def _without(data: Any, paths: list[Path]) -> Any:
    """Plain data without the values at `paths`; items of lists stay."""
    if not isinstance(data, dict):
        return data
    last = {path[0] for path in paths if len(path) == 1}
    kept = {}
    for key, value in data.items():
        if key in last:
            continue
        below = [path[1:] for path in paths if len(path) > 1 and path[0] == key]
        if isinstance(value, list):
            inside = [
                [path[1:] for path in below if len(path) > 1 and path[0] == i] for i in range(len(value))
            ]
            kept[key] = [_without(item, own) for item, own in zip(value, inside, strict=True)]
        else:
            kept[key] = _without(value, below)
    return kept


def problem_of(details: ErrorDetails, document: Document, top: type[BaseModel] = Scenario) -> Problem:
    """A problem that pydantic found in a document of kind `top`."""
    path, holder = _real(details["loc"], top)
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    expected = _EXPECTED_BY_ERROR.get(kind)
    what = found(value)
    if kind == "found_expected":
        expected = context["expected"]
        if "at" in context:
            path = (*path, context["at"])
            what = context["found"]
        elif "found" in context:
            what = found(context["found"])
    elif kind == "missing":
        what = "nothing"
        expected = f"a value: {_description(holder, path[-1])}"
    elif kind == "extra_forbidden":
        what = "an unknown field"
        expected = one_of(path[-1], _fields(holder))
    elif kind == "union_tag_not_found":
        path, what = (*path, "kind"), "nothing"
        expected = f"one of {', '.join(_kinds(holder, path))}"
    elif kind == "union_tag_invalid":
        path, what = (*path, "kind"), found(value["kind"]) if isinstance(value, dict) else what
        name = value["kind"] if isinstance(value, dict) else value
        expected = one_of(name, _kinds(holder, path))
    elif kind == "literal_error":
        expected = one_of(value, context["expected"].replace("'", "").replace(" or ", ", ").split(", "))
    elif kind in _BOUND_WORDS:
        words, name = _BOUND_WORDS[kind]
        expected = f"{words} {context[name]}"
        if "length" in name:
            what = str(context.get("actual_length", len(value)))
    if value is None and path == ("switch", "pfc"):
        expected = f"{expected}; without PFC: switch.lossless=[]"
    return Problem(document.origin(path), path, f"found {what}, expected {expected or details['msg']}")


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field's type may hold, through lists, unions and annotations."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (list, dict, Union, types.UnionType, Annotated):
        return [model for part in get_args(annotation) for model in _models(part)]
    return []


def _by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _real(location: Path, top: type[BaseModel]) -> tuple[Path, type[BaseModel]]:
    """The path that a reader knows, without the kinds that pydantic puts in, and the model at its end or
    around it.
    """
    path: list[str | int] = []
    holder = top
    choice: list[type[BaseModel]] = []
    for part in location:
        if len(choice) > 1 and isinstance(part, str):
            holder, choice = next(model for model in choice if kind_of(model) == part), []
            continue
        path.append(part)
        if isinstance(part, str):
            field = _by_key(holder).get(part)
            choice = _models(field.annotation) if field else []
            if len(choice) == 1:
                holder = choice[0]
    return tuple(path), holder


def _kinds(holder: type[BaseModel], path: Path) -> list[str]:
    """The kinds that the mapping around a `kind` may have."""
    name = next(part for part in reversed(path[:-1]) if isinstance(part, str))
    return [kind_of(model) for model in _models(_by_key(holder)[name].annotation)]


def _fields(holder: type[BaseModel]) -> list[str]:
    return list(_by_key(holder))


def _description(holder: type[BaseModel], key: str | int) -> str:
    """Description of a missing field."""
    field = _by_key(holder).get(str(key))
    return (field.description or "").rstrip(".").lower() if field else "required"
