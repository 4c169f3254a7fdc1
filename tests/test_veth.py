"""Two namespaces joined by a veth pair: scenarios, errors, results, report, the published experiment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tailback import InputError, load, run
from tailback.explain import page_of
from tailback.metrics import METRICS, findings
from tailback.metrics.veth import samples
from tailback.plan import make_plan
from tailback.results import Result
from tailback.scenario.show import resolved_yaml
from tailback.study.claims import reproduce
from tailback.study.published import load_published

SHORT = ["run.duration=400ms"]


def base(**veth: Any) -> dict[str, Any]:
    return {
        "name": "v",
        "run": {"duration": "200ms"},
        "topology": {"kind": "veth"},
        "veth": veth,
        "traffic": [{"kind": "udp-flood"}, {"kind": "ping", "interval": "10ms"}],
    }


def problems(data: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as error:
        load(data)
    return [str(problem) for problem in error.value.problems]


@pytest.fixture(scope="module")
def dark() -> Result:
    return run("veth-dark-buffer", sets=SHORT)


@pytest.fixture(scope="module")
def short_ring() -> Result:
    return run("veth-bql", sets=SHORT)


def measured(result: Result, what: str, **params: Any) -> float:
    return METRICS[what](result, **params)


def test_the_dark_buffer_is_seen_and_byte_queue_limits_empty_it(dark: Result, short_ring: Result) -> None:
    assert 180 < measured(dark, "ring_packets") < 256
    assert measured(short_ring, "ring_packets") < 20
    assert measured(dark, "ping_rtt") > 8 * measured(short_ring, "ping_rtt")
    throughput = [measured(result, "delivered_per_second") for result in (dark, short_ring)]
    assert throughput[1] == pytest.approx(throughput[0], rel=0.03)
    # Three polls and a half of 64 packets, less what the ring had not filled yet at the start.
    assert measured(dark, "rtt_in_rings") == pytest.approx(3.5 * 64 / 256, rel=0.1)


def test_the_books_add_up_and_nothing_is_left_stopped(dark: Result, short_ring: Result) -> None:
    for result in (dark, short_ring):
        assert result.meta["conservation"]["ok"]
        assert result.meta["conservation"]["checked_queues"] == 2
        assert measured(result, "teardown", name="freed_packets") > 0
        assert measured(result, "teardown", name="inflight_after") == 0
        assert measured(result, "teardown", name="stopped_after") == 0


def test_a_run_is_saved_and_read_again(short_ring: Result, tmp_path: Path) -> None:
    short_ring.write(tmp_path / "r")
    again = Result.load(tmp_path / "r")
    assert again.summary == short_ring.summary
    assert [len(part) for part in samples(again)] == [len(part) for part in samples(short_ring)]
    html = (tmp_path / "r" / "report.html").read_text()
    for words in ("The dark buffer", "What a ping sees of it", "Byte queue limits", "producer-consumer/ring"):
        assert words in html
    assert "Throughput over time" not in html


def test_findings_are_about_the_ping_and_the_ring(dark: Result) -> None:
    found = {finding.what: finding for finding in findings(dark)}
    assert list(found) == ["Ping", "Ping loss", "Packets", "Dark buffer", "Drops"]
    assert found["Dark buffer"].tone == "warning"
    assert "fq_codel" in found["Dark buffer"].words


def test_the_consumer_is_what_holds_traffic(dark: Result) -> None:
    page = page_of(dark)
    assert page.headline == "The bottleneck is the softirq core of the consumer."
    assert "byte queue limits" in page.second
    idle = run("veth-dark-buffer", sets=[*SHORT, "traffic.0.interval=1ms"])
    assert page_of(idle).headline.startswith("Nothing is the bottleneck")
    bursts = run("veth-xdp", sets=["run.duration=20ms"])
    assert page_of(bursts).headline == "The bottleneck is the ring between the namespaces."


def test_the_same_seed_gives_the_same_samples() -> None:
    one, two = (run("veth-dark-buffer", sets=SHORT) for _ in range(2))
    assert one.meta["veth"] == two.meta["veth"]
    assert one.series == two.series
    other = run("veth-dark-buffer", sets=SHORT, seed=2)
    assert other.meta["veth"]["pings"] != one.meta["veth"]["pings"]


def test_settings_become_a_plan() -> None:
    scenario = load(
        base(
            kernel="6.1",
            ring=30,
            bql="packets",
            tx_usecs="250us",
            qdisc={"kind": "sfq"},
            consumer={
                "rules": 100,
                "rule": "10ns",
                "stack": "1us",
                "echo": 2.0,
                "jitter": 0.1,
                "napi": "softirq",
            },
        )
    )
    plan = make_plan(scenario)
    assert plan["hosts"] == plan["links"] == plan["switches"] == []
    (pair,) = plan["veth"]["veths"]
    assert (pair["veth"]["ring"], pair["veth"]["kernel"], pair["veth"]["bql"]) == (30, "6.1", "packets")
    assert pair["veth"]["tx_usecs"] == 250_000_000
    assert (pair["qdisc"]["sfq"]["limit"], pair["qdisc"]["sfq"]["quantum"]) == (127, 1514)
    producer, consumer = (one["costs"] for one in plan["veth"]["namespaces"])
    assert (producer["rules"], consumer["rules"]) == (0, 100)
    assert (consumer["stack"], consumer["rule"], consumer["echo"]) == (1_000_000, 10_000, 2.0)
    assert (consumer["jitter"], consumer["napi"]) == (0.1, "softirq")
    assert plan["veth"]["datagrams"][0]["frame_bytes"] == 1400 + 28 + 14


def test_a_shown_scenario_has_nothing_of_hosts_and_loads_again() -> None:
    scenario = load("veth-bql")
    text = resolved_yaml(scenario)
    assert "\nhost:" not in text
    assert "\nswitch:" not in text
    assert "\nbridge:" not in text
    from tailback.scenario import loads

    assert make_plan(loads(text)) == make_plan(scenario)


def test_what_is_left_out_of_the_pair_is_shown_and_assumed() -> None:
    data = {key: value for key, value in base().items() if key != "veth"}
    scenario = load(data)
    assert "\nveth:\n  kernel: 6.18" in resolved_yaml(scenario).replace('"', "")
    assert load(data | {"veth": None}) == load(base()) == scenario
    assumed = {one["setting"] for one in run(data, sets=["run.duration=10ms"]).assumptions}
    assert "veth.output" in assumed
    assert not {"bridge", "veth"} & assumed


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            base(tx_usecs="8000001us"),
            "veth.tx_usecs: found 8.000001s, expected at most 8s, half of the watchdog",
        ),
        (base(ring=0), "veth.ring: found 0, expected at least 1"),
        (base(bql="on"), 'veth.bql: found "on", expected'),
        (base(qdisc={"kind": "fq_codell"}), 'veth.qdisc.kind: found "fq_codell", expected fq_codel'),
        (
            base() | {"failures": [{"link": "a-b", "at": "1ms"}]},
            "failures: found something, expected none",
        ),
        (base() | {"host": {"congestion": "hpcc"}}, "host: found settings, expected none: a topology of"),
        (base() | {"switch": {"buffer": "10KB"}}, "switch: found settings, expected none: a topology of"),
        (base() | {"qos": "lossy-default"}, 'qos: found "lossy-default", expected none: a topology of kind'),
        (base() | {"bridge": {"rx_ring": 512}}, "bridge: found a bridge, expected none"),
        (
            base() | {"topology": {"kind": "star", "hosts": 2}},
            "veth: found settings, expected none: the topology is not of kind veth",
        ),
        (
            base() | {"traffic": [{"kind": "write", "from": "h0", "to": "h1"}]},
            'traffic.0.kind: found "write", expected udp-flood, ping or xdp-frames',
        ),
        (
            base() | {"traffic": [{"kind": "ping", "from": "consumer", "to": "consumer"}]},
            'traffic.0.to: found "consumer", expected the other namespace',
        ),
        (
            base() | {"traffic": [{"kind": "ping", "interval": "1ms", "spread": "1ms"}]},
            "traffic.0.spread: found 1ms, expected less than interval, 1ms",
        ),
        (
            base() | {"traffic": [{"kind": "ping", "start": "1s"}]},
            "traffic.0.start: found 1s, expected less than run.duration, 200ms",
        ),
    ],
)
def test_what_cannot_be_is_one_line(data: dict[str, Any], expected: str) -> None:
    found = problems(data)
    assert any(expected in line for line in found), found
    assert all("\n" not in line for line in found)


@pytest.mark.parametrize(
    "setting",
    [
        "host.congestion=hpcc",
        "host.congestion=dctcp",
        "host.path_by_host=[{hosts: h9, preset: pcie3-x8}]",
        "host.path.preset=pcie3-x8",
        "host.rhcc.receiver=true",
        "switch.buffer=10KB",
        "qos=lossy-default",
        "bridge.rx_ring=512",
    ],
)
def test_settings_of_what_is_not_there_are_refused_and_nothing_else_is_said(setting: str) -> None:
    with pytest.raises(InputError) as error:
        load("veth-bql", sets=[setting])
    (problem,) = error.value.problems
    assert problem.path[0] == re.split("[.=]", setting)[0]
    assert "expected none" in problem.text


def test_eight_seconds_of_tx_usecs_are_taken() -> None:
    assert load(base(tx_usecs="8s")).veth is not None


def test_in_softirqs_the_sender_is_held_back_by_its_own_receiver() -> None:
    threaded, softirq = (
        run("veth-dark-buffer", sets=[*SHORT, f"veth.consumer.napi={napi}"])
        for napi in ("threaded", "softirq")
    )
    # Polls run on the core that sends: it cannot fill the ring while the ring is polled.
    assert measured(softirq, "delivered_per_second") < 1.01 * measured(threaded, "delivered_per_second")
    assert softirq.meta["conservation"]["ok"]


def test_published_rows(tmp_path: Path) -> None:
    claims = ["D1", "D6", "D7", "D9", "D9x", "D10", "D11", "K1", "K3"]
    done = reproduce("veth-bql", tmp_path / "r", quick=True, only=claims)
    assert {row.claim.id: row.verdict for row in done.rows if row.verdict != "met"} == {}
    ids = [claim.id for claim in load_published("veth-bql").claims]
    assert [f"D{number}" for number in range(1, 13)] == [
        name for name in ids if name[1:].isdigit() and name[0] == "D"
    ]
    page = (tmp_path / "r" / "reproduce.html").read_text()
    for key in ("fq-off-fixed", "fq-v7", "sfq-off", "sfq-v7"):
        section = page.split(f'<section id="run-{key}">')[1].split("</section>")[0]
        limits = ["Byte queue limits"] if key.endswith("v7") else []
        pictures = ["The dark buffer", "What a ping sees of it", *limits, "Tailback chart"]
        assert re.findall("<h3>(.*)</h3>", section) == pictures
        assert f'id="{key}-dark-buffer-plot"' in section
