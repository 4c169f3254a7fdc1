"""Tailback: a simulator of RDMA networks (RoCEv2), from a scenario file to a report.

import tailback

result = tailback.run("roce-incast-lossless", sets=["run.duration=200ms"])
result.summary["goodput"]
"""

from __future__ import annotations

from tailback import start_up  # noqa: F401  must come first: the other imports take a while

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailback.astra.inputs import AstraOptions
    from tailback.astra.run import run_astra
    from tailback.comparison import compare
    from tailback.controller import Controller, Link
    from tailback.errors import InputError
    from tailback.hpcc.run import run_hpcc
    from tailback.results import Result
    from tailback.running import Interrupted, run
    from tailback.scenario import Scenario
    from tailback.scenario.load import load
    from tailback.simai.inputs import SimaiOptions
    from tailback.simai.run import run_simai
    from tailback.study.grid import sweep
    from tailback.study.posterior_rounds import fit
    from tailback.study.tpe import tune

    __version__: str

_MODULE_OF_NAME = {
    "AstraOptions": "astra.inputs",
    "SimaiOptions": "simai.inputs",
    "Controller": "controller",
    "Interrupted": "running",
    "Link": "controller",
    "Result": "results",
    "Scenario": "scenario",
    "InputError": "errors",
    "__version__": "version",
    "compare": "comparison",
    "fit": "study.posterior_rounds",
    "load": "scenario.load",
    "run": "running",
    "run_astra": "astra.run",
    "run_simai": "simai.run",
    "run_hpcc": "hpcc.run",
    "sweep": "study.grid",
    "tune": "study.tpe",
}
"""The module of each name, loaded at first use: all of them together take a second."""

__all__ = [
    "AstraOptions",
    "Controller",
    "InputError",
    "Interrupted",
    "Link",
    "Result",
    "Scenario",
    "SimaiOptions",
    "__version__",
    "compare",
    "fit",
    "load",
    "run",
    "run_astra",
    "run_hpcc",
    "run_simai",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tailback.{_MODULE_OF_NAME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
