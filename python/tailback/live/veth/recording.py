"""Makes the tables of a run from measurements of the kernel's veth pair."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tailback.live.recording import LiveRecording, empty_flows, signals_of
from tailback.live.veth.cases import PS_PER_NS, Case, bin_ps, parts, ring_packets
from tailback.metrics.veth import FORWARD_END
from tailback.scenario.veth import CONSUMER, PRODUCER, UdpFlood

RING_ENTITY, QDISC_ENTITY = f"{FORWARD_END}/ring", f"{FORWARD_END}/qdisc"


def recording(case: Case, kernel_veth: dict[str, Any]) -> LiveRecording:
    """The tables of a run; `kernel_veth` describes kernel and cases."""
    counters = _counters(case)
    where = {"node": PRODUCER, "port": FORWARD_END}
    rows = [{**where, "counter": name, "value": value} for name, value in counters.items()]
    names = pa.schema([*((name, pa.string()) for name in ("node", "port", "counter")), ("value", pa.int64())])
    series, entities = _series(case)
    step = bin_ps(case.scenario)
    return LiveRecording(
        flows=empty_flows(),
        series=series,
        entities=entities,
        signals=signals_of(series, entities, step, len(case.found["looks"]) * step),
        counters=pa.Table.from_pylist(rows, schema=names),
        meta_json=json.dumps(_meta(case, counters, kernel_veth)),
    )


def _since(case: Case, name: str) -> int:
    return int(case.found["looks"][-1].get(name, 0) - case.found["before"].get(name, 0))


def _counters(case: Case) -> dict[str, int]:
    last = case.found["looks"][-1]
    return {
        "delivered_packets": _since(case, "tx_packets"),
        "offered_packets": _since(case, "sent") + len(case.found["samples"]),
        "qdisc_sent_packets": _since(case, "qdisc_sent"),
        "qdisc_sent_bytes": _since(case, "qdisc_sent_bytes"),
        "qdisc_drops": _since(case, "qdisc_drops"),
        "qdisc_dropped": _since(case, "qdisc_drops"),
        "qdisc_overlimits": _since(case, "qdisc_overlimits"),
        "qdisc_backlog_packets": last.get("qdisc_packets", 0),
        "qdisc_backlog_bytes": last.get("qdisc_bytes", 0),
        "tx_dropped": _since(case, "tx_dropped"),
    }


def _series(case: Case) -> tuple[pa.Table, pa.Table]:
    step, looks = bin_ps(case.scenario), case.found["looks"]
    flood = case.scenario.traffic[parts(case.scenario)[0]]
    assert isinstance(flood, UdpFlood)
    ring = [float(one) for one in ring_packets(case)]
    previous = [case.found["before"], *looks[:-1]]

    def steps(name: str) -> list[float]:
        return [
            float(now.get(name, 0) - then.get(name, 0)) for then, now in zip(previous, looks, strict=True)
        ]

    spans = [
        max(1, now["time_ns"] - then["time_ns"]) / 1e9 for then, now in zip(previous, looks, strict=True)
    ]
    goodput = [
        count * flood.payload * 8 / span for count, span in zip(steps("tx_packets"), spans, strict=True)
    ]
    waiting = [float(look.get("qdisc_packets", 0)) for look in looks]
    waiting_bytes = [float(look.get("qdisc_bytes", 0)) for look in looks]
    columns = [
        (CONSUMER, "goodput_rx_bps", goodput),
        *((RING_ENTITY, f"queue_{kind}_packets", ring) for kind in ("mean", "max")),
        (RING_ENTITY, "dropped", steps("tx_dropped")),
        *((QDISC_ENTITY, f"queue_{kind}_packets", waiting) for kind in ("mean", "max")),
        *((QDISC_ENTITY, f"queue_{kind}_bytes", waiting_bytes) for kind in ("mean", "max")),
        (QDISC_ENTITY, "dropped", steps("qdisc_drops")),
    ]
    count = len(looks)
    series = pa.table(
        {
            "time_ps": pa.array([at * step for _ in columns for at in range(count)], pa.int64()),
            "entity": pa.array([name for name, _, _ in columns for _ in looks]).dictionary_encode(),
            "metric": pa.array([metric for _, metric, _ in columns for _ in looks]).dictionary_encode(),
            "value": pa.array([value for _, _, values in columns for value in values], pa.float64()),
        }
    )
    entities = [
        {"entity": CONSUMER, "kind": "namespace", "node": CONSUMER, "peer": None, "item": None},
        {"entity": RING_ENTITY, "kind": "veth-ring", "node": PRODUCER, "peer": CONSUMER, "item": None},
        {"entity": QDISC_ENTITY, "kind": "veth-qdisc", "node": PRODUCER, "peer": CONSUMER, "item": None},
    ]
    kinds = pa.schema([(name, pa.string()) for name in ("entity", "kind", "node", "peer", "item")])
    return series, pa.Table.from_pylist(entities, schema=kinds)


def _meta(case: Case, counters: dict[str, int], kernel_veth: dict[str, Any]) -> dict[str, Any]:
    scenario, samples = case.scenario, case.found["samples"]
    flood, ping = parts(scenario)
    refused = _since(case, "refused")
    answered = sum(1 for _, rtt in samples if rtt is not None)
    return {
        "name": scenario.name,
        "seed": scenario.run.seed,
        "end_ps": len(case.found["looks"]) * bin_ps(scenario),
        "complete": True,
        "bin_ps": bin_ps(scenario),
        "recorded": "everything",
        "packet_hops": counters["delivered_packets"],
        "events": counters["offered_packets"],
        "packets": dict.fromkeys(("data", "ack", "nak", "cnp", "pfc", "tcp_data", "tcp_ack"), 0),
        "line_rate_bps": {},
        **{
            name: []
            for name in ("faults", "drops", "pauses", "pause_storms", "cpu", "latency", "bridge_cores")
        },
        "conservation": {
            "checked_queues": 0,
            "data_packets": dict.fromkeys(
                (
                    "sent",
                    "delivered",
                    "dropped",
                    "discarded_out_of_order",
                    "discarded_duplicate",
                    "in_flight",
                ),
                0,
            ),
            "ok": True,
        },
        "queues": list(_queues()),
        "veth": {
            "ends": [{"name": FORWARD_END, "counters": counters}],
            "pings": [
                {
                    "item": f"ping{ping}",
                    "src": PRODUCER,
                    "dst": CONSUMER,
                    "sent": len(samples),
                    "lost": len(samples) - answered,
                    "samples": [
                        [sent * PS_PER_NS, None if rtt is None else rtt * PS_PER_NS] for sent, rtt in samples
                    ],
                }
            ],
            "senders": [
                {
                    "item": f"udp-flood{flood}",
                    "kind": "udp",
                    "src": PRODUCER,
                    "dst": CONSUMER,
                    "sent": _since(case, "sent") + refused,
                    "delivered": counters["delivered_packets"] - answered,
                    "dropped": counters["tx_dropped"] + counters["qdisc_drops"] - (len(samples) - answered),
                    "waits": _since(case, "waits"),
                }
            ],
        },
        "kernel_veth": kernel_veth,
    }


def _queues() -> Iterator[dict[str, Any]]:
    for order, (name, kind) in enumerate(((RING_ENTITY, "veth-ring"), (QDISC_ENTITY, "veth-qdisc")), 1):
        yield {
            "queue": name,
            "kind": kind,
            "node": PRODUCER,
            "peer": CONSUMER,
            "port": FORWARD_END,
            "priority": 0,
            "order": order,
            **dict.fromkeys(("k_min_bytes", "k_max_bytes", "limit_bytes")),
        }
