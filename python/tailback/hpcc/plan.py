"""Makes the plan of an HPCC run, and checks values against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tailback.hpcc.config import CONTROLLERS, DCQCN, DCTCP, HPCC, PINT, TIMELY, Config
from tailback.hpcc.flows import BYTES, START_NS
from tailback.hpcc.inputs import HpccInputs
from tailback.hpcc.keys import ASTRA_SIM, HPCC_VARIANT, SIMAI
from tailback.hpcc.quantities import nanoseconds
from tailback.hpcc.topology import Topology
from tailback.scenario import declared

TELEMETRY_RATES_BPS = {rate * 10**9 for rate in (25, 50, 100, 200, 400)}
"""Rates that HPCC's telemetry can encode, in bit/s."""
TELEMETRY_BYTES = {HPCC: 42, TIMELY: 8, PINT: 2}
"""In-band telemetry in each packet by CC_MODE; other modes have none."""
PORT_RESERVE_BYTES = 4096
LATEST_END_S = 36_000
LATEST_END_NS = LATEST_END_S * 10**9
LINK_DOWN_AFTER_NS = 2_000_000_000


def make_plan(inputs: HpccInputs, departures: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Makes the plan: times in ns, rates in bit/s, no defaults.

    `departures` are deliberate differences from the HPCC simulator, by their names in the plan.

    Raises:
        InputError: values contradict each other.
    """
    config, topology = inputs.config, inputs.topology
    _check(inputs)
    return {
        "name": inputs.name,
        "seed": 1,
        "variant": _variant(config).decode(),
        "nodes": topology.nodes,
        "switches": topology.switches,
        "inner_switches": sorted(topology.inner),
        "links": [[link.a, link.b, link.rate_bps, link.delay_ns, link.error_rate] for link in topology.links],
        "flows": inputs.flows,
        "stop_ns": span_ps(inputs)[1] // 1000,
        "payload_bytes": config["PACKET_PAYLOAD_SIZE"],
        "telemetry_bytes": TELEMETRY_BYTES.get(config["CC_MODE"], 0),
        "cc": _congestion_control(config),
        "rate_bound": bool(config["RATE_BOUND"]),
        "window": {
            "enabled": bool(config["HAS_WIN"]),
            "global": bool(config["GLOBAL_T"]),
            "variable": bool(config["VAR_WIN"]),
        },
        "ack_high_priority": bool(config["ACK_HIGH_PRIO"]),
        "l2_chunk_bytes": config["L2_CHUNK_SIZE"],
        "l2_ack_interval_bytes": config["L2_ACK_INTERVAL"],
        "back_to_zero": bool(config["L2_BACK_TO_ZERO"]),
        "ecn": {"enabled": bool(config["ENABLE_QCN"]), "thresholds": _thresholds(config, topology)},
        "buffer_mib": config["BUFFER_SIZE"],
        "headroom_factor": headroom_factor(config),
        "pause_time_us": config["PAUSE_TIME"],
        "link_down": _link_down(config, topology),
        "queue_monitor": _queue_monitor(config),
        "rng": {"seed": 1, "run": 1},
        "error_rate_per_link": config["ERROR_RATE_PER_LINK"],
        "departures": dict(departures or {}),
        "record": declared.Record().plan(),
    }


def span_ps(inputs: HpccInputs) -> tuple[int, int]:
    """Start of the first flow, which is time 0 of results, and end of the run."""
    end = min(nanoseconds(inputs.config["SIMULATOR_STOP_TIME"]), LATEST_END_NS) * 1000
    return min(inputs.flows[0][START_NS] * 1000 if inputs.flows else 0, end - 1), end


def _variant(config: Config) -> bytes:
    variant: bytes = config["TAILBACK_VARIANT"]
    if variant not in (HPCC_VARIANT, ASTRA_SIM, SIMAI):
        raise config.refuse("TAILBACK_VARIANT", "expected hpcc, astra-sim or simai")
    return variant


def header_bytes(config: Config) -> int:
    """Header bytes of a data packet without telemetry: forks have other headers."""
    return {HPCC_VARIANT: 48, ASTRA_SIM: 36, SIMAI: 52}[_variant(config)]


def headroom_factor(config: Config) -> int:
    """Headroom of a port, in multiples of the bytes in flight on its link in one direction."""
    return int(config["HEADROOM_FACTOR"]) if _variant(config) == ASTRA_SIM else 3


def _congestion_control(config: Config) -> dict[str, Any]:
    mode = config["CC_MODE"]
    if mode == DCQCN:
        return {
            "kind": "dcqcn",
            "alpha_resume_us": config["ALPHA_RESUME_INTERVAL"],
            "rate_decrease_us": config["RATE_DECREASE_INTERVAL"],
            "clamp_target_rate": bool(config["CLAMP_TARGET_RATE"]),
            "rp_timer_us": config["RP_TIMER"],
            "ewma_gain": config["EWMA_GAIN"],
            "fast_recovery_times": config["FAST_RECOVERY_TIMES"],
            "rate_ai_bps": config["RATE_AI"],
            "rate_hai_bps": config["RATE_HAI"],
            "min_rate_bps": config["MIN_RATE"],
        }
    if mode in (HPCC, PINT):
        both = {
            "target_utilization": config["U_TARGET"],
            "max_stage": config["MI_THRESH"],
            "rate_ai_bps": config["RATE_AI"],
            "min_rate_bps": config["MIN_RATE"],
        }
        if mode == PINT:
            pint = {"log_base": config["PINT_LOG_BASE"], "probability": config["PINT_PROB"]}
            return {"kind": "pint", **both, **pint}
        return {
            "kind": "hpcc",
            **both,
            "int_multi": config["INT_MULTI"],
            "fast_react": bool(config["FAST_REACT"]),
            "multi_rate": bool(config["MULTI_RATE"]),
            "sample_feedback": bool(config["SAMPLE_FEEDBACK"]),
        }
    if mode == TIMELY:
        return {
            "kind": "timely",
            "rate_ai_bps": config["RATE_AI"],
            "rate_hai_bps": config["RATE_HAI"],
            "min_rate_bps": config["MIN_RATE"],
        }
    if mode == DCTCP:
        return {
            "kind": "dctcp",
            "ewma_gain": config["EWMA_GAIN"],
            "rate_ai_bps": config["DCTCP_RATE_AI"],
            "min_rate_bps": config["MIN_RATE"],
        }
    return {"kind": "none"}


def _thresholds(config: Config, topology: Topology) -> list[list[float]]:
    """`[rate_bps, kmin_kB, kmax_kB, pmax]` for every rate of a switch's ports."""
    if not config["ENABLE_QCN"]:
        return []
    kmin, kmax, pmax = (config[name] for name in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"))
    used: dict[int, int] = {}
    for number, link in enumerate(topology.links):
        if any(not topology.is_host[node] and node not in topology.inner for node in (link.a, link.b)):
            used.setdefault(link.rate_bps, number)
    for rate, number in used.items():
        for name, known in (("KMIN_MAP", kmin), ("KMAX_MAP", kmax), ("PMAX_MAP", pmax)):
            if rate not in known:
                text = f"expected a value for {rate} bit/s, the rate of a switch's link (number {number + 1})"
                raise config.refuse(name, text)
        if kmin[rate] > kmax[rate]:
            text = f"{kmin[rate]} for {rate} bit/s is above KMAX_MAP's {kmax[rate]}"
            raise config.refuse("KMIN_MAP", text)
    return [[rate, kmin[rate], kmax[rate], pmax[rate]] for rate in used]


def _link_down(config: Config, topology: Topology) -> list[int] | None:
    after_us, a, b = config["LINK_DOWN"]
    if after_us == 0:
        return None
    if not any({link.a, link.b} == {a, b} for link in topology.links):
        raise config.refuse("LINK_DOWN", f"expected two nodes with a link between them, found {a} and {b}")
    return [LINK_DOWN_AFTER_NS + after_us * 1000, a, b]


def _queue_monitor(config: Config) -> list[int] | None:
    """`[start_ns, end_ns]` of the samples of queues; None without a file, and in forks."""
    if not config["QLEN_MON_FILE"] or _variant(config) != HPCC_VARIANT:
        return None
    return [config["QLEN_MON_START"], config["QLEN_MON_END"]]


def _check(inputs: HpccInputs) -> None:
    config = inputs.config
    if not nanoseconds(config["SIMULATOR_STOP_TIME"]):
        raise config.refuse("SIMULATOR_STOP_TIME", "expected a time after 0 s")
    if not config["L2_ACK_INTERVAL"]:
        text = "expected at least 1: with 0 no packet is acknowledged, and no flow ends"
        raise config.refuse("L2_ACK_INTERVAL", text)
    smallest = min(inputs.flows.column(BYTES), default=math.inf)
    below = min(config["PACKET_PAYLOAD_SIZE"], smallest) < config["L2_ACK_INTERVAL"]
    chunks = config["L2_BACK_TO_ZERO"] or below
    if chunks and not config["L2_CHUNK_SIZE"]:
        text = "expected at least 1: L2_BACK_TO_ZERO, and packets below L2_ACK_INTERVAL, divide by it"
        raise config.refuse("L2_CHUNK_SIZE", text)


def warnings(inputs: HpccInputs) -> list[str]:
    """Warnings about inputs that can run, a line each."""
    config = inputs.config
    found = network_warnings(inputs)
    if config["SIMULATOR_STOP_TIME"] * 1e9 <= (inputs.flows[0][START_NS] if inputs.flows else math.inf):
        found.append(f"{config.file}: warning: no flow starts before SIMULATOR_STOP_TIME")
    return found


def network_warnings(inputs: HpccInputs) -> list[str]:
    """Warnings about the network only."""
    config, topology = inputs.config, inputs.topology
    found = list(inputs.warnings)
    if config["CC_MODE"] not in (0, *CONTROLLERS):
        found.append(
            f"{config.places['CC_MODE']}: warning: CC_MODE {config['CC_MODE']} is no congestion control "
            "in that simulator: hosts send at line rate"
        )
    if config["CC_MODE"] == HPCC:
        found += _hpcc_warnings(config, topology)
    reserved: dict[int, int] = dict.fromkeys(topology.switches, 0)
    for link in topology.links:
        # A port reserves a multiple of the bytes in flight on its link in one direction, and 4096 B.
        headroom = link.rate_bps * link.delay_ns // 8 // 10**9 * headroom_factor(config)
        for node in (link.a, link.b):
            if node in reserved:
                reserved[node] += headroom + PORT_RESERVE_BYTES
    short = [node for node, size in reserved.items() if size > config["BUFFER_SIZE"] << 20]
    if short:
        found.append(
            f"{config.file}: warning: the headroom of switch {short[0]} is above BUFFER_SIZE: as in that "
            "simulator, the rest wraps around to 4 GiB, and nothing is paused or dropped for lack of it"
        )
    return found


def _hpcc_warnings(config: Config, topology: Topology) -> list[str]:
    """Warnings where the arithmetic of HPCC is undefined in the HPCC simulator."""
    found = []
    if not config["HAS_WIN"]:
        place = config.places.get("HAS_WIN", config.file)
        found.append(
            f"{place}: warning: CC_MODE 3 divides by the window, and HAS_WIN 0 has none: the result "
            "depends on the processor in that simulator"
        )
    of_switches = [
        link.rate_bps
        for link in topology.links
        if not (topology.is_host[link.a] and topology.is_host[link.b])
    ]
    if unknown := sorted(set(of_switches) - TELEMETRY_RATES_BPS):
        found.append(
            f"{config.file}: warning: HPCC's telemetry has no code for links of {unknown[0]} bit/s: as "
            "in that simulator, they count as 25 Gbit/s"
        )
    return found
