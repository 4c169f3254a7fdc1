"""Operations of a graph in compact columns: there may be ten million."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeAlias, overload

import numpy as np

from tailback.workload.draws import Ints
from tailback.workload.lists import ListError

OPERATION_KINDS = ("compute", "reduce", "send", "receive", "barrier")
COMPUTE, REDUCE, SEND, RECEIVE, BARRIER = range(len(OPERATION_KINDS))
_ROWS_PER_STEP = 1 << 20


class Columns(NamedTuple):
    """The columns as the engine takes them, in the machine's byte order."""

    rank: bytes
    kind: bytes
    """8 bits: index in `OPERATION_KINDS`."""
    value: bytes
    """64 bits: picoseconds of a compute, bytes of a send or a reduce."""
    to: bytes
    channel: bytes
    ends: bytes
    """End of each operation's entries in `after`."""
    after: bytes
    """Indices of the operations that each operation waits for."""


class Operations(Sequence[list[Any]]):
    """Reads as a list of `[rank, what, after]`; takes 25 bytes for each, and 4 for each operation it waits for."""

    def __init__(self, columns: Columns, file: str = "") -> None:
        """`file` is the name of the file of the columns."""
        self.columns = columns
        self.file = file
        self._views = {name: memoryview(column) for name, column in columns._asdict().items()}
        for name, view in self._views.items():
            self._views[name] = view.cast("B" if name == "kind" else "Q" if name == "value" else "I")

    def column(self, name: str) -> Ints:
        """A column; read only."""
        numbers: Ints = np.asarray(self._views[name])
        return numbers

    def computed_ps(self) -> int:
        """The longest total compute time of a rank."""
        computes = self.column("kind") == COMPUTE
        ranks, values = self.column("rank")[computes], self.column("value")[computes]
        # Sums of 32-bit halves: 513 of the longest operations would overflow 64 bits.
        halves = np.zeros((2, int(ranks.max(initial=0)) + 1), dtype=np.uint64)
        for half, part in zip(halves, (values >> np.uint64(32), values & np.uint64(2**32 - 1)), strict=True):
            np.add.at(half, ranks, part)
        highs, lows = halves.tolist()
        return max(int(high << 32) + int(low) for high, low in zip(highs, lows, strict=True))

    def queue_pairs(self, of_messages: bool) -> int:
        """Number of queue pairs: one for each message, or one for each pair of ranks, channel and size."""
        sends = self.column("kind") == SEND
        if of_messages:
            return int(np.count_nonzero(sends))
        _, size = np.unique(self.column("value")[sends], return_inverse=True)
        key = size.astype(np.uint64)
        for name in ("rank", "to", "channel"):
            of_name = self.column(name)[sends]
            key = key * np.uint64(int(of_name.max(initial=0)) + 1) + of_name
        return len(np.unique(key))

    def __len__(self) -> int:
        return len(self._views["rank"])

    @overload
    def __getitem__(self, index: int) -> list[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Any]]: ...
    def __getitem__(self, index: int | slice) -> list[Any] | list[list[Any]]:
        chosen = range(len(self))[index]
        if not isinstance(chosen, int):
            return [self[place] for place in chosen]
        views = self._views
        kind, value = views["kind"][chosen], views["value"][chosen]
        what: Any = OPERATION_KINDS[kind]
        if kind == SEND:
            what = {what: {"to": views["to"][chosen], "bytes": value, "channel": views["channel"][chosen]}}
        elif kind in (COMPUTE, REDUCE):
            what = {what: value}
        first = views["ends"][chosen - 1] if chosen else 0
        return [views["rank"][chosen], what, views["after"][first : views["ends"][chosen]].tolist()]

    def __reduce__(self) -> Any:
        return Operations, (self.columns, self.file)


class OperationsBuilder:
    """Collects operations while a file is read."""

    def __init__(self) -> None:
        self.rank, self.kind, self.value = array("I"), array("B"), array("Q")
        self.to, self.channel = array("I"), array("I")
        self._waiting, self._awaited = array("I"), array("I")

    def __len__(self) -> int:
        return len(self.rank)

    def add(self, rank: int, kind: int, value: int = 0, to: int = 0, channel: int = 0) -> int:
        """Adds an operation, and returns its index."""
        self.rank.append(rank)
        self.kind.append(kind)
        self.value.append(value)
        self.to.append(to)
        self.channel.append(channel)
        return len(self.rank) - 1

    def wait(self, place: int, other: int) -> None:
        """Lets operation `place` wait for `other`."""
        self._waiting.append(place)
        self._awaited.append(other)

    def wait_each(self, places: Ints, others: Ints) -> None:
        """Lets each operation of `places` wait for the one of `others`."""
        self._waiting.frombytes(places.astype(np.uint32).tobytes())
        self._awaited.frombytes(others.astype(np.uint32).tobytes())

    def waits(self) -> tuple[Ints, Ints]:
        """Waiting operations and those that they wait for, in the order of the calls."""
        return np.asarray(self._waiting), np.asarray(self._awaited)

    def made(self, file: str = "") -> Operations:
        """The operations; can be called once. Entries of `after` are in the order of the calls."""
        count, own = len(self), dict[str, bytes]()
        for name in ("rank", "kind", "value", "to", "channel"):
            own[name] = getattr(self, name).tobytes()
            setattr(self, name, None)  # frees each column at once: there may be many operations
        waiting, awaited = self.waits()
        if np.any(waiting[1:] < waiting[:-1]):
            order = np.argsort(waiting, kind="stable")
            waiting, awaited = waiting[order], awaited[order]
        ends = np.empty(count, dtype=np.uint32)
        for first in range(0, count, _ROWS_PER_STEP):
            places = np.arange(first, min(first + _ROWS_PER_STEP, count), dtype=np.uint32)
            ends[first : first + _ROWS_PER_STEP] = np.searchsorted(waiting, places, side="right")
        return Operations(Columns(**own, ends=ends.tobytes(), after=awaited.tobytes()), file)


Opened: TypeAlias = Callable[[], BinaryIO]
"""Opens a file at its beginning."""
Read: TypeAlias = tuple[OperationsBuilder, Callable[[int], str]]
"""Operations of a file, and a function that names an operation as the file does."""


def lines_of(opened: Opened) -> Iterator[str]:
    """The lines of a text, one at a time; bytes that are not UTF-8 are replaced."""
    with TextIOWrapper(opened(), "utf-8", "replace") as lines:
        for line in lines:
            yield line.rstrip("\n")


def refuse(name: str, line: int, text: str) -> NoReturn:
    """Raises ListError for a line of a file."""
    raise ListError(f"{name}:{line}: {text}")
