"""The same network, flows and parameters under Tailback's own models: a plan for `tailback.run`'s engine.

Parameters that the files do not give are those of the HPCC simulator where Tailback has a setting for them (no
latency in hosts and switches, a pause takes effect when its frame arrives), else Tailback's defaults. These
differences remain: exact time, wire overhead, packets of a RoCE MTU, CNPs as separate packets with an interval,
timeouts, headroom per priority, ECMP's hash, and the order of events.
"""

from __future__ import annotations

from typing import Any

from tailback.errors import InputError
from tailback.hpcc.config import CONTROLLERS, DCQCN, Config
from tailback.hpcc.flows import BYTES, PRIORITY
from tailback.hpcc.inputs import HpccInputs
from tailback.hpcc.plan import LINK_DOWN_AFTER_NS, PORT_RESERVE_BYTES, span_ps
from tailback.rows import Rows
from tailback.scenario import declared

PS_PER_NS = 1000
CNP_PRIORITY = 6
ROCE_MTUS_BYTES = (256, 512, 1024, 2048, 4096)
CNP_INTERVAL_US = 4
MAX_MESSAGE_BYTES = 2**31


def native_plan(inputs: HpccInputs, work_priority: int | None = None) -> dict[str, Any]:
    """Makes the plan. Time 0 is the start of the first flow.

    With `work_priority` the run sends messages of that priority only, created during the run.

    Raises:
        InputError: the files need a feature that Tailback's own models do not have.
    """
    topology = inputs.topology
    rates = _host_rates(inputs)
    kinds = sorted(set(rates.values()))
    hosts = sorted(rates)
    number = {host: index for index, host in enumerate(hosts)}
    first = span_ps(inputs)[0] // PS_PER_NS
    of_work = work_priority is not None
    priorities = [work_priority] if work_priority is not None else sorted(set(inputs.flows.column(PRIORITY)))
    code_points = sorted({*priorities, CNP_PRIORITY})
    name = {node: f"h{node}" if topology.is_host[node] else f"s{node}" for node in range(topology.nodes)}
    if max(inputs.flows.column(BYTES), default=0) > MAX_MESSAGE_BYTES:
        raise InputError.at(inputs.config.file, "expected flows of at most 2^31 B, as RDMA WRITEs have")
    return {
        "name": inputs.name,
        "run": {
            "seed": 1,
            "clock_ppm": 0.0,
            "duration": span_ps(inputs)[1] - first * PS_PER_NS,
            "skip": "never",
            "skip_error": 0.01,
            "ecmp_by_seed": False,
        },
        "hosts": [{"name": name[host], "nic": kinds.index(rates[host])} for host in hosts],
        "nics": [_nic(inputs, code_points) for _ in kinds],
        "switches": [{"name": name[node], "model": i} for i, node in enumerate(topology.switches)],
        "switch_models": [_switch(inputs, node, priorities, code_points) for node in topology.switches],
        "links": [
            {
                "a": name[link.a],
                "b": name[link.b],
                "rate": link.rate_bps,
                "delay": link.delay_ns * PS_PER_NS,
                "loss": link.error_rate or inputs.config["ERROR_RATE_PER_LINK"],
                "headroom_bytes": _headroom(link.rate_bps, link.delay_ns),
            }
            for link in topology.links
        ],
        "code_points": [{"dscp": 8 * priority, "pcp": priority} for priority in code_points],
        "writers": [],
        "tcp_connections": [],
        "flows": {
            "items": ["flow"],
            "list": _messages(inputs.flows, number, code_points, first),
            "of_work": of_work,
        },
        "memory_loads": [],
        "bridges": [],
        "bridge_models": [],
        "failures": _failures(inputs, first),
        "record": declared.Record().plan(),
    }


def _messages(flows: Rows, number: dict[int, int], code_points: list[int], first_ns: int) -> Rows:
    import numpy as np  # takes a tenth of a second to load

    src, dst, priority, _, size, start = flows.array().T
    host = np.zeros(max(number, default=0) + 1, dtype=np.int64)
    host[list(number)] = list(number.values())
    point = np.array([code_points.index(one) if one in code_points else -1 for one in range(8)])
    columns = (
        host[src],
        host[dst],
        np.zeros_like(src),
        point[priority],
        size,
        (start - first_ns) * PS_PER_NS,
    )
    return Rows.of(columns)


def _host_rates(inputs: HpccInputs) -> dict[int, int]:
    """The rate of each host's link."""
    topology = inputs.topology
    rates: dict[int, int] = {}
    for link in topology.links:
        for node in (link.a, link.b):
            if not topology.is_host[node]:
                continue
            if node in rates:
                text = f"expected one link to the fabric for each host; {node} has more"
                raise InputError.at(inputs.topology.file or inputs.config.file, text)
            rates[node] = link.rate_bps
    return rates


def _nic(inputs: HpccInputs, code_points: list[int]) -> dict[str, Any]:
    config = inputs.config
    payload = config["PACKET_PAYLOAD_SIZE"]
    return declared.Nic().plan(
        # RoCE has only these MTUs: the nearest one.
        mtu=min(ROCE_MTUS_BYTES, key=lambda mtu: abs(mtu - payload)),
        rx_latency=0,
        class_of=code_points,
        cnp_code_point=code_points.index(CNP_PRIORITY),
        strict=[CNP_PRIORITY],
        weights=None,
        transport=declared.Transport().plan(ack_every=1),
        congestion=[_congestion(inputs)],
        rhcc=None,
        hostcc=None,
        host_path=None,
        tcp=None,
        cpu=None,
    )


def _congestion(inputs: HpccInputs) -> Any:
    mode = inputs.config["CC_MODE"]
    if mode in CONTROLLERS and mode != DCQCN:
        raise inputs.config.refuse(
            "CC_MODE", f"{mode} has no plan of Tailback's own; expected 1, or no control"
        )
    return {"dcqcn": _dcqcn(inputs)} if mode == DCQCN else {"none": {}}


def _dcqcn(inputs: HpccInputs) -> dict[str, Any]:
    """DCQCN with mlnx names of parameters; rates in Mbit/s."""
    config = inputs.config
    return {
        "dce_tcp_g": 1024 - round(config["EWMA_GAIN"] * 1024),
        "dce_tcp_rtt": config["ALPHA_RESUME_INTERVAL"],
        "initial_alpha_value": 1024,
        "rate_to_set_on_first_cnp": 0,
        "rpg_min_dec_fac": 50,
        "rpg_min_rate": max(1, config["MIN_RATE"] // 10**6),
        "rpg_gd": 11,
        "rate_reduce_monitor_period": config["RATE_DECREASE_INTERVAL"],
        "clamp_tgt_rate": bool(config["CLAMP_TARGET_RATE"]),
        "clamp_tgt_rate_after_time_inc": True,
        "rpg_time_reset": config["RP_TIMER"],
        "rpg_byte_reset": 0,
        "rpg_threshold": config["FAST_RECOVERY_TIMES"],
        "rpg_ai_rate": config["RATE_AI"] // 10**6,
        "rpg_hai_rate": config["RATE_HAI"] // 10**6,
        "rpg_max_rate": 0,
        "min_time_between_cnps": CNP_INTERVAL_US,
        "byte_reset_unit_bytes": 1,
        "release_at_max_rate": False,
        "cnp_interval_per": "qp",
        "wait_follows_rate": False,
        "limiter_burst_bytes": 0,
    }


def _headroom(rate_bps: int, delay_ns: int) -> int:
    """Three times the bytes in flight on a link in one direction."""
    return rate_bps * delay_ns // 8 // 10**9 * 3


def _ecn(config: Config, rates: list[int]) -> list[dict[str, Any]]:
    if not config["ENABLE_QCN"]:
        return []
    maps = [config[name] for name in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP")]
    return [
        {
            "rate_bps": rate,
            "priorities": [priority for priority in range(8) if priority != CNP_PRIORITY],
            "k_min": maps[0][rate] * 1000,
            "k_max": maps[1][rate] * 1000,
            "p_max": maps[2][rate],
        }
        for rate in rates
        if all(rate in each for each in maps)
    ]


def _switch(inputs: HpccInputs, node: int, priorities: list[int], code_points: list[int]) -> dict[str, Any]:
    config, topology = inputs.config, inputs.topology
    ports = [link for link in topology.links if node in (link.a, link.b)]
    buffer = config["BUFFER_SIZE"] << 20
    lossless = [priority for priority in priorities if priority > 0]
    kept = sum(_headroom(link.rate_bps, link.delay_ns) for link in ports) * max(1, len(lossless))
    return declared.Switch().plan(
        buffer=buffer,
        shared_bytes=max(1, buffer - kept - PORT_RESERVE_BYTES * len(ports)),
        latency=0,
        class_of=code_points,
        lossless=lossless,
        strict=[CNP_PRIORITY],
        weights=None,
        pools=None,
        ecn=_ecn(config, sorted({link.rate_bps for link in ports})),
        ingress_alpha=1 / 8,
        egress_alpha=1024.0,
        pfc=declared.Pfc().plan(),
        pause=declared.Pause(response_delay=0).plan(),
        watchdog=None,
    )


def _failures(inputs: HpccInputs, first_ns: int) -> list[dict[str, Any]]:
    after_us, a, b = inputs.config["LINK_DOWN"]
    if not after_us:
        return []
    at = max(0, LINK_DOWN_AFTER_NS + after_us * 1000 - first_ns)
    numbers = [i for i, link in enumerate(inputs.topology.links) if {link.a, link.b} == {a, b}]
    return [{"at": at * PS_PER_NS, "repair": None, "link": number} for number in numbers]
