"""The first moments of the `tailback` command, while everything else is still being loaded.

Loading takes up to a second. This module is imported first, and does nothing unless the process is the command.
Nothing is open yet that would have to be closed, so an interrupt ends the process at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import resource
import signal
import sys
from types import FrameType, TracebackType

OUT_OF_MEMORY_STATUS, FAILED_STATUS = 4, 5
"""Exit statuses, see `tailback.cli`."""
MIN_ADDRESS_SPACE_BYTES = 400_000_000
"""Address space of all libraries together on Linux."""
_LOADER_MEMORY_ERRORS = (
    "failed to map segment",
    "cannot allocate memory",
    "cannot apply additional memory protection",
)
"""Messages of the dynamic loader when memory runs out."""


def out_of_memory(error: BaseException | None) -> bool:
    """True if the error says that memory ran out."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, (ImportError, OSError)) and any(part in words for part in _LOADER_MEMORY_ERRORS)
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
    """Reports an uncaught error."""
    if out_of_memory(error):
        os.write(2, b"tailback: out of memory\n")
        os._exit(OUT_OF_MEMORY_STATUS)
    import traceback  # takes a while to load

    traceback.print_exception(kind, error, trace)
    os.write(2, b"tailback: this is a mistake in tailback; please report the lines above\n")
    os._exit(FAILED_STATUS)


def _check_memory_limit() -> None:
    """Ends the process where a limit leaves too little memory to load the libraries: some would crash."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < MIN_ADDRESS_SPACE_BYTES:
        line = (
            f"ulimit -v is {limit // 10**6} MB, and loading alone takes {MIN_ADDRESS_SPACE_BYTES // 10**6} MB"
        )
        os.write(2, f"tailback: out of memory: {line}\n".encode())
        os._exit(OUT_OF_MEMORY_STATUS)


def _open_closed_streams() -> None:
    """Opens closed standard streams (`>&-`) on /dev/null.

    Else the first files that are opened would get their numbers, and printed text would go into them.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def loading() -> None:
    """Turns the garbage collector off until `loaded` is called."""
    if _is_command():
        gc.disable()


def loaded() -> None:
    """Turns the garbage collector on, for all objects made from now on."""
    if _is_command():
        gc.freeze()
        gc.enable()


class _NoPandas:
    """Hides pandas: Arrow loads it wherever it is installed, to recognise its objects, and the command has none.
    Loading takes half as long as all else in a short run.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def show_pandas() -> None:
    """Makes pandas importable again, for code of users."""
    if _NoPandas in sys.meta_path:
        sys.meta_path.remove(_NoPandas)


if _is_command():
    # Garbage collection while loading and at exit takes a fifth of a short command.
    loading()
    atexit.register(gc.freeze)
    for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(_number) is not signal.SIG_IGN:
            signal.signal(_number, leave)
    sys.excepthook = _unexpected
    _open_closed_streams()
    _check_memory_limit()
    # Tailback multiplies no matrices; each thread of the library would reserve memory.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own pool takes a tenth more memory in a large run: freed memory, and chunks that are too large.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Looking for plugins takes as long as defining fifty classes.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.meta_path.insert(0, _NoPandas)
