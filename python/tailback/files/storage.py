"""Storage by URL with fsspec: `file:///mnt/x`, `s3://bucket/x`, `gs://bucket/x` and others.

Object stores cannot rename a folder: files written there are complete only once the journal says so, and are
written again, to the same names, if it does not.
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

_OBJECT_STORES = {"s3", "gs", "abfs", "memory"}
"""They have no folders; creating one would create a bucket with a wrong name."""


def is_url(place: str | os.PathLike[str]) -> bool:
    """True for the URL of a storage, false for a path."""
    return "://" in os.fspath(place)


class Storage:
    """Files below a URL."""

    def __init__(self, url: str) -> None:
        """
        Raises:
            InputError: there is no such kind of storage, or a package for it is not installed.
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
            self._is_object_store = not _OBJECT_STORES.isdisjoint(
                [kinds] if isinstance(kinds, str) else kinds
            )
        except ImportError as error:
            raise self.refused(
                f"found a storage that needs another package ({_words(error)}), expected it to be installed"
            ) from None
        except Exception as error:
            raise self.refused(
                f"found no storage ({_words(error)}), expected one such as s3:// or gs://"
            ) from None

    def check_writable(self) -> None:
        """Writes an empty file and removes it.

        Raises:
            InputError: the storage cannot be written.
        """
        name = f".tailback-{secrets.token_hex(4)}"
        try:
            self.put(name, b"")
            self._files.rm_file(f"{self._root}/{name}")
        except Exception as error:
            raise self.refused(
                f"found a storage that cannot be written ({_words(error)}), expected one that can"
            ) from None

    def get(self, name: str, most: int) -> bytes | None:
        """The first `most` bytes of a file; None if it does not exist.

        Raises:
            InputError: the file cannot be read.
        """
        path = f"{self._root}/{name}"
        try:
            return bytes(self._files.cat_file(path, 0, most)) if self._files.isfile(path) else None
        except Exception as error:
            raise self.refused(
                f"found {name} that cannot be read ({_words(error)}), expected one that can"
            ) from None

    def holds(self, name: str) -> bool:
        """True if there is a file or folder of this name.

        Raises:
            InputError: the storage cannot be read.
        """
        try:
            return bool(self._files.exists(f"{self._root}/{name}"))
        except Exception as error:
            raise self.refused(
                f"found a storage that cannot be read ({_words(error)}), expected one that can"
            ) from None

    def put(self, name: str, data: bytes) -> None:
        """Writes a file.

        Raises:
            OSError: the file cannot be written.
        """
        with self._writing(name) as path:
            self._files.pipe_file(path, data)

    def put_folder(self, name: str, folder: Path) -> None:
        """Writes the files of a folder and its subfolders below a name; without a name, below the URL itself.

        Raises:
            OSError: a file cannot be written.
        """
        here = sorted(file for file in folder.rglob("*") if file.is_file())
        below = [file.relative_to(folder).as_posix() for file in here]
        with self._writing(name) as path:
            if not self._is_object_store:
                for parent in {file.rpartition("/")[0] for file in below}:
                    self._files.makedirs(f"{path}/{parent}", exist_ok=True)
            # In parallel where the storage can: each file alone may take a tenth of a second.
            self._files.put([str(file) for file in here], [f"{path}/{file}" for file in below])

    @contextmanager
    def _writing(self, name: str) -> Iterator[str]:
        path = f"{self._root}/{name}" if name else self._root
        try:
            if not self._is_object_store:
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            yield path
        except Exception as error:  # each kind of storage has its own errors
            number = getattr(error, "errno", None) or errno.EIO
            raise OSError(number, _words(error), f"{self.url}/{name}") from None

    def refused(self, text: str) -> InputError:
        return InputError.at(f"--store {self.url}", text)


def _words(error: Any) -> str:
    words = getattr(error, "strerror", None) or " ".join(str(error).split())[:200] or type(error).__name__
    return str(words)
