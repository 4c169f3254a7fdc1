"""The longest round trip of a network without queues, a parameter of congestion controls.

Li et al., "HPCC", SIGCOMM 2019, section 3.2: T is the base RTT of the network, the same for all flows.
"""

from __future__ import annotations

from typing import NamedTuple

from tailback.scenario.congestion import has_window, telemetry_bytes
from tailback.scenario.model import Host, Scenario
from tailback.scenario.network import Wire
from tailback.text import plural
from tailback.wire import ACK_WIRE_BYTES, RETH_BYTES, ROCE_OVERHEAD_BYTES

MAX_WINDOW = 65_535
"""Packets that selective repeat may have in flight."""
ROUND_PS = 100_000
"""The time is rounded up to 100 ns: too long a time costs little, too short a time throttles."""


class RoundTrip(NamedTuple):
    """A round trip: its time in ps, rounded up, and why it takes that long."""

    time: int
    src: str
    dst: str
    links: int
    packet_bytes: int
    ack_bytes: int

    @property
    def why(self) -> str:
        """Description of the round trip."""
        links = plural(self.links, "link")
        return (
            f"{self.src} to {self.dst}, {links}, with a packet of {self.packet_bytes}B one way and an ACK of "
            f"{self.ack_bytes}B back"
        )


class _PathTime(NamedTuple):
    """Times of a full packet along a path and of its ACK back, each on the slowest route, in ps."""

    packet: int
    ack: int


class _Host(NamedTuple):
    """Contribution of a host's link to a round trip, at either end."""

    time: int
    name: str


_Neighbours = dict[str, list[tuple[str, _PathTime]]]


def longest_round_trip(scenario: Scenario) -> RoundTrip:
    """The longest round trip between two hosts on shortest routes, where nothing else is sent.

    A full packet goes one way and its ACK the other, each on the slowest of the routes that ECMP may choose:
    at each link transmission, propagation, and the latency of the node at its end. Worked out once.
    """
    if scenario._round_trip is None:
        scenario._round_trip = _longest(scenario)
    found: RoundTrip = scenario._round_trip
    return found


def window_packets(host: Host, rate_bps: int, round_trip: int | None) -> int | None:
    """The window of selective repeat of a NIC on a link of `rate_bps`: given, or what the link carries in the
    longest round trip, by full packets on the wire; none where there is no such window.
    """
    if not has_window(host) or host.transport.window_packets is not None:
        return host.transport.window_packets
    assert round_trip is not None
    frame = host.mtu + ROCE_OVERHEAD_BYTES + RETH_BYTES
    return max(1, min(-(-rate_bps * round_trip // (frame * 8 * 10**12)), MAX_WINDOW))


def _longest(scenario: Scenario) -> RoundTrip:
    network = scenario.network
    latency = max((switch.latency for switch in scenario.switch_of.values()), default=scenario.switch.latency)
    extra = telemetry_bytes(scenario)
    sizes = (scenario.host.mtu + extra + ROCE_OVERHEAD_BYTES + RETH_BYTES, ACK_WIRE_BYTES + extra)
    switches = set(network.switches)

    def way(wire: Wire) -> _PathTime:
        return _PathTime(*(-(-size * 8 * 10**12 // wire.rate) + wire.delay + latency for size in sizes))

    if network.bridges:
        bridge = scenario.bridge
        assert bridge is not None, "the model has filled it in"
        per_wire = sorted(((sum(way(wire)) - 2 * latency, wire.a) for wire in network.wires), reverse=True)
        (slowest, src), (slower, dst) = per_wire[:2]
        time = slowest + slower + 2 * (scenario.host.rx_latency + bridge.least_latency)
        return RoundTrip(_rounded(time), src, dst, 2, *sizes)
    if not switches:
        wire = network.wires[0]
        time = sum(way(wire)) + 2 * (scenario.host.rx_latency - latency)  # no switch at either end
        return RoundTrip(_rounded(time), wire.a, wire.b, 1, *sizes)
    hosts: dict[str, list[_Host]] = {}
    for name in network.hosts:
        wire = network.wires_of[name][0]
        # On a host's link either the packet or its ACK arrives at the host, the other one at the switch.
        time = sum(way(wire)) - latency + scenario.host.rx_latency
        hosts.setdefault(wire.b if wire.a == name else wire.a, []).append(_Host(time, name))
    # Only the two farthest hosts at each switch matter.
    farthest = {switch: sorted(found, key=lambda host: -host.time)[:2] for switch, found in hosts.items()}
    neighbours: _Neighbours = {
        switch: [
            (other, way(wire))
            for wire in network.wires_of[switch]
            if (other := wire.b if wire.a == switch else wire.a) in switches
        ]
        for switch in network.switches
    }
    found = []
    for group in _alike(farthest, neighbours):
        for switch in group:
            if len(farthest[switch]) == 2:
                first, second = farthest[switch]
                found.append((first.time + second.time, first.name, second.name, 2))
        near = sorted((farthest[switch][0] for switch in group), key=lambda host: -host.time)
        inside = set(group)
        for switch, (links, times) in _slowest_ways(group[0], neighbours).items():
            if switch == group[0] or switch not in farthest:
                continue
            first, second = near[:2] if switch in inside else (near[0], farthest[switch][0])
            found.append((first.time + sum(times) + second.time, first.name, second.name, links + 2))
    time, src, dst, links = max(found, key=lambda one: one[0])
    return RoundTrip(_rounded(time), src, dst, links, *sizes)


def _rounded(time: int) -> int:
    return -(-time // ROUND_PS) * ROUND_PS


def _alike(switches: dict[str, list[_Host]], neighbours: _Neighbours) -> list[list[str]]:
    """Switches in groups that have the same links to the same others: from all of a group the ways to the
    rest of the network are the same. In a fat tree a group is a pod.
    """
    groups: dict[frozenset[tuple[str, _PathTime]], list[str]] = {}
    for switch in switches:
        groups.setdefault(frozenset(neighbours[switch]), []).append(switch)
    return list(groups.values())


def _slowest_ways(start: str, neighbours: _Neighbours) -> dict[str, tuple[int, _PathTime]]:
    """From one switch to each: the links of a shortest route, and the slowest of these routes."""
    found = {start: (0, _PathTime(0, 0))}
    frontier, links = {start: _PathTime(0, 0)}, 0
    while frontier:
        links += 1
        following: dict[str, _PathTime] = {}
        for node, (packet, ack) in frontier.items():
            for other, link in neighbours[node]:
                if other not in found:
                    slowest = following.get(other, _PathTime(0, 0))
                    following[other] = _PathTime(
                        max(slowest.packet, packet + link.packet), max(slowest.ack, ack + link.ack)
                    )
        found.update({node: (links, way) for node, way in following.items()})
        frontier = following
    return found
