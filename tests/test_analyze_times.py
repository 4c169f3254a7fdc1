"""Captures of others: times that jump or go backwards, frames captured twice, causes that were not seen."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from roce_frames import ETHERNET, A, ack, block, cnp, enhanced, nak, pcap, pcapng_head, roce
from tailback.captured import CaptureAnalysis, analyze

BOTH = [frame for psn in range(4) for frame in (roce(psn), ack(psn))]
DAY_NS = 86_400 * 10**9
BEGIN_NS = 1_700_000_000 * 10**9
US = 1000


def row_of(captured: CaptureAnalysis) -> dict[str, Any]:
    (row,) = captured.data["connections"]
    return dict(row)


def words(captured: CaptureAnalysis) -> dict[str, str]:
    return {finding.what: finding.words for finding in captured.findings}


def test_a_jump_of_300_days_is_said_and_no_time_saturates(tmp_path: Path) -> None:
    times = [BEGIN_NS + 300 * DAY_NS * (number > 3) + 10 * US * number for number in range(8)]
    captured = analyze(pcap(tmp_path / "made.pcap", list(zip(times, BOTH, strict=True))))
    assert captured.data["duration_ps"] == (times[-1] - times[0]) * 1000
    trips = row_of(captured)["round_trips"]
    assert (trips["count"], trips["least_ps"], trips["most_ps"]) == (4, 10**7, 10**7)
    assert captured.data["round_trips"]["p50_ps"] == 10**7
    assert "Between frames 4 and 5 time jumps by 300 days" in words(captured)["Times"]
    assert "over 300 days" not in words(captured)["Throughput"].split("between")[0].replace("over the ", "")
    captured.page()


@pytest.mark.parametrize("across", ["round trip", "silence"])
def test_no_interval_over_a_long_jump_is_measured(tmp_path: Path, across: str) -> None:
    frames = [roce(0), ack(0)] if across == "round trip" else [roce(0), roce(0)]
    file = pcap(tmp_path / "made.pcap", [(0, frames[0]), (300 * DAY_NS, frames[1])])
    row = row_of(analyze(file))
    assert row["round_trips"]["count"] == 0
    assert row["by_timeout"] == 0
    assert row["by_cause_not_seen"] == int(across == "silence")


def test_a_first_frame_at_0_is_said(tmp_path: Path) -> None:
    times = [BEGIN_NS * (number > 0) + 10 * US * number for number in range(8)]
    captured = analyze(pcap(tmp_path / "made.pcap", list(zip(times, BOTH, strict=True))))
    assert "Between frames 1 and 2 time jumps by 19700 days" in words(captured)["Times"]
    assert row_of(captured)["round_trips"]["most_ps"] == 10**7


def test_time_that_goes_backwards_is_said_and_not_measured(tmp_path: Path) -> None:
    times = [50, 20, 70, 80, 90, 100, 10, 120]
    frames = [(at * US, frame) for at, frame in zip(times, BOTH, strict=True)]
    captured = analyze(pcap(tmp_path / "made.pcap", frames))
    assert "2 frames stand after one with a later time, by 90 µs at most" in words(captured)["Times"]
    trips = row_of(captured)["round_trips"]
    assert (trips["count"], trips["least_ps"]) == (3, 10**7)
    assert captured.data["duration_ps"] == 110 * 10**6


def resolution(value: int, order: str = "<") -> bytes:
    return struct.pack(f"{order}HHBBBB", 9, 1, value, 0, 0, 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "steps of 1 s"),
        (1, "steps of 100 ms"),
        (0x80, "steps of 1 s"),
        (0x8A, "steps of 977 µs"),
        (13, "below a picosecond"),
        (19, "below a picosecond"),
        (20, "below a picosecond"),
        (38, "below a picosecond"),
        (39, "below a picosecond"),
        (127, "below a picosecond"),
        (0xBF, "below a picosecond"),
        (0xC0, "below a picosecond"),
        (0xFF, "below a picosecond"),
    ],
)
def test_every_resolution_is_honoured_and_extremes_are_said(tmp_path: Path, value: int, said: str) -> None:
    file = tmp_path / "made.pcapng"
    blocks = b"".join(enhanced((2**64 - 1) // 8 * number, frame) for number, frame in enumerate(BOTH))
    file.write_bytes(pcapng_head("<", resolution(value)) + blocks)
    captured = analyze(file)
    assert said in words(captured)["Times"]
    per_second = 2 ** (value & 0x7F) if value & 0x80 else 10**value
    expected = (2**64 - 1) // 8 * 7 * 10**12 // per_second
    assert captured.data["duration_ps"] == expected
    captured.page()


@pytest.mark.parametrize("value", [6, 9, 12, 0x94])
def test_usual_resolutions_are_no_remark(tmp_path: Path, value: int) -> None:
    file = tmp_path / "made.pcapng"
    per_second = 2 ** (value & 0x7F) if value & 0x80 else 10**value
    units = [number * per_second // 1000 for number in range(8)]
    blocks = b"".join(enhanced(at, frame) for at, frame in zip(units, BOTH, strict=True))
    file.write_bytes(pcapng_head("<", resolution(value)) + blocks)
    captured = analyze(file)
    assert "Times" not in words(captured)
    assert abs(captured.data["duration_ps"] - 7 * 10**9) < 10**7


@pytest.mark.parametrize("order", ["<", ">"])
def test_an_offset_of_time_is_read_in_the_order_of_the_file(tmp_path: Path, order: str) -> None:
    file = tmp_path / "made.pcapng"
    offset = struct.pack(f"{order}HHq", 14, 8, 1000)
    file.write_bytes(pcapng_head(order, offset) + enhanced(5_000_000, roce(0), order))
    assert analyze(file).data["begin_s"] == 1005


@pytest.mark.parametrize("idle", ["before", "behind"])
def test_rates_are_over_the_time_of_roce_alone(tmp_path: Path, idle: str) -> None:
    arp = ETHERNET + b"\x08\x06" + bytes(46)
    frames = [(BEGIN_NS + 10 * US * number, frame) for number, frame in enumerate(BOTH)]
    seconds = 99 * 10**9
    ahead = [(BEGIN_NS - seconds, arp)] if idle == "before" else []
    behind = [(BEGIN_NS + seconds, arp)] if idle == "behind" else []
    plain = analyze(pcap(tmp_path / "plain.pcap", frames))
    captured = analyze(pcap(tmp_path / "made.pcap", [*ahead, *frames, *behind]))
    assert words(captured)["Throughput"] == words(plain)["Throughput"]
    assert "over the 70 µs between the first and the last RoCEv2 packet" in words(captured)["Throughput"]
    figures = {finding.what: finding.figure for finding in captured.findings}
    assert figures["Throughput"] == "29.3 Mbit/s"
    assert (
        "34.1 Mbit/s over the 60 µs between its first and its last request" in words(captured)["Throughput"]
    )
    assert row_of(captured)["active_ps"] == 60 * 10**6


LOSS = [roce(0), ack(0), roce(1), cnp(), roce(2), roce(4), nak(3), roce(3), roce(4), roce(5), ack(5)]
TOLD = ("packets", "retransmitted", "gaps", "missing", "acks", "naks", "cnps", "by_nak", "by_timeout")
TOLD += ("by_cause_not_seen", "ce", "messages", "new_payload_bytes")


@pytest.mark.parametrize("frames", [BOTH, LOSS])
@pytest.mark.parametrize("apart_ns", [100, US, 5 * US])
@pytest.mark.parametrize("order", ["each after its first", "three later", "marked"])
def test_frames_captured_twice_are_counted_apart(
    tmp_path: Path, frames: list[bytes], apart_ns: int, order: str
) -> None:
    """Copies of both ports of a mirror; a router between them changes TTL, checksum, addresses and ECN."""
    step = 10 * US if order != "three later" else apart_ns // 3
    plain = [(step * number, frame) for number, frame in enumerate(frames)]
    routed = [(at + apart_ns, hop(frame, order == "marked")) for at, frame in plain]
    one = row_of(analyze(pcap(tmp_path / "plain.pcap", plain)))
    captured = analyze(pcap(tmp_path / "made.pcap", sorted(plain + routed, key=lambda timed: timed[0])))
    row = row_of(captured)
    ce = len([frame for frame in frames if frame[15] & 3 and frame[42] == 0x0A])
    told = {name: row[name] for name in TOLD}
    expected = {name: one[name] for name in TOLD} | ({"ce": ce} if order == "marked" else {})
    # A second CNP is one of its own where it comes later than the shortest interval of a NIC, or may be.
    unsure = int(frames is LOSS and apart_ns == 5 * US)
    assert told == expected | {"cnps": expected["cnps"] + unsure}
    copies = len(frames) - unsure
    assert captured.data["classes"]["captured_twice"] == copies
    assert ("Whether 1 packet more" in words(captured)["Frames"]) == bool(unsure)
    assert f"{copies} packets of them were captured twice" in words(captured)["Frames"]
    assert ("Retransmissions" in words(captured)) == (frames is LOSS)


def hop(frame: bytes, mark: bool) -> bytes:
    changed = bytearray(frame)
    changed[0:12] = bytes(range(12))
    changed[22] -= 1
    changed[24:26] = b"\x12\x34"
    if mark and frame[15] & 3:
        changed[15] |= 3
    return bytes(changed)


def test_packets_without_numbers_of_their_own_are_copies_only_within_the_shortest_timer(
    tmp_path: Path,
) -> None:
    frames = [roce(psn, identification=0) for psn in range(4)]
    for apart, copies, perhaps, retransmitted in ((8 * US, 4, 0, 0), (9 * US, 0, 4, 4)):
        timed = [(20 * US * number + k, frame) for number, frame in enumerate(frames) for k in (0, apart)]
        captured = analyze(pcap(tmp_path / "made.pcap", timed))
        row = row_of(captured)
        told = (row["captured_twice"], row["perhaps_captured_twice"], row["retransmitted"])
        assert told == (copies, perhaps, retransmitted)
        assert row["by_timeout"] == 0
        assert ("cannot be told" in words(captured)["Frames"]) == bool(perhaps)


# Of senders that number their packets: what they retransmit has a new number.
NEW_0, NEW_1 = roce(0, identification=50), roce(1, identification=51)


@pytest.mark.parametrize(
    ("name", "frames", "cause"),
    [
        ("after a NAK", [(0, roce(0)), (10, roce(1)), (20, nak(1)), (30, roce(1))], "by_nak"),
        ("of an earlier packet", [(0, roce(0)), (10, roce(1)), (20, nak(0)), (30, NEW_1)], "by_nak"),
        (
            "of a later packet",
            [(0, roce(0)), (10, roce(1)), (20, nak(1)), (25, NEW_0)],
            "by_cause_not_seen",
        ),
        ("after silence", [(0, roce(0)), (10, roce(1)), (500, roce(1))], "by_timeout"),
        ("not silent", [(0, roce(0)), (300, roce(1)), (310, roce(0))], "by_cause_not_seen"),
        (
            "silent for less",
            [(0, roce(0, identification=7)), (99, roce(0, identification=8))],
            "by_cause_not_seen",
        ),
        (
            "just long enough",
            [(0, roce(0, identification=7)), (100, roce(0, identification=8))],
            "by_timeout",
        ),
    ],
)
def test_a_cause_is_told_only_with_its_condition(
    tmp_path: Path, name: str, frames: list[tuple[int, bytes]], cause: str
) -> None:
    captured = analyze(pcap(tmp_path / "made.pcap", [(at * US, frame) for at, frame in frames]))
    row = row_of(captured)
    causes = ("by_nak", "by_rnr_nak", "by_timeout", "by_cause_not_seen")
    assert {one: row[one] for one in causes} == {one: int(one == cause) for one in causes}, name
    assert row["retransmitted"] == 1
    said = words(captured)["Retransmissions"]
    assert said.startswith("1 packet retransmitted")
    assert "sent again" not in said
    assert ("the cause was not seen" in said) == (cause == "by_cause_not_seen")


def test_a_timeout_of_a_sender_without_numbers_is_no_copy_perhaps(tmp_path: Path) -> None:
    frames = [
        (0, roce(0, identification=0)),
        (10, roce(1, identification=0)),
        (4000, roce(1, identification=0)),
    ]
    row = row_of(analyze(pcap(tmp_path / "made.pcap", [(at * US, frame) for at, frame in frames])))
    assert (row["by_timeout"], row["captured_twice"], row["perhaps_captured_twice"]) == (1, 0, 0)


def test_two_naks_ahead_of_both_retransmissions_are_each_a_cause(tmp_path: Path) -> None:
    frames = [roce(0), roce(2), nak(1), roce(4), nak(3), roce(5), roce(1), roce(6), roce(3), roce(7)]
    row = row_of(analyze(pcap(tmp_path / "made.pcap", [(10 * US * n, f) for n, f in enumerate(frames)])))
    assert (row["retransmitted"], row["by_nak"], row["by_cause_not_seen"]) == (2, 2, 0)


def test_what_was_acknowledged_and_not_retransmitted_was_not_lost(tmp_path: Path) -> None:
    frames = [roce(0), roce(1), roce(5), ack(5), roce(6), roce(8), nak(7), roce(7), roce(8), ack(8)]
    captured = analyze(pcap(tmp_path / "made.pcap", [(10 * US * n, f) for n, f in enumerate(frames)]))
    row = row_of(captured)
    assert (row["gaps"], row["missing"], row["unseen_gaps"], row["unseen"]) == (2, 4, 1, 3)
    figures = {finding.what: finding.figure for finding in captured.findings}
    assert figures["Losses"] == "1 event"
    assert "1 gap, 3 packets long, was acknowledged and never retransmitted" in words(captured)["Losses"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("way", ["statistics", "packets"])
def test_what_the_capturing_program_lost_is_said(tmp_path: Path, order: str, way: str) -> None:
    option = struct.pack(f"{order}HHQ", 5 if way == "statistics" else 4, 8, 3)
    data = pcapng_head(order)
    for number, frame in enumerate([roce(0), ack(0)]):
        fields = struct.pack(f"{order}IIIII", 0, 0, number, len(frame), len(frame))
        padded = frame + bytes(-len(frame) % 4)
        data += block(6, fields + padded + (option if way == "packets" and number else b""), order)
    if way == "statistics":
        data += block(5, struct.pack(f"{order}III", 0, 0, 9) + option, order)
    file = tmp_path / "made.pcapng"
    file.write_bytes(data)
    captured = analyze(file)
    assert captured.data["lost_by_capture"] == 3
    assert "The program that captured lost 3 frames" in words(captured)["Losses"]
    assert {finding.what: finding.figure for finding in captured.findings}["Losses"] == "none seen"


def test_a_send_with_invalidation_is_a_request(tmp_path: Path) -> None:
    frames = [roce(0), roce(1, opcode=0x17, extension=bytes(4)), roce(2)]
    row = row_of(analyze(pcap(tmp_path / "made.pcap", [(US * n, f) for n, f in enumerate(frames)])))
    assert (row["packets"], row["gaps"], row["messages"], row["payload_bytes"]) == (3, 0, 3, 192)
    assert row["source"] == ".".join(map(str, A))
