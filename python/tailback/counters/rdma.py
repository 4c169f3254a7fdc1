"""`rdma statistic show link mlx5_0/1`: counters of the RoCE transport and DCQCN.

A line for each port with names and values, in the order of Linux's mlx5 driver (drivers/infiniband/hw/mlx5/
counters.c). Counters of parts that are not modelled are left out instead of printed as 0.
"""

from __future__ import annotations

import pyarrow.compute as pc

from tailback.counters.tool import CounterTool, counters_of, hosts
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ROCE

RDMA_COUNTERS = (
    "out_of_sequence",
    "duplicate_request",
    "packet_seq_err",
    "local_ack_timeout_err",
    "req_transport_retries_exceeded",
    "roce_adp_retrans",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "rp_cnp_ignored",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
)


def _with_queue_pairs(result: Recorded) -> list[str]:
    flows = result.flows
    if "protocol" in flows.column_names:
        flows = flows.filter(pc.equal(flows.column("protocol"), ROCE))
    ends = {*flows.column("src").unique().to_pylist(), *flows.column("dst").unique().to_pylist()}
    known = set(result.counter_names)
    return [host for host in hosts(result) if host in ends] if known & set(RDMA_COUNTERS) else []


def render(result: Recorded, host: str) -> str:
    own = counters_of(result, host)
    names = [name for name in RDMA_COUNTERS if name in result.counter_names]
    return "link mlx5_0/1 " + " ".join(f"{name} {own.get(name, 0)}" for name in names) + "\n"


TOOL = CounterTool(
    "rdma", "rdma statistic show link mlx5_0/1", _with_queue_pairs, render, "a host with queue pairs of RoCE"
)
