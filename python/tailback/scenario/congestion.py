"""Congestion control that hears of congestion with each ACK, HPCC, TIMELY and DCTCP; which one a host has.

Sources: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, and its authors' simulator;
Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015; Alizadeh et al., "Data
Center TCP (DCTCP)", SIGCOMM 2010; Zhu et al., "ECN or Delay", CoNEXT 2016, and its simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import model_validator

from tailback.scenario.dcqcn import in_plan, resolve
from tailback.scenario.errors import Path
from tailback.scenario.fields import Part, refuse, setting
from tailback.units import DURATION, RATE, SIZE, duration, format_duration, format_rate, rate, size

if TYPE_CHECKING:
    from tailback.scenario.model import Host

_LI = "Li et al. (HPCC), SIGCOMM 2019"
_MITTAL = "Mittal et al. (TIMELY), SIGCOMM 2015"
_ALIZADEH = "Alizadeh et al. (DCTCP), SIGCOMM 2010"
_SIMULATOR = "the HPCC authors' simulator"
_TIMELY_CODE = "the TIMELY authors' code (timely-code-snippet.cc)"
_ZHU_CODE = "the simulator of Zhu et al. (ECN or Delay), CoNEXT 2016"

_Time = Annotated[int, DURATION.between("1ps", "1s")]
_RoundTrip = Annotated[int | Literal["auto"], DURATION.between("1ps", "1s").or_word("auto")]
_LowestRate = Annotated[int, RATE.between("1bps", "100Tbps")]
_Step = Annotated[int, RATE.between(maximum="100Tbps")]
_Window = Annotated[int, SIZE.between(maximum="1GB")]
_Extra = Annotated[int, SIZE.between(maximum="1024B")]

Kind = Literal["dcqcn", "hpcc", "timely", "dctcp", "none"]
"""The kinds of congestion control."""

_EACH_ACK = ("hpcc", "dctcp")
"""What takes an ACK of each packet."""

_AUTO = (
    "auto: the longest round trip between two hosts on shortest paths, with a full packet one way and its "
    "ACK back, rounded up to 100 ns."
)


def _fraction(default: float, about: str, source: str) -> Any:
    return setting(default, about, source, gt=0.0, le=1.0, allow_inf_nan=False)


def _min_rate() -> Any:
    return setting(rate("100Mbps"), "Lowest rate of a queue pair.", f"{_SIMULATOR}: MIN_RATE")


class Hpcc(Part):
    """HPCC: switches write their load into packets, and the sender computes its window from it."""

    base_rtt: _RoundTrip = setting(
        "auto",
        "T: round trip without queues, the same for all queue pairs and not below that of any. The largest "
        f"window is the link's rate times T. {_AUTO}",
        f"{_LI}, section 5.1: a little above the longest in its fabric",
    )
    eta: float = _fraction(0.95, "Utilisation to aim at.", f"{_LI}, section 5.1")
    max_stage: int = setting(
        5,
        "Additive steps before a multiplicative one, below eta. The authors' site says that the paper's "
        "simulations ran with 0, as their simulator does, and that 5 is a slip.",
        f"{_LI}, section 5.1",
        ge=0,
        le=1000,
    )
    additive: _Window = setting(
        size("80B"),
        "W_AI: what the window gains in a step; it makes queue pairs equal, and with N of them it costs a "
        "queue once N * W_AI is above (1 - eta) of the largest window.",
        f"{_LI}, section 5.1",
    )
    min_rate: _LowestRate = _min_rate()
    telemetry: _Extra = setting(
        size("42B"),
        "What telemetry adds to each data packet and each ACK.",
        f"{_LI}, section 4: five hops",
    )


class Timely(Part):
    """TIMELY: the rate follows the gradient of the round-trip time."""

    alpha: float = _fraction(
        0.02,
        "Weight of the newest difference of round-trip times. The paper's evaluation gives none; the "
        "simulators of Zhu et al. (CoNEXT 2016) and of the HPCC authors have 0.875.",
        f"{_TIMELY_CODE}: ewma_alpha",
    )
    beta: float = _fraction(0.8, "Strength of a decrease.", f"{_MITTAL}, section 6")
    additive: _Step = setting(
        rate("10Mbps"),
        "What the rate gains in a step (delta), on any link.",
        f"{_MITTAL}, section 6, at 10 Gbit/s",
    )
    hyper_additive: _Step = setting(
        rate("50Mbps"), "The same in hyperactive increase.", f"{_MITTAL}, section 4.3: N = 5 times delta"
    )
    hyper_after: int = setting(
        5,
        "Steps in a row without a growing round-trip time, from which on the increase is hyperactive.",
        f"{_MITTAL}, section 4.3",
        ge=0,
        le=1_000_000,
    )
    t_low: _Time = setting(
        duration("50us"), "Below this round-trip time the rate always grows.", f"{_MITTAL}, section 6"
    )
    t_high: _Time = setting(
        duration("500us"), "Above this round-trip time the rate always falls.", f"{_MITTAL}, section 6"
    )
    min_rtt: _RoundTrip = setting(
        duration("20us"), f"What gradients are measured in. {_AUTO}", f"{_ZHU_CODE}: MIN RTT"
    )
    segment: _Window = setting(
        size("16KB"),
        "A message is sent in segments of this size, rounded up to whole packets: each at line rate, with "
        "pauses between them, and a computation of the rate when it is acknowledged. 0: packets are paced, "
        "and the rate is computed once a round trip.",
        f"{_MITTAL}, section 6; up to 64 KB in section 3",
    )
    min_rate: _LowestRate = _min_rate()
    telemetry: _Extra = setting(
        size("8B"), "What a timestamp adds to each data packet and each ACK.", f"{_SIMULATOR}: 8 B"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Timely:
        if self.t_low > self.t_high:
            raise refuse(
                "t_low", format_duration(self.t_low), f"at most t_high, {format_duration(self.t_high)}"
            )
        return self


class Dctcp(Part):
    """DCTCP with a rate: the share of marks sets the cut. Its ECN threshold K belongs to the switch."""

    g: float = _fraction(0.0625, "Weight of the newest window in the share of marks.", f"{_ALIZADEH}: 1/16")
    additive: _Step = setting(
        rate("615Mbps"),
        "What the rate gains in a round trip without marks.",
        f"{_SIMULATOR}, run.py: a packet of 1 KB each 13 us",
    )
    min_rate: _LowestRate = _min_rate()
    window_rtt: _RoundTrip | None = setting(
        "auto",
        "A queue pair's window is its rate times this, the round trip without queues; null: no window. "
        f"{_AUTO}",
        f"{_SIMULATOR}, run.py: a window that follows the rate, and GLOBAL_T, the longest round trip",
    )


def ack_every(host: Host) -> tuple[int, str | None]:
    """Packets between two requests for an ACK, and the reason where that is not the setting's own default."""
    if host.congestion in _EACH_ACK and "ack_every" not in host.transport.model_fields_set:
        return 1, f"{host.congestion} takes an ACK of each packet"
    return host.transport.ack_every, None


def round_trip_setting(host: Host) -> int | str | None:
    """The round trip that the host's congestion control is set to; None if it takes none."""
    return {
        "hpcc": host.hpcc.base_rtt,
        "timely": host.timely.min_rtt,
        "dctcp": host.dctcp.window_rtt,
    }.get(host.congestion)


def congestion_plan(host: Host, rate_bps: int, round_trip: int | None) -> str | dict[str, Any]:
    """The plan of the congestion control of a NIC on a link of `rate_bps`, with `auto` worked out."""
    if host.congestion == "dcqcn":
        return in_plan({name: found.value for name, found in resolve(host.dcqcn, rate_bps).items()})
    if host.congestion == "hpcc":
        hpcc = host.hpcc
        return {
            "hpcc": {
                "base_rtt_ps": round_trip,
                "eta": hpcc.eta,
                "max_stage": hpcc.max_stage,
                "additive_bytes": hpcc.additive,
                "min_rate_bps": hpcc.min_rate,
                "telemetry_bytes": hpcc.telemetry,
            }
        }
    if host.congestion == "timely":
        timely = host.timely
        return {
            "timely": {
                "alpha": timely.alpha,
                "beta": timely.beta,
                "additive_bps": timely.additive,
                "hyper_additive_bps": timely.hyper_additive,
                "hyper_after": timely.hyper_after,
                "t_low_ps": timely.t_low,
                "t_high_ps": timely.t_high,
                "min_rtt_ps": round_trip,
                "segment_bytes": timely.segment,
                "min_rate_bps": timely.min_rate,
                "telemetry_bytes": timely.telemetry,
            }
        }
    if host.congestion == "dctcp":
        dctcp = host.dctcp
        return {
            "dctcp": {
                "g": dctcp.g,
                "additive_bps": dctcp.additive,
                "min_rate_bps": dctcp.min_rate,
                "window_rtt_ps": round_trip,
            }
        }
    return "none"


def telemetry_bytes(host: Host) -> int:
    """What congestion control adds to each data packet, in bytes."""
    return {"hpcc": host.hpcc.telemetry, "timely": host.timely.telemetry}.get(host.congestion, 0)


def congestion_conflicts(host: Host, rates: Iterable[int]) -> Iterator[tuple[Path, str]]:
    """What of HPCC, TIMELY or DCTCP does not go with the transport, or with links of these rates."""
    kind = host.congestion
    if kind in _EACH_ACK and ack_every(host)[0] != 1:
        yield (
            ("host", "transport", "ack_every"),
            f"found {host.transport.ack_every}, expected 1 with {kind}, which takes an ACK of each packet",
        )
    if kind in ("hpcc", "timely", "dctcp"):
        lowest, line = getattr(host, kind).min_rate, min(rates)
        if lowest > line:
            yield (
                ("host", kind, "min_rate"),
                f"found {format_rate(lowest)}, expected at most the link's rate, {format_rate(line)}",
            )
