"""Files of forks of the HPCC simulator: keys and formats with another meaning.

The HPCC simulator skips unknown keys, so that a file of a fork would run without the features of the fork.
Therefore a fork's key is refused, unless its value means the behaviour of the HPCC simulator, or the user ignores
the key with --ignore.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tailback.errors import InputError, Problem, plain

CONWEAVE, NS3_RDMA = "ConWeave's fork", "ns3-rdma, DCQCN's simulator"
FORM_SAMPLE_BYTES = 1 << 16
"""Bytes of a list of flows that are read to recognise its format."""
MIN_FLOW_BYTES = 64
"""A list whose flows are all smaller, and start no earlier than as many seconds, is not one of the HPCC simulator."""


class ForkKey(NamedTuple):
    """A key of a fork: `what` it does there, and the values that mean the `same` as without the key (None: all)."""

    fork: str
    what: str
    same: tuple[bytes, ...] | None = ()


FORK_KEYS = {
    # conweave-project/conweave-ns3, scratch/network-load-balance.cc
    "LB_MODE": ForkKey(CONWEAVE, "load balancing: 0 is ECMP, which runs here", (b"0",)),
    "ENABLE_PFC": ForkKey(CONWEAVE, "PFC, which is on here", (b"1",)),
    "ENABLE_IRN": ForkKey(CONWEAVE, "selective repeat, where this simulator goes back N", (b"0",)),
    "FLOW_INPUT_FILE": ForkKey(CONWEAVE, "the list of flows, which is FLOW_FILE here"),
    "FLOWGEN_STOP_TIME": ForkKey(CONWEAVE, "the end of the run, which is SIMULATOR_STOP_TIME here"),
    "RANDOM_SEED": ForkKey(CONWEAVE, "the seed of random numbers, which is fixed here"),
    # Only for LB_MODE 9, or for files of measurements.
    **{
        name: ForkKey(CONWEAVE, "its load balancing and its measurements", None)
        for name in (
            "CONWEAVE_TX_EXPIRY_TIME",
            "CONWEAVE_REPLY_TIMEOUT_EXTRA",
            "CONWEAVE_EXTRA_VOQ_FLUSH_TIME",
            "CONWEAVE_PATH_PAUSE_TIME",
            "CONWEAVE_DEFAULT_VOQ_WAITING_TIME",
            "SW_MONITORING_INTERVAL",
            "FLOWGEN_START_TIME",
            "LOAD",
            "VOQ_MON_FILE",
            "VOQ_MON_DETAIL_FILE",
            "UPLINK_MON_FILE",
            "CONN_MON_FILE",
            "EST_ERROR_MON_FILE",
        )
    },
    # bobzhuyb/ns3-rdma, scratch/third.cc
    "PACKET_LEVEL_ECMP": ForkKey(NS3_RDMA, "spraying, where this simulator has ECMP", (b"0",)),
    "FLOW_LEVEL_ECMP": ForkKey(NS3_RDMA, "ECMP, which is on here", (b"1",)),
    "TCP_FLOW_FILE": ForkKey(NS3_RDMA, "TCP flows, of which there are none here"),
    "SEND_IN_CHUNKS": ForkKey(NS3_RDMA, "messages in chunks", (b"0",)),
    "CNP_INTERVAL": ForkKey(NS3_RDMA, "the least time between CNPs"),
    "NP_SAMPLING_INTERVAL": ForkKey(NS3_RDMA, "the receiver's sampling of marks", (b"0",)),
    "CLAMP_TARGET_RATE_AFTER_TIMER": ForkKey(NS3_RDMA, "a cut of the target rate after a timer"),
    "BYTE_COUNTER": ForkKey(NS3_RDMA, "DCQCN's byte counter, which this simulator has not"),
    "DCTCP_GAIN": ForkKey(NS3_RDMA, "g, which is EWMA_GAIN here"),
    "KMAX": ForkKey(NS3_RDMA, "a marking threshold, which is KMAX_MAP here"),
    "KMIN": ForkKey(NS3_RDMA, "a marking threshold, which is KMIN_MAP here"),
    "PMAX": ForkKey(NS3_RDMA, "a marking probability, which is PMAX_MAP here"),
    "L2_WAIT_FOR_ACK": ForkKey(NS3_RDMA, "stop and wait", (b"0",)),
    "L2_TEST_READ": ForkKey(NS3_RDMA, "READs instead of WRITEs", (b"0",)),
}


MISSING_FEATURES = {
    CONWEAVE: (
        "its switches' buffers, ACKs in a queue of their own, its retransmission timer and CNPs are not here"
    ),
    NS3_RDMA: "its NICs, whose CNPs have an interval and whose rates have a byte counter, are not here",
}
"""Features of a fork that have no key: a warning names them if a file has any key of the fork."""


class ForeignKey(NamedTuple):
    """A key of a fork in a file, with a value that changes results there."""

    name: str
    value: bytes
    place: str

    @property
    def why(self) -> str:
        key = FORK_KEYS[self.name]
        return f"a key of {key.fork} for {key.what}"


def foreign_keys(words: list[bytes], places: dict[int, str]) -> list[ForeignKey]:
    """Keys of forks among unknown tokens; `places` has the file and line of each unknown token, by its index."""
    found = []
    for index, place in places.items():
        name = words[index].decode("latin-1")
        value = words[index + 1] if index + 1 < len(words) else b""
        if name in FORK_KEYS and (same := FORK_KEYS[name].same) is not None and value not in same:
            found.append(ForeignKey(name, value, place))
    return found


def missing_features(words: list[bytes], places: dict[int, str]) -> list[str]:
    """A warning for each fork with a key among the unknown tokens."""
    first: dict[str, str] = {}
    for index, place in places.items():
        if key := FORK_KEYS.get(words[index].decode("latin-1")):
            first.setdefault(key.fork, place)
    return [f"{place}: warning: a file of {fork}: {MISSING_FEATURES[fork]}" for fork, place in first.items()]


def refuse_foreign(keys: Collection[ForeignKey], ignore: Collection[str]) -> None:
    """Refuses keys of forks that are not ignored.

    Raises:
        InputError: has a line for each key.
    """
    if unknown := [name for name in ignore if name not in FORK_KEYS and name != "FLOW_FILE"]:
        raise InputError.at(
            f"--ignore {plain(unknown[0])}",
            "expected FLOW_FILE, or a key of a fork such as LB_MODE or CNP_INTERVAL",
        )
    problems = [
        Problem(
            key.place,
            (),
            f"{key.name}: found {plain(key.value.decode('utf-8', 'backslashreplace'))}, {key.why}; "
            f"expected {_same(key.name)}--ignore {key.name}",
        )
        for key in keys
        if key.name not in ignore
    ]
    if problems:
        raise InputError(problems)


def _same(name: str) -> str:
    same = FORK_KEYS[name].same
    return f"{' or '.join(value.decode() for value in same)}, which runs here, or " if same else ""


def check_flow_form(
    file: str, data: bytes, of_ns3_rdma: bool = False, way_out: str = ", or --ignore FLOW_FILE"
) -> None:
    """Refuses a list of flows in the format of another simulator. `way_out` is the last part of the message.

    Raises:
        InputError: the message names the format.
    """
    lines = data[:FORM_SAMPLE_BYTES].split(b"\n")
    if len(data) > FORM_SAMPLE_BYTES:
        lines.pop()
    all_rows = [(number, words) for number, line in enumerate(lines, 1) if (words := line.split())]
    if not all_rows or len(all_rows[0][1]) != 1 or not all_rows[0][1][0].isdigit():
        return
    # Lines after the flows are never read; they often describe the columns.
    rows = all_rows[1 : 1 + int(all_rows[0][1][0][:18])]
    if not rows:
        return
    place = f"{file}:{rows[0][0]}"
    expected = "expected src dst pg dport bytes start"
    if all(len(row) == 5 for _, row in rows):
        raise InputError.at(
            place,
            f"found src dst pg bytes start, as {CONWEAVE} has flows (five columns); {expected}",
        )
    if not all(len(row) == 6 for _, row in rows):
        return
    try:
        ends = [(float(row[4]), float(row[5])) for _, row in rows]
    except ValueError:
        return
    if of_ns3_rdma or all(first < MIN_FLOW_BYTES and first <= second for first, second in ends):
        packets, start, end = (word.decode("latin-1") for word in rows[0][1][3:])
        # Whole numbers may be either: bytes of small flows, or starts in seconds.
        small = not of_ns3_rdma and all(row[4].isdigit() for _, row in rows)
        other = f", or a flow of {plain(start)} B at {plain(end)} s" if small else ""
        raise InputError.at(
            place,
            f"found a row as {NS3_RDMA}, has it: src dst pg packets start end ({plain(packets)} packets from "
            f"{plain(start)} to {plain(end)} s){other}; {expected}{', with at least 1 byte' if small else ''}{way_out}",
        )
