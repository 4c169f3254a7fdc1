"""The congestion point, between veth pairs in a network namespace of its own; and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import COMMAND
from tailback import cli
from tailback.point.settings import PointSettings, read

LAB = Path(__file__).parent / "point_lab.py"


def permitted() -> bool:
    veth = "ip link add t0 type veth peer name t1"
    try:
        done = subprocess.run(["unshare", "-rn", "sh", "-c", veth], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


needs_root = pytest.mark.skipif(
    os.geteuid() != 0,
    reason="undoing what root alone may change: run the tests as root",
)
needs_namespaces = pytest.mark.skipif(
    not permitted(), reason="network namespaces with veth pairs are not permitted here (unshare -rn, ip)"
)


def lab(case: str) -> dict[str, Any]:
    command = ["unshare", "-rn", sys.executable, str(LAB), case]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def psns(result: dict[str, Any]) -> list[int]:
    return [packet["psn"] for packet in result["seen"]["got"]]


@needs_namespaces
def test_the_rate_is_kept_and_every_packet_arrives_whole() -> None:
    result = lab("rate")
    assert (result["status"], result["err"]) == (0, "")
    assert psns(result) == list(range(500))
    assert all(packet["checksum_ok"] and packet["icrc_ok"] for packet in result["seen"]["got"])
    assert not any(packet["ce"] for packet in result["seen"]["got"])
    # 500 packets of 1106 B on the wire at 100 Mbit/s are 44 ms; it waits 0.4 and 0.1 s for more.
    assert result["seen"]["took_s"] >= 0.5 + 0.044 - 0.002
    assert result["told"]["directions"][0]["dropped_full"] == 0
    assert result["files"] == ["events.json", "point.yaml", "series.parquet", "summary.json"]


@needs_namespaces
def test_a_full_buffer_drops_the_tail() -> None:
    result = lab("full")
    counters = result["told"]["directions"][0]
    # 18 of 1106 B fit 20 KB.
    assert psns(result)[:18] == list(range(18))
    assert counters["dropped_full"] == 100 - len(psns(result)) > 0
    assert counters["most_queued_bytes"] <= 20_000


@needs_namespaces
def test_marks_are_by_what_is_left_behind_and_leave_packets_whole() -> None:
    result = lab("marks")
    got = result["seen"]["got"]
    assert psns(result) == list(range(100))
    assert all(packet["checksum_ok"] and packet["icrc_ok"] for packet in got)
    marked = [packet["psn"] for packet in got if packet["ce"]]
    assert len(marked) == result["told"]["directions"][0]["marked"] > 0
    # The last 19 leave 18 or fewer behind, 20 KB or less.
    assert max(marked) <= 81


@needs_namespaces
def test_it_pauses_and_resumes_who_sends() -> None:
    result = lab("pauses")
    frames = [bytes.fromhex(frame) for frame in result["seen"]["back"]]
    assert len(frames) >= 2
    assert all(frame[14:16] == b"\x01\x01" and frame[17] == 1 << 3 for frame in frames)
    quanta = [int.from_bytes(frame[24:26], "big") for frame in frames]
    assert quanta[0] == 65_535
    assert quanta[-1] == 0
    assert result["told"]["directions"][0]["dropped_full"] == 0


@needs_namespaces
def test_events_hit_the_packets_that_they_name() -> None:
    result = lab("events")
    got = {packet["psn"]: packet for packet in result["seen"]["got"]}
    order = psns(result)
    assert 2 not in got, "the third is dropped"
    assert [psn for psn, packet in got.items() if packet["ce"]] == [5]
    assert [psn for psn, packet in got.items() if not packet["icrc_ok"]] == [7]
    assert order.index(9) == order.index(10) + 1 or order.index(9) == order.index(11) + 1
    assert order.index(15) > order.index(16)
    happened = [(one["event"], one["psn"]) for one in result["told"]["happened"]]
    assert happened == [(0, 2), (1, 5), (2, 7), (3, 9), (4, 15)], "the one of another queue pair is left"


@needs_namespaces
def test_losses_are_as_many_as_asked_for() -> None:
    counters = lab("loss")["told"]["directions"][0]
    # Binomial of 2,000 at 0.1: 13 is a standard deviation.
    assert abs(counters["dropped_loss"] - 200) < 5 * 13.4
    assert counters["rx_frames"] == counters["tx_frames"] + counters["dropped_loss"]


@needs_namespaces
def test_a_tag_that_the_kernel_took_off_is_put_back() -> None:
    counters = lab("tagged")["told"]["directions"][0]
    assert counters["rx_bytes"] == counters["tx_bytes"] == 60 + 1082 + 4


@needs_namespaces
def test_an_interface_that_vanishes_ends_it_with_one_line() -> None:
    result = lab("vanish")
    assert result["status"] == 1
    assert result["err"].startswith("tailback: pb: network is down; the counters until then are in ")
    assert len(result["err"].splitlines()) == 1
    assert "summary.json" in result["files"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate: 1\n", ":1: rate: found 1, expected a rate with a unit, such as 100Gbps"),
        ("rat: 1Gbps\n", ":1: rat: found an unknown field, expected rate (or another of"),
        ("pfc: {xoff: 1KB, xon: 2KB}\n", ":1: pfc: found a mapping, expected xon below xoff"),
        (
            "pfc: {xoff: 2KB, xon: 1KB, quanta: 1}\n",
            ":1: pfc.quanta: found 1, expected greater than or equal to 2",
        ),
        ("events:\n  - {action: drop}\n", ":2: events.0: found a mapping, expected nth or psn"),
        (
            "events:\n  - {action: lose, nth: 1}\n",
            ':2: events.0.action: found "lose", expected drop, mark, corrupt',
        ),
        ("loss: 2\n", ":1: loss: found 2, expected less than or equal to 1"),
        ("- 1\n", ":1: found a list"),
    ],
)
def test_bad_settings_are_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "point.yaml"
    file.write_text(text)
    assert cli.main(["point", "a", "b", str(file), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{file}{said}"), err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_an_interface_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["point", "nobody0", "nobody1", "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("nobody0: found no such device, expected an interface"), err
    assert not (tmp_path / "out").exists()


def test_settings_are_written_as_they_are_read(tmp_path: Path) -> None:
    text = "rate: 500Mbps\necn: {k_min: 20KB, k_max: 80KB, p_max: 0.1}\n"
    text += "events: [{action: drop, qp: 0x11, nth: 2}]\n"
    file = tmp_path / "point.yaml"
    file.write_text(text)
    settings = read(file, ["delay=10us", "ecn.k_max=90KB"])
    again = PointSettings.model_validate(yaml.safe_load(settings.as_yaml()))
    assert again == settings
    assert (settings.delay, settings.ecn and settings.ecn.k_max) == (10_000_000, 90_000)


KERNEL = """
ip link add a0 type veth peer name pa && ip link add b0 type veth peer name pb && ip link set pb mtu 1400
{command} point pa pb --kernel --set rate=50Mbps --set 'ecn={{k_min: 20KB, k_max: 60KB, p_max: 0.1}}' \\
  --set buffer=500KB --duration 500ms --json --out {out}
echo "status $?"; ip -o link show type bridge; ip -o link show dev pa; tc qdisc show dev pa
"""


@needs_root
@needs_namespaces
def test_the_kernels_own_point_is_taken_back_and_says_where_it_cannot_be(tmp_path: Path) -> None:
    script = KERNEL.format(command=" ".join(COMMAND), out=tmp_path / "out")
    done = subprocess.run(["unshare", "-rn", "sh", "-c", script], capture_output=True, text=True, check=False)
    *told, status, link, discipline = done.stdout.splitlines()
    if done.stderr:  # there is no sch_red
        assert re.match(r"tailback point --kernel: found '.*unknown.*', expected .*sch_red", done.stderr)
        assert len(done.stderr.splitlines()) == 1
        assert (status, told) == ("status 2", [])
        assert not (tmp_path / "out").exists()
    else:
        assert status == "status 0"
        assert json.loads("".join(told))["directions"][0]["marked"] == 0
    assert "mtu 1500 qdisc" in link
    assert "state DOWN" in link
    assert "master" not in link
    assert "tbf" not in discipline


KILLED = """
import os, signal
from tailback.point import kernel
from tailback.point.settings import PointSettings
steps = kernel._steps  # without RED, which not every kernel has
kernel._steps = lambda *given: [step for step in steps(*given) if " red " not in step.do]
ecn = {"k_min": "20KB", "k_max": "60KB", "p_max": 0.1}
settings = PointSettings.model_validate({"rate": "50Mbps", "buffer": "500KB", "ecn": ecn})
with kernel._set_up("", ["pa", "pb"], settings):
    print(kernel.clean(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
LEFT = """
state() {{
  ip -o link show type bridge | wc -l
  for i in pa pb c; do ip -o link show dev $i | sed 's/.*<\\(.*\\)> mtu \\([0-9]*\\) .*/\\1 \\2/'; done
  tc qdisc show dev pa | grep -c tbf; tc qdisc show dev c | grep -c tbf
}}
for i in a b c; do ip link add ${{i}}0 type veth peer name p$i; done
ip link set pc name c; ip link set pb mtu 1400 up
state > {folder}/before
{python} -c '{killed}' 2>&1
ip link set c up master tailback-cp && tc qdisc add dev c root tbf rate 1mbit burst 9kb limit 9kb
{command} point --clean; state > {folder}/after
ip link add tailback-cp type bridge
{command} point --clean; {command} point --clean
ip -o link show type bridge | wc -l
"""


@needs_root
@needs_namespaces
def test_what_a_killed_kernels_point_left_is_taken_back_and_nothing_else(tmp_path: Path) -> None:
    script = LEFT.format(command=" ".join(COMMAND), python=sys.executable, killed=KILLED, folder=tmp_path)
    done = subprocess.run(["unshare", "-rn", "sh", "-c", script], capture_output=True, text=True, check=False)
    running, taken, *others, bridges = [line for line in done.stdout.splitlines() if line != "Killed"]
    assert "tailback-cp: left alone, as process" in running, done.stderr
    assert taken == "tailback-cp: removed; pa and pb as before"
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("before", "after"))
    # Somebody else's port loses its bridge, and nothing more.
    assert (before[-1], after[-1]) == ("0", "1")
    assert "UP" in after[3]
    assert after[:3] + after[4:-1] == before[:3] + before[4:-1]
    said = "tailback-cp: left alone, as its alias does not say that it was made by tailback point --kernel"
    assert others == [said, said]
    assert bridges == "1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a", "b"], "found no ecn, expected k_min, k_max and p_max"),
        (["a", "b", "--set", "loss=0.1"], "found loss, expected rate, buffer and ecn"),
        (["x/a", "b"], "found x/a and b, expected interfaces of one namespace"),
        (["nobody0", "b", "--set", "ecn={k_min: 1KB, k_max: 2KB}"], "expected an interface that may join"),
    ],
)
def test_what_the_kernels_point_has_not_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    assert cli.main(["point", *given, "--kernel", "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("tailback point --kernel: found "), err
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_clock_for_nobody_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, said in [
        (["--clock", "c:0"], "--clock: found 'c:0', expected FILE or FILE:N, N from 1 to 1000"),
        (["--clock", "c", "--kernel"], "--clock: found --kernel, expected the program's own point"),
    ]:
        assert cli.main(["point", "a", "b", *given, "--out", str(tmp_path / "out")]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
