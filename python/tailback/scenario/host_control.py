"""Control of congestion inside the receiving host: RHCC and hostCC, beside the congestion control.

Sources: Wan et al., "Rethinking Intra-host Congestion Control in RDMA Networks", APNet 2024; Agarwal,
Krishnamurthy, Agarwal, "Host Congestion Control", SIGCOMM 2023, and its authors' kernel module.
"""

from __future__ import annotations

from tailback.scenario import declared
from tailback.scenario.controllers import RhccSender
from tailback.scenario.fields import Section, setting

CACHE_LINE_BYTES = 64
_PS_PER_S = 10**12


class _Halves(Section):
    """Switches RHCC on, at senders and receivers."""

    sender: bool = setting(
        False, "Whether senders probe their receivers.", "assumption: no NIC comes with it"
    )
    receiver: bool = setting(
        False,
        "Whether receivers set the CPUs' memory bandwidth.",
        "assumption: off, since no operating system ships it",
    )


class Rhcc(declared.RhccReceiver, RhccSender, _Halves):
    """RHCC: the receiver takes memory bandwidth from its CPUs, the sender follows the receiver's delay."""


class _Enabled(Section):
    """Switches hostCC on."""

    enabled: bool = setting(
        False, "Whether receivers run it.", "assumption: off, since no operating system ships it"
    )


class HostCc(declared.HostCc, _Enabled):
    """HostCC: the receiver sets its CPUs' memory bandwidth and marks packets before the transport."""


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
