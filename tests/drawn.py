"""Valid scenarios, drawn from a seed: any network, any traffic, any settings that go together.

`draw(seed, number)` gives the same scenario for the same two numbers, everywhere. A run of it takes the
engine some 10 ms: first it is drawn how many packets there are; from these follows how long it lasts. What
`load` refuses as impossible only as a whole is drawn again, or made larger where it was too small.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import drawn_hosts
import drawn_traffic
import yaml
from tailback.errors import InputError
from tailback.scenario import Scenario, load
from tailback.scenario.presets import PRESETS

Json = dict[str, Any]
T = TypeVar("T")

GBPS = 10**9
RATES = (1, 10, 25, 40, 50, 100, 100, 200, 400, 800)
"""Of links, Gbit/s."""


class Dice:
    """Random choices, in the words of scenarios."""

    def __init__(self, key: str) -> None:
        self.random = random.Random(key)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, *of: T) -> T:
        return self.random.choice(of)

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def share(self, low: float = 0.0, high: float = 1.0) -> float:
        return round(self.random.uniform(low, high), 3)

    def log(self, low: float, high: float) -> int:
        """A whole number whose logarithm is evenly spread."""
        return max(1, round(low * (high / low) ** self.random.random()))

    def some(self, of: Sequence[T], least: int = 0) -> list[T]:
        """Some of these, in their order."""
        chosen = set(self.random.sample(range(len(of)), self.whole(min(least, len(of)), len(of))))
        return [one for at, one in enumerate(of) if at in chosen]

    def settings(self, share: float, **of: Callable[[], Any]) -> Json:
        """Some settings, each given with a probability; the others keep their defaults."""
        return {name: value() for name, value in of.items() if self.chance(share)}


def ps(time: float) -> str:
    return f"{max(0, round(time))}ps"


def bps(rate: float) -> str:
    return f"{round(rate)}bps"


def size(bytes_: float) -> str:
    return f"{max(1, round(bytes_))}B"


@dataclass(frozen=True)
class Scale:
    """How large a run is: what everything else is measured by."""

    duration: int
    """ps."""
    rate: int
    """Of the fastest link, bit/s."""
    mtu: int
    packets: int
    """About so many are sent."""


@dataclass
class Drawn:
    """A scenario, and the files that it names."""

    name: str
    data: Json
    files: dict[str, str] = field(default_factory=dict)

    def save(self, folder: Path) -> Path:
        """Writes the scenario and its files, and gives its path."""
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = folder / "scenario.yaml"
        path.write_text(yaml.safe_dump(self.data, sort_keys=False), encoding="utf-8")
        return path

    def load(self) -> Scenario:
        """The scenario, checked."""
        if not self.files:
            return load(copy.deepcopy(self.data))
        with TemporaryDirectory() as folder:
            return load(str(self.save(Path(folder))))


def draw(seed: int, number: int, refusals: list[str] | None = None) -> Drawn:
    """The scenario of this number. `refusals` gets what was refused on the way."""
    attempt = 0
    while True:
        dice = Dice(f"soak {seed} {number} {attempt}")
        found = _mended(_draw(dice, f"drawn-{seed}-{number}"), refusals)
        if found is not None:
            return found
        attempt += 1


GROWS = ("buffer", "lossless_size", "lossy_size", "duration", "quanta")
"""What is doubled where they are too small for the rest."""


def _mended(drawn: Drawn, refusals: list[str] | None) -> Drawn | None:
    for _ in range(16):
        try:
            drawn.load()
            return drawn
        except InputError as error:
            problem = error.problems[0]
            if refusals is not None:
                refusals.append(str(problem))
            holder: Any = drawn.data
            for part in problem.path[:-1]:
                holder = holder[part] if isinstance(holder, list) else holder.get(part, {})
            name = problem.path[-1] if problem.path else ""
            if name not in GROWS or not isinstance(holder, dict) or name not in holder:
                return None
            if isinstance(holder[name], int):
                holder[name] *= 2
                continue
            holder[name] = f"{2 * int(holder[name].rstrip('Bps'))}{holder[name].lstrip('0123456789')}"
    return None


def _draw(dice: Dice, name: str) -> Drawn:
    kind = dice.random.choices(("fabric", "bridge", "veth", "point-to-point"), (64, 16, 10, 10))[0]
    if kind == "veth":
        return Drawn(name, drawn_traffic.veth(dice, name))
    drawn = Drawn(name, {"name": name})
    data = drawn.data
    rate = GBPS * dice.pick(*RATES) if kind != "bridge" else GBPS * dice.pick(1, 10, 25, 40, 100)
    if dice.chance(0.1):
        rate += dice.whole(1, 999_999_999)
    mtu = dice.pick(256, 512, 1024, 1024, 2048, 4096)
    packets = dice.log(100, 10_000)
    # Where a core forwards, it takes some microseconds a packet whatever the link.
    packet_ps = max((mtu + 82) * 8 * 10**12 // rate, 1_500_000 if kind == "bridge" else 0)
    scale = Scale(packets * packet_ps // dice.pick(1, 2, 4), rate, mtu, packets)
    data["run"] = {"duration": ps(scale.duration), "seed": dice.whole(0, 2**63 - 1)}
    data["topology"] = _topology(dice, kind, scale, drawn.files)
    network = _network(drawn)
    if network is None:
        return drawn
    data["host"] = drawn_hosts.host(dice, scale, network.hosts)
    if kind == "bridge":
        data["bridge"] = drawn_hosts.bridge(dice, scale, network.hosts)
    if network.switches:
        if dice.chance(0.15):
            data["qos"] = dice.pick("lossless-with-qos", "lossy-default")
        data["switch"] = _switch(dice, scale)
    drawn_traffic.traffic(dice, scale, network.hosts, data, drawn.files)
    drawn_hosts.memory_load(dice, scale, network.hosts, data)
    if dice.chance(0.2):
        wires = [wire.name for wire in network.wires]
        data["failures"] = [_failure(dice, wires, scale) for _ in range(dice.whole(1, 3))]
    if dice.chance(0.3):
        data["record"] = dice.settings(
            0.7, max_bins=lambda: dice.log(16, 4000), qps=lambda: dice.pick(0, 1, 3, 1000)
        )
        if network.switches and dice.chance(0.3):
            data["record"]["queues"] = dice.pick(["*"], [], [network.switches[0]], ["*:h*", "*"])
    if "dcqcn" in data["host"] and dice.chance(0.4):
        data["host"]["dcqcn"]["wait_follows_rate"] = dice.chance(0.5)
    if dice.chance(0.15):
        data["preset"] = dice.pick(*sorted(PRESETS))
    selective = data["host"].get("transport", {}).get("loss_recovery") == "selective-repeat"
    if network.switches and selective and dice.chance(0.5):
        data["switch"]["trimming"] = dice.settings(
            0.5,
            size=lambda: size(dice.pick(64, 256, 1024)),
            queue=lambda: size(dice.log(1000, 1_000_000)),
            priority=lambda: dice.whole(0, 7),
        )
    return drawn


def _network(drawn: Drawn) -> Any:
    """Its network; None where it is impossible, which loading it says again."""
    probe = Drawn(drawn.name, {**drawn.data, "traffic": [{"kind": "write", "from": "all", "to": "all"}]})
    probe.files = drawn.files
    probe.data["switch"] = {"lossless": []}
    if drawn.data["topology"]["kind"] in ("bridge", "point-to-point"):
        del probe.data["switch"]
    try:
        return probe.load().network
    except InputError:
        return None


def _failure(dice: Dice, wires: list[str], scale: Scale) -> Json:
    at = dice.whole(0, scale.duration - 1)
    repair = {"repair": ps(at + dice.log(1, scale.duration))} if dice.chance(0.7) else {}
    return {"link": dice.pick(*wires), "at": ps(at), **repair}


def _link(dice: Dice, scale: Scale, share: float = 0.8) -> Json:
    return {
        "rate": bps(scale.rate if dice.chance(share) else dice.pick(*RATES[:6]) * GBPS),
        "delay": ps(dice.pick(0, dice.log(1, scale.duration // 50 + 2), dice.log(1000, 500_000))),
        **({"loss": dice.pick(1e-9, 1e-4, 0.01, 0.2)} if dice.chance(0.08) else {}),
    }


def _topology(dice: Dice, kind: str, scale: Scale, files: dict[str, str]) -> Json:
    link = {"link": _link(dice, scale)}

    def other(name: str) -> Json:
        return {name: _link(dice, scale, 0.5)} if dice.chance(0.5) else {}

    if kind == "bridge":
        return {"kind": "bridge", "hosts": dice.whole(2, 5), **link}
    if kind == "point-to-point":
        return {"kind": "point-to-point", **link}
    form = dice.random.choices(
        ("star", "dumbbell", "leaf-spine", "fat-tree", "fat-tree-2level", "rail-optimised", "graph", "file"),
        (30, 12, 12, 5, 8, 8, 17, 8),
    )[0]
    if form == "star":
        return {"kind": form, "hosts": dice.whole(2, 9), **link}
    if form == "dumbbell":
        return {
            "kind": form,
            "left": dice.whole(1, 4),
            "right": dice.whole(1, 4),
            **link,
            **other("bottleneck"),
        }
    if form == "leaf-spine":
        sizes = {"leaves": dice.whole(1, 3), "spines": dice.whole(1, 3), "hosts_per_leaf": dice.whole(1, 3)}
        return {"kind": form, **sizes, **link, **other("fabric")}
    if form == "fat-tree":
        return {"kind": form, "k": dice.pick(2, 4), **link, **other("aggregation"), **other("core")}
    if form == "fat-tree-2level":
        leaves = dice.whole(1, 4)
        over = {"oversubscription": dice.pick(0.5, 1.0, 2.0, 3.3)} if dice.chance(0.7) else {}
        hosts = {"hosts": leaves * dice.whole(2, 4), "leaves": leaves}
        return {"kind": form, **hosts, **over, **link, **other("fabric")}
    if form == "rail-optimised":
        units = dice.pick(1, 1, 2)
        servers = {"servers": units * dice.whole(1, 3), "units": units}
        spines = {"nics": dice.whole(2, 4), "spines": dice.whole(1, 2)}
        return {"kind": form, **servers, **spines, **link, **other("fabric")}
    switches, links = _graph(dice, scale)
    if form == "graph":
        return {"kind": form, "switches": switches, "links": links, **link}
    if dice.chance(0.5):
        files["net.yaml"] = yaml.safe_dump({"switches": switches, "links": links, **link})
        return {"kind": form, "path": "net.yaml"}
    files["topology.txt"] = _topology_txt(dice, scale)
    return {"kind": form, "path": "topology.txt"}


def _graph(dice: Dice, scale: Scale) -> tuple[list[str], list[str]]:
    """Some switches in a tree, maybe with loops, and hosts at them; each link maybe with its own settings."""

    def line(a: str, b: str) -> str:
        own = _link(dice, scale, 0.5)
        loss = f" {own['loss']}" if "loss" in own else ""
        return f"{a} {b} {own['rate']} {own['delay']}{loss}" if dice.chance(0.6) else f"{a} {b}"

    switches = [f"x{number}" for number in range(dice.whole(1, 5))]
    pairs = [(dice.pick(*switches[:at]), switches[at]) for at in range(1, len(switches))]
    for a in switches:
        pairs += [(a, b) for b in switches if a < b and (a, b) not in pairs and dice.chance(0.25)]
    links = [line(a, b) for a, b in pairs]
    links += [line(f"h{number}", dice.pick(*switches)) for number in range(dice.whole(2, 7))]
    return switches, links


def _topology_txt(dice: Dice, scale: Scale) -> str:
    """A star or a chain of two switches, in the HPCC simulator's form: nodes 0 to n-1 are hosts."""
    hosts, switches = dice.whole(2, 5), dice.whole(1, 2)
    nodes = [hosts + number for number in range(switches)]
    pairs = [(number, dice.pick(*nodes)) for number in range(hosts)] + (
        [tuple(nodes)] if switches > 1 else []
    )
    gbps = max(1, scale.rate // GBPS)
    lines = [f"{a} {b} {gbps}Gbps {dice.log(1, 2000)}ns 0" for a, b in pairs]
    return "\n".join([f"{hosts + switches} {switches} {len(lines)}", " ".join(map(str, nodes)), *lines, ""])


def _priorities(dice: Dice) -> list[int]:
    return dice.pick([3], [3], [3], [], [0], [3, 4], [0, 3, 6], list(range(8)))


def classification(dice: Dice) -> Json:
    """What puts packets into classes."""
    return dice.settings(
        0.5,
        trust=lambda: dice.pick("dscp", "pcp", "port"),
        default_priority=lambda: dice.whole(0, 7),
        dscp=lambda: {str(dice.whole(0, 63)): dice.whole(0, 7) for _ in range(3)},
        pcp=lambda: {str(dice.whole(0, 7)): dice.whole(0, 7) for _ in range(2)},
    )


def weights(dice: Dice, strict: list[int]) -> dict[str, int] | None:
    """Shares of classes that are not strict."""
    classes = dice.some([one for one in range(8) if one not in strict], 1)[:4]
    shares = dict.fromkeys(map(str, classes), 100 // max(1, len(classes)))
    if shares:
        shares[str(classes[0])] += 100 - sum(shares.values())
    return shares or None


def _ecn(dice: Dice, scale: Scale) -> Json:
    low = dice.log(1, 400_000)
    high = low + dice.log(1, 1_000_000)
    return {"k_min": size(low), "k_max": size(high), "p_max": dice.pick(0.0, 0.01, 0.2, 1.0)}


def _switch(dice: Dice, scale: Scale) -> Json:
    lossless = _priorities(dice)
    strict = dice.pick([6], [6], [], [3], [0, 7], list(range(8)))
    switch: Json = {"lossless": lossless, "strict": strict}
    switch |= dice.settings(
        0.4,
        buffer=lambda: size(dice.log(10_000, 100_000_000)),
        shared=lambda: size(dice.log(2_000, 2_000_000)),
        latency=lambda: ps(dice.pick(0, 1, dice.log(1000, 5_000_000))),
        weights=lambda: weights(dice, strict),
        ecn=lambda: dice.pick(None, _ecn(dice, scale), _ecn(dice, scale)),
        ingress_alpha=lambda: dice.pick(0.01, 0.125, 1.0, 8.0, 1024.0),
        egress_alpha=lambda: dice.pick(0.01, 0.125, 2.0, 1024.0),
        load_balancing=lambda: dice.pick("ecmp", "flowlet", "spray", "adaptive"),
        flowlet_gap=lambda: ps(dice.pick(0, dice.log(1000, 1_000_000_000))),
    )
    # Headroom takes its part of it; `draw` makes it larger until that fits.
    switch.setdefault("buffer", "16000000B")
    if dice.chance(0.15):
        switch["qos"] = classification(dice)
    if dice.chance(0.15):
        switch["pools"] = {"lossless": size(dice.log(2000, 4_000_000))}
    if dice.chance(0.15):
        switch["ecn_by_priority"] = [{"priorities": [dice.whole(0, 7)], **_ecn(dice, scale)}]
    if dice.chance(0.5):
        switch["pfc"] = dice.settings(
            0.4,
            xon_offset=lambda: size(dice.log(1, 50_000)),
            quanta=lambda: dice.pick(2, 100, dice.log(2, 65535), 65535),
            response_delay=lambda: ps(dice.pick(0, dice.log(1000, 5_000_000))),
        )
        if dice.chance(0.2):
            xoff = dice.log(100, 200_000)
            switch["pfc"]["xoff"] = size(xoff)
            if dice.chance(0.5):
                switch["pfc"]["xon"] = size(dice.whole(1, xoff) - 1) if xoff > 1 else "0B"
        if dice.chance(0.1):
            switch["pfc"]["headroom"] = size(dice.log(1, 100_000))
    if dice.chance(0.25):
        switch["watchdog"] = dice.settings(
            0.9,
            detection_time=lambda: ps(dice.log(100_000, 100_000 + scale.duration)),
            restoration_time=lambda: ps(dice.log(100_000, 100_000 + scale.duration)),
        )
    return switch
