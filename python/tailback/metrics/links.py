"""Load of the hosts' links."""

from __future__ import annotations

import numpy as np

from tailback.metrics.metric import NAN, metric
from tailback.recorded.distinct_rows import distinct_rows
from tailback.recorded.run import Recorded, cached_by_result
from tailback.recorded.setup import ROCE


def line_rate(result: Recorded, hosts: list[str]) -> float:
    """The sum of the line rates of some hosts, bit/s."""
    return float(sum(result.meta["line_rate_bps"][host] for host in hosts))


@metric("bit/s", "goodput.line_rate_bps")
def capacity(result: Recorded) -> float:
    """Capacity of the hosts' links, bit/s: all senders' or all receivers' line rates together, the smaller."""
    return min(line_rate(result, result.senders), line_rate(result, result.receivers))


@metric("share", "goodput.ideal_payload_share")
@cached_by_result
def ideal_payload_share(result: Recorded) -> float:
    """Payload as a share of what the wire carries when every packet arrives once.

    Of a message of m bytes in n = ceil(m/MTU) packets: m / (m + 82 n + 16), see `tailback.recorded.setup`; of
    TCP with an MTU of 1500 B 1448 / 1538. Flows of different sizes are weighted by the bytes that they
    delivered.
    """
    # Flows of the same message size from hosts of the same MTU are alike: there may be very many.
    keys = [name for name in ("src", "message_bytes", "protocol") if name in result.flows.column_names]
    groups, number = distinct_rows(result.flows, keys)
    delivered = np.zeros(len(groups), dtype=np.int64)
    np.add.at(delivered, number, result.flows.column("bytes_delivered").to_numpy())
    for row, total in zip(groups, delivered.tolist(), strict=True):
        row["bytes_delivered"] = total
    payload = wire = 0.0
    for row in sorted(groups, key=lambda row: [str(row[key]) for key in keys]):
        each, on_wire = result.setup.on_wire(row["src"], row["message_bytes"], row.get("protocol", ROCE))
        messages = max(row["bytes_delivered"], 1) / each
        payload += each * messages
        wire += on_wire * messages
    return payload / wire if wire else NAN
