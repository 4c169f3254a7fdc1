"""The version of the installed package, and which build of it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

try:
    __version__ = metadata.version("tailback")
except metadata.PackageNotFoundError:
    __version__ = "unknown"
    """Run from a source tree."""


@cache
def build() -> str:
    """What runs here: a hash of all files of the installed package, engine and measures among them."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(package)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
