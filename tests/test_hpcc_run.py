"""`tailback hpcc`: that simulator's own runs come out equal to the byte, and the folder repeats them.

The cases, with the outputs of that simulator, are those of the engine's tests.
"""

from __future__ import annotations

import gzip
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import tailback
from commands import start, wait_until_it_simulates
from hpcc_cases import compare
from hpcc_files import CONFIG, FLOW, write
from tailback import cli
from tailback.hpcc.inputs import load_inputs
from tailback.hpcc.native import native_plan
from tailback.hpcc.plan import make_plan
from tailback.metrics import findings
from tailback.plan import Packed, plan_json
from tailback.report import render
from tailback.report.plots import marks, qp_rates
from tailback.results import Result
from tailback.run_folder import COMMON_FILES
from tailback.running import begin

CASES = Path(__file__).parent.parent / "crates" / "compat" / "tests" / "data" / "hpcc"
NAMES = sorted(path.parent.name for path in CASES.glob("*/config.txt"))
MODES = sorted((CASES / "modes").iterdir(), key=lambda path: path.name)
"""Cases of every congestion control, of losses and of a link that fails."""

# What the cases have in common (run.py's preset "dcqcn" at 100 Gbit/s), and what each changes.
COMMON = {
    "ENABLE_QCN": 1,
    "PACKET_PAYLOAD_SIZE": 1000,
    "CC_MODE": 1,
    "ALPHA_RESUME_INTERVAL": 1,
    "RATE_DECREASE_INTERVAL": 4,
    "CLAMP_TARGET_RATE": 0,
    "RP_TIMER": 300,
    "EWMA_GAIN": 1 / 256,
    "FAST_RECOVERY_TIMES": 1,
    "RATE_AI": 20_000_000,
    "RATE_HAI": 200_000_000,
    "MIN_RATE": 1_000_000_000,
    "ERROR_RATE_PER_LINK": 0.0,
    "L2_CHUNK_SIZE": 4000,
    "L2_ACK_INTERVAL": 1,
    "L2_BACK_TO_ZERO": 0,
    "HAS_WIN": 0,
    "GLOBAL_T": 1,
    "VAR_WIN": 0,
    "RATE_BOUND": 1,
    "ACK_HIGH_PRIO": 1,
    "LINK_DOWN": (0, 0, 0),
    "KMAX_MAP": {100_000_000_000: 1600, 400_000_000_000: 6400},
    "KMIN_MAP": {100_000_000_000: 400, 400_000_000_000: 1600},
    "PMAX_MAP": {100_000_000_000: 0.2, 400_000_000_000: 0.2},
    "BUFFER_SIZE": 32,
    "QLEN_MON_FILE": b"qlen.txt",
}
CHANGED: dict[str, dict[str, Any]] = {
    "fatk4_16h_ws50_10ms": {"SIMULATOR_STOP_TIME": 2.02},
    "incast16_4MB_pfconly": {"CC_MODE": 0, "ENABLE_QCN": 0, "BUFFER_SIZE": 2},
    "qpscale2_128": {"MIN_RATE": 10_000_000},
    "incast16_4MB_vwin": {"HAS_WIN": 1, "VAR_WIN": 1, "ACK_HIGH_PRIO": 0},
    "rounding_952": {"PACKET_PAYLOAD_SIZE": 952},
    "rounding_4048": {"PACKET_PAYLOAD_SIZE": 4048},
}


def expected(case: str, name: str) -> bytes:
    """An output of that simulator; it is kept only where it is not empty."""
    path = CASES / case / name
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize("case", NAMES)
def test_a_config_is_read_as_it_is(case: str) -> None:
    config = load_inputs(CASES / case / "config.txt", beside=True).config
    wanted = COMMON | CHANGED.get(case, {})
    assert {name: config[name] for name in wanted} == wanted
    assert config.warnings == []


@pytest.mark.parametrize("case", NAMES)
def test_outputs_are_equal_to_the_byte(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CASES / case)
    assert cli.main(["hpcc", "config.txt", "--out", str(tmp_path / "x"), "-q"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'x'}\n"
    for name in ("fct.txt", "pfc.txt"):
        assert (tmp_path / "x" / name).read_bytes() == expected(case, name), name
    assert expected(case, "fct.txt") + expected(case, "pfc.txt") != b""


def test_the_folder_repeats_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = "two_flows"
    first = tailback.run_hpcc(CASES / case / "config.txt", out=tmp_path / "two_flows")
    inputs = {"config.txt", "topology.txt", "flow.txt", "trace.txt"}
    names = {*COMMON_FILES, *inputs, "fct.txt", "pfc.txt", "qlen.txt"}
    assert {path.name for path in (tmp_path / "two_flows").iterdir()} == names
    for name in inputs:
        assert (tmp_path / "two_flows" / name).read_bytes() == (CASES / case / name).read_bytes()
    monkeypatch.chdir(tmp_path / "two_flows")
    tailback.run_hpcc("config.txt", out=tmp_path / "again")
    for name in names - {"timing.json"}:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "two_flows" / name).read_bytes(), name
    loaded = Result.load(tmp_path / "two_flows")
    assert loaded.summary == first.summary
    assert loaded.plan == first.plan
    assert loaded.setup.files == first.setup.files
    loaded.write(tmp_path / "third")
    for name in names:
        assert (tmp_path / "third" / name).read_bytes() == (tmp_path / "two_flows" / name).read_bytes(), name


def test_summary_and_findings_speak_of_the_flows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    case = CASES / "fatk4_16h_ws50_10ms"
    assert cli.main(["hpcc", str(case / "config.txt"), "--out", str(tmp_path / "x")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    summary = json.loads((tmp_path / "x" / "summary.json").read_text())
    # By hand from that simulator's own output.
    rows = [list(map(int, line.split()[4:])) for line in (case / "fct.txt").read_text().splitlines()]
    slowdown = sorted(max(1.0, fct / standalone) for _, _, fct, standalone in rows)
    assert summary["fct"]["finished"] == len(rows) == 559
    assert summary["fct"]["unfinished"] == {"running": 2}
    assert summary["fct"]["all"]["fct_s"]["mean"] == pytest.approx(sum(row[2] for row in rows) / 559 / 1e9)
    assert summary["fct"]["all"]["slowdown"]["mean"] == pytest.approx(sum(slowdown) / 559)
    assert summary["fct"]["all"]["slowdown"]["p50"] == pytest.approx(slowdown[279])
    assert summary["planned_s"] == pytest.approx(0.02, abs=1e-6)
    assert summary["not_honoured"] == {}
    assert summary["conservation"]["ok"]
    for words in (
        "2.54 is the median slowdown of 559 flows",
        "Completion 559 of 561",
        "Pauses none",
        "Drops none",
    ):
        assert words in out
    report = (tmp_path / "x" / "report.html").read_text()
    assert "Slowdown" in report
    assert "KMAX_MAP 2 100000000000 1600" in report


def test_interrupted_run_is_partial(tmp_path: Path) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    case = "fatk4_16h_ws50_10ms"
    with pytest.raises(tailback.Interrupted) as interrupted:
        tailback.run_hpcc(CASES / case / "config.txt", out=tmp_path / "x", progress=interrupt)
    result = interrupted.value.result
    assert not result.complete
    written = (tmp_path / "x" / "fct.txt").read_bytes()
    assert expected(case, "fct.txt").startswith(written)
    summary = json.loads((tmp_path / "x" / "summary.json").read_text())
    assert summary["complete"] is False
    assert summary["simulated_s"] < summary["planned_s"]


def test_ctrl_c_leaves_a_valid_partial_result(tmp_path: Path) -> None:
    """256 flows of 2 GB to one host, for 10 s: nobody waits for that."""
    shutil.copytree(CASES / "qpscale2_128", tmp_path / "in")
    with (tmp_path / "in" / "config.txt").open("a") as config:
        config.write("\nSIMULATOR_STOP_TIME 12\n")
    out = tmp_path / "x"
    with start("hpcc", tmp_path / "in" / "config.txt", "-q", "--out", out) as process:
        wait_until_it_simulates(process)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "")
    assert stdout.strip() == str(out)
    assert json.loads((out / "summary.json").read_text())["complete"] is False
    assert (out / "pfc.txt").read_bytes().startswith(expected("qpscale2_128", "pfc.txt"))


def test_bad_input_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(tmp_path / "in", flow=FLOW.replace("20000", "many"))
    assert cli.main(["hpcc", str(config), "--out", str(tmp_path / "x")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    place = f"{tmp_path}/in/flow.txt:3"
    assert err == f"{place}: token 'many': expected bytes to send, a whole number from 1 to 4294967295\n"
    assert not (tmp_path / "x").exists()


def test_warnings_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(tmp_path / "in", config=CONFIG + "PFC_ALPHA 3\n")
    assert cli.main(["hpcc", str(config), "--out", str(tmp_path / "x"), "-q"]) == 0
    assert capsys.readouterr().err == f"{config}:18: warning: unknown key 'PFC_ALPHA', skipped\n"


@pytest.mark.parametrize("stop", ["1", "2", "2.000000001", "2.0005", "36000"])
@pytest.mark.parametrize("flow", [FLOW, "0", "1 0 1 0 7 1 0"])
def test_ends_and_beginnings(stop: str, flow: str, tmp_path: Path) -> None:
    config = write(tmp_path / "in", config=CONFIG + f"SIMULATOR_STOP_TIME {stop}\n", flow=flow)
    result = tailback.run_hpcc(config, out=tmp_path / "x")
    assert result.complete
    lines = (tmp_path / "x" / "fct.txt").read_text().splitlines()
    assert len(lines) <= int(flow.split()[0])


def test_departures_change_what_they_say() -> None:
    case = CASES / "incast16_4MB_noqlen" / "config.txt"
    plain = tailback.run_hpcc(case)
    same = tailback.run_hpcc(case, departures={"exact_time": False})
    other = tailback.run_hpcc(case, departures={"exact_time": True})
    assert plain.outputs == same.outputs
    assert plain.outputs["fct.txt"] != other.outputs["fct.txt"]


@pytest.mark.parametrize("case", NAMES)
def test_native_plans_are_taken(case: str) -> None:
    inputs = load_inputs(CASES / case / "config.txt", beside=True)
    plan = native_plan(inputs)
    assert len(plan["flows"]["list"]) == len(make_plan(inputs)["flows"])
    assert plan["flows"]["list"][0][5] == 0
    begin(Packed(plan_json(plan), b"", []))


@pytest.mark.parametrize("case", MODES, ids=lambda case: case.name)
def test_every_mode_is_equal_to_the_byte(case: Path) -> None:
    compared = compare(case)
    assert compared.difference == ""
    assert compared.lines > 0


def test_the_fork_of_astra_sim_is_equal_to_the_byte(tmp_path: Path) -> None:
    case = CASES / "forks" / "astra-sim"
    for path in case.iterdir():
        data = path.read_bytes()
        packed = path.suffix == ".gz"
        (tmp_path / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(data) if packed else data)
    compared = compare(tmp_path)
    assert compared.difference == ""
    assert compared.lines == 1920 + 1282
    result = tailback.run_hpcc(tmp_path / "config.txt")
    assert result.setup.on_wire("h1", 1000, "roce") == (1000, 1036)
    assert set(result.setup.not_honoured) == {"QLEN_MON_FILE"}
    # Each figure of the fork matters: as that simulator itself, the run is another.
    with (tmp_path / "config.txt").open("a") as file:
        file.write("TAILBACK_VARIANT hpcc\n")
    assert compare(tmp_path).difference.startswith("fct.txt:1: ")


def test_headroom_factor_is_the_forks(tmp_path: Path) -> None:
    plans = {}
    for variant in ("hpcc", "astra-sim"):
        more = f"HEADROOM_FACTOR 5\nTAILBACK_VARIANT {variant}\nSIMULATOR_STOP_TIME 40000000000000.00\n"
        inputs = load_inputs(write(tmp_path / variant, config=CONFIG + more))
        plans[variant] = make_plan(inputs)
        assert ("HEADROOM_FACTOR" in inputs.config.not_honoured()) == (variant == "hpcc")
    assert [plan["headroom_factor"] for plan in plans.values()] == [3, 5]
    assert [plan["stop_ns"] for plan in plans.values()] == [36_000 * 10**9] * 2


@pytest.mark.parametrize(
    ("mode", "wire"), [(1, 1048), (3, 1090), (7, 1056), (8, 1048), (10, 1050), (2, 1048)]
)
def test_every_mode_has_its_telemetry_on_the_wire(mode: int, wire: int, tmp_path: Path) -> None:
    more = f"CC_MODE {mode}\nDCTCP_RATE_AI 615Mb/s\nMULTI_RATE 0\n"
    result = tailback.run_hpcc(write(tmp_path / "in", config=CONFIG + more), out=tmp_path / "x")
    assert Result.load(tmp_path / "x").setup.on_wire("h1", 1000, "roce") == (1000, wire)
    assert len(result.outputs["fct.txt"].splitlines()) == 2


def test_the_queue_length_file_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    # The flows start at the first sample, which is at a whole tenth of a second: every queue is empty.
    monitor = "QLEN_MON_FILE out/q.txt\nQLEN_MON_START 2000000000\nQLEN_MON_END 2000500000\n"
    asked = tailback.run_hpcc(write(tmp_path / "a", config=CONFIG + monitor))
    assert asked.outputs["qlen.txt"] == b"time: 2000000000\n2 1 1\n2 2 1\n"
    assert set(asked.setup.not_honoured) == {"TRACE_FILE", "QLEN_MON_FILE"}
    plain = tailback.run_hpcc(write(tmp_path / "b"))
    assert set(plain.outputs) == {"fct.txt", "pfc.txt"}
    assert plain.outputs["fct.txt"] == asked.outputs["fct.txt"]


def test_marks_that_are_drawn_are_not_called_unrecorded() -> None:
    result = tailback.run_hpcc(CASES / "incast16_4MB_noqlen" / "config.txt")
    assert not result.records_all
    plot = marks(result)
    assert any(trace["name"] == "CE marks" for figure in plot.figures for trace in figure.data)
    assert "not recorded" not in plot.caption


def test_a_run_under_pfc_alone_reads_well() -> None:
    result = tailback.run_hpcc(CASES / "incast16_4MB_pfconly" / "config.txt")
    assert result.setup.about.endswith(": 17 hosts, 1 switch, 17 links, 16 flows")
    words = {finding.what: finding for finding in findings(result)}["Pauses"]
    assert words.figure == "93.1 %"
    assert "paused longest. 2,970 PFC frames" in words.words
    # All rates are the line rate: the line is not to lie on the axis.
    low, high = qp_rates(result)[0].figures[0].layout["yaxis"]["range"]
    assert low <= 10 < 11 < high
    page = render(result)
    assert "Senders: when they were paused" in page
    assert "Senders: posted, not yet sent" not in page


@pytest.mark.parametrize("priority", range(8))
def test_the_queue_of_any_priority_is_recorded(priority: int, tmp_path: Path) -> None:
    """Queue 0 has no part in the buffer's accounting, and is a queue all the same."""
    topology = "5 1 4\n4\n" + "".join(f"{host} 4 100Gbps 1000ns 0\n" for host in range(4))
    flow = "3\n" + "".join(f"{host} 3 {priority} 100 1000000 2.0\n" for host in range(3))
    result = tailback.run_hpcc(write(tmp_path, topology=topology, flow=flow))
    standing = result.summary["standing_queue"]
    assert standing["queue"] == f"s4:h3/tc{priority}"
    # Three senders of 1 MB at 100 Gbit/s each: two thirds of what came in first waits.
    assert standing["max_bytes"] > 300_000
    (said,) = [one for one in findings(result) if one.what == "Standing queue"]
    assert "stayed empty" not in said.words


@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_a_network_without_switches_says_why_there_is_no_standing_queue(hosts: int, tmp_path: Path) -> None:
    links = [(host, (host + 1) % hosts) for host in range(hosts if hosts > 2 else 1)]
    topology = f"{hosts} 0 {len(links)}\n\n" + "".join(f"{a} {b} 100Gbps 1000ns 0\n" for a, b in links)
    flow = "2\n0 1 3 100 1000000 2.0\n1 0 3 100 1000000 2.0\n"
    result = tailback.run_hpcc(write(tmp_path, topology=topology, flow=flow))
    (said,) = [one for one in findings(result) if one.what == "Standing queue"]
    assert said.figure == "n/a"
    assert "There is no switch, and so no egress queue" in said.words


def test_hosts_on_one_cable_say_why_there_is_no_standing_queue() -> None:
    result = tailback.run("gpudirect-pfc", sets=["run.duration=1ms"])
    (said,) = [one for one in findings(result) if one.what == "Standing queue"]
    assert "There is no switch, and so no egress queue" in said.words


@pytest.mark.parametrize("flow", ["0\n", "1\n0 1 3 100 10000 3.0\n"])
def test_a_run_in_which_no_flow_starts_says_so_at_every_figure(flow: str, tmp_path: Path) -> None:
    said = {one.what: one for one in findings(tailback.run_hpcc(write(tmp_path, flow=flow)))}
    assert said["Standing queue"].words == "No flow started, and no queue was used."
    assert said["Throughput"].words in ("There was no flow.", "No flow started before the end of the run.")
