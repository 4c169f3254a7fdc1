"""Conflicts between fields of a scenario that are valid one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailback.errors import InputError, Path, found, nearest
from tailback.limits import MAX_CODE_POINTS, MAX_NAMED_HOSTS, MAX_OUTSTANDING, MAX_QPS
from tailback.scenario.checks.host_path import host_control_conflicts, path_conflicts
from tailback.scenario.checks.jobs import job_conflicts, queue_pairs_of
from tailback.scenario.checks.linux import bridge_conflicts, veth_conflicts
from tailback.scenario.checks.places import places, problems_of_places, rates_of_ports
from tailback.scenario.collectives import AllToAll, is_job
from tailback.scenario.congestion import about, congestion_conflicts, has_window, kinds
from tailback.scenario.graph import NetworkError
from tailback.scenario.headroom import headrooms, least_quanta, reserved, shared, too_few_quanta
from tailback.scenario.hosts import ALL_HOSTS, TOO_MANY_NAMED, count_of, names
from tailback.scenario.model import Scenario, chooses, ports
from tailback.scenario.network import Network
from tailback.scenario.qos import code_points, strict_of
from tailback.scenario.switch import Switch, Thresholds
from tailback.scenario.traffic import (
    Churn,
    Flows,
    Incast,
    Permutation,
    Poisson,
    TcpStreams,
    Traffic,
    Write,
    WriteLatency,
)
from tailback.scenario.veth import BETWEEN_NAMESPACES, VethTopology
from tailback.text import verb
from tailback.units import format_duration, format_rate, format_size

MAX_GUESSES, MAX_COMPARED_LINKS = 10, 2000
"""Misspelt links for which a suggestion is computed, and links that are compared: a comparison takes 10 us."""

Problems = Iterator[tuple[Path, str]]


def conflicts(scenario: Scenario) -> Problems:
    """Yields every conflict: the path of a field, and the text of the problem."""
    try:
        network = scenario.network
    except NetworkError as error:
        yield ("topology", *error.path), str(error)
        return
    except InputError as error:
        yield ("topology", "path"), error.problems[0].text
        return
    yield from _recorded(scenario, network)
    yield from veth_conflicts(scenario)
    yield from bridge_conflicts(scenario)
    if isinstance(scenario.topology, VethTopology):
        return
    misplaced = list(problems_of_places(scenario))
    yield from misplaced
    if misplaced:
        return
    if network.switches:
        yield from _buffer(scenario)
        yield from _quanta(scenario)
    else:
        yield from _no_switch(scenario)
    yield from _thresholds(scenario)
    yield from _classes(scenario)
    yield from _trimming(scenario)
    yield from congestion_conflicts(scenario)
    yield from host_control_conflicts(scenario.host, network.host_rates)
    yield from path_conflicts(scenario)
    yield from _failures(scenario, network)
    endless = list(_endless(scenario))
    yield from endless
    if endless:
        return
    named = sum(
        len(network.hosts) if entry == ALL_HOSTS else count_of(entry)
        for item in scenario.traffic
        for entries in host_sets(item).values()
        for entry in entries
    )
    if named > MAX_NAMED_HOSTS:
        yield ("traffic",), f"found {named} hosts in from, to and hosts, expected {TOO_MANY_NAMED}"
        return
    total, usable = 0, True
    for index in range(len(scenario.traffic)):
        problems = list(_traffic(scenario, network, index))
        yield from problems
        usable = usable and not problems
        if not problems:
            total += queue_pairs(scenario, index)
        if total > MAX_QPS:
            break
    else:
        if usable:
            yield from _code_points(scenario)
    if total > MAX_QPS:
        what = "queue pairs and connections" if scenario.has_tcp else "queue pairs"
        yield ("traffic",), f"found {total} {what}, expected at most {MAX_QPS}"


def _endless(scenario: Scenario) -> Problems:
    """Traffic without an end in a run with until: done."""
    if scenario.run.until != "done":
        return
    for index, item in enumerate(scenario.traffic):
        key = "stop"
        if isinstance(item, WriteLatency):
            key, endless = "iterations", item.iterations is None
        elif isinstance(item, Incast):
            endless = item.stop is None and item.bursts is None
        elif isinstance(item, Write):
            endless = item.stop is None and item.messages is None
        elif isinstance(item, TcpStreams):
            endless = item.stop is None and item.bytes is None
        elif isinstance(item, (Churn, Poisson)):
            endless = item.stop is None
        else:
            endless = isinstance(item, BETWEEN_NAMESPACES)
        if endless:
            yield ("traffic", index, key), "found none, expected one with run.until: done: else it has no end"


def _trimming(scenario: Scenario) -> Problems:
    for path, _, switch in places(scenario):
        if switch.trimming is not None and not has_window(scenario.host):
            text = (
                f"found trimming and host.transport.loss_recovery: {scenario.host.transport.loss_recovery}, "
                "expected loss_recovery: selective-repeat: who goes back N would do so for each packet that is "
                "trimmed"
            )
            yield (*path, "trimming"), text


def host_sets(item: Traffic) -> dict[str, tuple[str, ...]]:
    """The unexpanded sets of hosts of a traffic item, by their keys."""
    if isinstance(item, (Flows, *BETWEEN_NAMESPACES)):
        return {}
    if isinstance(item, (Write, WriteLatency, Churn, TcpStreams, Incast)):
        return {"from": item.from_, "to": item.to}
    return {"hosts": item.hosts}


def pairs(item: Write | TcpStreams, every: list[str]) -> list[tuple[str, str]]:
    """The pairs of hosts of a writer or of connections, in both directions if it is bidirectional; `every` are all
    hosts.
    """
    found = one_way(item, every)
    if not item.bidirectional:
        return found
    return [direction for source, to in found for direction in ((source, to), (to, source))]


def one_way(item: Write | WriteLatency | TcpStreams, every: list[str]) -> list[tuple[str, str]]:
    """The pairs of hosts in from and to; `every` are all hosts."""
    receivers = names(item.to, every)
    return [(source, to) for source in names(item.from_, every) for to in receivers if source != to]


def queue_pairs(scenario: Scenario, index: int) -> int:
    """Number of queue pairs or connections of a traffic item, exact or approximate, without making the list."""
    item, network = scenario.traffic[index], scenario.network
    end = scenario.run.duration
    if isinstance(item, (Write, TcpStreams)):
        senders, receivers = (set(names(entry, network.hosts)) for entry in (item.from_, item.to))
        count = len(senders) * len(receivers) - len(senders & receivers)
        each = item.qps if isinstance(item, Write) else item.connections
        return count * each * (2 if item.bidirectional else 1)
    if isinstance(item, WriteLatency):
        return 2 * len(one_way(item, network.hosts))
    if isinstance(item, Churn):
        from tailback.workload.churn import max_connections

        return max_connections(item, network.hosts, end)
    if isinstance(item, Permutation):
        return len(names(item.hosts, network.hosts)) * item.repeat
    if is_job(item):
        return queue_pairs_of(scenario, index)
    if isinstance(item, AllToAll):
        count = len(names(item.hosts, network.hosts))
        return count * (count - 1)
    if isinstance(item, Incast):
        from tailback.workload.generate import incast_bursts

        return item.fan_in * incast_bursts(item, network, end)
    if isinstance(item, Poisson):
        from tailback.workload.sizes import load_sizes

        rates = [network.host_rates[network.host_number[name]] for name in names(item.hosts, network.hosts)]
        span = (min(item.stop or end, end) - item.start) / 1e12
        return int(sum(rates) * item.load / 8 / load_sizes(item.sizes, scenario.read).mean * span)
    from tailback.workload import messages_of

    return len(messages_of(scenario, index) or ())


def _no_switch(scenario: Scenario) -> Problems:
    """Settings of switches in a network without switches."""
    here = f"{scenario.topology.kind} has no switch"
    if scenario.qos is not None:
        yield ("qos",), f"found {found(scenario.qos)}, expected none: {here} to set up"
    elif "switch" in scenario.model_fields_set:
        yield ("switch",), f"found settings, expected none: {here}"
    for kind in kinds(scenario):
        if about(scenario, kind).reads_switches:
            yield ("host", "congestion"), f'found "{kind}", expected another: {here}, whose load it reads'


def _buffer(scenario: Scenario) -> Problems:
    """Of each setting of switches, the switch with the most headroom."""
    kept, pools = reserved(scenario), shared(scenario)
    each = dict(zip((wire.name for wire in scenario.network.wires), headrooms(scenario), strict=True))
    alike: dict[int, list[str]] = {}
    for name, switch in scenario.switch_of.items():
        alike.setdefault(id(switch), []).append(name)
    for path, _, switch in places(scenario):
        names = alike[id(switch)]
        worst = max(names, key=lambda name: kept[name])
        own = [each[wire.name] for wire in scenario.network.wires_of[worst]]
        where = "" if len(kept) == 1 else f" at {worst}"
        yield from _buffer_of(path, switch, kept[worst], pools[worst], own, where)


def _buffer_of(
    path: Path, switch: Switch, kept: int, most: int, headroom_of_ports: list[int], where: str
) -> Problems:
    if kept >= switch.buffer:
        own, equal = headroom_of_ports, len(set(headroom_of_ports)) == 1
        of = f"{format_size(own[0])} of headroom" if equal else f"{format_size(sum(own))} in all"
        how = f"{of} for {'each of ' if equal else ''}{len(own)} ports"
        yield (
            (*path, "buffer"),
            f"found {format_size(switch.buffer)}, expected more than {format_size(kept)}: "
            f"{how} and {len(switch.lossless)} lossless {verb(len(switch.lossless), 'priority', 'priorities')}{where}",
        )
        return
    left = switch.buffer - kept
    if most > left:
        yield (
            (*path, "shared"),
            f"found {format_size(most)}, expected at most {format_size(left)}, the buffer without headroom",
        )
        return
    if switch.pools is not None:
        lossless, lossy = switch.pools.split(most)
        if lossless + max(lossy, 1) > most:
            name = "lossless" if isinstance(switch.pools.lossy, str) else "lossy"
            taken = lossless if name == "lossless" else lossy
            yield (
                (*path, "pools", name),
                f"found {format_size(taken)}, expected both pools to fit what is shared of the buffer, "
                f"{format_size(most)}",
            )
            return
        most = lossless
    if switch.lossless and switch.pfc.xoff is not None and switch.pfc.xoff > most:
        yield (
            (*path, "pfc", "xoff"),
            f"found {format_size(switch.pfc.xoff)}, expected at most {format_size(most)}, "
            f"what {'lossless priorities share' if switch.pools else 'is shared'} of the buffer",
        )


def _quanta(scenario: Scenario) -> Problems:
    least = least_quanta(scenario)
    for path, _, switch in places(scenario):
        if switch.lossless and switch.pfc.quanta < least:
            yield (*path, "pfc", "quanta"), too_few_quanta(switch.pfc.quanta, least)


def _thresholds(scenario: Scenario) -> Problems:
    for path, _, switch in places(scenario):
        yield from _thresholds_of(path, switch, sorted(rates_of_ports(scenario, switch)))


def _thresholds_of(at: Path, switch: Switch, rates: list[int]) -> Problems:
    kinds: list[tuple[Path, Thresholds | None]] = [((*at, "ecn"), switch.ecn)]
    kinds += [((*at, "ecn_by_priority", i), ecn) for i, ecn in enumerate(switch.ecn_by_priority)]
    for path, ecn in kinds:
        for name, value in zip(("k_min", "k_max", "p_max"), ecn.settings if ecn else (), strict=False):
            missing = [rate for rate in rates if isinstance(value, dict) and rate not in value]
            if missing:
                yield (
                    (*path, name),
                    f"found nothing for {format_rate(missing[0])}, expected a value for every rate of a link",
                )
    named: set[int] = set()
    for index, own in enumerate(switch.ecn_by_priority):
        again = sorted(named & set(own.priorities))
        if again:
            path = (*at, "ecn_by_priority", index, "priorities")
            yield path, f"found {again[0]}, expected priorities that no entry before has"
        named |= set(own.priorities)


def _classes(scenario: Scenario) -> Problems:
    parts: list[tuple[Path, Any, list[int]]] = [(("host",), scenario.host.weights, strict_of(scenario.host))]
    parts += [(path, switch.weights, list(switch.strict)) for path, _, switch in places(scenario)]
    for path, weights, strict in parts:
        for priority in sorted(set(weights or ()) & set(strict)):
            yield (*path, "weights"), f"found a share for priority {priority}, expected none: it is strict"


def _code_points(scenario: Scenario) -> Problems:
    marked = [item for item in scenario.traffic if not isinstance(item, BETWEEN_NAMESPACES)]
    most = sum(8 if item.kind == "flows" else 1 for item in marked if item.dscp is not None)
    # Items without a DSCP have at most one code point per priority, and CNPs one more.
    if most + 9 > MAX_CODE_POINTS and (count := len(code_points(scenario))) > MAX_CODE_POINTS:
        yield (
            ("traffic",),
            f"found {count} different pairs of priority and dscp, expected at most {MAX_CODE_POINTS}",
        )


def _failures(scenario: Scenario, network: Network) -> Problems:
    misspelt = 0
    for index, failure in enumerate(scenario.failures):
        if failure.link not in network.wire_number:
            likely = _nearest_link(failure.link, network) if misspelt < MAX_GUESSES else None
            misspelt += 1
            likely = likely or network.wires[-1].name
            yield (
                ("failures", index, "link"),
                f"found {found(failure.link)}, expected a link of the network, such as {likely}",
            )
        elif failure.at >= scenario.run.duration:
            yield ("failures", index, "at"), _late(failure.at, scenario.run.duration)


def _recorded(scenario: Scenario, network: Network) -> Problems:
    every = ports(network)
    for index, pattern in enumerate(scenario.record.queues or ()):
        if not any(chooses(pattern, node, port) for node, port in every):
            such = f"switches or ports of them, such as {every[0][0]} or {every[0][1]}" if every else ""
            text = f"found {found(pattern)}, expected {such or 'null, as there is no switch'}"
            yield ("record", "queues", index), text


def _nearest_link(name: str, network: Network) -> str | None:
    """The link that is most similar to a name; one with an end that the name contains, if there is one."""
    ends = [(name[:at], name[at + 1 :]) for at, letter in enumerate(name) if letter == "-"]
    nodes = {node for pair in ends for node in pair if node in network.wires_of}
    links = [wire.name for node in sorted(nodes) for wire in network.wires_of[node]]
    return nearest(name, (links or list(network.wire_number))[:MAX_COMPARED_LINKS])


def _late(start: int, duration: int) -> str:
    return f"found {format_duration(start)}, expected less than run.duration, {format_duration(duration)}"


def _traffic(scenario: Scenario, network: Network, index: int) -> Problems:
    item, path = scenario.traffic[index], ("traffic", index)
    if isinstance(item, BETWEEN_NAMESPACES):
        return
    known = True
    for field, entries in host_sets(item).items():
        for entry in entries:
            if any(name not in network.host_number for name in names((entry,), network.hosts)):
                known = False
                yield (*path, field), f"found {found(entry)}, expected hosts of {hosts_in_words(network)}"
    if not isinstance(item, Flows) and item.start >= scenario.run.duration:
        yield (*path, "start"), _late(item.start, scenario.run.duration)
    elif known:
        yield from _of_kind(scenario, network, index)


def _of_kind(scenario: Scenario, network: Network, index: int) -> Problems:
    item, path = scenario.traffic[index], ("traffic", index)
    assert not isinstance(item, BETWEEN_NAMESPACES), "those have checks of their own"
    if isinstance(item, (Write, WriteLatency, TcpStreams)) and queue_pairs(scenario, index) == 0:
        yield (*path, "to"), f'found only the sender, "{item.to[0]}", expected another host'
    if isinstance(item, (Write, TcpStreams)):
        yield from _one_by_one(item, network, path)
    if isinstance(item, TcpStreams):
        return
    if isinstance(item, WriteLatency):
        yield from _outstanding(scenario, path, item.message)
    elif isinstance(item, Write):
        yield from _outstanding(scenario, path, item.message, item.depth)
    elif isinstance(item, Churn):
        yield from _comes_and_goes(scenario, item, path)
    elif isinstance(item, Flows):
        yield from _listed(scenario, index)
    elif isinstance(item, Incast):
        sources, targets = (set(names(entry, network.hosts)) for entry in (item.from_, item.to))
        most = len(sources) - (1 if sources & targets else 0)
        if item.fan_in > most:
            yield (*path, "fan_in"), f"found {item.fan_in}, expected at most {most}, the senders there are"
        yield from _outstanding(scenario, path, item.message)
    elif len(names(item.hosts, network.hosts)) < 2:
        yield (*path, "hosts"), "found one host, expected two or more"
    elif is_job(item):
        yield from job_conflicts(scenario, index)
    elif isinstance(item, Poisson):
        yield from _sizes(scenario, item, path)
    else:
        assert isinstance(item, (Permutation, AllToAll))
        yield from _outstanding(scenario, path, item.message or 1)


def _one_by_one(item: Write | TcpStreams, network: Network, path: Path) -> Problems:
    """True if senders that start one after the other all start before `stop`."""
    if item.stop is None or item.start_interval == 0:
        return
    receivers = set(names(item.to, network.hosts))
    turns = enumerate(names(item.from_, network.hosts))
    last = max((turn for turn, sender in turns if receivers != {sender}), default=0)
    if item.start + last * item.start_interval >= item.stop:
        most = (item.stop - item.start - 1) // last
        text = f"found {format_duration(item.start_interval)}, expected at most {format_duration(most)}"
        yield (*path, "start_interval"), f"{text}, so that every sender starts before stop"


def _comes_and_goes(scenario: Scenario, item: Churn, path: Path) -> Problems:
    hosts = scenario.network.hosts
    receivers = set(names(item.to, hosts))
    senders = [sender for sender in names(item.from_, hosts) if receivers != {sender}]
    if senders and item.senders is not None and item.senders > len(senders):
        text = f"found {item.senders}, expected at most {len(senders)}, the hosts in from with another in to"
        yield (*path, "senders"), text
    if not senders:
        yield (*path, "to"), f'found only a sender, "{item.to[0]}", expected another host'
    yield from _outstanding(scenario, path, item.message, item.depth)


def _outstanding(scenario: Scenario, path: Path, message: int, depth: int = 1) -> Problems:
    packets = -(-message // scenario.host.mtu)
    if packets * depth <= MAX_OUTSTANDING:
        return
    if depth > 1:
        most = MAX_OUTSTANDING // packets
        yield (*path, "depth"), f"found {depth}, expected at most {most}, with {packets} packets a message"
    else:
        largest = format_size(MAX_OUTSTANDING * scenario.host.mtu)
        yield (*path, "message"), f"found {format_size(message)}, expected at most {largest} at this MTU"


def _listed(scenario: Scenario, index: int) -> Problems:
    from tailback.workload import messages_of
    from tailback.workload.lists import ListError

    item = scenario.traffic[index]
    assert isinstance(item, Flows)
    path: Path = ("traffic", index, "file" if item.list_ is None else "list")
    try:
        messages_of(scenario, index)
    except ListError as error:
        yield (path if error.line is None else (*path, error.line)), str(error)
    except InputError as error:
        yield path, error.problems[0].text


def _sizes(scenario: Scenario, item: Poisson, path: Path) -> Problems:
    from tailback.workload.sizes import built_in, load_sizes

    try:
        load_sizes(item.sizes, scenario.read)
    except InputError as error:
        known = ", ".join(built_in())
        text = error.problems[0].text
        if "no such file" in text:
            text = f"found {found(item.sizes)}, expected one of {known}, or a file with one"
        yield (*path, "sizes"), text
    except ValueError as error:
        yield (*path, "sizes"), str(error)


def hosts_in_words(network: Network) -> str:
    """The range of host names, such as `h0..h15`."""
    first, last = network.hosts[0], network.hosts[-1]
    return f"{first}..{last}, or {ALL_HOSTS}" if len(network.switches) > 1 else f"{first}..{last}"
