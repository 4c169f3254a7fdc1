"""L1: ConnectX-5 Ex on one leaf of 100 Gbit/s, no PFC, no marks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tailback import metrics
from tailback.measured import LABS
from tailback.measured.cells import NUMBER, TEXT, WHOLE, Blocked, Column, Lab, Plan, Quantity
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.traffic_items import goodput
from tailback.results import Result

QUEUE = "5.2MB"
FRAME_OVERHEAD = 62
"""Bytes of a frame beside its payload, without preamble and gap: 4158 at an MTU of 4096."""
BETWEEN_FRAMES = 20
"""Preamble and gap, which the lab's figures of the wire leave out."""
INCAST_QPS = 4
"""Assumption: 8 queue pairs in 2:1 follow from 2,262 CNPs per second, 283 of each."""
DEPTH = 16
"""Assumption where the lab gives none: enough to fill the link."""
MESSAGE = 1 << 20
"""Assumption where the lab gives none: what it uses elsewhere."""
RUN_S = 25.0
"""The lab's runs take 20 to 30 s: counters are scaled to a run of this length."""
WARM_UP = 0.2
"""Share of a run before figures are taken."""

DYNAMICS_S, SECOND_FROM_S, SECOND_TO_S = 5.0, 0.5, 3.5
"""Two flows: length of the run, and start and stop of the second. The lab's runs are longer."""
BURST_FILE = "burst.csv"


def express(cell: Mapping[str, Any]) -> Plan | Blocked:
    transport = cell["transport"]
    if transport == "UD" and cell["offered_gbps_per_sender"]:
        return _first_loss(cell)
    if transport != "RC WRITE":
        return Blocked(f"Tailback has reliable WRITEs alone, not {transport}")
    senders, receivers = cell["senders"] or 1, cell["receivers"] or 1
    message = cell["msg_bytes"] or MESSAGE
    hosts = max(4, senders + receivers)
    scenario: dict[str, Any] = {
        "name": "L1",
        "preset": "connectx-5",
        "topology": {"kind": "star", "hosts": hosts, "link": {"rate": "100Gbps"}},
        "host": {"mtu": f"{cell['mtu'] or 4096}B", "congestion": "dcqcn", **HOST},
        "switch": _switch(),
        "record": {"max_bins": 2000},
    }
    if cell["group"] == "dynamics" and not cell["msg_bytes"]:
        return _dynamics(scenario)
    if message <= 2 and cell["depth"] == 1:
        item = {"kind": "write-latency", "from": "h0", "to": "h1", "priority": 0, "message": f"{message}B"}
        scenario["traffic"] = [item]
        return Plan(scenario, 0.02, _latency)
    if cell["gap_us"]:
        return _bursts(scenario, cell, message)
    qps = cell["qps_per_sender"] or INCAST_QPS
    depth = cell["depth"] or DEPTH
    common = {
        "kind": "write",
        "priority": 0,
        "qps": qps,
        "message": f"{message}B",
        "depth": depth,
        "start_spread": "1ms" if senders > receivers else "0s",
    }
    ring = senders == receivers and senders > 1
    if ring and senders == 2:
        scenario["traffic"] = [{**common, "from": "h0", "to": "h1", "bidirectional": True}]
    elif ring:
        scenario["traffic"] = [
            {**common, "from": f"h{host}", "to": f"h{(host + 1) % senders}"} for host in range(senders)
        ]
    else:
        to = _hosts(senders, receivers)
        scenario["traffic"] = [{**common, "from": _hosts(0, senders), "to": to}]
    congested = senders > receivers
    duration = 0.6 if congested else 0.005 if depth == 1 else 0.05
    return Plan(scenario, duration, partial(_stream, wire_share=_wire_share(message, cell["mtu"] or 4096)))


RX_LATENCY = "673ns"
"""Fitted to one cell, 8 KiB at a depth of 1: 373 ns more each way than host.rx_latency has by default. It stands for what
posting and completing cost, which is not modelled."""
HOST: Mapping[str, Any] = {
    "rx_latency": RX_LATENCY,
    "path": {
        "preset": "pcie4-x16",
        # Given by the lab: a lone flow above 94 Gbit/s loses; one lossy receive pool of 262,016 B.
        "queue_pair_rate": "94Gbps",
        "receive_buffer": {"lossy_size": "262016B", "cnp_interval": "3540us"},
    },
}
"""Settings of hosts that the documented defaults do not have. 3.54 ms are between two CNPs of a receiving NIC, which the
documentation of host.path cites from this lab."""
FITTED = {"engine_depth1_8192": "host.rx_latency, 673 ns"}


def _switch() -> dict[str, Any]:
    return {"buffer": QUEUE, "egress_alpha": 1024, "ingress_alpha": 1024, "lossless": [], "ecn": None}


def _hosts(first: int, count: int) -> str:
    return f"h{first}" if count == 1 else f"h{first}..h{first + count - 1}"


def _wire_share(message: int, mtu: int) -> float:
    """Frame bytes as a share of what they take of the link."""
    frame = min(message, mtu) + FRAME_OVERHEAD
    return frame / (frame + BETWEEN_FRAMES)


def _first_loss(cell: Mapping[str, Any]) -> Plan:
    """A constant rate into a full link until the first drop: until then nothing depends on the transport."""
    senders = cell["senders"] or 1
    rate = cell["offered_gbps_per_sender"]
    scenario = {
        "name": "L1-buffer",
        "run": {"clock_ppm": 0},
        "preset": "connectx-5",
        "topology": {
            "kind": "graph",
            "switches": ["sw0"],
            "links": [f"{_hosts(0, senders)} sw0 {rate}Gbps", f"h{senders} sw0 100Gbps"],
        },
        "host": {"mtu": f"{cell['mtu'] or 4096}B", "congestion": "none"},
        "switch": _switch(),
        "traffic": [
            {
                "kind": "write",
                "from": _hosts(0, senders),
                "to": f"h{senders}",
                "priority": 0,
                "qps": 4,
                "message": "1MiB",
                "depth": 16,
            }
        ],
        "record": {"max_bins": 3000},
    }
    why = "Tailback has no unreliable datagrams: after the first loss a reliable connection sends again"
    blocked = dict.fromkeys(("loss_frac", "b_drain_MB", "goodput_gbps", "wire_gbps", "loss_pct"), why)
    return Plan(scenario, 0.03, partial(_until_loss, excess=senders * rate - 100.0), blocked)


def _until_loss(result: Result, cell: Mapping[str, Any], excess: float) -> dict[str, float]:
    drops = result.signal_log.total("drop")
    bins = result.bins
    found = np.flatnonzero(drops)
    if not len(found):
        return {}
    first = float(bins.start_s[found[0]])
    port = f"h{cell['senders'] or 1}"
    wire = bins.mean(bins.values(port, "wire_rx_bps"), first / 2, first)
    return {
        "t_drop_ms": first * 1e3,
        "b_fill_MB": first * excess * 1e9 / 8 / 1e6,
        "drain_gbps": wire / 1e9,
        "ce_frac": 0.0,
    }


def _dynamics(scenario: dict[str, Any]) -> Plan:
    item = {"kind": "write", "to": "h2", "priority": 0, "qps": 1, "message": "1MiB", "depth": DEPTH}
    scenario["traffic"] = [
        {**item, "from": "h0"},
        {**item, "from": "h1", "start": f"{SECOND_FROM_S}s", "stop": f"{SECOND_TO_S}s"},
    ]
    scenario["record"] = {"max_bins": 6000}
    return Plan(scenario, DYNAMICS_S, _recovery, whole=True)


def _recovery(result: Result, cell: Mapping[str, Any]) -> dict[str, float]:
    """The first flow when the second comes (a cut of 30 %, a fair share) and goes (95 % of before)."""
    bins = result.bins
    begin, stop = SECOND_FROM_S, SECOND_TO_S
    rates = [_smooth(_of(result, f"write{number}"), 5) for number in (0, 1)]
    alone = bins.mean(_of(result, "write0"), begin / 2, begin)
    found: dict[str, float] = {}
    at = bins.start_s
    cut = np.flatnonzero((at >= begin) & (rates[0] < 0.7 * alone))
    if len(cut):
        found["first_cut30_ms"] = float(at[cut[0]] - begin) * 1e3
    least = np.minimum(rates[0], rates[1]) / np.maximum(np.maximum(rates[0], rates[1]), 1.0)
    fair = np.flatnonzero((at >= begin) & (at < stop) & (least > 0.9))
    if len(fair):
        found["fair_share_ms"] = float(at[fair[0]] - begin) * 1e3
    back = np.flatnonzero((at >= stop) & (rates[0] >= 0.95 * alone))
    if len(back):
        took = float(at[back[0]] - stop)
        found["recovery95_ms"] = took * 1e3
        low = bins.mean(rates[0], stop - 0.1 * (stop - begin), stop)
        if took > 0:
            found["increase_gbps_per_ms"] = (0.95 * alone - low) / 1e9 / (took * 1e3)
    return found


def _of(result: Result, item: str) -> Array:
    rate = goodput(result, item)
    return np.zeros(result.bins.count) if rate is None else rate


def _smooth(values: Array, width: int) -> Array:
    return np.convolve(values, np.ones(width) / width, mode="same")


def _latency(result: Result, cell: Mapping[str, Any]) -> dict[str, float]:
    test = result.meta["latency"][0]
    scale = 1e6 / PS_PER_S
    return {"latency_us": test["median_ps"] * scale, "latency_p99_us": test["p99_ps"] * scale}


def _bursts(scenario: dict[str, Any], cell: Mapping[str, Any], message: int) -> Plan:
    count = cell["burst_msgs"] or 128
    sends = [f"s{number},0,send,,{message}B,1,," for number in range(count)]
    receives = [f"r{number},1,receive,,,,,s{number}" for number in range(count)]
    graph = "\n".join(["operation,rank,what,time,bytes,to,channel,after", *sends, *receives, ""])
    scenario["traffic"] = [
        {
            "kind": "job",
            "hosts": ["h0", "h2"],
            "repeat": 40,
            "priority": 0,
            "steps": [{"graph": BURST_FILE}, {"compute": f"{cell['gap_us']}us"}],
        }
    ]
    measure = partial(_of_bursts, burst_bits=8.0 * count * message)
    return Plan(scenario, 0.2, measure, files={BURST_FILE: graph})


def _of_bursts(result: Result, cell: Mapping[str, Any], burst_bits: float) -> dict[str, float]:
    found: dict[str, float] = {}
    job = result.summary["training_jobs"][0]
    if job["iteration_s"]:
        found["goodput_gbps"] = burst_bits / job["iteration_s"] / 1e9
        found["burst_goodput_gbps"] = burst_bits / (job["iteration_s"] - job["computed_s"]) / 1e9
    found["rx_discards_phy"] = _rx_drops(result) * RUN_S / result.bins.end_s
    return found


def _rx_drops(result: Result) -> float:
    """Packets that the receive buffer of a NIC had no room for."""
    return float(sum(one["packets"] for one in result.meta["drops"] if one["node"].startswith("h")))


def _stream(result: Result, cell: Mapping[str, Any], wire_share: float) -> dict[str, float]:
    end = result.bins.end_s
    since = WARM_UP * end
    took = end - since
    flows = result.flows
    senders = cell["senders"] or 1
    pairs = flows.num_rows
    payload = metrics.throughput.total_goodput(result, since)
    sent = sum(flows.column("packets_sent").to_pylist())
    dropped = sum(one["packets"] for one in result.meta["drops"] if not one["node"].startswith("h"))
    receivers = sorted(set(flows.column("dst").to_pylist()))
    wire = sum(result.bins.mean(result.bins.values(host, "wire_rx_bps"), since, end) for host in receivers)
    found = {
        "goodput_gbps": payload / 1e9,
        "wire_gbps": wire / 1e9 * wire_share,
        "loss_pct": 100.0 * dropped / sent if sent else 0.0,
        "cnp_per_s_per_qp": metrics.marks.cnps(result, since) / took / pairs,
        "out_of_sequence_per_s": metrics.losses.naks(result, since) / took,
        "rx_discards_phy": _rx_drops(result) * RUN_S / end,
    }
    if senders == 2 and len(receivers) == 1:
        by_host = metrics.fairness.sender_goodputs(result, since)
        first, total = by_host.get("h0", 0.0), sum(by_host.values())
        if total:
            found["split_a_pct"] = 100.0 * first / total
    return found


L1 = Lab(
    "L1",
    LABS["L1"],
    [
        Column("group", TEXT),
        Column("cell", TEXT, required=True),
        Column("rep", TEXT),
        Column("transport", TEXT, required=True),
        Column("senders", WHOLE, required=True, least=1, most=1000),
        Column("receivers", WHOLE, required=True, least=1, most=1000),
        Column("qps_per_sender", WHOLE),
        Column("msg_bytes", WHOLE),
        Column("depth", WHOLE),
        Column("mtu", WHOLE),
        Column("gap_us", NUMBER),
        Column("burst_msgs", WHOLE, least=1, most=10_000),
        Column("offered_gbps_per_sender", NUMBER),
    ],
    [
        Quantity("goodput_gbps", within=0.15),
        Quantity("burst_goodput_gbps", within=0.15),
        Quantity("wire_gbps", within=0.15),
        Quantity("loss_pct", factor=2),
        Quantity("split_a_pct", within=0.15),
        Quantity("rx_discards_phy", factor=2),
        Quantity("t_drop_ms", within=0.15),
        Quantity("b_fill_MB", within=0.15),
        Quantity("b_drain_MB"),
        Quantity("drain_gbps", within=0.15),
        Quantity("loss_frac", factor=2),
        Quantity("ce_frac"),
        Quantity("latency_us", within=0.10),
        Quantity("latency_p99_us", within=0.10),
        Quantity("first_cut30_ms", factor=2),
        Quantity("fair_share_ms", factor=2),
        Quantity("recovery95_ms", factor=2),
        Quantity("increase_gbps_per_ms", factor=2),
        Quantity("cnp_per_s_per_qp", factor=2),
        Quantity("out_of_sequence_per_s", factor=2),
    ],
    ["repeats", "known_to_tailback", "note"],
    express,
    misread={
        "lone_flow_above_94G": "its losses are those of the receiving NIC, and loss_pct is read here as the switch's"
    },
    fitted_to=FITTED,
    quick=[
        "engine_depth1_8192",
        "engine_depth1024_8192",
        "write_latency_2B",
        "gap_8192_4",
        "buffer_60.0",
        "incast2to1_ud_4KiB",
    ],
)
