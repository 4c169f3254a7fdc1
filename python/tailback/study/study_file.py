"""The file of a study: read, checked against its model, with lines in errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from tailback.errors import InputError, Problem, found, one_of, plain
from tailback.files import FileRefusedError, StrictModel, confined_to, read_file
from tailback.files.json import read_json
from tailback.files.out_folder import OutFolder
from tailback.limits import SCENARIO_BYTES
from tailback.scenario.document import Document, from_python, from_yaml
from tailback.study.points import parse_seeds

RENAMED = {"measure": "metric", "measures": "metrics"}
"""Keys that files of older versions have."""

Model = TypeVar("Model", bound=BaseModel)
Scenario = TypeVar("Scenario", bound="str | dict[str, Any]")
Source = str | os.PathLike[str] | Mapping[str, Any]
"""A file, or plain data in the same form."""


class StudyDesign(StrictModel):
    """What a study was asked for, as its file has it."""

    FILE: ClassVar[str]
    """Its name in the folder of the result."""
    WHAT: ClassVar[str]
    """In messages, such as "a sweep"."""

    def canonical(self) -> str:
        """As a line that can be read again, with everything in its order."""
        return json.dumps(self.model_dump(mode="json"), allow_nan=False)

    @classmethod
    def begun_in(cls, folder: Path) -> dict[str, Any]:
        """What the study that was begun in a folder was asked for.

        Raises:
            InputError: there is none, or its file is damaged.
        """
        try:
            with confined_to(folder):
                return read_json(folder / cls.FILE)
        except OSError as error:
            why = "" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else f" ({error.strerror})"
            text = f"found no {cls.FILE}{why}"
        except ValueError as error:
            text = f"found a damaged file ({plain(str(error), 200)})"
        raise InputError.at(str(folder), f"{text}, expected the folder of {cls.WHAT}")


Design = TypeVar("Design", bound=StudyDesign)


def asked_for(
    kind: type[Design],
    read: Callable[[Source], Design],
    source: Source | Design | None,
    fields: Mapping[str, Any],
    out: str | os.PathLike[str] | OutFolder | None,
    resume: bool,
) -> Design:
    """A study as it was asked for: by its design, its file or its fields; without any of them, and with `resume`,
    the one that was begun in `out`.

    Raises:
        InputError: it cannot be read, or `resume` has no folder.
    """
    if resume and (out is None or isinstance(out, OutFolder)):
        raise InputError.at("resume", f"found no folder, expected out, that of {kind.WHAT}")
    if isinstance(source, kind):
        return source
    if resume and source is None and not fields:
        return read(kind.begun_in(Path(out)))  # type: ignore[arg-type]
    return read(fields if source is None else source)  # type: ignore[arg-type]


def name_of(scenario: str | Mapping[str, Any]) -> str:
    """The name of a scenario, without reading its file; empty where it has none."""
    return str(scenario.get("name") or "") if isinstance(scenario, Mapping) else Path(scenario).stem


def seeds_of(given: str | int | Sequence[int]) -> list[int]:
    """The seeds of a study, each once.

    Raises:
        InputError: they are none.
    """
    return parse_seeds(str(given) if isinstance(given, (str, int)) else ",".join(map(str, given)))


class StudyFile(NamedTuple):
    """A document, and the folder beside whose other files its scenarios are."""

    document: Document
    folder: Path

    @classmethod
    def read(cls, source: Source, what: str) -> StudyFile:
        """From a file or from plain data; `what` is expected, such as "a sweep".

        Raises:
            InputError: it cannot be read.
        """
        if isinstance(source, Mapping):
            return cls(from_python(source), Path())
        path = Path(source)
        return cls(from_yaml(content_of(path, what), str(path)), path.parent)

    def as_a(self, model: type[Model]) -> Model:
        """The document as its model has it.

        Raises:
            InputError: with all problems, a line each.
        """
        if not isinstance(self.document.data, dict):
            required = [name for name, field in model.model_fields.items() if field.is_required()]
            text = f"found {found(self.document.data)}, expected a mapping with {' and '.join(required)}"
            raise InputError.at(self.document.origin(()), text)
        try:
            return model.model_validate(self.document.data)
        except ValidationError as error:
            wrong = [self._problem(model, dict(one)) for one in error.errors(include_url=False)]
            renamed = {
                (*one.path[:-1], RENAMED[str(one.path[-1])])
                for one in wrong
                if one.path and one.path[-1] in RENAMED
            }
            wrong = [one for one in wrong if one.path not in renamed]  # said once, where it is
            # Of a field that may be of several kinds: what is wrong within the one that it nearly is; else
            # what the first expected.
            within = {one.path[:-1] for one in wrong}
            told = [one for one in wrong if one.path not in within] or wrong
            raise InputError({one.path: one for one in reversed(told)}.values()) from None

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Problems that are found within get their place in the document."""
        try:
            yield
        except InputError as error:
            raise InputError(
                [
                    Problem(one.place or self.document.origin(one.path), one.path, one.text)
                    for one in error.problems
                ]
            ) from None

    def beside(self, scenario: Scenario) -> Scenario | str:
        """The path of a scenario that is a file beside this one; else what it is."""
        if isinstance(scenario, str) and (self.folder / scenario).is_file():
            return str((self.folder / scenario).absolute())
        return scenario

    def _place(self, names: Sequence[str | int], of_field: bool) -> tuple[str | int, ...]:
        """A path of the document: without the names of the kinds of a value that were tried. `of_field` says
        that the last one is a field, whether it is there or not.
        """
        path: list[str | int] = []
        for number, name in enumerate(names):
            if (*path, name) in self.document.origins or (of_field and number == len(names) - 1):
                path.append(name)
        return tuple(path)

    def _problem(self, model: type[BaseModel], error: dict[str, Any]) -> Problem:
        path = self._place(error["loc"], error["type"] in ("missing", "extra_forbidden"))
        if error["type"] == "extra_forbidden":
            field = str(path[-1])
            expected = RENAMED.get(field) or one_of(field, _fields(model, path[:-1]))
            text = f"found an unknown field, expected {expected}"
        elif error["type"] == "missing":
            text = "found nothing, expected a value"
        elif error["type"] == "too_short":
            text = f"found {found(error['input'])}, expected at least {error['ctx']['min_length']}"
        elif error["type"] == "value_error":
            text = str(error["ctx"]["error"])
        else:
            message = error["msg"].removeprefix("Input should be ")
            text = f"found {found(error['input'])}, expected {message[0].lower()}{message[1:]}"
        return Problem(self.document.origin(path), path, text)


def may_change_parts(settings: Iterable[str]) -> bool:
    """True if a setting may change which traffic items or hosts a scenario has."""
    return any(
        one == "traffic"
        or one.endswith(".kind")
        or (one.startswith("topology") and not one.startswith("topology.link"))
        for one in settings
    )


def content_of(path: Path, what: str) -> bytes:
    """What a file holds; `what` is expected there.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return read_file(path, SCENARIO_BYTES)
    except FileNotFoundError:
        text = f"found no such file, expected {what}"
    except OSError as error:
        text = f"found {(error.strerror or type(error).__name__).lower()}, expected {what}"
    except FileRefusedError as error:
        text = f"found {error.found}, expected {error.expected}"
    raise InputError.at(str(path), text)


def _fields(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    for part in path:
        if part in model.model_fields:
            model = next(_models(model.model_fields[str(part)].annotation), model)
    return list(model.model_fields)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
