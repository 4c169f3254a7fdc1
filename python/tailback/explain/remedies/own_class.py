"""A class of its own: for TCP that shares the class of RoCE, and for small messages that share that of bulk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tailback.explain.remedies import Case, Remedy, numbered
from tailback.recorded.setup import ROCE, TCP
from tailback.units import SIZE

SMALL_BYTES = 16_384
"""Messages up to this size are small: they fit into a few packets."""


def remedies(case: Case) -> Iterator[Remedy]:
    """Where they share one."""
    free = case.free_priority()
    if free is None:
        return
    shared = {one for _, one in case.priorities.get(ROCE, ())} & {
        one for _, one in case.priorities.get(TCP, ())
    }
    of_item = {item: one for items in case.priorities.values() for item, one in items}
    tcp = [number for number, _ in numbered(case, "tcp") if of_item.get(case.item(number)) in shared]
    if tcp:
        yield Remedy(
            "class",
            "TCP in a class of its own",
            "Put TCP into a class of its own.",
            sets=_moved(tcp, free),
            where="tcp",
            why="TCP fills the queue of its class without slowing down for ECN, and RoCE in the same class slows "
            "down for it.",
            headline="TCP and RoCE share a class, and TCP takes it",
            repairs=True,
        )
    small = [number for number, item in numbered(case, "write-latency", "write") if _is_small(item)]
    bulk = {of_item.get(case.item(number)) for number in range(len(case.traffic)) if number not in small}
    small = [number for number in small if of_item.get(case.item(number)) in bulk]
    if small:
        names = ", ".join(case.item(number) for number in small)
        yield Remedy(
            "class",
            f"{names} in a class of its own",
            f"Put {names} into a class of its own.",
            sets=_moved(small, free),
            where=names,
            why=f"The small messages of {names} wait in the queue that bulk traffic of the same class fills.",
            headline=f"{names} waits behind bulk traffic of the same class",
            repairs=True,
        )


def _is_small(item: Mapping[str, Any]) -> bool:
    if item["kind"] == "write-latency":
        return True
    return bytes_of(item["message"]) <= SMALL_BYTES and int(item["depth"]) * int(item["qps"]) == 1


def bytes_of(size: object) -> int:
    """A size of a resolved scenario in bytes."""
    return SIZE.parse(str(size))


def _moved(numbers: list[int], priority: int) -> tuple[str, ...]:
    return tuple(
        setting
        for number in numbers
        for setting in (f"traffic.{number}.priority={priority}", f"traffic.{number}.dscp=null")
    )
