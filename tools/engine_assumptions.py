"""What the engine assumes and no scenario can set: constants, and choices where standards leave room."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Constant:
    """A number in the engine that no source gives. `pattern` finds its digits in `file`, one group each."""

    what: str
    file: str
    pattern: str
    shown: str
    why: str

    def row(self, crates: Path) -> list[str]:
        """A row of the table. Ends the program if the source no longer has the constant."""
        match = re.search(self.pattern, (crates / self.file).read_text(encoding="utf-8"))
        if match is None:
            raise SystemExit(
                f"crates/{self.file}: nothing like {self.pattern}; tools/{__name__}.py is behind"
            )
        return [self.what, self.shown.format(*match.groups()), self.why, f"`crates/{self.file}`"]


CONSTANTS = (
    Constant(
        "Queues that wait for each other in a cycle are paused for this long: a deadlock",
        "sim/src/fabric/pfc.rs",
        r"DEADLOCK_STANDSTILL: Time = Time::from_ms\((\d+)\)",
        "{} ms",
        "Ten times the longest pause that one frame can ask for at 25 Gbit/s (65,535 quanta, 1.342 ms), and "
        "far longer than a queue of 16 MB takes to drain at 100 Gbit/s (1.28 ms). Slow links need longer: "
        "below about 1 Gbit/s read a deadlock with care.",
    ),
    Constant(
        "Flowlets that a switch knows apart",
        "sim/src/fabric/routing.rs",
        r"FLOWLET_TABLE_ENTRIES: usize = (\d+)",
        "{}",
        "CONGA's chip has 64K entries; LetFlow gives no number. Far more than queue pairs that send at a "
        "time through a switch of the fabrics here, and two that share an entry only share a way.",
    ),
    Constant(
        "A Linux machine has been up for this long when a run starts",
        "proto/src/aqm/codel.rs",
        r"UPTIME_NS: u64 = (\d+)_000_000_000",
        "{} s",
        "CoDel takes the last drop of a queue that never dropped for one at boot, and a drop within 16 "
        "intervals for a recent one. Any time from 1.6 s to 36 minutes is the same.",
    ),
    Constant(
        "Memory that a packet takes in a Linux queue, beside its buffer",
        "proto/src/aqm/qdisc.rs",
        r"SK_BUFF: u32 = (\d+)",
        "{} B",
        "struct sk_buff of x86-64; the buffer is a power of two with room for headroom and shared info, as "
        "kmalloc gives it. Drivers with page fragments charge otherwise. Only the memory_limit of fq_codel "
        "sees it.",
    ),
    Constant(
        "A rate limiter this close to the highest rate has reached it",
        "proto/src/congestion/dcqcn.rs",
        r"RATE_STEP_BPS: f64 = 1e(\d)",
        "10^{} bit/s",
        "The NIC's parameters count rates in Mb/s. Halving the distance never reaches the target exactly, so "
        "the release at the highest rate needs a last step.",
    ),
    Constant(
        "The memory controller drains its queue of pending writes in batches of so many cache lines",
        "sim/src/host/path/memory.rs",
        r"BATCH_LINES: u64 = (\d+)",
        "{}",
        "Half of the 32 entries of a channel: watermarks half of the queue apart, and channels one after the "
        "other, as addresses are spread over them.",
    ),
    Constant(
        "Frame of an RHCC probe and of its answer: as a CNP",
        "proto/src/wire/bth.rs",
        r"CNP_RESERVED_BYTES: usize = (\d+)",
        "{} B after the BTH",
        "The format of probes is not published. A CNP has room for two timestamps of 8 B where its reserved "
        "bytes are.",
    ),
    Constant(
        "A pause is repeated after this share of its quanta",
        "proto/src/flow_control/pfc.rs",
        r"now \+ Time\(span\.0 / (\d)\)",
        "1/{}",
        "The standard leaves it open. Half is late enough to cost little, and early enough that a frame that "
        "waits for one packet in transmission still comes before the quanta run out.",
    ),
    Constant(
        "Bytes of an ETS round for each per cent of a class's share",
        "proto/src/scheduling.rs",
        r"BYTES_PER_WEIGHT: i64 = (\d+)",
        "{} B",
        "No document gives the quantum of a NIC or switch. A round is then 6,400 B, about as short as rounds "
        "of whole packets can be; shares do not depend on it, only how long the turns are.",
    ),
    Constant(
        "First bin of a time series",
        "sim/src/record/series.rs",
        r"FIRST_BIN: Time = Time::from_us\((\d+)\)",
        "{} us",
        "Shorter than a round trip through one switch (3.4 us at the defaults): no signal acts faster.",
    ),
    Constant(
        "Bins are merged by",
        "sim/src/record/series.rs",
        r"match self\.merge_by_two \{\s+false => self\.merge::<(\d)>\(\),\s+true => self\.merge::<(\d)>\(\),",
        "{} and {} in turn",
        "Bins then last 1, 5, 10, 50, 100 us and so on, which read well on an axis.",
    ),
    Constant(
        "`run.skip: steady` looks at windows of this length and more",
        "sim/src/simulation/skipping.rs",
        r"FIRST_WINDOW: Time = Time::from_us\((\d+)\)",
        "{} us",
        "Of the order of a controller's timers, which are 50 to 1,500 us.",
    ),
    Constant(
        "What goes by packets of a span of the plan before `run.skip: steady` skips in it, where there are "
        "marks or controllers that hear ACKs, and where there are none",
        "sim/src/simulation/skipping.rs",
        r"FIRST_PART_SHARES: \[f64; 2\] = \[1\.0 / (\d+)\.0, 1\.0 / (\d+)\.0\]",
        "1/{} and 1/{}",
        "Controllers take tens of milliseconds to drain what an incast began with. When a 300th was taken "
        "for enough, a step skipped that queue.",
    ),
    Constant(
        "Its first step, in lengths of the sample, likewise",
        "sim/src/simulation/skipping.rs",
        r"FIRST_STEP_FACTORS: \[f64; 2\] = \[(\d)\.0, (\d)\.0\]",
        "{} and {}",
        "Each step is checked by packets before one of twice the length.",
    ),
    Constant(
        "Errors of queues, and of CNPs and marks, that it may state, in those of goodput",
        "sim/src/simulation/skipping.rs",
        r"QUEUE_ERROR_FACTOR: f64 = (\d+)\.0;\s+const SIGNAL_ERROR_FACTOR: f64 = (\d+)\.0",
        "{} and {}",
        "Their batches differ more than those of goodput do, and nothing would ever be skipped at the same "
        "error.",
    ),
    Constant(
        "The least error that it states",
        "sim/src/simulation/skipping.rs",
        r"LEAST_STATED_ERROR: f64 = ([\de-]+)",
        "{}",
        "What a sample does not see, such as a rare pause, moved goodput by up to 0.07 % where its batches "
        "told 0.0001 %.",
    ),
    Constant(
        "Most packets outstanding on a queue pair",
        "sim/src/world.rs",
        r"tx_depth > 1 << (\d+)",
        "2^{}",
        "Half of the 24-bit PSN space may be outstanding; a quarter leaves no doubt about which packet a PSN "
        "means. A scenario beyond that is refused.",
    ),
)

CHOICES = (
    (
        "When the sender asks for an ACK",
        "With every `ack_every`-th packet, and with the last packet that it may send for now.",
        "The specification leaves it to the requester. No tail then stays unacknowledged.",
    ),
    (
        "How long a queue pair may be without progress",
        "`ack_timeout` times (`retry_count` + 1).",
        "A full timer for the first wait and for each retry. NVIDIA's text on adaptive retransmission has "
        "timeout times retry count, one timer less.",
    ),
    (
        "The adaptive timer after progress",
        "At once back to `adaptive_timeout`.",
        "The vendor's can also step down by 2 or by 4, as a profile says whose values are not published, and "
        "draws its first value from a range.",
    ),
    (
        "Class of an ACK or NAK",
        "That of the data which it answers.",
        "An answer belongs to the queue pair and travels in its class.",
    ),
    (
        "Turns in a NIC",
        "Queue pairs of a class take turns, a packet each; ACKs, NAKs and CNPs of it go before data.",
        "No vendor document says how long a turn is; a packet is the fairest.",
    ),
    (
        "Class order in a NIC",
        "The class of CNPs first, the others by round robin.",
        "As in the switch: a class of its own is to shorten the control loop.",
    ),
    (
        "What a pacer saves up in a pause or an idle time",
        "Nothing: after a packet of b bytes on the wire the next may leave 8 b / rate later.",
        "A real limiter has a burst size; no document gives it.",
    ),
    (
        "What happens at the same instant in the reaction point",
        "Alpha first, then the increase, then the cut.",
        "The documents do not order them. A fixed order keeps runs repeatable.",
    ),
    (
        "The grid of rate-decrease periods",
        "It starts at the first CNP; a CNP in a period cuts at the start of the next one.",
        "The parameter's text gives the length of the period but not where it starts.",
    ),
    (
        "The queue that ECN looks at",
        "What the departing packet leaves behind it, when it starts to leave.",
        "Marking at dequeue gives the shortest control loop; the paper on DCQCN does not say which end.",
    ),
    (
        "Which part of an ingress group is freed first",
        "Its headroom, then its part of the shared buffer.",
        "Headroom must be whole again before the next pause.",
    ),
    (
        "Loss on a link",
        "Each packet on its own, with one probability; a PFC frame is never lost.",
        "The simplest that exercises recovery. Real links may lose in bursts.",
    ),
)
