"""Limits of a sender itself: its window, its rate limiter, its reads from memory, or nothing to send."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

from tailback import text
from tailback.explain import faults
from tailback.explain.bridge import core_shares
from tailback.explain.stages import FEW_BYTES, FULL_BUSY_SHARE, NOTABLE_SHARE, Figure, Stage, Stages
from tailback.explain.ways import Pair, Port
from tailback.recorded.bins import Array
from tailback.recorded.setup import ROCE, TCP

KEEPS_UP = 0.1
"""How long messages take, by their bytes, as a share of the time that all take: below this, the network keeps
up with what is offered, and more of anything would carry no more."""

PEAK_S, NEVER_FULL = 50e-6, 0.95
"""A sender starts at line rate, before anybody slows it down: a NIC that does not even then fill its wire for
50 us, 60 packets of 4 KB at 40 Gbit/s, does not get its payload fast enough."""


@dataclass(frozen=True)
class Posted:
    """Bytes that a host has unacknowledged, and its payload per second."""

    outstanding: float
    limit: float
    """The rate that its limiters allow together, bit/s."""
    cnps: int
    tcp: bool


class Senders:
    """Outstanding work of senders."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.seen = stages, stages.seen

    @cached_property
    def _keeping_up(self) -> set[tuple[str, str]]:
        """Pairs of hosts that exchange single messages which are done soon after they are posted."""
        flows = self.seen.flows
        if "ideal_fct_ps" not in flows.column_names:
            return set()
        pairs, number = self.seen.ends
        began = pc.is_valid(flows.column("start_ps")).to_numpy()
        single = pc.is_valid(flows.column("ideal_fct_ps")).to_numpy()
        counts = np.flatnonzero(began & single)
        size = pc.take(flows.column("message_bytes"), counts).to_numpy().astype(np.float64)
        sizes = np.bincount(number[counts], size, len(pairs))
        took = np.bincount(number[counts], self._took_ps[counts] / 1e12 * size, len(pairs))
        endless = set(np.unique(number[began & ~single]).tolist())
        most = KEEPS_UP * self.seen.done_s
        keeping = set(np.unique(number[counts][(took < most * sizes)[number[counts]]]).tolist())
        return {pairs[one] for one in keeping - endless}

    @cached_property
    def _took_ps(self) -> Array:
        """By flow: from its start to its end, or to that of the run; 0 of one that has not started."""
        start, end = (self.seen.flows.column(name) for name in ("start_ps", "end_ps"))
        begin, until = (pc.fill_null(column, 0).to_numpy().astype(np.int64) for column in (start, end))
        rest = self.seen.bins.end_s * 1e12 - begin
        took = np.where(pc.is_valid(end).to_numpy(), (until - begin).astype(np.float64), rest)
        return np.where(pc.is_valid(start).to_numpy(), took, 0.0)

    def keeps_up(self, pair: Pair) -> bool:
        """True if the network carries what this pair offers, and would carry no more if it could."""
        return pair.ends in self._keeping_up

    @cached_property
    def posted(self) -> dict[str, Posted]:
        """By host."""
        flows = self.seen.flows
        names = ["src", "state", "message_bytes", "messages_posted", "messages_completed", "rate_bps"]
        names += ["ideal_fct_ps"]
        names += ["protocol", "srtt_ps", "goodput_bps"]
        source = pc.dictionary_encode(flows.column("src").combine_chunks())
        heard = np.bincount(
            source.indices.to_numpy(), flows.column("rp_cnp_handled").to_numpy(), len(source.dictionary)
        )
        found = {
            host: [0.0, 0.0, cnps, 0]
            for host, cnps in zip(source.dictionary.to_pylist(), heard.tolist(), strict=True)
        }
        # What has ended has nothing under way, and there may be millions of it.
        counts = pc.equal(flows.column("state"), "running")
        if "protocol" in flows.column_names:
            counts = pc.or_(counts, pc.equal(flows.column("protocol"), TCP))
        kept = pc.filter(flows.select([name for name in names if name in flows.column_names]), counts)
        for row in kept.to_pylist():
            one = found[row["src"]]
            if row.get("protocol", ROCE) == TCP:
                one[3] = 1
                # Little's law: what is under way is the rate times the round trip.
                one[0] += (row["goodput_bps"] or 0.0) / 8 * (row["srtt_ps"] or 0.0) / 1e12
                continue
            # Of single messages all is posted at once: there is no window.
            one[0] += (
                0
                if row.get("ideal_fct_ps") is not None
                else (row["messages_posted"] - row["messages_completed"]) * row["message_bytes"]
            )
            one[1] += row["rate_bps"] or 0.0
        return {host: Posted(one[0], one[1], int(one[2]), bool(one[3])) for host, one in found.items()}

    def waiting(self, pair: Pair) -> float:
        """Bytes of a sender that stand in queues, from its own to the receiver's: its part of each."""
        seen = self.seen
        found = self.stages.backlog(pair.src) * self._part(pair, pair.src)
        for port, part in pair.ways[1:]:
            own = pair.share * part / (seen.through[port] or 1.0)
            found += seen.port_sum(port, "queue_mean_bytes") * own
            if port[0] in seen.bridges:
                came = pair.ways[pair.ways.index((port, part)) - 1][0][0]
                # Before a core that rests packets wait for an interrupt: that is time on the way.
                if max(core_shares(seen, port[0]).values(), default=0.0) >= FULL_BUSY_SHARE:
                    found += seen.mean(f"{port[0]}:{came}/rx-ring", "queue_mean_bytes") * own
        ahead = seen.taken[pair.dst]
        for row in ("nic-rx", "rx"):
            found += seen.mean(f"{pair.dst}/{row}", "queue_mean_bytes") * pair.share / (ahead or 1.0)
        return found

    def _part(self, pair: Pair, src: str) -> float:
        own = self.seen.sent[src]
        return pair.share / own if own else 1.0

    def is_tcp(self, pair: Pair) -> bool:
        """True if this sender's traffic is TCP."""
        return pair.src in self.posted and self.posted[pair.src].tcp

    @cached_property
    def sent_again(self) -> dict[tuple[str, str], float]:
        """Packets sent again, as a share of all that a host sent to another."""
        flows = self.seen.flows
        names = ["src", "dst", "packets_sent", "packets_retransmitted"]
        if not set(names) <= set(flows.column_names):
            return {}
        pairs, number = self.seen.ends
        sent, again = (
            np.bincount(number, flows.column(name).to_numpy(), len(pairs)).tolist() for name in names[2:]
        )
        shares = (more / all_ if all_ else 0.0 for more, all_ in zip(again, sent, strict=True))
        return dict(zip(pairs, shares, strict=True))

    def loss(self, pair: Pair, passed: list[Stage]) -> Stage | None:
        """Packets that nobody had to drop, where much is sent again for them: lost on cables, or for want of
        headroom.
        """
        again = self.sent_again.get(pair.ends, 0.0)
        links = [stage for stage in passed if stage.kind == "link"]
        if again < NOTABLE_SHARE or not links:
            return None
        sent = Figure(f"{pair.src} packets_retransmitted", text.share(again), "0 where nothing is lost")
        # A fault names the port that packets came in by.
        for link in links:
            node, peer = link.ends
            for port in ((peer, node), (node, peer)):
                if port in self.without_headroom:
                    return Stage("headroom", ":".join(port), again, True, [sent], again, port=port)
        lost = {link.ends: self.seen.lost_on_wire[link.ends] for link in links}
        worst = max(lost, key=lambda port: lost[port])
        if not lost[worst]:
            return None
        where = ":".join(worst)
        figures = [Figure(f"{where} lost on the link", text.count(lost[worst]), "0 on a good cable"), sent]
        return Stage("loss", where, again, True, figures, again, port=worst)

    @cached_property
    def without_headroom(self) -> dict[Port, str]:
        """Ports that dropped where nothing may be dropped."""
        return faults.without_headroom(self.seen)

    def mine(self, pair: Pair) -> float:
        """Bytes of this pair under way."""
        return self.posted[pair.src].outstanding * self._part(pair, pair.src)

    def window(self, pair: Pair) -> Stage | None:
        """How full the window is with what does not wait anywhere: 1 if nothing waits, as the window is what
        is waited for.
        """
        posted = self.posted.get(pair.src)
        if posted is None or posted.outstanding <= 0:
            return None
        mine = self.mine(pair)
        use = float(np.clip(1 - self.waiting(pair) / mine, 0.0, 1.0)) if mine else 0.0
        where = pair.dst if posted.tcp else pair.src
        name = "rate times srtt_ps" if posted.tcp else "posted less completed"
        figures = [
            Figure(f"{pair.src} {name}", text.size(posted.outstanding), "more than its queues hold"),
            Figure(f"{pair.src} waiting in queues", text.size(mine * (1 - use)), "most of it"),
        ]
        return Stage("window", where, use, True, figures, use)

    def fetched(self, pair: Pair) -> Stage | None:
        """Reads of a sender whose wire was never busy for long: what it once reached is what they give."""
        if pair.src not in self.seen.host_path or not pair.ways:
            return None
        bins, sent = self.seen.bins, self.seen.bins.values(pair.src, "wire_tx_bps")
        peak = float(max(bins.windows(sent, PEAK_S), default=0.0)) / self.seen.link_rate(pair.ways[0][0])
        if not 0 < peak < NEVER_FULL:
            return None
        need = self.seen.need(pair.ways[0][0]) / peak
        figure = Figure(f"{pair.src}:{pair.ways[0][0][1]} wire, the most", text.share(peak), "100 %")
        return Stage("reads", pair.src, min(1.0, need), False, [figure], min(1.0, need))

    def limiter(self, pair: Pair, wire: Stage) -> Stage | None:
        """A sender with a backlog, a wire that is idle part of the time, and nobody who pauses it: its NIC
        holds it back, by the rate of congestion control or because it has not read what to send.
        """
        posted = self.posted.get(pair.src)
        if posted is None or posted.tcp:
            return None
        backlog, paused = self.stages.backlog(pair.src), self.stages.paused(pair.src)
        idle = 1 - wire.use - paused
        if backlog < FEW_BYTES or idle < NOTABLE_SHARE:
            return None
        host_rate = self.seen.link_rate((pair.ways[0][0][0], pair.ways[0][0][1]))
        # Of jobs, queue pairs that are done wait for others, and have no rate.
        known = posted.limit > 0 or not self.seen.meta.get("jobs")
        limited = (known and posted.limit < 0.97 * host_rate) or posted.cnps > 0
        figures = [
            Figure(f"{pair.src} send queue", text.size(backlog), "empty if nothing were to be sent"),
            Figure(f"{wire.where} wire", text.share(wire.use), "busy all the time with such a queue"),
            Figure(f"{pair.src} paused_share", text.share(paused), "what the wire is not busy"),
        ]
        if limited:
            if posted.limit:  # of queue pairs that are not done
                name = f"{pair.src} rate_bps of its queue pairs"
                figures.append(Figure(name, text.rate(posted.limit), text.rate(host_rate)))
            figures.append(Figure(f"{pair.src} rp_cnp_handled", text.count(posted.cnps), "0 without marks"))
            return Stage("throttle", "", min(1.0, 1 - paused), True, figures)
        if self.fetched(pair) is None:
            return None
        return Stage("reads", pair.src, min(1.0, 1 - paused), True, figures)
