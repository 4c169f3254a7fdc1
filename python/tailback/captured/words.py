"""Findings of a capture: sentences with counts and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tailback import text
from tailback.metrics import Finding

Data = dict[str, Any]
PS_PER_S = 1e12
SECONDS_PER_DAY = 86_400
MAX_NAMED = 6
"""Protocols, or reasons why frames were not read, in a sentence."""
LONG_JUMP_S = SECONDS_PER_DAY
"""A longer time between two frames means that a clock was set, or that the file has two captures."""
COARSE_STEP_S = 1e-5
"""Clock steps that are as long as round trips."""

CNP_INTERVALS_US = {4: "connectx", 50: "sigcomm15"}
"""Minimum time between CNPs of a queue pair in profiles of DCQCN, and the profiles."""
_CNP_INTERVAL_TOLERANCE = 0.1
"""Relative difference up to which a measured minimum fits a profile."""


def findings(data: Data) -> list[Finding]:
    """Findings over all points of capture; each names the point with the most."""
    makers: list[Callable[[Data], Iterable[Finding]]] = [
        _read,
        _not_read,
        _clock,
        _traffic,
        _losses,
        _recoveries,
        _marks,
        _notifications,
        _pauses,
        _link_pauses,
        _round_trips,
    ]
    return [finding for make in makers for finding in make(data)]


def duration(ps: float) -> str:
    """Formats picoseconds."""
    seconds = ps / PS_PER_S
    if abs(seconds) >= 2 * SECONDS_PER_DAY:
        return f"{text.significant(seconds / SECONDS_PER_DAY)} days"
    return text.duration(seconds)


def not_read(data: Data) -> int:
    """Frames that were not read; they may hold anything."""
    return sum(data["classes"]["not_read"].values())


def _by_count(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    words = ", ".join(f"{name} ({text.count(number)})" for name, number in ordered[:MAX_NAMED])
    rest = len(ordered) - MAX_NAMED
    return words if rest <= 0 else f"{words}, and {text.count(rest)} {text.verb(rest, 'other', 'others')}"


def _unread_words(data: Data) -> str:
    """`3 of 11 were not read: RoCE v1 (2), cut short (1)`."""
    classes = data["classes"]
    return (
        f"{text.count(not_read(data))} of {text.count(data['frames'])} "
        f"{text.verb(not_read(data), 'was', 'were')} not read: "
        f"{_by_count(classes['not_read'])}"
    )


def _none(data: Data, what: str, words: str, in_roce: bool = True) -> Finding:
    """The finding that there is none among the frames that were read; `in_roce`: of RoCEv2 packets only."""
    read = data["classes"]["read"]
    if not data["frames"]:
        return Finding(what, "not known", "The capture has no frames.", "warning")
    if in_roce and not read and not not_read(data):
        return Finding(what, "not known", "No RoCEv2 packet was read.", "warning")
    if not not_read(data):
        return Finding(what, "none", words)
    return Finding(
        what,
        "none seen" if read else "not known",
        f"{words} That is none in the {text.plural(read, 'frame')} that {text.verb(read, 'was', 'were')} read; {_unread_words(data)}.",
        "warning",
    )


def name_of(data: Data, address: str) -> str:
    """The name of an address in the capture, or the address."""
    return str(data["names"].get(address, address))


def pair(data: Data, connection: Data) -> str:
    """A connection for a sentence: `h0 to h4, QP 0x100`."""
    ends = f"{name_of(data, connection['source'])} to {name_of(data, connection['destination'])}"
    return f"{ends}, QP 0x{connection['destination_qp']:x}"


def place_names(data: Data) -> dict[int, str]:
    """The names of the points of capture."""
    return {one["place"]: one["place_name"] for one in data["interfaces"]}


def nearest_sender(data: Data) -> list[Data]:
    """For each connection, the row of the point that saw it first, which is nearest to the sender: rates, round
    trips and reactions are measured there.
    """
    return _one_each(data, lambda row: (row["first_at_ps"] or 0, row["place"]))


def nearest_receiver(data: Data) -> list[Data]:
    """For each connection, the row of the point that saw it last, where marks are complete."""
    return _one_each(data, lambda row: (-(row["first_at_ps"] or 0), -row["place"]))


def _one_each(data: Data, order: Callable[[Data], tuple[int, int]]) -> list[Data]:
    best: dict[tuple[str, str, int], Data] = {}
    for row in data["connections"]:
        key = (row["source"], row["destination"], row["destination_qp"])
        if key not in best or order(row) < order(best[key]):
            best[key] = row
    return list(best.values())


def _sum(rows: Iterable[Data], key: str) -> int:
    return sum(row[key] for row in rows)


def _read(data: Data) -> Iterable[Finding]:
    dropped = [one for one in data["interfaces"] if one["holds_drops"]]
    classes = data["classes"]
    points = text.plural(len(place_names(data)), "point")
    took = f" in {duration(data['duration_ps'])}" if data["clock"]["without_time"] < data["frames"] else ""
    if classes["read"]:
        words = f"{text.plural(classes['read'], 'RoCEv2 packet')}{took}, at {points} of capture."
    else:
        words = f"No RoCEv2 packet was read, at {points} of capture."
        if not_read(data):
            words += f" {_unread_words(data)}."
    if classes["captured_twice"]:
        twice = classes["captured_twice"]
        words += (
            f" {text.plural(twice, 'packet')} of them {text.verb(twice, 'was', 'were')} captured twice: equal to one "
            "before from the IP header on, except for what hops change, with no NAK between and sooner than "
            f"a timer. {text.verb(twice, 'It counts', 'They count')} nowhere else."
        )
    perhaps = _sum(data["connections"], "perhaps_captured_twice")
    if perhaps:
        words += (
            f" Whether {text.plural(perhaps, 'packet')} more, equal to one before, "
            f"{text.verb(perhaps, 'was', 'were')} captured twice or sent twice cannot be told; "
            f"{text.verb(perhaps, 'it is', 'they are')} counted."
        )
    if classes["known"]:
        words += f" Of other protocols: {_by_count(classes['known'])}."
    if dropped:
        number = _sum(dropped, "frames")
        words += (
            f" {text.plural(number, 'frame')} of them {text.verb(number, 'was', 'were')} dropped, as the "
            "simulator tells."
        )
    if data["cut_short"]:
        words += " The file ends within a frame."
    yield Finding("Frames", text.count(data["frames"]), words, "plain" if classes["read"] else "warning")


def _not_read(data: Data) -> Iterable[Finding]:
    if not not_read(data):
        return
    words = f"{_unread_words(data)}. What is said below is of the frames that were read."
    yield Finding("Not read", text.count(not_read(data)), words, "warning")
    carried = [one for one in data["interfaces"] if not one["holds_drops"]]
    bad, trimmed = _sum(carried, "icrc_bad"), _sum(carried, "trimmed")
    if bad:
        words = f"{text.noun(bad, 'packet')} with a wrong ICRC, which a NIC drops."
        yield Finding("Damaged", text.count(bad), words, "warning")
    if trimmed:
        yield Finding(
            "Trimmed",
            text.count(trimmed),
            f"{text.noun(trimmed, 'packet')} whose payload a switch cut off, at each point of capture that "
            "they passed.",
            "warning",
        )


def _of_one_moment(data: Data) -> bool:
    """True if all frames (two or more) have the same time, as from a converter that did not know the times."""
    return data["frames"] - data["clock"]["without_time"] > 1 and not data["duration_ps"]


def _clock(data: Data) -> Iterable[Finding]:
    clock, words = data["clock"], []
    if clock["without_time"]:
        words.append(
            f"{text.plural(clock['without_time'], 'frame')} of {text.count(data['frames'])} "
            f"{text.verb(clock['without_time'], 'has', 'have')} no time in the file: "
            f"{text.verb(clock['without_time'], 'it is', 'they are')} counted, and no rate, interval or cause "
            f"follows from {text.verb(clock['without_time'], 'it', 'them')}."
        )
    if _of_one_moment(data):
        words.append(
            "All frames have the same time: nothing is said of rates, round trips and other intervals."
        )
    if clock["backwards"]:
        words.append(
            f"{text.plural(clock['backwards'], 'frame')} {text.verb(clock['backwards'], 'stands', 'stand')} after one with a later time, by "
            f"{duration(clock['furthest_back_ps'])} at most; intervals that would be negative are not "
            "measured."
        )
    if clock["longest_jump_ps"] / PS_PER_S >= LONG_JUMP_S:
        words.append(
            f"Between frames {text.count(clock['longest_jump_after_frame'])} and "
            f"{text.count(clock['longest_jump_after_frame'] + 1)} time jumps by "
            f"{duration(clock['longest_jump_ps'])}: rates are averages over this jump, too, and intervals of "
            "more than 213 days are not measured."
        )
    if clock["coarsest_step_s"] >= COARSE_STEP_S:
        words.append(
            f"A clock has steps of {text.duration(clock['coarsest_step_s'])}: intervals are no finer."
        )
    if 0 < clock["finest_step_s"] < 0.99 / PS_PER_S:
        words.append("A clock has steps below a picosecond: times are cut to picoseconds.")
    if words:
        yield Finding("Times", text.plural(len(words), "remark"), " ".join(words), "warning")


def _traffic(data: Data) -> Iterable[Finding]:
    rows = [row for row in nearest_sender(data) if row["packets"]]
    if not rows:
        yield replace(_none(data, "Traffic", "No request of a queue pair was seen."), tone="warning")
        return
    answered = max((int(one["read_answer_bytes"]) for one in data["interfaces"]), default=0)
    sent = _sum(rows, "new_payload_bytes") + answered
    first, last = data["roce_first_at_ps"], data["roce_last_at_ps"]
    took = 0 if first is None else last - first
    most = max(rows, key=lambda row: row["new_payload_bytes"])
    rate = _rate(sent, took)
    in_answers = (
        f" {text.size(answered)} of that came in READ responses, which are not told apart by queue pair; "
        "those that came twice count twice."
        if answered
        else ""
    )
    of_most = (
        f" Most{' of the rest' if answered else ''} is of {pair(data, most)}: "
        f"{text.size(most['new_payload_bytes'])}{_own_rate(most)}."
        if most["new_payload_bytes"]
        else ""
    )
    over = f" over the {duration(took)} between the first and the last RoCEv2 packet" if took else ""
    yield Finding(
        "Throughput",
        rate,
        f"of payload{over}, in {text.plural(len(rows), 'queue pair')}: {text.size(sent)} in "
        f"{text.plural(_sum(rows, 'messages'), 'message')}.{in_answers}{of_most}",
    )


def _rate(payload_bytes: int, took_ps: int) -> str:
    """A rate; without a duration, the bytes."""
    return text.rate(8 * payload_bytes * PS_PER_S / took_ps) if took_ps else text.size(payload_bytes)


def _own_rate(row: Data) -> str:
    took = row["active_ps"]
    if not took:
        return ""
    rate = _rate(row["new_payload_bytes"], took)
    return f", {rate} over the {duration(took)} between its first and its last request"


def _losses(data: Data) -> Iterable[Finding]:
    rows = nearest_receiver(data)
    gaps, late = _sum(rows, "gaps"), _sum(rows, "out_of_order")
    naks, *errors = _naks(data)
    not_ready = _sum(nearest_sender(data), "rnr_naks") + data["unassigned_rnr_naks"]
    answers = max((int(one["read_answers"]) for one in data["interfaces"]), default=0)
    unfollowed = (
        f" {text.plural(answers, 'READ response')} {text.verb(answers, 'is', 'are')} counted, not followed: a loss "
        "of one is not seen."
        if answers
        else ""
    )
    if data["lost_by_capture"]:
        unfollowed += (
            f" The program that captured lost {text.plural(data['lost_by_capture'], 'frame')}, as the file "
            "says: gaps may be its own."
        )
    if gaps or naks or late:
        yield _lost(data, rows, naks, unfollowed)
    else:
        others = " of a PSN sequence error" if any(errors) or not_ready else ""
        words = f"No gap in any PSNs, and no NAK{others}."
        unseen = not any(row["packets"] for row in rows) and data["classes"]["read"]
        if unseen:
            words = f"No NAK{others}. No request was seen, and a gap shows only in the PSNs of requests."
        none = _none(data, "Losses", words + unfollowed)
        surer = none.figure == "none" and (unfollowed or unseen)
        yield replace(none, figure="none seen", tone="warning") if surer else none
    if not_ready:
        yield Finding(
            "Not ready",
            text.count(not_ready),
            f"{text.noun(not_ready, 'RNR NAK')}, with which a receiver says that it has no buffer "
            "for a message yet.",
            "warning",
        )
    if any(errors):
        names = ("invalid request", "remote access", "remote operational", "other")
        told = ", ".join(f"{text.count(n)} {name}" for n, name in zip(errors, names, strict=True) if n)
        yield Finding(
            "Errors",
            text.count(sum(errors)),
            f"{text.noun(sum(errors), 'NAK')} that {text.verb(sum(errors), 'ends', 'end')} a queue pair: {told}.",
            "fault",
        )


def _naks(data: Data) -> list[int]:
    """By code; those whose requests were not seen, too."""
    of_rows = zip(*(row["naks"] for row in nearest_sender(data)), strict=True)
    known = [sum(of_code) for of_code in of_rows] or [0] * 5
    return [n + unassigned for n, unassigned in zip(known, data["unassigned_naks"], strict=True)]


def _lost(data: Data, rows: list[Data], naks: int, unfollowed: str) -> Finding:
    gaps, missing, late = (_sum(rows, key) for key in ("gaps", "missing", "out_of_order"))
    unseen_gaps = _sum(rows, "unseen_gaps")
    words = (
        f"{text.plural(gaps, 'gap')} in PSNs, {text.plural(missing, 'packet')} long; "
        f"{text.plural(naks, 'NAK')}"
    )
    words += " of a PSN sequence error."
    if unseen_gaps:
        words += (
            f" {text.plural(unseen_gaps, 'gap')}, {text.plural(_sum(rows, 'unseen'), 'packet')} long, "
            f"{text.verb(unseen_gaps, 'was', 'were')} acknowledged and never retransmitted: those packets "
            "arrived, and the point of capture did not see them. It lost them, or they took another way"
            f"{', or are among the frames that were not read' if not_read(data) else ''}."
        )
    if late:
        words += (
            f" {text.plural(late, 'packet')} filled a gap within 100 µs with no NAK seen: taken to have come "
            "out of order."
        )
    took = data["gap_to_nak"]
    if took:
        words += f" From gap to NAK {duration(took['p50_ps'])} (median), {duration(took['most_ps'])} at most."
    words += unfollowed
    events = max(gaps - unseen_gaps, naks)
    figure = text.plural(events, "event") if events or late else "none seen"
    return Finding("Losses", figure, words, "warning")


def _recoveries(data: Data) -> Iterable[Finding]:
    rows = nearest_sender(data)
    again = _sum(rows, "retransmitted")
    if not again:
        return
    by = {name: _sum(rows, f"by_{name}") for name in ("nak", "rnr_nak", "timeout", "cause_not_seen")}
    words = f"{text.plural(again, 'packet')} retransmitted: {text.plural(by['nak'], 'time')} after a NAK"
    if by["rnr_nak"]:
        words += f", {text.count(by['rnr_nak'])} after a receiver that was not ready"
    words += f", {text.count(by['timeout'])} by timeout (no NAK, and silent for 100 µs or more)"
    if by["cause_not_seen"]:
        words += f", {text.plural(by['cause_not_seen'], 'time')} the cause was not seen"
    words += "."
    go_back, selective = _sum(rows, "go_back_n"), _sum(rows, "selective")
    if go_back or selective:
        manner = "go-back-N" if go_back >= selective else "selective"
        words += (
            f" Senders recover by {manner} ({text.count(go_back)} go-back-N, {text.count(selective)} "
            "selective)."
        )
    took = data["nak_to_retransmission"]
    if took:
        words += (
            f" From NAK to retransmission {duration(took['p50_ps'])} (median), "
            f"{duration(took['most_ps'])} at most."
        )
    silent = data["timeout_silences"]
    if silent:
        words += f" Before a timeout senders were silent for {duration(silent['p50_ps'])} (median)."
    ways = {row["way"] for row in rows}
    sent = ((one["way"], one["sent_at_ps"]) for one in data["listed"])
    listed = (at for way, at in sent if way in ways and at is not None)
    first = min(listed, default=None)
    if first is not None:
        words += f" The first was at {duration(first)}."
    yield Finding("Retransmissions", text.count(again), words, "warning")


def _marks(data: Data) -> Iterable[Finding]:
    carried = [one for one in data["interfaces"] if not one["holds_drops"]]
    most = max(carried, key=lambda one: int(one["ce"]), default=None)
    tunnelled = max((int(one["outer_ce"]) for one in carried), default=0)
    outer = (
        f" {text.plural(tunnelled, 'packet')} {text.verb(tunnelled, 'is', 'are')} marked by a tunnel's header alone, "
        "which is not counted."
        if tunnelled
        else ""
    )
    if most is None or not most["ce"]:
        requests = [row for row in data["connections"] if row["packets"]]
        words = "No packet was marked CE."
        if requests and not any(row["ect"] for row in data["connections"]):
            words = "No packet was marked, and none may be: they are not ECN-capable."
        unseen = data["classes"]["read"] and not requests
        if unseen:
            words += " No request was seen, and it is requests that switches mark."
        none = _none(data, "ECN marks", words + outer)
        surer = unseen and none.figure == "none"
        yield replace(none, figure="none seen", tone="warning") if surer else none
        return
    rows = nearest_receiver(data)
    share = most["ce"] / most["roce"]
    pairs = sum(1 for row in rows if row["ce"])
    yield Finding(
        "ECN marks",
        text.count(most["ce"]),
        f"{text.noun(most['ce'], 'packet')} marked CE on {most['name']}, {text.share(share)} of its RoCEv2 packets, of "
        f"{text.plural(pairs, 'queue pair')}.{outer}",
    )


def _notifications(data: Data) -> Iterable[Finding]:
    rows = nearest_sender(data)
    cnps = _sum(rows, "cnps")
    if not cnps:
        return
    gaps = data["cnp_gaps"]
    words = f"{text.noun(cnps, 'congestion notification')}."
    if gaps and not _of_one_moment(data):
        words += (
            f" Those of a queue pair are {duration(gaps['least_ps'])} apart at least, "
            f"{duration(gaps['p50_ps'])} in the "
            f"median; {_interval(gaps['least_ps'])}."
        )
    yield Finding("CNPs", text.count(cnps), words)
    ratios = data["reaction_ratios"]
    if sum(ratios):
        yield _reaction(data, rows)


def _interval(least_ps: int) -> str:
    us = least_ps / 1e6
    for interval, profile in CNP_INTERVALS_US.items():
        if abs(us - interval) <= _CNP_INTERVAL_TOLERANCE * interval:
            fits = f"that fits a notification point with {interval} µs between CNPs"
            return f"{fits}, as the profile {profile} has it"
    return "a notification point sends them no closer than its least interval, which is that or less"


def _reaction(data: Data, rows: list[Data]) -> Finding:
    ratios, step = data["reaction_ratios"], data["reaction_ratio_step"]
    measured = sum(ratios)
    middle = _median_of(ratios) * step
    firsts = sorted(row["first_cnp_ratio"] for row in rows if row["first_cnp_ratio"] is not None)
    words = (
        "Rate after a CNP in parts of the rate before it, in the median of "
        f"{text.plural(measured, 'CNP')} that can be "
        "measured by the spacing of eight packets before and after."
    )
    if firsts:
        first = firsts[len(firsts) // 2]
        words += f" After the first CNP of a queue pair it is {first:.2f}."
        if abs(first - 0.5) <= _CNP_INTERVAL_TOLERANCE:
            words += (
                " DCQCN with alpha near 1 at the first CNP halves the rate, as ConnectX NICs do by default."
            )
    if middle >= 1 - _CNP_INTERVAL_TOLERANCE:
        words += (
            " The spacing hardly changes: either senders do not react, or a full link and other "
            "queue pairs leave "
            "them less than their rate before and after."
        )
    return Finding("Reaction", f"{middle:.2f}", words)


def _median_of(counts: list[int]) -> float:
    half, seen = sum(counts) / 2, 0
    for at, number in enumerate(counts):
        seen += number
        if seen >= half:
            return at + 0.5
    return 0.0


def _pauses(data: Data) -> Iterable[Finding]:
    rows = [
        (one, priority, pauses) for one in data["interfaces"] for priority, pauses in one["pauses"].items()
    ]
    if not rows:
        words = "No PFC frame was seen."
        if data["classes"]["link_pauses"]:
            words += " Frames that pause all of a link were: see Link pauses."
        yield _none(data, "Pauses", words, in_roce=False)
        return
    frames = _sum(data["interfaces"], "pfc")
    one, priority, most = max(rows, key=lambda row: int(row[2]["paused_ps"]))
    share = most["paused_ps"] / data["duration_ps"] if data["duration_ps"] else 0.0
    words = (
        f"{text.plural(frames, 'PFC frame')} on "
        f"{text.plural(len({row[0]['name'] for row in rows}), 'interface')}. Most pause time is "
        f"asked for by {one['name']}, of priority {priority}: "
        f"{text.plural(most['pauses'], 'pause')}, the first at "
        f"{duration(most['first_at_ps'])}, the longest {duration(most['longest_ps'])} at "
        f"{duration(most['longest_at_ps'])}."
    )
    if one["speed_bps"] is None:
        words += (
            " The capture does not say how fast the link is, so a pause is counted to the frame that ends it; "
            "one that ran out by itself was shorter."
        )
    words += " The share is of the time from the first frame to the last."
    figure = text.share(share) if one["speed_bps"] is not None else f"at most {text.share(share)}"
    yield Finding("Pauses", figure, words, "warning")


def _link_pauses(data: Data) -> Iterable[Finding]:
    """Pauses of 802.3x; reported only if there are any, because links with PFC have none."""
    frames = data["classes"]["link_pauses"]
    if not frames:
        return
    one = max(data["interfaces"], key=lambda one: int(one["link_pauses"]["xoff"]))
    pauses = one["link_pauses"]
    yield Finding(
        "Link pauses",
        text.count(frames),
        f"{text.noun(frames, 'PAUSE frame')} of 802.3x, which {text.verb(frames, 'pauses', 'pause')} all of a link. Most "
        f"{text.verb(frames, 'is', 'are')} of {one['name']}: "
        f"{text.plural(pauses['pauses'], 'pause')}, {duration(pauses['paused_ps'])} together, the longest "
        f"{duration(pauses['longest_ps'])}.",
        "warning",
    )


def _round_trips(data: Data) -> Iterable[Finding]:
    trips = data["round_trips"]
    if trips and not _of_one_moment(data):
        yield Finding(
            "Round trips",
            duration(trips["p50_ps"]),
            f"from a packet that asks for an ACK to that ACK, at the point of capture, in the median of "
            f"{text.count(trips['count'])}; {duration(trips['least_ps'])} at least, "
            f"{duration(trips['p99_ps'])} at the "
            f"99th percentile, {duration(trips['most_ps'])} at most.",
        )
