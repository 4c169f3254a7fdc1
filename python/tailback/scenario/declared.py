"""Settings as the engine declares them.

Made by tools/make_settings.py from crates; not to be edited. What depends on several settings, and what only
scenarios have, is in the classes made from these.
"""

# ruff: noqa: E501, RUF100

from __future__ import annotations

from typing import Annotated

from tailback.scenario.fields import Declared, setting
from tailback.units import DURATION, SIZE


class Pfc(Declared):
    """Priority flow control of a switch (IEEE 802.1Qbb)."""

    xoff: Annotated[int, SIZE.between("1B")] | None = setting(
        None,
        "An ingress group above this asks for a pause. null: switch.ingress_alpha times the free buffer.",
        "Linux mlxsw spectrum_buffers.c: thresholds of shared pools are dynamic",
    )
    xon: Annotated[int, SIZE] | None = setting(
        None,
        "An ingress group at or below this lets its peer go on. null: xon_offset below xoff.",
        "assumption: a fixed value makes no sense below a threshold that moves",
    )
    xon_offset: Annotated[int, SIZE] = setting(
        SIZE.parse("3KiB"),
        "How far below xoff a group lets its peer go on, where xon is null.",
        "the HPCC authors' simulator, switch-mmu.cc; Zhu et al., SIGCOMM 2015: two MTUs",
    )
    quanta: int = setting(
        65535,
        "Length of a pause, in 512 bit times; repeated at half of it while it is needed.",
        "IEEE 802.1Qbb: the most that a frame can ask for",
        ge=2,
        le=65535,
    )
    response_delay: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("2.01728us"),
        "From a pause frame's last bit to the moment its receiver is quiet.",
        "IEEE 802.3 annex 31B.3.7: 394 quanta at 100 Gbit/s, the most that a port may take",
    )


class Watchdog(Declared):
    """The PFC watchdog of the switches' ports, with the action drop."""

    detection_time: Annotated[int, DURATION.between("1ps", maximum="18000s")] = setting(
        DURATION.parse("200ms"),
        "A lossless queue that a pause holds up for so long drops what waits and what comes.",
        "SONiC, pfcwd: DEFAULT_DETECTION_TIME",
    )
    restoration_time: Annotated[int, DURATION.between("1ps", maximum="18000s")] = setting(
        DURATION.parse("200ms"),
        "It works again after so long without a pause.",
        "SONiC, pfcwd: DEFAULT_RESTORATION_TIME",
    )
