"""Sweeps: one scenario at many points, with several seeds each."""

from tailback.sweeps.carry_out import Progress, sweep
from tailback.sweeps.design import Design, read_design
from tailback.sweeps.results import SweepResult

__all__ = ["Design", "Progress", "SweepResult", "read_design", "sweep"]
