"""Further files of a result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from typing import BinaryIO

from tailback.files import Copied

_AT_ONCE = 1 << 28
"""Bytes that are read at once: there are systems that give no more than 2 GiB."""


class Outputs(MutableMapping[str, bytes]):
    """Files by name. What a run has written itself, since it is long, is read on demand."""

    def __init__(self, files: Mapping[str, bytes | BinaryIO | Copied]) -> None:
        """From what they hold, from open files, or from where they are."""
        self._files = dict(files)

    def __getitem__(self, name: str) -> bytes:
        """What a file holds."""
        held = self._files[name]
        if isinstance(held, bytes):
            return held
        if isinstance(held, Copied):
            return b"".join(held())
        parts, at = list[bytes](), 0
        # Wherever it has moved meanwhile.
        while part := os.pread(held.fileno(), _AT_ONCE, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def __setitem__(self, name: str, data: bytes) -> None:
        """Puts a file there."""
        self._files[name] = data

    def __delitem__(self, name: str) -> None:
        """Takes one away."""
        del self._files[name]

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter(self._files)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._files)

    def __reduce__(self) -> tuple[type[Outputs], tuple[dict[str, bytes]]]:
        """Another process has no file that is open in this one."""
        return Outputs, (dict(self),)
