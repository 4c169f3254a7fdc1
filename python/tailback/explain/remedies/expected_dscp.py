"""The DSCP that the fabric expects, where RoCE data is in a class that the fabric drops."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy
from tailback.recorded.setup import ROCE
from tailback.recorded.signals import DROP


def remedies(case: Case) -> Iterator[Remedy]:
    """Where RoCE is in a class that is not lossless, while others are, and packets of it are dropped."""
    lossless = case.lossless
    found = case.priorities.get(ROCE, set())
    outside = {item: priority for item, priority in found if priority not in lossless}
    dropping = {
        queue["priority"] for queue in case.seen.queues if case.seen.told_in_run(queue["queue"], DROP)
    }
    if not lossless or not set(outside.values()) & dropping:
        return
    inside = sorted(priority for _, priority in found if priority in lossless)
    wanted = inside[0] if inside else lossless[0]
    numbers = [number for number in range(len(case.traffic)) if case.item(number) in outside]
    numbers = [number for number in numbers if case.traffic[number]["kind"] != "tcp"]
    if not numbers:
        return
    names = ", ".join(case.item(number) for number in numbers)
    marked = case.traffic[numbers[0]].get("dscp")
    at = f"DSCP {marked}" if marked is not None else f"priority {outside[case.item(numbers[0])]}"
    same = next(
        (
            item.get("dscp")
            for item in case.traffic
            if item.get("priority") == wanted and item.get("dscp") is not None
        ),
        None,
    )
    yield Remedy(
        "class",
        f"{names} in priority {wanted}",
        f"Send {names} with the DSCP of priority {wanted}, which is lossless.",
        sets=tuple(
            setting
            for number in numbers
            for setting in (
                f"traffic.{number}.priority={wanted}",
                f"traffic.{number}.dscp={'null' if same is None else same}",
            )
        ),
        where=names,
        why=f"{names} is sent with {at}, a class that is not lossless here (lossless: "
        f"{', '.join(map(str, lossless))}), and is dropped and retransmitted.",
        headline=f"{names} is in a class that the fabric drops",
        repairs=True,
    )
