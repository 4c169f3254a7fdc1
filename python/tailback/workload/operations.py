"""Operations of a graph, of which there may be ten million, and how a line of a file is refused."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeAlias, overload

import numpy as np

from tailback.workload.draws import Ints
from tailback.workload.lists import ListError

KINDS = ("compute", "reduce", "send", "receive", "barrier")
COMPUTE, REDUCE, SEND, RECEIVE, BARRIER = range(len(KINDS))
_AT_ONCE = 1 << 20


class Columns(NamedTuple):
    """As the engine takes them: numbers in the machine's order."""

    rank: bytes
    kind: bytes
    """8 bits: the place in `KINDS`."""
    value: bytes
    """64 bits: picoseconds of a compute, bytes of a send or a reduce."""
    to: bytes
    channel: bytes
    ends: bytes
    """Where the places of what an operation waits for end."""
    after: bytes


class Operations(Sequence[list[Any]]):
    """A list of `[rank, what, after]` to its readers; 25 bytes each, and 4 for each one it waits for."""

    def __init__(self, columns: Columns, file: str = "") -> None:
        """From columns that fit each other. `file`: which they were read from."""
        self.columns = columns
        self.file = file
        self._views = {name: memoryview(column) for name, column in columns._asdict().items()}
        for name, view in self._views.items():
            self._views[name] = view.cast("B" if name == "kind" else "Q" if name == "value" else "I")

    def column(self, name: str) -> Ints:
        """One of the columns; read only."""
        numbers: Ints = np.asarray(self._views[name])
        return numbers

    def computed_ps(self) -> int:
        """How long the rank computes that computes longest."""
        computes = self.column("kind") == COMPUTE
        ranks, values = self.column("rank")[computes], self.column("value")[computes]
        # By halves of 32 bits: 513 of the longest are more than 64 bits hold.
        halves = np.zeros((2, int(ranks.max(initial=0)) + 1), dtype=np.uint64)
        for half, part in zip(halves, (values >> np.uint64(32), values & np.uint64(2**32 - 1)), strict=True):
            np.add.at(half, ranks, part)
        highs, lows = halves.tolist()
        return max(int(high << 32) + int(low) for high, low in zip(highs, lows, strict=True))

    def queue_pairs(self, of_messages: bool) -> int:
        """How many queue pairs they have, one a message or one for two ranks, a channel and a size."""
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
        """How many there are."""
        return len(self._views["rank"])

    @overload
    def __getitem__(self, index: int) -> list[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Any]]: ...
    def __getitem__(self, index: int | slice) -> list[Any] | list[list[Any]]:
        """One, or some."""
        chosen = range(len(self))[index]
        if not isinstance(chosen, int):
            return [self[place] for place in chosen]
        views = self._views
        kind, value = views["kind"][chosen], views["value"][chosen]
        what: Any = KINDS[kind]
        if kind == SEND:
            what = {what: {"to": views["to"][chosen], "bytes": value, "channel": views["channel"][chosen]}}
        elif kind in (COMPUTE, REDUCE):
            what = {what: value}
        first = views["ends"][chosen - 1] if chosen else 0
        return [views["rank"][chosen], what, views["after"][first : views["ends"][chosen]].tolist()]

    def __reduce__(self) -> Any:
        """How they are copied, and sent to another process."""
        return Operations, (self.columns, self.file)


class Making:
    """Operations while they are read."""

    def __init__(self) -> None:
        """None yet."""
        self.rank, self.kind, self.value = array("I"), array("B"), array("Q")
        self.to, self.channel = array("I"), array("I")
        self._waiting, self._awaited = array("I"), array("I")

    def __len__(self) -> int:
        """How many there are."""
        return len(self.rank)

    def add(self, rank: int, kind: int, value: int = 0, to: int = 0, channel: int = 0) -> int:
        """Adds an operation, and gives its place."""
        self.rank.append(rank)
        self.kind.append(kind)
        self.value.append(value)
        self.to.append(to)
        self.channel.append(channel)
        return len(self.rank) - 1

    def wait(self, place: int, other: int) -> None:
        """An operation waits for another."""
        self._waiting.append(place)
        self._awaited.append(other)

    def wait_each(self, places: Ints, others: Ints) -> None:
        """Each of some operations waits for another."""
        self._waiting.frombytes(places.astype(np.uint32).tobytes())
        self._awaited.frombytes(others.astype(np.uint32).tobytes())

    def waits(self) -> tuple[Ints, Ints]:
        """Who waits, and for whom, in the order in which that was said."""
        return np.asarray(self._waiting), np.asarray(self._awaited)

    def made(self, file: str = "") -> Operations:
        """All of them, once. What one waits for is in the order in which that was said."""
        count, own = len(self), dict[str, bytes]()
        for name in ("rank", "kind", "value", "to", "channel"):
            own[name] = getattr(self, name).tobytes()
            setattr(self, name, None)  # of very many operations no column is there twice for long
        waiting, awaited = self.waits()
        if np.any(waiting[1:] < waiting[:-1]):
            order = np.argsort(waiting, kind="stable")
            waiting, awaited = waiting[order], awaited[order]
        ends = np.empty(count, dtype=np.uint32)
        for first in range(0, count, _AT_ONCE):
            places = np.arange(first, min(first + _AT_ONCE, count), dtype=np.uint32)
            ends[first : first + _AT_ONCE] = np.searchsorted(waiting, places, side="right")
        return Operations(Columns(**own, ends=ends.tobytes(), after=awaited.tobytes()), file)


Opened: TypeAlias = Callable[[], BinaryIO]
"""Opens a file, from its beginning."""
Read: TypeAlias = tuple[Making, Callable[[int], str]]
"""What was read of a file, and what an operation is called there."""


def lines_of(opened: Opened) -> Iterator[str]:
    """The lines of a text, one at a time; what is no UTF-8 is replaced."""
    with TextIOWrapper(opened(), "utf-8", "replace") as lines:
        for line in lines:
            yield line.rstrip("\n")


def refuse(name: str, line: int, text: str) -> NoReturn:
    """Raises ListError for a line of a file."""
    raise ListError(f"{name}:{line}: {text}")
