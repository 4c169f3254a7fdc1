"""What makes a scenario impossible although each of its fields is possible."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.scenario.congestion import congestion_conflicts
from tailback.scenario.dcqcn import resolve
from tailback.scenario.errors import Path
from tailback.scenario.headroom import headroom, shared, total_headroom
from tailback.scenario.hosts import indices, names
from tailback.scenario.model import Scenario, Write
from tailback.units import format_duration, format_rate, format_size

MAX_QPS = 1_000_000
"""Most queue pairs of a run; each takes a few hundred bytes in the engine."""
MAX_OUTSTANDING = 2**22
"""Most packets outstanding on a queue pair: a quarter of all PSNs leaves no doubt about which are old."""


def conflicts(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Every conflict: the path of the field that is named, and the text of the problem."""
    yield from _buffer(scenario)
    yield from _rates(scenario)
    yield from congestion_conflicts(scenario.host, [scenario.topology.link.rate])
    for index, item in enumerate(scenario.traffic):
        yield from _traffic(scenario, item, ("traffic", index))
    total = sum(queue_pairs(item) for item in scenario.traffic)
    if total > MAX_QPS:
        yield ("traffic",), f"found {total} queue pairs, expected at most {MAX_QPS}"


def pairs(item: Write) -> list[tuple[str, str]]:
    """The pairs of hosts of a traffic item, each direction of its own."""
    receivers = names(item.to)
    one_way = [(source, to) for source in names(item.from_) for to in receivers if source != to]
    if not item.bidirectional:
        return one_way
    return [direction for source, to in one_way for direction in ((source, to), (to, source))]


def queue_pairs(item: Write) -> int:
    """How many queue pairs a traffic item has, without making the list."""
    senders = {i for entry in item.from_ for i in indices(entry)}
    receivers = {i for entry in item.to for i in indices(entry)}
    count = len(senders) * len(receivers) - len(senders & receivers)
    return count * item.qps * (2 if item.bidirectional else 1)


def _buffer(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    switch = scenario.switch
    reserved = total_headroom(scenario)
    if reserved >= switch.buffer:
        how = (
            f"{format_size(headroom(scenario))} of headroom for each of {scenario.topology.hosts} ports and "
            f"{len(switch.lossless)} lossless priorities"
        )
        yield (
            ("switch", "buffer"),
            f"found {format_size(switch.buffer)}, expected more than {format_size(reserved)}: {how}",
        )
        return
    left = switch.buffer - reserved
    if shared(scenario) > left:
        yield (
            ("switch", "shared"),
            f"found {format_size(shared(scenario))}, expected at most {format_size(left)}, "
            "the buffer without headroom",
        )
    elif switch.lossless and switch.pfc.xoff is not None and switch.pfc.xoff > shared(scenario):
        yield (
            ("switch", "pfc", "xoff"),
            f"found {format_size(switch.pfc.xoff)}, expected at most {format_size(shared(scenario))}, "
            "what is shared of the buffer",
        )


def _rates(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    if scenario.host.congestion != "dcqcn":
        return
    line = scenario.topology.link.rate
    parameters = resolve(scenario.host.dcqcn, line)
    lowest = int(parameters["rpg_min_rate"].value)
    highest = int(parameters["rpg_max_rate"].value) * 10**6
    limit, name = (highest, "rpg_max_rate") if 0 < highest < line else (line, "the link's rate")
    if lowest * 10**6 > limit:
        yield (
            ("host", "dcqcn", "rpg_min_rate"),
            f"found {lowest} (Mb/s), expected at most {name}, {format_rate(limit)}",
        )


def _traffic(scenario: Scenario, item: Write, path: Path) -> Iterator[tuple[Path, str]]:
    hosts = scenario.topology.hosts
    known = True
    for field, entries in (("from", item.from_), ("to", item.to)):
        for entry in entries:
            if indices(entry)[-1] >= hosts:
                known = False
                yield (*path, field), f'found "{entry}", expected hosts of h0..h{hosts - 1}'
    if known and queue_pairs(item) == 0:
        yield (*path, "to"), f'found only the sender, "{item.to[0]}", expected another host'
    packets = -(-item.message // scenario.host.mtu)
    if packets * item.depth > MAX_OUTSTANDING:
        most = MAX_OUTSTANDING // packets
        yield (
            (*path, "depth"),
            f"found {item.depth}, expected at most {most}, with {packets} packets a message",
        )
    duration = scenario.run.duration
    if item.start >= duration:
        when = format_duration(item.start)
        yield (*path, "start"), f"found {when}, expected less than run.duration, {format_duration(duration)}"
