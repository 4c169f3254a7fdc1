"""What SimAI tells of layers: its table, and a line when a collective has ended."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tailback.simai.inputs import SimaiInputs
from tailback.simai.workload import FORWARD, INPUT, PARTS, WEIGHT, Collective

if TYPE_CHECKING:
    import pyarrow as pa

END_TO_END = "ncclFlowModel_EndToEnd.csv"
NAMES = ("fwd pass comm", "input gradient", "weight gradient")
_BUS = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1}
_RUN = "test1"
_HEADER = (
    f"layer_name,{_RUN},fwd compute,wg compute,ig compute,fwd exposed comm,wg exposed comm,ig exposed comm,"
    "fwd total comm,algbw,busbw,wg total comm,algbw,busbw,ig total comm,algbw,busbw,workload finished at"
)


class Ended(NamedTuple):
    """A collective of a layer at the first rank; times in ns, `waited_ns` of them waited for."""

    layer: int
    part: int
    begin_ns: int
    end_ns: int
    waited_ns: int


def line(inputs: SimaiInputs, ended: Ended) -> str:
    """What a collective took, when it is over."""
    layer = inputs.workload.layers[ended.layer]
    one = layer.collectives[ended.part]
    if one is None:
        return ""
    took = ended.end_ns - ended.begin_ns
    _, bus = _bandwidths(one, inputs.ranks(one.group), took)
    return (
        f"{ended.end_ns / 1e6:.6f} ms: layer {ended.layer} {layer.name}: {NAMES[ended.part]}, {one.kind} of "
        f"{one.bytes} B in groups of {inputs.ranks(one.group)} ({one.group}): {took / 1000:.3f} us, "
        f"busbw {bus:.2f} GB/s"
    )


def end_to_end(inputs: SimaiInputs, ended: list[Ended], finished_ns: int | None) -> bytes:
    """The table, in us, as that simulator writes it when its first rank has finished; empty until then."""
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
    rows = [_HEADER]
    for number, layer in enumerate(layers):
        row = [layer.name, _RUN]
        row += [_us(compute[number][part]) for part in order]
        row += [_us(waited[number][part]) for part in order]
        for part in order:
            collective = layer.collectives[part]
            ranks = _ranks(inputs, collective, part)
            row += [_us(took[number][part]), *map(_fixed, _bandwidths(collective, ranks, took[number][part]))]
        rows.append(",".join([*row, _us(finished_ns)]))
    sums = [sum(row[part] for row in each) for each in (compute, waited, took) for part in order]
    words = [_us(value) for value in sums]
    rows.append(",".join(["SUM", _RUN, *words[:6], *(f"{word},NONE,NONE" for word in words[6:])]))
    computed = sum(sums[:3])
    exposed = finished_ns - computed
    rows.append(f"total exposed comm,{_us(exposed)},total comp,{_us(computed)},total time,{_us(finished_ns)}")
    return "".join(f"{row}\n" for row in rows).encode()


def closing(inputs: SimaiInputs, table: bytes, flows: pa.Table) -> list[str]:
    """Its last words: when the first rank has finished, and how much each GPU has sent and received.

    `table`: that of layers; where it is empty, nobody has finished, and nothing is said. `flows`: messages.
    """
    if not table:
        return []
    finished_us = table.decode().splitlines()[-1].split(",")[-1]
    name = inputs.workload.layers[0].name
    told: list[tuple[int, int, str]] = []
    for at, (end, what) in enumerate((("src", "sent from"), ("dst", "received by"))):
        for row in flows.group_by(end).aggregate([("message_bytes", "sum")]).to_pylist():
            node = int(row[end].removeprefix("h"))
            told.append((node, at, f"All data {what} node {node} is {row['message_bytes_sum']}"))
    words = f"all passes finished at time: {float(finished_us) * 1000:.0f}, id of first layer: {name}"
    return ["*" * 25, words, *(text for _, _, text in sorted(told))]


def _ranks(inputs: SimaiInputs, collective: Collective | None, part: int) -> int:
    """The size that the table goes by: of experts where they are named, otherwise of the part's groups."""
    if collective and collective.group == ("data-expert" if part == WEIGHT else "expert"):
        return inputs.ranks(collective.group)
    return inputs.ranks("data" if part == WEIGHT else "tensor")


def _bandwidths(collective: Collective | None, ranks: int, took_ns: float) -> tuple[float, float]:
    """Algorithm and bus bandwidth in 2^30 B/s, in the single precision of that simulator."""
    if collective is None:
        return -float("nan") if not took_ns else 0.0, 0.0
    if not took_ns:
        return float("inf"), float("inf")
    algorithm = _single(collective.bytes / (took_ns / 1000) * 1000000 / (1 << 30))
    factor = _BUS[collective.kind]
    return algorithm, _single(_single(_single(algorithm * factor) * (ranks - 1)) / ranks)


def _single(value: float) -> float:
    (single,) = struct.unpack("f", struct.pack("f", value))
    return float(single)


def _us(ns: float) -> str:
    return f"{ns / 1000:.6f}"


def _fixed(value: float) -> str:
    return "-nan" if value != value else f"{value:.6f}"


__all__ = ["END_TO_END", "NAMES", "PARTS", "Ended", "end_to_end", "line"]
