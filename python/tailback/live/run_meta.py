"""The facts of a whole run with real packets, in the form of the simulator's recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tailback.scenario import Scenario
from tailback.scenario.network import Network
from tailback.text import plural, verb

Counts = Mapping[str, Any]
Plan = Mapping[str, Any]


def send_classes(plan: Plan) -> dict[str, int]:
    """The traffic class of each sending host."""
    nics = {host["name"]: plan["nics"][host["nic"]] for host in plan["hosts"]}
    return {
        writer["src"]: nics[writer["src"]]["class_of"][writer["code_point"]] for writer in plan["writers"]
    }


def meta(scenario: Scenario, plan: Plan, live: Plan, counts: Counts, complete: bool) -> dict[str, Any]:
    hosts = [one for one in counts["hosts"] if one is not None]

    def total(name: str) -> int:
        return sum(one["counters"][name] for one in hosts)

    drops = list(_drops(live, counts))
    sent, delivered = total("data_sent"), total("rx_data")
    gone = sum(drop["packets"] for drop in drops)
    duplicates = sum(one["nic"]["duplicate_request"] for one in hosts)
    return {
        "name": scenario.name,
        "seed": plan["run"]["seed"],
        "end_ps": counts["now_ps"],
        "complete": complete,
        "bin_ps": counts["bin_ps"],
        "recorded": "everything",
        "packet_hops": counts["frames"],
        "events": counts["frames"],
        "packets": {
            "data": sent,
            "ack": total("acks_sent"),
            "nak": total("naks_sent"),
            "cnp": sum(one["nic"]["np_cnp_sent"] for one in hosts),
            "pfc": counts["pause_frames"],
            "tcp_data": 0,
            "tcp_ack": 0,
        },
        "line_rate_bps": {host["name"]: host["link"]["rate_bps"] for host in live["hosts"]},
        "faults": list(_faults(live, counts)),
        "drops": drops,
        "conservation": {
            "checked_queues": 0,
            "data_packets": {
                "sent": sent,
                "delivered": delivered,
                "dropped": gone,
                "discarded_out_of_order": 0,
                "discarded_duplicate": duplicates,
                "in_flight": max(0, sent - delivered - gone - duplicates),
            },
            "ok": True,
        },
        "pauses": list(_pauses(plan, live, counts)),
        "pause_storms": [],
        "queues": list(_queues(scenario.network, plan, live)),
        "cpu": [],
        "latency": [],
        "bridge_cores": [],
        "veth": None,
        "live": {
            "slowdown": live["slowdown"],
            "ran_s": counts["ran_s"],
            "stood_s": counts["stood_s"],
            "late_ns": counts["late_ns"],
            "unread": counts["unread"],
            "unsent": counts["unsent"],
            "checked_messages": total("checked_messages"),
            "wrong_messages": total("wrong_messages"),
            "refused": {
                name: total(name)
                for name in ("rx_others", "rx_foreign", "rx_malformed", "rx_icrc_errors", "rx_unknown_qp")
            },
        },
    }


def _faults(live: Plan, counts: Counts) -> Iterator[dict[str, str]]:
    for switch, port, number, lane in _lanes(live, counts):
        if lane["headroom_dropped"]:
            where = f"{switch}:{port}/pg{number}"
            text = f"lossless priority {number} dropped {lane['headroom_dropped']} packets at {where}"
            yield {"kind": "lossless_drop", "where": where, "node": switch, "peer": port, "text": text}
    for host, one in zip(live["hosts"], counts["hosts"], strict=True):
        if one is not None and one["counters"]["wrong_messages"]:
            wrong, all_ = one["counters"]["wrong_messages"], one["counters"]["checked_messages"]
            text = f"{wrong} of {plural(all_, 'message')} in the memory of {host['name']} {verb(wrong, 'is', 'are')} not what was sent"
            yield {
                "kind": "wrong_data",
                "where": host["name"],
                "node": host["name"],
                "peer": "",
                "text": text,
            }


def _lanes(live: Plan, counts: Counts) -> Iterator[tuple[str, str, int, Mapping[str, int]]]:
    for switch, ports in zip(live["switches"], counts["switches"], strict=True):
        for port in ports:
            for number, lane in enumerate(port["lanes"]):
                yield switch["name"], port["peer"], number, lane


def _drops(live: Plan, counts: Counts) -> Iterator[dict[str, Any]]:
    for switch, port, number, lane in _lanes(live, counts):
        if lane["dropped"]:
            headroom = lane["headroom_dropped"] > 0
            yield {
                "where": f"{switch}:{port}/{'pg' if headroom else 'tc'}{number}",
                "node": switch,
                "peer": port,
                "reason": "headroom overflow" if headroom else "egress queue over its threshold",
                "packets": lane["dropped"],
                "bytes": lane["dropped_bytes"],
            }
    lost = [
        (host["name"], "", one["counters"]["rx_lost"])
        for host, one in zip(live["hosts"], counts["hosts"], strict=True)
        if one
    ]
    lost += [
        (switch["name"], port["peer"], port["lost"])
        for switch, ports in zip(live["switches"], counts["switches"], strict=True)
        for port in ports
    ]
    for node, peer, packets in lost:
        if packets:
            yield {
                "where": f"{node}:{peer}" if peer else node,
                "node": node,
                "peer": peer,
                "reason": "lost on the link",
                "packets": packets,
                "bytes": 0,
            }


def _pauses(plan: Plan, live: Plan, counts: Counts) -> Iterator[dict[str, Any]]:
    classes = send_classes(plan)
    peers = {
        end: link["b"] if end == link["a"] else link["a"]
        for link in plan["links"]
        for end in (link["a"], link["b"])
    }
    duration = max(counts["now_ps"], 1)

    def row(port: str, priority: int, frames: int, paused_ps: int) -> dict[str, Any]:
        return {
            "port": port,
            "priority": priority,
            "rx_frames": frames,
            "transitions": 0,
            "paused_ps": paused_ps,
            "max_share_of_a_second": min(1.0, paused_ps / min(duration, 10**12))
            if duration < 10**12
            else paused_ps / duration,
            "last_pause_ps": duration,
        }

    for host, one in zip(live["hosts"], counts["hosts"], strict=True):
        if one is not None and one["paused_ps"]:
            name = host["name"]
            yield row(
                f"{name}:{peers[name]}",
                classes.get(name, 0),
                one["counters"]["pause_frames"],
                one["paused_ps"],
            )
    for switch, port, number, lane in _lanes(live, counts):
        if lane["paused_ps"]:
            yield row(f"{switch}:{port}", number, lane["pauses_received"], lane["paused_ps"])


def _queues(network: Network, plan: Plan, live: Plan) -> Iterator[dict[str, Any]]:
    """Queues on the routes of all writers, from receivers to senders."""
    models = {switch["name"]: switch for switch in live["switches"]}
    nics = {host["name"]: plan["nics"][host["nic"]] for host in plan["hosts"]}
    made: dict[str, dict[str, Any]] = {}

    def add(name: str, kind: str, node: str, peer: str, priority: int, order: int, **limits: Any) -> None:
        none = {"k_min_bytes": None, "k_max_bytes": None, "limit_bytes": None}
        made.setdefault(
            name,
            {"queue": name, "kind": kind, "node": node, "port": f"{node}:{peer}", "peer": peer}
            | {"priority": priority, "order": order}
            | none
            | limits,
        )

    for writer in plan["writers"]:
        route = _route(network, writer["src"], writer["dst"])
        number = nics[writer["src"]]["class_of"][writer["code_point"]]
        add(f"{route[-1]}/rx", "receive", route[-1], route[-2], number, 0)
        order = 0
        for at in range(len(route) - 2, 0, -1):
            if (switch := models.get(route[at])) is not None:
                before, after = route[at - 1], route[at + 1]
                own = dict(switch["class_of"])
                number = own[plan["code_points"][writer["code_point"]]["dscp"]]
                ecn = next((one for one in switch["ecn"] if number in one["priorities"]), None)
                marks = {} if ecn is None else {"k_min_bytes": ecn["k_min"], "k_max_bytes": ecn["k_max"]}
                shared = {"limit_bytes": _pool_bytes(switch["buffer"], number)}
                node = route[at]
                add(f"{node}:{after}/tc{number}", "egress", node, after, number, order + 1, **marks, **shared)
                add(f"{node}:{before}/pg{number}", "ingress", node, before, number, order + 2, **shared)
            order += 2
        add(f"{route[0]}/sq{number}", "send", route[0], route[1], number, order + 1)
    yield from sorted(made.values(), key=lambda queue: queue["order"])


def _pool_bytes(buffer: Mapping[str, Any], priority: int) -> int:
    """Size of the pool that a priority draws on."""
    pools = buffer["pools"]
    if pools is None:
        return int(buffer["shared_bytes"])
    return int(pools["lossless_bytes" if priority in buffer["lossless"] else "lossy_bytes"])


def _route(network: Network, src: str, dst: str) -> list[str]:
    """The nodes on the route between two hosts of a tree."""
    waiting = [[src]]
    while waiting:
        route = waiting.pop()
        if route[-1] == dst:
            return route
        for wire in network.wires_of[route[-1]]:
            other = wire.b if wire.a == route[-1] else wire.a
            if len(route) < 2 or other != route[-2]:
                waiting.append([*route, other])
    raise ValueError(f"no route from {src} to {dst}")
