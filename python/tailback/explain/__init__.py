"""Where a run is stuck, from its counters and queue series alone: `explain(result)` and a page in words."""

from __future__ import annotations

from dataclasses import replace

from tailback import text
from tailback.explain.last_rank import with_last_rank
from tailback.explain.observed import Observed
from tailback.explain.outcome import Outcome
from tailback.explain.remedies import Case
from tailback.explain.symptoms import symptoms
from tailback.explain.verdict import Verdict
from tailback.explain.verdict import explain as _explain
from tailback.explain.veth import page as _veth_page
from tailback.explain.veth import verdict as _veth_verdict
from tailback.explain.words import Page, as_data, as_text, page
from tailback.metrics.run import LAB_LACKS
from tailback.recorded.run import Recorded

__all__ = ["Page", "Verdict", "as_data", "as_text", "explain", "page", "page_of"]


def explain(result: Recorded) -> Verdict:
    """Where a run is stuck, and how sure that is."""
    if result.meta.get("veth") is not None:
        return _veth_verdict(result)
    verdict = _explain(Observed(result))
    if result.meta.get("lab") is None and not verdict.deadlock and result.plan.get("links"):
        case = Case(verdict, dict(result.plan), getattr(result.setup, "scenario", {}))
        verdict.symptoms = symptoms(case, Outcome.of(result.flows, result.bins, result.meta))
    return verdict


def page_of(result: Recorded, verdict: Verdict | None = None) -> Page:
    """The page of a run, whatever it is made of; of a verdict on it that is there already."""
    if result.meta.get("veth") is not None:
        return _veth_page(result)
    found = with_last_rank(result, page(verdict or explain(result)))
    if result.skipped:
        share = sum(span["to_ps"] - span["from_ps"] for span in result.skipped) / max(
            result.meta["end_ps"], 1
        )
        found = replace(
            found,
            sure=f"{found.sure} {text.share(share)} of the run was skipped: there, figures are estimates.",
        )
    if result.meta.get("lab") is None:
        return found
    missing = "; ".join(result.meta["lab"]["missing"])
    more = f" {missing[:1].upper()}{missing[1:]}." if missing else ""
    return replace(found, sure=f"A guess: it was measured in a lab. {LAB_LACKS}{more}")
