"""Text files as C++ streams read them (`stream >> value`): tokens between white space, including line breaks.

Text after the last needed token is not read. A number must be a whole token: where a stream would read `3` of
`3.5` and fail at the next number, this reader reports the token.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from pathlib import Path
from typing import TypeVar

from tailback.errors import InputError, one_line, plain
from tailback.files import FileRefusedError, UnchangedFile, read_file

_REAL_PATTERN = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MAX_NUMBER_CHARS = 400
Read = TypeVar("Read")
U32_MAX, U64_MAX, I64_MAX = 2**32 - 1, 2**64 - 1, 2**63 - 1


def named(path: str | os.PathLike[str]) -> str:
    """A path for a message."""
    return one_line(os.fspath(path).encode("utf-8", "backslashreplace").decode())


def read_bytes(path: Path, most: int, place: str, token: str = "") -> bytes:
    """A whole regular file of at most `most` bytes.

    Raises:
        InputError: it does not exist or cannot be read; the message has `place` and `token`, which name it.
    """
    return _read(lambda: read_file(path, most), place, token)


def unchanged_file(path: Path, most: int, place: str, kind: str) -> UnchangedFile:
    """A regular file of at most `most` bytes, which is not read yet. `kind`: what it should be.

    Raises:
        InputError: as `read_bytes`.
    """
    return _read(lambda: UnchangedFile(path, most), place, "", kind)


def _read(read: Callable[[], Read], place: str, token: str, kind: str = "a text file") -> Read:
    expected = f"{token}expected {kind}"
    try:
        return read()
    except OSError as error:
        text = f"{expected}, found none: {(error.strerror or str(error)).lower()}"
    except FileRefusedError as error:
        text = f"{token}expected {error.expected}, found {error.found}"
    except ValueError:
        text = f"{expected}, found a name that no file can have"
    raise InputError.at(place, text)


def refusal(place: str, word: bytes | None, expected: str) -> InputError:
    """An error about a token, or about the end of the file (`word` None)."""
    if word is None:
        return InputError.at(place, f"end of file: expected {expected}")
    return InputError.at(
        place, f"token '{plain(word.decode('utf-8', 'backslashreplace'))}': expected {expected}"
    )


MOST_LOOKED_AT_BYTES = 4 << 20
"""Longer files are written by programs, which count."""


def unread_row(file: str, data: bytes, read: int, columns: int, counted: str) -> list[str]:
    """A warning where a row like those that were read follows the `read` tokens that the count asks for."""
    if len(data) > MOST_LOOKED_AT_BYTES:
        return []
    rest = data.split(None, read)[read:]
    row = rest[0].split(b"\n", 1)[0].split() if rest else []
    if len(row) != columns or not all(word[:1].isdigit() for word in row):
        return []
    line = data[: len(data) - len(rest[0])].count(b"\n") + 1
    return [f"{file}:{line}: warning: this row and what follows is not read: {counted}"]


class Tokens:
    """Reads the tokens of a file in order. Every error is an `InputError` with file and line."""

    def __init__(self, file: str, data: bytes) -> None:
        """`file` is its name in messages."""
        self.file = file
        self.words = data.split()  # the white space of the C locale
        self.at = 0
        self._data = data

    def lines(self) -> Iterator[int]:
        """The line of each token; scans the file, for messages only."""
        for number, line in enumerate(self._data.split(b"\n"), start=1):
            yield from repeat(number, len(line.split()))

    def place(self, index: int) -> str:
        """`file:line` of a token; at the end of the file, that of the last token."""
        line = 1
        for line in islice(self.lines(), index + 1):  # noqa: B007  the last one is needed
            pass
        return f"{self.file}:{line}"

    def refuse(self, index: int, expected: str) -> InputError:
        """An error about the token at `index`."""
        word = self.words[index] if index < len(self.words) else None
        return refusal(self.place(index), word, expected)

    def take(self, expected: str) -> bytes:
        """The next token."""
        if self.at >= len(self.words):
            raise self.refuse(self.at, expected)
        self.at += 1
        return self.words[self.at - 1]

    def integer(self, what: str, low: int, high: int) -> int:
        """The next token as a whole number within `low` and `high`."""
        word = self.take(what)
        digits = word[1:] if word[:1] == b"+" else word
        if not digits.isdigit() or len(digits) > 20 or not low <= (value := int(digits)) <= high:
            raise self.refuse(self.at - 1, f"{what}, a whole number from {low} to {high}")
        return value

    def real(self, what: str, low: float, high: float) -> float:
        """The next token as a decimal number within `low` and `high`."""
        word = self.take(what)
        matches = len(word) <= _MAX_NUMBER_CHARS and _REAL_PATTERN.fullmatch(word)
        if not matches or not low <= (value := float(word)) <= high:
            limits = f"of at least {low:.15g}" if math.isinf(high) else f"from {low:.15g} to {high:.15g}"
            raise self.refuse(self.at - 1, f"{what}, a number {limits}")
        return value
