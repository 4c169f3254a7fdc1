"""Made-up recordings with TCP, shaped as the engine's: TCP alone, or beside RoCE from the same senders.

As in `synthetic`, nothing here is a model: TCP takes a third of the link where RoCE is there too, and the
receiver's CPU is half busy.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from synthetic import BIN_PS, LINE, SyntheticRecording, entities, incast, noise, plan, result_of
from tailback.live.recording import signals_of
from tailback.results import Result

CORES = 4
SHARE = 1 / 3
TCP_PLAN = {"control": "cubic", "mtu": 1500, "ecn": False, "min_rto": 200_000_000_000}


def tcp_plan(senders: int, mixed: bool, connections: int) -> dict[str, Any]:
    """The plan of such a run."""
    made = plan(senders, lossless=False)
    made["nics"][0] |= {"tcp": TCP_PLAN, "cpu": {"cores": CORES}}
    if not mixed:
        made["writers"] = []
    made["tcp_connections"] = [
        {"name": "tcp1", "src": f"h{i}", "dst": f"h{senders}", "connections": connections}
        for i in range(senders)
    ]
    return made


def tcp_recording(
    senders: int, mixed: bool, connections: int, bins: int, timeouts: int
) -> SyntheticRecording:
    """RoCE's recording of an incast with TCP's rows added; without `mixed` all of it is TCP's."""
    base = incast(senders=senders, bins=bins, qps=connections, lossless=False)
    roce = pa.Table.from_batches([base.flows]).append_column(
        "protocol", pa.array(["roce"] * base.flows.num_rows)
    )
    roce = roce.set_column(1, "item", pa.array(["write0"] * roce.num_rows))
    flows = [dict(row) for row in roce.to_pylist()] if mixed else []
    extra = dict.fromkeys(
        ("retransmitted_segments", "timeouts", "fast_recoveries", "ece_received", "cwnd_bytes", "srtt_ps")
    )
    flows = [{**row, **extra} for row in flows]
    for i, row in enumerate(roce.to_pylist()):
        again = row["packets_retransmitted"] + 3
        own = {
            "flow": row["flow"] + len(flows) * mixed,
            "item": "tcp1",
            "protocol": "tcp",
            "priority": 0,
            "message_bytes": None,
            "messages_posted": 0,
            "messages_completed": 0,
            "packets_retransmitted": again,
            "retransmitted_segments": again,
            "timeouts": timeouts if i % 4 == 0 else 0,
            "fast_recoveries": 2,
            "ece_received": 0,
            "cwnd_bytes": 14480.0,
            "srtt_ps": 400_000_000,
            "rate_bps": None,
        }
        quiet = ("packet_seq_err", "out_of_sequence", "duplicate_request", "local_ack_timeout_err")
        quiet += ("rp_cnp_handled", "np_cnp_sent", "np_ecn_marked_roce_packets")
        flows.append({**row, **dict.fromkeys(quiet, 0), **own})
    series = pa.Table.from_batches([base.series])
    if not mixed:
        keep = [metric not in ("rate_bps", "alpha", "np_cnp_sent") for metric in series["metric"].to_pylist()]
        series = series.filter(pa.array(keep))
    rows: list[tuple[str, str, Any]] = []
    receiver = f"h{senders}"
    total = np.asarray([v for e, m, v in _rows(series) if (e, m) == (receiver, "goodput_rx_bps")])
    rows.append((receiver, "cpu_share", np.clip(0.5 + 0.05 * noise(bins, 1), 0, 1)))
    for i in range(senders):
        rows.append((f"h{i}", "cpu_share", np.full(bins, 0.02 + i * 1e-3)))
        rows.append((f"h{i}-{receiver}/tcp0", "cwnd_bytes", 14480 * (2 + noise(bins, i))))
    if mixed:
        rows += [
            ("item:write0", "goodput_rx_bps", total * (1 - SHARE)),
            ("item:tcp1", "goodput_rx_bps", total * SHARE),
        ]
        for i in range(senders):
            mine = np.asarray([v for e, m, v in _rows(series) if (e, m) == (f"h{i}", "goodput_tx_bps")])
            rows += [
                (f"h{i}/write0", "goodput_tx_bps", mine * (1 - SHARE)),
                (f"h{i}/tcp1", "goodput_tx_bps", mine * SHARE),
            ]
    more = pa.table(
        {
            "time_ps": np.tile(np.arange(bins, dtype=np.int64) * BIN_PS, len(rows)),
            "entity": [entity for entity, _, _ in rows for _ in range(bins)],
            "metric": [metric for _, metric, _ in rows for _ in range(bins)],
            "value": np.concatenate([values for _, _, values in rows]),
        }
    )
    plain = series.set_column(1, "entity", series["entity"].cast(pa.string()))
    plain = plain.set_column(2, "metric", plain["metric"].cast(pa.string()))
    meta = json.loads(base.meta_json)
    core = {"irq": 0.01, "softirq": 0.3, "system": 0.19}
    idle = {"irq": 0.0, "softirq": 0.01, "system": 0.01}
    meta["cpu"] = [
        {"host": receiver, "cores": [core] * (CORES - 1) + [{**core, "softirq": 0.8, "system": 0.1}]},
        *({"host": f"h{i}", "cores": [idle] * CORES} for i in range(senders)),
    ]
    counters = pa.Table.from_batches([base.counters])
    ring = {"node": [receiver], "port": [""], "counter": ["rx_out_of_buffer"], "value": [timeouts]}
    whole = pa.concat_tables([plain, more])
    about = entities(sorted({*plain["entity"].to_pylist(), *more["entity"].to_pylist()}))
    return SyntheticRecording(
        flows=_typed(pa.Table.from_pylist(flows)),
        series=whole,
        entities=about,
        signals=signals_of(whole, about, BIN_PS, bins * BIN_PS),
        counters=pa.concat_tables([counters, pa.table(ring)]),
        meta_json=json.dumps(meta),
    )


def _rows(series: pa.Table) -> Any:
    return zip(
        series["entity"].to_pylist(), series["metric"].to_pylist(), series["value"].to_pylist(), strict=True
    )


def tcp_run(
    senders: int = 4, *, mixed: bool = False, connections: int = 4, bins: int = 300, timeouts: int = 1
) -> Result:
    """The result of such a run; the capacity is that of one receiver, `LINE`."""
    recording = tcp_recording(senders, mixed, connections, bins, timeouts)
    assert json.loads(recording.meta_json)["line_rate_bps"]["h0"] == LINE
    made = tcp_plan(senders, mixed, connections)
    return result_of(made, recording)


def _typed(table: pa.Table) -> pa.Table:
    """Columns of nothing but nulls as the engine has them: whole numbers."""
    fields = [
        field.with_type(pa.int64()) if pa.types.is_null(field.type) else field for field in table.schema
    ]
    return table.cast(pa.schema(fields))
