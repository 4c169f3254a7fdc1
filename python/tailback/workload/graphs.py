"""Graphs of operations from files: CSV and Parquet tables of one's own, and GOAL, as LogGOPSim and ATLAHS
have it (Hoefler, Siebert and Lumsdaine, "Group Operation Assembly Language", 2009).
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from tailback.limits import FLOWS_BYTES, GRAPH_OPERATIONS, MAX_MESSAGE_BYTES
from tailback.scenario.errors import found, one_line
from tailback.units import DURATION, SIZE, UnitError
from tailback.workload.lists import ListError

COLUMNS = ("operation", "rank", "what", "time", "bytes", "to", "channel", "after")
_KINDS = ("compute", "send", "receive", "reduce", "barrier")
_LONGEST = DURATION.parse("36000s")
_MOST_CHANNELS = 64


class Operation(NamedTuple):
    """An operation as the plan has it: its rank, what it is, and the places of those that it waits for."""

    rank: int
    what: Any
    after: list[int]


def read_graph(name: str, ranks: int, read: Callable[[str, int], bytes]) -> list[Operation]:
    """The operations of a file, for so many ranks.

    Raises:
        ListError: not readable, ranks that are not there, or operations that wait for each other; the text
            says where.
        ScenarioError: the file cannot be read.
    """
    content = read(name, FLOWS_BYTES)
    if name.endswith(".goal"):
        made, names = _from_goal(name, content, ranks)
    else:
        made, names = _from_table(name, content, ranks)
    if not made:
        raise ListError(f"{name}: found no operation, expected one or more")
    _refuse_circle(name, made, names)
    return made


def _refuse(name: str, line: int, text: str) -> NoReturn:
    raise ListError(f"{name}:{line}: {text}")


def _from_table(name: str, content: bytes, ranks: int) -> tuple[list[Operation], list[str]]:
    rows = list(_rows(name, content))
    place: dict[str, int] = {}
    for line, row in enumerate(rows, 2):
        label = _text(row, "operation") or str(line - 2)
        if label in place:
            _refuse(name, line, f"operation: found {found(label)} a second time")
        place[label] = line - 2
    made = []
    for line, row in enumerate(rows, 2):
        after = []
        for label in _text(row, "after").split():
            if label not in place:
                _refuse(name, line, f"after: found {found(label)}, expected an operation of the file")
            after.append(place[label])
        rank = _whole(name, line, row, "rank", ranks, "a rank")
        made.append(Operation(rank, _what(name, line, row, rank, ranks), after))
    for line, one in enumerate(made, 2):
        _check_after(name, line, one, made)
    return made, list(place)


def _rows(name: str, content: bytes) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.csv as csv

    from tailback.files.parquet import read_parquet

    try:
        if name.endswith(".parquet"):
            table = read_parquet(content, GRAPH_OPERATIONS, GRAPH_OPERATIONS * len(COLUMNS), FLOWS_BYTES)
        else:
            if content.count(b"\n") > GRAPH_OPERATIONS + 1:
                raise ListError(
                    f"{name}: found {content.count(bytes([10]))} lines, expected at most {GRAPH_OPERATIONS}"
                )
            columns = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string()))
            one_thread = csv.ReadOptions(use_threads=False)
            table = csv.read_csv(pa.BufferReader(content), one_thread, convert_options=columns)
    except ListError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ListError(f"{name}: not readable: {one_line(' '.join(str(error).split()))[:200]}") from None
    unknown = sorted(set(table.column_names) - set(COLUMNS))
    if unknown or not {"rank", "what"} <= set(table.column_names):
        given = ", ".join(found(column) for column in table.column_names[:20])
        text = f"found the columns {given}, expected rank, what and, if wanted, {', '.join(COLUMNS)}"
        raise ListError(f"{name}: {text}")
    yield from table.to_pylist()


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return "" if value is None else str(value).strip()


def _whole(name: str, line: int, row: dict[str, Any], key: str, below: int, what: str) -> int:
    text = _text(row, key)
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) >= below:
        _refuse(name, line, f"{key}: found {found(text)}, expected {what} below {below}")
    return int(text)


def _what(name: str, line: int, row: dict[str, Any], rank: int, ranks: int) -> Any:
    kind = _text(row, "what")
    if kind not in _KINDS:
        _refuse(name, line, f"what: found {found(kind)}, expected one of {', '.join(_KINDS)}")
    wanted = {"compute": {"time"}, "send": {"bytes", "to", "channel"}, "reduce": {"bytes"}}.get(kind, set())
    for key in ("time", "bytes", "to", "channel"):
        if _text(row, key) and key not in wanted:
            _refuse(name, line, f"{key}: found {found(_text(row, key))}, expected nothing: it is a {kind}")
    if kind == "compute":
        return {"compute": _quantity(name, line, row, "time", DURATION.parse, _LONGEST)}
    if kind == "reduce":
        return {"reduce": _quantity(name, line, row, "bytes", SIZE.parse, MAX_MESSAGE_BYTES)}
    if kind == "send":
        size = _quantity(name, line, row, "bytes", SIZE.parse, MAX_MESSAGE_BYTES)
        to = _whole(name, line, row, "to", ranks, "a rank")
        if to == rank:
            _refuse(name, line, f"to: found {to}, expected another rank")
        channel = (
            _whole(name, line, row, "channel", _MOST_CHANNELS, "a number") if _text(row, "channel") else 0
        )
        return {"send": {"to": to, "bytes": size, "channel": channel}}
    return kind


def _quantity(
    name: str, line: int, row: dict[str, Any], key: str, parse: Callable[[object], int], most: int
) -> int:
    text = _text(row, key)
    try:
        value = parse(int(text) if key == "bytes" and text.isdigit() else text)
    except UnitError as error:
        _refuse(name, line, f"{key}: {error}")
    if not 1 <= value <= most:
        limit = SIZE.format(most) if key == "bytes" else DURATION.format(most)
        _refuse(name, line, f"{key}: found {found(text)}, expected more than 0 and at most {limit}")
    return value


def _check_after(name: str, line: int, one: Operation, every: Sequence[Operation]) -> None:
    """What waits for another rank's operation does so for a message to its own, or is a barrier."""
    for place in one.after:
        other = every[place]
        message = isinstance(other.what, dict) and other.what.get("send", {}).get("to") == one.rank
        if other.rank != one.rank and not message and "barrier" not in (one.what, other.what):
            text = f"expected one of rank {one.rank}, a send to it, or a barrier"
            _refuse(name, line, f"after: found an operation of rank {other.rank}, {text}")


_RANK = re.compile(r"rank\s+(\d+)\s*\{")
_OPERATION = re.compile(
    r"(\w+)\s*:\s*(?:calc\s+(?P<calc>\d+)|(?P<way>send|recv)\s+(?P<size>\d+)\s*b\s+(?:to|from)\s+(?P<peer>\d+))"
    r"(?:\s+tag\s+(?P<tag>\d+))?(?:\s+(?:cpu|nic)\s+\d+)*"
)
_REQUIRES = re.compile(r"(\w+)\s+requires\s+(\w+)")


def _from_goal(name: str, content: bytes, ranks: int) -> tuple[list[Operation], list[str]]:
    """A textual schedule. The n-th send of a rank to another with a tag is received by the n-th recv there;
    calc is in ns.
    """
    made: list[Operation] = []
    names: list[str] = []
    place: dict[tuple[int, str], int] = {}
    waiting: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    rank: int | None = None
    lines = content.decode("utf-8", "replace").splitlines()
    for number, raw in enumerate(lines, 1):
        line = raw.split("//")[0].split("#")[0].strip()
        if not line:
            continue
        if words := re.fullmatch(r"num_ranks\s+(\d+)", line):
            if int(words[1]) != ranks:
                _refuse(name, number, f"found {int(words[1])} ranks, expected {ranks}, those of the job")
        elif words := _RANK.fullmatch(line):
            rank = int(words[1])
            if rank >= ranks:
                _refuse(name, number, f"found rank {rank}, expected one below {ranks}")
        elif line == "}":
            rank = None
        elif rank is None:
            _refuse(name, number, f"found {found(line[:60])}, expected num_ranks or rank N {{")
        elif words := _REQUIRES.fullmatch(line):
            ends = []
            for label in words.groups():
                if (rank, label) not in place:
                    _refuse(name, number, f"found {found(label)}, expected an operation of rank {rank} above")
                ends.append(place[rank, label])
            made[ends[0]].after.append(ends[1])
        elif words := _OPERATION.fullmatch(line):
            if (rank, words[1]) in place:
                _refuse(name, number, f"found {found(words[1])} a second time")
            place[rank, words[1]] = len(made)
            names.append(f"{words[1]} of rank {rank}")
            if words["calc"] is not None:
                time = int(words["calc"]) * 1000
                made.append(Operation(rank, {"compute": time} if time else "receive", []))
            else:
                made.append(_of_goal(name, number, words, rank, ranks, waiting, len(made)))
        else:
            what = "calc, send, recv or requires" + ("; irequires is not read" if "irequires" in line else "")
            _refuse(name, number, f"found {found(line[:60])}, expected {what}")
        if len(made) > GRAPH_OPERATIONS:
            _refuse(name, number, f"found more operations, expected at most {GRAPH_OPERATIONS}")
    for (src, dst, tag), (sends, receives) in waiting.items():
        if len(sends) != len(receives):
            both = f"{len(sends)} sends and {len(receives)} receives"
            text = f"found {both} from rank {src} to {dst} with tag {tag}, expected as many"
            raise ListError(f"{name}: {text}")
        for send, receive in zip(sends, receives, strict=True):
            made[receive].after.append(send)
    return made, names


def _of_goal(
    name: str,
    number: int,
    words: re.Match[str],
    rank: int,
    ranks: int,
    waiting: dict[tuple[int, int, int], tuple[list[int], list[int]]],
    place: int,
) -> Operation:
    peer, tag, size = int(words["peer"]), int(words["tag"] or 0), int(words["size"])
    if peer >= ranks or peer == rank:
        _refuse(name, number, f"found rank {peer}, expected another one below {ranks}")
    if not 1 <= size <= MAX_MESSAGE_BYTES:
        _refuse(name, number, f"found {size} B, expected 1 B to {SIZE.format(MAX_MESSAGE_BYTES)}")
    if words["way"] == "recv":
        waiting[peer, rank, tag][1].append(place)
        return Operation(rank, "receive", [])
    waiting[rank, peer, tag][0].append(place)
    return Operation(rank, {"send": {"to": peer, "bytes": size, "channel": 0}}, [])


def _refuse_circle(name: str, made: Sequence[Operation], names: Sequence[str]) -> None:
    """Names operations that wait for each other."""
    waits = [len(one.after) for one in made]
    then: list[list[int]] = [[] for _ in made]
    for place, one in enumerate(made):
        for before in one.after:
            then[before].append(place)
    ready = deque(place for place, count in enumerate(waits) if not count)
    left = len(made)
    while ready:
        left -= 1
        for place in then[ready.popleft()]:
            waits[place] -= 1
            if not waits[place]:
                ready.append(place)
    if not left:
        return
    # Whoever is left waits for one that is left: going back comes round to a circle.
    place, seen = next(place for place, count in enumerate(waits) if count), dict[int, int]()
    while place not in seen:
        seen[place] = len(seen)
        place = next(before for before in made[place].after if waits[before])
    circle = list(seen)[seen[place] :]
    shown = ", ".join(names[one] for one in circle[:10]) + (", ..." if len(circle) > 10 else "")
    raise ListError(f"{name}: operations {shown} wait for each other in a circle")
