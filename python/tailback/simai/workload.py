"""SimAI's workload text, as AICB writes it: a line of keys, the number of layers, twelve tokens per layer.

Meanings of keys and tokens are from SimAI's workload reader (aliyun/SimAI, commit b5ff47c).
"""

from __future__ import annotations

from dataclasses import dataclass

from tailback.errors import InputError, plain
from tailback.hpcc.tokens import U64_MAX, Tokens
from tailback.limits import HPCC_NODES, SIMAI_LAYERS

PARALLELISM_POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
TOKENS_PER_LAYER = 12
FORWARD, INPUT, WEIGHT = PARTS = (0, 1, 2)
PART_NAMES = ("fwd", "ig", "wg")
MIN_FORWARD_BYTES = 4096
"""SimAI enlarges smaller collectives of the forward pass."""
COLLECTIVE_TYPES = {
    "ALLREDUCE": "all-reduce",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "all-to-all",
}
NONE, BROADCAST = TYPES_WITHOUT_MESSAGES = ("NONE", "BROADCAST")
"""Types for which SimAI sends nothing."""
GROUP_SUFFIXES = {"": None, "_EP": "expert", "_DP_EP": "data-expert"}
_TYPES_WITH_SUFFIX = {
    f"{kind}{suffix}": (kind, suffix) for kind in COLLECTIVE_TYPES for suffix in GROUP_SUFFIXES
}
MAX_TIME_NS = 10**18


@dataclass(frozen=True)
class Collective:
    """A collective; kind and group by the engine's names."""

    kind: str
    group: str
    bytes: int


@dataclass(frozen=True)
class Layer:
    """A layer: for each part the compute time (ns), and the collective after it."""

    name: str
    compute_ns: tuple[int, int, int]
    collectives: tuple[Collective | None, Collective | None, Collective | None]
    update_ns: int
    line: int


@dataclass
class Workload:
    """A workload. `pipeline`, `all_gpus` and so on are values of the file, 0 if missing."""

    layers: list[Layer]
    tensor: int
    expert: int = 0
    pipeline: int = 0
    all_gpus: int = 0
    pp_comm: int = 0
    checkpoints: frozenset[int] = frozenset()
    initiates: frozenset[int] = frozenset()
    broadcasts: int = 0


NUMBER_KEYS = {
    "model_parallel_NPU_group:": (1, HPCC_NODES),
    "ep:": (1, HPCC_NODES),
    "pp:": (1, HPCC_NODES),
    "vpp:": (0, 2**31 - 1),
    "ga:": (0, 2**31 - 1),
    "all_gpus:": (1, 2**31 - 1),
    "pp_comm": (0, 2**31 - 1),
    "pp_comm:": (0, 2**31 - 1),
}
LIST_KEYS = ("checkpoints:", "checkpoint_initiates:")


def read_workload(file: str, data: bytes) -> Workload:
    """Reads a workload.

    Raises:
        InputError: the message has file, line, and what was expected.
    """
    end = data.find(b"\n")
    numbers, lists, tensor = _first_line(file, data if end < 0 else data[:end])
    tokens = Tokens(file, data)
    tokens.at = len((data if end < 0 else data[:end]).split())
    count_at = tokens.at
    count = tokens.integer("the number of layers", 1, SIMAI_LAYERS)
    there = len(tokens.words) - tokens.at
    if there < count * TOKENS_PER_LAYER:
        fit = there // TOKENS_PER_LAYER
        raise tokens.refuse(count_at, f"the number of layers: {fit} of {TOKENS_PER_LAYER} tokens each follow")
    lines = list(tokens.lines())
    found = Workload([], tensor, numbers.get("ep:", 0), numbers.get("pp:", 0), numbers.get("all_gpus:", 0))
    found.pp_comm = numbers.get("pp_comm", numbers.get("pp_comm:", 0))
    for number in range(count):
        found.layers.append(_layer(tokens, number, found, lines[tokens.at]))
    for key, layers in lists.items():
        if wrong := [layer for layer in layers if layer >= count]:
            raise InputError.at(f"{file}:1", f"{key} expected layers below {count}, found {wrong[0]}")
    found.checkpoints, found.initiates = (frozenset(lists.get(key, ())) for key in LIST_KEYS)
    if late := [layer for layer in found.initiates if not any(one < layer for one in found.checkpoints)]:
        text = f"checkpoint_initiates: expected a checkpoint before layer {min(late)}"
        raise InputError.at(f"{file}:1", text)
    return found


def _first_line(file: str, line: bytes) -> tuple[dict[str, int], dict[str, list[int]], int]:
    tokens = Tokens(file, line)
    policy = tokens.take(f"{PARALLELISM_POLICY} and its keys")
    if policy != PARALLELISM_POLICY.encode():
        raise tokens.refuse(0, f"{PARALLELISM_POLICY}, the one policy that is carried out")
    numbers: dict[str, int] = {}
    lists: dict[str, list[int]] = {}
    while tokens.at < len(tokens.words):
        key = tokens.take("a key").decode("latin-1")
        if key in NUMBER_KEYS:
            numbers[key] = tokens.integer(f"the value of {key}", *NUMBER_KEYS[key])
        elif key in LIST_KEYS:
            many = tokens.integer(f"the number of {key}", 0, SIMAI_LAYERS)
            lists[key] = [
                tokens.integer(f"{key} a layer", 0, SIMAI_LAYERS)
                for _ in range(min(many, len(tokens.words) - tokens.at + 1))
            ]
        else:
            raise tokens.refuse(tokens.at - 1, f"one of {', '.join((*NUMBER_KEYS, *LIST_KEYS))}")
    tensor = numbers.get("model_parallel_NPU_group:")
    if tensor is None:
        raise InputError.at(f"{file}:1", "expected model_parallel_NPU_group: and a number")
    return numbers, lists, tensor


def _layer(tokens: Tokens, number: int, found: Workload, line: int) -> Layer:
    name = plain(tokens.take("the name of a layer").decode("utf-8", "backslashreplace"))
    what = f"layer {number} ({name}): "
    depends = tokens.take(f"{what}its dependency, a whole number")
    if not depends.lstrip(b"-").isdigit():
        raise tokens.refuse(tokens.at - 1, f"{what}its dependency, a whole number")
    compute, collectives = [], []
    for part in PARTS:
        short = PART_NAMES[part]
        compute.append(tokens.integer(f"{what}{short} compute time in ns", 0, MAX_TIME_NS))
        kind = tokens.take(f"{what}{short} collective").decode("latin-1")
        at = tokens.at - 1
        size = tokens.integer(f"{what}{short} bytes", 0, U64_MAX >> 1)
        if kind not in _TYPES_WITH_SUFFIX and kind not in TYPES_WITHOUT_MESSAGES:
            known = ", ".join((*COLLECTIVE_TYPES, NONE))
            raise tokens.refuse(at, f"{what}{short} collective, {known}, with _EP or _DP_EP behind if wanted")
        found.broadcasts += kind == BROADCAST
        collectives.append(_collective(kind, part, size))
    update = tokens.integer(f"{what}update time in ns", 0, MAX_TIME_NS)
    first, second, third = collectives
    return Layer(name, (compute[0], compute[1], compute[2]), (first, second, third), update, line)


def _collective(name: str, part: int, size: int) -> Collective | None:
    """None without bytes: such collectives never end in SimAI."""
    if name in TYPES_WITHOUT_MESSAGES or size == 0:
        return None
    kind, suffix = _TYPES_WITH_SUFFIX[name]
    group = GROUP_SUFFIXES[suffix] or ("data" if part == WEIGHT else "tensor")
    if part == FORWARD:
        size = max(size, MIN_FORWARD_BYTES)
    return Collective(COLLECTIVE_TYPES[kind], group, size)
