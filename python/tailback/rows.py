"""Rows of six integers: a plan's messages, of which there may be millions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from tailback.workload.draws import Ints

ROW_VALUES = 6


class Rows(Sequence[list[int]]):
    """Reads as a list of lists; stored packed, as the engine takes it: 48 bytes per row."""

    __slots__ = ("_numbers", "packed")

    def __init__(self, packed: bytes = b"") -> None:
        """`packed` are 64-bit numbers in the machine's order, row by row."""
        self.packed = packed
        self._numbers = memoryview(packed).cast("q")

    @classmethod
    def of(cls, columns: Sequence[Ints]) -> Rows:
        """Makes rows of one array per column."""
        import numpy as np  # takes a tenth of a second to load, and is not always needed

        return cls(np.column_stack(columns).astype(np.int64, copy=False).tobytes())

    def column(self, number: int) -> Sequence[int]:
        """The values of one column."""
        return self._numbers[number::ROW_VALUES]

    def array(self) -> Ints:
        """All values as an array of shape (rows, 6); read only."""
        import numpy as np

        return np.frombuffer(self.packed, dtype=np.int64).reshape(-1, ROW_VALUES)

    def as_json(self, between: str) -> str:
        """The rows as JSON, with the text `between` between two rows."""
        from tailback._engine import rows_as_json

        return rows_as_json(self.packed, between)

    def __len__(self) -> int:
        return len(self._numbers) // ROW_VALUES

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return self._numbers[chosen * ROW_VALUES : (chosen + 1) * ROW_VALUES].tolist()
        return [self[number] for number in chosen]

    def __iter__(self) -> Iterator[list[int]]:
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows):
            return self.packed == other.packed
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rows of {list(self[:3])}{'...' if len(self) > 3 else ''}"

    def __reduce__(self) -> Any:
        return Rows, (self.packed,)
