"""Tailback: a simulator of RDMA networks (RoCEv2), from a scenario file to a report.

import tailback

result = tailback.run("roce-incast-lossless", sets=["run.duration=200ms"])
result.summary["goodput"]
"""

from __future__ import annotations

from tailback import start_up  # noqa: F401  first of all: the rest takes a while

# isort: split
from importlib import metadata

from tailback.controller import Controller, Link
from tailback.hpcc.run import run_hpcc
from tailback.run import Interrupted, run
from tailback.scenario import Scenario, ScenarioError, load

try:
    __version__ = metadata.version("tailback")
except metadata.PackageNotFoundError:  # a source tree on the path
    __version__ = "unknown"

__all__ = [
    "Controller",
    "Interrupted",
    "Link",
    "Scenario",
    "ScenarioError",
    "__version__",
    "load",
    "run",
    "run_hpcc",
]
