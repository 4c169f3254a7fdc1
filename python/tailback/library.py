"""The scenarios and the published experiments that come with the package."""

from __future__ import annotations

from pathlib import Path

import yaml

_PACKAGE = Path(__file__).parent
_SCENARIOS = _PACKAGE / "scenarios"
_PUBLISHED = _PACKAGE / "published"
_LABS = _PACKAGE / "lab" / "examples"
_SUFFIX = ".yaml"


def names() -> list[str]:
    """Names of all built-in scenarios."""
    return list(_all(_SCENARIOS))


def scenarios() -> dict[str, str]:
    """Names of all built-in scenarios, and what each is about."""
    return {name: _first(file, "about") for name, file in _all(_SCENARIOS).items()}


def published() -> dict[str, str]:
    """Names and titles of all published experiments."""
    return {name: _first(file, "title") for name, file in _all(_PUBLISHED).items()}


def labs() -> dict[str, str]:
    """Names of all labs that come with the package, and what each is about."""
    return {name: _first(file, "about") for name, file in _all(_LABS).items()}


def lab_text(name: str) -> bytes:
    """The YAML of a lab."""
    return (_LABS / f"{name}{_SUFFIX}").read_bytes()


def text(name: str) -> bytes:
    """The YAML of a built-in scenario."""
    return (_SCENARIOS / f"{name}{_SUFFIX}").read_bytes()


def published_text(name: str) -> bytes:
    """The YAML of a published experiment."""
    return (_PUBLISHED / f"{name}{_SUFFIX}").read_bytes()


def _all(folder: Path) -> dict[str, Path]:
    found = {file.name.removesuffix(_SUFFIX): file for file in folder.iterdir()}
    return {name: file for name, file in sorted(found.items()) if name != file.name}


def _first(file: Path, key: str) -> str:
    """The value of a key near the beginning of a file. Reading a file to its end takes a while."""
    events = yaml.parse(file.read_bytes())
    scalars = (event.value for event in events if isinstance(event, yaml.ScalarEvent))
    return next((next(scalars) for scalar in scalars if scalar == key), "")
