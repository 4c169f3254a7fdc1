"""Messages as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback.workload.draws import Ints


@dataclass(frozen=True)
class Messages:
    """Messages of a traffic item: host numbers, bytes, picoseconds."""

    src: Ints
    dst: Ints
    size: Ints
    start: Ints
    priority: Ints

    def __len__(self) -> int:
        return len(self.src)

    def in_order(self) -> Messages:
        """The messages sorted by start; stable."""
        order = np.argsort(self.start, kind="stable")
        columns = (self.src, self.dst, self.size, self.start, self.priority)
        return Messages(*(column[order] for column in columns))


def messages(src: Any, dst: Any, size: Any, start: Any, priority: int | Ints) -> Messages:
    """Makes messages from columns; a single number is repeated."""
    columns = np.broadcast_arrays(*(np.asarray(one, dtype=np.int64) for one in (src, dst, size, start)))
    count = len(columns[0])
    own = np.broadcast_to(np.asarray(priority, dtype=np.int64), (count,))
    src, dst, size, start = (np.ascontiguousarray(column) for column in columns)
    return Messages(src, dst, size, start, own)
