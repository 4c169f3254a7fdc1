"""GOAL schedules in text (Hoefler, Siebert and Lumsdaine, "Group Operation Assembly Language", 2009), in the
form of LogGOPSim and ATLAHS.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import numpy as np

from tailback.errors import found
from tailback.limits import GRAPH_OPERATIONS, MAX_MESSAGE_BYTES
from tailback.units import SIZE
from tailback.workload.lists import ListError
from tailback.workload.operations import (
    COMPUTE,
    RECEIVE,
    SEND,
    Opened,
    OperationsBuilder,
    Read,
    lines_of,
    refuse,
)

_RANK_PATTERN = re.compile(r"rank\s+(\d{1,15})\s*\{")
_OPERATION_PATTERN = re.compile(
    r"(\w+)\s*:\s*(?:calc\s+(?P<calc>\d{1,15})|(?P<way>send|recv)\s+(?P<size>\d{1,15})\s*b\s+(?:to|from)\s+(?P<peer>\d{1,15}))"
    r"(?:\s+tag\s+(?P<tag>\d{1,15}))?(?:\s+(?:cpu|nic)\s+\d{1,15})*"
)
_REQUIRES_PATTERN = re.compile(r"(\w+)\s+requires\s+(\w+)")


def from_goal(name: str, opened: Opened, ranks: int) -> Read:
    """Reads the operations of a schedule, and returns a function that names each of them.

    The n-th send between two ranks with a tag matches the n-th recv with this tag; calc is in ns.
    """
    made = OperationsBuilder()
    read = _SendsAndReceives()
    place: dict[str, int] = {}
    rank: int | None = None
    known = set[int]()
    last = 1
    for number, line in _lines(opened):
        last = number
        if words := re.fullmatch(r"num_ranks\s+(\d{1,15})", line):
            if int(words[1]) != ranks:
                refuse(name, number, f"found {int(words[1])} ranks, expected {ranks}, those of the job")
        elif words := _RANK_PATTERN.fullmatch(line):
            rank = int(words[1])
            if rank >= ranks:
                refuse(name, number, f"found rank {rank}, expected one below {ranks}")
            if rank in known:
                refuse(name, number, f"found rank {rank} a second time")
            known.add(rank)
            place = {}
        elif line == "}":
            rank = None
        elif rank is None:
            refuse(name, number, f"found {found(line[:60])}, expected num_ranks or rank N {{")
        elif words := _REQUIRES_PATTERN.fullmatch(line):
            ends = []
            for label in words.groups():
                if label not in place:
                    refuse(name, number, f"found {found(label)}, expected an operation of rank {rank} above")
                ends.append(place[label])
            made.wait(*ends)
        elif words := _OPERATION_PATTERN.fullmatch(line):
            if words[1] in place:
                refuse(name, number, f"found {found(words[1])} a second time")
            place[words[1]] = len(made)
            if words["calc"] is not None:
                time = int(words["calc"]) * 1000
                made.add(rank, COMPUTE if time else RECEIVE, time)
            else:
                _add_message(name, number, words, rank, ranks, read, made)
        else:
            what = "calc, send, recv or requires" + ("; irequires is not read" if "irequires" in line else "")
            refuse(name, number, f"found {found(line[:60])}, expected {what}")
        if len(made) > GRAPH_OPERATIONS:
            refuse(name, number, f"found more operations, expected at most {GRAPH_OPERATIONS}")
    if rank is not None:
        refuse(name, last, f"found the end of the file, expected the }} of rank {rank}")
    _match(name, made, read)

    def called(number: int) -> str:
        # Labels are not kept: there may be millions, and they are only needed in messages.
        rank, left = 0, number
        for _, line in _lines(opened):
            if words := _RANK_PATTERN.fullmatch(line):
                rank = int(words[1])
            elif words := _OPERATION_PATTERN.fullmatch(line):
                if not left:
                    return f"{words[1]} of rank {rank}"
                left -= 1
        raise LookupError(number)

    return made, called


class _SendsAndReceives:
    """Sends and receives that were read: indices, tags, and the senders of receives."""

    def __init__(self) -> None:
        self.sends, self.send_tags = array("I"), array("Q")
        self.receives, self.receive_tags, self.senders = array("I"), array("Q"), array("I")


def _lines(opened: Opened) -> Iterator[tuple[int, str]]:
    """Numbered lines without comments; empty lines are skipped."""
    for number, raw in enumerate(lines_of(opened), 1):
        if line := raw.split("//")[0].split("#")[0].strip():
            yield number, line


def _match(name: str, made: OperationsBuilder, read: _SendsAndReceives) -> None:
    """Lets the n-th receive with a tag wait for the n-th send."""
    rank, to, value = np.asarray(made.rank), np.asarray(made.to), np.asarray(made.value)
    sends, receives = np.asarray(read.sends), np.asarray(read.receives)
    sent = [rank[sends], to[sends], np.asarray(read.send_tags)]
    received = [np.asarray(read.senders), rank[receives], np.asarray(read.receive_tags)]
    orders = [np.lexsort(keys[::-1]) for keys in (sent, received)]  # stable: equal keys stay in order
    sent, received = (
        [key[order] for key in keys] for keys, order in zip((sent, received), orders, strict=True)
    )
    both = min(len(sends), len(receives))
    matches = np.logical_and.reduce([a[:both] == b[:both] for a, b in zip(sent, received, strict=True)])
    if len(sends) != len(receives) or not matches.all():
        at = both if matches.all() else int(np.argmin(matches))
        keys = [tuple(int(key[at]) for key in keys) for keys in (sent, received) if at < len(keys[0])]
        src, dst, tag = min(keys)
        counts = [
            np.count_nonzero((keys[0] == src) & (keys[1] == dst) & (keys[2] == tag))
            for keys in (sent, received)
        ]
        text = f"{counts[0]} sends and {counts[1]} receives from rank {src} to {dst} with tag {tag}"
        raise ListError(f"{name}: found {text}, expected as many")
    sends, receives = sends[orders[0]], receives[orders[1]]
    same = value[sends] == value[receives]
    if not same.all():
        at = int(np.argmin(same))
        sizes = f"{value[sends[at]]} B that are sent and {value[receives[at]]} B that are received"
        src, dst, tag = (int(key[at]) for key in sent)
        raise ListError(f"{name}: found {sizes} from rank {src} to {dst} with tag {tag}, expected as many")
    made.wait_each(receives, sends)
    value[receives] = 0


def _add_message(
    name: str,
    number: int,
    words: re.Match[str],
    rank: int,
    ranks: int,
    read: _SendsAndReceives,
    made: OperationsBuilder,
) -> None:
    peer, tag, size = int(words["peer"]), int(words["tag"] or 0), int(words["size"])
    if peer >= ranks or peer == rank:
        refuse(name, number, f"found rank {peer}, expected another one below {ranks}")
    if not 1 <= size <= MAX_MESSAGE_BYTES:
        refuse(name, number, f"found {size} B, expected 1 B to {SIZE.format(MAX_MESSAGE_BYTES)}")
    if words["way"] == "recv":
        read.receives.append(made.add(rank, RECEIVE, size))
        read.receive_tags.append(tag)
        read.senders.append(peer)
    else:
        read.sends.append(made.add(rank, SEND, size, peer))
        read.send_tags.append(tag)
