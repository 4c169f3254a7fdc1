"""The plan: a scenario with nothing left to decide, as the engine takes it. All numbers are in base units."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tailback.plan.bridge import bridge_plans
from tailback.plan.host_control import hostcc_plan, rhcc_plan
from tailback.plan.host_path import memory_loads, path_plan
from tailback.plan.jobs import job_plans
from tailback.plan.veth import veth_plan
from tailback.rows import Rows
from tailback.scenario import declared
from tailback.scenario.checks import one_way, pairs
from tailback.scenario.collectives import is_job
from tailback.scenario.congestion import (
    ack_every,
    congestion_plan,
    external_plan,
    kind_of_hosts,
    kinds,
    needs_round_trip,
    own,
)
from tailback.scenario.headroom import headrooms, shared
from tailback.scenario.host_path import HostPath
from tailback.scenario.hosts import names
from tailback.scenario.model import Scenario
from tailback.scenario.network import Wire
from tailback.scenario.qos import (
    CodePoint,
    classes,
    cnp_code_point,
    code_point,
    code_points,
    ecn_plan,
    pools_plan,
    strict_of,
    trimming_plan,
    weights_plan,
)
from tailback.scenario.receive_buffer import host_paths_of
from tailback.scenario.round_trip import longest_round_trip, window_packets
from tailback.scenario.switch import Switch
from tailback.scenario.tcp import Tcp
from tailback.scenario.traffic import CONNECTIONS, Churn, TcpStreams, Write, WriteLatency
from tailback.scenario.veth import BETWEEN_NAMESPACES


def make_plan(scenario: Scenario) -> dict[str, Any]:
    """The plan of a scenario: plain data, times in ps, sizes in bytes, rates in bit/s, no defaults.

    Hosts, links, writers, connections and messages are in the order of the network and of the traffic list,
    which is also the order of their random streams. Hosts of one link rate share a kind of NIC, switches with
    as much shared buffer a kind of switch. Hosts with a host path share one if their links' delays and their
    host paths are alike, too.
    """
    network = scenario.network
    wires = [network.wires_of[name][0] for name in network.hosts]
    host_paths = list(host_paths_of(scenario).values())
    alike = [
        (wire.rate, wire.delay if host_path else None, id(host_path))
        for wire, host_path in zip(wires, host_paths, strict=True)
    ]
    nics = dict(zip(reversed(alike), zip(reversed(wires), reversed(host_paths), strict=True), strict=True))
    nic_of = {kind: number for number, kind in enumerate(dict.fromkeys(alike))}
    link_rates = {wire.rate for wire in network.wires}
    round_trip = longest_round_trip(scenario).time if needs_round_trip(scenario) else None
    pools = shared(scenario)
    models = list(dict.fromkeys(pools.values()))
    model_of = {pool: number for number, pool in enumerate(models)}
    points, order = code_points(scenario), kinds(scenario)
    bridges, bridge_models = bridge_plans(scenario)
    flows, number_of = _flows(scenario, points)
    jobs = job_plans(scenario, points, number_of)
    return {
        "name": scenario.name,
        "run": scenario.run.plan(),
        "hosts": [
            {"name": name, "nic": nic_of[kind], "congestion": order.index(congestion)}
            for name, kind, congestion in zip(network.hosts, alike, kind_of_hosts(scenario), strict=True)
        ],
        "nics": [_nic(scenario, points, *nics[kind], round_trip) for kind in nic_of],
        "switches": [{"name": name, "model": model_of[pool]} for name, pool in pools.items()],
        "switch_models": [_switch(scenario.switch, points, pool, link_rates) for pool in models],
        "bridges": bridges,
        "bridge_models": bridge_models,
        "links": [
            {
                "a": wire.a,
                "b": wire.b,
                "rate": wire.rate,
                "delay": wire.delay,
                "loss": wire.loss,
                "headroom_bytes": headroom,
            }
            for wire, headroom in zip(network.wires, headrooms(scenario), strict=True)
        ],
        "code_points": [point._asdict() for point in points],
        "writers": _writers(scenario, points),
        "tcp_connections": _connections(scenario, points),
        "flows": flows,
        **({"jobs": jobs} if jobs else {}),
        "memory_loads": memory_loads(scenario),
        "failures": [failure.plan(link=network.wire_number[failure.link]) for failure in scenario.failures],
        "veth": veth_plan(scenario),
        "record": scenario.record.plan(queues=scenario.record.ports(scenario.network)),
    }


def plan_json(plan: dict[str, Any]) -> str:
    """A plan as JSON."""
    return json.dumps(plan, allow_nan=False, default=list)


class Packed(NamedTuple):
    """A plan as the engine takes it: JSON, and beside it the rows of its list of messages, and columns of the
    operations of its graphs, in order.
    """

    plan: str
    messages: bytes
    graphs: list[tuple[bytes, ...]]


def packed_plan(plan: dict[str, Any]) -> Packed:
    """A plan as the engine takes it."""
    messages: list[bytes] = []
    graphs: list[tuple[bytes, ...]] = []

    def aside(rows: Any) -> list[Any]:
        if isinstance(rows, Rows):
            messages.append(rows.packed)
        else:
            graphs.append(rows.columns)
        return []

    text = json.dumps(plan, allow_nan=False, default=aside)
    return Packed(text, b"".join(messages), graphs)


def _nic(
    scenario: Scenario,
    points: list[CodePoint],
    wire: Wire,
    host_path: HostPath | None,
    round_trip: int | None,
) -> dict[str, Any]:
    host, rate_bps = scenario.host, wire.rate
    of_cnps = cnp_code_point(host)
    first, full = host.transport.adaptive_timeout, host.transport.ack_timeout
    return {
        **host.plan(declared.Nic),
        "class_of": classes(points, host.qos),
        "cnp_code_point": None if of_cnps is None else points.index(of_cnps),
        "strict": strict_of(host),
        "weights": weights_plan(host.weights),
        "transport": host.transport.plan(
            ack_every=ack_every(scenario)[0],
            adaptive_timeout=None if first is None else min(first, full),
            window_packets=window_packets(host, rate_bps, round_trip),
        ),
        "congestion": [
            external_plan(scenario, kind, rate_bps)
            if kind in scenario.own_controllers
            else congestion_plan(host, kind, rate_bps, round_trip)
            for kind in kinds(scenario)
        ],
        "rhcc": rhcc_plan(host, rate_bps, has_path=host_path is not None),
        "hostcc": None if host_path is None else hostcc_plan(host, rate_bps),
        "host_path": path_plan(scenario, host_path, wire),
        "tcp": _tcp(host.tcp) if scenario.has_tcp else None,
        "cpu": host.cpu.plan() if scenario.has_tcp else None,
    }


def _tcp(tcp: Tcp) -> dict[str, Any]:
    return tcp.plan(ecn=tcp.uses_ecn, initial_rto=tcp.first_rto, tso=max(tcp.tso, tcp.segment))


def _switch(
    switch: Switch, points: list[CodePoint], shared_bytes: int, rates: Iterable[int]
) -> dict[str, Any]:
    return {
        **switch.plan(declared.Switch),
        "shared_bytes": shared_bytes,
        "class_of": classes(points, switch.qos),
        "lossless": list(switch.lossless),
        "strict": list(switch.strict),
        "weights": weights_plan(switch.weights),
        "pools": pools_plan(switch, shared_bytes),
        "ecn": ecn_plan(switch, rates),
        "pfc": switch.pfc.plan(declared.Pfc),
        "pause": switch.pfc.plan(declared.Pause),
        "watchdog": None if switch.watchdog is None else switch.watchdog.plan(),
        "trimming": trimming_plan(switch, points),
    }


def _writers(scenario: Scenario, points: list[CodePoint]) -> list[dict[str, Any]]:
    """Item by item; the two sides of a latency test name each other."""
    writers: list[dict[str, Any]] = []
    for index, item in enumerate(scenario.traffic):
        added: Iterable[dict[str, Any]]
        if isinstance(item, WriteLatency):
            added = _latency_test(item, scenario.network.hosts, len(writers))
        elif isinstance(item, Write):
            added = _pairs(item, scenario.network.hosts)
        elif isinstance(item, Churn):
            added = _churn(item, index, scenario)
        else:
            continue
        common = _item(item, index, points)
        if (kind := own(item)) is not None:
            common["congestion"] = kinds(scenario).index(kind)
        writers += [{**common, **one} for one in added]
    return writers


def _connections(scenario: Scenario, points: list[CodePoint]) -> list[dict[str, Any]]:
    return [
        {**_item(item, index, points), **one}
        for index, item in enumerate(scenario.traffic)
        if isinstance(item, TcpStreams)
        for one in _pairs(item, scenario.network.hosts)
    ]


def _item(
    item: Write | WriteLatency | Churn | TcpStreams, index: int, points: list[CodePoint]
) -> dict[str, Any]:
    """What all writers or connections of a traffic item share."""
    point = points.index(code_point(item.priority, item.dscp))
    return {"item": f"{item.kind}{index}", "code_point": point}


def _pairs(item: Write | TcpStreams, every: list[str]) -> Iterator[dict[str, Any]]:
    """A writer, or connections, for each pair of hosts. Both directions of a pair start together."""
    turns = {host: turn for turn, host in enumerate(names(item.from_, every))}
    for source, to in pairs(item, every):
        start = item.start + item.start_interval * turns.get(source, turns.get(to, 0))
        yield item.plan(src=source, dst=to, start=start)


def _latency_test(item: WriteLatency, every: list[str], first: int) -> Iterator[dict[str, Any]]:
    """For each pair of hosts the side that begins and the side that answers; `first`: number of the first."""
    one = declared.Write.model_construct(
        message=item.message, depth=1, messages=item.iterations, start=item.start
    )
    for number, (source, to) in enumerate(one_way(item, every)):
        sides = first + 2 * number, first + 2 * number + 1
        yield one.plan(src=source, dst=to, partner={"writer": sides[1], "begins": True})
        yield one.plan(src=to, dst=source, partner={"writer": sides[0], "begins": False})


def _churn(item: Churn, index: int, scenario: Scenario) -> Iterator[dict[str, Any]]:
    """A writer for each connection."""
    from tailback.workload.churn import connections  # NumPy takes a while to load, and writers do not need it

    run = scenario.run
    one = declared.Write.model_construct(message=item.message, depth=item.depth)
    for connection in connections(item, scenario.network.hosts, run.seed, index, run.duration):
        ends: dict[str, Any] = {"src": connection.src, "dst": connection.dst}
        yield one.plan(**ends, start=connection.start, stop=connection.stop, passing=True)


def _flows(scenario: Scenario, points: list[CodePoint]) -> tuple[dict[str, Any], dict[int, int]]:
    """Single messages, item by item, each by start: rows of src, dst, item, code point, bytes, start. Items
    whose messages wait for each other have none; and the number of each item among all of these.
    """
    number_of: dict[int, int] = {}
    items: list[str] = []
    congestion: list[int | None] = []
    rows: list[bytes] = []
    number = {point: number for number, point in enumerate(points)}
    for index, item in enumerate(scenario.traffic):
        if isinstance(item, (*CONNECTIONS, *BETWEEN_NAMESPACES)):
            continue
        number_of[index] = len(items)
        if not is_job(item):
            rows.append(_messages(scenario, index, len(items), number).packed)
        items.append(f"{item.kind}{index}")
        kind = own(item)
        congestion.append(None if kind is None else kinds(scenario).index(kind))
    return {"items": items, "congestion": congestion, "list": Rows(b"".join(rows))}, number_of


def _messages(scenario: Scenario, index: int, place: int, number: dict[CodePoint, int]) -> Rows:
    """The rows of a traffic item, which is number `place` of those with single messages."""
    import numpy as np  # takes a while to load, and writers do not need it

    from tailback.workload import messages_of

    table = messages_of(scenario, index)
    assert table is not None
    item = scenario.traffic[index]
    assert not isinstance(item, BETWEEN_NAMESPACES)
    point_of = np.array([number.get(code_point(priority, item.dscp), -1) for priority in range(8)])
    columns = (table.src, table.dst, np.full(len(table), place), point_of[table.priority])
    return Rows.of((*columns, table.size, table.start))
