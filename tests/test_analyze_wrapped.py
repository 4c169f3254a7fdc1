"""Captures of others: what mirror ports, tunnels and other programs write, and what of it is not read."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND
from roce_frames import (
    CE,
    ETHERNET,
    GRE,
    A,
    B,
    ack,
    block,
    cnp,
    enhanced,
    ipv4,
    ipv6,
    nak,
    pcap,
    pcapng_head,
    roce,
    udp,
)
from tailback import cli
from tailback.captured import CaptureAnalysis, analyze

# The packet with PSN 3 is lost ahead of the point of capture; the sender goes back to it.
SAMPLE = [
    (10_000 * number, frame)
    for number, frame in enumerate(
        [
            roce(0),
            ack(0),
            roce(1, tos=CE),
            cnp(),
            roce(2),
            roce(4),
            nak(3),
            roce(3),
            roce(4),
            roce(5),
            ack(5),
        ]
    )
]
TOLD = {"packets": 7, "gaps": 1, "missing": 1, "retransmitted": 2, "by_nak": 1, "by_timeout": 0, "ce": 1}
TOLD |= {"cnps": 1, "acks": 2, "messages": 5, "captured_twice": 0, "perhaps_captured_twice": 0}


def told(captured: CaptureAnalysis) -> dict[str, int]:
    (row,) = captured.data["connections"]
    return {name: row[name] for name in TOLD}


def in_ip(protocol: int) -> Callable[[bytes], bytes]:
    """Ahead of what is wrapped: Ethernet, and IPv4 with that protocol."""
    return lambda body: ETHERNET + b"\x08\0" + ipv4(B, A, protocol, body)


def ip_of(frame: bytes) -> bytes:
    return frame[14:]


def erspan_3(platform: bool) -> bytes:
    header = struct.pack(">HHI", 0x1000, 0x22EB, 7) + struct.pack(">IIHH", 0x20640064, 99, 0, int(platform))
    return header + bytes(8 if platform else 0)


def tagged(frame: bytes, *ether_types: int) -> bytes:
    tags = b"".join(struct.pack(">HH", kind, 0x6000 | 7) for kind in ether_types)
    return frame[:12] + tags + frame[12:]


def labels(*numbers: int) -> bytes:
    last = len(numbers) - 1
    return b"".join(struct.pack(">I", n << 12 | (at == last) << 8 | 64) for at, n in enumerate(numbers))


WRAPPED: dict[str, Callable[[bytes], bytes]] = {
    "ERSPAN I": lambda f: in_ip(GRE)(struct.pack(">HH", 0, 0x88BE) + f),
    "ERSPAN II": lambda f: in_ip(GRE)(
        struct.pack(">HHI", 0x1000, 0x88BE, 7) + struct.pack(">II", 0x10640064, 0) + f
    ),
    "ERSPAN III": lambda f: in_ip(GRE)(erspan_3(False) + f),
    "ERSPAN III, platform": lambda f: in_ip(GRE)(erspan_3(True) + f),
    "ERSPAN II in IPv6": lambda f: (
        ETHERNET
        + b"\x86\xdd"
        + ipv6(GRE, struct.pack(">HHI", 0x1000, 0x88BE, 7) + struct.pack(">II", 0x10640064, 0) + f)
    ),
    "GRE, IP": lambda f: in_ip(GRE)(struct.pack(">HH", 0, 0x0800) + ip_of(f)),
    "GRE, key and checksum": lambda f: in_ip(GRE)(struct.pack(">HHII", 0xA000, 0x0800, 0, 9) + ip_of(f)),
    "GRE, Ethernet": lambda f: in_ip(GRE)(struct.pack(">HH", 0, 0x6558) + f),
    "VXLAN": lambda f: in_ip(17)(udp(4789, struct.pack(">II", 0x08000000, 256) + f)),
    "VXLAN, tagged": lambda f: in_ip(17)(udp(4789, struct.pack(">II", 0x08000000, 256) + tagged(f, 0x8100))),
    "Geneve": lambda f: in_ip(17)(udp(6081, struct.pack(">BBHII", 1, 0, 0x6558, 256, 0) + f)),
    "4in4": lambda f: in_ip(4)(ip_of(f)),
    "4in6": lambda f: ETHERNET + b"\x86\xdd" + ipv6(4, ip_of(f)),
    "6in4 around 4in6": lambda f: in_ip(41)(ipv6(4, ip_of(f))),
    "IPv6 with options ahead": lambda f: (
        ETHERNET + b"\x86\xdd" + ipv6(0, bytes([60, 0, 1, 4, 0, 0, 0, 0, 4, 0, 1, 4, 0, 0, 0, 0]) + ip_of(f))
    ),
    "MPLS": lambda f: f[:12] + b"\x88\x47" + labels(100) + ip_of(f),
    "MPLS, three labels": lambda f: f[:12] + b"\x88\x47" + labels(100, 200, 300) + ip_of(f),
    "MPLS, Ethernet": lambda f: f[:12] + b"\x88\x47" + labels(100) + bytes(4) + f,
    "VLAN": lambda f: tagged(f, 0x8100),
    "QinQ": lambda f: tagged(f, 0x88A8, 0x8100),
    "QinQ, older": lambda f: tagged(f, 0x9100, 0x8100),
    "SNAP": lambda f: f[:12] + struct.pack(">H", len(f) - 6) + b"\xaa\xaa\x03\0\0\0" + f[12:],
    "ERSPAN in VLAN": lambda f: tagged(in_ip(GRE)(struct.pack(">HH", 0, 0x88BE) + f), 0x8100),
}

LINK_TYPES: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "raw IP, 101": (101, ip_of),
    "IPv4, 228": (228, ip_of),
    "IPv6, 229": (229, lambda f: ipv6(4, ip_of(f))),
    "raw IP, 12": (12, ip_of),
    "raw IP, 14": (14, ip_of),
    "Linux cooked": (113, lambda f: bytes(14) + f[12:]),
    "Linux cooked, tagged": (113, lambda f: bytes(14) + tagged(f, 0x8100)[12:]),
    "Linux cooked 2": (276, lambda f: f[12:14] + bytes(18) + f[14:]),
    "with the length of the FCS": (1 | 0x14000000, lambda f: f + bytes(4)),
}


def old_block(at: int, frame: bytes, order: str) -> bytes:
    head = struct.pack(f"{order}HHIIII", 0, 0, at >> 32, at & 0xFFFFFFFF, len(frame), len(frame))
    return block(2, head + frame, order)


def nanoseconds(order: str) -> bytes:
    return struct.pack(f"{order}HHBBBB", 9, 1, 9, 0, 0, 0)


@pytest.mark.parametrize("form", list(WRAPPED))
def test_a_wrapped_capture_tells_what_the_plain_one_tells(tmp_path: Path, form: str) -> None:
    plain = analyze(pcap(tmp_path / "plain.pcap", SAMPLE))
    wrapped = analyze(pcap(tmp_path / "w.pcap", [(at, WRAPPED[form](frame)) for at, frame in SAMPLE]))
    assert told(plain) == told(wrapped) == TOLD
    assert plain.data["connections"][0]["round_trips"] == wrapped.data["connections"][0]["round_trips"]
    classes = wrapped.data["classes"]
    assert (classes["read"], classes["not_read"], classes["known"]) == (len(SAMPLE), {}, {})
    assert wrapped.data["interfaces"][0]["icrc_unknown"] == 0


@pytest.mark.parametrize("form", list(LINK_TYPES))
def test_every_link_type_tells_the_same(tmp_path: Path, form: str) -> None:
    link_type, wrap = LINK_TYPES[form]
    frames = [(at, wrap(frame)) for at, frame in SAMPLE]
    captured = analyze(pcap(tmp_path / "made.pcap", frames, link_type))
    assert told(captured) == TOLD
    assert captured.data["classes"]["read"] == len(SAMPLE)


@pytest.mark.parametrize("make", [enhanced, old_block])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind_of_block_tells_the_same(
    tmp_path: Path, make: Callable[[int, bytes, str], bytes], order: str
) -> None:
    file = tmp_path / "made.pcapng"
    blocks = b"".join(make(at, frame, order) for at, frame in SAMPLE)
    file.write_bytes(pcapng_head(order, nanoseconds(order)) + blocks)
    captured = analyze(file)
    assert told(captured) == TOLD
    assert captured.data["duration_ps"] == SAMPLE[-1][0] * 1000


def test_simple_blocks_have_no_times_and_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "made.pcapng"
    blocks = [block(3, struct.pack("<I", len(frame)) + frame) for _, frame in SAMPLE]
    file.write_bytes(pcapng_head() + b"".join(blocks))
    captured = analyze(file)
    assert told(captured) == TOLD
    (row,) = captured.data["connections"]
    assert row["round_trips"]["count"] == 0
    assert row["active_ps"] is None
    said = {finding.what: finding.words for finding in captured.findings}
    assert "11 frames of 11 have no time in the file" in said["Times"]


@pytest.mark.parametrize("cut", [0, 20])
def test_gzip_is_read_by_its_magic(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "made.pcap"
    data = gzip.compress(pcap(tmp_path / "plain.pcap", SAMPLE).read_bytes())
    file.write_bytes(data[: len(data) - cut])
    captured = analyze(file)
    assert captured.data["cut_short"] == bool(cut)
    if not cut:
        assert told(captured) == TOLD
    two = tmp_path / "two.pcap"
    plain = (tmp_path / "plain.pcap").read_bytes()
    two.write_bytes(gzip.compress(plain[:300]) + gzip.compress(plain[300:]))
    assert told(analyze(two)) == TOLD


def test_broken_gzip_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(gzip.compress(pcap(tmp_path / "plain.pcap", SAMPLE).read_bytes()))
    data[12:40] = bytes(28)
    file = tmp_path / "broken.pcap.gz"
    file.write_bytes(data)
    assert cli.main(["analyze", str(file)]) == 2
    assert "found gzip that is broken" in capsys.readouterr().err


def words(captured: CaptureAnalysis) -> dict[str, Any]:
    return {finding.what: finding for finding in captured.findings}


ARP = ETHERNET + b"\x08\x06" + bytes(46)
LLDP = ETHERNET + b"\x88\xcc" + bytes(46)
ROCE_V1 = ETHERNET + b"\x89\x15" + bytes(60)
FRAGMENT = roce(9)[:20] + b"\x20\0" + roce(9)[22:]
UNKNOWN = ETHERNET + b"\x12\x34" + bytes(46)
TCP = ETHERNET + b"\x08\0" + ipv4(A, B, 6, bytes(20))
UNREAD = {
    "RoCE v1": (ROCE_V1, 1),
    "IPv4 fragment": (FRAGMENT, 1),
    "unknown ethertype 0x1234": (UNKNOWN, 1),
    "RoCEv2 unreliable connection": (roce(1, opcode=0x24, extension=b""), 1),
    "unknown IP protocol 200": (ETHERNET + b"\x08\0" + ipv4(A, B, 200, bytes(20)), 1),
    "link type 197 (ERF)": (bytes(60), 197),
    "link type 247 (InfiniBand)": (bytes(60), 247),
    "link type 147": (bytes(60), 147),
    "wrong ICRC": (roce(1)[:-1] + b"\x99", 1),
    "shorter than its headers": (ETHERNET + b"\x08\0" + bytes([0x45]), 1),
    "more than 16 headers": (tagged(roce(1), *[0x8100] * 20), 1),
    "IPsec ESP": (ETHERNET + b"\x08\0" + ipv4(A, B, 50, bytes(20)), 1),
    "MACsec": (ETHERNET + b"\x88\xe5" + bytes(60), 1),
}


@pytest.mark.parametrize("why", list(UNREAD))
def test_what_is_not_read_is_said_and_nothing_is_none(
    tmp_path: Path, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, link_type = UNREAD[why]
    file = pcap(tmp_path / "made.pcap", [(0, frame), (1000, frame)], link_type)
    captured = analyze(file)
    assert captured.data["classes"]["not_read"] == {why: 2}
    assert captured.findings[0].words.startswith("No RoCEv2 packet was read")
    assert f"2 of 2 were not read: {why} (2)" in captured.findings[0].words
    assert not [finding for finding in captured.findings if finding.figure == "none"]
    assert cli.main(["analyze", str(file), "--json"]) == 0
    assert not [one for one in json.loads(capsys.readouterr().out)["findings"] if one["figure"] == "none"]
    assert why in captured.page()


@pytest.mark.parametrize("place", ["first", "last"])
def test_none_is_only_of_what_was_read(tmp_path: Path, place: str) -> None:
    plain = [(10_000 * number, frame) for number, frame in enumerate([roce(0), ack(0)])]
    assert words(analyze(pcap(tmp_path / "plain.pcap", plain)))["Losses"].figure == "none"
    at = 0 if place == "first" else 90_000
    mixed = sorted([*plain, (at, ROCE_V1), (at, FRAGMENT), (at, ARP)])
    captured = analyze(pcap(tmp_path / "mixed.pcap", mixed))
    for what in ("Losses", "Pauses", "ECN marks"):
        finding = words(captured)[what]
        assert finding.figure != "none"
        assert (
            "none in the 2 frames that were read; 2 of 5 were not read: IPv4 fragment (1), RoCE v1 (1)"
            in finding.words
        )


def test_each_frame_is_in_one_class(tmp_path: Path) -> None:
    pause = bytes.fromhex("0180c2000001020000000001")
    link_pause = pause + b"\x88\x08\0\x01\xff\xff" + bytes(42)
    pfc = pause + b"\x88\x08\x01\x01\0\x08" + bytes(6) + b"\xff\xff" + bytes(34)
    others = [ARP, LLDP, TCP, ROCE_V1, FRAGMENT, UNKNOWN, link_pause, pfc, tagged(pfc, 0x8100)]
    frames = [*SAMPLE, *[(200_000 + number, frame) for number, frame in enumerate(others)]]
    frames += [
        (300_000, SAMPLE[0][1][:30]),
        (300_001, b""),
        (300_002, SAMPLE[-1][1]),
        (300_003, SAMPLE[-1][1]),
    ]
    data = analyze(pcap(tmp_path / "made.pcap", frames)).data
    classes = data["classes"]
    assert (classes["pfc"], classes["link_pauses"]) == (2, 1)
    assert classes["known"] == {"ARP": 1, "LLDP": 1, "TCP": 1}
    assert sum(classes["not_read"].values()) == 5
    assert data["frames"] == len(frames)
    parts = [classes[name] for name in ("read", "pfc", "link_pauses", "dropped")]
    assert sum(parts) + sum(classes["known"].values()) + sum(classes["not_read"].values()) == len(frames)


def test_pauses_of_both_kinds_are_counted_apart(tmp_path: Path) -> None:
    mac = bytes.fromhex("0180c2000001020000000001")
    frames = [mac + b"\x88\x08\0\x01" + quanta + bytes(42) for quanta in (b"\xff\xff", b"\0\0", b"\xff\xff")]
    captured = analyze(pcap(tmp_path / "made.pcap", list(zip((0, 5000, 9000), frames, strict=True))))
    (one,) = captured.data["interfaces"]
    pauses = one["link_pauses"]
    assert (one["pfc"], pauses["xoff"], pauses["xon"], pauses["paused_ps"]) == (0, 2, 1, 5_000_000)
    assert words(captured)["Link pauses"].figure == "3"
    assert words(captured)["Pauses"].words.startswith(
        "No PFC frame was seen. Frames that pause all of a link were"
    )
    assert captured.findings[0].words.startswith("No RoCEv2 packet was read")
    assert words(captured)["Losses"].figure == "not known"


def test_standard_input_is_read(tmp_path: Path) -> None:
    data = pcap(tmp_path / "plain.pcap", SAMPLE).read_bytes()
    for name, given in (("plain", data), ("gzip", gzip.compress(data))):
        command = [*COMMAND, "analyze", "-", "--json"]
        result = subprocess.run(command, input=given, capture_output=True, check=True)
        (row,) = json.loads(result.stdout)["connections"]
        assert {key: row[key] for key in TOLD} == TOLD, name


def test_a_snapped_packet_in_a_mirror_header_is_read(tmp_path: Path) -> None:
    data = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)
    for at, frame in SAMPLE:
        long = WRAPPED["ERSPAN II"](frame)
        data += struct.pack("<IIII", 0, at, min(len(long), 120), len(long)) + long[:120]
    file = tmp_path / "made.pcap"
    file.write_bytes(data)
    captured = analyze(file)
    assert told(captured) == TOLD
    assert captured.data["classes"]["not_read"] == {}
    assert captured.data["interfaces"][0]["icrc_unknown"] == 8


READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST = 0x0C, 0x0D, 0x0E, 0x0F


def answer(psn: int, syndrome: int) -> bytes:
    """An ACK or NAK of the other end."""
    return roce(psn, 0x11, struct.pack(">I", syndrome << 24 | 1), b"", back=True, identification=200 + psn)


def said(captured: CaptureAnalysis) -> dict[str, tuple[str, str]]:
    return {one.what: (one.figure, one.words) for one in captured.findings}


@pytest.mark.parametrize("with_requests", [True, False])
@pytest.mark.parametrize(
    ("syndrome", "finding", "words"),
    [
        (0x60, "Losses", "2 NAKs of a PSN sequence error"),
        (0x61, "Errors", "2 invalid request"),
        (0x62, "Errors", "2 remote access"),
        (0x63, "Errors", "2 remote operational"),
        (0x64, "Errors", "2 other"),
        (0x2E, "Not ready", "RNR NAKs"),
    ],
)
def test_naks_of_every_kind_are_told(
    tmp_path: Path, syndrome: int, finding: str, words: str, with_requests: bool
) -> None:
    """Also where there is no gap, and where the requests took another way."""
    frames = [frame for psn in (0, 1) for frame in (roce(psn), answer(psn, syndrome))]
    if not with_requests:
        frames = frames[1::2]
    times = [(1000 * number, frame) for number, frame in enumerate(frames)]
    found = said(analyze(pcap(tmp_path / "naks.pcap", times)))
    assert words in found[finding][1]
    assert not any("no NAK." in text or text.startswith("No NAK.") for _, text in found.values())


@pytest.mark.parametrize("frames", [[ack(psn) for psn in range(4)], [cnp(psn) for psn in range(4)]])
def test_without_requests_no_gap_and_no_mark_is_no_finding(tmp_path: Path, frames: list[bytes]) -> None:
    found = said(analyze(pcap(tmp_path / "answers.pcap", list(enumerate(frames)))))
    for name in ("Losses", "ECN marks"):
        assert found[name][0] == "none seen"
        assert "No request was seen" in found[name][1]


def test_the_payload_of_reads_counts(tmp_path: Path) -> None:
    reads = []
    for psn in (0, 3):
        request = roce(psn, READ_REQUEST, struct.pack(">QII", 4096, 7, 3000), b"")
        aeth = struct.pack(">I", 0x1F000001)
        parts = ((READ_FIRST, aeth), (READ_MIDDLE, b""), (READ_LAST, aeth))
        answers = [
            roce(psn + at, opcode, head, bytes(1000), back=True) for at, (opcode, head) in enumerate(parts)
        ]
        reads += [request, *answers]
    times = [(1000 * number, frame) for number, frame in enumerate(reads)]
    figure, text = said(analyze(pcap(tmp_path / "reads.pcap", times)))["Throughput"]
    assert figure == "6.86 Gbit/s"  # 6000 B in 7 us
    assert "6 KB in 2 messages. 6 KB of that came in READ responses" in text


def with_ip_length(frame: bytes, length: int) -> bytes:
    return frame[:16] + struct.pack(">H", length) + frame[18:]


@pytest.mark.parametrize("length", [0, 20, 40, 100])
def test_only_what_was_cut_off_was_trimmed(tmp_path: Path, length: int) -> None:
    """A switch that trims cuts the packet to the length that IP says; here all of it is there."""
    whole = with_ip_length(roce(0), length)
    captured = analyze(pcap(tmp_path / "lengths.pcap", [(0, whole)]))
    assert captured.data["classes"]["not_read"] == {"RoCEv2 whose lengths contradict each other": 1}
    cut = with_ip_length(roce(0), 60)[: 14 + 60]
    captured = analyze(pcap(tmp_path / "trimmed.pcap", [(0, cut)]))
    assert captured.data["classes"]["not_read"] == {"payload trimmed by a switch": 1}


def test_frames_of_one_moment_have_no_round_trips(tmp_path: Path) -> None:
    frames = [(5000, frame) for psn in range(4) for frame in (roce(psn), ack(psn))]
    found = said(analyze(pcap(tmp_path / "moment.pcap", frames)))
    assert "All frames have the same time" in found["Times"][1]
    assert "Round trips" not in found


def test_an_empty_capture_has_no_none(tmp_path: Path) -> None:
    found = said(analyze(pcap(tmp_path / "empty.pcap", [])))
    assert {name: figure for name, (figure, _) in found.items()} == {
        "Frames": "0",
        **dict.fromkeys(("Traffic", "Losses", "ECN marks", "Pauses"), "not known"),
    }


def test_interfaces_of_one_name_in_a_section_are_points_of_their_own(tmp_path: Path) -> None:
    """As where captures of eth0 of several hosts were merged."""
    name = struct.pack("<HH", 2, 4) + b"eth0" + struct.pack("<HH", 0, 0)
    other = block(1, struct.pack("<HHI", 1, 0, 262144) + name)
    data = pcapng_head(options=name) + other
    for at, frame in enumerate(frame for psn in range(4) for frame in (roce(psn), ack(psn))):
        for interface, later in ((0, 0), (1, 100_000)):
            units = 10 * at + later
            fields = struct.pack("<IIIII", interface, 0, units, len(frame), len(frame))
            data += block(6, fields + frame)
    file = tmp_path / "merged.pcapng"
    file.write_bytes(data)
    captured = analyze(file)
    assert [one["place_name"] for one in captured.data["interfaces"]] == ["eth0", "eth0 (2)"]
    for row in captured.data["connections"]:
        assert (row["packets"], row["retransmitted"], row["captured_twice"]) == (4, 0, 0)


def test_a_gap_may_be_of_frames_that_were_not_read(tmp_path: Path) -> None:
    damaged = roce(1)[:-4] + bytes(4)
    frames = [(1000 * at, frame) for at, frame in enumerate([roce(0), damaged, roce(2), ack(2)])]
    text = said(analyze(pcap(tmp_path / "damaged.pcap", frames)))["Losses"][1]
    assert "or are among the frames that were not read" in text
