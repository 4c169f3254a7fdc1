"""Findings of a run that was measured in a real lab: by what, and what it does not tell."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.findings.finding import Finding

LACKS = "It tells no queues of NICs, PCIe or memory, no single packets, and of throughput the mean."
"""Of any lab, beside a simulation."""


def findings(lab: dict[str, Any]) -> list[Finding]:
    """The line that says so, and one on what could have been recorded and was not."""
    words = (
        f"by {lab['tool']} of the test {lab['test']} in {text.duration(lab['seconds'])}: a real lab. {LACKS}"
    )
    found = [Finding("Measured", lab["name"], words)]
    if lab["missing"]:
        words = f"{'; '.join(lab['missing'])}."
        found.append(Finding("Not recorded", text.count(len(lab["missing"])), words, "warning"))
    return found
