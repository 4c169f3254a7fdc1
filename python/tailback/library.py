"""Scenarios, published experiments and labs that come with the package."""

from __future__ import annotations

from pathlib import Path

import yaml

from tailback.measured import LABS

_PACKAGE_DIR = Path(__file__).parent
_SCENARIOS_DIR = _PACKAGE_DIR / "scenarios"
_PUBLISHED_DIR = _PACKAGE_DIR / "published"
_LABS_DIR = _PACKAGE_DIR / "lab" / "examples"
_YAML_SUFFIX = ".yaml"


def names() -> list[str]:
    """Names of all built-in scenarios."""
    return list(_files(_SCENARIOS_DIR))


def scenarios() -> dict[str, str]:
    """Names and descriptions (`about`) of all built-in scenarios."""
    return {name: _value_of(file, "about") for name, file in _files(_SCENARIOS_DIR).items()}


def published() -> dict[str, str]:
    """Names and titles of all published experiments."""
    return {name: _value_of(file, "title") for name, file in _files(_PUBLISHED_DIR).items()}


def measured() -> dict[str, str]:
    """Names and titles of the labs that others measured."""
    return dict(LABS)


def labs() -> dict[str, str]:
    """Names and descriptions (`about`) of all built-in labs."""
    return {name: _value_of(file, "about") for name, file in _files(_LABS_DIR).items()}


def lab_text(name: str) -> bytes:
    """The YAML of a lab."""
    return (_LABS_DIR / f"{name}{_YAML_SUFFIX}").read_bytes()


def text(name: str) -> bytes:
    """The YAML of a built-in scenario."""
    return (_SCENARIOS_DIR / f"{name}{_YAML_SUFFIX}").read_bytes()


def published_text(name: str) -> bytes:
    """The YAML of a published experiment."""
    return (_PUBLISHED_DIR / f"{name}{_YAML_SUFFIX}").read_bytes()


def _files(folder: Path) -> dict[str, Path]:
    found = {file.name.removesuffix(_YAML_SUFFIX): file for file in folder.iterdir()}
    return {name: file for name, file in sorted(found.items()) if name != file.name}


def _value_of(file: Path, key: str) -> str:
    """The value of the first occurrence of a key. Parsing stops there: whole files would take a while."""
    events = yaml.parse(file.read_bytes())
    scalars = (event.value for event in events if isinstance(event, yaml.ScalarEvent))
    return next((next(scalars) for scalar in scalars if scalar == key), "")
