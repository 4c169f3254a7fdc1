"""Names and sentences of each kind of stage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """How a kind of stage is spoken of."""

    name: str
    why: str
    """The meaning of the figures, in one sentence."""
    next: str
    """Settings to try."""


KIND_OF_STAGE = {
    "link": Kind(
        "the link at port {where}",
        "Packets wait at this port while the stages behind it have room.",
        "a faster link (topology: its rate), fewer senders to {peer}, or another route; a larger buffer only "
        "makes the queue longer",
    ),
    "own link": Kind(
        "the sender's own link, {where}",
        "The sender has more to send and its wire is busy; nothing ahead of it is full.",
        "a faster link for {host} (topology: its rate), or more senders",
    ),
    "pcie": Kind(
        "PCIe of {where}",
        "The NIC's receive buffer waits for PCIe, which is busy moving writes and hardly waits for credits.",
        "more lanes or a newer generation (host.path.preset, host.path.rate), or larger writes (max_payload)",
    ),
    "credits": Kind(
        "PCIe credits of {where}",
        "Writes wait for credits, and most writes with credits are not in the IIO: there are too few credits "
        "for the round trip.",
        "more credits (host.path.iio_lines) or a shorter latency (host.path.credit_latency)",
    ),
    "memory": Kind(
        "memory of {where}",
        "Writes wait for credits, and writes with credits wait in the IIO for memory.",
        "less traffic of cores (memory_load; host.rhcc or host.hostcc limit it), more bandwidth "
        "(host.path.memory.bandwidth), or buffers that fit into the cache (fewer or smaller messages "
        "outstanding, host.path.memory.ddio)",
    ),
    "gpu": Kind(
        "the path to the GPU's memory (BAR1) of {where}",
        "Writes wait for credits, and writes with credits wait in the IIO for the GPU.",
        "a GPU behind the NIC's own switch or root port (host.path.gpu.hops, outstanding, bandwidth); look "
        "for stalls in bar1_stalled_us",
    ),
    "receiving cpu": Kind(
        "a core of the receiver {where}",
        "Packets stand in the receive ring while the core is busy all the time.",
        "a faster core (host.cpu.clock), larger packets (host.tcp.mtu), or connections on more cores "
        "(host.cpu.cores)",
    ),
    "sending cpu": Kind(
        "a core of the sender {where}",
        "The sender's cores have no time left, and nothing ahead of them is full.",
        "a faster core (host.cpu.clock), more connections on more cores, or larger bursts (host.tcp.tso)",
    ),
    "softirq": Kind(
        "the core of {where} that forwards",
        "A core has no time left beside interrupts and softirqs, and packets wait in the ring before it.",
        "more channels on other cores (bridge.ports: irqs, rss), a core on the device's NUMA node, or larger "
        "packets (host.mtu)",
    ),
    "ring": Kind(
        "a receive ring of {where}",
        "The ring drops packets though the core behind it has time left: bursts are longer than the ring.",
        "a larger bridge.rx_ring, or a smaller window at the senders (traffic: depth)",
    ),
    "qdisc": Kind(
        "a queueing discipline of {where}",
        "Packets wait in it, or are marked or dropped by it, though neither its wire nor its core is full.",
        "a higher rate (tbf) or higher thresholds (red: min, max, limit) in bridge.qdisc",
    ),
    "window": Kind(
        "the window of {where}",
        "Hardly any bytes in flight wait in a queue: senders wait for acknowledgements.",
        "a deeper queue (traffic: depth, message or qps)",
    ),
    "receive window": Kind(
        "the receive window of {where}",
        "Hardly any bytes in flight wait in a queue, and no core is full: senders wait for ACKs.",
        "a larger host.tcp.receive_buffer, or more connections",
    ),
    "reads": Kind(
        "the reads of the sender {where} over PCIe",
        "The NIC has work and may send it, but its wire is idle: payload does not come fast enough.",
        "more reads outstanding (host.path.reads.outstanding) or a shorter latency (host.path.reads.latency)",
    ),
    "loss": Kind(
        "packets lost on cables, most at {where}",
        "Packets are corrupted and retransmitted, with all that followed them (go-back-N).",
        "another cable or transceiver; nothing faster makes up for it",
    ),
    "headroom": Kind(
        "lossless traffic that is dropped at {where}",
        "Headroom there is too small for packets that still come after a pause was sent: they are dropped "
        "and retransmitted, with all that followed them (go-back-N).",
        "switch.pfc.headroom: auto, or a smaller xoff (host.path.receive_buffer for a NIC)",
    ),
    "drops": Kind(
        "drops at switches, most at {where}",
        "Buffers are full, and packets are dropped and retransmitted.",
        "larger buffers (switch.buffer), PFC (switch.lossless), or smaller bursts: lower ECN "
        "thresholds (switch.ecn), smaller windows (traffic: depth)",
    ),
    "buffer": Kind(
        "the buffers of switches",
        "Nothing is lost, but senders are paused or slowed down for lack of room.",
        "larger buffers (switch.buffer), or other shares of them (switch.ingress_alpha, switch.pfc)",
    ),
    "failed link": Kind(
        "a failed link, {where}",
        "Its traffic has to share other links, or waits until it is up again.",
        "another link beside it, or a repair; faster stages elsewhere gain less",
    ),
    "tier": Kind(
        "{where}",
        "Many of them are full at once, so a single faster one helps little.",
        "faster or more links there, or less traffic that crosses them (placement of jobs)",
    ),
    "throttle": Kind(
        "congestion control at the senders",
        "The senders have work and nobody pauses them, but their limiters hold them below the line rate, and "
        "no port has told them to.",
        "a faster recovery (host.dcqcn.profile, rpg_time_reset, rpg_ai_rate) or higher thresholds "
        "(switch.ecn.k_min)",
    ),
    "timer": Kind(
        "retransmission timers",
        "Timers fire while pauses or queues delay packets and ACKs: packets are retransmitted that were not "
        "lost.",
        "longer timers (host.transport.rto_high and rto_low, adaptive_timeout under go-back-N)",
    ),
    "reordering": Kind(
        "reordering that is taken for loss",
        "Packets take several routes and overtake each other, and senders retransmit packets not lost.",
        "host.transport.loss_recovery: selective-repeat, with reordering as large as routes differ in "
        "packets, or one route for each queue pair (switch.load_balancing: ecmp)",
    ),
}
