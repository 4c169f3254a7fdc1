"""L2: BlueField-3 behind a Spectrum-4, 16 RDMA flows beside 16 CUBIC flows in one lossy class."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tailback import metrics
from tailback.measured import LABS
from tailback.measured.cells import NUMBER, TEXT, WHOLE, Blocked, Column, Lab, Plan, Quantity
from tailback.results import Result

RUN_S = 60.0
"""Counters of the lab are of runs of this long."""
SETTLED = 0.4
"""Share of a run before figures of the steady state are taken: TCP's first losses are over by then."""
IDLE_MS = 0.04
"""Round trip of a ping through an idle path."""
PAYLOAD_B, FRAME_B = 1024, 1106
"""A full RDMA frame."""
SEGMENT_B, SEGMENT_FRAME_B = 1448, 1514

EXPERIMENT_ALPHA, ARCHIVE_ALPHA = 0.25, 8.0
"""Dynamic thresholds of the two set-ups of the switch, by its configuration."""
DEFAULT_BETA = 717
POLICED_GBPS = 20.9
"""Payload rate behind a policer of 20 Gbit/s, whose meter counts the overhead of VxLAN."""
POLICER_BURST = "256KB"
"""Assumption: the policer's burst is not given. A queue this short delays by 0.1 ms at most."""

TRANSPORT: Mapping[str, Any] = {
    # Assumption: NICs measure round trips. IRN's fixed timers of 100 and 320 us would fire in this lab's queue of 3.5 ms.
    "rto_follows_round_trip": True,
    # Assumption: they start from the same value as the timeout of go-back-N, host.transport.adaptive_timeout.
    "rto_low": "4194304ns",
    "rto_high": "4194304ns",
    # Assumption: in storms of losses the lab has a CNP per 100 marked packets, elsewhere one per 1 to 7.
    "discarded_cause_cnps": False,
}
CPU = {"rx_ring": 128}
"""Fitted to the round trip and the segments sent again of one cell, band03-12 gbn: TCP loses at the receiving host."""
DCQCN = {"dce_tcp_rtt": 2000}
"""Fitted to RDMA's goodput of one cell, band71-120 gbn, in us: alpha hardly decays between two CNPs."""
FITTED = {
    "band71-120 gbn": "host.dcqcn.dce_tcp_rtt, 2000 us",
    "band03-12 gbn": "host.cpu.rx_ring, 128",
}
"""What the documented defaults do not have, and the cells that decided two of them."""


def express(cell: Mapping[str, Any]) -> Plan | Blocked:
    selective = cell["recovery"] == "sr"
    if cell["recovery"] not in ("gbn", "sr"):
        return Blocked(f"found the recovery {cell['recovery']}, expected gbn or sr")
    beta = round((cell["cubic_beta_1024"] or DEFAULT_BETA) / 1024, 4)
    bottleneck = cell["bottleneck_gbps"]
    policer = cell["group"] == "rx_cap_policer"
    split = cell["shared_queue"] == 0
    transport: dict[str, Any] = {
        "loss_recovery": "selective-repeat" if selective else "go-back-n",
        **TRANSPORT,
    }
    if selective:
        transport["window_packets"] = cell["sr_window_pkts"] or 512
    host: dict[str, Any] = {
        "mtu": "1024B",
        "congestion": "dcqcn",
        "dcqcn": {"profile": "connectx", **_dcqcn(cell), **DCQCN},
        # Half of tcp_rmem's 6 MiB is window: tcp_adv_win_scale is 1 in kernel 5.15.
        "tcp": {"control": "cubic", "mtu": "1500B", "receive_buffer": "3MiB", "cubic_beta": beta},
        "cpu": CPU,
        "transport": transport,
    }
    rate = POLICED_GBPS if policer else bottleneck
    scenario: dict[str, Any] = {
        "name": "L2",
        "preset": "bluefield",
        "topology": {
            "kind": "graph",
            "switches": ["sw0"],
            "links": [f"h0 sw0 {80 if policer else 200}Gbps", f"h1 sw0 {rate}Gbps"],
        },
        "host": host,
        "switch": _switch(cell, policer, split),
        "traffic": _traffic(cell, split),
        "record": {"max_bins": 512},
    }
    blocked = {}
    if policer:
        blocked["rtt_ms"] = "a policer has no queue; the short one that stands for it is an assumption"
    measure = partial(_figures, bottleneck=rate)
    return Plan(scenario, 6.0 if policer or split else 4.0, measure, blocked)


def _dcqcn(cell: Mapping[str, Any]) -> dict[str, int]:
    given = {
        "rpg_time_reset": cell["rpg_time_reset_us"],
        "rpg_ai_rate": cell["rpg_ai_mbps"],
        "rpg_hai_rate": cell["rpg_hai_mbps"],
    }
    return {name: int(value) for name, value in given.items() if value is not None}


def _switch(cell: Mapping[str, Any], policer: bool, split: bool) -> dict[str, Any]:
    switch: dict[str, Any] = {"ingress_alpha": 8, "lossless": [], "strict": [6], "ecn": None}
    limit = cell["queue_limit_B"]
    alpha = EXPERIMENT_ALPHA if cell["group"].startswith("exp") else ARCHIVE_ALPHA
    if policer:
        switch |= {"buffer": POLICER_BURST, "egress_alpha": 1024, "ingress_alpha": 1024}
    else:
        # alpha times what is free: a queue alone ends at alpha / (1 + alpha) of the buffer.
        buffer = round(limit * (1 + alpha) / alpha) if limit else 72_277_032
        switch |= {"buffer": f"{buffer}B", "egress_alpha": alpha}
    if split:
        switch["weights"] = {"0": 40, "3": 60}
    if cell["kmin_B"]:
        low = int(cell["kmin_B"])
        high = max(int(cell["kmax_B"] or low), low + 1)
        priorities = [3] if split else [0]
        switch["ecn"] = {
            "k_min": f"{low}B",
            "k_max": f"{high}B",
            "p_max": cell["pmax"] if cell["pmax"] is not None else 1.0,
            "priorities": priorities,
        }
    return switch


def _traffic(cell: Mapping[str, Any], split: bool) -> list[dict[str, Any]]:
    spread = {"start_spread": "100ms"}
    traffic: list[dict[str, Any]] = []
    if cell["n_rdma"]:
        traffic.append(
            {
                "kind": "write",
                "from": "h0",
                "to": "h1",
                "priority": 3 if split else 0,
                "qps": cell["n_rdma"],
                "message": "64KiB",
                "depth": 128,
                **spread,
            }
        )
    if cell["n_tcp"]:
        tcp = {"kind": "tcp", "from": "h0", "to": "h1", "priority": 0, "connections": cell["n_tcp"]}
        traffic.append({**tcp, **spread})
    return traffic


def _figures(result: Result, cell: Mapping[str, Any], bottleneck: float) -> dict[str, float]:
    end = result.bins.end_s
    since = SETTLED * end
    found: dict[str, float] = {}
    rdma = tcp = 0.0
    if cell["n_rdma"]:
        rdma = metrics.throughput.total_goodput(result, since, protocol="roce") / 1e9
        sent, arrived = _rdma_packets(result)
        found["rdma_wire_gbps"] = arrived * FRAME_B * 8 / end / 1e9
        found["packet_seq_err"] = _of_run(result, "packet_seq_err", since)
        found["cnp_handled"] = _of_run(result, "rp_cnp_handled", since)
        found["ecn_marked_pkts"] = metrics.marks.marked_packets(result, since) / (end - since) * RUN_S
        found["rdma_drop_pct"] = 100.0 * (sent - arrived) / max(1, sent)
        found["dead_rdma_flows"] = metrics.losses.failed_flows(result)
        found["jain_rdma"] = _jain(result, "roce")
    if cell["n_tcp"]:
        tcp = metrics.throughput.total_goodput(result, since, protocol="tcp") / 1e9
        found["tcp_wire_gbps"] = tcp * SEGMENT_FRAME_B / SEGMENT_B
        column = pc.sum(result.flows.column("retransmitted_segments")).as_py() or 0
        found["tcp_retrans_segs"] = column / end * RUN_S
        found["jain_tcp"] = _jain(result, "tcp")
    found["rdma_goodput_gbps"], found["tcp_goodput_gbps"] = rdma, tcp
    found["total_goodput_gbps"] = rdma + tcp
    queue = result.bins.mean(result.bins.values("sw0:h1/tc0", "queue_mean_bytes"), since, end)
    found["rtt_ms"] = queue * 8 / bottleneck / 1e6 + IDLE_MS
    found["switch_drop_pkts"] = _drops(result) / end * RUN_S
    return found


def _rdma_packets(result: Result) -> tuple[float, float]:
    """Packets of RDMA that were sent, and those that arrived, those that the receiver then discarded included. The result's own
    balance counts segments of TCP, too."""
    kept = result.flows.filter(pc.equal(result.flows.column("protocol"), "roce"))
    balance = result.meta["conservation"]["data_packets"]
    discarded = balance["discarded_out_of_order"] + balance["discarded_duplicate"]
    taken = (pc.sum(kept.column("bytes_delivered")).as_py() or 0) / PAYLOAD_B
    return float(pc.sum(kept.column("packets_sent")).as_py() or 0), taken + discarded


def _of_run(result: Result, metric: str, since: float) -> float:
    """A counter of the sending host over a run as long as the lab's: the start once, and then a steady pace."""
    values = result.bins.values("h0", metric)
    within = result.bins.within(since, None)
    later = float(np.sum(values[within]))
    first = float(np.sum(values)) - later
    return first + later * (RUN_S - since) / (result.bins.end_s - since)


def _drops(result: Result) -> float:
    return float(sum(one["packets"] for one in result.meta["drops"] if one["node"] == "sw0"))


def _jain(result: Result, protocol: str) -> float:
    kept = result.flows.filter(pc.equal(result.flows.column("protocol"), protocol))
    rates = np.array(kept.column("bytes_delivered").to_pylist(), dtype=float)
    squares = float((rates**2).sum())
    return float(rates.sum()) ** 2 / (len(rates) * squares) if squares else 0.0


L2 = Lab(
    "L2",
    LABS["L2"],
    [
        Column("group", TEXT, required=True),
        Column("cell", TEXT, required=True),
        Column("recovery", TEXT, required=True),
        Column("rep", TEXT),
        Column("n_rdma", WHOLE, required=True),
        Column("n_tcp", WHOLE, required=True),
        Column("bottleneck_gbps", NUMBER, required=True),
        Column("queue_limit_B", WHOLE),
        Column("kmin_B", WHOLE),
        Column("kmax_B", WHOLE),
        Column("pmax", NUMBER),
        Column("rpg_time_reset_us", NUMBER),
        Column("rpg_ai_mbps", NUMBER),
        Column("rpg_hai_mbps", NUMBER),
        Column("cubic_beta_1024", WHOLE, least=103, most=972),
        Column("sr_window_pkts", WHOLE),
        Column("shared_queue", WHOLE),
        Column("duration_s", NUMBER),
    ],
    [
        Quantity("rdma_goodput_gbps", factor=1.5),
        Quantity("tcp_goodput_gbps", within=0.15),
        Quantity("total_goodput_gbps", within=0.15),
        Quantity("rdma_wire_gbps", factor=1.5),
        Quantity("tcp_wire_gbps", within=0.15),
        Quantity("rtt_ms", within=0.15),
        Quantity("packet_seq_err", factor=2),
        Quantity("cnp_handled", factor=2),
        Quantity("ecn_marked_pkts", factor=2),
        Quantity("tcp_retrans_segs", factor=2),
        Quantity("switch_drop_pkts", factor=2),
        Quantity("dead_rdma_flows"),
        Quantity("rdma_drop_pct", factor=2),
        Quantity("jain_rdma", within=0.15),
        Quantity("jain_tcp", within=0.15),
    ],
    ["usable", "note"],
    express,
    fitted_to=FITTED,
    quick=["E3 gbn", "E3 sr", "rdma-only-ecn gbn"],
)
