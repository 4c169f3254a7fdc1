"""Loads scenarios from files, built-in names, text and Python data, and applies single settings."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from tailback import library
from tailback.controller import Factory, source_of
from tailback.errors import InputError, Path, Problem, found, nearest
from tailback.files import FileRefusedError, read_file
from tailback.limits import MAX_DEPTH, SCENARIO_BYTES
from tailback.scenario.build import build
from tailback.scenario.document import Document, from_python, from_yaml
from tailback.scenario.model import Scenario
from tailback.scenario.presets import fill
from tailback.units import format_size

STANDARD_INPUT = "-"
Source = str | os.PathLike[str] | Mapping[str, object] | Scenario
"""A built-in name, a file, plain data, or a `Scenario`."""


def load(
    source: Source,
    *,
    sets: Sequence[str] = (),
    seed: int | None = None,
    controllers: Mapping[str, Factory | str] | None = None,
) -> Scenario:
    """Reads and checks a scenario.

    Args:
        source: A built-in name, a path (a text with `/` or an ending, or a `Path`), `-` for standard
            input, plain data, or a `Scenario`.
        sets: Texts `path=value`, as after `--set`: `traffic.0.qps=512`. Later ones win.
        seed: Replaces `run.seed`.
        controllers: Congestion controllers in Python by their names in the scenario: classes, or texts
            `FILE.py:CLASS`. A single one that the scenario does not name becomes host.congestion.

    Raises:
        InputError: has all problems, one line each.
    """
    factories = source._factories if isinstance(source, Scenario) else {}
    return _finish(_document(source), sets, seed, controllers or {}, factories)


def loads(
    text: str | bytes, *, label: str = "<text>", sets: Sequence[str] = (), seed: int | None = None
) -> Scenario:
    """As `load`, from text; `label` names it in messages."""
    return _finish(from_yaml(text, label), sets, seed, {}, {})


def _finish(
    document: Document,
    sets: Sequence[str],
    seed: int | None,
    controllers: Mapping[str, Factory | str],
    factories: Mapping[str, Factory],
) -> Scenario:
    problems: list[Problem] = []
    for setting in sets:
        try:
            _set(document, setting)
        except InputError as error:
            problems.extend(error.problems)
    if seed is not None:
        with contextlib.suppress(InputError):  # run is not a mapping: build reports it
            document.put(("run", "seed"), Document(seed, {(): "--seed"}))
    problems += _put_controllers(document, controllers)
    classes = {name: one for name, one in controllers.items() if not isinstance(one, str)}
    filled = fill(document)
    problems += _shared_beside(document, filled.sources)
    try:
        scenario = build(document, {**factories, **classes})
    except InputError as error:
        raise InputError([*problems, *error.problems]) from None
    if problems:
        raise InputError(problems)
    scenario.filled.update(filled.sources)
    scenario.overridden_presets.update(filled.given)
    return scenario


def _shared_beside(document: Document, filled: Mapping[Path, str]) -> list[Problem]:
    """Refuses switch.shared where `qos` sets the pools: lossless traffic would not use it."""
    data, place = document.data, ("switch", "shared")
    switch = data.get("switch") if isinstance(data, dict) else None
    given = switch.get("shared", "auto") if isinstance(switch, dict) else "auto"
    if given == "auto" or ("switch", "pools", "lossless") not in filled:
        return []
    text = f"found {found(given)}, expected auto where qos sets switch.pools; or switch.pools of its own"
    return [Problem(document.origin(place), place, text)]


def _put_controllers(document: Document, controllers: Mapping[str, Factory | str]) -> list[Problem]:
    """Adds controllers to a document, as if they were written there."""
    problems = []
    for name, one in controllers.items():
        text, origin = (one, "--controller") if isinstance(one, str) else (source_of(one), "")
        if isinstance(one, str):
            text = str(FilePath(one).absolute())  # not relative to the scenario, unlike files that it names
        runs = _names(document.data, name)
        with contextlib.suppress(InputError):  # not a mapping: build reports it
            document.put(("controllers", name), Document(text, {(): origin}))
            if not runs and len(controllers) == 1:
                document.put(("host", "congestion"), Document(name, {(): origin}))
        if not runs and len(controllers) > 1:
            expected = f"one of several controllers to be named, such as host.congestion={name}"
            problems.append(
                Problem(origin, ("controllers", name), f"found nothing that runs it, expected {expected}")
            )
    return problems


def _names(data: object, controller: str) -> bool:
    """True if anything in plain data names the controller."""
    if isinstance(data, Mapping):
        return data.get("congestion") == controller or any(
            _names(value, controller) for value in data.values()
        )
    return isinstance(data, list) and any(_names(value, controller) for value in data)


def _document(source: Source) -> Document:
    if isinstance(source, Scenario):
        document = from_python(source.model_dump(by_alias=True, exclude_unset=True))
        for filled in source.filled:
            document.remove(filled)
        document.origins.update({path: o for path, o in source.origins.items() if path in document.origins})
        document.folder = source._folder
        return document
    if isinstance(source, Mapping):
        return from_python(source)
    if not isinstance(source, (str, os.PathLike)):
        text = f"found {found(source)}, expected a name, a path, a mapping or a Scenario"
        raise InputError.at("", text)
    path = os.fspath(source)
    if isinstance(source, str) and source in library.names():
        return from_yaml(library.text(source), f"{source}.yaml")
    if path == STANDARD_INPUT:
        return from_yaml(_from_standard_input(), "<stdin>")
    document = from_yaml(_read(path, is_name=isinstance(source, str)), path)
    document.folder = FilePath(path).parent
    return document


def _from_standard_input() -> bytes:
    read = sys.stdin.buffer.read(SCENARIO_BYTES + 1)
    if len(read) > SCENARIO_BYTES:
        raise InputError.at(
            "<stdin>", f"found more than {format_size(SCENARIO_BYTES)}, expected at most that"
        )
    return read


def _read(path: str, is_name: bool) -> bytes:
    reason = "a file that can be read"
    try:
        return read_file(path, SCENARIO_BYTES)
    except FileNotFoundError:
        what = "no such file"
        names = library.names()
        likely = nearest(path, names)
        if path in library.published():
            what, reason = "a published experiment", f"a scenario; tailback reproduce {path} runs it"
        elif likely:
            reason = f"a file or a built-in scenario; perhaps {likely}"
        elif is_name and os.sep not in path and not FilePath(path).suffix:
            reason = f"a file or one of the built-in scenarios {', '.join(names)}"
        else:
            reason = "a scenario file"
    except OSError as error:
        what = (error.strerror or type(error).__name__).lower()
    except FileRefusedError as error:
        what, reason = error.found, error.expected
    except ValueError:
        what = "a name that no file can have"
    raise InputError.at(path, f"found {what}, expected {reason}")


def _set(document: Document, setting: str) -> None:
    name, separator, value = setting.partition("=")
    if not separator or not all(name.split(".")) or name.count(".") >= MAX_DEPTH:
        text = f"found {found(setting)}, expected path=value, such as traffic.0.qps=512"
        raise InputError.at("--set", text)
    path: Path = tuple(
        int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part
        for part in name.split(".")
    )
    try:
        new = from_yaml(value, "--set", lines=False)
    except InputError as error:
        raise InputError([Problem("--set", path + p.path, p.text) for p in error.problems]) from None
    document.put(path, new)
