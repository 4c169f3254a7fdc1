"""Paths of hosts in a scenario: what they become in the plan, what is refused, and that a run shows them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tailback
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.report.tailback_chart import GROUP_TITLES
from tailback.scenario import load, loads, show

THREE_LINES = """\
name: three
run: {duration: 2ms}
topology: {kind: star, hosts: 3, link: {rate: 100Gbps, delay: 10ns}}
host:
  mtu: 4096B
  path: {preset: pcie3-x16}
traffic:
  - {kind: write, from: h0, to: h1}
"""


def nic_of(text: str, host: str, *sets: str) -> dict[str, Any]:
    """The kind of NIC of a host in the plan."""
    plan = make_plan(loads(text, sets=sets))
    number = next(entry["nic"] for entry in plan["hosts"] if entry["name"] == host)
    nic: dict[str, Any] = plan["nics"][number]
    return nic


def counter(result: tailback.Result, node: str, name: str) -> int:
    """A counter of a host over the run; 0 where it has none."""
    rows = result.counters.to_pylist()
    return sum(row["value"] for row in rows if (row["node"], row["counter"]) == (node, name))


def test_three_lines_are_a_whole_path() -> None:
    plan = make_plan(loads(THREE_LINES))
    assert len(plan["nics"]) == 1
    # 2 * 10 ns + 2.01728 us + 300 ns at 12.5025 B/ns are 29,221 B; with 84 B and a packet 7 packets and
    # 4,141 B.
    xoff = 262_144 - 9 * (4194 - 20) - (4141 - 20)
    assert plan["nics"][0]["host_path"] == {
        "receive_buffer": {
            "lossless_size": 262_144,
            "lossy_size": 262_144,
            "cnp_threshold": 131_072,
            "cnp_interval": None,
        },
        "receive_buffers": [
            {
                "xoff_bytes": None,
                "xon_bytes": None,
                "priorities": [0, 1, 2, 4, 5, 6, 7],
            },
            {"xoff_bytes": xoff, "xon_bytes": xoff - 10_000, "priorities": [3]},
        ],
        "pause": {"quanta": 65_535, "response_delay": 2_017_280},
        "pcie": {
            "rate": 123_510_153_718,
            "queue_pair_rate": None,
            "max_payload": 256,
            "header_credits": 128,
            "iio_lines": 93,
            "credit_latency": 213_000,
            "iio_latency": 113_000,
        },
        "tlp_overhead_bytes": 24,
        "target": {
            "memory": {
                "own": {
                    "bandwidth": 265_600_000_000,
                    "service": 10_000,
                    "write_queue": 64,
                    "write_wait": 7.0,
                    "read_spread": 0.0,
                    "refresh_interval": 7_800_000,
                    "refresh_time": 0,
                    "cpu_latency": 90_000,
                },
                "ddio": {"capacity": 4_000_000, "cpu_share": 0.181818, "working_set": None},
            }
        },
        "reads": None,
    }


def test_no_path_unless_one_is_given() -> None:
    plan = make_plan(load("first-flow"))
    assert [nic["host_path"] for nic in plan["nics"]] == [None]
    assert plan["memory_loads"] == []


@pytest.mark.parametrize(
    ("preset", "gigabytes_per_second", "lines"),
    [("pcie3-x8", 7.88, 93), ("pcie3-x16", 15.75, 93), ("pcie4-x16", 31.5, 186), ("pcie5-x16", 63.0, 372)],
)
def test_presets_are_links_of_their_generation(preset: str, gigabytes_per_second: float, lines: int) -> None:
    path = nic_of(THREE_LINES, "h0", f"host.path.preset={preset}")["host_path"]["pcie"]
    raw = path["rate"] / 8e9 / 0.98
    assert raw == pytest.approx(gigabytes_per_second, rel=0.001)
    assert path["iio_lines"] == lines
    # Credits for a full write's round trip, unloaded, cover the link: the preset does not limit itself.
    round_trip_ns = (path["credit_latency"] + path["iio_latency"]) / 1000
    assert 64 * lines / round_trip_ns > path["rate"] / 8e9 * 256 / 280


def test_hosts_differ_where_they_are_named() -> None:
    own = "host.path_by_host=[{hosts: h1, preset: pcie3-x8, target: gpu, gpu: {hops: 2}, reads: {}}]"
    plan = make_plan(loads(THREE_LINES, sets=[own]))
    assert [host["nic"] for host in plan["hosts"]] == [0, 1, 0]
    assert list(plan["nics"][0]["host_path"]["target"]) == ["memory"]
    gpu = plan["nics"][1]["host_path"]["target"]["gpu"]
    assert (gpu["own"]["hops"], gpu["own"]["outstanding"], gpu["stalls"]) == (2, 8192, None)
    # PCIe 3.0 x8 moves about 7.1 GB/s in writes of 256 B.
    assert gpu["own"]["bandwidth"] / 8e9 == pytest.approx(7.1, rel=0.01)
    assert plan["nics"][1]["host_path"]["reads"] == {"outstanding": 16_384, "latency": 700_000}
    # Only the receiver has one: the others stay ideal.
    only = make_plan(loads(THREE_LINES.replace("  path: {preset: pcie3-x16}\n", ""), sets=[own]))
    assert [nic["host_path"] is None for nic in only["nics"]] == [True, False]


def test_a_lossy_network_has_one_lossy_buffer() -> None:
    path = nic_of(THREE_LINES, "h0", "switch.lossless=[]")["host_path"]
    assert [part["priorities"] for part in path["receive_buffers"]] == [list(range(8))]


def test_memory_loads_name_each_host() -> None:
    loads_of = make_plan(
        loads(THREE_LINES, sets=["memory_load=[{host: h0..h1, cores: 4, start: 1us, stop: 1ms}]"])
    )["memory_loads"]
    assert [load["host"] for load in loads_of] == ["h0", "h1"]
    assert loads_of[0] == {
        "item": "memory0",
        "host": "h0",
        "start": 10**6,
        "stop": 10**9,
        "cores": 4,
        "lines_per_core": 10,
        "read_share": 0.5,
    }


def test_agents_watch_hosts_with_a_path() -> None:
    own = "host.path_by_host=[{hosts: h1, preset: pcie3-x16}]"
    text = THREE_LINES.replace("  path: {preset: pcie3-x16}\n", "")
    both = "host.rhcc={sender: true, receiver: true}"
    assert nic_of(text, "h0", own, both)["rhcc"]["receiver"] is None
    assert nic_of(text, "h1", own, both)["rhcc"]["receiver"] is not None
    assert nic_of(text, "h0", own, "host.hostcc={enabled: true}")["hostcc"] is None
    assert nic_of(text, "h1", own, "host.hostcc={enabled: true}")["hostcc"] is not None
    for sets in ([both], ["host.hostcc={enabled: true}"]):
        assert tailback.run(loads(THREE_LINES, sets=sets)).summary["complete"] is True


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        (["host.path={}"], "host.path.preset: found nothing, expected a value: pcie generation and lanes"),
        (
            ["host.path.preset=pcie6-x16"],
            'host.path.preset: found "pcie6-x16", expected pcie5-x16 (or another',
        ),
        (["host.path.max_payload=300B"], "host.path.max_payload: found 300B, expected a power of two"),
        (
            ["host.path.iio_lines=3"],
            "host.path.iio_lines: found 3, expected at least 4, a write of max_payload",
        ),
        (
            ["host.path.receive_buffer={lossless_size: 20KB}"],
            "host.path.receive_buffer.lossless_size: found 20KB, expected more than 41.687KB",
        ),
        (
            ["host.path.receive_buffer={xoff: 1MB}"],
            "host.path.receive_buffer.xoff: found 1MB, expected at most lossless_size, 256KiB",
        ),
        (
            ["host.path.receive_buffer={xoff: 20KB, xon: 20KB}"],
            "host.path.receive_buffer.xon: found 20KB, expected less than xoff, 20KB",
        ),
        (
            ["host.path.receive_buffer={xon: 250KB}"],
            "host.path.receive_buffer.xon: found 250KB, expected less than xoff, 220.457KB",
        ),
        (
            ["host.path.receive_buffer={lossy_size: 20KB}"],
            "host.path.receive_buffer.cnp_threshold: found 128KiB, expected at most lossy_size, 20KB",
        ),
        (
            ["host.path_by_host=[{hosts: h9, preset: pcie3-x8}]"],
            'host.path_by_host.0.hosts: found "h9", expected hosts of the network',
        ),
        (
            [
                "host.path_by_host=[{hosts: h0..h1, preset: pcie3-x8}, {hosts: h1, preset: pcie3-x8}]",
            ],
            'host.path_by_host.1.hosts: found "h1", expected hosts that no entry before has',
        ),
        (
            ["memory_load=[{host: h9, cores: 1}]"],
            'memory_load.0.host: found "h9", expected hosts of the network',
        ),
        (
            ["host.path.target=gpu", "memory_load=[{host: h1, cores: 1}]"],
            'memory_load.0.host: found "h1", expected hosts with host.path to memory',
        ),
        (["host.path=null", "memory_load=[{host: h1, cores: 1}]"], "expected hosts with host.path to memory"),
        (
            ["memory_load=[{host: h1, cores: 1, start: 2ms}]"],
            "memory_load.0.start: found 2ms, expected less than run.duration, 2ms",
        ),
        (
            ["memory_load=[{host: h1, cores: 1, start: 1ms, stop: 1ms}]"],
            "memory_load.0.stop: found 1ms, expected later than start, 1ms",
        ),
    ],
)
def test_what_is_refused(sets: list[str], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        loads(THREE_LINES, sets=sets)
    assert problem in str(caught.value)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("name", ["gpudirect-pfc", "memory-contention"])
def test_what_is_shown_is_the_same_plan(name: str) -> None:
    scenario = load(name)
    text = show(scenario)
    assert make_plan(loads(text)) == make_plan(scenario)
    # The preset's values are there in numbers.
    assert "iio_lines: 93" in text
    assert not re.search(r"^ *rate: null", text, re.MULTILINE)


def test_memory_traffic_fills_the_receive_buffer_first() -> None:
    """The line of traffic starts at memory and reaches the sender's port; without the load there is none."""
    loaded = tailback.run("memory-contention")
    assert {queue["kind"] for queue in loaded.meta["queues"]} <= set(GROUP_TITLES), (
        "each kind of row has words"
    )
    assert counter(loaded, "h1", "tx_prio3_pause") > 0
    assert counter(loaded, "h0", "rx_prio3_pause") > 0
    assert counter(loaded, "h1", "outbound_pci_stalled_wr") > 0
    calm = tailback.run("memory-contention", sets=["memory_load=[]"])
    assert counter(calm, "h1", "tx_prio3_pause") == 0


def test_a_gpu_that_stalls_has_its_nic_pause_the_switch() -> None:
    stalling = tailback.run("gpudirect-pfc")
    assert {queue["kind"] for queue in stalling.meta["queues"]} <= set(GROUP_TITLES), (
        "each kind of row has words"
    )
    assert counter(stalling, "h1", "tx_prio0_pause") > 0
    assert counter(stalling, "h0", "tx_prio0_pause") == 0
    assert counter(stalling, "h0", "rx_prio0_pause") > 0
    steady = tailback.run("gpudirect-pfc", sets=["host.path_by_host=[]"])
    assert counter(steady, "h1", "tx_prio0_pause") == 0


def test_a_lossy_receiver_sends_cnps_of_its_own() -> None:
    lossy = tailback.run("memory-contention", sets=["switch.lossless=[]"])
    assert counter(lossy, "h1", "np_cnp_sent") > 0
    assert counter(lossy, "h1", "np_ecn_marked_roce_packets") == 0


def _lossless_part(*sets: str) -> dict[str, Any]:
    part: dict[str, Any] = nic_of(THREE_LINES, "h0", *sets)["host_path"]["receive_buffers"][-1]
    return part


def test_the_mlx5_driver_reckons_in_whole_mbit_and_with_the_largest_packet() -> None:
    # Whole cells are left: a byte more or less is another threshold. 4,096 B and RoCE's headers are 4,156 B.
    cable = "host.path.receive_buffer={{cable_len: 100, lossless_size: {}B}}"
    above = (301 + 216) * 50_001 // 1000 + 272 * 4156 // 100
    part = _lossless_part(cable.format(above + 128_000), "topology.link.rate=50001990000bps")
    assert part["xoff_bytes"] == 128_000
    above = (301 + 216) * 100_000 // 1000 + 272 * 9000 // 100
    # TCP, whose packets may not cross a host path, between two other hosts.
    path = f"{{preset: pcie3-x8, {cable.format(above + 128_000).partition('.path.')[2].replace('=', ': ')}}}"
    own = f"host.path_by_host=[{path.replace('{', '{hosts: h0, ', 1)}]"
    tcp = ("host.path=null", own, "traffic=[{kind: tcp, from: h1, to: h2}]", "host.tcp.mtu=9000B")
    assert _lossless_part(*tcp)["xoff_bytes"] == 128_000


def test_all_hosts_are_named_by_all() -> None:
    plan = make_plan(loads(THREE_LINES, sets=["memory_load=[{host: all, cores: 4}]"]))
    assert [load["host"] for load in plan["memory_loads"]] == ["h0", "h1", "h2"]
    plan = make_plan(loads(THREE_LINES, sets=["host.path_by_host=[{hosts: all, preset: pcie3-x8}]"]))
    assert len(plan["nics"]) == 1
    assert plan["nics"][0]["host_path"]["pcie"]["rate"] < 64e9


def test_a_memory_without_ddio_and_a_network_that_is_all_lossless() -> None:
    path = nic_of(THREE_LINES, "h0", "host.path.memory={ddio: null}")["host_path"]
    assert path["target"]["memory"]["ddio"] is None
    path = nic_of(THREE_LINES, "h0", "switch.lossless=[0, 1, 2, 3, 4, 5, 6, 7]")["host_path"]
    assert [part["priorities"] for part in path["receive_buffers"]] == [list(range(8))]


def test_least_thresholds_are_taken() -> None:
    xoff = _lossless_part()["xoff_bytes"]
    assert _lossless_part(f"host.path.receive_buffer={{xon: {xoff - 1}B}}")["xon_bytes"] == xoff - 1
    with pytest.raises(InputError, match="expected less than xoff"):
        loads(THREE_LINES, sets=[f"host.path.receive_buffer={{xon: {xoff}B}}"])
    taken = _lossless_part("host.path.receive_buffer={xoff: 2B, xon: 1B}")
    assert (taken["xoff_bytes"], taken["xon_bytes"]) == (2, 1)
    assert _lossless_part("host.path.receive_buffer={xoff: 2KB}")["xon_bytes"] == 0
    assert _lossless_part("host.path.receive_buffer={xoff: 2KB, cable_len: 7}")["xon_bytes"] == 0
    least = 262_144 - _lossless_part()["xoff_bytes"] + 1
    assert _lossless_part(f"host.path.receive_buffer={{lossless_size: {least}B, xon: 0B}}")["xoff_bytes"] == 1
    cable = "host.path.receive_buffer={{cable_len: 7, lossless_size: {}B}}"
    with pytest.raises(InputError, match="mlx5 driver asks for"):
        loads(THREE_LINES, sets=[cable.format(40_000)])
    above = (301 + 216 * 7 // 100) * 100_000 // 1000 + 272 * 4156 // 100
    assert _lossless_part(cable.format(above + 9978 + 128))["xon_bytes"] == 128


def test_thresholds_of_every_buffer_are_shown() -> None:
    own = "host.path_by_host=[{hosts: h1, preset: pcie3-x8, receive_buffer: {lossless_size: 200KB}}]"
    text = show(loads(THREE_LINES, sets=[own]))
    assert "158.313KB" in text
    assert "220.457KB" in text


def test_one_problem_hides_no_other() -> None:
    """A host with a small buffer, one before it whose buffer is lossy, and memory traffic too late."""
    lossy = "{hosts: h1, preset: pcie3-x8, receive_buffer: {lossless: []}}"
    small = "{hosts: h2, preset: pcie3-x8, receive_buffer: {%s}}"
    loads_ = "memory_load=[{host: h0, cores: 1, start: 2ms}, {host: h0, cores: 1, start: 2ms}]"
    for wrong in (
        "lossless_size: 20KB",
        "lossless_size: 40KB, cable_len: 7",
        "quanta: 100",
        "xon: 250KB",
    ):
        with pytest.raises(InputError) as caught:
            loads(THREE_LINES, sets=[f"host.path_by_host=[{lossy}, {small % wrong}]", loads_])
        assert [problem.path[0] for problem in caught.value.problems] == [
            "host",
            "memory_load",
            "memory_load",
        ], wrong
    strangers = "memory_load=[{host: h8, cores: 1}, {host: h9, cores: 1}]"
    with pytest.raises(InputError) as caught:
        loads(THREE_LINES, sets=[strangers])
    assert [problem.path[1] for problem in caught.value.problems] == [0, 1]


@pytest.mark.parametrize("target", ["memory", "gpu"])
def test_the_slowest_link_is_shown_and_runs(target: str) -> None:
    """A GPU's bandwidth that follows from the link's may be set, too."""
    path = f"{{preset: pcie3-x8, rate: 1Gbps, max_payload: 128B, target: {target}}}"
    scenario = loads(THREE_LINES, sets=[f"host.path={path}"])
    assert make_plan(loads(show(scenario))) == make_plan(scenario)
    assert tailback.run(scenario).faults == []
