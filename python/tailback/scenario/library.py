"""The scenarios that come with the package."""

from __future__ import annotations

from importlib.resources import files

_FOLDER = files("tailback") / "scenarios"
_SUFFIX = ".yaml"


def names() -> list[str]:
    """Names of all built-in scenarios."""
    return sorted(
        file.name.removesuffix(_SUFFIX) for file in _FOLDER.iterdir() if file.name.endswith(_SUFFIX)
    )


def text(name: str) -> bytes:
    """The YAML of a built-in scenario."""
    return (_FOLDER / f"{name}{_SUFFIX}").read_bytes()
