"""Captures, analysed: against tshark's counts, and against what a run has recorded itself."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import struct
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tailback
from pcapng import frames
from tailback import cli
from tailback.capture_option import CAPTURE_FILE, Capture
from tailback.captured import CaptureAnalysis, analyze
from tailback.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
RXE = ROOT / "crates" / "proto" / "tests" / "data" / "rxe_write.pcap"
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed: apt-get install tshark"
)

INCAST = """
name: analysed
run: {duration: 500us}
topology: {kind: star, hosts: 5}
switch: {shared: 256KiB}
traffic:
  - {kind: write, from: h0..h3, to: h4, qps: 2}
"""
# One packet is lost now and then, and the sender hears of it at once.
LOSSY = """
name: analysed-lossy
run: {duration: 1ms}
topology: {kind: star, hosts: 3, link: {loss: 0.002}}
switch: {ecn: null}
traffic:
  - {kind: write, from: h0, to: h2}
  - {kind: write, from: h1, to: h2}
"""

Run = tuple[tailback.Result, CaptureAnalysis, Path]


def run(folder: Path, text: str) -> Run:
    given = folder / "given.yaml"
    given.write_text(text)
    result = tailback.run(given, out=folder / "run", report=False, capture=Capture.parse(["all"]))
    return result, analyze(folder / "run" / CAPTURE_FILE), folder / "run" / CAPTURE_FILE


@pytest.fixture(scope="module")
def incast(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("incast"), INCAST)


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("lossy"), LOSSY)


def at(captured: CaptureAnalysis, place: str) -> list[dict[str, Any]]:
    """Rows of connections at a point of capture, by queue pair."""
    number = {one["place_name"]: one["place"] for one in captured.data["interfaces"]}[place]
    rows = [row for row in captured.data["connections"] if row["place"] == number and row["packets"]]
    return sorted(rows, key=lambda row: int(row["destination_qp"]))


def by_qp(result: tailback.Result) -> dict[int, dict[str, Any]]:
    return {0x100 + row["flow"]: row for row in result.flows.to_pylist()}


@pytest.mark.parametrize("which", ["incast", "lossy"])
def test_what_it_counts_at_senders_is_what_the_run_counted(
    which: str, request: pytest.FixtureRequest
) -> None:
    result, captured, _ = request.getfixturevalue(which)
    recorded = by_qp(result)
    seen = 0
    for host in {row["src"] for row in result.flows.to_pylist()}:
        for row in at(captured, f"{host}:sw0"):
            flow = recorded[row["destination_qp"]]
            assert row["source_qp"] == row["destination_qp"]
            assert row["packets"] == flow["packets_sent"]
            assert row["retransmitted"] == flow["packets_retransmitted"]
            # What passes the switch's port last is on its way to the sender when the run ends.
            assert 0 <= row["naks"][0] - flow["packet_seq_err"] <= 1
            assert 0 <= row["cnps"] - flow["rp_cnp_handled"] <= 2
            assert row["by_timeout"] == flow["local_ack_timeout_err"]
            seen += 1
    assert seen == len(recorded)


def test_what_it_counts_at_the_receiver_is_what_the_run_counted(incast: Run) -> None:
    result, captured, _ = incast
    recorded = by_qp(result)
    rows = at(captured, "h4:sw0")
    assert len(rows) == len(recorded)
    for row in rows:
        flow = recorded[row["destination_qp"]]
        assert row["cnps"] == flow["np_cnp_sent"]
        assert 0 <= row["ce"] - flow["np_ecn_marked_roce_packets"] <= 8
        on_the_wire = row["new_payload_bytes"] - flow["bytes_delivered"]
        assert 0 <= on_the_wire <= 16 * 1024
    assert captured.data["cnp_gaps"]["least_ps"] >= 4_000_000, "no CNPs are closer than the interval"
    told = {finding.what: finding for finding in captured.findings}
    assert "profile connectx" in told["CNPs"].words
    assert told["Pauses"].figure != "none"


def test_gaps_of_cnps_are_those_of_their_frames_to_the_picosecond(incast: Run) -> None:
    _, captured, file = incast
    stamps: dict[int, list[int]] = {}
    for frame in frames(file):
        if frame.interface == "h4:sw0" and frame.data[42] == 0x81:
            stamps.setdefault(int.from_bytes(frame.data[47:50], "big"), []).append(frame.at_ps)
    assert len(stamps) > 4
    for row in at(captured, "h4:sw0"):
        times = stamps.get(row["destination_qp"], [])
        gaps = [after - before for before, after in pairwise(times)]
        if gaps:
            told = row["cnp_gaps"]
            assert (told["count"], told["least_ps"], told["most_ps"]) == (len(gaps), min(gaps), max(gaps))


def test_naks_and_recoveries_are_told_with_their_latencies(lossy: Run) -> None:
    _, captured, _ = lossy
    plan = json.loads((lossy[2].parent / "plan.json").read_text())
    transport = plan["nics"][0]["transport"]
    recovered = [
        row for row in captured.data["listed"] if row["trigger"] == "nak" and row["nak_at_ps"] is not None
    ]
    senders = {row["way"] for host in ("h0", "h1") for row in at(captured, f"{host}:sw0")}
    took = [one["sent_at_ps"] - one["nak_at_ps"] for one in recovered if one["way"] in senders]
    assert len(took) > 4
    assert sum(one["by_nak"] for host in ("h0", "h1") for one in at(captured, f"{host}:sw0")) == len(took)
    # From the switch's port: 86 B of wire at 100 Gbit/s, the cable, the NIC, and its reaction.
    link = plan["links"][0]
    # Clocks of ports may be fast by 100 ppm (IEEE 802.3).
    wire = math.floor(86 * 80 * (1 - 1e-4))
    least = wire + link["delay"] + plan["nics"][0]["rx_latency"] + transport["nak_reaction"]
    packet = 1124 * 80
    assert all(least <= one <= least + packet for one in took), (least, sorted(took))
    manners = Counter(one["manner"] for one in recovered if one["way"] in senders)
    assert manners["go_back_n"] > 0
    assert manners["selective"] == 0
    gaps = [row for row in at(captured, "h2:sw0") if row["gaps"]]
    assert gaps
    assert captured.data["gap_to_nak"]["count"] == sum(
        row["gap_to_nak"]["count"] for row in captured.data["connections"]
    )
    told = {finding.what: finding for finding in captured.findings}
    assert "go-back-N" in told["Retransmissions"].words


@needs_tshark
@pytest.mark.parametrize("which", ["rxe", "incast", "lossy"])
def test_its_counts_are_those_of_tshark(which: str, request: pytest.FixtureRequest) -> None:
    file = RXE if which == "rxe" else request.getfixturevalue(which)[2]
    names = [
        "frame.interface_id",
        "infiniband.bth.opcode",
        "ip.dsfield.ecn",
        "infiniband.aeth.syndrome",
        "frame.len",
    ]
    command = ["tshark", "-r", str(file), "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    for name in [*names, "macc.opcode"]:
        command += ["-e", name]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    seen: dict[int, Counter[str]] = {}
    for line in rows:
        interface, opcode, ecn, syndrome, length, pfc = line.split("|")
        count = seen.setdefault(int(interface or 0), Counter())
        count["frames"] += 1
        count["frame_bytes"] += int(length)
        count["pfc"] += bool(pfc)
        count["roce"] += bool(opcode)
        count["ce"] += bool(opcode) and ecn == "3"
        count["cnps"] += opcode == "129"
        count["acks"] += opcode == "17" and int(syndrome) < 32
        count["naks"] += opcode == "17" and int(syndrome) >= 32
    told = analyze(file).data
    for number, one in enumerate(told["interfaces"]):
        keys = ("frames", "frame_bytes") if one["holds_drops"] else tuple(seen.get(number, Counter()))
        for key in keys:
            assert one[key] == seen[number][key], (one["name"], key)
    assert told["frames"] == len(rows)


def test_linux_is_read_message_by_message() -> None:
    captured = analyze(RXE)
    (row,) = captured.data["connections"]
    assert (row["packets"], row["messages"], row["payload_bytes"], row["acks"]) == (50, 5, 50_000, 5)
    assert (row["source"], row["source_qp"], row["destination_qp"]) == ("10.9.0.1", 17, 17)
    assert row["round_trips"]["count"] == 5
    assert captured.data["interfaces"][0]["icrc_bad"] == 0


CONNECTX_CNP = bytes.fromhex(
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a0012010000"
    "12b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a"
)


def pcap(folder: Path, frames: list[tuple[int, bytes]], link_type: int = 1, big: bool = False) -> Path:
    """A capture of frames with times in nanoseconds."""
    order = ">" if big else "<"
    data = struct.pack(f"{order}IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, link_type)
    for ns, frame in frames:
        data += struct.pack(f"{order}IIII", ns // 10**9, ns % 10**9, len(frame), len(frame)) + frame
    file = folder / "made.pcap"
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("big", [False, True])
def test_a_cnp_of_a_connectx_is_one(tmp_path: Path, big: bool) -> None:
    frames = [(1_000 * number, CONNECTX_CNP) for number in range(3)]
    captured = analyze(pcap(tmp_path, frames, big=big))
    (interface,) = captured.data["interfaces"]
    assert (interface["cnps"], interface["icrc_bad"]) == (3, 0)
    (row,) = captured.data["connections"]
    assert (row["cnps"], row["cnp_gaps"]["least_ps"]) == (3, 1_000_000)
    cooked = b"\0" * 14 + b"\x08\x00" + CONNECTX_CNP[14:]
    assert analyze(pcap(tmp_path, [(0, cooked)], link_type=113)).data["interfaces"][0]["cnps"] == 1
    raw = CONNECTX_CNP[14:]
    assert analyze(pcap(tmp_path, [(0, raw)], link_type=101)).data["interfaces"][0]["cnps"] == 1


def test_a_wrong_icrc_is_counted_and_nothing_more(tmp_path: Path) -> None:
    broken = CONNECTX_CNP[:-1] + b"\xff"
    captured = analyze(pcap(tmp_path, [(0, broken)]))
    assert captured.data["interfaces"][0]["icrc_bad"] == 1
    assert captured.data["connections"] == []
    assert any(finding.what == "Damaged" for finding in captured.findings)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "found an empty file, expected pcap or pcapng, as it is or with gzip"),
        (b"BZh91AY&SY", "found a file packed by bzip2, expected pcap or pcapng, as it is or with gzip"),
        (b"\xfd7zXZ\0\0\4", "found a file packed by xz, expected pcap or pcapng, as it is or with gzip"),
        (
            b"\x28\xb5\x2f\xfd\0",
            "found a file packed by zstd, expected pcap or pcapng, as it is or with gzip",
        ),
        (b"name: first-flow\n" * 9, "found neither pcap nor pcapng, expected pcap or pcapng"),
        (RXE.read_bytes()[:30], "found the end of the file within a block, expected pcap or pcapng"),
    ],
)
def test_what_is_no_capture_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, said: str
) -> None:
    file = tmp_path / "file.pcap"
    file.write_bytes(data)
    assert cli.main(["analyze", str(file)]) == 2
    assert capsys.readouterr().err.strip() == f"{file}: {said}"
    assert cli.main(["analyze", str(tmp_path / "none.pcap")]) == 3
    assert capsys.readouterr().err.strip() == f"tailback: {tmp_path / 'none.pcap'}: No such file or directory"


def test_a_capture_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "cut.pcap"
    file.write_bytes(RXE.read_bytes()[:-100])
    captured = analyze(file)
    assert captured.data["cut_short"]
    assert captured.data["frames"] == 53
    assert "ends within a frame" in captured.findings[0].words


def test_it_prints_json_and_writes_a_page(
    tmp_path: Path, lossy: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["analyze", str(lossy[2]), "--json", "--page", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["frames"] == lossy[1].data["frames"]
    text = page.read_text(encoding="utf-8")
    for part in (
        "Findings",
        "h0 to h2, QP 0x100",
        "Retransmissions",
        "go-back-n",
        "from the first frame",
    ):
        assert part in text
    assert cli.main(["analyze", str(lossy[2])]) == 0
    assert "Retransmissions" in capsys.readouterr().out


MAGIC = {"us": 0xA1B2C3D4, "ns": 0xA1B23C4D}


def pcap_of(order: str, unit: str, lengths: list[int]) -> bytes:
    """A pcap with frames of these lengths."""
    whole = struct.pack(order + "IHHiIII", MAGIC[unit], 2, 4, 0, 0, 65_535, 1)
    for number, length in enumerate(lengths):
        whole += struct.pack(order + "IIII", 1_700_000_000, number, length, length) + bytes(length)
    return whole


def pcapng_of(order: str, lengths: list[int]) -> bytes:
    """A pcapng with frames of these lengths."""
    whole = struct.pack(order + "IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    whole += struct.pack(order + "IIHHII", 1, 20, 1, 0, 65_535, 20)
    for number, length in enumerate(lengths):
        padded = bytes(length + -length % 4)
        size = 32 + len(padded)
        head = struct.pack(order + "IIIIIII", 6, size, 0, 0, number, length, length)
        whole += head + padded + struct.pack(order + "I", size)
    return whole


FORMS = {
    "pcap <us": lambda lengths: pcap_of("<", "us", lengths),
    "pcap <ns": lambda lengths: pcap_of("<", "ns", lengths),
    "pcap >us": lambda lengths: pcap_of(">", "us", lengths),
    "pcap >ns": lambda lengths: pcap_of(">", "ns", lengths),
    "pcapng <": lambda lengths: pcapng_of("<", lengths),
    "pcapng >": lambda lengths: pcapng_of(">", lengths),
}


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("lengths", [[], [64], [60, 1500, 9000], [64] * 5000])
def test_files_that_cat_has_joined_are_read_or_named_with_the_place(
    first: str, second: str, lengths: list[int], tmp_path: Path
) -> None:
    head, tail = FORMS[first](lengths), FORMS[second]([64, 1024])
    for name, content in [("a.pcap", head + tail), ("b.pcap.gz", gzip.compress(head) + gzip.compress(tail))]:
        file = tmp_path / name
        file.write_bytes(content)
        if first.startswith("pcapng") and second.startswith("pcapng"):
            assert analyze(file).data["frames"] == len(lengths) + 2  # sections of one file
            continue
        with pytest.raises(InputError) as caught:
            analyze(file)
        (problem,) = caught.value.problems
        assert problem.text == (
            f"found the header of another capture at byte {len(head)}, as cat joins files, expected one capture "
            "(mergecap joins several)"
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [1, 7, 15, 40])
def test_a_file_that_is_cut_is_not_taken_for_two(form: str, cut: int, tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(FORMS[form]([64, 1024])[:-cut])
    assert analyze(file).data["cut_short"]
