"""Reads files of users: regular files up to a size limit."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict

from tailback.units import format_size

_READ_AHEAD_BYTES = 1 << 16
"""Room beyond the size of a file: it may grow, or its file system may report no sizes."""
_CHUNK_BYTES = 1 << 20
_PREAD_BYTES = 1 << 28
"""Some systems return at most 2 GiB per read."""
_MAX_NAME_CHARS = 100
_SPECIAL_FILES = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


_folder: ContextVar[str | None] = ContextVar("_folder", default=None)


@contextmanager
def confined_to(folder: Path) -> Iterator[None]:
    """Inside the block only files in `folder` can be read. The folder of a result may come from somebody else: a
    symbolic link in it must not put another file of the reader into a report.
    """
    root = os.fspath(folder)
    with suppress(OSError):  # the working directory was removed
        root = os.path.realpath(folder)
    token = _folder.set(root)
    try:
        yield
    finally:
        _folder.reset(token)


class FileRefusedError(ValueError):
    """A file cannot be read; `found` and `expected` are the parts of the message."""

    def __init__(self, found: str, max_bytes: int, where: str = "") -> None:
        self.found = found
        self.expected = f"a regular file of at most {format_size(max_bytes)}{where}"
        super().__init__(f"found {found}, expected {self.expected}")


def read_file(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """The content of a regular file of at most `max_bytes`.

    Devices and pipes are refused: they have no size, and may never end.

    Raises:
        FileRefusedError: this is not a regular file, or it is larger.
        OSError, ValueError: as `open`.
    """
    _check_folder(path, max_bytes)
    _check(Path(path).stat(), max_bytes)
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        _check(status, max_bytes)
        # read() allocates as much as it is asked for.
        parts, left = [], max_bytes + 1
        while left and (part := file.read(min(left, status.st_size + _READ_AHEAD_BYTES))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise FileRefusedError(f"more than {format_size(max_bytes)}", max_bytes)
    return b"".join(parts)


class UnchangedFile:
    """A regular file that may be too long for memory. Reading it fails if it has changed since."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """The file may have at most `max_bytes`.

        Raises:
            FileRefusedError, OSError, ValueError: as `read_file`.
        """
        _check_folder(path, max_bytes)
        status = path.stat()
        _check(status, max_bytes)
        with open(path, "rb", opener=_open):
            pass
        self.path = path.absolute()
        self.size = status.st_size
        self._changed_ns = status.st_mtime_ns

    def open(self) -> BinaryIO:
        """Opens the file for reading.

        Raises:
            OSError: the file has changed.
        """
        file = open(self.path, "rb", opener=_open)  # noqa: SIM115  the caller closes it
        status = os.fstat(file.fileno())
        if (self.size, self._changed_ns) == (status.st_size, status.st_mtime_ns):
            return file
        file.close()
        raise OSError(errno.ESTALE, "changed while it was in use", str(self.path))

    def __call__(self) -> Iterator[bytes]:
        """The content of the file in parts.

        Raises:
            OSError: as `open`.
        """
        with self.open() as file:
            while part := file.read(_CHUNK_BYTES):
                yield part


def _open(name: str, flags: int) -> int:
    # A pipe may have replaced the file: opening it must not block.
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _check(status: os.stat_result, max_bytes: int) -> None:
    for is_kind, name in _SPECIAL_FILES:
        if is_kind(status.st_mode):
            raise FileRefusedError(name, max_bytes)
    if status.st_size > max_bytes:
        raise FileRefusedError(format_size(status.st_size), max_bytes)


def _check_folder(path: str | os.PathLike[str], max_bytes: int) -> None:
    folder = _folder.get()
    if folder is None or Path(os.path.realpath(path)).is_relative_to(folder):
        return
    found = f"{Path(path).name[:_MAX_NAME_CHARS]!a}, a link to another place"
    raise FileRefusedError(found, max_bytes, " in the folder of the result")


class Outputs(MutableMapping[str, bytes]):
    """Additional files of a result, by name. Long files, which the run itself wrote, are read on demand."""

    def __init__(self, files: Mapping[str, bytes | BinaryIO | UnchangedFile]) -> None:
        self._files = dict(files)

    def __getitem__(self, name: str) -> bytes:
        held = self._files[name]
        if isinstance(held, bytes):
            return held
        if isinstance(held, UnchangedFile):
            return b"".join(held())
        parts, at = list[bytes](), 0
        # An open file can be read wherever it has been moved.
        while part := os.pread(held.fileno(), _PREAD_BYTES, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def __setitem__(self, name: str, data: bytes) -> None:
        self._files[name] = data

    def __delitem__(self, name: str) -> None:
        del self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __reduce__(self) -> tuple[type[Outputs], tuple[dict[str, bytes]]]:
        """Pickles the contents: another process does not have the open files."""
        return Outputs, (dict(self),)


class StrictModel(BaseModel):
    """A mapping in a user's YAML or JSON: unknown keys are refused, and values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
