"""The plan of a scenario for hosts and switches with real packets. Parts that are only simulated are refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.scenario import Scenario
from tailback.scenario.congestion import about, kinds
from tailback.scenario.network import Network

PS_PER_US = 10**6
BIN_STEP_FACTORS = (5, 2)
"""A bin is 1, 5, 10, 50, ... us long, as in the simulator."""
MAX_MESSAGE_BYTES = 16 << 20
"""Each queue pair has memory for one message."""
MAX_QPS = 4096

Plan = dict[str, Any]


def mac_of(host: int) -> list[int]:
    """The locally administered MAC address of host number `host`."""
    return [0x02, 0x54, 0x42, 0, host >> 8, host & 0xFF]


def ip_of(host: int) -> str:
    """The IP address of host number `host`."""
    return f"10.84.{host + 1 >> 8}.{host + 1 & 0xFF}"


def live_plan(
    scenario: Scenario, slowdown: float, interfaces: Mapping[str, str] | None = None, verb: str = "write"
) -> Plan:
    """Makes the plan for veth pairs, or, with `interfaces` by host, for existing interfaces. `verb` carries the
    messages: write, send or read.

    Raises:
        InputError: the scenario has parts that are only simulated.
    """
    plan = make_plan(scenario)
    network = scenario.network
    _check(plan, network, made=interfaces is None)
    _check_controllers(scenario)
    numbers = {host["name"]: number for number, host in enumerate(plan["hosts"])}
    dscps = [point["dscp"] for point in plan["code_points"]]
    ports = {name: _peers(network, name) for name in network.switches}
    return {
        "seed": plan["run"]["seed"],
        "duration_ps": plan["run"]["duration"],
        "slowdown": slowdown,
        "bin_ps": _bin(plan["run"]["duration"], plan["record"]["max_bins"]),
        "hosts": [
            _host(plan, number, dscps, None if interfaces is None else interfaces.get(host["name"]))
            for number, host in enumerate(plan["hosts"])
        ],
        "switches": []
        if interfaces is not None
        else [_switch(plan, network, one, ports, numbers, dscps) for one in plan["switches"]],
        "cables": [] if interfaces is not None else [_cable(link, numbers, ports) for link in plan["links"]],
        "flows": [
            {**_flow(writer, numbers, dscps), "verb": verb}
            for writer in plan["writers"]
            for _ in range(writer["qps"])
        ],
    }


def _check(plan: Plan, network: Network, made: bool) -> None:
    """Refuses parts of a scenario that are only simulated."""
    simulated = [
        ("traffic", "TCP connections", plan["tcp_connections"]),
        ("traffic", "single messages", plan["flows"]["items"]),
        ("traffic", "a latency test", [one for one in plan["writers"] if one.get("partner")]),
        ("traffic", "connections that come and go", [one for one in plan["writers"] if one.get("passing")]),
        (
            "traffic",
            "a congestion control of its own",
            [one for one in plan["writers"] if "congestion" in one],
        ),
        ("traffic", "a start_spread", [one for one in plan["writers"] if one["start_spread"]]),
        ("topology", "a Linux bridge", plan["bridges"]),
        ("topology", "veth pairs", plan["veth"]),
        ("failures", "failures", plan["failures"]),
        ("host.path", "a data path", [one for one in plan["nics"] if one["host_path"]]),
        ("host.rhcc", "RHCC", [one for one in plan["nics"] if one["rhcc"]]),
        ("host.weights", "weights", [one for one in plan["nics"] if one["weights"]]),
        ("switch.weights", "weights", [one for one in plan["switch_models"] if made and one["weights"]]),
        (
            "switch.pfc.watchdog",
            "a watchdog",
            [one for one in plan["switch_models"] if made and one["watchdog"]],
        ),
    ]
    for place, what, found in simulated:
        if found:
            raise InputError.at(place, f"found {what}, expected what runs with real packets: kind: write")
    if any(one["transport"]["loss_recovery"] != "go-back-n" for one in plan["nics"]):
        text = (
            "found selective-repeat, expected go-back-n: real packets do not say where out of order ones go"
        )
        raise InputError.at("host.transport.loss_recovery", text)
    if not plan["writers"]:
        raise InputError.at("traffic", "found nothing, expected kind: write")
    for writer in plan["writers"]:
        if writer["message"] > MAX_MESSAGE_BYTES:
            raise InputError.at(
                "traffic", f"found a message of {writer['message']} B, expected at most {MAX_MESSAGE_BYTES} B"
            )
    if sum(writer["qps"] for writer in plan["writers"]) > MAX_QPS:
        raise InputError.at("traffic", f"found more queue pairs, expected at most {MAX_QPS}")
    nodes = len(network.hosts) + len(network.switches)
    if made and (not network.switches or len(network.wires) != nodes - 1):
        raise InputError.at(
            "topology", "found a network of several routes or no switch, expected star, dumbbell or a tree"
        )


def _check_controllers(scenario: Scenario) -> None:
    """Refuses controllers that need data which RoCEv2 packets do not carry."""
    for kind in kinds(scenario):
        known = about(scenario, kind)
        if known.reads_switches or known.counts_hops:
            needs = "telemetry" if known.reads_switches else "the number of hops"
            why = f"expected a controller that does without {needs}, which RoCEv2 packets do not carry"
            raise InputError.at("host.congestion", f"found {kind}, {why}")


def _bin(duration_ps: int, most: int) -> int:
    length, step = PS_PER_US, 0
    while length * most < duration_ps:
        length *= BIN_STEP_FACTORS[step % 2]
        step += 1
    return length


def _link(plan: Plan, link: Mapping[str, Any]) -> dict[str, Any]:
    responses = {model["pause"]["response_delay"] for model in plan["switch_models"]}
    return {
        "rate_bps": link["rate"],
        "delay_ps": link["delay"],
        "loss": link["loss"],
        "headroom_bytes": link["headroom_bytes"],
        "response_delay_ps": max(responses, default=0),
    }


def _host(plan: Plan, number: int, dscps: list[int], interface: str | None) -> dict[str, Any]:
    host = plan["hosts"][number]
    nic = plan["nics"][host["nic"]]
    link = next(link for link in plan["links"] if host["name"] in (link["a"], link["b"]))
    return {
        "name": host["name"],
        "interface": interface,
        "mac": mac_of(number),
        "ip": ip_of(number),
        "mtu": nic["mtu"],
        "rx_latency_ps": nic["rx_latency"],
        "ect": nic["ect"],
        "transport": nic["transport"],
        "congestion": nic["congestion"][host["congestion"]],
        "cnp_dscp": None if nic["cnp_code_point"] is None else dscps[nic["cnp_code_point"]],
        "class_of": list(zip(dscps, nic["class_of"], strict=False)),
        "link": _link(plan, link),
    }


def _peers(network: Network, name: str) -> list[str]:
    """Neighbours of a switch, in the order of its ports."""
    return [wire.b if wire.a == name else wire.a for wire in network.wires_of[name]]


def _switch(
    plan: Plan,
    network: Network,
    switch: Mapping[str, Any],
    ports: Mapping[str, list[str]],
    numbers: Mapping[str, int],
    dscps: list[int],
) -> dict[str, Any]:
    name, model = switch["name"], plan["switch_models"][switch["model"]]
    link_of = {frozenset((link["a"], link["b"])): link for link in plan["links"]}
    return {
        "name": name,
        "latency_ps": model["latency"],
        "buffer": {
            key: model[key]
            for key in ("shared_bytes", "pools", "ingress_alpha", "egress_alpha", "lossless", "pfc")
        },
        "strict": model["strict"],
        "class_of": list(zip(dscps, model["class_of"], strict=False)),
        "ecn": model["ecn"],
        "quanta": model["pause"]["quanta"],
        "ports": [
            {"peer": peer, "link": _link(plan, link_of[frozenset((name, peer))])} for peer in ports[name]
        ],
        "routes": [
            (mac_of(number), _towards(network, ports, name, host)) for host, number in numbers.items()
        ],
    }


def _towards(network: Network, ports: Mapping[str, list[str]], switch: str, host: str) -> int:
    """The port of a switch towards a host, in a tree."""
    came = {host: ""}
    waiting = deque([host])
    while waiting:
        node = waiting.popleft()
        for other in _peers(network, node):
            if other not in came:
                came[other] = node
                waiting.append(other)
    return ports[switch].index(came[switch])


def _cable(
    link: Mapping[str, Any], numbers: Mapping[str, int], ports: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    def end(name: str, peer: str) -> dict[str, Any]:
        if name in numbers:
            return {"host": numbers[name]}
        return {"port": [list(ports).index(name), ports[name].index(peer)]}

    return [end(link["a"], link["b"]), end(link["b"], link["a"])]


def _flow(writer: Mapping[str, Any], numbers: Mapping[str, int], dscps: list[int]) -> dict[str, Any]:
    return {
        "src": numbers[writer["src"]],
        "dst": numbers[writer["dst"]],
        "message": writer["message"],
        "depth": writer["depth"],
        "messages": writer["messages"],
        "start_ps": writer["start"],
        "stop_ps": writer["stop"],
        "dscp": dscps[writer["code_point"]],
    }
