"""The version of the installed package."""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("tailback")
except metadata.PackageNotFoundError:
    __version__ = "unknown"
    """Run from a source tree."""
