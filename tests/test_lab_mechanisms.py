"""What NICs and TCP do in the measured labs, each by a setting that is off by default."""

from __future__ import annotations

from typing import Any

import pytest
import tailback
from tailback import metrics
from tailback.results import Result

LOSSY: dict[str, Any] = {
    "lossless": [],
    "ecn": None,
    "buffer": "8MB",
    "egress_alpha": 1024,
    "ingress_alpha": 1024,
}
INTO_A_SLOWER_LINK = {"kind": "graph", "switches": ["sw0"], "links": ["h0 sw0 100Gbps", "h1 sw0 10Gbps"]}


def run(host: dict[str, Any], switch: dict[str, Any], qps: int = 4, **more: Any) -> Result:
    scenario = {
        "name": "mechanism",
        "run": {"duration": "20ms"},
        "topology": INTO_A_SLOWER_LINK,
        "host": host,
        "switch": {**LOSSY, **switch},
        "traffic": [{"kind": "write", "from": "h0", "to": "h1", "priority": 0, "qps": qps}],
        **more,
    }
    return tailback.run(scenario)


def test_a_limiter_that_lets_bursts_go_makes_one_cnp_of_a_burst() -> None:
    """Where every packet is marked and a queue pair is slow, each packet makes a CNP; of 7,200 B those of a burst."""

    def packets_per_cnp(burst: int) -> float:
        dcqcn = {
            "rate_to_set_on_first_cnp": 50,
            "rpg_ai_rate": 1,
            "rpg_hai_rate": 1,
            "min_time_between_cnps": 100,
            "limiter_burst_bytes": burst,
        }
        ecn = {"k_min": "1B", "k_max": "2B", "p_max": 1.0, "priorities": [0]}
        slow = {**INTO_A_SLOWER_LINK, "links": ["h0 sw0 10Gbps", "h1 sw0 1Gbps"]}
        result = run({"dcqcn": dcqcn}, {"ecn": ecn}, 32, topology=slow, run={"duration": "100ms"})
        return metrics.marks.marked_packets(result, 0.05) / metrics.marks.cnps(result, 0.05)

    alone, burst = packets_per_cnp(0), packets_per_cnp(7200)
    assert burst > 2 * alone


def test_packets_that_are_discarded_cause_no_cnps_where_that_is_set() -> None:
    ecn = {"k_min": "100KB", "k_max": "101KB", "p_max": 1.0, "priorities": [0]}

    def cnps(discarded: bool) -> float:
        transport = {"slow_restart": "never", "discarded_cause_cnps": discarded}
        result = run({"transport": transport}, {"ecn": ecn, "buffer": "200KB"})
        assert metrics.losses.naks(result) > 0
        return metrics.marks.cnps(result)

    assert cnps(False) < cnps(True)


@pytest.mark.parametrize(("qps", "drops"), [(1, True), (2, False)])
def test_one_queue_pair_alone_overruns_a_receive_buffer_that_two_do_not(qps: int, drops: bool) -> None:
    path = {"preset": "pcie4-x16", "queue_pair_rate": "90Gbps", "receive_buffer": {"cnp_threshold": None}}
    star = {"kind": "star", "hosts": 2, "link": {"rate": "100Gbps"}}
    result = run(
        {"mtu": "4096B", "congestion": "none", "path": path}, {}, qps, topology=star, run={"duration": "1ms"}
    )
    lost = sum(one["packets"] for one in result.meta["drops"] if one["node"] == "h1")
    assert (lost > 0) is drops


def test_a_loss_that_leaves_cubic_more_of_its_window_comes_more_often() -> None:
    tcp = [{"kind": "tcp", "from": "h0", "to": "h1", "priority": 0, "connections": 1}]

    def recoveries(beta: float) -> int:
        result = run(
            {"tcp": {"cubic_beta": beta}}, {"buffer": "400KB"}, traffic=tcp, run={"duration": "100ms"}
        )
        return int(result.summary["tcp"]["fast_recoveries"])

    assert recoveries(0.9) > recoveries(0.2)
