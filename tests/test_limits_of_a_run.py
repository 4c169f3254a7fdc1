"""What a user may bound, and is told: time, captures, flows cut off, a kernel by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback import cli
from tailback.capture_option import Capture
from tailback.scenario import load, loads

CUT: dict[str, Any] = {
    "name": "cut",
    "run": {"duration": "1ms"},
    "topology": {"kind": "star", "hosts": 4},
    "traffic": [
        {"kind": "incast", "from": "h0..h2", "to": "h3", "fan_in": 3, "message": "1MiB", "load": 0.5}
    ],
}


def test_a_time_limit_keeps_what_was_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "first-flow", "--set", "run.duration=100s", "--out", str(tmp_path / "a"), "--no-report"]
    assert cli.main([*command, "--time-limit", "10ms"]) == 124
    assert "stopped by --time-limit 10ms" in capsys.readouterr().err
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert not summary["complete"]
    assert 0 < summary["simulated_s"] < 100


@pytest.mark.parametrize("options", [["--time-limit", "x"], ["--time-limit", "1s", "--seeds", "1..2"]])
def test_a_time_limit_that_cannot_be_is_refused(options: list[str]) -> None:
    assert cli.main(["run", "first-flow", *options]) == 2


def test_the_size_of_a_capture_has_a_bound() -> None:
    scenario = load("first-flow", sets=["run.duration=1ms"])
    whole = Capture(("h0:sw0",)).max_bytes(scenario)
    assert whole == 2 * 100e9 / 8 * 1e-3
    assert Capture(("all",)).max_bytes(scenario) == 2 * whole
    assert Capture(("h0",), stop_ps=500_000_000).max_bytes(scenario) == whole / 2
    assert Capture(("h0",), snap_bytes=128).max_bytes(scenario) < whole / 5


def test_a_sweep_says_that_flows_were_cut_off() -> None:
    done = tailback.sweep(
        scenario=CUT, vary={"host.mtu": ["1024B", "4096B"]}, seeds="1..2", metrics=["fct.all.slowdown.p99"]
    )
    assert any(line.startswith("The end of the run cut off flows at 2 of 2 points") for line in done.lines())
    assert "Flows cut off" in [one.label for one in done.design.shown()]


@pytest.mark.parametrize("kernel", ["6.1", "6.18"])
def test_a_kernel_that_is_named_has_its_own_codel(kernel: str) -> None:
    """Both are older than the commit that cleared a flow's state when its queue ran empty."""
    named = f"kernel: '{kernel}', "
    text = (
        "name: v\nrun: {duration: 1ms}\ntopology: {kind: veth}\n"
        f"veth: {{{named}qdisc: {{kind: fq_codel}}}}\ntraffic: [{{kind: udp-flood}}]\n"
    )
    assert loads(text).veth.qdisc.stale
    assert not loads(text.replace("fq_codel", "fq_codel, stale: false")).veth.qdisc.stale
    assert not loads(text.replace(named, "")).veth.qdisc.stale
