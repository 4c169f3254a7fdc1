"""ASTRA-sim's JSON files: the system, the logical topology, communicator groups and the remote memory.

Meanings of keys are from ASTRA-sim's system layer (astra-sim/astra-sim, commit 518bd51); other keys have no
effect in ASTRA-sim either.
"""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tailback.errors import InputError, found, plain
from tailback.limits import ASTRA_CHUNKS, HPCC_NODES

_ALGORITHM_NAMES = {
    "ring": "ring",
    "direct": "direct",
    "halvingDoubling": "halving-doubling",
    "doubleBinaryTree": "double-binary-tree",
}
_ALGORITHM_CHOICES = "ring|halvingDoubling|doubleBinaryTree|direct"
_ALGORITHM_PATTERN = re.compile(
    rf"(one(?=[RDH]))?((?<=one)(?:Ring|HalvingDoubling|Direct)|(?<!one)(?:{_ALGORITHM_CHOICES}))(-1|\d{{0,5}})"
)
_EXPECTED_ALGORITHM = (
    "expected ring, direct, directN, halvingDoubling, doubleBinaryTree, oneRing, oneDirect or "
    "oneHalvingDoubling"
)


def _implementation(text: Any) -> dict[str, Any]:
    """Parses ASTRA-sim's name of an algorithm; `direct4` sends four messages at first."""
    match = _ALGORITHM_PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(_EXPECTED_ALGORITHM)
    of_all, name, window = match.groups()
    name = name[0].lower() + name[1:]
    if (window and name != "direct") or window == "0":
        raise ValueError(_EXPECTED_ALGORITHM)
    most = int(window) if window not in ("", "-1") else None
    return {"algorithm": _ALGORITHM_NAMES[name], "window": most, "of_all": of_all is not None}


Implementations = list[Annotated[Any, BeforeValidator(_implementation)]] | None


def _numeric(value: Any) -> Any:
    """ASTRA-sim does not accept numbers in strings."""
    if not isinstance(value, (int, float)):
        raise ValueError("expected a number")
    return value


_Whole = Annotated[int, BeforeValidator(_numeric)]
_Real = Annotated[float, BeforeValidator(_numeric)]
_Flag = Annotated[bool, BeforeValidator(lambda value: _numeric(value) != 0)]


class System(BaseModel):
    """The system file. Rates are in GB/s and TFLOP/s, delays in ns."""

    model_config = ConfigDict(
        extra="allow", alias_generator=lambda name: name.replace("_", "-"), allow_inf_nan=False
    )

    scheduling_policy: Literal["LIFO", "FIFO", "EXPLICIT"] = "LIFO"
    collective_optimization: Literal["baseline", "localBWAware"] = "baseline"
    endpoint_delay: _Whole = Field(10, ge=0, lt=2**31)
    active_chunks_per_dimension: _Whole = Field(1, ge=1, lt=2**31)
    preferred_dataset_splits: _Whole = Field(0, ge=0, le=ASTRA_CHUNKS)
    local_mem_bw: _Real = Field(0.0, ge=0)
    peak_perf: _Real = Field(0.0, ge=0)
    roofline_enabled: _Flag = False
    replay_only: _Flag = False
    all_reduce_implementation: Implementations = None
    all_gather_implementation: Implementations = None
    reduce_scatter_implementation: Implementations = None
    all_to_all_implementation: Implementations = None


UNDEFINED_KEYS = {"scheduling-policy": "LIFO", "collective-optimization": "baseline"}
"""Keys without a default in ASTRA-sim, whose behaviour without them is undefined, and the values used here."""
_CUSTOM_COLLECTIVES_REFUSED = ("custom collectives are not carried out; remove the key to run the algorithm of its "
           "X-implementation")  # fmt: skip
_NOT_HONOURED = {
    "model-shared-bus": "the LogGP model of a shared bus: a message waits endpoint-delay instead",
    "track-local-mem": "no trace of local memory is written",
    "trace-enabled": "no log of operations is written",
    **dict.fromkeys(("L", "o", "g", "G", "local-reduction-delay"), "a figure of the LogGP model"),
}
_NO_EFFECT = "it has no effect in ASTRA-sim either"


def _json(file: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except json.JSONDecodeError as error:
        raise InputError.at(f"{file}:{error.lineno}", f"expected JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InputError.at(file, "expected JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise InputError.at(file, f"expected a mapping, found {found(value)}")
    return value


def read_system(file: str, data: bytes) -> System:
    """Reads the system file.

    Raises:
        InputError: the message has file and key.
    """
    value = _json(file, data)
    for key in value:
        if key.endswith("-implementation-custom") or key == "per-node-custom-implementation":
            raise InputError.at(file, f"{plain(key)}: {_CUSTOM_COLLECTIVES_REFUSED}")
    try:
        system = System.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(plain(str(part)) for part in first["loc"])
        text = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        raise InputError.at(file, f"{place}: {text}, found {found(first['input'])}") from None
    if system.roofline_enabled and not (system.peak_perf and system.local_mem_bw):
        raise InputError.at(file, "roofline-enabled: expected peak-perf and local-mem-bw above 0 with it")
    return system


def not_honoured(system: System) -> dict[str, str]:
    """Keys that are ignored, and why."""
    extra = system.model_extra or {}
    return {plain(key): _NOT_HONOURED.get(key, _NO_EFFECT) for key, value in extra.items() if value != 0}


def read_dims(file: str, data: bytes) -> list[int]:
    """Reads the sizes of the logical topology's dimensions.

    Raises:
        InputError: the message has file and key.
    """
    dims = _json(file, data).get("logical-dims")
    sizes = [_whole(size) for size in dims] if isinstance(dims, list) else []
    if not sizes or not all(sizes) or math.prod(sizes) > HPCC_NODES:
        text = f'expected sizes such as ["4", "4"], at most {HPCC_NODES:,} ranks together'
        raise InputError.at(file, f"logical-dims: {text}, found {plain(json.dumps(dims))}")
    return sizes


def _whole(value: Any) -> int:
    """A size of at least 1, from a number or a string; 0 if it is none."""
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def read_groups(file: str, data: bytes, ranks: int) -> dict[int, list[int]]:
    """Reads the ranks of each communicator group, by its number.

    Raises:
        InputError: the message has file and group.
    """
    groups = {}
    for name, members in _json(file, data).items():
        number = _whole(name)
        if not 0 < number < 2**31 // 1_000_000:
            raise InputError.at(file, f"{plain(name)}: expected a group's number from 1 to 2146")
        in_order = isinstance(members, list) and all(type(rank) is int for rank in members)
        if not in_order or not members or len(set(members)) < len(members):
            raise InputError.at(file, f"{name}: expected a list of different ranks")
        if wrong := [rank for rank in members if not 0 <= rank < ranks]:
            raise InputError.at(file, f"{name}: expected ranks below {ranks}, found {wrong[0]}")
        groups[number] = members
    return groups


def check_memory(file: str, data: bytes) -> None:
    """Checks that the file asks for no remote memory.

    Raises:
        InputError: it asks for another than NO_MEMORY_EXPANSION.
    """
    kind = _json(file, data).get("memory-type")
    if kind != "NO_MEMORY_EXPANSION":
        raise InputError.at(file, f"memory-type: expected NO_MEMORY_EXPANSION, found {found(kind)}")
