"""From a scenario through the engine to a result, as a library and as a command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import tailback
from commands import start, wait_until_it_simulates
from tailback import cli
from tailback.plan import Packed, make_plan, plan_json
from tailback.running import begin
from tailback.scenario import builtin_names, load

SHORT_INCAST = ["run.duration=1ms", "traffic.0.start_interval=0", "traffic.0.qps=4"]
TINY = {
    "name": "tiny",
    "run": {"duration": "20us"},
    "topology": {"kind": "star", "hosts": 2},
    "traffic": [{"kind": "write", "from": "h0", "to": "h1"}],
}


def test_first_flow() -> None:
    result = tailback.run("first-flow")
    assert result.complete
    assert result.faults == []
    assert result.flows.num_rows == 1
    assert result.flows.column("goodput_bps")[0].as_py() > 90e9
    assert {"np_cnp_sent"} <= set(result.counter_names)
    assert result.series.num_rows > 0


def test_data_in_results_out(tmp_path: Path) -> None:
    seen: list[Any] = []
    result = tailback.run(TINY, sets=["traffic.0.qps=3"], seed=4, out=tmp_path / "x", progress=seen.append)
    assert result.flows.num_rows == 3
    assert result.meta["seed"] == 4
    assert seen[-1].done
    again = load(tmp_path / "x" / "scenario.yaml")
    assert make_plan(again) == make_plan(load(TINY, sets=["traffic.0.qps=3"], seed=4))


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize(
    "sets",
    [
        [],
        ["host.congestion=none", "switch.ecn=null"],
        ["host.dcqcn={profile: alibaba, cnp_interval_per: port, byte_reset_unit_bytes: 64}", "host.mtu=4KiB"],
        ["host.dcqcn.profile=sigcomm15", "switch.pfc={xoff: 100KB, xon: 50KB, headroom: 60KB}"],
        ["host.transport.adaptive_timeout=null", "topology.link={rate: 400Gbps, loss: 0.01}"],
        ["traffic.0={kind: write, from: all, to: all, messages: 5, stop: 5us}"],
    ],
)  # fmt: skip
def test_the_engine_takes_every_plan(name: str, sets: list[str]) -> None:
    # Where there is no switch, or no host that speaks RoCE, there is nothing to set of them; a receive
    # buffer is sized for its link.
    lacking = {"point-to-point": ("switch.", "topology."), "bridge": ("switch.",)}.get(
        load(name).topology.kind, ()
    )
    if load(name).topology.kind == "veth":
        lacking = ("switch.", "host.", "topology.", "traffic.")
    known = [one for one in sets if not one.startswith(lacking)]
    begin(Packed(plan_json(make_plan(load(name, sets=known))), b"", []))


def test_the_same_seed_gives_the_same_tables() -> None:
    sets = [*SHORT_INCAST, "traffic.0.start_spread=200us"]
    first, second, other = (tailback.run("roce-incast-lossless", sets=sets, seed=seed) for seed in (1, 1, 2))
    assert first.flows.equals(second.flows)
    assert first.series.equals(second.series)
    assert not first.flows.equals(other.flows)


def test_interrupted_run_is_partial(tmp_path: Path) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupted:
        tailback.run("roce-incast-lossless", out=tmp_path / "x", progress=interrupt)
    assert isinstance(interrupted.value, tailback.Interrupted)
    result = interrupted.value.result
    assert not result.complete
    assert 0 < result.meta["end_ps"] < 2 * 10**12
    assert json.loads((tmp_path / "x" / "summary.json").read_text())["complete"] is False


def test_a_result_that_cannot_be_written_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tailback.results.Result.write", fail)
    with pytest.raises(OSError, match="No space"):
        tailback.run(TINY, out=tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_run_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "x"
    assert cli.main(["run", "first-flow", "--out", str(out)]) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout.splitlines()[-1] == str(out / "report.html")
    assert "Throughput" in stdout
    assert stderr == ""
    assert (out / "report.html").is_file()


def test_quiet_prints_the_folder_only(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "first-flow", "-q"]) == 0
    stdout, stderr = capsys.readouterr()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("first-flow-20")
    assert stdout == f"runs/{folder.name}\n"
    assert stderr == ""


def test_a_fault_is_status_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sets = [*SHORT_INCAST, "switch.pfc.headroom=0B", "switch.pfc.xoff=100KB", "host.congestion=none"]
    arguments = [part for text in sets for part in ("--set", text)]
    status = cli.main(["run", "roce-incast-lossless", *arguments, "--out", str(tmp_path / "x"), "-q"])
    assert status == 1
    faults = capsys.readouterr().err.splitlines()
    assert faults
    assert all(line.startswith("fault: lossless_drop at sw0:h") for line in faults)


def test_disk_full_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "x/flows.parquet")

    monkeypatch.setattr("tailback.results.Result.write", fail)
    assert cli.main(["run", "first-flow", "--out", str(tmp_path / "x"), "-q"]) == 3
    assert capsys.readouterr().err == "tailback: x/flows.parquet: No space left on device\n"


@pytest.mark.parametrize("signals", [["SIGINT"], ["SIGTERM", "SIGTERM"], ["SIGHUP", "SIGTERM"]], ids="+".join)
def test_an_interrupt_leaves_a_valid_partial_result(signals: list[str], tmp_path: Path) -> None:
    """timeout(1) sends SIGTERM twice, systemd one signal after the other."""
    out = tmp_path / "x"
    with start("run", "roce-incast-lossless", "--out", out, "-q") as process:
        wait_until_it_simulates(process)
        for name in signals:
            process.send_signal(signal.Signals[name])
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.Signals[signals[0]]
    assert stderr == ""
    assert stdout.strip() == str(out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["complete"] is False
    assert summary["simulated_s"] < 2
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_the_folder_one_stands_in_can_take_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    tailback.run("first-flow", out=".")
    assert (here / "report.html").is_file()
    assert sorted(tmp_path.iterdir()) == [here]


def test_a_fault_is_told_though_nobody_reads_the_table() -> None:
    command = f"{sys.executable} -m tailback.cli run roce-incast-lossless --out here"
    sets = [*SHORT_INCAST, "switch.pfc.headroom=2KB", "traffic.0.qps=16"]
    words = " ".join([command, *(f"--set {one}" for one in sets), "| true; exit ${PIPESTATUS[0]}"])
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", "-c", words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "fault: lossless_drop" in done.stderr


def test_a_report_later(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert cli.main(["run", "first-flow", "--out", str(out), "--no-report"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out)
    assert not (out / "report.html").exists()
    assert cli.main(["report", str(out)]) == 0
    assert capsys.readouterr().out == f"{out / 'report.html'}\n"
    assert "Where it is stuck" in (out / "report.html").read_text()
    assert cli.main(["report", str(tmp_path)]) == 2


def test_one_ctrl_c_while_results_are_written_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = tailback.results.Result.write

    def interrupted(times: int, result: tailback.results.Result, out: Path, report: bool) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        write(result, out, report)

    monkeypatch.setattr("tailback.results.Result.write", lambda *given: interrupted(1, *given))
    result = tailback.run("first-flow", out=tmp_path / "one")
    assert result.complete
    assert (tmp_path / "one" / "report.html").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.setattr("tailback.results.Result.write", lambda *given: interrupted(2, *given))
    with pytest.raises(KeyboardInterrupt):
        tailback.run("first-flow", out=tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_what_latency_tests_send_is_no_share_of_the_line_of_others() -> None:
    # Both ways at once the tests carry more than one way of the cable does.
    tests = [{"kind": "write-latency", "from": "all", "to": "all", "message": "64KiB"} for _ in range(4)]
    few = {"kind": "flows", "list": ["h0 h1 1000B 10us"]}
    data = {**TINY, "run": {"duration": "100us"}, "topology": {"kind": "point-to-point"}}
    result = tailback.run({**data, "traffic": [*tests, few]})
    goodput = result.summary["goodput"]
    assert goodput["total_bps"] > 100e9
    assert goodput["of_line_rate"] == pytest.approx(1000 * 8 / 100e-6 / 100e9)
    alone = tailback.run({**data, "traffic": tests}).summary["goodput"]
    assert alone["of_line_rate"] == pytest.approx(alone["total_bps"] / 200e9)
