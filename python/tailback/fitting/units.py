"""The units that a figure of the lab may come in, by the unit that its measure has in a run."""

from __future__ import annotations

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9} | {f"{p}B": f for p, f in _BINARY.items()}

UNITS: dict[str, dict[str, float]] = {
    "bit/s": {f"{p}bit/s": f for p, f in _DECIMAL.items()} | {f"{p}bps": f for p, f in _DECIMAL.items()},
    "B/s": {f"{name}/s": factor for name, factor in _BYTES.items()},
    "MiB/s": {"MiB/s": 1.0, "MB/s": 1e6 / 2**20, "GiB/s": 1024.0},
    "B": _BYTES,
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "share": {"share": 1.0, "%": 0.01},
    "count": {"": 1.0, "count": 1.0},
    "index": {"": 1.0, "index": 1.0},
}
"""How much of the base unit each is. Only counts and indices may come without one."""
