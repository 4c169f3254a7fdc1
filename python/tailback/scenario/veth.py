"""Two network namespaces joined by a veth pair, and what is sent between them.

Sources: Linux drivers/net/veth.c; the series "veth: add Byte Queue Limits (BQL) support", v7, of June 2026;
the test of its authors, veth_bql_test.sh of veth-backpressure-performance-testing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tailback.scenario.fields import Part, RunTime, Start, refuse, setting, stop_after_start
from tailback.scenario.network import Network
from tailback.scenario.qdisc import Noqueue, Qdisc
from tailback.units import DURATION, SIZE, duration, format_duration, size

PRODUCER, CONSUMER = "producer", "consumer"
"""The two namespaces."""
Namespace = Literal["producer", "consumer"]
_TEST = "the authors' veth_bql_test.sh"
_SWEEP = "the authors' sweep on a Ryzen 5 5600X (text_sweep.txt)"

LONGEST_TX_USECS = duration("8s")
"""Half of the watchdog of 64 packets at 250 ms each: v7 of the series, patch 5."""
_Cost = Annotated[int, DURATION.between(maximum="10s")]
_Work = Annotated[int, DURATION.between("1ps", "10s")]
_Payload = Annotated[int, SIZE.between("1B", "1472B")]


class Consumer(Part):
    """What receiving costs in the consumer's namespace. The producer's is alike, but has no rules."""

    rules: int = setting(
        0, "Rules of iptables that each packet is compared with.", "assumption: none", ge=0, le=1_000_000
    )
    rule: _Cost = setting(
        duration("7.7ns"), "A comparison with one rule.", f"{_SWEEP}: 10,000 rules, 13,000 packets a second"
    )
    stack: _Work = setting(
        duration("270ns"),
        "A packet's way up the stack, without rules.",
        f"{_SWEEP}: 0.57 us a packet without rules, less take",
    )
    take: _Work = setting(
        duration("300ns"),
        "To take a packet from the ring and hand it to GRO.",
        "the authors' sweep of intervals (interval.csv): 0.3 to 0.4 us between two completions of a list",
    )
    echo: float = setting(
        1.0,
        "An echo request costs this many times what another packet does, with its rules.",
        "assumption: the same",
        ge=1.0,
        le=1000.0,
        allow_inf_nan=False,
    )
    jitter: float = setting(
        0.0,
        "A poll's packets take up to this share less or more, drawn anew for each poll.",
        "assumption: none",
        ge=0.0,
        lt=1.0,
        allow_inf_nan=False,
    )
    wakeup: _Cost = setting(
        duration("5us"),
        "From the wake-up of a thread, or of a core that sleeps, to its first instruction.",
        "assumption: no document says; the order of a context switch and a short sleep of a core",
    )
    napi: Literal["threaded", "softirq"] = setting(
        "threaded",
        "Where rings are polled: each in a thread with a core of its own, or in softirqs of the core that "
        "sent to it first.",
        f"{_TEST}: without threads both ends share a core, and nothing builds up",
    )
    gro_batch: int = setting(
        8,
        "Packets that GRO collects before the stack sees them.",
        "Linux net/core: sysctl net.core.gro_normal_batch",
        ge=1,
        le=64,
    )


class VethTopology(Part):
    """The namespaces producer and consumer of one machine, joined by a veth pair; there are no hosts.

    The section `veth` describes it.
    """

    kind: Literal["veth"] = Field(description="The form of the network.")

    def network(self, _read: Callable[[str, int], bytes]) -> Network:
        """No hosts."""
        return Network(
            [], [], [], notes=[f"The namespaces {PRODUCER} and {CONSUMER}, joined by a veth pair."]
        )


class Veth(Part):
    """The veth pair of a topology of kind veth."""

    kernel: Literal["6.1", "6.18"] = setting(
        "6.18",
        "What a full ring does. 6.1 (and older): the packet is freed. 6.18 (6.16 and newer): the queue of a "
        "device with a qdisc stops until the peer's next poll ends.",
        "Linux commits dc82a33297fc and 5442a9da6978",
    )
    ring: int = setting(
        256, "Entries of the ring of each end.", "drivers/net/veth.c: VETH_RING_SIZE", ge=1, le=1 << 20
    )
    bql: Literal["none", "packets", "bytes"] = setting(
        "none",
        "Byte queue limits: none, as in kernels without the series; packets: one unit each, as from its v2 "
        "on; bytes: their lengths, as in v1.",
        "Linux up to 7.3: veth has none",
    )
    tx_usecs: Annotated[int, DURATION.between()] = setting(
        duration("100us"),
        "Over how long completions are collected until the limit is told; 0us: each is told. Without effect "
        "where bql is none.",
        "v7 of the series, patch 5: ethtool tx-usecs, 100 us",
    )
    qdisc: Qdisc = Field(
        default_factory=lambda: Noqueue(kind="noqueue"),
        description="Queueing discipline of both ends, by its kind.",
    )
    output: _Work = setting(
        duration("500ns"),
        "To take a packet from the qdisc and put it into the ring, where a softirq does that.",
        "assumption: a third of a call of sendto",
    )
    consumer: Consumer = Field(
        default_factory=Consumer, description="What receiving costs in the consumer's namespace."
    )

    @model_validator(mode="after")
    def _in_range(self) -> Veth:
        if self.tx_usecs > LONGEST_TX_USECS:
            raise refuse(
                "tx_usecs",
                format_duration(self.tx_usecs),
                f"at most {format_duration(LONGEST_TX_USECS)}, half of the watchdog (ERANGE)",
            )
        return self


class _Between(Part):
    from_: Namespace = Field(
        "producer",
        alias="from",
        description="Sending namespace.",
        json_schema_extra={"source": "assumption: towards the consumer"},
    )
    to: Namespace = setting("consumer", "Receiving namespace.", "assumption: towards the consumer")
    start: Start = setting(0, "When it begins.", "assumption: at once")
    stop: RunTime | None = setting(
        None, "When it ends; null: with the run.", "assumption: it lasts as long as the run"
    )

    model_config = ConfigDict(populate_by_name=False)

    @model_validator(mode="after")
    def _ordered(self) -> _Between:
        if self.from_ == self.to:
            raise refuse("to", f'"{self.to}"', "the other namespace")
        stop_after_start(self.start, self.stop)
        return self


class UdpFlood(_Between):
    """UDP datagrams through one socket, as fast as a thread can call sendto, or at a rate."""

    kind: Literal["udp-flood"] = Field(description="The kind of traffic.")
    payload: _Payload = setting(size("1400B"), "Payload of a datagram.", f"{_TEST}: PKT_SIZE")
    send: _Work = setting(
        duration("1.5us"),
        "A call of sendto, down to the device.",
        "assumption: about 0.7 million calls a second of one core, of datagrams of 1400 B",
    )
    interval: Start = setting(0, "Time between two calls; 0us: as fast as it can.", "assumption: a flood")
    sndbuf: Annotated[int, SIZE.between("1B")] = setting(
        size("212992B"),
        "Memory that the socket's packets may take until the receiver has them, as the kernel counts it: "
        "twice what setsockopt is given.",
        "Linux net/core/sock.c: sysctl net.core.wmem_default",
    )
    blocking: bool = setting(
        True,
        "A sender that finds no room sleeps until half of it is free; false: it tries again at once "
        "(MSG_DONTWAIT in a loop).",
        "POSIX: a socket blocks",
    )


class Ping(_Between):
    """ICMP echo requests at regular intervals, and the round trips of their answers."""

    kind: Literal["ping"] = Field(description="The kind of traffic.")
    interval: RunTime = setting(duration("200ms"), "Time between two requests.", f"{_TEST}: ping -i 0.2")
    spread: Start = setting(
        duration("4ms"),
        "Each request is sent up to this much later, drawn uniformly; less than interval.",
        "iputils: ping sleeps in recvmsg with SO_RCVTIMEO, which counts in jiffies; assumption: HZ is 250",
    )
    payload: _Payload = setting(size("56B"), "Payload of a request.", "iputils ping -s")

    @model_validator(mode="after")
    def _spread(self) -> Ping:
        if self.spread >= self.interval:
            most = f"less than interval, {format_duration(self.interval)}"
            raise refuse("spread", format_duration(self.spread), most)
        return self


class XdpFrames(_Between):
    """XDP frames that are redirected to the sender's device in batches: past its qdisc and its limit."""

    kind: Literal["xdp-frames"] = Field(description="The kind of traffic.")
    batch: int = setting(64, "Frames of a batch.", "v7 of the series: batches of 16 to 64", ge=1, le=4096)
    interval: RunTime = Field(description="Time between two batches.")
    frame: Annotated[int, SIZE.between("34B", "1514B")] = setting(
        size("60B"), "An Ethernet frame without FCS.", "IEEE 802.3: the shortest"
    )


BETWEEN_NAMESPACES = (UdpFlood, Ping, XdpFrames)
"""Traffic that needs a topology of kind veth, and which that needs."""
