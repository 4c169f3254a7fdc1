"""Larger packets, other sizes of messages, fewer bytes under way, and a higher least rate of DCQCN."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy, numbered
from tailback.explain.remedies.own_class import SMALL_BYTES, bytes_of
from tailback.explain.stages import FULL_BUSY_SHARE
from tailback.metrics import summarise
from tailback.recorded.setup import ROCE

LARGEST_MTU = 4096
DEEP_BYTES = 200_000
"""A standing queue of this size is worth shortening: 16 us at 100 Gbit/s."""
DEPTH_DIVISOR = 8
"""A depth that is so many times smaller keeps a few messages under way."""
LEAST_RATE = 1000
"""Mbit/s: what Alibaba sets (Li et al., HPCC, SIGCOMM 2019), as the profile `alibaba` has it."""


def remedies(case: Case) -> Iterator[Remedy]:
    """Each where signs speak for it."""
    if not case.priorities.get(ROCE):
        return
    full = any(stages[0].use >= FULL_BUSY_SHARE for stages in case.stages_of.values())
    if full and bytes_of(case.setting("host.mtu") or LARGEST_MTU) < LARGEST_MTU:
        yield Remedy(
            "mtu",
            "an MTU of 4096 bytes",
            "Use larger packets.",
            sets=("host.mtu=4096B",),
            where="all",
            why="Small packets spend more of each link, PCIe slot and core on headers.",
            headline="packets are small",
        )
    writes = list(numbered(case, "write"))
    window = case.stages_of.get(("window", "senders"), [])
    small = [number for number, item in writes if bytes_of(item["message"]) <= SMALL_BYTES]
    if small and window and window[0].use > 1 / 3:
        yield Remedy(
            "message",
            "messages of 64 KiB",
            "Use larger messages, or post more of them at a time.",
            sets=tuple(f"traffic.{number}.message=64KiB" for number in small),
            where="all",
            why="Senders wait for acknowledgements of small messages.",
            headline="messages are small",
        )
    standing = (summarise(case.seen.result)["standing_queue"] or {}).get("mean_bytes") or 0.0
    deep = [(number, item) for number, item in writes if int(item["depth"]) > 1]
    if deep and standing > DEEP_BYTES and (case.pauses or case.seen.meta.get("latency")):
        yield Remedy(
            "depth",
            f"a depth {DEPTH_DIVISOR} times smaller",
            "Keep fewer messages under way.",
            sets=tuple(
                f"traffic.{number}.depth={max(1, int(item['depth']) // DEPTH_DIVISOR)}"
                for number, item in deep
            ),
            where="all",
            why="Senders keep more under way than the network holds without a queue.",
            headline="senders keep too much under way",
        )
    if summarise(case.seen.result)["at_min_rate"] is not None:
        yield Remedy(
            "min-rate",
            f"rpg_min_rate {LEAST_RATE}",
            "Raise the least rate of DCQCN.",
            sets=(f"host.dcqcn.rpg_min_rate={LEAST_RATE}",),
            where="all",
            why="Queue pairs wait at the least rate that DCQCN sets, long after the queue is gone.",
            headline="DCQCN leaves queue pairs at its least rate",
            repairs=True,
        )
