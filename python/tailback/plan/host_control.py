"""RHCC's receiver and hostCC in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario import declared
from tailback.scenario.controllers import RhccSender
from tailback.scenario.host_control import iio_threshold, pcie_threshold
from tailback.scenario.model import Host


def rhcc_plan(host: Host, rate_bps: int, *, has_path: bool = True) -> dict[str, Any] | None:
    """RHCC in the plan of a NIC on a link of `rate_bps`; none where neither half is on.

    The receiver half needs a host with a data path.
    """
    rhcc = host.rhcc
    watches = rhcc.receiver and has_path
    if not (rhcc.sender or watches):
        return None
    sender = {name: getattr(rhcc, name) for name in RhccSender.model_fields}
    receiver = rhcc.plan(declared.RhccReceiver, iio_threshold=iio_threshold(rhcc, rate_bps))
    return {"sender": sender if rhcc.sender else None, "receiver": receiver if watches else None}


def hostcc_plan(host: Host, rate_bps: int) -> dict[str, Any] | None:
    """HostCC in the plan of a NIC on a link of `rate_bps`; none where it is off."""
    hostcc = host.hostcc
    if not hostcc.enabled:
        return None
    return hostcc.plan(pcie_threshold=pcie_threshold(hostcc, rate_bps))
