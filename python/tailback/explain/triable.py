"""Which runs can be tried, see `trials`: a report says so, and loads nothing that tries."""

from __future__ import annotations

from tailback.recorded.run import Recorded


def why_not(result: Recorded) -> str | None:
    """Why the run cannot be simulated again with something doubled; None if it can."""
    plan = result.plan
    if result.meta.get("live") is not None:
        return "its packets were real: no run of the model is the same run"
    if result.meta.get("lab") is not None:
        return "it was measured in a lab: no run of the model is the same run"
    if plan.get("veth") is not None:
        return "a run of two namespaces is not tried"
    own = isinstance(plan.get("nics"), list) and "writers" in plan
    if not own or plan.get("flows", {}).get("of_work"):
        return "only runs of `tailback run` are tried"
    if not result.complete:
        return "the run was cut short"
    kinds = (one for nic in plan["nics"] for one in nic["congestion"] if isinstance(one, dict))
    if any("external" in one for one in kinds):
        return "its controller is in Python, which is not kept with the run"
    return None
