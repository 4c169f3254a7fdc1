"""RHCC's receiver and hostCC in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario.controllers import RhccSender
from tailback.scenario.host_control import HostCc, Rhcc, iio_threshold, pcie_threshold
from tailback.scenario.model import Host


def _ladder(part: Rhcc | HostCc) -> dict[str, Any]:
    return {
        "levels_bps": list(part.levels),
        "write_time_ps": part.write_time,
        "raise_interval_ps": part.raise_interval,
    }


def rhcc_plan(host: Host, rate_bps: int, *, has_path: bool = True) -> dict[str, Any] | None:
    """RHCC in the plan of a NIC on a link of `rate_bps`; none where neither half is on.

    The receiver half needs a host with a data path.
    """
    rhcc = host.rhcc
    watches = rhcc.receiver and has_path
    if not (rhcc.sender or watches):
        return None
    sender = {name: getattr(rhcc, name) for name in RhccSender.model_fields}
    receiver = {
        "sample_interval_ps": rhcc.sample_interval,
        "iio_clock_hz": rhcc.iio_clock_mhz * 10**6,
        "iio_threshold_lines": iio_threshold(rhcc, rate_bps),
        "ladder": _ladder(rhcc),
    }
    return {"sender": sender if rhcc.sender else None, "receiver": receiver if watches else None}


def hostcc_plan(host: Host, rate_bps: int) -> dict[str, Any] | None:
    """HostCC in the plan of a NIC on a link of `rate_bps`; none where it is off."""
    hostcc = host.hostcc
    if not hostcc.enabled:
        return None
    return {
        "sample_interval_ps": hostcc.sample_interval,
        "iio_clock_hz": hostcc.iio_clock_mhz * 10**6,
        "iio_threshold_lines": hostcc.iio_threshold,
        "iio_weight": hostcc.iio_weight,
        "pcie_threshold_bps": pcie_threshold(hostcc, rate_bps),
        "pcie_weight": hostcc.pcie_weight,
        "ladder": _ladder(hostcc),
        "mark": hostcc.mark,
    }
