"""Hosts and switches with real packets: beside the simulation of the same scenario, through a congestion
point that loses chosen packets, and what is refused.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tailback
import yaml
from commands import COMMAND
from live_lab import LOSSY, SHARED
from tailback import cli
from tailback.results import Result
from tailback.scenario import load
from test_point import needs_namespaces

LAB = Path(__file__).parent / "live_lab.py"
LOOP = ["h0 a", "h1 a", "h2 a", "h3 a", "h4 b", "a b", "b c", "a c"]
STAR = {
    "name": "star",
    "run": {"duration": "10ms"},
    "topology": {"kind": "star", "hosts": 5},
    "switch": {"shared": "4MiB"},
    "traffic": [{"kind": "write", "from": "h0..h3", "to": "h4"}],
}


def live(folder: Path, scenario: dict[str, Any], *more: str) -> Result:
    """Runs a scenario with real packets in namespaces of its own."""
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(scenario))
    command = [
        "unshare",
        "-rn",
        *COMMAND,
        "live",
        str(file),
        "--out",
        str(folder / "out"),
        "--no-report",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return Result.load(folder / "out")


def lab(case: str) -> dict[str, Any]:
    command = ["unshare", "-rn", sys.executable, str(LAB), case]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def queue(result: Result, since_s: float = 0.0) -> float:
    """Mean of the queue before the receiver, bytes."""
    return result.bins.mean(result.bins.values("sw0:h4/tc3", "queue_mean_bytes"), since_s)


def within_a_tenth(seen: float, models: list[float]) -> bool:
    """Whether it is at most 10 % from what the model gives with some seed."""
    return 0.9 * min(models) <= seen <= 1.1 * max(models)


@needs_namespaces
def test_an_incast_is_as_the_simulation_of_it(tmp_path: Path) -> None:
    seen, models = live(tmp_path, STAR), [tailback.run(STAR, seed=seed) for seed in range(1, 5)]
    assert seen.meta["live"]["wrong_messages"] == 0
    assert seen.meta["live"]["checked_messages"] > 1000
    assert set(seen.meta["live"]["refused"].values()) == {0}
    assert seen.summary["losses"]["dropped_packets"] == 0
    figures: list[Callable[[Result], float]] = [
        lambda run: run.summary["goodput"]["whole_run_bps"],
        lambda run: run.summary["fairness"]["jain"],
        lambda run: sum(run.flows.column("np_cnp_sent").to_pylist()),
        lambda run: sum(run.flows.column("np_ecn_marked_roce_packets").to_pylist()),
        queue,
    ]
    for figure in figures:
        assert within_a_tenth(figure(seen), [figure(run) for run in models])
    assert seen.explain().headline == models[0].explain(tries=False).headline


@needs_namespaces
def test_without_marks_pauses_keep_everything(tmp_path: Path) -> None:
    scenario = {**STAR, "switch": {"shared": "1MiB", "ecn": None}, "run": {"duration": "3ms"}}
    seen, model = live(tmp_path, scenario), tailback.run(scenario)
    assert seen.meta["drops"] == []
    assert sum(seen.flows.column("packets_retransmitted").to_pylist()) == 0
    assert seen.meta["live"]["wrong_messages"] == 0
    paused = [max(pause["paused_ps"] for pause in run.meta["pauses"]) for run in (seen, model)]
    assert paused[0] == pytest.approx(paused[1], rel=0.1)
    assert queue(seen) == pytest.approx(queue(model), rel=0.1)


@needs_namespaces
def test_with_random_losses_goodput_is_the_models(tmp_path: Path) -> None:
    scenario = {
        "name": "lossy",
        "run": {"duration": "5ms"},
        "topology": {"kind": "star", "hosts": 2, "link": {"loss": 0.001}},
        # Two timeouts of the default would be half of so short a run.
        "host": {"transport": {"adaptive_timeout": "50us", "slow_restart": "never"}},
        "traffic": [{"kind": "write", "from": "h0", "to": "h1"}],
    }
    seen, model = live(tmp_path, scenario), tailback.run(scenario)
    assert sum(seen.flows.column("packets_retransmitted").to_pylist()) > 0
    assert seen.meta["live"]["wrong_messages"] == 0
    assert seen.summary["goodput"]["whole_run_bps"] == pytest.approx(
        model.summary["goodput"]["whole_run_bps"], rel=0.1
    )


@needs_namespaces
def test_each_packet_that_is_dropped_in_turn_is_sent_again() -> None:
    result = lab("drops")
    assert (result["events"], result["wrong"]) == (20, 0)
    for nth, row in enumerate(result["rows"], 1):
        assert row["messages_completed"] == 2, nth
        assert row["packets_retransmitted"] >= 1
        # Behind the last of all there is no packet that shows the gap.
        told = (row["packet_seq_err"], row["local_ack_timeout_err"])
        assert told == ((0, 1) if nth == 20 else (1, 0)), nth
    assert result["broken"] == [0]
    assert sorted(trigger for trigger, _, _ in result["recoveries"]) == [*["nak"] * 19, "timeout"]
    assert {manner for _, manner, _ in result["recoveries"]} == {"go_back_n"}
    silent = [silent_ps for trigger, _, silent_ps in result["recoveries"] if trigger == "timeout"]
    assert silent == [pytest.approx(20e9, rel=0.05)]
    mirrored = result["mirrored"]
    assert mirrored["numbers"]
    assert mirrored["dropped"] == 20
    assert mirrored["frames"] > 400


@needs_namespaces
def test_a_congestion_point_that_pauses_hosts_loses_nothing() -> None:
    result = lab("paused")
    assert (result["dropped"], result["wrong"]) == (0, 0)
    assert result["frames"] > 10
    assert len(result["paused_ps"]) == 3
    # How long depends on how far hosts that share cores come by themselves.
    assert min(result["paused_ps"]) > 0
    assert result["jain"] > 0.95


@needs_namespaces
def test_processes_on_one_clock_measure_what_the_simulation_does() -> None:
    """However many share the cores: an incast through a congestion point, in three processes."""
    seen, scenario = lab("shared"), yaml.safe_load(SHARED)
    models = [tailback.run(scenario, seed=seed) for seed in range(1, 5)]
    assert (seen["dropped"], seen["wrong"], seen["left"]) == (0, 0, False)
    figures: dict[str, Callable[[Result], float]] = {
        "goodput_bps": lambda run: run.summary["goodput"]["whole_run_bps"],
        "jain": lambda run: run.summary["fairness"]["jain"],
        "cnps": lambda run: sum(run.flows.column("np_cnp_sent").to_pylist()),
        "marked": lambda run: sum(run.flows.column("np_ecn_marked_roce_packets").to_pylist()),
        "queue_bytes": queue,
    }
    for name, figure in figures.items():
        assert within_a_tenth(seen[name], [figure(run) for run in models]), name


@needs_namespaces
def test_losses_of_a_point_cost_processes_on_one_clock_what_they_cost_the_model() -> None:
    seen, scenario = lab("lossy"), yaml.safe_load(LOSSY)
    models = [tailback.run(scenario, seed=seed) for seed in range(1, 5)]
    assert min(seen["lost"], seen["retransmitted"]) > 20
    assert seen["wrong"] == 0
    goodputs = [run.summary["goodput"]["whole_run_bps"] for run in models]
    assert within_a_tenth(seen["goodput_bps"], goodputs)


@needs_namespaces
def test_who_leads_a_clock_and_is_killed_ends_who_follows_with_one_line() -> None:
    result = lab("led_away")
    assert result["status"] == 1
    said = (
        "tailback: the clock: the congestion point that led it has ended; the part measured until then is in "
    )
    assert result["err"].startswith(said), result["err"]
    assert len(result["err"].splitlines()) == 1
    assert (result["left"], result["again"], result["left_again"]) == (True, 0, False)


@needs_namespaces
def test_a_controller_in_python_controls_real_packets() -> None:
    result = lab("controlled")
    assert result["cuts"] == result["cnps"] > 10
    assert 1e6 <= result["rate_bps"] < 100e6
    assert result["wrong"] == 0
    said, status = result["raised"]
    assert status == 2
    assert "halve.py:14: controller Halve" in said, said
    assert "on_cnp raised ZeroDivisionError: division by zero" in said
    assert len(said.splitlines()) == 1


@needs_namespaces
def test_hosts_in_two_processes_find_each_other() -> None:
    result = lab("apart")
    assert result["sender"]["completed"] == 40
    assert result["receiver"]["delivered"] == 40 * 65536
    assert result["receiver"]["wrong"] == 0


@needs_namespaces
def test_hosts_find_each_other_by_the_exchange_of_perftest() -> None:
    """All that is written arrives, and the receiver ends when the sender says so, long before its minute."""
    result = lab("exchange")
    assert result["sender"]["completed"] == 40
    assert result["receiver"]["delivered"] == 40 * 65536


@needs_namespaces
def test_a_message_leaves_as_soon_as_the_one_before_is_answered() -> None:
    result = lab("one_by_one")
    # 64 packets of 1,106 B at 200 Mbit/s and the way there and back, some 40 us: 40 times 2.87 ms.
    assert result["end_ps"] == pytest.approx(40 * 2.87e9, rel=0.05)
    assert result["late_ns"][1] < 100_000


@needs_namespaces
def test_sends_and_reads_arrive_as_writes_do() -> None:
    result = lab("verbs")
    for verb in ("send", "read"):
        here, apart = result[verb], result[f"{verb} apart"]
        assert (here["completed"], here["delivered"], here["wrong"]) == (40, 40 * 65536, 0), verb
        assert here["retransmitted"] > 0, verb
        assert (apart["completed"], apart["got"]) == (40, 40 * 65536), verb
    assert result["send"]["checked"] == result["read"]["checked"] == 40


@needs_namespaces
def test_foreign_frames_only_count() -> None:
    result = lab("hostile")
    assert result["status"] == 0
    assert result["wrong"] == 0
    assert result["completed"] > 0
    refused = result["refused"]
    assert refused["rx_others"] >= 5
    assert refused["rx_foreign"] >= 5
    assert refused["rx_icrc_errors"] >= 5
    assert refused["rx_unknown_qp"] >= 5
    assert refused["rx_malformed"] >= 5


@needs_namespaces
def test_an_interface_that_vanishes_ends_it_with_one_line() -> None:
    result = lab("vanish")
    assert result["status"] == 1
    assert re.match(r"tailback: (a0|pa): network is down; the part measured until then is in ", result["err"])
    assert len(result["err"].splitlines()) == 1
    assert "summary.json" in result["files"]


@needs_namespaces
def test_nothing_is_left_after_a_kill(tmp_path: Path) -> None:
    links = Path("/proc/net/dev").read_text().splitlines()
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({**STAR, "run": {"duration": "1s"}}))
    command = ["unshare", "-rn", *COMMAND, "live", str(file), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    time.sleep(2.0)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    names = [line.split(":")[0] for line in Path("/proc/net/dev").read_text().splitlines()]
    assert names == [line.split(":")[0] for line in links]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"traffic": [{"kind": "tcp", "from": "h0", "to": "h4"}]},
            "traffic: found TCP connections, expected",
        ),
        (
            {"topology": {"kind": "graph", "switches": ["a", "b", "c"], "links": LOOP}},
            "topology: found a network of several routes",
        ),
        (
            {"host": {"congestion": "swift"}},
            "host.congestion: found swift, expected a controller that does without the number of hops",
        ),
        (
            {"traffic": [{"kind": "write", "from": "h0", "to": "h1", "message": "32MiB"}]},
            "traffic: found a message of 33554432 B, expected at most 16777216 B",
        ),
    ],
)
def test_what_is_simulated_only_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], said: str
) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({**STAR, **change}))
    load(file)
    assert cli.main(["live", str(file), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(said), err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["h0"], "endpoint: found 'h0', expected HOST=IFACE"),
        (["h9=eth0"], "endpoint: found h9, expected a host of h0 to h4, each once"),
        (["h0=nobody0"], "nobody0: found no such device, expected an interface that may be used"),
        (["h0=nowhere/eth0"], "nowhere/eth0: found no such file or directory, expected an interface"),
    ],
)
def test_a_host_that_cannot_be_placed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(STAR))
    assert cli.main(["endpoint", str(file), *given, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(said), err
    assert len(err.splitlines()) == 1
