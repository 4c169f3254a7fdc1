"""Connection matrices of htsim: flows, and triggers that start flows after others have ended."""

from __future__ import annotations

import re
from array import array

import numpy as np

from tailback.errors import found
from tailback.limits import GRAPH_OPERATIONS, MAX_MESSAGE_BYTES
from tailback.units import DURATION, SIZE
from tailback.workload.operations import (
    BARRIER,
    COMPUTE,
    SEND,
    Opened,
    OperationsBuilder,
    Read,
    lines_of,
    refuse,
)

_MAX_START_PS = DURATION.parse("36000s")
_KEY_PATTERN = r"\s+(?:msg(?:\s+\d{1,15})?|[a-z_]+\s+\d{1,15}(?:\.\d{1,15})?)"
_FLOW_PATTERN = re.compile(rf"(\d{{1,15}})->(\d{{1,15}})((?:{_KEY_PATTERN})*)")
_TRIGGER_PATTERN = re.compile(r"trigger\s+id\s+(\d{1,15})\s+(oneshot|barrier\s+count\s+(\d{1,15}))")
_FLOW_KEYS = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "msg")
PS_PER_US = 10**6

_TRIGGER_KEYS = ("trigger", "send_done_trigger", "recv_done_trigger")
_NOT_GIVEN = -1


class _Flows:
    """Flows that were read, in compact arrays: there may be millions."""

    def __init__(self) -> None:
        self.made = OperationsBuilder()
        self.line, self.start = array("I"), array("q")
        self.triggers = {key: array("q") for key in _TRIGGER_KEYS}

    def add(self, line: int, src: int, dst: int, keys: dict[str, int]) -> None:
        self.made.add(src, SEND, keys["size"], dst)
        self.line.append(line)
        self.start.append(keys.get("start", _NOT_GIVEN))
        for key, numbers in self.triggers.items():
            numbers.append(keys.get(key, _NOT_GIVEN))


def from_connections(name: str, opened: Opened, ranks: int) -> Read:
    """Reads the operations of a file for `ranks` ranks, and returns a function that names each of them.

    A start is in ps, as in htsim, or in whole µs, as in uet-htsim, whose files alone have `msg`. Triggers of a flow
    fire when its data are in the receiver's memory.
    """
    flows = _Flows()
    of_uet = False
    count_of: dict[int, int] = {}
    declared: dict[str, tuple[int, int]] = {}
    for number, raw in enumerate(lines_of(opened), 1):
        line = raw.split("#")[0].strip()
        if words := re.fullmatch(r"Nodes\s+(\d{1,15})", line):
            if int(words[1]) != ranks:
                refuse(name, number, f"found {int(words[1])} nodes, expected {ranks}, the ranks of the job")
        elif words := _TRIGGER_PATTERN.fullmatch(line):
            count_of[int(words[1])] = int(words[3] or 1)
        elif words := _FLOW_PATTERN.fullmatch(line):
            src, dst, keys = _flow(name, number, words, ranks)
            of_uet |= "msg" in keys
            flows.add(number, src, dst, keys)
        elif words := re.fullmatch(r"(Connections|Triggers)\s+(\d{1,15})", line):
            declared[words[1]] = number, int(words[2])
        elif line:
            what = "SRC->DST, or trigger id N with oneshot or barrier count M"
            refuse(name, number, f"found {found(line[:60])}, expected {what}")
        if len(flows.line) > GRAPH_OPERATIONS // 3:
            refuse(name, number, f"found more flows, expected at most {GRAPH_OPERATIONS // 3}")
    for what, count in (("Connections", len(flows.line)), ("Triggers", len(count_of))):
        line_of, wanted = declared.get(what, (1, count))
        if count != wanted:
            refuse(name, line_of, f"found {count} {what.lower()}, expected {wanted}")
    _convert_starts(name, flows, of_uet)
    return _operations(name, flows, count_of)


def _convert_starts(name: str, flows: _Flows, of_uet: bool) -> None:
    """Converts starts to ps, and refuses a file whose unit cannot be determined."""
    starts = np.asarray(flows.start)
    if not len(starts):
        return
    last = int(starts.argmax())
    latest, line = int(starts[last]), flows.line[last]
    if of_uet:
        latest *= PS_PER_US
    elif 0 < latest < PS_PER_US:
        refuse(
            name,
            line,
            f"start: found {latest} as the latest, which is ps in htsim and us in uet-htsim, expected ps of "
            f"1 us ({PS_PER_US}) or more, or msg behind a flow, which uet-htsim alone has",
        )
    if latest > _MAX_START_PS:
        refuse(name, line, f"start: found {latest} ps, expected at most {DURATION.format(_MAX_START_PS)}")
    if of_uet:
        flows.start = array("q", np.where(starts > 0, starts * PS_PER_US, starts).tobytes())


def _flow(name: str, number: int, words: re.Match[str], ranks: int) -> tuple[int, int, dict[str, int]]:
    src, dst = int(words[1]), int(words[2])
    if max(src, dst) >= ranks or src == dst:
        refuse(name, number, f"found {src}->{dst}, expected two nodes below {ranks}")
    keys: dict[str, int] = {}
    for part in re.findall(_KEY_PATTERN, words[3]):
        key, value = (*part.split(), "0")[:2]
        if key not in _FLOW_KEYS:
            refuse(name, number, f"found {key}, expected one of {', '.join(_FLOW_KEYS)}")
        if "." in value and key != "start":
            refuse(name, number, f"{key}: found {value}, expected a whole number")
        keys[key] = int(value.partition(".")[0])
    if not 1 <= keys.get("size", 0) <= MAX_MESSAGE_BYTES:
        refuse(name, number, f"found no size of 1 B to {SIZE.format(MAX_MESSAGE_BYTES)}")
    if ("start" in keys) == ("trigger" in keys):
        refuse(name, number, "found not one of start and trigger, expected either")
    return src, dst, keys


def _operations(name: str, flows: _Flows, count_of: dict[int, int]) -> Read:
    """Start times become a chain of computations at each rank, triggers become barriers."""
    made, count = flows.made, len(flows.line)
    place = {trigger: made.add(0, BARRIER) for trigger in count_of}
    begins = len(made)
    ended = array("I", bytes(4 * begins))
    for at, of_flow in enumerate(zip(*flows.triggers.values(), strict=True)):
        for key, number in zip(_TRIGGER_KEYS, of_flow, strict=True):
            if number == _NOT_GIVEN:
                continue
            barrier = place.get(number)
            if barrier is None:
                refuse(name, flows.line[at], f"{key}: found {number}, expected a trigger of the file")
            waits, of = (at, barrier) if key == "trigger" else (barrier, at)
            made.wait(waits, of)
            ended[waits] += 1
    for trigger, wanted in count_of.items():
        if ended[place[trigger]] != wanted:
            done = f"found {ended[place[trigger]]} flows that end in trigger {trigger}"
            refuse(name, 1, f"{done}, expected {wanted}")
    waited: dict[int, tuple[int, int]] = {}
    line_of = array("I")
    for at in np.argsort(np.asarray(flows.start), kind="stable"):
        start, src = flows.start[at], made.rank[at]
        last, now = waited.get(src, (-1, 0))
        if start > now:
            begin = made.add(src, COMPUTE, start - now)
            line_of.append(flows.line[at])
            if last >= 0:
                made.wait(begin, last)
            last, now = begin, start
            waited[src] = last, now
        if start > 0:
            made.wait(int(at), last)

    def called(number: int) -> str:
        if number >= begins:
            return f"start of line {line_of[number - begins]}"
        if number >= count:
            return f"trigger {next(trigger for trigger, at in place.items() if at == number)}"
        return f"flow of line {flows.line[number]}"

    return made, called
