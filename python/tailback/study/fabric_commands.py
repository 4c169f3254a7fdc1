"""Settings as commands and configuration of a real fabric, where that has them.

Names: SONiC's WRED_PROFILE and BUFFER_PROFILE are of its configuration schema (sonic-yang-models,
sonic-wred-profile.yang and sonic-buffer-profile.yang); `ecn/roce_rp` and `ecn/roce_np` are NVIDIA's "DCQCN CC
Parameters".
"""

from __future__ import annotations

import json
import math
from typing import Any

from tailback.study.points import Point, number_of

_PROFILE = "PROFILE"
_NP = ("min_time_between_cnps",)
_OWN = ("profile", "byte_reset_unit_bytes", "release_at_max_rate", "cnp_interval_per", "wait_follows_rate")
"""Of DCQCN, what says how a NIC is read and is no parameter of one."""


def commands(point: Point) -> list[str]:
    """Lines that put settings on a fabric; what no tool sets is a comment."""
    sonic: dict[str, dict[str, Any]] = {}
    lines: list[str] = []
    rest: list[str] = []
    for setting, value in point.items():
        number = number_of(value)
        head, _, name = setting.rpartition(".")
        if head == "switch.ecn" and name in ("k_min", "k_max", "p_max") and not isinstance(number, str):
            sonic.setdefault("WRED_PROFILE", {"ecn": "ecn_all", "wred_green_enable": "true"}).update(
                _wred(name, number)
            )
        elif setting == "switch.ingress_alpha" and not isinstance(number, str) and number > 0:
            # SONiC has powers of two only.
            sonic.setdefault("BUFFER_PROFILE", {})["dynamic_th"] = str(round(math.log2(number)))
        elif head == "host.dcqcn" and name in _NP:
            lines.append(f"echo {value} > /sys/class/net/$DEV/ecn/roce_np/{name}")
        elif head == "host.dcqcn" and name not in _OWN:
            written = {"true": "1", "false": "0"}.get(value, value)
            lines.append(f"echo {written} > /sys/class/net/$DEV/ecn/roce_rp/{name}")
        else:
            rest.append(f"{setting}={value}")
    if sonic:
        patch = {table: {_PROFILE: fields} for table, fields in sonic.items()}
        lines.insert(
            0, f"sonic-cfggen -a '{json.dumps(patch)}' --write-to-db  # in place of {_PROFILE}, your own"
        )
    return lines + [f"# no command is known: {one}" for one in rest]


def _wred(name: str, number: float) -> dict[str, str]:
    if name == "p_max":
        return {"green_drop_probability": str(round(100 * number))}
    field = {"k_min": "green_min_threshold", "k_max": "green_max_threshold"}[name]
    return {field: str(round(number))}
