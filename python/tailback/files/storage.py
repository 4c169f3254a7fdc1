"""Storage by its URL, as fsspec has it: `file:///mnt/x`, `s3://bucket/x`, `gs://bucket/x` and others.

No storage of objects can rename a folder: what is written there is not whole before whoever wrote it says so,
and is written again, to the same names, where that was never said.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tailback.errors import InputError

_FLAT = {"s3", "gs", "abfs", "memory"}
"""Storage of objects, which has no folders; to make one there would make a bucket of a name that is wrong."""


def is_url(place: str | os.PathLike[str]) -> bool:
    """Whether it is the URL of a storage, and no path."""
    return "://" in os.fspath(place)


class Storage:
    """What is below a URL."""

    def __init__(self, url: str) -> None:
        """Nothing is written yet.

        Raises:
            InputError: there is no such kind of storage, or what it needs is not installed.
        """
        self.url = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise self.refused("found no fsspec, expected it: pip install 'tailback[storage]'") from None
        if not is_url(url):
            text = "found no URL, expected one such as s3://bucket/folder or file:///mnt/folder"
            raise self.refused(text)
        try:
            self._files, self._root = url_to_fs(self.url)
            kinds = self._files.protocol
            self._flat = not _FLAT.isdisjoint([kinds] if isinstance(kinds, str) else kinds)
        except ImportError as error:
            raise self.refused(
                f"found what needs another package ({_words(error)}), expected it to be installed"
            ) from None
        except Exception as error:
            raise self.refused(
                f"found no storage ({_words(error)}), expected one such as s3:// or gs://"
            ) from None

    def try_out(self) -> None:
        """Writes something small, and takes it away again.

        Raises:
            InputError: nothing can be written there.
        """
        name = f".tailback-{secrets.token_hex(4)}"
        try:
            self.put(name, b"")
            self._files.rm_file(f"{self._root}/{name}")
        except Exception as error:
            raise self.refused(
                f"found what cannot be written ({_words(error)}), expected a storage that can"
            ) from None

    def get(self, name: str, most: int) -> bytes | None:
        """The first `most` bytes of a file; None where there is none.

        Raises:
            InputError: it cannot be read.
        """
        path = f"{self._root}/{name}"
        try:
            return bytes(self._files.cat_file(path, 0, most)) if self._files.isfile(path) else None
        except Exception as error:
            raise self.refused(
                f"found {name} that cannot be read ({_words(error)}), expected one that can"
            ) from None

    def holds(self, name: str) -> bool:
        """Whether there is a file or a folder of that name.

        Raises:
            InputError: it cannot be looked at.
        """
        try:
            return bool(self._files.exists(f"{self._root}/{name}"))
        except Exception as error:
            raise self.refused(
                f"found what cannot be read ({_words(error)}), expected a storage that can"
            ) from None

    def put(self, name: str, data: bytes) -> None:
        """Writes a file.

        Raises:
            OSError: it cannot be written.
        """
        with self._writing(name) as path:
            self._files.pipe_file(path, data)

    def put_folder(self, name: str, folder: Path) -> None:
        """Writes the files of a folder, and of those in it, below a name; without one, below the URL itself.

        Raises:
            OSError: one cannot be written.
        """
        here = sorted(file for file in folder.rglob("*") if file.is_file())
        below = [file.relative_to(folder).as_posix() for file in here]
        with self._writing(name) as path:
            if not self._flat:
                for parent in {file.rpartition("/")[0] for file in below}:
                    self._files.makedirs(f"{path}/{parent}", exist_ok=True)
            # Many at a time where the storage can: each alone may take a tenth of a second.
            self._files.put([str(file) for file in here], [f"{path}/{file}" for file in below])

    @contextmanager
    def _writing(self, name: str) -> Iterator[str]:
        path = f"{self._root}/{name}" if name else self._root
        try:
            if not self._flat:
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            yield path
        except Exception as error:  # each kind of storage has its own
            number = getattr(error, "errno", None) or errno.EIO
            raise OSError(number, _words(error), f"{self.url}/{name}") from None

    def refused(self, text: str) -> InputError:
        """What is raised of this storage."""
        return InputError.at(f"--store {self.url}", text)


def _words(error: Any) -> str:
    words = getattr(error, "strerror", None) or " ".join(str(error).split())[:200] or type(error).__name__
    return str(words)
