"""The run itself: what it is of, how far it came, what was skipped, and what about it is in doubt."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.files.json import number
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import in_section, part, summarise
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded


@part("name")
def _name(result: Recorded) -> Any:
    return result.name


@part("seed")
def _seed(result: Recorded) -> Any:
    return result.meta["seed"]


@part("complete")
def _complete(result: Recorded) -> Any:
    return result.complete


@part("simulated_s")
def _simulated_s(result: Recorded) -> Any:
    return result.bins.end_s


@part("planned_s")
def _planned_s(result: Recorded) -> Any:
    return result.setup.duration_ps / PS_PER_S


@part("bin_s")
def _bin_s(result: Recorded) -> Any:
    return result.bins.bin_s


@part("recorded")
def _recorded(result: Recorded) -> Any:
    return result.recorded


@part("queues_recorded")
def _queues_recorded(result: Recorded) -> Any:
    return result.records_queues


@part("queues_chosen")
def _queues_chosen(result: Recorded) -> Any:
    return result.chooses_queues


@part("faults")
def _faults(result: Recorded) -> Any:
    return result.faults


@part("link_events")
def _link_events(result: Recorded) -> Any:
    return result.setup.link_events


@part("packets")
def _packets(result: Recorded) -> Any:
    return result.meta["packets"]


@part("packet_hops")
def _packet_hops(result: Recorded) -> Any:
    return result.meta["packet_hops"]


@part("conservation")
def _conservation(result: Recorded) -> Any:
    return result.meta["conservation"]


@part("flows.all")
def _flows(result: Recorded) -> Any:
    return result.flows.num_rows


@part("flows.writers")
def _writers(result: Recorded) -> Any:
    return result.setup.writer_qps


@part("ended")
def _ended(result: Recorded) -> str:
    """Why the run ended: `done` (everything was sent), `duration`, or, before either, `stopped`."""
    if not result.complete:
        return "stopped"
    return "done" if int(result.meta["end_ps"]) < result.setup.duration_ps else "duration"


SKIP_ERRORS = ("goodput_error", "queue_error", "signal_error", "qp_error")
in_section("skipped", applies=lambda result: bool(result.skipped), left_out=True)


@part("skipped")
def _skipped(result: Recorded) -> dict[str, Any]:
    """How much of the run was not simulated by packets, where, and how sure it is: the largest errors that
    any span states, each half of a 95 % prediction interval of what it stands for, as a share of that, or
    how far the packets after it were off; 0 where all of it repeated exactly.
    """
    spans = [
        {
            "from_s": span["from_ps"] / PS_PER_S,
            "to_s": span["to_ps"] / PS_PER_S,
            "observed_s": span["observed_ps"] / PS_PER_S,
            "check": span["check"],
            **{name: number(span[name]) for name in SKIP_ERRORS},
            "goodput_off": span["goodput_off"],
            "queue_off": span["queue_off"],
            "signal_off": span["signal_off"],
        }
        for span in result.skipped
    ]
    time_s = sum(span["to_s"] - span["from_s"] for span in spans)
    return {
        "time_s": time_s,
        "share": time_s / result.bins.end_s,
        "packet_hops": sum(span["packet_hops"] for span in result.skipped),
        "contradicted": sum(span["check"] == "contradicted" for span in spans),
        **{name: max(span[name] for span in spans) for name in SKIP_ERRORS},
        "spans": spans,
    }


@finding(2, everywhere=True)
def partial_finding(result: Recorded) -> list[Finding]:
    if result.complete:
        return []
    summary = summarise(result)
    share = summary["simulated_s"] / summary["planned_s"]
    stuck = any(fault["kind"] == "deadlock" for fault in summary["faults"])
    words = (
        f"{'Stuck' if stuck else 'Interrupted'} after {text.duration(summary['simulated_s'])} of "
        f"{text.duration(summary['planned_s'])} planned. "
        "Every figure and plot is about the part that ran."
    )
    return [Finding("Partial run", text.share(share), words, "warning")]


@finding(4, everywhere=True)
def faults_finding(result: Recorded) -> list[Finding]:
    summary = summarise(result)
    if not summary["faults"]:
        return []
    first = summary["faults"][0]
    more = len(summary["faults"]) - 1
    words = f"{first['text']} ({first['where']})" + (f", and {more} more, listed below." if more else ".")
    return [Finding("Faults", text.count(len(summary["faults"])), words, "fault")]


@finding(6, everywhere=True)
def skipped_finding(result: Recorded) -> list[Finding]:
    """The part that was not simulated by packets, and its stated error."""
    skipped = summarise(result).get("skipped")
    return [] if skipped is None else [_skipped_in_words(skipped)]


def _skipped_in_words(skipped: dict[str, Any]) -> Finding:
    spans = len(skipped["spans"])
    words = (
        f"of the run, {text.duration(skipped['time_s'])} in {text.plural(spans, 'span')} (pale in plots), "
        "was skipped: what was steady went on as it was measured to. With 95 % confidence its goodput is off "
        f"by at most {text.share(skipped['goodput_error'])}, mean queues by "
        f"{text.share(skipped['queue_error'])}, what single queue pairs got by "
        f"{text.share(skipped['qp_error'])}. Marks and CNPs of what was seen differ by "
        f"{text.share(skipped['signal_error'])}; where few queue pairs share a link, they may change for "
        "good within a span."
    )
    if skipped["contradicted"]:
        words += (
            f" Packets after it contradicted {text.count(skipped['contradicted'])} of them: these began to "
            "change before their end, somewhere."
        )
    tone = "warning" if skipped["contradicted"] else "plain"
    return Finding("Skipped", text.share(skipped["share"]), words, tone)


LAB_LACKS = "It tells no queues of NICs, PCIe or memory, no single packets, and of throughput the mean."
"""Of any lab, beside a simulation."""


@finding(10, everywhere=True)
def lab_findings(result: Recorded) -> list[Finding]:
    """That the run was measured in a real lab, and what could have been recorded and was not."""
    lab = result.meta.get("lab")
    if lab is None:
        return []
    words = f"by {lab['tool']} of the test {lab['test']} in {text.duration(lab['seconds'])}: a real lab. {LAB_LACKS}"
    found = [Finding("Measured", lab["name"], words)]
    if lab["missing"]:
        words = f"{'; '.join(lab['missing'])}."
        found.append(Finding("Not recorded", text.count(len(lab["missing"])), words, "warning"))
    return found
