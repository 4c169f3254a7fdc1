"""The plan: exactly what the engine takes, in base units."""

from __future__ import annotations

import json
from typing import Any

from tailback.plan import make_plan, plan_json
from tailback.scenario import load, loads, show

TEXT = """\
name: two
run: {duration: 3ms, seed: 7}
topology: {kind: star, hosts: 3, link: {rate: 25Gbps, delay: 1us, loss: 0.25}}
host:
  mtu: 4KiB
  rx_latency: 0
  cnp_priority: 5
  transport: {ack_every: 8, ack_timeout: 1ms, adaptive_timeout: 500us, retry_count: 2}
switch:
  buffer: 4MB
  shared: 3MB
  latency: 100ns
  lossless: [3, 4]
  strict: []
  ecn: null
  ingress_alpha: 0.5
  egress_alpha: 4
  pfc: {headroom: 40KB, xoff: 100KB, xon: 90KB, xon_offset: 0, quanta: 200, response_delay: 1us}
traffic:
  - {kind: write, from: [h0, h2], to: h1..h2, priority: 4, qps: 2, message: 4KB, depth: 3, messages: 9}
  - {kind: write, from: h0, to: h1, start: 1ms, start_spread: 500us, stop: 2ms, bidirectional: true}
record: {max_bins: 64, qps: 5}
"""

DCQCN = {
    "dce_tcp_g": 1019,
    "dce_tcp_rtt": 1,
    "initial_alpha_value": 1023,
    "rate_to_set_on_first_cnp": 0,
    "rpg_min_dec_fac": 50,
    "rpg_min_rate": 1,
    "rpg_gd": 11,
    "rate_reduce_monitor_period": 4,
    "clamp_tgt_rate": False,
    "clamp_tgt_rate_after_time_inc": True,
    "rpg_time_reset": 300,
    "rpg_byte_reset": 32767,
    "rpg_threshold": 1,
    "rpg_ai_rate": 5,
    "rpg_hai_rate": 50,
    "rpg_max_rate": 0,
    "byte_reset_unit_bytes": 64,
    "release_at_max_rate": True,
    "min_time_between_cnps": 4,
    "cnp_interval_per": "qp",
    "wait_follows_rate": True,
    "limiter_burst_bytes": 0,
}


def writer(name: str, src: str, dst: str, **fields: Any) -> dict[str, Any]:
    defaults = {
        "code_point": 0,
        "qps": 1,
        "message": 65536,
        "depth": 128,
        "messages": None,
        "start": 0,
        "start_spread": 0,
        "stop": None,
    }
    return {"item": name, "src": src, "dst": dst, **defaults, **fields}


def test_everything_set() -> None:
    first = {"code_point": 1, "qps": 2, "message": 4000, "depth": 3, "messages": 9}
    second = {"start": 10**9, "start_spread": 5 * 10**8, "stop": 2 * 10**9}
    link = {"rate": 25 * 10**9, "delay": 10**6, "loss": 0.25, "headroom_bytes": 40_000}
    assert make_plan(loads(TEXT)) == {
        "name": "two",
        "run": {
            "duration": 3 * 10**9,
            "seed": 7,
            "ecmp_by_seed": False,
            "clock_ppm": 100.0,
            "skip": "never",
            "skip_error": 0.01,
        },
        "hosts": [{"name": f"h{i}", "nic": 0, "congestion": 0} for i in range(3)],
        "nics": [
            {
                "mtu": 4096,
                "rx_latency": 0,
                "class_of": [3, 4, 5],
                "ect": True,
                "cnp_code_point": 2,
                "strict": [5],
                "weights": None,
                "transport": {
                    "ack_every": 8,
                    "ack_timeout": 10**9,
                    "adaptive_timeout": 5 * 10**8,
                    "retry_count": 2,
                    "nak_reaction": 0,
                    "nak_delay": 0,
                    "slow_restart": "loss",
                    "losses_are_cnps": False,
                    "discarded_cause_cnps": True,
                    "loss_recovery": "go-back-n",
                    "window_packets": None,
                    "reordering": 1,
                    "rto_low": 100_000_000,
                    "rto_high": 320_000_000,
                    "rto_follows_round_trip": False,
                },
                "congestion": [{"dcqcn": DCQCN}],
                "rhcc": None,
                "hostcc": None,
                "host_path": None,
                "tcp": None,
                "cpu": None,
            }
        ],
        "switches": [{"name": "sw0", "model": 0}],
        "switch_models": [
            {
                "buffer": 4_000_000,
                "shared_bytes": 3_000_000,
                "latency": 100_000,
                "class_of": [3, 4, 5],
                "lossless": [3, 4],
                "strict": [],
                "weights": None,
                "pools": None,
                "ecn": [],
                "ingress_alpha": 0.5,
                "egress_alpha": 4.0,
                "load_balancing": "ecmp",
                "flowlet_gap": 500_000_000,
                "pfc": {
                    "xoff": 100_000,
                    "xon": 90_000,
                    "xon_offset": 0,
                    "headroom_pool": None,
                },
                "pause": {"quanta": 200, "response_delay": 10**6},
                "watchdog": None,
                "trimming": None,
            }
        ],
        "bridges": [],
        "bridge_models": [],
        "veth": None,
        "links": [{"a": f"h{i}", "b": "sw0", **link} for i in range(3)],
        "code_points": [{"dscp": 24, "pcp": 3}, {"dscp": 32, "pcp": 4}, {"dscp": 40, "pcp": 5}],
        "writers": [
            writer("write0", "h0", "h1", **first),
            writer("write0", "h0", "h2", **first),
            writer("write0", "h2", "h1", **first),
            writer("write1", "h0", "h1", **second),
            writer("write1", "h1", "h0", **second),
        ],
        "tcp_connections": [],
        "flows": {"items": [], "congestion": [], "list": []},
        "memory_loads": [],
        "failures": [],
        "record": {"max_bins": 64, "qps": 5, "queues": None},
    }


def test_defaults() -> None:
    plan = make_plan(load("first-flow"))
    assert plan["nics"][0]["congestion"] == [{"dcqcn": DCQCN}]
    assert plan["switch_models"][0]["ecn"] == [
        {
            "rate_bps": None,
            "priorities": [0, 1, 2, 3, 4, 5, 7],
            "k_min": 150_000,
            "k_max": 1_500_000,
            "p_max": 1.0,
        }
    ]
    assert plan["switch_models"][0]["pfc"]["xoff"] is None
    # (2 * 500 ns + 2017.28 ns + 300 ns) * 12.5 B/ns + 1122 B + 84 B are 38 packets of 1122 B and 36 B.
    assert plan["links"][0]["headroom_bytes"] == (38 + 2) * 1102 + 44 - 20


def test_shared_is_what_headroom_leaves() -> None:
    for sets, shared in (([], 16_000_000 - 2 * 44104), (["switch.lossless=[]"], 16_000_000)):
        assert make_plan(load("first-flow", sets=sets))["switch_models"][0]["shared_bytes"] == shared
    assert make_plan(load("roce-incast-lossless"))["switch_models"][0]["shared_bytes"] == 4 << 20


def test_senders_start_one_after_the_other() -> None:
    sets = ["traffic.0.start_interval=10us", "traffic.0.start=1ms", "traffic.0.from=[h0, h3, h2]"]
    writers = make_plan(load("roce-incast-lossless", sets=sets))["writers"]
    assert [(w["src"], w["start"]) for w in writers] == [
        ("h0", 10**9),
        ("h3", 10**9 + 10**7),
        ("h2", 10**9 + 2 * 10**7),
    ]
    both = make_plan(load("roce-incast-lossless", sets=[*sets, "traffic.0.bidirectional=true"]))["writers"]
    assert [w["start"] for w in both if w["src"] == "h16"] == [10**9, 10**9 + 10**7, 10**9 + 2 * 10**7]


def test_a_short_timeout_does_not_adapt() -> None:
    def transport(*sets: str) -> Any:
        return make_plan(load("first-flow", sets=sets))["nics"][0]["transport"]["adaptive_timeout"]

    assert transport() == 4_096_000 << 10
    assert transport("host.transport.ack_timeout=1ms") == 10**9
    assert transport("host.transport.adaptive_timeout=null") is None


def test_no_congestion_control() -> None:
    assert make_plan(load("first-flow", sets=["host.congestion=none"]))["nics"][0]["congestion"] == [
        {"none": {}}
    ]


def test_incast() -> None:
    plan = make_plan(load("roce-incast-lossless"))
    assert [(w["src"], w["dst"], w["qps"]) for w in plan["writers"]] == [
        (f"h{i}", "h16", 64) for i in range(16)
    ]
    assert len(plan["links"]) == 17


def test_all_to_all_has_every_pair_but_self() -> None:
    plan = make_plan(load("roce-incast-lossless", sets=["traffic.0.from=h0..h16", "traffic.0.to=h0..h16"]))
    pairs = [(w["src"], w["dst"]) for w in plan["writers"]]
    assert len(pairs) == len(set(pairs)) == 17 * 16


def test_integers_stay_integers() -> None:
    def leaves(value: Any) -> Any:
        if isinstance(value, (dict, list)):
            for item in value.values() if isinstance(value, dict) else value:
                yield from leaves(item)
        else:
            yield value

    plan = make_plan(load("roce-incast-lossy-512", sets=["switch.egress_alpha=2"]))
    assert json.loads(plan_json(plan)) == plan
    assert {leaf for leaf in leaves(plan) if isinstance(leaf, float)} == {
        0.0,
        0.01,
        1.0,
        2.0,
        100.0,
    }  # loss, skip_error, p_max, alphas, clocks


def test_ecn_by_rate() -> None:
    text = """\
name: mixed
run: {duration: 1ms}
topology: {kind: graph, switches: [s], links: [h0 s 25Gbps, h1 s 100Gbps]}
switch:
  ecn:
    k_min: {100Gbps: 400KB, 25Gbps: 100KB, 10Gbps: 1KB}
    k_max: 800KB
    p_max: {25Gbps: 1, 100Gbps: 0.2}
traffic: [{kind: write, from: h0, to: h1}]
"""
    unstrict = [0, 1, 2, 3, 4, 5, 7]
    expected = [
        {
            "rate_bps": 25_000_000_000,
            "priorities": unstrict,
            "k_min": 100_000,
            "k_max": 800_000,
            "p_max": 1.0,
        },
        {
            "rate_bps": 100_000_000_000,
            "priorities": unstrict,
            "k_min": 400_000,
            "k_max": 800_000,
            "p_max": 0.2,
        },
    ]
    scenario = loads(text)
    assert make_plan(scenario)["switch_models"][0]["ecn"] == expected
    shown = show(scenario)
    assert "k_min: {10Gbps: 1KB, 25Gbps: 100KB, 100Gbps: 400KB}" in shown
    assert make_plan(loads(shown)) == make_plan(scenario)
