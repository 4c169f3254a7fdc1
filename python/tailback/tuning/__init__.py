"""Tuning: which settings serve several workloads best, judged on workloads and seeds that no trial saw."""

from tailback.tuning.carry_out import Progress, tune
from tailback.tuning.design import TuneDesign, read_tune
from tailback.tuning.result import TuneResult

__all__ = ["Progress", "TuneDesign", "TuneResult", "read_tune", "tune"]
