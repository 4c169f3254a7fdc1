"""Reading the folder of a run that somebody names: what is wrong with it is one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tailback.scenario import Problem, ScenarioError

if TYPE_CHECKING:
    from tailback.results import Result

_LONGEST_WHY = 300
_UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    OSError,
    NotImplementedError,
    RecursionError,
    MemoryError,
)
"""What files that are cut, or hold something else, give while they are read. Arrow's errors are among them: a
function that is not implemented is one that does not take the type of a column.
"""


def read_run(folder: Path) -> Result:
    """The result in a folder, with all of its parts looked at: what is wrong does not wait until it is used.

    Raises:
        ScenarioError: it is not the folder of a run, or its files cannot be read.
    """
    from tailback.results import Result

    part = "files"
    try:
        result = Result.load(folder)
        for name, look in _PARTS.items():
            part = name
            look(result)
    except FileNotFoundError as error:
        inside = sorted(path.parent for path in folder.glob("*/*/summary.json")) or sorted(
            path.parent for path in folder.glob("*/summary.json")
        )
        other = f", perhaps {inside[0]}" if inside else ""
        missing = str(error).split(": ")[0].rpartition("/")[2]
        raise _problem(folder, f"found no {missing}, expected the folder of a run{other}") from None
    except _UNREADABLE as error:
        raise _cannot_be_read(folder, part, error) from None
    return result


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Around what makes something of a result that was read: what only that needs may still be damaged.

    Raises:
        ScenarioError: as `read_run`.
    """
    try:
        yield
    except ScenarioError:
        raise
    except _UNREADABLE as error:
        raise _cannot_be_read(folder, "a part", error) from None


_PARTS: dict[str, Callable[[Result], object]] = {
    "a network": lambda result: result.setup.network,
    "counters": lambda result: sorted(result.counter_names),
    "series": lambda result: result.bins,
    "figures": lambda result: result.summary,
}
"""What readers of a result make of it, in words; all figures together need every part of it."""


def _cannot_be_read(folder: Path, part: str, error: BaseException) -> ScenarioError:
    # The text of a KeyError is the key alone.
    why = f"no {error}" if type(error) is KeyError else " ".join(str(error).split()) or type(error).__name__
    why = why if len(why) <= _LONGEST_WHY else f"{why[:_LONGEST_WHY]}..."
    return _problem(folder, f"found {part} that cannot be read ({why}), expected the folder of a run")


def _problem(folder: Path, text: str) -> ScenarioError:
    return ScenarioError([Problem(str(folder), (), text)])
