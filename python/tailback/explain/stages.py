"""The stages that traffic passes, from the receiver's memory back to the sender: how busy each is, what waits
before it, and the figures that say so.

A stage's `use` is the share of the time, 0 to 1, in which it was the one that held traffic up: a wire that
carries bits, PCIe that moves writes or waits for credits, a core that works, a window that is full. It
`holds` traffic if what is before it shows that: a queue that stands, marks, drops, pauses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tailback import text
from tailback.explain.observed import Observed
from tailback.explain.ways import Port
from tailback.recorded.signals import CE_MARK, DROP, PCIE_CREDIT_STALL, PFC_PAUSE, PFC_XOFF


@dataclass(frozen=True)
class Figure:
    """A counter or a series with its value, and what it would be otherwise."""

    name: str
    value: str
    otherwise: str


@dataclass(eq=False)
class Stage:
    """One server that data pass. `kind`: link, pcie, credits, memory, gpu, cpu, window, reads or throttle."""

    kind: str
    where: str
    use: float
    holds: bool
    figures: list[Figure] = field(default_factory=list)
    need: float = 0.0
    """Share of its capacity that what is delivered in the end needs: less than `use` where queues grow."""
    signals: float = 0.0
    """Marks and drops over the whole run."""
    stands: bool = False
    """True if something waits right before it."""
    drops: bool = False
    """True if it drops, so that what is before it carries packets again."""
    port: Port | None = None
    """Of a link, and of what is lost at one, its port."""

    @property
    def key(self) -> tuple[str, str]:
        """Key of the stage."""
        return self.kind, self.where

    @property
    def ends(self) -> Port:
        """Node and peer of its port; of what has none, where it is and nothing."""
        return self.port or (self.where, "")


FULL_BUSY_SHARE = 0.9
"""A server this busy has a queue before it, on any arrivals but perfectly even ones (M/D/1 at 0.9 holds five
on average)."""
MANY_BYTES = 48_000
"""More on average in a NIC's receive buffer is no burst: senders let it drain at times, so that what follows
is not busy all the time, and it is what they wait for. An assumption: 32 packets of 1.5 KB."""
IDLE_BUSY_SHARE = 0.3
"""A port that is busy less is no bottleneck, whomever it told to slow down before: no queue stands at a wire
that is idle most of the time."""
FEW_BYTES = 3000
"""Less on average is packets that meet by chance, two of a common size, and no queue."""
STEADY_CREDIT_WAIT_SHARE = 0.05
"""Waits for credits, as a share of the time that PCIe does not spend on outages, below which its own rate is
what limits it."""
MOSTLY_IIO = 0.45
"""Part of the bytes with credits away that are in the IIO above which what follows is slow: idle, a third of
a write's round is in the IIO, and two thirds are the link and the credits' way back."""
RING_BYTES = 48_000
"""Packets of 1.5 KB that make an interrupt come at once, 32 of them: less in a receive ring is what comes
between two interrupts. Each core that works has a ring."""
NO_PAUSE = 0.97
"""A core that receives and is this busy polls without a pause: what stands in any of its host's rings waits
for it, and not for an interrupt."""
FEW_DROPS = 1e-3
"""Packets that find no room in a ring, as a share of all: fewer are bursts. TCP that loses one in a thousand
loses throughput to it (Mathis et al., CCR 1997)."""
NOTABLE_SHARE = 0.02
"""A share of the time, or of a rate, that counts as some."""


class Stages:
    """All stages of a run, made as they are asked for."""

    def __init__(self, seen: Observed) -> None:
        self.seen = seen
        self._made: dict[tuple[str, str], Stage] = {}
        self._at_hosts: dict[str, tuple[float, float]] = {}

    # Fabric

    def port(self, port: Port) -> Stage:
        """A port's wire, with the egress queue before it where the port is a switch's."""
        node, peer = port
        name = f"{node}:{peer}"
        if ("link", name) not in self._made:
            self._made["link", name] = self._port(port, name)
        return self._made["link", name]

    def _port(self, port: Port, name: str) -> Stage:
        seen = self.seen
        use = min(1.0, seen.wire_share(port))
        rate = text.rate(seen.link_rate(port))
        figures = [Figure(f"{name} wire", f"{text.share(use)} of {rate}", "below 90 % with room to spare")]
        if port[0] in seen.network.host_number:
            waits = self.backlog(port[0]) > FEW_BYTES
            paused = self.paused(port[0])
            if paused > NOTABLE_SHARE:
                figures.append(
                    Figure(f"{name} paused_share", text.share(paused), "0 if nothing ahead were full")
                )
            need = min(use, seen.need(port))
            return Stage(
                "link", name, use, waits and use >= FULL_BUSY_SHARE, figures, need, stands=waits, port=port
            )
        mean = seen.port_sum(port, "queue_mean_bytes")
        paused = seen.port_waits(port)
        marked = seen.marked(port)
        dropped = max(0.0, seen.port_told(port, DROP) - seen.lost_on_wire[port])
        known = seen.has_queue(port)
        words = text.size(mean) if known else "not recorded"
        figures.append(Figure(f"{name} queue_mean_bytes", words, "a packet or two" if known else ""))
        if marked:
            figures.append(Figure(f"{name} ecn_marked", text.count(marked), "0 below K_min"))
        if dropped:
            figures.append(Figure(f"{name} dropped", text.count(dropped), "0"))
        if seen.trimmed[port]:
            figures.append(Figure(f"{name} of these trimmed", text.count(seen.trimmed[port]), "0"))
        if paused > NOTABLE_SHARE:
            figures.append(Figure(f"{name} paused_share", text.share(paused), "0 if nothing ahead were full"))
        told = -seen.lost_on_wire[port] + sum(
            seen.told_in_run(queue["queue"], CE_MARK, DROP) for queue in seen.egress_of.get(port, [])
        )
        told = max(told, marked)
        # Of a queue that was not recorded a wire that is busy all the time says as much.
        waits = mean > FEW_BYTES if known else use >= FULL_BUSY_SHARE
        stands = (waits or marked > 0 or dropped > 0) and paused < use
        need = min(use, seen.need(port))
        # A queue alone may be bursts that come faster than they leave; marks and drops mean it.
        signals = (marked > 0 or dropped > 0) and paused < use and use > IDLE_BUSY_SHARE
        holds = use >= FULL_BUSY_SHARE or signals
        # What a bridge drops, its queueing disciplines and rings drop.
        drops = dropped > 0 and port[0] not in seen.bridges
        return Stage("link", name, use, holds, figures, need, told, stands, drops=drops, port=port)

    # Receiver

    def host_path(self, host: str) -> Stage | None:
        """PCIe, credits, memory or GPU of a receiver: the one of them that its receive buffer waits for."""
        seen = self.seen
        plate = seen.host_path.get(host)
        if plate is None:
            return None
        if ("host_path", host) in self._made:
            return self._made["host_path", host]
        buffer, pcie = f"{host}/nic-rx", f"{host}/pcie"
        stalled = seen.waits(pcie, PCIE_CREDIT_STALL)
        written = seen.counters.get((host, ""), {}).get("pcie_write_bytes", 0)
        on_link = written * (1 + plate["overhead"] / plate["write"]) * 8 / seen.bins.end_s * seen.pace
        busy = min(1.0, on_link / plate["pcie"])
        waits = seen.mean(buffer, "queue_mean_bytes")
        pausing, dropped = seen.waits(buffer, PFC_XOFF), seen.told(buffer, DROP)
        use = min(1.0, busy + stalled)
        told = seen.told_in_run(buffer, DROP)
        holds = use >= FULL_BUSY_SHARE or pausing > NOTABLE_SHARE or dropped > 0 or waits > MANY_BYTES
        figures = [
            Figure(f"{buffer} queue_mean_bytes", text.size(waits), "0: PCIe takes packets as they come")
        ]
        if pausing > NOTABLE_SHARE:
            figures.append(Figure(f"{buffer} pausing_share", text.share(pausing), "0"))
        if dropped:
            figures.append(Figure(f"{host} rx_discards_phy", text.count(dropped), "0"))
        stall = Figure(f"{pcie} stalled_share", text.share(stalled), "0 with credits to spare")
        link = Figure(f"{pcie} busy share", f"{text.share(busy)} of {text.rate(plate['pcie'])}", "below 90 %")
        kind = self._host_path_kind(host, stalled, busy)
        figures += [stall, link] if kind != "pcie" else [link, stall]
        if plate["memory"]:
            figures.append(self._memory_figure(host))
        stands = waits > FEW_BYTES or pausing > NOTABLE_SHARE
        stage = Stage(kind, host, use, holds, figures, use, told, stands, dropped > 0)
        self._made["host_path", host] = stage
        return stage

    def memory_use(self, host: str) -> float:
        """Share of the memory's bandwidth that cores and NIC took."""
        seen, row = self.seen, f"{host}/memory"
        moved = seen.mean(row, "memory_cpu_bps") + seen.mean(row, "memory_nic_bps")
        return float(moved / seen.host_path[host]["memory"])

    def _memory_figure(self, host: str) -> Figure:
        seen, row = self.seen, f"{host}/memory"
        cores, nic = seen.mean(row, "memory_cpu_bps"), seen.mean(row, "memory_nic_bps")
        value = f"{text.share(self.memory_use(host))}: cores {text.rate(cores)}, NIC {text.rate(nic)}"
        return Figure(f"{row} bandwidth used", value, "below 70 %: writes hardly wait")

    def _host_path_kind(self, host: str, stalled: float, busy: float) -> str:
        """The part of a host path to double first, by the time that it is `busy` and `stalled`.

        Outages of a GPU are told apart by their own counter: while one lasts, all that has credits stands in
        the IIO. What is stalled besides is a round trip that is too long for the credits.
        """
        seen = self.seen
        outage = min(stalled, seen.counters[host, ""].get("bar1_stalled_us", 0) / 1e6 / seen.bins.end_s)
        steady = stalled - outage
        if busy >= FULL_BUSY_SHARE or steady < STEADY_CREDIT_WAIT_SHARE * (busy + steady):
            return "pcie" if busy > outage else "gpu"
        if outage / 2 > steady:
            return "gpu"
        away, inside = (seen.mean(f"{host}/{row}", "queue_mean_bytes") for row in ("pcie", "iio"))
        rest = max(0.0, inside / away - outage) / (1 - outage) if away else 0.0
        target = "memory" if seen.host_path[host]["memory"] else "gpu"
        return "credits" if rest < MOSTLY_IIO else target

    def cpu(self, host: str, *, sends: bool) -> Stage | None:
        """The cores of a host with TCP, as one that sends or receives: how busy the core is that a piece of
        its work meets, so each core by its share of the work.

        A core that receives is full when packets stand in its ring. Without that it may be busy all the time
        all the same: it polls for few packets at a time, and would take more of them at less cost each.
        """
        seen = self.seen
        cores = seen.cores.get(host)
        if not cores:
            return None
        # Single cores are known over the whole run; how much busier all of them were in the span, too.
        whole = seen.bins.mean(seen.bins.values(host, "cpu_share"))
        more = seen.mean(host, "cpu_share") / whole if whole else 1.0
        work = sum(cores)
        use = min(1.0, sum(core * core for core in cores) / work * more) if work else 0.0
        ring, dropped = seen.mean(f"{host}/rx", "queue_mean_bytes"), seen.told(f"{host}/rx", DROP)
        rings = sum(core > NOTABLE_SHARE for core in cores)
        deep = ring > RING_BYTES * (1 if use >= NO_PAUSE else rings)
        stands = deep or dropped > FEW_DROPS * seen.packets_in(host)
        figures = [
            Figure(f"{host} cores, by their work", text.share(use), "below 90 % with time to spare"),
            Figure(f"{host}/rx queue_mean_bytes", text.size(ring), "a few packets"),
        ]
        if dropped:
            figures.append(Figure(f"{host} rx_out_of_buffer", text.count(dropped), "0"))
        if sends:
            return Stage("cpu", host, use, use >= FULL_BUSY_SHARE, figures, use, dropped)
        return Stage("cpu", host, use, stands and use > 0.5, figures, use, dropped, stands)

    # Sender

    def backlog(self, host: str) -> float:
        """Bytes posted and not yet sent."""
        return self._sends(host)[0]

    def paused(self, host: str) -> float:
        """Share of the time that the host's port was paused, at the priority where that was most."""
        return self._sends(host)[1]

    def _sends(self, host: str) -> tuple[float, float]:
        if host not in self._at_hosts:
            seen, rows = self.seen, self.seen.send_of.get(host, [])
            backlog = sum(seen.mean(row, "queue_mean_bytes") for row in rows)
            paused = max((seen.waits(row, PFC_PAUSE) for row in rows), default=0.0)
            self._at_hosts[host] = backlog, paused
        return self._at_hosts[host]
