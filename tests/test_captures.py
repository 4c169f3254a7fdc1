"""Captures of runs: read by Wireshark and by scapy, and counted against what the run has recorded."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tailback
from pcapng import frames
from tailback import cli
from tailback.capture_option import CAPTURE_FILE, Capture

TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed: apt-get install tshark")

INCAST = """
name: captured
run: {duration: 300us}
topology: {kind: star, hosts: 5}
switch: {shared: 256KiB}
traffic:
  - {kind: write, from: h0..h3, to: h4, qps: 2}
"""
LOSSY = [
    "switch.lossless=[]", "switch.ecn=null", "topology.link.loss=0.001", "run.duration=600us"
]  # fmt: skip
TCP = """
name: captured-tcp
run: {duration: 2ms}
topology: {kind: star, hosts: 3}
switch: {shared: 64KiB, lossless: [], ecn: null}
traffic:
  - {kind: tcp, from: h0..h1, to: h2}
"""

Run = tuple[tailback.Result, Path]


def capture(folder: Path, text: str, *sets: str, of: Capture | None = None) -> Run:
    given = folder / "given.yaml"
    given.write_text(text)
    out = folder / "run"
    wanted = of or Capture.parse(["all"])
    return tailback.run(given, sets=sets, out=out, report=False, capture=wanted), out / CAPTURE_FILE


@pytest.fixture(scope="module")
def incast(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return capture(tmp_path_factory.mktemp("incast"), INCAST)


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return capture(tmp_path_factory.mktemp("lossy"), INCAST, *LOSSY)


def fields(file: Path, *names: str, options: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """What tshark reads, a row a frame."""
    command = ["tshark", "-r", str(file), *options, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    for name in names:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [tuple(line.split("|")) for line in done.stdout.splitlines()]


def counter(result: tailback.Result, name: str) -> int:
    rows = result.counters.to_pylist()
    return sum(row["value"] for row in rows if row["counter"] == name)


@needs_tshark
def test_wireshark_reads_every_frame_and_finds_what_the_run_counted(incast: Run) -> None:
    result, file = incast
    names = [
        "_ws.malformed",
        "frame.interface_name",
        "infiniband.bth.opcode",
        "ip.dsfield.ecn",
        "frame.comment",
    ]
    rows = fields(file, *names, "macc.opcode", "_ws.expert.severity")
    assert not any(row[0] for row in rows)
    at_sender = Counter(row[2] for row in rows if row[1] in {f"h{host}:sw0" for host in range(4)})
    assert sum(at_sender.values()) == sum(result.flows["packets_sent"].to_pylist())
    marks = [row for row in rows if "marked CE" in row[4]]
    marked = sum(
        row["value"] for row in result.counters.to_pylist() if row["counter"].startswith("ecn_marked_tc_")
    )
    assert len(marks) == marked > 0
    assert all(row[3] == "3" for row in marks)
    pauses = Counter(row[1] for row in rows if row[5])
    # Those of the last moment are on the wire, and have reached nobody.
    frames = result.summary["pauses"]["frames"]
    assert frames <= sum(pauses.values()) <= frames + 4 * frames // 100 + 4
    assert frames > 0
    # A CNP's opcode, 129, and an ACK's.
    cnps = sum(row[2] == "129" for row in rows if row[1] == "h4:sw0")
    assert cnps == sum(result.flows["np_cnp_sent"].to_pylist()) > 0
    assert {row[2] for row in rows if row[1] == "h4:sw0"} == {"17", "129"}


@needs_tshark
def test_what_was_dropped_is_in_interfaces_of_its_own_with_the_reason(lossy: Run) -> None:
    result, file = lossy
    rows = fields(file, "frame.interface_name", "frame.comment", "infiniband.bth.opcode", "_ws.malformed")
    dropped = [row for row in rows if row[0].endswith(" dropped")]
    assert len(dropped) == sum(drop["packets"] for drop in result.meta["drops"]) > 0
    assert all(row[1].startswith("dropped: ") for row in dropped)
    assert {row[1] for row in dropped} >= {"dropped: lost on the link"}
    naks = fields(file, "infiniband.aeth.syndrome", "frame.interface_name")
    sent = [row for row in naks if row[0] == "96" and row[1] == "h4:sw0"]
    assert len(sent) == sum(result.flows["out_of_sequence"].to_pylist()) > 0


def test_scapy_makes_every_icrc_again(incast: Run, lossy: Run) -> None:
    roce = pytest.importorskip("scapy.contrib.roce")
    from scapy.utils import rdpcap

    for _, file in (incast, lossy):
        seen = 0
        for packet in rdpcap(str(file), count=2000)[::23]:
            if roce.BTH in packet:
                copy = packet.copy()
                copy[roce.BTH].icrc = None
                assert bytes(copy.__class__(bytes(copy))) == bytes(packet), packet.summary()
                seen += 1
        assert seen > 50


@needs_tshark
def test_tcp_segments_have_good_checksums(tmp_path: Path) -> None:
    result, file = capture(tmp_path, TCP)
    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    names = ["tcp.checksum.status", "ip.checksum.status", "_ws.malformed", "tcp.len"]
    rows = fields(file, *names, "frame.interface_name", "tcp.options.sack.count", options=checks)
    assert {tuple(row[:3]) for row in rows} == {("1", "1", "")}
    sent = [row for row in rows if row[4] in ("h0:sw0", "h1:sw0") and row[3] != "0"]
    assert len(sent) == sum(result.flows["packets_sent"].to_pylist())
    assert any(row[5] for row in rows), "losses are told in SACK blocks"


def test_times_are_picoseconds_and_a_window_and_a_length_cut(tmp_path: Path, incast: Run) -> None:
    names = Capture.parse(["sw0:h4"], "100us..200us", "64B")
    _, file = capture(tmp_path, INCAST, of=names)
    packets = list(frames(file))
    times = [frame.at_ps for frame in packets]
    assert times == sorted(times)
    assert all(100_000_000 <= at < 200_000_000 for at in times)
    assert any(at % 1000 for at in times), "the resolution is a picosecond"
    kept = {len(frame.data) for frame in packets}
    assert {62, 64} <= kept <= {60, 62, 64}
    same = [
        (frame.at_ps, frame.length)
        for frame in frames(incast[1])
        if frame.interface in ("sw0:h4", "h4:sw0") and 100_000_000 <= frame.at_ps < 200_000_000
    ]
    assert [(frame.at_ps, frame.length) for frame in packets] == same


def test_a_run_is_the_same_with_a_capture_and_so_is_the_capture(tmp_path: Path, incast: Run) -> None:
    (tmp_path / "again").mkdir()
    again, file = capture(tmp_path / "again", INCAST)
    assert file.read_bytes() == incast[1].read_bytes()
    given = tmp_path / "again" / "given.yaml"
    without = tailback.run(given, report=False)
    for name in ("flows", "series", "counters"):
        assert getattr(without, name).equals(getattr(again, name))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--capture", "nobody"], "--capture: found nobody, expected all, a node, or a link such as h0:sw0"),
        (["--capture", "h0,"], "--capture: found 'h0,', expected links with commas between them"),
        (["--capture", "h0", "--capture-time", "2us"], "--capture-time: found '2us', expected two times"),
        (["--capture", "h0", "--capture-time", "2us..1us"], "--capture-time: found '2us..1us', expected two"),
        (
            ["--capture", "h0", "--capture-time", "9s..10s"],
            "--capture-time: found a time that begins at 9s, expected",
        ),
        (["--capture", "h0", "--capture-bytes", "1"], "--capture-bytes: found '1', expected a size"),
        (["--capture", "h0", "--capture-bytes", "1B"], "--capture-bytes: found '1B', expected 14B to 256KiB"),
        (["--capture-bytes", "64B"], "--capture-time and --capture-bytes need --capture"),
        (["--capture", "h0", "--seeds", "1,2"], "--capture and --seeds exclude each other"),
    ],
)
def test_what_cannot_be_captured_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert cli.main(["run", "first-flow", "--out", str(tmp_path / "out"), *options]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert said in err.strip()
    assert "\n" not in err.strip()
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tailback import _engine

    real = _engine.Simulation

    class Full:
        def __init__(self, *given: Any) -> None:
            self.real = real(*given)

        def capture(self, _path: str, *rest: Any) -> None:
            self.real.capture("/dev/full", *rest)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    monkeypatch.setattr(_engine, "Simulation", Full)
    with pytest.raises(OSError, match="No space left on device"):
        capture(tmp_path, INCAST)
    assert [path.name for path in tmp_path.iterdir()] == ["given.yaml"]


def test_the_shell_completes_links() -> None:
    from tailback.cli import completion

    class Context:
        params = {"name": "first-flow"}  # noqa: RUF012

    assert completion.links(Context(), "h0,sw0:") == ["h0,sw0:h0", "h0,sw0:h1"]  # type: ignore[arg-type]
