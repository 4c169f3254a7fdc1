"""The kernel's own veth pair, flooded and pinged, beside the model; and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commands import COMMAND
from tailback import cli, load, run
from tailback.live.veth.cases import FittedCosts
from tailback.results import Result
from test_point import needs_namespaces

SHORT = ["--set", "run.duration=300ms", "--set", "traffic.1.start=20ms", "--set", "veth.qdisc={kind: pfifo}"]


@needs_namespaces
def test_the_kernels_ring_is_as_deep_as_the_models(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["unshare", "-rn", *COMMAND, "live", "veth-dark-buffer", *SHORT, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result = Result.load(out)
    told = result.meta["kernel_veth"]
    assert [(case["qdisc"], case["xdp"]) for case in told["cases"]] == [
        ("pfifo", False),
        ("noqueue", False),
        ("pfifo", True),
        ("noqueue", True),
    ]
    for case in told["cases"]:
        if case["refused"]:  # whoever is root here only may not load XDP
            assert case["xdp"]
            continue
        assert case["kernel"]["delivered_per_s"] > 0
    own = told["cases"][0]
    # A poll of 64 is counted at its end.
    assert 200 <= own["kernel"]["ring_packets"] <= 300, own
    veth = result.summary["veth"]
    assert veth["ring"] == 256
    assert veth["qdisc_packets"] > 100
    # Other programs have these cores, too: a ping waits for what is before it, at the rate that it is.
    before_it = veth["ring_packets"] + veth["qdisc_packets"]
    assert veth["ping"]["p50_s"] * veth["delivered_per_s"] == pytest.approx(before_it, rel=0.5)
    assert veth["ping"]["mean_s"] > 20 * own["idle_ping_s"]
    assert "Model, noqueue" in (out / "report.html").read_text()
    again = run(out / "scenario.yaml")  # the model, with what was fitted
    assert again.summary["veth"]["ping"]["p50_s"] == pytest.approx(own["model"]["ping_median_s"])
    assert cli.main(["compare", str(out), str(out)]) == 0


@needs_namespaces
def test_nothing_runs_on_after_a_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["unshare", "-rn", *COMMAND, "live", "veth-dark-buffer", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while len(there := _namespaces_of(process.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    assert len(there) == 2
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 10
    while any(Path(f"/proc/{one}/exe").exists() for one in there) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{one}/exe").exists() for one in there)
    assert cli.main(["live", "--clean"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to remove")


def _namespaces_of(parent: int) -> list[int]:
    """The processes that hold the namespaces of a run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                command = (folder / "cmdline").read_bytes()
                found += [int(folder.name)] if b"tailback.live.veth.agent" in command else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("veth.bql=packets", "veth.bql: found packets, expected none"),
        ("veth.ring=30", "veth.ring: found 30 entries, expected 256"),
        (
            "veth.qdisc={kind: tbf, rate: 1Gbps, burst: 10KB, limit: 1MB}",
            "veth.qdisc: found tbf, expected one of",
        ),
        ("veth.consumer.rules=200000", "veth.consumer.rules: found 200000, expected at most 100000"),
        ("traffic.0.interval=1us", "traffic: found a flood with interval"),
        ("traffic.1.from=consumer traffic.1.to=producer", "traffic: found udp-flood, ping, expected"),
    ],
)
def test_what_no_kernel_has_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, said: str
) -> None:
    sets = [given] if "{" in given else given.split()
    options = [word for one in sets for word in ("--set", one)]
    assert cli.main(["live", "veth-dark-buffer", *options, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(said), err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_fit_sets_what_a_packet_costs_in_all(tmp_path: Path) -> None:
    fitted = FittedCosts(packet_ns=40_000.0, send_ns=2_500.0, ping_ns=300_000.0)
    for rules in (13_000, 0):
        scenario = load("veth-dark-buffer", sets=[f"veth.consumer.rules={rules}"])
        veth = load(scenario, sets=fitted.sets(scenario)).veth
        assert veth is not None
        consumer = veth.consumer
        cost = consumer.take + consumer.stack + consumer.rules * consumer.rule
        assert cost == pytest.approx(40_000_000, rel=0.001)
