"""Queueing disciplines of Linux, with the keys and defaults of `tc qdisc add`.

What the models do with them is in docs/models/qdisc.md. Sources: the man pages and the code of iproute2 6.1,
and net/sched of Linux.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tailback.scenario.fields import Part, refuse, setting
from tailback.units import DURATION, RATE, SIZE, duration, format_size, rate, size

ETHERNET_HEADER_BYTES = 14
ROCE_HEADERS_BYTES = 20 + 8 + 12 + 16 + 4
"""What a RoCE packet adds to its payload in the MTU of a device: IPv4, UDP, BTH, RETH, ICRC."""
"""What a device's MTU is longer by for its discipline: Linux net/sched, `psched_mtu`."""

_Packets = Annotated[int, Field(ge=1, le=1 << 24)]
_Bytes = Annotated[int, SIZE.between("1B", "4294967295B")]
_Quantum = Annotated[int, SIZE.between("1B", "2147483647B")] | None
_Time = Annotated[int, DURATION.between("1us", "1000s")]
_TcRate = Annotated[int, RATE.between("8bps", "34.35973836Gbps")]
"""What tc takes where it keeps 32 bits of bytes a second."""

_QUANTUM = "Bytes that a flow sends in a round; null: the device's MTU and 14 B of Ethernet header."


class Noqueue(Part):
    """No queue: what the device does not take at once is dropped. The discipline of a virtual device."""

    kind: Literal["noqueue"] = Field(description="The discipline.")


class Pfifo(Part):
    """First in, first out, with a limit in packets."""

    kind: Literal["pfifo"] = Field(description="The discipline.")
    limit: _Packets = setting(1000, "Most packets that wait.", "Linux: txqueuelen, of Ethernet 1000")


class Bfifo(Part):
    """First in, first out, with a limit in bytes."""

    kind: Literal["bfifo"] = Field(description="The discipline.")
    limit: _Bytes | None = setting(
        None,
        "Most bytes that wait; null: 1000 times the device's MTU and 14 B.",
        "Linux net/sched/sch_fifo.c: txqueuelen times psched_mtu",
    )


class Red(Part):
    """Random early detection: marks or drops by the average of the queue."""

    kind: Literal["red"] = Field(description="The discipline.")
    limit: _Bytes = Field(description="Most bytes that wait.")
    min: _Bytes | None = setting(
        None,
        "Average from which on packets are marked with a probability; null: a third of max.",
        "iproute2 tc/q_red.c",
    )
    max: _Bytes | None = setting(
        None,
        "Average from which on all are; null: three times min, without min a quarter of limit.",
        "iproute2 tc/q_red.c",
    )
    avpkt: Annotated[int, SIZE.between("1B", "65535B")] = Field(description="Size of an average packet.")
    burst: Annotated[int, Field(ge=1, le=1 << 24)] | None = setting(
        None,
        "Packets of a burst that is let through: with avpkt and min it gives the weight of the average. "
        "null: (2 min + max) / (3 avpkt).",
        "iproute2 tc/q_red.c",
    )
    bandwidth: _TcRate = setting(
        rate("10Mbps"), "Rate by which the average of an idle queue decays.", "iproute2 tc/q_red.c"
    )
    probability: float = setting(
        0.02, "Probability at max.", "iproute2 tc/q_red.c", gt=0.0, lt=1.0, allow_inf_nan=False
    )
    ecn: bool = setting(
        False, "Mark what says ECT instead of dropping it; all else is dropped.", "iproute2 tc/q_red.c"
    )
    harddrop: bool = setting(False, "With ecn: above max drop even what says ECT.", "iproute2 tc/q_red.c")

    whole_us: bool = setting(
        False,
        "Whether tc counts the time of avpkt at bandwidth in whole microseconds, rounded down. Where nothing "
        "is left of it an idle average is halved at once, and gone after 255 us.",
        "iproute2 tc/tc_core.c from 2025 on; before that: true",
    )

    @property
    def thresholds(self) -> tuple[int, int]:
        """min and max in bytes, as set or as tc works them out."""
        high = self.max or (3 * self.min if self.min else self.limit // 4)
        return self.min or high // 3, high

    @property
    def burst_packets(self) -> int:
        """burst, as set or as tc works it out."""
        low, high = self.thresholds
        return self.burst or (2 * low + high) // (3 * self.avpkt)

    @property
    def w_log(self) -> int | None:
        """W of the average, which moves by 2^-W a packet; none: tc finds none (tc/tc_red.c)."""
        low, _ = self.thresholds
        least = self.burst_packets + 1 - low / self.avpkt
        fits = (w for w in range(1, 32) if least <= (1 - (1 - 2.0**-w) ** self.burst_packets) * 2.0**w)
        return next(fits, None) if least >= 1 else None

    @model_validator(mode="after")
    def _taken_by_tc(self) -> Red:
        low, high = self.thresholds
        if not 0 < low < high:
            raise refuse("min", format_size(low), f"more than 0 and less than max, {format_size(high)}")
        if self.w_log is None:
            least = 1 + low // self.avpkt
            raise refuse(
                "burst", f"{self.burst_packets} packets", f"at least {least}, min over avpkt, or fewer"
            )
        if high.bit_length() + self.w_log >= 32:
            most = format_size((1 << (31 - self.w_log)) - 1)
            raise refuse(
                "max", format_size(high), f"at most {most}, what the kernel's average holds at this burst"
            )
        return self


class _Codel(Part):
    """What CoDel is set by, in one queue or in each of many."""

    target: _Time = setting(duration("5ms"), "Wait that is acceptable.", "RFC 8289, section 4.3")
    interval: _Time = setting(
        duration("100ms"), "For how long the wait must be too long.", "RFC 8289, section 4.3"
    )
    stale: bool = setting(
        False,
        "Whether a flow whose queue ran empty still counts as waiting too long, so that its next packet can "
        "be dropped.",
        "Linux 7.0 (commit 815980fe6dbb) and stable kernels that took it over; all before them: true",
    )

    def _plan(self, mtu: int, ecn: bool) -> dict[str, Any]:
        microsecond = duration("1us")
        return {
            "target_us": self.target // microsecond,
            "interval_us": self.interval // microsecond,
            "mtu_bytes": mtu + ETHERNET_HEADER_BYTES,
            "ecn": ecn,
            "stale_when_empty": self.stale,
        }


class Codel(_Codel):
    """One queue, whose packets are dropped or marked when they have waited too long for an interval."""

    kind: Literal["codel"] = Field(description="The discipline.")
    limit: _Packets = setting(1000, "Most packets that wait.", "Linux net/sched/sch_codel.c")
    ecn: bool = setting(False, "Mark what says ECT instead of dropping it.", "Linux net/sched/sch_codel.c")


class FqCodel(_Codel):
    """A queue a flow, served in turns, with CoDel in each."""

    kind: Literal["fq_codel"] = Field(description="The discipline.")
    limit: _Packets = setting(10_240, "Most packets that wait.", "Linux net/sched/sch_fq_codel.c")
    flows: Annotated[int, Field(ge=1, le=65_536)] = setting(
        1024, "Queues that flows are hashed to.", "Linux net/sched/sch_fq_codel.c"
    )
    quantum: _Quantum = setting(None, _QUANTUM, "Linux net/sched/sch_fq_codel.c")
    ecn: bool = setting(True, "Mark what says ECT instead of dropping it.", "Linux net/sched/sch_fq_codel.c")
    memory_limit: Annotated[int, SIZE.between("1B", "2GiB")] = setting(
        size("32MiB"), "Most memory that waiting packets take.", "Linux net/sched/sch_fq_codel.c"
    )
    drop_batch: Annotated[int, Field(ge=1, le=1 << 24)] = setting(
        64, "Most packets that are dropped at once when it is full.", "Linux net/sched/sch_fq_codel.c"
    )


class Sfq(Part):
    """A queue a flow, served in turns; the longest loses its last packet when it is full."""

    kind: Literal["sfq"] = Field(description="The discipline.")
    limit: _Packets = setting(127, "Most packets that wait.", "Linux net/sched/sch_sfq.c")
    depth: Annotated[int, Field(ge=1, le=127)] = setting(
        127, "Most packets of a flow that wait.", "Linux net/sched/sch_sfq.c"
    )
    flows: Annotated[int, Field(ge=1, le=65_408)] = setting(
        128, "Most flows that wait.", "Linux net/sched/sch_sfq.c"
    )
    divisor: Annotated[int, Field(ge=1, le=65_536)] = setting(
        1024, "Values of the hash, a power of two.", "Linux net/sched/sch_sfq.c"
    )
    quantum: _Quantum = setting(None, _QUANTUM, "Linux net/sched/sch_sfq.c")

    @model_validator(mode="after")
    def _power(self) -> Sfq:
        if self.divisor & (self.divisor - 1):
            raise refuse("divisor", str(self.divisor), "a power of two")
        return self


_Leaf = Pfifo | Bfifo | Red | Codel | FqCodel | Sfq


class Tbf(Part):
    """A rate and a burst: packets wait in another discipline until there are tokens for them."""

    kind: Literal["tbf"] = Field(description="The discipline.")
    rate: Annotated[int, RATE.between("8bps", "100Tbps")] = Field(description="Rate that is not exceeded.")
    burst: _Bytes = Field(
        description="Size of the bucket: what may be sent at once. Larger packets are dropped."
    )
    limit: _Bytes | None = setting(
        None, "Most bytes that wait, where there is no child.", "assumption: child is set"
    )
    child: Annotated[_Leaf, Field(discriminator="kind")] | None = setting(
        None, "Where packets wait; null: a bfifo of limit.", "Linux net/sched/sch_tbf.c"
    )

    @model_validator(mode="after")
    def _one(self) -> Tbf:
        if (self.limit is None) == (self.child is None):
            what = "neither limit nor child" if self.limit is None else "limit and child"
            raise refuse("limit", what, "one of the two")
        return self


Qdisc = Annotated[Noqueue | _Leaf | Tbf, Field(discriminator="kind")]
"""A discipline by its `kind`."""


def qdisc_plan(qdisc: Noqueue | Tbf | _Leaf, mtu: int) -> Any:
    """The discipline of a device with this MTU (bytes without the Ethernet header), as the engine has it."""
    frame = mtu + ETHERNET_HEADER_BYTES
    match qdisc:
        case Noqueue():
            return "noqueue"
        case Pfifo():
            return {"pfifo": {"limit_packets": qdisc.limit}}
        case Bfifo():
            return {"bfifo": {"limit_bytes": qdisc.limit or 1000 * frame}}
        case Red():
            low, high = qdisc.thresholds
            return {
                "red": {
                    "limit_bytes": qdisc.limit,
                    "min_bytes": low,
                    "max_bytes": high,
                    "avpkt_bytes": qdisc.avpkt,
                    "burst_packets": qdisc.burst_packets,
                    "bandwidth_bps": qdisc.bandwidth,
                    "probability": qdisc.probability,
                    "ecn": qdisc.ecn,
                    "harddrop": qdisc.harddrop,
                    "whole_us": qdisc.whole_us,
                }
            }
        case Tbf():
            return {
                "tbf": {
                    "rate_bps": qdisc.rate,
                    "burst_bytes": qdisc.burst,
                    "limit_bytes": qdisc.limit or 0,
                    "child": None if qdisc.child is None else qdisc_plan(qdisc.child, mtu),
                }
            }
        case Codel():
            return {"codel": {"limit_packets": qdisc.limit, "codel": qdisc._plan(mtu, qdisc.ecn)}}
        case FqCodel():
            return {
                "fq_codel": {
                    "limit_packets": qdisc.limit,
                    "flows": qdisc.flows,
                    "quantum_bytes": qdisc.quantum or frame,
                    "memory_limit_bytes": qdisc.memory_limit,
                    "drop_batch_packets": qdisc.drop_batch,
                    "codel": qdisc._plan(mtu, qdisc.ecn),
                }
            }
        case Sfq():
            return {
                "sfq": {
                    "limit_packets": qdisc.limit,
                    "depth_packets": qdisc.depth,
                    "flows": qdisc.flows,
                    "divisor": qdisc.divisor,
                    "quantum_bytes": qdisc.quantum or frame,
                }
            }
