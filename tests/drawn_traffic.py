"""Drawn traffic of every kind; and whole scenarios between two namespaces, which have no other parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drawn_hosts import qdisc

if TYPE_CHECKING:
    from drawn import Dice, Scale

Json = dict[str, Any]

KINDS = {
    "write": 30,
    "write-latency": 8,
    "churn": 8,
    "tcp": 16,
    "flows": 10,
    "poisson": 7,
    "incast": 8,
    "permutation": 6,
    "all-to-all": 5,
}
"""Kinds of traffic between hosts, and how often each is drawn."""


def traffic(dice: Dice, scale: Scale, hosts: list[str], data: Json, files: dict[str, str]) -> None:
    """Adds `traffic`."""
    kinds = dice.random.choices(list(KINDS), list(KINDS.values()), k=dice.pick(1, 1, 2, 2, 3))
    data["traffic"] = [_item(dice, kind, scale, hosts, files) for kind in kinds]


def _sets(dice: Dice, hosts: list[str]) -> tuple[Any, Any]:
    """Senders and receivers, with at least one pair."""
    sender, receiver = dice.random.sample(hosts, 2)
    senders = [name for name in dice.some(hosts) if name != sender][:4]
    receivers = [name for name in dice.some(hosts) if name != receiver][:2] if dice.chance(0.3) else []
    return ("all" if dice.chance(0.15) else [sender, *senders]), [receiver, *receivers]


def _in_time(item: Json, hosts: list[str], when: Json, starts: Json, stop: Json) -> Json:
    """When to stop, if the last sender starts before that."""
    senders = hosts if item["from"] == "all" else item["from"]
    interval, start, end = (
        int(of.get(name, "0ps")[:-2])
        for of, name in ((starts, "start_interval"), (when, "start"), (stop, "stop"))
    )
    return stop if start + (len(senders) - 1) * interval < end else {}


def _item(dice: Dice, kind: str, scale: Scale, hosts: list[str], files: dict[str, str]) -> Json:
    from drawn import ps, size

    span, payload = scale.duration, scale.packets * scale.mtu

    def message(share: float = 4) -> str:
        return size(dice.log(1, payload / share))

    item: Json = {"kind": kind}
    marks = dice.settings(
        0.25, priority=lambda: dice.pick(0, 3, 3, 4, 6, 7), dscp=lambda: dice.pick(None, dice.whole(0, 63))
    )
    when = dice.settings(0.25, start=lambda: ps(dice.whole(0, span - 1)))
    stop = {"stop": ps(dice.log(span, 2 * span))} if dice.chance(0.2) else {}
    if kind in ("write", "write-latency", "churn", "tcp"):
        item["from"], item["to"] = _sets(dice, hosts)
    starts = dice.settings(
        0.2, start_interval=lambda: ps(dice.log(1, span / 4)), start_spread=lambda: ps(dice.log(1, span / 2))
    )
    if kind == "write":
        item |= dice.settings(
            0.5,
            qps=lambda: dice.log(1, 20),
            message=lambda: message(),
            depth=lambda: dice.log(1, 128),
            messages=lambda: dice.log(1, 1000),
            bidirectional=lambda: dice.chance(0.5),
        )
        return {**item, **marks, **when, **_in_time(item, hosts, when, starts, stop), **starts}
    if kind == "write-latency":
        item |= dice.settings(
            0.6, message=lambda: message(20), iterations=lambda: dice.pick(None, dice.log(1, 1000))
        )
        return {**item, **marks, **when}
    if kind == "churn":
        low = dice.log(1, span / 3)
        item |= {"interval": ps(span / dice.whole(2, 6)), "lifetime_max": ps(low + dice.log(1, span / 2))}
        item |= dice.settings(
            0.4,
            qps=lambda: dice.log(1, 4),
            lifetime_min=lambda: ps(low),
            message=lambda: message(),
            depth=lambda: dice.log(1, 128),
            senders=lambda: 1,
        )
        return {**item, **marks, **when, **stop}
    if kind == "tcp":
        item |= dice.settings(
            0.4,
            connections=lambda: dice.log(1, 8),
            bytes=lambda: message(),
            bidirectional=lambda: dice.chance(0.5),
        )
        return {**item, **marks, **when, **_in_time(item, hosts, when, starts, stop), **starts}
    if kind == "flows":
        pairs = [dice.random.sample(hosts, 2) for _ in range(dice.log(1, 12))]
        rows = [(a, b, dice.log(1, payload / 4), dice.whole(0, span - 1)) for a, b in pairs]
        if dice.chance(0.3):
            name = f"flows{len(files)}.csv"
            lines = [f"{a},{b},{bytes_}B,{ps(at)}" for a, b, bytes_, at in rows]
            files[name] = "\n".join(["src,dst,bytes,start", *lines, ""])
            return {**item, "file": name, **marks}
        return {**item, "list": [f"{a} {b} {bytes_}B {ps(at)}" for a, b, bytes_, at in rows], **marks}
    if kind == "poisson":
        item["sizes"] = dice.pick("websearch", "fb_hadoop", "alistorage", "file")
        if item["sizes"] == "file":
            item["sizes"] = f"sizes{len(files)}.txt"
            middle, largest = dice.log(2, 5000), dice.log(6000, payload / 20 + 7000)
            files[item["sizes"]] = f"1 0\n{middle} {dice.whole(1, 99)}\n{largest} 100\n"
            # Not more messages than there are packets.
            mean = (middle + largest) / 4
            most = mean * 8e12 * scale.packets / (scale.rate * span * len(hosts))
            return {**item, "load": min(dice.share(0.05, 1.5), max(most, 1e-9)), **marks, **when, **stop}
        return {**item, "load": dice.share(0.05, 1.5), **marks, **when, **stop}
    if kind == "incast":
        timing = {"load": dice.share(0.05, 1.0)} if dice.chance(0.3) else {"interval": ps(span / 5)}
        item |= {"fan_in": dice.whole(1, len(hosts) - 1), "message": message(8), **timing}
        return {**item, **dice.settings(0.3, bursts=lambda: dice.log(1, 5)), **marks, **when, **stop}
    chosen = {"hosts": dice.some(hosts, 2)} if dice.chance(0.3) else {}
    if kind == "permutation":
        item |= {"message": message(8), "repeat": dice.whole(1, 3)}
        return {**item, **chosen, **dice.settings(0.5, interval=lambda: ps(span / 4)), **marks, **when}
    item["message"] = message(20)
    return {
        **item,
        **chosen,
        **dice.settings(0.5, stagger=lambda: ps(dice.log(1, span / 4))),
        **marks,
        **when,
    }


def veth(dice: Dice, name: str) -> Json:
    """Two namespaces, and what is sent between them."""
    from drawn import ps, size

    span = dice.log(1e8, 2e10)

    def between() -> Json:
        ends = ["producer", "consumer"]
        dice.random.shuffle(ends)
        turned = {"from": ends[0], "to": ends[1]} if dice.chance(0.5) else {}
        return {
            **turned,
            **dice.settings(
                0.2,
                start=lambda: ps(dice.whole(0, span // 2)),
                stop=lambda: ps(dice.whole(span // 2 + 1, 2 * span)),
            ),
        }

    def flood() -> Json:
        return {
            "kind": "udp-flood",
            **between(),
            **dice.settings(
                0.3,
                payload=lambda: size(dice.log(1, 1472)),
                send=lambda: ps(dice.log(3e5, 1e7)),
                interval=lambda: ps(dice.log(1e5, 1e8)),
                sndbuf=lambda: size(dice.log(1, 1e6)),
                blocking=lambda: False,
            ),
        }

    def ping() -> Json:
        every = dice.log(1e6, span)
        return {
            "kind": "ping",
            **between(),
            "interval": ps(every),
            "spread": ps(dice.whole(0, every - 1)),
            **dice.settings(0.3, payload=lambda: size(dice.log(1, 1472))),
        }

    def frames() -> Json:
        found = {"kind": "xdp-frames", **between(), "interval": ps(dice.log(3e6, span))}
        return {
            **found,
            "batch": dice.log(1, 256),
            **dice.settings(0.3, frame=lambda: size(dice.log(34, 1514))),
        }

    consumer = dice.settings(
        0.3,
        rules=lambda: dice.log(1, 10_000),
        rule=lambda: ps(dice.log(1, 20_000)),
        stack=lambda: ps(dice.log(1e5, 1e7)),
        take=lambda: ps(dice.log(1e5, 1e7)),
        echo=lambda: dice.pick(1, 2.5, 50),
        jitter=lambda: dice.pick(0.1, 0.5, 0.999),
        wakeup=lambda: ps(dice.pick(0, dice.log(1, 1e8))),
        napi=lambda: dice.pick("threaded", "softirq"),
        gro_batch=lambda: dice.whole(1, 64),
    )
    settings = dice.settings(
        0.4,
        kernel=lambda: dice.pick("6.1", "6.18"),
        ring=lambda: dice.log(1, 2048),
        bql=lambda: dice.pick("none", "packets", "bytes"),
        tx_usecs=lambda: ps(dice.pick(0, dice.log(1, 1e9))),
        qdisc=lambda: qdisc(dice, 10**10, nowhere=True),
        output=lambda: ps(dice.log(1e5, 1e7)),
        multiqueue=lambda: dice.chance(0.5),
    )
    chosen = [make() for make in dice.some((flood, ping, frames), 1)]
    if dice.chance(0.2):
        chosen.append(flood())
    return {
        "name": name,
        "run": {"duration": ps(span), "seed": dice.whole(0, 2**63 - 1)},
        "topology": {"kind": "veth"},
        "veth": {**settings, "consumer": consumer},
        "traffic": chosen,
    }
