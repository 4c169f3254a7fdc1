"""Labs that others measured: each cell of their tables is a run by its settings, and is compared with what was
measured there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tailback.errors import InputError, one_of

if TYPE_CHECKING:
    from tailback.measured.cells import Lab

LABS = {
    "L1": "ConnectX-5 on one leaf of 100 Gbit/s, without PFC and marks",
    "L2": "BlueField-3 behind a Spectrum-4: RDMA beside TCP in one lossy class",
    "L3": "veth with byte queue limits: rules by tx-usecs, on two machines",
}
"""Names and titles. What a lab is has a module of its own, which is loaded when it is asked for."""


def lab(name: str) -> Lab:
    """InputError where there is none of that name."""
    if name not in LABS:
        raise InputError.at(name, f"found no such lab, expected {one_of(name, LABS)}")
    found: Lab = getattr(import_module(f"tailback.measured.{name.lower()}"), name)
    return found
