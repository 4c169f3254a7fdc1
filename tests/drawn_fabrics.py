"""Fabrics drawn at random that ask for pauses all the time: none may lose a packet with `headroom: auto`.

`python tests/drawn_fabrics.py 2000` runs so many, each also with a largest packet less, and prints what
came of it.
"""

from __future__ import annotations

import json
import random
import sys
from itertools import pairwise
from typing import Any

from tailback._engine import Simulation
from tailback.plan import make_plan, plan_json
from tailback.scenario import Scenario, loads
from tailback.scenario.headroom import largest_packet, least_quanta
from tailback.wire import PREAMBLE_AND_GAP_BYTES

RATES_GBPS = (10, 25, 40, 50, 100, 200, 400, 800)
MOST_DELAY_PS = 40 * 10**6
MTUS = (256, 512, 1024, 2048, 4096)
MOST_PACKETS_IN_FLIGHT = 2000


def draw(number: int) -> Scenario:
    """The fabric of this number, with what is sent over it."""
    rng = random.Random(number)
    document = _document(rng)
    scenario = loads(json.dumps(document))
    least = least_quanta(scenario)
    quanta = 65_535 if rng.random() < 0.7 else int(least * (65_535 / least) ** rng.random())
    document["switch"]["pfc"]["quanta"] = quanta
    _paths(rng, document, scenario)
    if rng.random() < 0.2:
        _failure(rng, document, scenario)
    return loads(json.dumps(document))


def lossless_drops(plan: dict[str, Any]) -> list[str]:
    """What a run lost in lossless priorities, a line for each place; its books must balance."""
    simulation = Simulation(plan_json(plan))
    while not simulation.advance(1_000_000).done:
        pass
    meta = json.loads(simulation.finish().meta_json)
    assert meta["conservation"]["ok"], meta["faults"]
    return [fault["text"] for fault in meta["faults"] if fault["kind"] == "lossless_drop"]


def with_less(scenario: Scenario) -> dict[str, Any]:
    """The plan with one largest packet less of headroom at switches and of room above xoff at NICs."""
    plan = make_plan(scenario)
    frame = largest_packet(scenario) - PREAMBLE_AND_GAP_BYTES
    for link in plan["links"]:
        link["headroom_bytes"] -= frame
    for nic in plan["nics"]:
        for part in (nic["host_path"] or {}).get("receive_buffers", ()):
            if part["xoff_bytes"] is not None:
                part["xoff_bytes"] += frame
    return plan


def _rate(rng: random.Random) -> int:
    """Mbit/s: mostly what Ethernet has."""
    if rng.random() < 0.8:
        return rng.choice(RATES_GBPS) * 1000
    return rng.randint(10_000, 800_000)


def _delay(rng: random.Random, most: int) -> int:
    """ps; none, or of any order."""
    return 0 if rng.random() < 0.2 else int(most ** rng.random())


def _links(rng: random.Random) -> tuple[list[str], list[list[Any]], list[str]]:
    """Switches, links (two ends, Mbit/s, ps) and hosts of a tree or of leaves and spines."""
    rate, delay = _rate(rng), _delay(rng, MOST_DELAY_PS)
    form = rng.choice(["star", "star", "chain", "leaf-spine"])
    count = {"star": 1, "chain": rng.randint(2, 3), "leaf-spine": 2}[form]
    switches = [f"sw{i}" for i in range(count)]
    hosts = [f"h{i}" for i in range(rng.randint(max(3, count), 12))]
    links = [[host, switches[i % count], rate, delay] for i, host in enumerate(hosts)]
    if form == "chain":
        links += [[a, b, rng.choice([rate, _rate(rng)]), delay] for a, b in pairwise(switches)]
    if form == "leaf-spine":
        spines = [f"spine{i}" for i in range(rng.randint(1, 3))]
        fabric = rng.choice([rate, _rate(rng)])
        links += [[leaf, spine, fabric, delay] for leaf in switches for spine in spines]
        switches += spines
    for link in links:
        if rng.random() < 0.1:
            link[2] = _rate(rng)
        if rng.random() < 0.2:
            link[3] = _delay(rng, MOST_DELAY_PS)
    if rng.random() < 0.5:
        links[0][2] = min(link[2] for link in links)  # h0, to whom all send: the slower, the longer all wait
        if rng.random() < 0.5:
            links[0][2] = 1000
    return switches, links, hosts


def _document(rng: random.Random) -> dict[str, Any]:
    """All but the hosts' paths and the quanta."""
    switches, links, hosts = _links(rng)
    rate, delay = max(link[2] for link in links), max(link[3] for link in links)
    latency, response = _delay(rng, 10**6), rng.choice([2_017_280, _delay(rng, 5 * 10**6)])
    span_ps = 2 * delay + latency + response
    in_flight = span_ps * rate // 8_000_000
    mtu = rng.choice([mtu for mtu in MTUS if in_flight / mtu < MOST_PACKETS_IN_FLIGHT] or [4096])
    lossless = rng.choice([[3], [3], [3, 4]])
    tcp = rng.random() < 0.3
    traffic = [_write(rng, mtu, "all", "h0", lossless)]
    for _ in range(rng.randint(0, 3)):
        some = rng.sample(hosts, rng.randint(1, len(hosts) - 1))
        others = [host for host in hosts if host not in some]
        traffic.append(_write(rng, mtu, some, others, [*lossless, 0]))
    if tcp:
        priority = rng.choice([0, *lossless])
        traffic.append({"kind": "tcp", "from": "all", "to": rng.choice(hosts), "priority": priority})
    # Room for a few packets, or many: what it is does not matter to what comes after it is full.
    shared = int(2000 * 1000 ** rng.random()) + in_flight // 10
    packet_ps = (mtu + 98) * 8_000_000 // min(link[2] for link in links[1:])
    pfc: dict[str, Any] = {"response_delay": f"{response}ps"}
    if rng.random() < 0.3:
        pfc |= {"xoff": f"{rng.randint(1, shared)}B", "xon_offset": "0B"}
    return {
        "name": "drawn",
        "run": {"duration": f"{6 * span_ps + 300 * packet_ps + 10**6}ps", "seed": rng.randint(0, 10**6)},
        "topology": {
            "kind": "graph",
            "switches": switches,
            "links": [f"{a} {b} {mbps}Mbps {ps}ps" for a, b, mbps, ps in links],
        },
        "host": {
            "mtu": f"{mtu}B",
            "rx_latency": f"{_delay(rng, 10**6)}ps",
            "congestion": rng.choice(["none", "none", "none", "dcqcn", "hpcc"]),
            "tcp": {"mtu": f"{rng.choice([576, 1500, 4000, 9000])}B"},
            "transport": {"ack_every": 1},
        },
        "switch": {
            "buffer": "4294967295B",
            "shared": f"{shared}B",
            "latency": f"{latency}ps",
            "lossless": lossless,
            "ingress_alpha": rng.choice([0.125, 1.0, 8.0]),
            "pfc": pfc,
        },
        "traffic": traffic,
    }


def _write(rng: random.Random, mtu: int, senders: Any, to: Any, priorities: list[int]) -> dict[str, Any]:
    """A storm. Messages of one packet each are the worst: every packet is as long as a packet can be."""
    message = mtu if rng.random() < 0.6 else rng.choice([1, 3 * mtu + 7, 65_536, rng.randint(1, 2 * mtu)])
    return {
        "kind": "write",
        "from": senders,
        "to": to,
        "priority": rng.choice(priorities),
        "message": f"{message}B",
        "qps": rng.randint(1, 3),
        "bidirectional": rng.random() < 0.7,
        "start_spread": f"{_delay(rng, 10**6)}ps",
    }


def _paths(rng: random.Random, document: dict[str, Any], scenario: Scenario) -> None:
    """Gives some a host whose NIC asks for pauses: its PCIe is slower than its link, or its GPU stalls."""
    if rng.random() < 0.6 or scenario.has_tcp:  # TCP at a host with a path is refused
        return
    wire = scenario.network.wires_of["h0"][0]
    response = _delay(rng, 5 * 10**6)
    most = 2 * wire.delay + response + scenario.host.rx_latency + 10**6
    size = max(9216, most * wire.rate // (8 * 10**12) + 5 * largest_packet(scenario)) + rng.randint(
        0, 100_000
    )
    path: dict[str, Any] = {
        "hosts": "h0",
        "preset": "pcie3-x8",
        "rate": f"{rng.choice([2, 5, wire.rate // 10**9 + 1])}Gbps",
        "receive_buffer": {"lossless_size": f"{size}B", "response_delay": f"{response}ps"},
    }
    if rng.random() < 0.5:
        path |= {"target": "gpu", "gpu": {"stalls": {"interval": "20us", "duration": "20us"}}}
    document["host"]["path_by_host"] = [path]


def _failure(rng: random.Random, document: dict[str, Any], scenario: Scenario) -> None:
    """A link that fails and comes back."""
    half = scenario.run.duration // 2
    failed = rng.randint(0, half)
    repaired = failed + 1 + int(half * rng.random() ** 3)
    link = rng.choice(scenario.network.wires).name
    document["failures"] = [{"link": link, "at": f"{failed}ps", "repair": f"{repaired}ps"}]


def main(count: int) -> None:
    """Draws so many fabrics and prints the figures; status 1 where one with auto lost something."""
    lost, lost_with_less = [], 0
    for number in range(count):
        scenario = draw(number)
        if found := lossless_drops(make_plan(scenario)):
            lost.append(number)
            print(f"fabric {number}: {found[0]}")
        lost_with_less += bool(lossless_drops(with_less(scenario)))
    print(
        f"{count} fabrics: {len(lost)} lost a packet with auto, {lost_with_less} with a largest packet less"
    )
    sys.exit(bool(lost))


if __name__ == "__main__":
    main(int(sys.argv[1]))
