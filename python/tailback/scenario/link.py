"""A link between two nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from tailback.scenario.fields import Delay, Part, setting
from tailback.units import RATE, duration, rate

LinkRate = Annotated[int, RATE.between("1Mbps", "100Tbps")]
Read = Callable[[str, int], bytes]
"""Gives the content of a file that a scenario names, of at most so many bytes."""


class Link(Part):
    """A full-duplex link."""

    rate: LinkRate = setting(
        rate("100Gbps"),
        "Rate of each direction.",
        'assumption: "RoCE Rocks without PFC" gives none; its ConnectX-4 and SN2700 have ports of 100 Gbit/s',
    )
    delay: Delay = setting(
        duration("500ns"),
        "Propagation, one way.",
        "assumption: 100 m of fibre at 5 ns/m, the longest in a row of racks",
    )
    loss: float = setting(
        0.0,
        "Probability that a packet is lost on the link, each way. PFC frames never are.",
        "assumption: a clean link",
        ge=0.0,
        lt=1.0,
        allow_inf_nan=False,
    )
