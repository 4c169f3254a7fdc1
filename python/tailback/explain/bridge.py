"""The stages of a Linux bridge: receive rings, the cores that forward, queueing disciplines."""

from __future__ import annotations

from tailback import text
from tailback.explain.observed import Observed
from tailback.explain.stages import FEW_BYTES, FULL_BUSY_SHARE, RING_BYTES, Figure, Stage
from tailback.explain.ways import Port
from tailback.recorded.signals import CE_MARK, DROP

NEVER_RESTS = 0.995
"""Busy share of a core that always has a packet to forward."""


def core_shares(seen: Observed, bridge: str) -> dict[str, float]:
    """Busy share of each core of a bridge with packets: hard interrupts and softirqs."""
    rows = seen.bins.entities("softirq_share", kind="core", node=bridge)
    return {row: seen.mean(row, "irq_share") + seen.mean(row, "softirq_share") for row in rows}


def stages(seen: Observed, came: Port, goes: Port, wire: Stage) -> list[Stage]:
    """Of a bridge that traffic comes to over one link and leaves at a port, from there back: queueing
    discipline, core, receive ring. `wire` is the port's.
    """
    bridge = goes[0]
    shares = core_shares(seen, bridge)
    busiest = max(shares, key=lambda row: shares[row], default="")
    core = min(1.0, shares.get(busiest, 0.0))
    ring_row = f"{bridge}:{came[0]}/rx-ring"
    lost = seen.told(ring_row, DROP)
    ring = seen.in_rings(bridge)
    core_figure = Figure(
        f"{busiest} irq and softirq share", text.share(core), "below 90 % with time to spare"
    )
    ring_figure = Figure(f"{ring_row} queue_mean_bytes", text.size(ring), "a few packets")
    lost_figure = Figure(f"{bridge}:{came[0]} rx_out_of_buffer", text.count(lost), "0")
    # A core that never rests is full, however little waits before it: short windows wait there as a whole.
    full, stands = core >= FULL_BUSY_SHARE, ring > RING_BYTES or lost > 0 or core >= NEVER_RESTS
    counted = seen.counters.get((bridge, f"{bridge}:{goes[1]}"), {})
    sent, dropped = (counted.get(f"qdisc_{name}", 0) for name in ("sent_packets", "dropped"))
    # What is forwarded to be dropped is work that need not be done.
    passed = sent / (sent + dropped) if sent else 1.0
    return [
        _qdisc(seen, goes, wire, core_figure, ring if full else 0.0, held_by_core=full),
        Stage(
            "softirq",
            bridge,
            core,
            full and stands,
            [core_figure, ring_figure, *([lost_figure] if lost else [])],
            core * passed,
            lost,
            stands,
        ),
        Stage(
            "ring",
            bridge,
            FULL_BUSY_SHARE if lost else 0.0,
            lost > 0 and not full,
            [lost_figure, ring_figure, core_figure],
            0.0,
            lost,
            lost > 0,
        ),
    ]


def _qdisc(
    seen: Observed, port: Port, wire: Stage, core: Figure, ring: float, *, held_by_core: bool
) -> Stage:
    """The discipline of a port that holds packets back though its wire and its core have time: it shapes,
    marks or drops. `ring`: what waits before a core that is full.
    """
    bridge, peer = port
    row = f"{bridge}:{peer}/qdisc"
    mean = seen.mean(row, "queue_mean_bytes")
    marked, dropped = seen.told(row, CE_MARK), seen.told(row, DROP)
    use = seen.share_above(row, "queue_mean_bytes", 0.0)
    need, shaped = 0.0, seen.shaper(bridge)
    if shaped is not None:
        # A token bucket is as full as its tokens are used.
        slower = seen.link_rate(port) / shaped
        use, need = min(1.0, wire.use * slower), min(1.0, wire.need * slower)
    figures = [Figure(f"{row} queue_mean_bytes", text.size(mean), "0: packets go to the ring at once")]
    if marked:
        figures.append(Figure(f"{row} ecn_marked", text.count(marked), "0"))
    if dropped:
        figures.append(Figure(f"{row} dropped", text.count(dropped), "0"))
    stands = mean > FEW_BYTES or marked > 0 or dropped > 0
    # Of a full core and a full discipline the one holds that more waits for: the other has bursts.
    # And what stands in the transmit ring of an idle wire waits for completions, which are a core's work.
    unfinished = held_by_core and seen.mean(f"{wire.where}/tx-ring", "queue_mean_bytes") > RING_BYTES
    # Of a discipline and rings that drop, who drops more.
    in_rings = sum(seen.told(row, DROP) for row in seen.rings(bridge)) if held_by_core else 0.0
    to_blame = dropped > in_rings if dropped or in_rings else not unfinished
    more = use >= FULL_BUSY_SHARE and mean > max(FEW_BYTES, ring) and to_blame
    # Marks without a backlog are the wire's, as a switch port's are: see `Stages.port`.
    holds = wire.use < FULL_BUSY_SHARE and (more or (stands and use >= FULL_BUSY_SHARE and not held_by_core))
    told = seen.told_in_run(row, CE_MARK, DROP)
    wire_figure = Figure(
        f"{wire.where} wire", text.share(wire.use), "busy, if the wire were what is waited for"
    )
    return Stage("qdisc", bridge, use, holds, [*figures, wire_figure, core], need, told, stands)
