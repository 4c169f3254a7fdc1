"""Two network namespaces joined by a veth pair, and what is sent between them.

Sources: Linux drivers/net/veth.c; the series "veth: add Byte Queue Limits (BQL) support", v7, of June 2026;
the test of its authors, veth_bql_test.sh of veth-backpressure-performance-testing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from tailback.scenario import declared
from tailback.scenario.fields import Section, refuse, setting, stop_after_start
from tailback.scenario.network import Network
from tailback.scenario.qdisc import Noqueue, Qdisc
from tailback.units import SIZE, duration, format_duration, size

PRODUCER, CONSUMER = "producer", "consumer"
"""The two namespaces."""
Namespace = Literal["producer", "consumer"]
_TEST_SOURCE = "the authors' veth_bql_test.sh"
_SWEEP_SOURCE = "the authors' sweep on a Ryzen 5 5600X (text_sweep.txt)"

MAX_TX_USECS_PS = duration("8s")
"""Half of the watchdog of 64 packets at 250 ms each: v7 of the series, patch 5."""
_Payload = Annotated[int, SIZE.between("1B", "1472B")]


class VethTopology(Section):
    """The namespaces producer and consumer of one machine, joined by a veth pair; there are no hosts.

    The section `veth` describes it.
    """

    kind: Literal["veth"] = Field(description="The form of the network.")

    def network(self, _read: Callable[[str, int], bytes]) -> Network:
        """A network without hosts."""
        return Network(
            [], [], [], notes=[f"The namespaces {PRODUCER} and {CONSUMER}, joined by a veth pair."]
        )


class Veth(declared.Veth):
    """The veth pair of a topology of kind veth."""

    qdisc: Qdisc = Field(
        default_factory=lambda: Noqueue(kind="noqueue"),
        description="Queueing discipline of both ends, by its kind.",
    )
    consumer: declared.Consumer = Field(
        default_factory=declared.Consumer, description="What receiving costs in the consumer's namespace."
    )

    @model_validator(mode="before")
    @classmethod
    def _codel_of_the_kernel(cls, data: Any) -> Any:
        """A named kernel implies its version of CoDel: before 7.0 it is `stale`."""
        qdisc = data.get("qdisc") if isinstance(data, dict) and "kernel" in data else None
        if isinstance(qdisc, dict) and qdisc.get("kind") in ("codel", "fq_codel"):
            return {**data, "qdisc": {"stale": True, **qdisc}}
        return data

    @model_validator(mode="after")
    def _in_range(self) -> Veth:
        if self.tx_usecs > MAX_TX_USECS_PS:
            raise refuse(
                "tx_usecs",
                format_duration(self.tx_usecs),
                f"at most {format_duration(MAX_TX_USECS_PS)}, half of the watchdog (ERANGE)",
            )
        return self


class _Between(Section):
    kind: str
    from_: Namespace = Field(
        "producer",
        alias="from",
        description="Sending namespace.",
        json_schema_extra={"source": "assumption: towards the consumer"},
    )
    to: Namespace = setting("consumer", "Receiving namespace.", "assumption: towards the consumer")
    model_config = ConfigDict(populate_by_name=False)

    @model_validator(mode="after")
    def _ordered(self) -> _Between:
        if self.from_ == self.to:
            raise refuse("to", f'"{self.to}"', "the other namespace")
        return self


class UdpFlood(declared.Datagrams, _Between):
    """UDP datagrams through one socket, as fast as a thread can call sendto, or at a rate."""

    kind: Literal["udp-flood"] = Field(description="The kind of traffic.")
    payload: _Payload = setting(size("1400B"), "Payload of a datagram.", f"{_TEST_SOURCE}: PKT_SIZE")

    @model_validator(mode="after")
    def _begins(self) -> UdpFlood:
        stop_after_start(self.start, self.stop)
        return self


class Ping(declared.Pings, _Between):
    """ICMP echo requests at regular intervals, and the round trips of their answers."""

    kind: Literal["ping"] = Field(description="The kind of traffic.")
    payload: _Payload = setting(size("56B"), "Payload of a request.", "iputils ping -s")

    @model_validator(mode="after")
    def _spread(self) -> Ping:
        stop_after_start(self.start, self.stop)
        if self.spread >= self.interval:
            most = f"less than interval, {format_duration(self.interval)}"
            raise refuse("spread", format_duration(self.spread), most)
        return self


class XdpFrames(declared.Frames, _Between):
    """XDP frames that are redirected to the sender's device in batches: past its qdisc and its limit."""

    kind: Literal["xdp-frames"] = Field(description="The kind of traffic.")
    frame: Annotated[int, SIZE.between("34B", "1514B")] = setting(
        size("60B"), "An Ethernet frame without FCS.", "IEEE 802.3: the shortest"
    )

    @model_validator(mode="after")
    def _begins(self) -> XdpFrames:
        stop_after_start(self.start, self.stop)
        return self


BETWEEN_NAMESPACES = (UdpFlood, Ping, XdpFrames)
"""Traffic for topologies of kind veth only."""
