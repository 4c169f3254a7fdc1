"""Reading what is asked for of many runs, a file or plain data, into a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from tailback.files import FileRefusedError, read_file
from tailback.limits import SCENARIO_BYTES
from tailback.scenario import Problem, ScenarioError
from tailback.scenario.document import Document, from_python, from_yaml
from tailback.scenario.errors import found, one_of

Asked = TypeVar("Asked", bound=BaseModel)


def content_of(path: Path, what: str) -> bytes:
    """What a file holds. ScenarioError, with `what` was expected, when it cannot be read."""
    try:
        return read_file(path, SCENARIO_BYTES)
    except FileNotFoundError:
        text = f"found no such file, expected {what}"
    except OSError as error:
        text = f"found {(error.strerror or type(error).__name__).lower()}, expected {what}"
    except FileRefusedError as error:
        text = f"found {error.found}, expected {error.expected}"
    raise ScenarioError([Problem(str(path), (), text)])


def document_of(source: str | os.PathLike[str] | Mapping[str, Any], what: str) -> Document:
    """Plain data with the place of each value, from a YAML file or as given. ScenarioError: not readable."""
    if isinstance(source, Mapping):
        return from_python(source)
    return from_yaml(content_of(Path(source), what), str(source))


def validated(model: type[Asked], document: Document, check: Callable[[Asked], object]) -> Asked:
    """The data as a model that `check` finds nothing wrong with.

    Raises:
        ScenarioError: with all problems, a line each, and the line in the file.
    """
    try:
        asked = model.model_validate(document.data)
        check(asked)
    except ValidationError as error:
        wrong = [_problem(model, document, dict(one)) for one in error.errors(include_url=False)]
        # Of a field that may be of several kinds, what the first expected.
        raise ScenarioError({one.path: one for one in reversed(wrong)}.values()) from None
    except ScenarioError as error:
        raise ScenarioError(
            Problem(one.place or document.origin(one.path), one.path, one.text) for one in error.problems
        ) from None
    return asked


def beside(scenario: str | dict[str, Any], folder: Path) -> str | dict[str, Any]:
    """A scenario's file where it is beside the file that names it; anything else as it is."""
    if isinstance(scenario, str) and (folder / scenario).is_file():
        return str((folder / scenario).absolute())
    return scenario


def _problem(model: type[BaseModel], document: Document, error: dict[str, Any]) -> Problem:
    path = tuple(error["loc"])
    while path and path not in document.origins and error["type"] not in ("missing", "extra_forbidden"):
        path = path[:-1]  # which kind of a value was tried
    if error["type"] == "extra_forbidden":
        text = f"found an unknown field, expected {one_of(path[-1], _fields(model, path[:-1]))}"
    elif error["type"] == "missing":
        text = "found nothing, expected a value"
    elif error["type"] == "value_error":
        text = str(error["ctx"]["error"])
    else:
        message = error["msg"].removeprefix("Input should be ")
        text = f"found {found(error['input'])}, expected {message[0].lower()}{message[1:]}"
    return Problem(document.origin(path), path, text)


def _fields(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The fields of what is at a path of a model."""
    for part in path:
        if part in model.model_fields:
            model = next(_models(model.model_fields[str(part)].annotation), model)
    return list(model.model_fields)


def _models(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
