"""The scenarios and the published experiments that come with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Traversable

_FOLDER = files("tailback") / "scenarios"
_PUBLISHED = files("tailback") / "published"
_SUFFIX = ".yaml"


def names() -> list[str]:
    """Names of all built-in scenarios."""
    return _names(_FOLDER)


def published() -> list[str]:
    """Names of all published experiments."""
    return _names(_PUBLISHED)


def _names(folder: Traversable) -> list[str]:
    return sorted(file.name.removesuffix(_SUFFIX) for file in folder.iterdir() if file.name.endswith(_SUFFIX))


def text(name: str) -> bytes:
    """The YAML of a built-in scenario."""
    return (_FOLDER / f"{name}{_SUFFIX}").read_bytes()
