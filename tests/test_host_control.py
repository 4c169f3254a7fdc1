"""RHCC and hostCC in scenarios: defaults, what `auto` is, what does not go together, and a run."""

from __future__ import annotations

from typing import Any

import pytest
import tailback
from tailback.errors import InputError
from tailback.plan import hostcc_plan, make_plan, rhcc_plan
from tailback.scenario import load, show
from tailback.scenario.host_control import HostCc, Rhcc, iio_threshold
from tailback.scenario.model import Host

GBPS = 10**9


def host(**parts: Any) -> Host:
    return Host.model_validate(parts)


def test_the_plan_has_the_published_defaults() -> None:
    assert rhcc_plan(host(rhcc={"sender": True, "receiver": True}), 100 * GBPS) == {
        "sender": {
            "probe_bytes": 32_000,
            "threshold_delay": 200_000,
            "law": "pid",
            "alpha": 0.0005,
            "beta": 0.0005,
            "additive": 4 * 10**7,
            "decrease": 0.5,
            "floor": 10**8,
            "idle_probe": 10**8,
        },
        "receiver": {
            "sample_interval": 10**6,
            "iio_clock_mhz": 500,
            # 12.5 B/ns * 200 ns / 64 B.
            "iio_threshold": 39.0625,
            # 33.2, 26.5, 20, 15 and 10 GB/s.
            "levels": [265_600_000_000, 212 * GBPS, 160 * GBPS, 120 * GBPS, 80 * GBPS],
            "write_time": 20 * 10**6,
            "raise_interval": 150 * 10**6,
        },
    }
    found = hostcc_plan(host(hostcc={"enabled": True}), 100 * GBPS)
    assert found is not None
    assert found == {
        "sample_interval": 10**6,
        "iio_clock_mhz": 500,
        "iio_threshold": 70.0,
        "iio_weight": 1 / 8,
        "pcie_threshold": 84 * GBPS,
        "pcie_weight": 1 / 256,
        "levels": [265_600_000_000, 185_900_000_000, 106_200_000_000, 26_600_000_000, 10**6],
        "write_time": 20 * 10**6,
        "raise_interval": 150 * 10**6,
        "mark": True,
    }


def test_off_unless_switched_on() -> None:
    assert rhcc_plan(host(), 100 * GBPS) is None
    assert hostcc_plan(host(), 100 * GBPS) is None
    one = rhcc_plan(host(rhcc={"sender": True}), 100 * GBPS)
    assert one is not None
    assert one["receiver"] is None


def test_auto_follows_the_link() -> None:
    assert iio_threshold(Rhcc(), 400 * GBPS) == 4 * 39.0625
    assert iio_threshold(Rhcc(iio_threshold=12.5), 400 * GBPS) == 12.5
    hostcc = hostcc_plan(host(hostcc={"enabled": True}), 25 * GBPS)
    assert hostcc is not None
    assert hostcc["pcie_threshold"] == 21 * GBPS
    shown = show(load("first-flow"))
    assert "39.0625 lines" in shown
    assert "here 84Gbps" in shown


def test_aimd_in_place_of_the_equation() -> None:
    plan = rhcc_plan(host(rhcc={"sender": True, "law": "aimd", "additive": "10Mbps"}), 100 * GBPS)
    assert plan is not None
    assert (plan["sender"]["law"], plan["sender"]["additive"]) == ("aimd", 10**7)


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        (["host.rhcc={alpha: 1.5}"], "host.rhcc.alpha: found 1.5"),
        (["host.rhcc={floor: 0}"], "host.rhcc.floor: found 0"),
        (
            ["host.rhcc={levels: [10Gbps, 20Gbps]}"],
            'host.rhcc.levels: found "[10Gbps, 20Gbps]", expected 1 to 16',
        ),
        (["host.rhcc={levels: []}"], 'host.rhcc.levels: found "[]", expected 1 to 16 rates'),
        (["host.rhcc={iio_threshold: -1}"], "host.rhcc.iio_threshold"),
        (["host.hostcc={iio_weight: 0}"], "host.hostcc.iio_weight: found 0"),
        (["host.hostcc={sample_interval: 1ns}"], 'host.hostcc.sample_interval: found "1ns"'),
        (
            ["host.rhcc={sender: true}", "topology.link.rate=50Mbps"],
            "host.rhcc.floor: found 100Mbps, expected at most the link's rate, 50Mbps",
        ),
        (["host.rhcc={receiver: true}"], "host.rhcc.receiver: found true, expected false without host.path"),
        (
            ["host.hostcc={enabled: true}"],
            "host.hostcc.enabled: found true, expected false without host.path",
        ),
    ],
)
def test_what_is_refused(sets: list[str], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load("first-flow", sets=sets)
    assert problem in str(caught.value)


def test_one_agent_a_host() -> None:
    with pytest.raises(InputError) as caught:
        load("first-flow", sets=["host.rhcc={receiver: true}", "host.hostcc={enabled: true}"])
    assert "both set the CPUs' memory bandwidth" in str(caught.value)


def test_shown_settings_load_again() -> None:
    scenario = load("first-flow", sets=["host.rhcc={sender: true, law: aimd, idle_probe: null}"])
    assert make_plan(tailback.scenario.loads(show(scenario))) == make_plan(scenario)
    assert HostCc().levels[-1] == 10**6


def test_an_ideal_receiver_slows_nobody_down() -> None:
    plain, probing = (
        tailback.run("first-flow", sets=["run.duration=2ms", *sets])
        for sets in ([], ["host.rhcc={sender: true}"])
    )
    goodput = [result.flows["goodput_bps"].to_pylist()[0] for result in (plain, probing)]
    # A probe of 98 B on the wire for each 32,000 B.
    assert 1 - 98 / 32_000 - 0.001 < goodput[1] / goodput[0] <= 1
    assert "probe" not in plain.meta["packets"]
    assert probing.meta["packets"]["probe"] > 0
