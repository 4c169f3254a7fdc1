"""Many rows of six whole numbers: a plan's messages, of which there may be millions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from tailback.workload.draws import Ints

WIDTH = 6


class Rows(Sequence[list[int]]):
    """Reads as a list of lists; packed as the engine takes it, 48 bytes a row."""

    __slots__ = ("_numbers", "packed")

    def __init__(self, packed: bytes = b"") -> None:
        """`packed` are 64-bit numbers in the machine's order, row by row."""
        self.packed = packed
        self._numbers = memoryview(packed).cast("q")

    @classmethod
    def of(cls, columns: Sequence[Ints]) -> Rows:
        """From one array of numbers a column."""
        import numpy as np  # takes a while to load, and few ask for this

        return cls(np.column_stack(columns).astype(np.int64, copy=False).tobytes())

    def column(self, number: int) -> Sequence[int]:
        """One number of each row."""
        return self._numbers[number::WIDTH]

    def array(self) -> Ints:
        """All of them, shape (rows, 6); read only."""
        import numpy as np

        return np.frombuffer(self.packed, dtype=np.int64).reshape(-1, WIDTH)

    def as_json(self, between: str) -> str:
        """The rows, with a text between two."""
        from tailback._engine import rows_as_json

        return rows_as_json(self.packed, between)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._numbers) // WIDTH

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        """A row, or some."""
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return self._numbers[chosen * WIDTH : (chosen + 1) * WIDTH].tolist()
        return [self[number] for number in chosen]

    def __iter__(self) -> Iterator[list[int]]:
        """Row by row."""
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether they are the same rows, packed or not."""
        if isinstance(other, Rows):
            return self.packed == other.packed
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The first of them."""
        return f"Rows of {list(self[:3])}{'...' if len(self) > 3 else ''}"

    def __reduce__(self) -> Any:
        """How they are copied, and sent to another process."""
        return Rows, (self.packed,)
