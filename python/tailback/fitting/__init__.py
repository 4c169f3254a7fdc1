"""Fits: settings that a lab does not tell, inferred from what it measured."""

from tailback.fitting.asked import Fit, read_fit
from tailback.fitting.results import FitResult
from tailback.fitting.rounds import FitInterrupted, fit

__all__ = ["Fit", "FitInterrupted", "FitResult", "fit", "read_fit"]
