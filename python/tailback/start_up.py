"""The first moments of the `tailback` command, while everything else is still being loaded.

Loading takes up to a second. This module is imported first of all, and does nothing unless the process is the
command. Nothing is open then that would have to be closed, so an interrupt ends the process at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import resource
import signal
import sys
from types import FrameType, TracebackType

OUT_OF_MEMORY, FAILED = 4, 5
"""Exit statuses, see `tailback.cli`."""
LEAST_MEMORY = 400_000_000
"""Bytes of addresses that all libraries together take on Linux."""
_LOADED_IN_PART = (
    "failed to map segment",
    "cannot allocate memory",
    "cannot apply additional memory protection",
)
"""What the loader says of a shared library when memory runs out."""


def out_of_memory(error: BaseException | None) -> bool:
    """Whether that is what an error is about."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, (ImportError, OSError)) and any(part in words for part in _LOADED_IN_PART)
    )


def _is_command() -> bool:
    name = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119  pathlib takes a while to load
    started_as_module = name == "-m" and any(word.startswith("tailback") for word in sys.orig_argv)
    return name in ("tailback", "tailback.exe") or started_as_module


def leave(number: int, _frame: FrameType | None) -> None:
    """Ends the process at a signal."""
    os.write(2, b"tailback: interrupted before there was a result; nothing was written\n")
    os._exit(128 + number)


def _unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error that was not caught."""
    if out_of_memory(error):
        os.write(2, b"tailback: out of memory\n")
        os._exit(OUT_OF_MEMORY)
    import traceback  # takes a while to load

    traceback.print_exception(kind, error, trace)
    os.write(2, b"tailback: this is a mistake in tailback; please report the lines above\n")
    os._exit(FAILED)


def _look_at_memory() -> None:
    """Where a limit leaves too little to load the libraries, some of them would crash."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < LEAST_MEMORY:
        line = f"ulimit -v is {limit // 10**6} MB, and loading alone takes {LEAST_MEMORY // 10**6} MB"
        os.write(2, f"tailback: out of memory: {line}\n".encode())
        os._exit(OUT_OF_MEMORY)


def _open_what_is_closed() -> None:
    """Gives what was started without standard streams (`>&-`) ones that lead nowhere.

    The first files opened would have their numbers otherwise, and get what is printed.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def loading() -> None:
    """Until it is `loaded`, no garbage is looked for."""
    if _is_command():
        gc.disable()


def loaded() -> None:
    """What is loaded stays: from here on garbage is looked for, and not among that."""
    if _is_command():
        gc.freeze()
        gc.enable()


class _NoPandas:
    """Arrow loads pandas wherever it is installed, to know its objects; the command has none. That takes half
    as long as all else in a short run.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def show_pandas() -> None:
    """To code of users, who may use it."""
    if _NoPandas in sys.meta_path:
        sys.meta_path.remove(_NoPandas)


if _is_command():
    # To look for garbage among what is loaded, and at the end among all, takes a fifth of a short command.
    loading()
    atexit.register(gc.freeze)
    for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(_number) is not signal.SIG_IGN:
            signal.signal(_number, leave)
    sys.excepthook = _unexpected
    _open_what_is_closed()
    _look_at_memory()
    # Nothing here multiplies matrices; each thread of the library would set memory aside.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own takes a tenth more memory in a large run: what it got back, and pieces that are too large.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # To find that there is none takes as long as fifty classes.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.meta_path.insert(0, _NoPandas)
