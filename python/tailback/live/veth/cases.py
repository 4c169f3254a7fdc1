"""Cases measured on the kernel's own veth pair, and costs for the model, fitted while the pair is idle."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from tailback.live.veth.namespaces import Namespaces
from tailback.scenario import Scenario, load
from tailback.scenario.qdisc import Noqueue
from tailback.scenario.veth import Ping, UdpFlood
from tailback.units import format_duration

BURST_PACKETS = (0, 16, 32, 48, 64)
"""Datagrams ahead of a ping; at most one poll of NAPI, so that they wait only for each other."""
REPEATS_PER_BURST = 20
PS_PER_NS, PS_PER_S = 10**3, 10**12

PFIFO_YAML = "{kind: pfifo}"
"""Used where the kernel lacks the scenario's queueing discipline."""


@dataclass(frozen=True)
class FittedCosts:
    """Costs of an idle pair, in ns."""

    packet_ns: float
    """Cost of a packet at the consumer: the slope of a ping's round trip over the packets ahead."""
    send_ns: float
    """A call of sendto."""
    ping_ns: float
    """A round trip without packets ahead."""

    def sets(self, scenario: Scenario) -> list[str]:
        """Settings of the model for these costs. The rules get the rest that the other parts leave."""
        assert scenario.veth is not None
        consumer = scenario.veth.consumer
        cost, rest = round(self.packet_ns * PS_PER_NS), consumer.stack + consumer.take
        flood, _ = parts(scenario)
        if consumer.rules and cost > rest:
            costs = [f"veth.consumer.rule={format_duration(round((cost - rest) / consumer.rules))}"]
        else:
            half = max(1, cost // 2)
            costs = ["veth.consumer.rules=0"]
            costs += [f"veth.consumer.{name}={format_duration(half)}" for name in ("stack", "take")]
        return [*costs, f"traffic.{flood}.send={format_duration(max(1, round(self.send_ns * PS_PER_NS)))}"]


@dataclass(frozen=True)
class Case:
    """A set-up of the pair, and its measurements."""

    scenario: Scenario
    """With the fitted costs, for the model."""
    xdp: bool
    fitted: FittedCosts
    found: dict[str, Any]


def parts(scenario: Scenario) -> tuple[int, int]:
    """Indices of the flood and the ping in the scenario's traffic."""
    floods = [index for index, item in enumerate(scenario.traffic) if isinstance(item, UdpFlood)]
    pings = [index for index, item in enumerate(scenario.traffic) if isinstance(item, Ping)]
    return floods[0], pings[0]


def qdisc_words(scenario: Scenario) -> list[str]:
    """The words after `tc qdisc replace dev DEV root`."""
    assert scenario.veth is not None
    qdisc = scenario.veth.qdisc
    if isinstance(qdisc, Noqueue):
        return ["noqueue"]
    limit = getattr(qdisc, "limit", None)
    return [qdisc.kind, *(["limit", str(limit)] if limit else [])]


def measured(there: Namespaces, scenario: Scenario, xdp: bool) -> Case | str:
    """Measures a case on a new pair: fits costs, then floods it. Returns the reason where it is not possible.

    Raises:
        CallFailed: the kernel refuses what each case needs.
    """
    assert scenario.veth is not None
    consumer = scenario.veth.consumer
    there.pair(consumer.napi == "threaded")
    refused = there.producer.call("discipline", words=qdisc_words(scenario))
    refused = refused or there.consumer.call("consume", rules=consumer.rules, xdp=xdp)
    if refused:
        return str(refused)
    at, pings = parts(scenario)
    flood, ping = scenario.traffic[at], scenario.traffic[pings]
    assert isinstance(flood, UdpFlood)
    assert isinstance(ping, Ping)
    core = there.cores[1]
    rows = there.producer.call(
        "idle", sizes=list(BURST_PACKETS), repeats=REPEATS_PER_BURST, payload=flood.payload, core=core
    )
    fitted = _fit(rows)
    found = there.producer.call(
        "flood",
        flood={"sndbuf": flood.sndbuf, "payload": flood.payload, "blocking": flood.blocking},
        ping={
            "payload": ping.payload,
            "start_s": ping.start / PS_PER_S,
            "interval_s": ping.interval / PS_PER_S,
        },
        duration_s=scenario.run.duration / PS_PER_S,
        bin_s=bin_ps(scenario) / PS_PER_S,
        core=core,
    )
    return Case(load(scenario, sets=fitted.sets(scenario)), xdp, fitted, found)


def bin_ps(scenario: Scenario) -> int:
    """A bin of the series: a two-hundredth of the run, 5 ms at least, as one look costs a tenth of one."""
    return max(5 * 10**9, scenario.run.duration // 200)


def _fit(rows: list[list[int]]) -> FittedCosts:
    sizes = sorted({size for size, _, _ in rows})
    # The least of each, as other programs on these cores only ever add.
    took_ns = [min(took for of, _, took in rows if of == size) for size in sizes]
    slope, _ = np.polyfit(sizes, took_ns, 1)
    sends = [took / size for size, took, _ in rows if size]
    return FittedCosts(float(slope), median(sends), float(took_ns[0]))


def figures(case: Case) -> dict[str, float | None]:
    """Figures of a case: round trips in s, losses as a share, packets per second, and packets that waited."""
    samples = case.found["samples"]
    answered = [rtt for _, rtt in samples if rtt is not None]
    before, last = case.found["before"], case.found["looks"][-1]
    span = (last["time_ns"] - before["time_ns"]) / 1e9
    waiting = ring_packets(case)
    return {
        "ping_s": float(np.mean(answered)) / 1e9 if answered else None,
        "ping_median_s": float(np.median(answered)) / 1e9 if answered else None,
        "ping_loss": 1 - len(answered) / len(samples) if samples else None,
        "delivered_per_s": (last["tx_packets"] - before["tx_packets"]) / span,
        "ring_packets": float(np.median(waiting)),
    }


def ring_packets(case: Case) -> list[int]:
    """Packets in the ring or in the poll under way, at each look: the kernel counts them when a poll ends.

    With a discipline they are what it sent and no poll has counted; without one, what senders offered that
    was neither dropped nor counted.
    """
    assert case.scenario.veth is not None
    before, bare = case.found["before"], isinstance(case.scenario.veth.qdisc, Noqueue)

    def since(look: dict[str, int], name: str) -> int:
        return int(look.get(name, 0) - before.get(name, 0))

    def offered(look: dict[str, int]) -> int:
        if not bare:
            return since(look, "qdisc_sent")
        at = look["time_ns"] - before["time_ns"]
        pings = sum(1 for sent, _ in case.found["samples"] if sent <= at)
        return since(look, "sent") + pings - since(look, "tx_dropped")

    return [max(0, offered(look) - since(look, "tx_packets")) for look in case.found["looks"]]
