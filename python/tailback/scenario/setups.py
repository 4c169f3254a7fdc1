"""Whole setups by one key: `qos: lossless-with-qos` and `preset: 400g` fill in what is not given."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from tailback.errors import Path
from tailback.scenario import presets
from tailback.scenario.document import Document, from_python

_ROCKS = '"RoCE Rocks without PFC", section'
_DOC = "Mellanox community DOC-2591"
_SHARES = f"{_ROCKS} 2.2: RoCE isolated in scheduling; assumption: equal shares"
_NONE = f"{_ROCKS} 3.1: the default configuration, without quality of service"
_THRESHOLDS = f"{_ROCKS} 3.1"

SETUPS: dict[str, presets.Fills] = {
    "lossless-with-qos": [
        ("host.qos.trust", "dscp", f"{_ROCKS} 2.2: DSCP; NVIDIA's RoCE guides: mlnx_qos --trust dscp"),
        ("host.cnp_priority", 6, f"{_ROCKS} 2.2: CNPs in a class of their own; mlx5: cnp_dscp 48, prio 6"),
        ("host.strict", [6], f"{_DOC}: CNPs in priority 6, strict"),
        ("host.weights", {"0": 50, "3": 50}, _SHARES),
        ("switch.qos.trust", "dscp", f"{_ROCKS} 2.2: DSCP; NVIDIA's RoCE guides: trust L3"),
        ("switch.lossless", [3], f"{_DOC}: RoCE in priority 3, lossless"),
        ("switch.strict", [6], f"{_DOC}: CNPs in priority 6, strict"),
        ("switch.weights", {"0": 50, "3": 50}, _SHARES),
        ("switch.pools.lossless", "4MiB", f"{_DOC}: a pool of 4 MiB for RoCE"),
        ("switch.pools.lossy", "auto", f"{_ROCKS} 2.2: guaranteed buffering; the rest is for all others"),
        ("switch.ingress_alpha", 2.0, f"{_DOC}: alpha 2"),
        ("switch.ecn.k_min", "150KB", _THRESHOLDS),
        ("switch.ecn.k_max", "1500KB", _THRESHOLDS),
        ("switch.ecn.priorities", [3], f"{_DOC}: ECN in the traffic class of RoCE"),
    ],
    "lossy-default": [
        ("host.qos.trust", "port", _NONE),
        ("host.qos.default_priority", 0, _NONE),
        ("host.strict", [], _NONE),
        ("host.weights", None, _NONE),
        ("switch.qos.trust", "port", _NONE),
        ("switch.qos.default_priority", 0, _NONE),
        ("switch.lossless", [], _NONE),
        ("switch.strict", [], _NONE),
        ("switch.weights", None, _NONE),
        ("switch.pools", None, _NONE),
        ("switch.ecn.k_min", "150KB", _THRESHOLDS),
        ("switch.ecn.k_max", "1500KB", _THRESHOLDS),
        ("switch.ecn.priorities", None, _NONE),
    ],
}
"""What each setup sets: path, value as in a file, source."""


class Filled(NamedTuple):
    """What setups say, by path."""

    sources: dict[Path, str]
    """Of what was filled in, the source of the value."""
    given: dict[Path, tuple[Any, str]]
    """Of what the document gives itself, the value that it would have had, and its source."""


def fill(document: Document) -> Filled:
    """Fills in what the presets and the setup that the document names have and the document has not.

    A preset comes before the setup of classes: its thresholds are those of its rate. A name that is none is
    left to the model.
    """
    filled = Filled({}, {})
    if isinstance(document.data, dict):
        name = document.data.get("qos")
        setup = SETUPS.get(name, []) if isinstance(name, str) else []
        named = [(path, value, f"{name}: {source}") for path, value, source in setup]
        for key, fills in (("preset", presets.fills_of(document.data)), ("qos", named)):
            place = document.origin((key,))
            for dotted, value, source in fills:
                path: Path = tuple(dotted.split("."))
                if _is_free(document.data, path):
                    new = from_python({"value": copy.deepcopy(value)}, place)
                    document.put(path, Document(new.data["value"], {(): place}))
                    filled.sources[path] = source
                elif path not in filled.sources:
                    filled.given.setdefault(path, (value, source))
    return filled


def _is_free(data: Any, path: Path) -> bool:
    """Whether nothing is given at a path, and mappings or nothing above it."""
    for part in path:
        if not isinstance(data, dict):
            return False
        if part not in data:
            return True
        data = data[part]
    return False
