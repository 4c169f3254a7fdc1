"""Version (that of the engine) and build of the package."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from tailback._engine import __version__

__all__ = ["__version__", "build"]


@cache
def build() -> str:
    """A hash of all files of the installed package, engine included."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(package)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
