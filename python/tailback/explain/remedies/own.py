"""Remedies of a user's own: a Python file with a function `remedies(case)`, as the files of this folder have."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tailback.errors import InputError
from tailback.explain.remedies import Case, Remedy


def read(file: Path) -> Callable[[Case], Iterable[Remedy]]:
    """The remedies of a file, which is executed.

    Raises:
        InputError: it cannot be read, fails, or has no such function.
    """
    try:
        found = runpy.run_path(str(file)).get("remedies")
    except OSError as error:
        raise InputError.at(
            str(file), f"found {(error.strerror or 'no file').lower()}, expected a file in Python"
        ) from None
    except Exception as error:
        raise InputError.at(
            str(file), f"found {_words(error)}, expected a file in Python that runs"
        ) from None
    if not callable(found):
        raise InputError.at(
            str(file), "found no function remedies, expected def remedies(case) that yields remedies"
        )

    def remedies(case: Case) -> list[Remedy]:
        try:
            every: list[Any] = list(found(case))
        except Exception as error:
            raise InputError.at(
                str(file), f"found {_words(error)} in remedies(case), expected remedies"
            ) from None
        for one in every:
            if not isinstance(one, Remedy):
                raise InputError.at(
                    str(file), f"found {type(one).__name__} from remedies(case), expected a Remedy"
                )
        return every

    return remedies


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
