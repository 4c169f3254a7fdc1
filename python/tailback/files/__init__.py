"""Reading files that a user names: regular files of a plausible size."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from tailback.units import format_size

_MORE = 1 << 16
_PART = 1 << 20
_LONGEST_NAME = 100
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


_folder: ContextVar[str | None] = ContextVar("_folder", default=None)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Within this, files are read from a folder alone. The folder of a result may come from somebody else: a
    link in it must not put a file of its reader into a report.
    """
    root = os.fspath(folder)
    with suppress(OSError):  # where the working directory is gone, no relative path is anywhere
        root = os.path.realpath(folder)
    token = _folder.set(root)
    try:
        yield
    finally:
        _folder.reset(token)


class FileRefusedError(ValueError):
    """A file that is not read; `found` and `expected` are what a message says after these words."""

    def __init__(self, found: str, most: int, where: str = "") -> None:
        """`most` is the limit in bytes."""
        self.found = found
        self.expected = f"a regular file of at most {format_size(most)}{where}"
        super().__init__(f"found {found}, expected {self.expected}")


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """The content of a regular file of at most `most` bytes.

    Devices and pipes have no size, and may never end: none of them is read.

    Raises:
        FileRefusedError: it is something else, or larger.
        OSError, ValueError: as `open` has them.
    """
    _check_place(path, most)
    _check(Path(path).stat(), most)
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        _check(status, most)
        # It may grow, or be of a file system that knows no sizes. Room is made for what is asked for.
        parts, left = [], most + 1
        while left and (part := file.read(min(left, status.st_size + _MORE))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise FileRefusedError(f"more than {format_size(most)}", most)
    return b"".join(parts)


class Copied:
    """A regular file that is read and copied in parts, as it was."""

    def __init__(self, path: Path, most: int) -> None:
        """Of at most `most` bytes.

        Raises:
            FileRefusedError, OSError, ValueError: as `read_file`.
        """
        _check_place(path, most)
        status = path.stat()
        _check(status, most)
        with open(path, "rb", opener=_open):
            pass
        self.path = path.absolute()
        self.size = status.st_size
        self._changed_ns = status.st_mtime_ns

    def open(self) -> BinaryIO:
        """It, to be read.

        Raises:
            OSError: it is not what it was.
        """
        file = open(self.path, "rb", opener=_open)  # noqa: SIM115  whoever gets it closes it
        status = os.fstat(file.fileno())
        if (self.size, self._changed_ns) == (status.st_size, status.st_mtime_ns):
            return file
        file.close()
        raise OSError(errno.ESTALE, "it was changed meanwhile", str(self.path))

    def __call__(self) -> Iterator[bytes]:
        """What it holds.

        Raises:
            OSError: as `open`.
        """
        with self.open() as file:
            while part := file.read(_PART):
                yield part


def _open(name: str, flags: int) -> int:
    # Something else may have taken its place: opening a pipe must not wait.
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _check(status: os.stat_result, most: int) -> None:
    for is_kind, name in _KINDS:
        if is_kind(status.st_mode):
            raise FileRefusedError(name, most)
    if status.st_size > most:
        raise FileRefusedError(format_size(status.st_size), most)


def _check_place(path: str | os.PathLike[str], most: int) -> None:
    folder = _folder.get()
    if folder is None or Path(os.path.realpath(path)).is_relative_to(folder):
        return
    found = f"{Path(path).name[:_LONGEST_NAME]!a}, a link to another place"
    raise FileRefusedError(found, most, " in the folder of the result")
