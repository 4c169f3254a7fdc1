"""The plan: a scenario in the form that the engine takes, in base units and without defaults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tailback.rows import Rows
from tailback.scenario import declared
from tailback.scenario.bridge import Bridge
from tailback.scenario.checks import one_way, pairs
from tailback.scenario.checks.jobs import chunks, groups_of, in_server
from tailback.scenario.checks.places import rates_of_ports
from tailback.scenario.collectives import DEFAULT_ALGORITHMS, Step, is_job, steps_of
from tailback.scenario.congestion import (
    ack_every,
    congestion_plan,
    external_plan,
    kind_of_hosts,
    kinds,
    needs_round_trip,
    own,
)
from tailback.scenario.controllers import RhccSender
from tailback.scenario.headroom import headrooms, shared
from tailback.scenario.host_control import iio_threshold, pcie_threshold
from tailback.scenario.host_path import TLP_OVERHEAD_BYTES, Gpu, HostPath, Memory
from tailback.scenario.hosts import names
from tailback.scenario.model import Host, Scenario
from tailback.scenario.network import Wire
from tailback.scenario.qdisc import FqCodel, qdisc_plan
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
from tailback.scenario.receive_buffer import host_paths_of, lossless_of, thresholds
from tailback.scenario.round_trip import longest_round_trip, window_packets
from tailback.scenario.switch import Switch
from tailback.scenario.tcp import Tcp
from tailback.scenario.traffic import CONNECTION_ITEMS, Churn, TcpStreams, Write, WriteLatency
from tailback.scenario.veth import BETWEEN_NAMESPACES, CONSUMER, PRODUCER, Ping, UdpFlood, XdpFrames
from tailback.wire import ETHERNET_HEADER_BYTES, RETH_BYTES, ROCE_HEADER_BYTES

_VETH_FRAME_BYTES = 1500 + ETHERNET_HEADER_BYTES
_UDP_HEADER_BYTES = 28
"""IPv4 and UDP."""


def make_plan(scenario: Scenario) -> dict[str, Any]:
    """Makes the plan of a scenario: plain data, times in ps, sizes in bytes, rates in bit/s, no defaults.

    Hosts, links, writers, connections and messages are in the order of the network and of the traffic list,
    which is also the order of their random streams. Hosts with the same link rate share an entry of `nics`
    (hosts with a host path only if link delay and host path are also equal), switches with the same settings
    and shared buffer an entry of `switch_models`.
    """
    network = scenario.network
    wires = [network.wires_of[name][0] for name in network.hosts]
    host_paths = list(host_paths_of(scenario).values())
    nic_keys = [
        (wire.rate, wire.delay if host_path else None, id(host_path))
        for wire, host_path in zip(wires, host_paths, strict=True)
    ]
    nics = dict(zip(reversed(nic_keys), zip(reversed(wires), reversed(host_paths), strict=True), strict=True))
    nic_of = {kind: number for number, kind in enumerate(dict.fromkeys(nic_keys))}
    round_trip = longest_round_trip(scenario).time if needs_round_trip(scenario) else None
    pools, switches = shared(scenario), scenario.switch_of
    switch_keys = {name: (id(switch), pools[name]) for name, switch in switches.items()}
    models = {key: switches[name] for name, key in switch_keys.items()}
    model_of = {key: number for number, key in enumerate(models)}
    points, order = code_points(scenario), kinds(scenario)
    bridges, bridge_models = bridge_plans(scenario)
    flows, number_of = _flows(scenario, points)
    jobs = job_plans(scenario, points, number_of)
    return {
        "name": scenario.name,
        "run": scenario.run.plan(),
        "hosts": [
            {"name": name, "nic": nic_of[kind], "congestion": order.index(congestion)}
            for name, kind, congestion in zip(network.hosts, nic_keys, kind_of_hosts(scenario), strict=True)
        ],
        "nics": [_nic(scenario, points, *nics[kind], round_trip) for kind in nic_of],
        "switches": [{"name": name, "model": model_of[key]} for name, key in switch_keys.items()],
        "switch_models": [
            _switch(switch, points, pool, rates_of_ports(scenario, switch))
            for (_, pool), switch in models.items()
        ],
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
    return json.dumps(plan, allow_nan=False, default=list)


class Packed(NamedTuple):
    """A plan as the engine takes it: JSON, the packed rows of its messages, and the columns of its graphs."""

    plan: str
    messages: bytes
    graphs: list[tuple[bytes, ...]]


def packed_plan(plan: dict[str, Any]) -> Packed:
    messages: list[bytes] = []
    graphs: list[tuple[bytes, ...]] = []

    def pack(rows: Any) -> list[Any]:
        if isinstance(rows, Rows):
            messages.append(rows.packed)
        else:
            graphs.append(rows.columns)
        return []

    text = json.dumps(plan, allow_nan=False, default=pack)
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
    """The writers of all traffic items. The two sides of a latency test refer to each other."""
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
    """Fields that all writers or connections of a traffic item share."""
    point = points.index(code_point(item.priority, item.dscp))
    return {"item": f"{item.kind}{index}", "code_point": point}


def _pairs(item: Write | TcpStreams, every: list[str]) -> Iterator[dict[str, Any]]:
    """An entry for each pair of hosts. Both directions of a pair start together."""
    turns = {host: turn for turn, host in enumerate(names(item.from_, every))}
    for source, to in pairs(item, every):
        start = item.start + item.start_interval * turns.get(source, turns.get(to, 0))
        yield item.plan(src=source, dst=to, start=start)


def _latency_test(item: WriteLatency, every: list[str], first: int) -> Iterator[dict[str, Any]]:
    """For each pair of hosts the side that begins and the side that answers; `first` is the index of the first
    writer.
    """
    one = declared.Write.model_construct(
        message=item.message, depth=1, messages=item.iterations, start=item.start
    )
    for number, (source, to) in enumerate(one_way(item, every)):
        sides = first + 2 * number, first + 2 * number + 1
        yield one.plan(src=source, dst=to, partner={"writer": sides[1], "begins": True})
        yield one.plan(src=to, dst=source, partner={"writer": sides[0], "begins": False})


def _churn(item: Churn, index: int, scenario: Scenario) -> Iterator[dict[str, Any]]:
    """A writer for each connection."""
    from tailback.workload.churn import connections  # loads NumPy, which writers do not need

    run = scenario.run
    one = declared.Write.model_construct(message=item.message, depth=item.depth)
    for connection in connections(item, scenario.network.hosts, run.seed, index, run.duration):
        ends: dict[str, Any] = {"src": connection.src, "dst": connection.dst}
        yield one.plan(**ends, start=connection.start, stop=connection.stop, passing=True)


def _flows(scenario: Scenario, points: list[CodePoint]) -> tuple[dict[str, Any], dict[int, int]]:
    """Single messages, by traffic item and start: rows of src, dst, item, code point, bytes, start. Jobs have
    no rows, because their messages wait for each other. Also returns the number of each item among these items.
    """
    number_of: dict[int, int] = {}
    items: list[str] = []
    congestion: list[int | None] = []
    rows: list[bytes] = []
    number = {point: number for number, point in enumerate(points)}
    for index, item in enumerate(scenario.traffic):
        if isinstance(item, (*CONNECTION_ITEMS, *BETWEEN_NAMESPACES)):
            continue
        number_of[index] = len(items)
        if not is_job(item):
            rows.append(_messages(scenario, index, len(items), number).packed)
        items.append(f"{item.kind}{index}")
        kind = own(item)
        congestion.append(None if kind is None else kinds(scenario).index(kind))
    return {"items": items, "congestion": congestion, "list": Rows(b"".join(rows))}, number_of


def _messages(scenario: Scenario, index: int, place: int, number: dict[CodePoint, int]) -> Rows:
    """The rows of a traffic item; `place` is its number among items with single messages."""
    import numpy as np  # takes a tenth of a second to load; writers do not need it

    from tailback.workload import messages_of

    table = messages_of(scenario, index)
    assert table is not None
    item = scenario.traffic[index]
    assert not isinstance(item, BETWEEN_NAMESPACES)
    point_of = np.array([number.get(code_point(priority, item.dscp), -1) for priority in range(8)])
    columns = (table.src, table.dst, np.full(len(table), place), point_of[table.priority])
    return Rows.of((*columns, table.size, table.start))


def bridge_plans(scenario: Scenario) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Linux bridges and their models."""
    bridge, names = scenario.bridge, scenario.network.bridges
    if bridge is None:
        return [], []
    return (
        [{"name": name, "model": number} for number, name in enumerate(names)],
        [_model(scenario, bridge, name) for name in names],
    )


def _model(scenario: Scenario, bridge: Bridge, name: str) -> dict[str, Any]:
    place = {core.cpu: number for number, core in enumerate(bridge.cores)}
    ports = [bridge.port(wire.a) for wire in scenario.network.wires_of[name]]
    # A queueing discipline also counts the Ethernet header: Linux net/sched, `psched_mtu`.
    frame = scenario.host.mtu + ROCE_HEADER_BYTES + RETH_BYTES + ETHERNET_HEADER_BYTES
    qdisc = FqCodel(kind="fq_codel") if bridge.qdisc is None else bridge.qdisc
    return {
        "cores": [core.plan() for core in bridge.cores],
        "host": bridge.plan(),
        "costs": bridge.costs.plan(),
        "ports": [
            port.plan(
                irq_cores=[place[cpu] for cpu in bridge.irqs_of(port)],
                rss=port.rss or list(range(len(bridge.irqs_of(port)))),
            )
            for port in ports
        ],
        "rx": bridge.rx.plan(),
        "tx": bridge.tx.plan(),
        "bql": None if bridge.bql is None else bridge.bql.plan(),
        "frame_bytes": frame,
        "qdisc": qdisc_plan(qdisc, frame),
        "multiqueue": bridge.qdisc is None,
    }


def rhcc_plan(host: Host, rate_bps: int, *, has_path: bool = True) -> dict[str, Any] | None:
    """RHCC of a NIC on a link of `rate_bps`; None if neither sender nor receiver is on. The receiver needs a host
    path.
    """
    rhcc = host.rhcc
    receives = rhcc.receiver and has_path
    if not (rhcc.sender or receives):
        return None
    sender = {name: getattr(rhcc, name) for name in RhccSender.model_fields}
    receiver = rhcc.plan(declared.RhccReceiver, iio_threshold=iio_threshold(rhcc, rate_bps))
    return {"sender": sender if rhcc.sender else None, "receiver": receiver if receives else None}


def hostcc_plan(host: Host, rate_bps: int) -> dict[str, Any] | None:
    """HostCC of a NIC on a link of `rate_bps`; None if it is off."""
    hostcc = host.hostcc
    if not hostcc.enabled:
        return None
    return hostcc.plan(pcie_threshold=pcie_threshold(hostcc, rate_bps))


def path_plan(scenario: Scenario, given: HostPath | None, wire: Wire) -> dict[str, Any] | None:
    """The host path of hosts with this link."""
    if given is None:
        return None
    path = given.resolved()
    buffer = path.receive_buffer
    lossless = lossless_of(scenario, buffer)
    parts: list[dict[str, Any]] = []
    if len(lossless) < 8:
        others = [priority for priority in range(8) if priority not in lossless]
        parts.append({"xoff_bytes": None, "xon_bytes": None, "priorities": others})
    if lossless:
        xoff, xon = thresholds(scenario, buffer, wire)
        parts.append(
            {
                "xoff_bytes": xoff,
                "xon_bytes": xon,
                "priorities": sorted(lossless),
            }
        )
    return {
        "receive_buffer": buffer.plan(declared.ReceiveBuffer),
        "receive_buffers": parts,
        "pause": buffer.plan(declared.Pause),
        "pcie": path.plan(),
        "tlp_overhead_bytes": TLP_OVERHEAD_BYTES,
        "target": {path.target: _memory(path.memory) if path.target == "memory" else _gpu(path.gpu)},
        "reads": None if path.reads is None else path.reads.plan(),
    }


def _memory(memory: Memory) -> dict[str, Any]:
    return {"own": memory.plan(), "ddio": None if memory.ddio is None else memory.ddio.plan()}


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {"own": gpu.plan(), "stalls": None if gpu.stalls is None else gpu.stalls.plan()}


def memory_loads(scenario: Scenario) -> list[dict[str, Any]]:
    """Memory traffic, an entry for each item and host."""
    return [
        {
            "item": f"memory{index}",
            "host": host,
            **item.plan(),
        }
        for index, item in enumerate(scenario.memory_load)
        for host in names(item.host, scenario.network.hosts)
    ]


def job_plans(scenario: Scenario, points: list[CodePoint], number_of: dict[int, int]) -> list[dict[str, Any]]:
    """A job for each group of each traffic item; `number_of` as `_flows` returns it."""
    plans = []
    for index, item in enumerate(scenario.traffic):
        if not is_job(item):
            continue
        groups = groups_of(scenario, index)
        gpus = 1 if item.servers is None else item.servers.gpus
        for number, hosts in enumerate(groups):
            of_server = in_server(hosts, item)
            domain = None
            if item.servers is not None and item.servers.rate is not None:
                domain = {"rate": item.servers.rate, "latency": item.servers.latency}
            plans.append(
                {
                    "name": f"{item.kind}{index}" + (f"/{number}" if len(groups) > 1 else ""),
                    "item": number_of[index],
                    "code_point": points.index(code_point(item.priority, item.dscp)),
                    "ranks": hosts,
                    "servers": [host // gpus for host in hosts],
                    "domain": domain,
                    "reduce_rate": item.reduce_rate,
                    "queue_pairs": item.queue_pairs,
                    "start_ps": item.start,
                    "repeat": item.repeat,
                    "steps": [_step(scenario, step, len(hosts), of_server) for step in steps_of(item)],
                }
            )
    return plans


def _step(scenario: Scenario, step: Step, ranks: int, gpus: int) -> dict[str, Any]:
    if step.compute is not None:
        return {"compute": step.compute}
    if step.graph is not None:
        from tailback.workload import graph_of  # loads NumPy, which other steps do not need

        return {"graph": graph_of(scenario, step.graph, ranks)}
    assert step.collective is not None
    assert step.size is not None
    return {
        "collective": {
            "kind": step.collective,
            "algorithm": step.algorithm or DEFAULT_ALGORITHMS[step.collective],
            "bytes": step.size,
            "channels": step.channels,
            "chunks": chunks(step, ranks, gpus),
            "overlapped": step.overlap,
        }
    }


def veth_plan(scenario: Scenario) -> dict[str, Any] | None:
    """Network namespaces, their veth pair and its traffic; None if there are none."""
    veth = scenario.veth
    if veth is None:
        return None
    items = list(enumerate(scenario.traffic))

    def sends(index: int, item: UdpFlood | Ping | XdpFrames, frame: int) -> dict[str, Any]:
        return {
            **item.plan(),
            "item": f"{item.kind}{index}",
            "src": item.from_,
            "dst": item.to,
            "frame_bytes": frame,
        }

    return {
        "namespaces": [
            {"name": PRODUCER, "costs": veth.consumer.plan(rules=0)},
            {"name": CONSUMER, "costs": veth.consumer.plan()},
        ],
        "veths": [
            {
                "a": PRODUCER,
                "b": CONSUMER,
                "veth": veth.plan(),
                "frame_bytes": _VETH_FRAME_BYTES,
                "qdisc": qdisc_plan(veth.qdisc, _VETH_FRAME_BYTES),
            }
        ],
        "datagrams": [
            sends(index, item, item.payload + _UDP_HEADER_BYTES + ETHERNET_HEADER_BYTES)
            for index, item in items
            if isinstance(item, UdpFlood)
        ],
        "pings": [
            sends(index, item, item.payload + _UDP_HEADER_BYTES + ETHERNET_HEADER_BYTES)
            for index, item in items
            if isinstance(item, Ping)
        ],
        "frames": [sends(index, item, item.frame) for index, item in items if isinstance(item, XdpFrames)],
    }
