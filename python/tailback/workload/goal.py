"""GOAL schedules in text (Hoefler, Siebert and Lumsdaine, "Group Operation Assembly Language", 2009), as
LogGOPSim and ATLAHS have them.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from typing import TypeAlias

from tailback.limits import GRAPH_OPERATIONS, MAX_MESSAGE_BYTES
from tailback.scenario.errors import found
from tailback.units import SIZE
from tailback.workload.lists import ListError
from tailback.workload.operations import COMPUTE, RECEIVE, SEND, Making, Opened, Read, lines_of, refuse

Places: TypeAlias = "array[int]"
_RANK = re.compile(r"rank\s+(\d{1,15})\s*\{")
_OPERATION = re.compile(
    r"(\w+)\s*:\s*(?:calc\s+(?P<calc>\d{1,15})|(?P<way>send|recv)\s+(?P<size>\d{1,15})\s*b\s+(?:to|from)\s+(?P<peer>\d{1,15}))"
    r"(?:\s+tag\s+(?P<tag>\d{1,15}))?(?:\s+(?:cpu|nic)\s+\d{1,15})*"
)
_REQUIRES = re.compile(r"(\w+)\s+requires\s+(\w+)")


def from_goal(name: str, opened: Opened, ranks: int) -> Read:
    """The operations of a schedule, and what each is called there.

    The n-th send of a rank to another with a tag is received by the n-th recv there; calc is in ns.
    """
    made = Making()
    place: dict[tuple[int, str], int] = {}
    waiting: dict[tuple[int, int, int], tuple[Places, Places]] = defaultdict(lambda: (array("I"), array("I")))
    rank: int | None = None
    last = 1
    for number, raw in enumerate(lines_of(opened), 1):
        line = raw.split("//")[0].split("#")[0].strip()
        if not line:
            continue
        last = number
        if words := re.fullmatch(r"num_ranks\s+(\d{1,15})", line):
            if int(words[1]) != ranks:
                refuse(name, number, f"found {int(words[1])} ranks, expected {ranks}, those of the job")
        elif words := _RANK.fullmatch(line):
            rank = int(words[1])
            if rank >= ranks:
                refuse(name, number, f"found rank {rank}, expected one below {ranks}")
        elif line == "}":
            rank = None
        elif rank is None:
            refuse(name, number, f"found {found(line[:60])}, expected num_ranks or rank N {{")
        elif words := _REQUIRES.fullmatch(line):
            ends = []
            for label in words.groups():
                if (rank, label) not in place:
                    refuse(name, number, f"found {found(label)}, expected an operation of rank {rank} above")
                ends.append(place[rank, label])
            made.wait(*ends)
        elif words := _OPERATION.fullmatch(line):
            if (rank, words[1]) in place:
                refuse(name, number, f"found {found(words[1])} a second time")
            place[rank, words[1]] = len(made)
            if words["calc"] is not None:
                time = int(words["calc"]) * 1000
                made.add(rank, COMPUTE if time else RECEIVE, time)
            else:
                _of_goal(name, number, words, rank, ranks, waiting, made)
        else:
            what = "calc, send, recv or requires" + ("; irequires is not read" if "irequires" in line else "")
            refuse(name, number, f"found {found(line[:60])}, expected {what}")
        if len(made) > GRAPH_OPERATIONS:
            refuse(name, number, f"found more operations, expected at most {GRAPH_OPERATIONS}")
    if rank is not None:
        refuse(name, last, f"found the end of the file, expected the }} of rank {rank}")
    for (src, dst, tag), (sends, receives) in waiting.items():
        if len(sends) != len(receives):
            both = f"{len(sends)} sends and {len(receives)} receives"
            text = f"found {both} from rank {src} to {dst} with tag {tag}, expected as many"
            raise ListError(f"{name}: {text}")
        for sent, receive in zip(sends, receives, strict=True):
            if made.value[sent] != made.value[receive]:
                both = f"{made.value[sent]} B that are sent and {made.value[receive]} B that are received"
                raise ListError(
                    f"{name}: found {both} from rank {src} to {dst} with tag {tag}, expected as many"
                )
            made.wait(receive, sent)
            made.value[receive] = 0

    def called(number: int) -> str:
        rank, label = next(key for key, at in place.items() if at == number)
        return f"{label} of rank {rank}"

    return made, called


def _of_goal(
    name: str,
    number: int,
    words: re.Match[str],
    rank: int,
    ranks: int,
    waiting: dict[tuple[int, int, int], tuple[Places, Places]],
    made: Making,
) -> None:
    peer, tag, size = int(words["peer"]), int(words["tag"] or 0), int(words["size"])
    if peer >= ranks or peer == rank:
        refuse(name, number, f"found rank {peer}, expected another one below {ranks}")
    if not 1 <= size <= MAX_MESSAGE_BYTES:
        refuse(name, number, f"found {size} B, expected 1 B to {SIZE.format(MAX_MESSAGE_BYTES)}")
    if words["way"] == "recv":
        waiting[peer, rank, tag][1].append(made.add(rank, RECEIVE, size))
    else:
        waiting[rank, peer, tag][0].append(made.add(rank, SEND, size, peer))
