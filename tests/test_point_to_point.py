"""Two hosts on one cable: how they are drawn and planned, what is refused, the thresholds of the NICs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback import cli, drawing
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.results import Result
from tailback.scenario import Scenario, load, loads, show
from tailback.scenario.headroom import headrooms
from tailback.scenario.receive_buffer import every_threshold
from tailback.scenario.round_trip import ROUND_PS, longest_round_trip

LAB = {"lossless": [0], "lossless_size": "114944B", "cable_len": 1, "interface_mtu": "4200B"}


def pair(path: dict[str, Any] | None = None, rate: str = "25Gbps", **more: Any) -> Scenario:
    """h0 writes to h1 over a cable of 1 m."""
    return load(
        {
            "name": "pair",
            "run": {"duration": "1ms"},
            "topology": {"kind": "point-to-point", "link": {"rate": rate, "delay": "5ns"}},
            "host": {"mtu": "4096B", "path": path},
            "traffic": [{"kind": "write", "from": "h0", "to": "h1", "priority": 0}],
            **more,
        }
    )


def buffer(**settings: Any) -> dict[str, Any]:
    return {"preset": "pcie3-x8", "receive_buffer": settings}


def test_it_is_drawn_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "cable.svg"
    assert cli.main(["show", "gpudirect-pfc", "--svg", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:2] == [
        "# gpudirect-pfc: point-to-point, 2 hosts, 0 switches, 1 link",
        "#   h0 ---- h1   1 link, 25 Gbit/s, 5 ns",
    ]
    assert "\nswitch:" not in out
    assert make_plan(loads(out)) == make_plan(load("gpudirect-pfc"))
    drawn = picture.read_text()
    assert drawn.count("<circle") == 2
    assert "2 hosts" in drawn
    line = re.search(r'd="M\S+ (\S+) Q\S+ (\S+) \S+ (\S+)"', drawn)
    assert line is not None
    assert len(set(line.groups())) == 1, "a straight line"
    assert drawing.as_text(pair().network, "x") == "x\n  h0 ---- h1   1 link, 25 Gbit/s, 5 ns\n"


def test_no_port_of_it_has_headroom() -> None:
    assert headrooms(pair()) == [0]


def test_the_driver_sets_what_the_lab_saw() -> None:
    """A ConnectX-4 Lx at 25 Gbit/s, MTU 4200, --cable_len 1: size 114944, xoff 91392, xon 81408."""
    assert every_threshold(pair(buffer(**LAB))) == [(91_392, 81_408)]


@pytest.mark.parametrize(
    ("changes", "rate", "expected"),
    [
        # 131072 - ((301 + 15) * 40 + 272 * 4200 / 100) = 107,008, 836 cells; less 9978: 97,030.
        ({"cable_len": 7, "lossless_size": "131072B"}, "25Gbps", (107_008, 97_024)),
        # Above 40 Gbit/s the rate counts: 131072 - (303 * 100 + 11424) = 89,348 and 79,370.
        ({"lossless_size": "131072B"}, "100Gbps", (89_344, 79_360)),
        # 4096 B and their headers take an interface of 4156 B: 114944 - (12120 + 11304) = 91,520, 81,542.
        ({"interface_mtu": None}, "25Gbps", (91_520, 81_536)),
        ({"xoff": "50000B"}, "25Gbps", (50_000, 39_936)),
        ({"xon": "10000B"}, "25Gbps", (91_392, 10_000)),
    ],
)
def test_thresholds_from_the_length_of_the_cable(
    changes: dict[str, Any], rate: str, expected: tuple[int, int]
) -> None:
    assert every_threshold(pair(buffer(**{**LAB, **changes}), rate)) == [expected]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"switch": {"ecn": None}}, "switch: found settings, expected none: point-to-point has no switch"),
        (
            {"qos": "lossless-with-qos"},
            'qos: found "lossless-with-qos", expected none: point-to-point has no switch to set up',
        ),
        (
            {"host": {"congestion": "hpcc"}},
            'host.congestion: found "hpcc", expected another: point-to-point has no switch, whose load it '
            "reads",
        ),
        (
            {"topology": {"kind": "point-to-point", "hosts": 3}},
            "topology.hosts: found an unknown field, expected one of kind, link",
        ),
        (
            {"traffic": [{"kind": "write", "from": "h0", "to": "h2"}]},
            'traffic.0.to: found "h2", expected hosts of h0..h1',
        ),
        (
            {"failures": [{"link": "h0-sw0", "at": "1us"}]},
            'failures.0.link: found "h0-sw0", expected a link of the network, such as h0-h1',
        ),
        (
            {"host": {"path": buffer(cable_len=1, lossless_size="20000B")}},
            "host.path.receive_buffer.lossless_size: found 20KB, expected at least 25.174KB, which the mlx5 "
            "driver asks for at h0",
        ),
        (
            {"host": {"path": buffer(cable_len=-1)}},
            "host.path.receive_buffer.cable_len: found -1, expected at least 0",
        ),
        (
            {"topology": {"kind": "graph", "switches": ["s"], "links": ["h0 h1", "h2 s"]}},
            "topology.links.0: found a link between the hosts h0 and h1, expected a switch at one end; two "
            "hosts on one cable are kind: point-to-point",
        ),
    ],
)
def test_what_cannot_be_is_one_line(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        pair(**changes)
    assert str(error.value) == text


@pytest.mark.parametrize("rate", ["1Gbps", "100Gbps"])
def test_the_round_trip_is_that_of_one_link(rate: str) -> None:
    both = pair(rate=rate, host={"congestion": "dctcp"}, traffic=[{"kind": "all-to-all", "message": "1024B"}])
    times = tailback.run(both).flows.column("ideal_fct_ps").to_pylist()
    found = longest_round_trip(both)
    assert (found.src, found.dst, found.links) == ("h0", "h1", 1)
    assert found.time - ROUND_PS < max(times) <= found.time
    assert "h0 to h1, 1 link, with" in show(both)


def test_a_result_repeats_its_run(tmp_path: Path) -> None:
    given = pair(buffer(**LAB))
    plan = make_plan(given)
    assert plan["switches"] == plan["switch_models"] == []
    result = tailback.run(given, out=tmp_path / "run")
    again = Result.load(tmp_path / "run")
    assert make_plan(loads((tmp_path / "run" / "scenario.yaml").read_text())) == plan
    assert again.summary == result.summary
    assert result.summary["pauses"]["lossless_priorities"] == [0]
    # 25 Gbit/s * 65536 B in 16 packets: 82 B of headers each, and a RETH.
    flow = result.flows.to_pylist()[0]
    assert flow["goodput_bps"] == pytest.approx(25e9 * 65536 / (65536 + 16 * 82 + 16), rel=0.01)


def test_a_cable_that_fails_is_repaired() -> None:
    broken = pair(failures=[{"link": "h1-h0", "at": "100us", "repair": "200us"}], run={"duration": "10ms"})
    result = tailback.run(broken)
    assert result.faults == []
    assert result.summary["link_events"] == 2
    assert result.flows.column("packets_retransmitted").to_pylist()[0] > 0
