"""Queueing disciplines of Linux, with the keys and defaults of `tc qdisc add`.

What the models do with them is in docs/models/qdisc.md. Sources: the man pages and the code of iproute2 6.1,
and net/sched of Linux.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tailback.scenario import declared
from tailback.scenario.fields import ByKind, Section, refuse, setting
from tailback.units import format_size


class Noqueue(Section):
    """No queue: what the device does not take at once is dropped. The discipline of a virtual device."""

    kind: Literal["noqueue"] = Field(description="The discipline.")


class Red(declared.Red):
    """Random early detection: marks or drops by the average of the queue."""

    @property
    def thresholds(self) -> tuple[int, int]:
        """min and max in bytes, as set or as tc computes them."""
        high = self.max or (3 * self.min if self.min else self.limit // 4)
        return self.min or high // 3, high

    @property
    def burst_packets(self) -> int:
        """burst, as set or as tc computes it."""
        low, high = self.thresholds
        return self.burst or (2 * low + high) // (3 * self.avpkt)

    @property
    def w_log(self) -> int | None:
        """W of the average, which moves by 2^-W per packet; None: tc finds none (tc/tc_red.c)."""
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


class Codel(declared.Codel, declared.CodelDelays):
    """One queue, whose packets are dropped or marked when they have waited too long for an interval."""


class FqCodel(declared.FqCodel, declared.CodelDelays):
    """A queue for each flow, served in turn, with CoDel in each."""


class Sfq(declared.Sfq):
    """A queue for each flow, served in turn; when full, the longest queue drops its last packet."""

    @model_validator(mode="after")
    def _power(self) -> Sfq:
        if self.divisor & (self.divisor - 1):
            raise refuse("divisor", str(self.divisor), "a power of two")
        return self


_Leaf = declared.Pfifo | declared.Bfifo | Red | Codel | FqCodel | Sfq


class Tbf(declared.Tbf):
    """A rate and a burst: packets wait in another discipline until there are tokens for them."""

    child: Annotated[_Leaf, ByKind()] | None = setting(
        None, "Where packets wait; null: a bfifo of limit.", "Linux net/sched/sch_tbf.c"
    )

    @model_validator(mode="after")
    def _one(self) -> Tbf:
        if (self.limit is None) == (self.child is None):
            what = "neither limit nor child" if self.limit is None else "limit and child"
            raise refuse("limit", what, "one of the two")
        return self


Qdisc = Annotated[Noqueue | _Leaf | Tbf, ByKind()]
"""A discipline by its `kind`."""


def qdisc_plan(qdisc: Noqueue | Tbf | _Leaf, frame: int) -> Any:
    """The discipline of a device with frames of at most `frame` bytes, for the engine."""
    if isinstance(qdisc, Noqueue):
        return "noqueue"
    match qdisc:
        case declared.Bfifo():
            plan = qdisc.plan(limit=qdisc.limit or 1000 * frame)
        case Red():
            low, high = qdisc.thresholds
            plan = qdisc.plan(min=low, max=high, burst=qdisc.burst_packets)
        case Tbf():
            child = None if qdisc.child is None else qdisc_plan(qdisc.child, frame)
            plan = {"own": qdisc.plan(), "child": child}
        case Codel():
            plan = {"own": qdisc.plan(), "codel": qdisc.plan(declared.CodelDelays)}
        case FqCodel():
            own = qdisc.plan(quantum=qdisc.quantum or frame)
            plan = {"own": own, "codel": qdisc.plan(declared.CodelDelays)}
        case Sfq():
            plan = qdisc.plan(quantum=qdisc.quantum or frame)
        case _:
            plan = qdisc.plan()
    return {qdisc.kind: plan}
