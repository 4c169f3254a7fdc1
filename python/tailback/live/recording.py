"""Makes the tables of a run from the counts of hosts and switches with real packets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailback.live.run_meta import Counts, Plan, meta, send_classes
from tailback.recorded.signals import (
    CE_MARK,
    CNP,
    DELAY_PROBE,
    DROP,
    NAK,
    PCIE_CREDIT_STALL,
    PFC_PAUSE,
    PFC_XOFF,
    SIGNALS_WITH_DURATION,
    as_table,
)
from tailback.scenario import Scenario


@dataclass(frozen=True)
class LiveRecording:
    """A recording like the engine's, see `tailback.recorded.run.Recording`."""

    flows: pa.Table
    series: pa.Table
    entities: pa.Table
    signals: pa.Table
    counters: pa.Table
    meta_json: str


def recording(scenario: Scenario, plan: Plan, live: Plan, counts: Counts, complete: bool) -> LiveRecording:
    """The tables of a run. `plan` is that of the simulator, `live` that of the run, `counts` what it counted."""
    owners = [(writer, number) for writer in plan["writers"] for number in range(writer["qps"])]
    names = [f"{writer['src']}-{writer['dst']}/qp{number}" for writer, number in _numbered(owners)]
    series, entities = _series(counts, names, owners, send_classes(plan))
    return LiveRecording(
        flows=_flows(plan, counts, owners),
        series=series,
        entities=entities,
        signals=signals_of(series, entities, int(counts["bin_ps"]), int(counts["now_ps"])),
        counters=_counters(plan, live, counts),
        meta_json=json.dumps(meta(scenario, plan, live, counts, complete)),
    )


def flows_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_FLOWS_SCHEMA)


def empty_flows() -> pa.Table:
    return _FLOWS_SCHEMA.empty_table()


def _numbered(owners: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """Numbers the queue pairs of each pair of hosts."""
    counts: dict[tuple[str, str], int] = {}
    for writer, _ in owners:
        key = (writer["src"], writer["dst"])
        counts[key] = counts.get(key, -1) + 1
        yield writer, counts[key]


def _flows(plan: Plan, counts: Counts, owners: list[tuple[Any, int]]) -> pa.Table:
    nics = {host["name"]: plan["nics"][host["nic"]] for host in plan["hosts"]}
    rows = []
    numbered = list(_numbered(owners))
    for index, (flow, (writer, _)) in enumerate(zip(counts["flows"], owners, strict=True)):
        sender, receiver = flow["sender"], flow["receiver"]
        end = flow["ended_ps"]
        message = writer["message"]
        delivered = flow["delivered_bytes"] or flow["completed"] * message
        span = max((end if end is not None else counts["now_ps"]) - writer["start"], 1)
        rows.append(
            {
                "flow": index,
                "item": writer["item"],
                "protocol": "roce",
                "src": writer["src"],
                "dst": writer["dst"],
                "qp": numbered[index][1],
                "priority": nics[writer["src"]]["class_of"][writer["code_point"]],
                "start_ps": writer["start"] if flow["started"] or delivered else None,
                "end_ps": end,
                "state": "failed" if flow["failed"] else "running" if end is None else "done",
                "error": "retries exceeded" if flow["failed"] else None,
                "message_bytes": message,
                "messages_posted": flow["posted"],
                "messages_completed": flow["completed"],
                "bytes_delivered": delivered,
                "fct_ps": None,
                "ideal_fct_ps": None,
                "slowdown": None,
                "goodput_bps": delivered * 8e12 / span,
                "packets_sent": flow["packets"],
                "packets_retransmitted": sender["retransmitted_packets"],
                "packet_seq_err": sender["packet_seq_err"],
                "out_of_sequence": receiver["out_of_sequence"],
                "duplicate_request": receiver["duplicate_request"],
                "local_ack_timeout_err": sender["local_ack_timeout_err"],
                "rp_cnp_handled": sender["rp_cnp_handled"],
                "np_cnp_sent": receiver["np_cnp_sent"],
                "np_ecn_marked_roce_packets": receiver["np_ecn_marked_roce_packets"],
                "rate_bps": flow["rate_bps"],
            }
        )
    return flows_of(rows)


_FLOWS_SCHEMA = pa.schema(
    [
        ("flow", pa.int64()),
        *((name, pa.string()) for name in ("item", "protocol", "src", "dst")),
        ("qp", pa.uint32()),
        ("priority", pa.uint8()),
        *((name, pa.int64()) for name in ("start_ps", "end_ps")),
        *((name, pa.string()) for name in ("state", "error")),
        *(
            (name, pa.int64())
            for name in (
                "message_bytes",
                "messages_posted",
                "messages_completed",
                "bytes_delivered",
                "fct_ps",
                "ideal_fct_ps",
            )
        ),
        *((name, pa.float64()) for name in ("slowdown", "goodput_bps")),
        *(
            (name, pa.int64())
            for name in (
                "packets_sent",
                "packets_retransmitted",
                "packet_seq_err",
                "out_of_sequence",
                "duplicate_request",
                "local_ack_timeout_err",
                "rp_cnp_handled",
                "np_cnp_sent",
                "np_ecn_marked_roce_packets",
            )
        ),
        ("rate_bps", pa.float64()),
    ]
)


def _series(
    counts: Counts, names: list[str], owners: list[tuple[Any, int]], classes: Mapping[str, int]
) -> tuple[pa.Table, pa.Table]:
    bin_ps = counts["bin_ps"]
    entities: dict[str, dict[str, Any]] = {}
    times: list[int] = []
    columns: dict[str, list[Any]] = {"entity": [], "metric": [], "value": []}
    for one in counts["series"]:
        name, item = one["entity"], None
        if one["flow"] is not None:
            name, item = names[one["flow"]], owners[one["flow"]][0]["item"]
        elif one["kind"] == "send":
            name = f"{one['node']}/sq{classes.get(one['node'], 0)}"
        entities.setdefault(
            name,
            {"entity": name, "kind": one["kind"], "node": one["node"], "peer": one["peer"], "item": item},
        )
        count = len(one["values"])
        times += range(0, count * bin_ps, bin_ps)
        columns["entity"] += [name] * count
        columns["metric"] += [one["metric"]] * count
        columns["value"] += one["values"]
    series = pa.table(
        {
            "time_ps": pa.array(times, pa.int64()),
            "entity": pa.array(columns["entity"], pa.string()).dictionary_encode(),
            "metric": pa.array(columns["metric"], pa.string()).dictionary_encode(),
            "value": pa.array(columns["value"], pa.float64()),
        }
    )
    kinds = pa.schema([(name, pa.string()) for name in ("entity", "kind", "node", "peer", "item")])
    return series, pa.Table.from_pylist(list(entities.values()), schema=kinds)


SIGNAL_OF_METRIC = {
    "ecn_marked": CE_MARK,
    "dropped": DROP,
    "paused_share": PFC_PAUSE,
    "pausing_share": PFC_XOFF,
    "stalled_share": PCIE_CREDIT_STALL,
    "np_cnp_sent": CNP,
    "packet_seq_err": NAK,
    "delay_probes": DELAY_PROBE,
}
"""Metrics of series that are signals."""


def signals_of(series: pa.Table, entities: pa.Table, bin_ps: int, end_ps: int) -> pa.Table:
    """The log of signals, made from series as in the engine."""
    kept = series.filter(
        pc.and_(
            pc.is_in(series.column("metric").cast(pa.string()), pa.array(SIGNAL_OF_METRIC)),
            pc.greater(series.column("value"), 0),
        )
    )
    about = {row["entity"]: row for row in entities.to_pylist()}
    return as_table(_signal_row(row, about[row["entity"]], bin_ps, end_ps) for row in kept.to_pylist())


def _signal_row(row: dict[str, Any], entity: dict[str, Any], bin_ps: int, end_ps: int) -> dict[str, Any]:
    """A row of the log from a row of a series."""
    signal = SIGNAL_OF_METRIC[row["metric"]]
    node, peer = entity["node"], entity["peer"]
    ends = {
        PFC_PAUSE: (peer, node),
        NAK: (None, node),
        DELAY_PROBE: (None, node),
        CNP: (node, None),
        DROP: (node, None),
        PCIE_CREDIT_STALL: (node, node),
    }
    from_, to = ends.get(signal, (node, peer))
    start = row["time_ps"]
    end = min(start + bin_ps, end_ps)
    lasts = signal in SIGNALS_WITH_DURATION
    return {
        "queue": None if signal in (CNP, NAK, DELAY_PROBE) else row["entity"],
        "signal": signal,
        "from": from_,
        "to": to,
        "start_ps": start,
        "end_ps": end,
        "count": None if lasts else round(row["value"]),
        "duration_ps": round(row["value"] * (end - start)) if lasts else None,
    }


HOST_COUNTERS = (
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "duplicate_request",
    "rnr_nak_retry_err",
    "roce_slow_restart_cnps",
)


def _counters(plan: Plan, live: Plan, counts: Counts) -> pa.Table:
    rows: list[tuple[str, str, str, int]] = []
    classes = send_classes(plan)
    for host, one in zip(live["hosts"], counts["hosts"], strict=True):
        if one is None:
            continue
        name = host["name"]
        rows += [(name, "", counter, one["nic"][counter]) for counter in HOST_COUNTERS]
        rows.append((name, "", "rx_icrc_encapsulated", one["counters"]["rx_icrc_errors"]))
        for way in ("tx", "rx"):
            for number, (packets, size) in enumerate(one["counters"][f"{way}_class"]):
                rows += [
                    (name, "", f"{way}_prio{number}_packets", packets),
                    (name, "", f"{way}_prio{number}_bytes", size),
                ]
        rows.append((name, "", f"rx_prio{classes.get(name, 0)}_pause", one["counters"]["pause_frames"]))
        duration_us = one["paused_ps"] // 10**6
        rows.append((name, "", f"rx_prio{classes.get(name, 0)}_pause_duration", duration_us))
    for switch, ports in zip(live["switches"], counts["switches"], strict=True):
        used = {class_ for _, class_ in switch["class_of"]}
        for port in ports:
            where = f"{switch['name']}:{port['peer']}"
            for number in sorted(used):
                lane = port["lanes"][number]
                rows += [
                    (switch["name"], where, name, value)
                    for name, value in {
                        f"tx_prio{number}_packets": lane["tx_packets"],
                        f"tx_prio{number}_bytes": lane["tx_bytes"],
                        f"rx_prio{number}_packets": lane["rx_packets"],
                        f"rx_prio{number}_bytes": lane["rx_bytes"],
                        f"rx_prio{number}_pause": lane["pauses_received"],
                        f"rx_prio{number}_pause_duration": lane["paused_ps"] // 10**6,
                        f"tx_prio{number}_pause": lane["pauses_sent"],
                        f"ecn_marked_tc_{number}": lane["marked"],
                        f"tc_no_buffer_discard_uc_tc_{number}": lane["dropped"],
                    }.items()
                ]
    names = ("node", "port", "counter", "value")
    kinds = (pa.string(), pa.string(), pa.string(), pa.int64())
    return pa.table(
        {
            name: pa.array([row[at] for row in rows], kind)
            for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
        }
    )
