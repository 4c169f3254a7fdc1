"""SimAI's outputs about layers: the table, and a line for each collective that has ended."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tailback.simai.inputs import SimaiInputs
from tailback.simai.workload import FORWARD, INPUT, PARTS, WEIGHT, Collective

if TYPE_CHECKING:
    import pyarrow as pa

END_TO_END_FILE = "ncclFlowModel_EndToEnd.csv"
PART_TITLES = ("fwd pass comm", "input gradient", "weight gradient")
_BUS_BANDWIDTH_FACTORS = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1}
_RUN_NAME = "test1"
_TABLE_HEADER = (
    f"layer_name,{_RUN_NAME},fwd compute,wg compute,ig compute,fwd exposed comm,wg exposed comm,ig exposed comm,"
    "fwd total comm,algbw,busbw,wg total comm,algbw,busbw,ig total comm,algbw,busbw,workload finished at"
)


class CollectiveTimes(NamedTuple):
    """A collective of a layer at the first rank, in ns; it waited for `waited_ns` of the time."""

    layer: int
    part: int
    begin_ns: int
    end_ns: int
    waited_ns: int


def line(inputs: SimaiInputs, ended: CollectiveTimes) -> str:
    """The line about a collective that has ended."""
    layer = inputs.workload.layers[ended.layer]
    one = layer.collectives[ended.part]
    if one is None:
        return ""
    took = ended.end_ns - ended.begin_ns
    _, bus = _bandwidths(one, inputs.ranks(one.group), took)
    return (
        f"{ended.end_ns / 1e6:.6f} ms: layer {ended.layer} {layer.name}: {PART_TITLES[ended.part]}, {one.kind} of "
        f"{one.bytes} B in groups of {inputs.ranks(one.group)} ({one.group}): {took / 1000:.3f} us, "
        f"busbw {bus:.2f} GB/s"
    )


def end_to_end(inputs: SimaiInputs, ended: list[CollectiveTimes], finished_ns: int | None) -> bytes:
    """SimAI's table, in us, written when the first rank has finished; empty until then."""
    if finished_ns is None:
        return b""
    layers = inputs.workload.layers
    compute = [[float(ns) for ns in layer.compute_ns] for layer in layers]
    for number in range(len(layers)):
        again = sum(one.layer == number and one.part == FORWARD for one in ended) - 1
        compute[number][FORWARD] *= max(1, 1 + again)
    waited = [[0.0] * 3 for _ in layers]
    took = [[0.0] * 3 for _ in layers]
    for one in ended:
        waited[one.layer][one.part] += one.waited_ns
        took[one.layer][one.part] += one.end_ns - one.begin_ns
    order = (FORWARD, WEIGHT, INPUT)
    rows = [_TABLE_HEADER]
    for number, layer in enumerate(layers):
        row = [layer.name, _RUN_NAME]
        row += [_us(compute[number][part]) for part in order]
        row += [_us(waited[number][part]) for part in order]
        for part in order:
            collective = layer.collectives[part]
            ranks = _ranks(inputs, collective, part)
            row += [_us(took[number][part]), *map(_fixed, _bandwidths(collective, ranks, took[number][part]))]
        rows.append(",".join([*row, _us(finished_ns)]))
    sums = [sum(row[part] for row in each) for each in (compute, waited, took) for part in order]
    words = [_us(value) for value in sums]
    rows.append(",".join(["SUM", _RUN_NAME, *words[:6], *(f"{word},NONE,NONE" for word in words[6:])]))
    computed = sum(sums[:3])
    exposed = finished_ns - computed
    rows.append(f"total exposed comm,{_us(exposed)},total comp,{_us(computed)},total time,{_us(finished_ns)}")
    return "".join(f"{row}\n" for row in rows).encode()


def closing_lines(inputs: SimaiInputs, table: bytes, flows: pa.Table) -> list[str]:
    """SimAI's last lines: the end of the first rank, and bytes that each GPU has sent and received.

    `table` is that of `end_to_end`; empty if no rank has finished: then there are no lines. `flows` are the
    messages.
    """
    if not table:
        return []
    finished_us = table.decode().splitlines()[-1].split(",")[-1]
    name = inputs.workload.layers[0].name
    lines: list[tuple[int, int, str]] = []
    for at, (end, what) in enumerate((("src", "sent from"), ("dst", "received by"))):
        for row in flows.group_by(end).aggregate([("message_bytes", "sum")]).to_pylist():
            node = int(row[end].removeprefix("h"))
            lines.append((node, at, f"All data {what} node {node} is {row['message_bytes_sum']}"))
    words = f"all passes finished at time: {float(finished_us) * 1000:.0f}, id of first layer: {name}"
    return ["*" * 25, words, *(text for _, _, text in sorted(lines))]


def _ranks(inputs: SimaiInputs, collective: Collective | None, part: int) -> int:
    """Group size for the table: that of the expert group if the collective names it, else of the part's group."""
    if collective and collective.group == ("data-expert" if part == WEIGHT else "expert"):
        return inputs.ranks(collective.group)
    return inputs.ranks("data" if part == WEIGHT else "tensor")


def _bandwidths(collective: Collective | None, ranks: int, took_ns: float) -> tuple[float, float]:
    """Algorithm and bus bandwidth in 2^30 B/s, in single precision, as in SimAI."""
    if collective is None:
        return -float("nan") if not took_ns else 0.0, 0.0
    if not took_ns:
        return float("inf"), float("inf")
    algorithm = _single(collective.bytes / (took_ns / 1000) * 1000000 / (1 << 30))
    factor = _BUS_BANDWIDTH_FACTORS[collective.kind]
    return algorithm, _single(_single(_single(algorithm * factor) * (ranks - 1)) / ranks)


def _single(value: float) -> float:
    (single,) = struct.unpack("f", struct.pack("f", value))
    return float(single)


def _us(ns: float) -> str:
    return f"{ns / 1000:.6f}"


def _fixed(value: float) -> str:
    return "-nan" if value != value else f"{value:.6f}"


__all__ = ["END_TO_END_FILE", "PARTS", "PART_TITLES", "CollectiveTimes", "end_to_end", "line"]
