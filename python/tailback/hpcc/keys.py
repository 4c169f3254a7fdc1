"""The keys of `config.txt`: form of the value, default, and effect here.

Defaults and meanings are those of the HPCC simulator's driver (alibaba-edu/High-Precision-Congestion-Control,
simulation/scratch/third.cc). The reader, the list of ignored keys and the book's table all use `CONFIG_KEYS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

ValueKind = Literal[
    "flag", "count", "count64", "number", "us", "rate", "path", "word", "link", "map", "shares"
]
VALUE_FORMS: dict[ValueKind, str] = {
    "flag": "0 or 1",
    "count": "whole number",
    "count64": "whole number",
    "number": "number",
    "us": "µs, its fraction dropped",
    "rate": "rate",
    "path": "path",
    "word": "text",
    "link": "µs and two node ids",
    "map": "n, then n pairs of bit/s and kB",
    "shares": "n, then n pairs of bit/s and probability",
}

Effect = Literal["the same", "no effect", "not honoured"]
"""Effect of a key here, compared with the HPCC simulator."""


@dataclass(frozen=True)
class Key:
    """One key. `default` None: the HPCC simulator has no usable default, so the file must give the key where it
    is needed.

    `note` describes the key, or says why it is not honoured; `low` and `high` limit each number of the value. A
    key that is not honoured is reported only if its value is not `off`, and, with `only_if`, another key has
    that value.
    """

    name: str
    kind: ValueKind
    default: Any
    effect: Effect
    note: str
    low: float = 0
    high: float = 2**32 - 1
    off: Any = None
    only_if: tuple[str, Any] | None = None


def _key(
    name: str, kind: ValueKind, default: Any, note: str, effect: Effect = "the same", **more: Any
) -> Key:
    return Key(name, kind, default, effect, note, **more)


HPCC_VARIANT, ASTRA_SIM, SIMAI = b"hpcc", b"astra-sim", b"simai"
"""Values of TAILBACK_VARIANT."""
_NO_TRACE_WRITTEN = "no packet trace is written"
_IF_TRACED = ("ENABLE_TRACE", 1)
_UNUSED_SIMAI_KEY = "a key of SimAI's, which reads it and does nothing with it"
_FIXED_FILE_NAME = "the file is always {} in the output folder"

_ALL_KEYS = (
    _key("TOPOLOGY_FILE", "path", None, "nodes, switches and links"),
    _key("FLOW_FILE", "path", None, "the flows, sorted by start"),
    _key("TRACE_FILE", "path", b"", "checked and copied, but no packet trace is written", "not honoured",
         only_if=_IF_TRACED),
    _key("TRACE_OUTPUT_FILE", "path", b"", _NO_TRACE_WRITTEN, "not honoured", only_if=_IF_TRACED),
    _key("ENABLE_TRACE", "flag", 1, _NO_TRACE_WRITTEN, "not honoured", off=0),
    _key("FCT_OUTPUT_FILE", "path", b"fct.txt", _FIXED_FILE_NAME.format("fct.txt"), "not honoured",
         off=b"fct.txt"),
    _key("PFC_OUTPUT_FILE", "path", b"pfc.txt", _FIXED_FILE_NAME.format("pfc.txt"), "not honoured",
         off=b"pfc.txt"),
    _key("SIMULATOR_STOP_TIME", "number", 3.01, "time of the end, in seconds; 36,000 if it is more", low=0,
         high=1e15),
    _key("PACKET_PAYLOAD_SIZE", "count", 1000, "payload bytes of a data packet", low=1, high=65000),
    _key("CC_MODE", "count", 1, "congestion control: 1 DCQCN, 3 HPCC, 7 TIMELY, 8 DCTCP, 10 HPCC-PINT; "
         "any other: none, hosts send at line rate"),
    _key("ENABLE_QCN", "flag", 1, "switches mark packets (ECN)"),
    _key("KMIN_MAP", "map", None, "ECN threshold by the rate of the egress link, in 1000 B", low=0),
    _key("KMAX_MAP", "map", None, "ECN threshold by the rate of the egress link, in 1000 B", low=0),
    _key("PMAX_MAP", "shares", None, "marking probability at KMAX, by the rate of the egress link", high=1),
    _key("ALPHA_RESUME_INTERVAL", "us", 55, "DCQCN: period of the update of alpha", low=1, high=1e9),
    _key("RATE_DECREASE_INTERVAL", "us", 4, "DCQCN: period of the check for a rate cut", low=1, high=1e9),
    _key("CLAMP_TARGET_RATE", "flag", 0, "DCQCN: every cut lowers the target rate, too"),
    _key("RP_TIMER", "us", None, "DCQCN: period of the rate increase", low=1, high=1e9),
    _key("EWMA_GAIN", "number", None, "DCQCN and DCTCP: g", low=0, high=1),
    _key("FAST_RECOVERY_TIMES", "count", 5, "DCQCN: steps of fast recovery"),
    _key("RATE_AI", "rate", None, "DCQCN, HPCC, HPCC-PINT and TIMELY: additive increase"),
    _key("RATE_HAI", "rate", None, "DCQCN and TIMELY: hyper increase"),
    _key("MIN_RATE", "rate", b"100Mb/s", "lowest rate after a cut"),
    _key("DCTCP_RATE_AI", "rate", b"1000Mb/s", "DCTCP: additive increase"),
    _key("RATE_BOUND", "flag", 1, "senders keep to the controller's rate"),
    _key("HAS_WIN", "flag", 1, "a window limits the bytes in flight"),
    _key("GLOBAL_T", "flag", 1, "one window and base RTT, the largest of all pairs of hosts"),
    _key("VAR_WIN", "flag", 0, "the window shrinks with the rate"),
    _key("L2_CHUNK_SIZE", "count", 0, "bytes of a chunk of L2_BACK_TO_ZERO"),
    _key("L2_ACK_INTERVAL", "count", 0, "bytes of a message from which on every packet is "
         "acknowledged; 0 is refused: nothing would be"),
    _key("L2_BACK_TO_ZERO", "flag", 0, "1: a loss goes back to the start of the chunk; 0: go-back-N"),
    _key("ACK_HIGH_PRIO", "flag", 0, "which pause holds back a host's ACKs: 1 priority 0's, 0 priority 3's"),
    _key("ERROR_RATE_PER_LINK", "number", 0.0, "packet loss of links that give none themselves", high=1),
    _key("LINK_DOWN", "link", (0, 0, 0), "a link goes down at 2 s plus these microseconds; 0: never"),
    _key("BUFFER_SIZE", "count", 16, "buffer of a switch, in MiB", low=1, high=4095),
    _key("U_TARGET", "number", 0.95, "HPCC and HPCC-PINT: target utilization", low=0.01, high=1000),
    _key("MI_THRESH", "count", 5, "HPCC and HPCC-PINT: additive steps before a multiplicative one"),
    _key("FAST_REACT", "flag", 1, "HPCC: every ACK changes the rate, not only the first of a round trip"),
    _key("INT_MULTI", "count", 1, "HPCC: the telemetry's units are 128 B sent and 80 B waiting, times this",
         low=1),
    _key("MULTI_RATE", "flag", 1, "HPCC: a rate for each hop, of which the lowest counts"),
    _key("SAMPLE_FEEDBACK", "flag", 0, "HPCC: hops without a queue count once a round trip"),
    _key("PINT_LOG_BASE", "number", 1.05, "HPCC-PINT: base of the logarithm that a packet carries",
         low=1.00001, high=1e9),
    _key("PINT_PROB", "number", 1.0, "HPCC-PINT: share of the ACKs that count", high=65535),
    _key("QLEN_MON_FILE", "path", b"", "qlen.txt is written; " + _FIXED_FILE_NAME.format("qlen.txt"), "not honoured",
         off=b"qlen.txt"),
    _key("QLEN_MON_START", "count64", 2_000_000_000, "first sample of the queues, in ns", high=2**63 - 1),
    _key("QLEN_MON_END", "count64", 2_100_000_000, "end of the samples, in ns; qlen.txt is written only at "
         "whole tenths of a second", high=2**64 - 1),
    _key("USE_DYNAMIC_PFC_THRESHOLD", "flag", 1, "the threshold is always dynamic", "no effect"),
    _key("PAUSE_TIME", "us", 5, "written into PFC frames; a pause lasts until its resume, 0 is a resume"),
    _key("TAILBACK_VARIANT", "word", HPCC_VARIANT, "whose figures the network has: hpcc, or astra-sim or "
         "simai for the forks that ASTRA-sim and SimAI carry; that simulator skips the key"),
    _key("HEADROOM_FACTOR", "count", 3, "headroom of a port, in what its link holds in flight one way; only "
         "astra-sim has this key", "not honoured", off=3, only_if=("TAILBACK_VARIANT", HPCC_VARIANT)),
    _key("NIC_TOTAL_PAUSE_TIME", "count", 0, "a key of SimAI's: pauses of a NIC for its PCIe", "not honoured",
         off=0),
    *(_key(name, "path", b"", _UNUSED_SIMAI_KEY, "no effect")
      for name in ("BW_MON_FILE", "RATE_MON_FILE", "CNP_MON_FILE")),
    *(_key(name, "count64", 0, _UNUSED_SIMAI_KEY, "no effect", high=2**64 - 1)
      for name in ("MON_START", "MON_END", "QP_MON_INTERVAL", "BW_MON_INTERVAL", "QLEN_MON_INTERVAL")),
    _key("DATA_RATE", "word", b"", "read and not used", "no effect"),
    _key("LINK_DELAY", "word", b"", "read and not used", "no effect"),
)  # fmt: skip

CONFIG_KEYS: dict[str, Key] = {key.name: key for key in _ALL_KEYS}
"""By name, in the order of the book's table."""
