"""The findings of a run in words: one short statement each, made of the figures of the summary."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.findings import fabric, hosts, kernel_veth, lab, veth
from tailback.findings.bridge import bridge_findings
from tailback.findings.collectives import collective_findings
from tailback.findings.critical_path import critical_path_findings
from tailback.findings.finding import Finding, since
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP, TRIMMED_REASON
from tailback.summary import summarise

WORTH_TELLING = 0.01
WORTH_A_LOOK = 0.1
"""From these shares of what was sent on, what waiting at the lowest rate cost is a finding, and a warning."""


def findings(result: Recorded) -> list[Finding]:
    """All findings of a run, those that put the others in doubt first."""
    summary = summarise(result)
    found = []
    if not result.complete:
        found.append(_partial(summary))
    found.extend(_faults(summary))
    if (skipped := summary.get("skipped")) is not None:
        found.append(_skipped(skipped))
    if (measured := result.meta.get("lab")) is not None:
        found += lab.findings(measured)
    if summary["veth"] is not None:
        found += veth.findings(summary["veth"])
        told = result.meta.get("kernel_veth")
        return found if told is None else found + kernel_veth.findings(told)
    found += [_job(job) for job in summary["jobs"]]
    found += [*collective_findings(summary), *critical_path_findings(summary)]
    fct = summary["fct"]
    if fct is not None:
        in_jobs = sum(job["messages"] - job["left"] for job in summary["jobs"])
        found += _completion(fct, in_jobs, summary["simulated_s"])
    found.append(_throughput(summary))
    # Senders of single messages send what they drew: that they differ says nothing of the network.
    if summary["fairness"]["senders"] > 1 and summary["flows"]["writers"]:
        found.append(_fairness(summary))
    found += hosts.shares(summary)
    found += [_drops(summary), *hosts.tcp(summary), _pauses(summary), *_pause_storms(summary)]
    found += [
        _signals(summary),
        *_delay_probes(summary),
        *_at_min_rate(summary),
        _standing(summary),
        *hosts.cpu(summary),
    ]
    found += bridge_findings(summary)
    if summary["flows"]["failed"]:
        failed = summary["flows"]["failed"]
        words = f"of {text.plural(summary['flows']['all'], 'queue pair')} ended in error, out of retries."
        found.append(Finding("Failed QPs", text.count(failed), words, "fault"))
    found += _batches(result)
    found += fabric.of_another_rate(result)
    found.extend(_not_honoured(result.setup.not_honoured))
    return found


def _partial(summary: dict[str, Any]) -> Finding:
    share = summary["simulated_s"] / summary["planned_s"]
    stuck = any(fault["kind"] == "deadlock" for fault in summary["faults"])
    words = (
        f"{'Stuck' if stuck else 'Interrupted'} after {text.duration(summary['simulated_s'])} of "
        f"{text.duration(summary['planned_s'])} planned. "
        "Every figure and plot is about the part that ran."
    )
    return Finding("Partial run", text.share(share), words, "warning")


def _skipped(skipped: dict[str, Any]) -> Finding:
    """What was not simulated by packets, and how sure it is."""
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


def _faults(summary: dict[str, Any]) -> list[Finding]:
    if not summary["faults"]:
        return []
    first = summary["faults"][0]
    more = len(summary["faults"]) - 1
    words = f"{first['text']} ({first['where']})" + (f", and {more} more, listed below." if more else ".")
    return [Finding("Faults", text.count(len(summary["faults"])), words, "fault")]


def _job(job: dict[str, Any]) -> Finding:
    """When all of its messages were done, and what more the network could have done."""
    least = (
        f"{text.duration(job['bound_s'])} is the least that {job['bound_at']} allow"
        f"{'s' if job['bound_at'].startswith('the link ') else ''}"
    )
    about = (
        f"{text.count(job['messages'])} messages of {job['item']}, {text.size(job['payload_bytes'])} in all"
    )
    if job["time_s"] is None:
        words = f"of {about}, were not done at the end, so it has no time; {least}."
        return Finding("Job", f"{text.count(job['left'])} left", words, "warning")
    words = (
        f"until all {about} between {text.plural(job['hosts'], 'host')}, were done; {least}: "
        f"{text.share(job['of_bound'])} of that was reached. Algorithm bandwidth "
        f"{text.rate(job['algorithm_bps'])}, bus bandwidth {text.rate(job['bus_bps'])} of at most "
        f"{text.rate(job['bound_bus_bps'])}."
    )
    return Finding("Job", text.duration(job["time_s"]), words)


def _completion(fct: dict[str, Any], in_jobs: int, end_s: float) -> list[Finding]:
    """Slowdown of the flows that are done, unless all are `in_jobs`, of which the last one counts; and how
    many are not.
    """
    found = []
    if fct["all"] is not None and fct["finished"] > in_jobs:
        slowdown, times = fct["all"]["slowdown"], fct["all"]["fct_s"]
        words = (
            f"is the median slowdown of {text.plural(fct['finished'], 'flow')}, completion time over that in "
            f"an empty network; 95th percentile {text.significant(slowdown['p95'])}, 99th "
            f"{text.significant(slowdown['p99'])}, 99.9th {text.significant(slowdown['p999'])}, mean "
            f"{text.significant(slowdown['mean'])}. Completion times: mean {text.duration(times['mean'])}, "
            f"median {text.duration(times['p50'])}, 99th percentile {text.duration(times['p99'])}, longest "
            f"{text.duration(times['max'])}."
        )
        found.append(Finding("Slowdown", text.significant(slowdown["p50"]), words))
    if fct["unfinished"]:
        left = sum(fct["unfinished"].values())
        states = {"waiting": "not started", "running": "under way", "error": "failed"}
        parts = [f"{text.count(n)} {states[state]}" for state, n in sorted(fct["unfinished"].items())]
        cut, failed = fct["cut_off"], left - fct["cut_off"]
        told = []
        if cut:
            told.append(
                f"{text.count(cut)} {'was' if cut == 1 else 'were'} cut off at {text.duration(end_s)}"
            )
        if failed:
            told.append(f"{text.count(failed)} failed")
        words = f"flows finished; {' and '.join(told)} ({', '.join(parts)})."
        if cut and fct["finished"]:
            words += " Slowdowns and percentiles are of the finished ones, so they may be too low."
        names = ", ".join(fct["unfinished_first"])
        words += f" {'The first not done' if left > 1 else 'Not done'}: {names}."
        of = f"{text.count(fct['finished'])} of {text.count(fct['finished'] + left)}"
        found.append(Finding("Completion", of, words, "warning"))
    return found


SHARED_COMPLETION_BYTES, SHARED_COMPLETIONS = 8192, 100
"""perftest: messages up to this size share a completion, so many at most (`cq_mod`)."""


def _batches(result: Recorded) -> list[Finding]:
    """Writers whose depth is not a sliding window."""
    sizes: dict[tuple[int, int], str] = {}
    for writer in result.plan.get("writers", []):
        message, depth = writer.get("message", 0), writer.get("depth", 1)
        if 0 < message <= SHARED_COMPLETION_BYTES and depth > 1 and not writer.get("partner"):
            sizes.setdefault((message, depth), str(writer["item"]))
    if not sizes:
        return []
    (message, depth), item = next(iter(sizes.items()))
    batch = min(depth, SHARED_COMPLETIONS)
    words = (
        f"messages at a time are posted on a queue pair of {item}, when the last {batch} are done: messages "
        f"of {text.size(message)} share a completion, as perftest's do up to 8 KiB. Depth {depth} is no "
        "sliding window."
    )
    more = f" Likewise {text.plural(len(sizes) - 1, 'other size or depth')}." if len(sizes) > 1 else ""
    return [Finding("Posted in batches", text.count(batch), words + more)]


def _not_honoured(names: dict[str, str]) -> list[Finding]:
    if not names:
        return []
    groups: dict[str, list[str]] = {}
    for name, why in names.items():
        groups.setdefault(why, []).append(name)
    words = "; ".join(f"{', '.join(keys)}: {why}" for why, keys in groups.items())
    return [Finding("Not honoured", text.plural(len(names), "key"), f"{words}.", "warning")]


def _throughput(summary: dict[str, Any]) -> Finding:
    goodput = summary["goodput"]
    # Without a sender there is no line rate to be a share of.
    if goodput["total_bps"] is None or goodput["of_line_rate"] is None:
        return Finding("Throughput", text.MISSING, "No flow ran.", "warning")
    words = (
        f"of payload in total: {text.share(goodput['of_line_rate'])} of the line rate, "
        f"{text.share(goodput['of_ideal'])} of the maximum after headers "
        f"({text.share(goodput['ideal_payload_share'])})"
    )
    if summary["convergence_s"]:
        words += f"; steady from {text.duration(summary['convergence_s'])}."
    else:
        words += f", {since(summary)}."
    return Finding("Throughput", text.rate(goodput["total_bps"]), words)


def _fairness(summary: dict[str, Any]) -> Finding:
    fairness = summary["fairness"]
    if fairness["jain"] is None:
        return Finding("Fairness", text.MISSING, "No sender delivered anything.", "warning")
    slowest, fastest = fairness["slowest"], fairness["fastest"]
    words = f"Jain's index over {text.plural(fairness['senders'], 'sender')}. "
    if slowest["bps"] == fastest["bps"]:
        words += f"Each got {text.rate(slowest['bps'])}."
    else:
        words += (
            f"The slowest, {slowest['host']}, got {text.rate(slowest['bps'])}; the fastest, "
            f"{fastest['host']}, {text.rate(fastest['bps'])} (min/max {fairness['min_max_ratio']:.2f})."
        )
    return Finding("Fairness", f"{fairness['jain']:.3f}", words)


def _told(losses: dict[str, Any]) -> str:
    """What senders learnt losses from, or took for losses."""
    told = []
    if losses["naks"]:
        told.append(
            f"{text.plural(losses['naks'], 'NAK')}, the last at {text.duration(losses['last_nak_s'])}"
        )
    if losses["ack_timeouts"]:
        told.append(text.plural(losses["ack_timeouts"], "ACK timeout"))
    return ", and ".join(told)


def _drops(summary: dict[str, Any]) -> Finding:
    losses = summary["losses"]
    if not losses["dropped_packets"]:
        words = "No packet was dropped."
        told = _told(losses)
        if told:
            again = (
                f"{text.share(losses['retransmitted_share'] or 0.0)} of all data packets were retransmitted"
            )
            words += f" Senders got {told} all the same; {again}."
        return Finding("Drops", "none", words, "warning" if losses["ack_timeouts"] else "plain")
    if not losses["by_queue"]:  # of real devices only counts are known
        return Finding("Drops", text.count(losses["dropped_packets"]), "packets.", "warning")
    worst = losses["by_queue"][0]
    words = f"packets ({text.size(losses['dropped_bytes'])}), most at {worst['where']} ({worst['reason']})."
    trimmed = sum(drop["packets"] for drop in losses["by_queue"] if drop["reason"] == TRIMMED_REASON)
    if trimmed:
        of = "All" if trimmed == losses["dropped_packets"] else text.count(trimmed)
        words += f" {of} of them were trimmed: their receivers asked for them at once."
    again = f"{text.share(losses['retransmitted_share'] or 0.0)} of all data packets were retransmissions."
    # TCP knows no NAKs.
    words += (
        f" {again}"
        if list(summary["protocols"]) == [TCP]
        else (f" Senders got {_told(losses) or 'no NAK and no ACK timeout'}; {again}")
    )
    return Finding("Drops", text.count(losses["dropped_packets"]), words, "warning")


def _pauses(summary: dict[str, Any]) -> Finding:
    pauses = summary["pauses"]
    if not pauses["frames"]:
        if not pauses["lossless_priorities"]:
            return Finding("Pauses", "off", "No priority is under PFC in this scenario.")
        return Finding("Pauses", "none", "PFC was never needed.")
    longest = pauses["paused_longest"]
    # A run that is shorter has no second.
    second = (
        f"; {text.share(pauses['largest_share_of_a_second'])} of the worst second of any port"
        if summary["simulated_s"] >= 1
        else ""
    )
    words = (
        f"of the run at {longest['port']}, the port that was paused longest{second}. "
        f"{text.plural(pauses['frames'], 'PFC frame')} reached {text.plural(pauses['ports'], 'port')}; "
        f"the last pause ended at {text.duration(pauses['last_pause_s'])}."
    )
    return Finding("Pauses", text.share(pauses["largest_share_of_the_run"]), words)


def _pause_storms(summary: dict[str, Any]) -> list[Finding]:
    storms = summary["pause_storms"]
    if not storms:
        return []
    worst = max(storms, key=lambda storm: int(storm["tx_dropped_packets"]))
    dropped = sum(storm["tx_dropped_packets"] + storm["rx_dropped_packets"] for storm in storms)
    words = (
        f"detected by the PFC watchdogs of {text.plural(len(storms), 'port')}, the first at "
        f"{text.duration(min(storm['first_ps'] for storm in storms) / 1e12)}; "
        f"{text.plural(dropped, 'packet')} dropped, most at {worst['port']}."
    )
    return [Finding("Pause storms", text.count(sum(storm["detected"] for storm in storms)), words, "warning")]


def _signals(summary: dict[str, Any]) -> Finding:
    signals = summary["signals"]
    cnps = list(summary["protocols"]) != [TCP]  # TCP's echoes are told with TCP
    if not signals["ecn_marked_packets"] and signals["cnps"]:  # end points with real packets
        words = "No queue of this run has marked a packet, but the network outside of it: "
        return Finding("ECN marks", "elsewhere", f"{words}{text.plural(signals['cnps'], 'CNP')} sent.")
    if not signals["ecn_marked_packets"]:
        sent = f"; {text.plural(signals['cnps'], 'CNP')} sent" if cnps else ""
        why = "" if cnps or (summary["tcp"] or {}).get("ecn") else ": TCP does not use ECN here"
        return Finding("ECN marks", "none", f"No packet was marked{why}{sent}.")
    marks, marked = signals["ecn_marked_packets"], signals["arrived_marked_packets"]
    if not signals["arrived_packets"]:
        return Finding("ECN marks", text.count(marks), "set by queues. No RoCE data packet arrived.")
    words = f"of {text.count(signals['arrived_packets'])} data packets that arrived were marked CE"
    if TCP in summary["protocols"]:
        words = words.replace("data packets", "RoCE data packets")
    words += f"; receivers answered with {text.plural(signals['cnps'], 'CNP')}." if cnps else "."
    if marks != marked:
        several = "a packet may be marked at several, be lost, or not have arrived yet"
        tcp = ", and TCP's packets count, too" if TCP in summary["protocols"] else ""
        words += f" Queues set {text.plural(marks, 'mark')}: {several}{tcp}."
    return Finding("ECN marks", text.count(marked), words)


def _delay_probes(summary: dict[str, Any]) -> list[Finding]:
    probes = summary["signals"]["delay_probes"]
    words = "answers brought senders a delay that their congestion control acts on."
    return [Finding("Delay probes", text.count(probes), words)] if probes else []


def _at_min_rate(summary: dict[str, Any]) -> list[Finding]:
    """Queue pairs that sat at the lowest rate: when, how long, and what that cost them."""
    found = summary["at_min_rate"]
    if found is None or found["lost_bytes"] < WORTH_TELLING * found["delivered_bytes"]:
        return []
    rate = "the lowest rate" if found["min_rate_bps"] is None else text.rate(found["min_rate_bps"])
    words = (
        f"of the time of {text.count(found['queue_pairs'])} of {text.plural(found['of'], 'queue pair')} went "
        f"by with a packet that waited at rpg_min_rate ({rate}), between "
        f"{text.duration(found['from_s'])} and {text.duration(found['to_s'])}: "
        f"{text.duration(found['waited_s'])} in all; the worst one waited so for "
        f"{text.duration(found['longest_s'])} of the {text.duration(found['longest_ran_s'])} that it ran."
    )
    if found["others_s"] is not None:
        words += f" Messages that never waited so took {text.duration(found['others_s'])} at most."
    lost, delivered = found["lost_bytes"], found["delivered_bytes"]
    words += (
        f" At the {text.rate(found['otherwise_bps'])} that a queue pair sent at otherwise, "
        f"{text.size(lost)} more would have gone in that time, {text.share(lost / max(delivered, 1))} of "
        "what went."
    )
    costs = lost >= WORTH_A_LOOK * delivered
    if costs:
        words += " Try a higher rpg_min_rate."
    return [Finding("At the lowest rate", text.share(found["share"]), words, "warning" if costs else "plain")]


def _standing(summary: dict[str, Any]) -> Finding:
    standing, some = summary["standing_queue"], summary["queues_chosen"]
    if standing is None and not summary["queues_recorded"]:
        words = f"Of this run only {summary['recorded']} are recorded."
        return Finding("Standing queue", text.MISSING, words)
    if standing is None:
        those = "Those queues that record.queues chooses" if some else "The queues of the network"
        return Finding("Standing queue", text.MISSING if some else "none", f"{those} stayed empty.")
    which = "egress queues that record.queues chooses" if some else "egress queues"
    words = (
        f"on average in {standing['queue']}, which held "
        f"{text.share(standing['share_of_all_egress_queues'])} of all bytes waiting in {which} "
        f"{since(summary)}. At its fullest, in the whole run, it held {text.size(standing['max_bytes'])}."
    )
    return Finding("Standing queue", text.size(standing["mean_bytes"]), words)
