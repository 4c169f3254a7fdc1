"""Published experiments: repeated, and each of their claims judged."""

from tailback.reproduce.everything import ALL_EXPERIMENTS, names, reproduce_all
from tailback.reproduce.experiments import load_published
from tailback.reproduce.one import planned_runs, reproduce
from tailback.reproduce.outcome import AllReproductions, Reproduction

__all__ = [
    "ALL_EXPERIMENTS",
    "AllReproductions",
    "Reproduction",
    "load_published",
    "names",
    "planned_runs",
    "reproduce",
    "reproduce_all",
]
