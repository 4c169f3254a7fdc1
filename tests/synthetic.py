"""A made-up recording of a 16:1 incast, shaped exactly as the engine's: for tests of what comes after the
engine.

Nothing here is a model. The curves only look like a run: senders start within the first 100 ms, each start
fills the queue for a moment (PFC answers, or packets drop), then all share the link. No random numbers: the
same call gives the same tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tailback.live.recording import signals_of
from tailback.recorded.run import Recording
from tailback.recorded.setup import ScenarioSetup
from tailback.results import Result

Array = npt.NDArray[np.float64]
LINE = 100e9
IDEAL = 1024 / (1024 + 98)
BIN_PS = 1_000_000_000


@dataclass
class SyntheticRecording:
    flows: pa.RecordBatch
    series: pa.RecordBatch
    entities: pa.Table
    signals: pa.Table
    counters: pa.RecordBatch
    meta_json: str


SCENARIO = (
    "name: roce-incast\nabout: Sixteen senders, one receiver\nrun: {duration: 2s, seed: 1}\n"
    "topology:\n  kind: star\n  hosts: 17\n  link: {rate: 100Gbps, delay: 500ns, loss: 0.0}\n"
    "traffic:\n  - {kind: write, from: h0..h15, to: h16, qps: 64, message: 1KiB}  # <b>&\n"
)


def result_of(
    plan: dict[str, Any],
    recording: Recording,
    wall_s: float = 1.0,
    cpu_s: float = 1.0,
    interrupted: bool = False,
) -> Result:
    return Result.of(ScenarioSetup(SCENARIO, plan), recording, wall_s, cpu_s, interrupted)


def noise(n: int, phase: float) -> Array:
    """Something that wobbles in [-1, 1] without being random."""
    t = np.arange(n)
    return np.asarray(
        (np.sin(t * 1.7 + phase * 3.1) + np.sin(t * 0.61 + phase) + np.sin(t * 0.05 + phase * 7)) / 3
    )


def plan(
    senders: int = 16, lossless: bool = True, duration_ps: int = 2_000_000_000_000, qps: int = 64
) -> dict[str, Any]:
    """A plan with the fields that results look at."""
    return {
        "name": "roce-incast",
        "run": {"duration": duration_ps, "seed": 1, "clock_ppm": 0.0, "skip": "never", "skip_error": 0.01},
        "hosts": [{"name": f"h{i}", "nic": 0} for i in range(senders + 1)],
        "nics": [{"mtu": 1024, "rx_latency": 300_000, "cnp_code_point": 1, "congestion": [{"none": {}}]}],
        "switches": [{"name": "sw0", "model": 0}],
        "switch_models": [
            {"buffer": 16_000_000, "lossless": [3] if lossless else [], "strict": [6], "ecn": []}
        ],
        "links": [
            {"a": f"h{i}", "b": "sw0", "rate": int(LINE), "delay": 500_000} for i in range(senders + 1)
        ],
        "writers": [
            {
                "item": f"write{i}",
                "src": f"h{i}",
                "dst": f"h{senders}",
                "code_point": 0,
                "qps": qps,
                "message": 1024,
            }
            for i in range(senders)
        ],
        "record": {"max_bins": 2048, "qps": 64},
    }


def incast(
    *,
    senders: int = 16,
    bins: int = 2000,
    qps: int = 64,
    lossless: bool = True,
    always_dropping: bool = False,
    complete: bool = True,
    faults: list[dict[str, str]] | None = None,
) -> SyntheticRecording:
    """The recording of an incast: `always_dropping` makes a lossy one that never comes to rest, with unequal
    shares.
    """
    n, dst = bins, f"h{senders}"
    t = np.arange(n) * 1e-3
    spread = min(0.1, n * 1e-3 / 4)
    starts = np.sort(spread * ((np.arange(senders) * 7) % senders + 0.3) / senders)
    active = (t[None, :] + 1e-3 > starts[:, None]).astype(float)
    since = np.maximum(t[None, :] - starts[:, None], 0)
    weight = active * (1 + 1.5 * np.exp(-since / 0.02))
    weight *= 1 + 0.02 * np.stack([noise(n, i) for i in range(senders)])
    if always_dropping:
        weight *= np.linspace(0.5, 1.5, senders)[:, None]
    share = weight / np.maximum(weight.sum(0), 1e-9)
    total = LINE * IDEAL * (0.997 + 0.002 * noise(n, 5)) * (active.sum(0) > 0)
    goodput = share * total
    bump = (active * np.exp(-since / 0.0012)).sum(0)
    depth = (active.sum(0) > 0) * (420e3 + 110e3 * noise(n, 2)) + 3.4e6 * np.minimum(bump, 2.2)
    if always_dropping:
        depth = depth * 0 + 8.1e6 + 2e5 * noise(n, 1)
    peak = depth * 1.3 + 5e4 * (depth > 0)
    paused = np.clip(bump - 0.55, 0, 1) * 0.09 * share * senders * lossless
    dropped = np.round(np.clip(bump - 0.55, 0, 2) * 900) * (not lossless)
    if always_dropping:
        dropped = np.round(40 + 30 * noise(n, 3))
    marks = np.round(np.clip((depth - 150e3) / 1350e3, 0, 1) * 11_000)
    cnps = np.minimum(marks, 900)
    rows: dict[tuple[str, str], Array] = {}
    for i in range(senders):
        host = f"h{i}"
        rows |= {
            (host, "goodput_tx_bps"): goodput[i],
            (host, "wire_tx_bps"): goodput[i] / IDEAL,
            (host, "rp_cnp_handled"): np.round(cnps * share[i]),
            (host, "cnp_delay_ns"): np.round(cnps * share[i]) * 1616,
            (host, "packet_seq_err"): np.round(dropped * share[i] * 0.3),
            (f"sw0:{host}/pg3", "queue_mean_bytes"): depth * share[i],
            (f"sw0:{host}/pg3", "queue_max_bytes"): peak * share[i],
            (f"sw0:{host}/pg3", "xoff_bytes"): np.full(n, 8e6) - depth / 2,
            (f"sw0:{host}/pg3", "pausing_share"): paused[i],
            (f"sw0:{host}/tc3", "queue_mean_bytes"): np.full(n, 12.0),
            (f"sw0:{host}/tc3", "queue_max_bytes"): np.full(n, 84.0),
            (f"{host}/sq3", "queue_mean_bytes"): active[i] * (qps * 128 * 1024 - depth * share[i]),
            (f"{host}/sq3", "queue_max_bytes"): active[i] * (qps * 128 * 1024 - depth * share[i]),
            (f"{host}/sq3", "paused_share"): paused[i],
        }
    rows |= {
        (dst, "goodput_rx_bps"): total,
        (dst, "wire_rx_bps"): total / IDEAL,
        (dst, "out_of_sequence"): np.round(dropped * 0.3),
        (dst, "np_cnp_sent"): cnps,
        (f"sw0:{dst}/tc3", "queue_mean_bytes"): depth,
        (f"sw0:{dst}/tc3", "queue_max_bytes"): peak,
        (f"sw0:{dst}/tc3", "ecn_marked"): marks,
        (f"sw0:{dst}/tc3", "dropped"): dropped,
        (f"sw0:{dst}/tc3", "paused_share"): np.zeros(n),
    }
    for q in range(64):
        i = q % senders
        settled = LINE / (senders * qps) * (1 + 0.35 * noise(n, q))
        rate = np.where(active[i] > 0, settled + LINE * np.exp(-since[i] / 0.0006), 0)
        rows[f"h{i}-{dst}/qp{q // senders}", "rate_bps"] = rate
        rows[f"h{i}-{dst}/qp{q // senders}", "goodput_bps"] = goodput[i] / qps
        rows[f"h{i}-{dst}/qp{q // senders}", "alpha"] = np.clip(0.1 + np.exp(-since[i] / 0.01), 0, 1)
    meta = _meta(senders, n, lossless, complete, faults or [], paused, dropped)
    series, about = _series(rows, n), entities(sorted({entity for entity, _ in rows}))
    return SyntheticRecording(
        flows=_flows(senders, qps, starts, goodput, dropped, share),
        series=series,
        entities=about,
        signals=signals_of(pa.table(series), about, BIN_PS, n * BIN_PS),
        counters=_counters(senders, paused, goodput),
        meta_json=json.dumps(meta),
    )


def entities(names: list[str]) -> pa.Table:
    """The table of entities that have these names, as the engine has them."""
    kinds = {"sq": "send", "tc": "egress", "pg": "ingress", "qp": "queue-pair", "rx": "receive"}
    rows = []
    for name in names:
        place, _, part = name.partition("/")
        item = part or name.removeprefix("item:")
        is_item = item.startswith(("write", "tcp")) and "-" not in place
        node, _, peer = place.replace("-", ":").partition(":")
        if name.startswith("item:"):
            kind, node, peer = "item", "", ""
        elif is_item and part:
            kind = "item-at-sender"
        elif not part:
            kind = "host"
        else:
            kind = "connection" if part.startswith("tcp") else kinds[part[:2]]
        of = item if kind.startswith("item") else ""
        values = {"entity": name, "kind": kind, "node": node, "peer": peer, "item": of}
        rows.append({key: value or None for key, value in values.items()})
    return pa.Table.from_pylist(rows, pa.schema([(key, pa.string()) for key in rows[0]]))


def _series(rows: dict[tuple[str, str], Array], n: int) -> pa.RecordBatch:
    entities = sorted({entity for entity, _ in rows})
    metrics = sorted({metric for _, metric in rows})
    entity = np.repeat([entities.index(key[0]) for key in rows], n).astype(np.int32)
    metric = np.repeat([metrics.index(key[1]) for key in rows], n).astype(np.int32)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.tile(np.arange(n, dtype=np.int64) * BIN_PS, len(rows))),
            pa.DictionaryArray.from_arrays(pa.array(entity), pa.array(entities)),
            pa.DictionaryArray.from_arrays(pa.array(metric), pa.array(metrics)),
            pa.array(np.concatenate(list(rows.values()))),
        ],
        names=["time_ps", "entity", "metric", "value"],
    )


def _flows(
    senders: int, qps: int, starts: Array, goodput: Array, dropped: Array, share: Array
) -> pa.RecordBatch:
    rows = []
    for i in range(senders):
        delivered = int(goodput[i].sum() * 1e-3 / 8 / qps)
        lost = int((dropped * share[i]).sum() / qps)
        for q in range(qps):
            rows.append(
                {
                    "flow": i * qps + q,
                    "item": f"write{i}",
                    "src": f"h{i}",
                    "dst": f"h{senders}",
                    "qp": q,
                    "priority": 3,
                    "start_ps": int(starts[i] * 1e12),
                    "end_ps": None,
                    "state": "running",
                    "error": None,
                    "message_bytes": 1024,
                    "messages_posted": delivered // 1024 + 128,
                    "messages_completed": delivered // 1024,
                    "bytes_delivered": delivered,
                    "goodput_bps": delivered * 8 / (goodput.shape[1] * 1e-3 - starts[i]),
                    "packets_sent": delivered // 1024 + lost,
                    "packets_retransmitted": lost,
                    "packet_seq_err": lost // 3,
                    "out_of_sequence": lost // 3,
                    "duplicate_request": 0,
                    "local_ack_timeout_err": 0,
                    "rp_cnp_handled": 1200,
                    "np_cnp_sent": 1200,
                    "np_ecn_marked_roce_packets": 9000,
                    "rate_bps": LINE / (senders * qps),
                }
            )
    schema = pa.schema([(name, _kind(name, value)) for name, value in rows[0].items()])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def _kind(name: str, value: Any) -> pa.DataType:
    if name in ("error", "item", "src", "dst", "state"):
        return pa.string()
    return pa.float64() if isinstance(value, float) else pa.int64()


def _counters(senders: int, paused: Array, goodput: Array) -> pa.RecordBatch:
    rows = []
    for i in range(senders):
        us = int(paused[i].sum() * 1e3)
        bytes_sent = int(goodput[i].sum() * 1e-3 / 8)
        rows += [
            (f"h{i}", "", "rp_cnp_handled", 76_800),
            (f"h{i}", "", "packet_seq_err", 0),
            (f"h{i}", "", "rx_prio3_pause", us // 9),
            (f"h{i}", "", "rx_prio3_pause_duration", us),
            (f"h{i}", "", "tx_prio3_bytes", bytes_sent),
            ("sw0", f"sw0:h{i}", "tx_prio3_pause", us // 9),
            ("sw0", f"sw0:h{i}", "rx_prio3_bytes", bytes_sent),
        ]
    rows += [
        (f"h{senders}", "", "np_cnp_sent", 1_228_800),
        ("sw0", f"sw0:h{senders}", "ecn_marked_tc_3", 9_216_000),
    ]
    columns = list(zip(*rows, strict=True))
    arrays = [*(pa.array(column, pa.string()) for column in columns[:3]), pa.array(columns[3], pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, names=["node", "port", "counter", "value"])


def _queues(senders: int, lossless: bool) -> list[dict[str, Any]]:
    dst = f"h{senders}"

    def queue(name: str, kind: str, node: str, port: str, order: int, ecn: bool = False) -> dict[str, Any]:
        return {
            "queue": name,
            "kind": kind,
            "node": node,
            "port": port,
            "peer": port.partition(":")[2],
            "priority": 3,
            "order": order,
            "k_min_bytes": 150_000 if ecn else None,
            "k_max_bytes": 1_500_000 if ecn else None,
            "limit_bytes": None,
        }

    queues = [
        queue(f"{dst}/rx", "receive", dst, "", 0),
        queue(f"sw0:{dst}/tc3", "egress", "sw0", f"sw0:{dst}", 1, True),
    ]
    if lossless:
        queues += [queue(f"sw0:h{i}/pg3", "ingress", "sw0", f"sw0:h{i}", 2) for i in range(senders)]
    queues += [queue(f"h{i}/sq3", "send", f"h{i}", "", 3) for i in range(senders)]
    queues += [queue(f"sw0:h{i}/tc3", "egress", "sw0", f"sw0:h{i}", 5, True) for i in range(senders)]
    return queues


def _meta(
    senders: int,
    n: int,
    lossless: bool,
    complete: bool,
    faults: list[dict[str, str]],
    paused: Array,
    dropped: Array,
) -> dict[str, Any]:
    paused_s = paused.sum(1) * 1e-3
    last = [int(np.flatnonzero(row)[-1] + 1) * BIN_PS if row.any() else 0 for row in paused]
    pauses = [
        {
            "port": f"h{i}:sw0",
            "priority": 3,
            "rx_frames": int(paused_s[i] / 9e-6),
            "paused_ps": int(paused_s[i] * 1e12),
            "transitions": int(paused_s[i] / 2e-5),
            "max_share_of_a_second": float(paused_s[i]),
            "last_pause_ps": last[i],
        }
        for i in range(senders)
    ]
    lost = int(dropped.sum())
    drops = [
        {"where": f"sw0:h{senders}/tc3", "reason": "egress threshold", "packets": lost, "bytes": lost * 1102}
    ]
    data = int(n * 1e-3 * LINE / 8 / 1122)
    return {
        "name": "roce-incast",
        "seed": 1,
        "end_ps": n * BIN_PS,
        "complete": complete,
        "bin_ps": BIN_PS,
        "packet_hops": 2 * data,
        "events": 3 * data,
        "packets": {
            "data": data,
            "ack": data // 16,
            "nak": lost // 3,
            "cnp": 900 * n,
            "pfc": int(paused_s.sum() / 9e-6),
        },
        "line_rate_bps": {f"h{i}": LINE for i in range(senders + 1)},
        "faults": faults,
        "drops": drops if lost else [],
        "pauses": pauses if lossless else [],
        "pause_storms": [],
        "conservation": {
            "checked_queues": 50,
            "ok": True,
            "data_packets": {
                "sent": data,
                "delivered": data - lost,
                "dropped": lost,
                "discarded_out_of_order": 0,
                "in_flight": 0,
            },
        },
        "queues": _queues(senders, lossless),
    }


def made_up(**more: Any) -> Result:
    """An incast as the published ones are."""
    lossless = more.get("lossless", True)
    recording = incast(**{"senders": 4, "bins": 2000, "qps": 4, **more})
    return result_of(plan(4, lossless), recording)
