"""Scenarios: YAML files (or Python data) with units, checked as a whole, every default with its source."""

from __future__ import annotations

from tailback.library import names as builtin_names
from tailback.scenario.load import Source, load, loads
from tailback.scenario.model import Scenario
from tailback.scenario.schema import json_schema
from tailback.scenario.show import show

__all__ = [
    "Scenario",
    "Source",
    "builtin_names",
    "json_schema",
    "load",
    "loads",
    "show",
]
