"""TCP and CPU in a scenario: what is refused, what is worked out, and the plan."""

from __future__ import annotations

from typing import Any

import pytest
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.scenario import load, loads, show
from tailback.scenario.show import resolved_yaml

TEXT = """\
name: tcp
run: {duration: 10ms}
topology: {kind: star, hosts: 3}
host: {%s}
traffic:
  - {kind: tcp, from: [h0, h1], to: h2, %s}
"""


def scenario(host: str = "", traffic: str = "connections: 4") -> Any:
    return loads(TEXT % (host, traffic), label="x.yaml")


def problem(host: str = "", traffic: str = "connections: 4") -> str:
    """The one line that it is refused with."""
    with pytest.raises(InputError) as error:
        scenario(host, traffic)
    return str(error.value)


def tcp(host: str = "") -> dict[str, Any]:
    made: dict[str, Any] = make_plan(scenario(host))["nics"][0]["tcp"]
    return made


def test_the_plan_has_linux_defaults() -> None:
    assert tcp() == {
        "control": "cubic",
        "cubic_beta": 0.7,
        "mtu": 1500,
        "sack": True,
        "ecn": False,
        "initial_window": 10,
        "initial_rto": 2 * 10**11,
        "min_rto": 2 * 10**11,
        "max_rto": 120 * 10**12,
        "delayed_ack": 4 * 10**10,
        "ack_every": 2,
        "receive_buffer": 6 << 20,
        "tso": 65536,
        "small_queue": 1 << 20,
    }
    assert make_plan(scenario("cpu: {clock: 3GHz, gro: 0}"))["nics"][0]["cpu"] == {
        "cores": 16,
        "clock": 3 * 10**9,
        "rx_ring": 1024,
        "interrupt_delay": 8_000_000,
        "interrupt_packets": 32,
        "napi_budget": 64,
        "gro": 0,
        "cycles_per_interrupt": 2500.0,
        "cycles_per_packet": 700.0,
        "cycles_per_segment": 3000.0,
        "cycles_per_byte": 0.32,
    }


def test_without_tcp_traffic_there_is_neither() -> None:
    plan = make_plan(load("first-flow"))
    assert (plan["nics"][0]["tcp"], plan["nics"][0]["cpu"], plan["tcp_connections"]) == (None, None, [])


def test_connections_are_a_pair_each() -> None:
    traffic = "connections: 4, bytes: 1MB, priority: 2, start: 1ms, start_interval: 2us, start_spread: 3us"
    fields = {
        "connections": 4,
        "bytes": 10**6,
        "code_point": 0,
        "start_spread": 3 * 10**6,
        "stop": None,
    }
    one, two = 10**9, 10**9 + 2 * 10**6
    assert make_plan(scenario(traffic=traffic))["tcp_connections"] == [
        {"item": "tcp0", "src": "h0", "dst": "h2", "start": one, **fields},
        {"item": "tcp0", "src": "h1", "dst": "h2", "start": two, **fields},
    ]
    both = make_plan(scenario(traffic=f"{traffic}, bidirectional: true, stop: 5ms"))["tcp_connections"]
    assert [(one["src"], one["dst"], one["start"], one["stop"]) for one in both] == [
        ("h0", "h2", one_start := one, 5 * 10**9),
        ("h2", "h0", one_start, 5 * 10**9),
        ("h1", "h2", two, 5 * 10**9),
        ("h2", "h1", two, 5 * 10**9),
    ]


def test_dctcp_implies_ecn() -> None:
    assert tcp("tcp: {control: dctcp}")["ecn"] is True
    assert tcp("tcp: {ecn: true}")["ecn"] is True
    assert problem("tcp: {control: dctcp, ecn: false}") == (
        "x.yaml:4: host.tcp.ecn: found false, expected true with dctcp, which needs marks"
    )


def test_the_first_timeout_is_the_shortest_unless_given() -> None:
    assert tcp("tcp: {min_rto: 2s}")["initial_rto"] == 2 * 10**12
    assert tcp("tcp: {initial_rto: 1s}")["initial_rto"] == 10**12


def test_a_burst_is_a_segment_at_least() -> None:
    assert tcp("tcp: {tso: 0}")["tso"] == 1448
    assert tcp("tcp: {tso: 1KiB, mtu: 9000B}")["tso"] == 8948


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("tcp: {max_rto: 100ms}", "host.tcp.max_rto: found 100ms, expected at least min_rto, 200ms"),
        ("tcp: {min_rto: 300s}", "host.tcp.min_rto: found 300s, expected at most max_rto, 120s"),
        (
            "tcp: {initial_rto: 100ms}",
            "host.tcp.initial_rto: found 100ms, expected 200ms to 120s, min_rto to max_rto",
        ),
        ("tcp: {min_rto: 5ms}", "host.tcp.min_rto: found 5ms, expected more than delayed_ack, 40ms"),
        ("tcp: {delayed_ack: 1s}", "host.tcp.delayed_ack: found 1s, expected less than min_rto, 200ms"),
        (
            "tcp: {small_queue: 1KB}",
            "host.tcp.small_queue: found 1KB, expected at least one packet, 1500B, the mtu",
        ),
        (
            "tcp: {receive_buffer: 2KiB}",
            "host.tcp.receive_buffer: found 2KiB, expected at least two packets of 1500B, the mtu",
        ),
        ("tcp: {control: bbr}", 'host.tcp.control: found "bbr", expected one of cubic, newreno, dctcp'),
        ("tcp: {cwnd: 10}", "host.tcp.cwnd: found an unknown field, expected one of control"),
        ("tcp: {mtu: 1500}", "host.tcp.mtu: found 1500, expected a size with a unit"),
        ("cpu: {cores: 0}", "host.cpu.cores: found 0, expected at least 1"),
        (
            "cpu: {clock: 2.4}",
            "host.cpu.clock: found 2.4, expected a frequency with a unit, such as 2.4GHz",
        ),
        ("cpu: {clock: 2.4Ghz}", 'host.cpu.clock: found "2.4Ghz", expected a frequency with a unit'),
        ("cpu: {cycles_per_byte: -1}", "host.cpu.cycles_per_byte: found -1, expected at least 0"),
        ("cpu: {cycles_per_packet: .nan}", "host.cpu.cycles_per_packet: found nan, expected a finite number"),
    ],
)
def test_one_line_for_what_cannot_be(host: str, words: str) -> None:
    found = problem(host)
    assert found.startswith(f"x.yaml:4: {words}")
    assert "\n" not in found


@pytest.mark.parametrize(
    ("traffic", "words"),
    [
        ("connections: 0", "traffic.0.connections: found 0, expected at least 1"),
        ("start: 2ms, stop: 1ms", "traffic.0.stop: found 1ms, expected later than start, 2ms"),
        ("start: 10ms", "traffic.0.start: found 10ms, expected less than run.duration, 10ms"),
        ("bytes: 0", "traffic.0.bytes: found 0, expected"),
        ("qps: 3", "traffic.0.qps: found an unknown field, expected one of kind, from, to"),
    ],
)
def test_one_line_for_traffic_that_cannot_be(traffic: str, words: str) -> None:
    assert problem(traffic=traffic).startswith(f"x.yaml:6: {words}")


def test_hosts_of_connections_are_checked() -> None:
    text = "name: x\nrun: {duration: 1ms}\ntopology: {kind: star, hosts: 2}\ntraffic: [{kind: tcp, %s}]\n"
    for hosts, words in (("from: h0, to: h7", "h0..h1"), ("from: h1, to: h1", "another host")):
        with pytest.raises(InputError, match=words):
            loads(text % hosts)
    with pytest.raises(InputError, match="1310720 queue pairs and connections, expected at most 1000000"):
        load(
            {
                "name": "x",
                "run": {"duration": "1ms"},
                "topology": {"kind": "star", "hosts": 21},
                "traffic": [{"kind": "tcp", "from": "h0..h19", "to": "h20", "connections": 65536}],
            }
        )


@pytest.mark.parametrize(
    "host", ["tcp: {control: dctcp}", "tcp: {min_rto: 2s}", "transport: {ack_timeout: 1ms}", ""]
)
def test_what_is_shown_loads_again(host: str) -> None:
    made = scenario(host)
    assert make_plan(loads(show(made))) == make_plan(made)
    assert make_plan(loads(resolved_yaml(made))) == make_plan(made)


def test_headroom_is_for_the_longest_packet_of_a_port() -> None:
    def headroom(mtu: str, kind: str) -> int:
        traffic = [{"kind": kind, "from": "h0", "to": "h1"}]
        data = {"name": "x", "run": {"duration": "1ms"}, "topology": {"kind": "star", "hosts": 2}}
        plan = make_plan(load({**data, "host": {"mtu": mtu}, "traffic": traffic}))
        return int(plan["links"][0]["headroom_bytes"])

    # Packets of 1500 + 38 B with TCP, of 1024 + 98 B without; a RoCE packet of 4096 + 98 B is longer.
    # 41,474 B in flight, 84 B of PFC and a packet: 28 of 1,538 B and 32 B, 38 of 1,122 B and 44 B.
    assert headroom("1KiB", "tcp") == 30 * 1518 + 12
    assert headroom("1KiB", "write") == 40 * 1102 + 24
    assert headroom("4KiB", "tcp") == headroom("4KiB", "write")
