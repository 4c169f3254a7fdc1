"""What is said of the chain that the last rank ended with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailback import text
from tailback.findings.finding import Finding

WORTH_NAMING = 0.01
"""Part of the run's time from which what took it is named."""
PARTS = {
    "compute_s": "computing",
    "network_s": "messages in an empty network",
    "behind_s": "messages behind others of the same sender",
    "paused_s": "messages whose sender was paused",
    "queued_s": "messages in queues or behind windows",
    "inside_s": "messages inside servers",
    "delay_s": "delays of end points",
    "reduce_s": "reducing",
}


def critical_path_findings(summary: dict[str, Any]) -> list[Finding]:
    """The last rank of each job of another simulator's inputs."""
    return [_last_rank(path) for path in summary.get("critical_paths", [])]


def parts(path: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """What the last rank waited for, the most first, and how long, in seconds."""
    for time_s, words in sorted(((path[name], words) for name, words in PARTS.items()), reverse=True):
        if time_s >= WORTH_NAMING * path["end_s"]:
            again = words == PARTS["queued_s"] and path["resent_packets"]
            yield words + (f", {text.plural(again, 'packet')} retransmitted" if again else ""), time_s


def worst(path: dict[str, Any]) -> str:
    """A sentence on the message that was held up most, if it is worth one."""
    found = path["worst"]
    if found is None or found["congestion_s"] < WORTH_NAMING * path["end_s"]:
        return ""
    said = (
        f"The message that was held up longest, {text.duration(found['congestion_s'])}, went from "
        f"{found['src']} to {found['dst']} at {text.duration(found['start_s'])}"
    )
    if found["resent_packets"]:
        said += f", {text.plural(found['resent_packets'], 'packet')} of it retransmitted"
    return said + (f"; {found['waited_at']} held most on its way." if found["waited_at"] else ".")


def _last_rank(path: dict[str, Any]) -> Finding:
    named = ", ".join(f"{text.duration(time_s)} {words}" for words, time_s in parts(path))
    said = (
        f"until rank {path['last_rank']} ({path['last']}) was done, the last of "
        f"{text.plural(path['ranks'], 'rank')} of {path['job']}; the first was done after "
        f"{text.duration(path['first_s'])}. Back from its end, one behind the other: {named}. {worst(path)}"
    )
    return Finding("Last rank", text.duration(path["end_s"]), said.rstrip())
