"""Control of congestion inside the receiving host: RHCC and hostCC, beside the congestion control.

Sources: Wan et al., "Rethinking Intra-host Congestion Control in RDMA Networks", APNet 2024; Agarwal,
Krishnamurthy, Agarwal, "Host Congestion Control", SIGCOMM 2023, and its authors' kernel module.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from tailback.scenario.controllers import RhccSender
from tailback.scenario.fields import Part, setting
from tailback.units import DURATION, RATE, duration, format_rate, rate

_WAN = "Wan et al. (RHCC), APNet 2024"
_MODULE = "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC)"

CACHE_LINE_BYTES = 64
_PS_PER_S = 10**12
MAX_LEVELS = 16

_Time = Annotated[int, DURATION.between("1ps", "1s")]
_Wait = Annotated[int, DURATION.between(maximum="1s")]
_Interval = Annotated[int, DURATION.between("10ns", "1s")]
_Rate = Annotated[int, RATE.between("1bps", "100Tbps")]
_Promise = Annotated[int | Literal["auto"], RATE.between("1bps", "100Tbps").or_word("auto")]
_Lines = Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)]


def _falling(levels: list[int]) -> list[int]:
    if not 1 <= len(levels) <= MAX_LEVELS or any(low >= high for high, low in pairwise(levels)):
        found = "[" + ", ".join(format_rate(level) for level in levels) + "]"
        expected = f"1 to {MAX_LEVELS} rates, each below the one before"
        raise PydanticCustomError("found_expected", "{expected}", {"found": found, "expected": expected})
    return levels


Levels = Annotated[list[_Rate], AfterValidator(_falling)]
"""Memory bandwidths that CPUs may have, from the highest to the lowest."""

_CLOCK = (
    "Clock of the IIO in MHz: its counter grows by the occupancy at every cycle.",
    f"{_MODULE}: Intel Cascade Lake",
)
_INTERVAL = (
    duration("1us"),
    "Time between two readings of the counters.",
    "assumption: below a round trip; hostCC's module polls its registers without a pause",
)
_WRITE_TIME = (
    duration("20us"),
    "What writing a level takes; it has its effect then, and nothing else is decided meanwhile.",
    "assumption: no source gives it; registers of other cores are written through interrupts to them",
)
_RAISE = duration("150us")


def _levels(default: list[str], source: str) -> Any:
    return setting(
        [rate(level) for level in default],
        "Memory bandwidths that CPUs may have (Intel MBA), falling; the first is no limit.",
        source,
    )


class _Halves(Part):
    """Which halves of RHCC are on."""

    sender: bool = setting(
        False, "Whether senders probe their receivers.", "assumption: no NIC comes with it"
    )
    receiver: bool = setting(
        False, "Whether receivers set the CPUs' memory bandwidth.", "assumption: no host comes with it"
    )


class Rhcc(RhccSender, _Halves):
    """RHCC: the receiver takes memory bandwidth from its CPUs, the sender follows the receiver's delay."""

    sample_interval: _Interval = setting(*_INTERVAL)
    iio_clock_mhz: int = setting(500, *_CLOCK, ge=1, le=100_000)
    iio_threshold: _Lines | Literal["auto"] = setting(
        "auto",
        "I_thr in cache lines of 64 B. auto: what the link's rate keeps in the IIO at threshold_delay.",
        "assumption: the paper names no value; by Little's law the same congestion as D_thr",
    )
    levels: Levels = _levels(
        ["265.6Gbps", "212Gbps", "160Gbps", "120Gbps", "80Gbps"],
        f"{_WAN}, section 3.2: 33.2, 26.5, 20, 15 and 10 GB/s",
    )
    write_time: _Wait = setting(*_WRITE_TIME)
    raise_interval: _Wait = setting(
        _RAISE,
        "Time without congestion before the bandwidth goes up a level, and from there to the next level.",
        f"assumption: the paper does not say when; {_MODULE}: 150 us between two levels up",
    )


class HostCc(Part):
    """HostCC: the receiver sets its CPUs' memory bandwidth and marks packets before the transport."""

    enabled: bool = setting(False, "Whether receivers run it.", "assumption: no host comes with it")
    sample_interval: _Interval = setting(*_INTERVAL)
    iio_clock_mhz: int = setting(500, *_CLOCK, ge=1, le=100_000)
    iio_threshold: _Lines = setting(70.0, "I_T in cache lines of 64 B.", f"{_MODULE}: target_iio_thresh")
    iio_weight: float = setting(
        0.125,
        "Weight of the newest occupancy in its average.",
        f"{_MODULE}: 1/8",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    pcie_threshold: _Promise = setting(
        "auto",
        "B_T: PCIe bandwidth promised to the network. auto: 84 % of the link's rate.",
        f"{_MODULE}: 84 Gbit/s at 100 Gbit/s",
    )
    pcie_weight: float = setting(
        0.00390625,
        "Weight of the newest bandwidth in its average.",
        f"{_MODULE}: 1/256",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    levels: Levels = _levels(
        ["265.6Gbps", "185.9Gbps", "106.2Gbps", "26.6Gbps", "1Mbps"],
        f"assumption: {_MODULE} throttles none to three of three NUMA nodes to 10 %, then stops the process "
        "(1 Mbit/s here); of the 33.2 GB/s that Wan et al. measured",
    )
    write_time: _Wait = setting(*_WRITE_TIME)
    raise_interval: _Wait = setting(
        _RAISE, "Least time between two levels up.", f"{_MODULE}: REDUCTION_TIMEOUT_US"
    )
    mark: bool = setting(
        True, "Whether packets are marked CE while the occupancy is above iio_threshold.", _MODULE
    )


def iio_threshold(rhcc: Rhcc, rate_bps: int) -> float:
    """RHCC's I_thr in cache lines, for a host on a link of `rate_bps`.

    `auto` is Little's law: at 100 Gbit/s and 200 ns, 12.5 B/ns * 200 ns = 2,500 B = 39.0625 lines.
    """
    if rhcc.iio_threshold != "auto":
        return rhcc.iio_threshold
    return rate_bps * rhcc.threshold_delay / (8 * _PS_PER_S * CACHE_LINE_BYTES)


def pcie_threshold(hostcc: HostCc, rate_bps: int) -> int:
    """hostCC's B_T in bit/s, for a host on a link of `rate_bps`."""
    return rate_bps * 84 // 100 if hostcc.pcie_threshold == "auto" else hostcc.pcie_threshold
