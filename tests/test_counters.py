"""Counters as the tools print them: layouts, names, where the figures come from, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import tailback
from tailback import cli
from tailback.counters import TOOLS, as_tool
from tailback.errors import InputError
from tailback.results import Result

CONTENTION = [
    "run.duration=12ms",
    "memory_load=[{host: h1, cores: 8, start: 1ms}]",
    "host.path.reads={}",
]


@pytest.fixture(scope="module")
def pfc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in which h1 pauses h0."""
    folder = tmp_path_factory.mktemp("pfc") / "run"
    tailback.run("gpudirect-pfc", out=folder)
    return folder


@pytest.fixture(scope="module")
def contention() -> Result:
    """h1's cores take memory from its NIC."""
    return tailback.run("memory-contention", sets=CONTENTION)


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command prints."""
    assert cli.main(["counters", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def ethtool(text: str) -> dict[str, int]:
    """The output of `ethtool -S`, as scripts read it."""
    lines = text.splitlines()
    assert lines[0] == "NIC statistics:"
    found = [re.fullmatch(r" {5}([a-z0-9_]+): (\d+)", line) for line in lines[1:]]
    assert all(found)
    return {match[1]: int(match[2]) for match in found if match}


def test_ethtool(pfc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    h0 = ethtool(printed(capsys, pfc, "--as", "ethtool", "--host", "h0"))
    h1 = ethtool(printed(capsys, pfc, "--as", "ethtool", "--host", "h1"))
    # As en_stats.c has them: traffic of all priorities, pauses of those under PFC.
    assert [name for name in h0 if "prio0" in name] == [
        "rx_prio0_bytes",
        "rx_prio0_packets",
        "tx_prio0_bytes",
        "tx_prio0_packets",
        "rx_prio0_pause",
        "rx_prio0_pause_duration",
        "tx_prio0_pause",
        "tx_prio0_pause_duration",
        "rx_prio0_pause_transition",
    ]
    assert "rx_prio7_bytes" in h0
    assert "rx_prio7_pause" not in h0
    assert h0["rx_prio0_pause"] == h1["tx_prio0_pause"] > 0
    assert h0["tx_prio0_pause"] == h1["rx_prio0_pause"] == 0
    assert 0 < h0["rx_prio0_pause_transition"] <= h0["rx_prio0_pause"] // 2
    # Microseconds: less than the run, and as long as h1 held h0 up, but for what is on the way.
    assert 1000 < h0["rx_prio0_pause_duration"] < 60_000
    assert abs(h0["rx_prio0_pause_duration"] - h1["tx_prio0_pause_duration"]) < 20
    assert h0["tx_bytes_phy"] >= h1["rx_bytes_phy"] > 10**8
    # Percent of the time, where the run has not had a second yet.
    stalled = Result.load(pfc).bins
    share = stalled.mean(stalled.values("h1/pcie", "stalled_share"), 0.0)
    assert h1["outbound_pci_stalled_wr"] == int(100 * share) > 0
    assert h1["outbound_pci_stalled_wr_events"] == 0
    for host in (h0, h1):
        assert host["rx_out_of_buffer"] == host["rx_discards_phy"] == 0


def test_seconds_above_30_percent_are_counted() -> None:
    result = tailback.run(
        "memory-contention",
        sets=[
            "run.duration=1.5s",
            "memory_load=[{host: h1, cores: 8}]",
            "topology.link.rate=10Gbps",
            "host.path.memory.bandwidth=10Gbps",
        ],
    )
    counters = ethtool(as_tool(result, "ethtool", "h1"))
    assert counters["outbound_pci_stalled_wr"] > 30
    assert counters["outbound_pci_stalled_wr_events"] == 1


def test_all_hosts_have_headings(pfc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = printed(capsys, pfc, "--as", "ethtool").split("==> ")
    assert [part.splitlines()[0] for part in parts[1:]] == ["h0 <==", "h1 <=="]
    for part in parts[1:]:
        assert ethtool(part.split("\n", 1)[1].rstrip("\n"))


def test_rdma(pfc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The very grep of the published experiment."""
    text = printed(capsys, pfc, "--as", "rdma", "--host", "h0")
    assert text.startswith("link mlx5_0/1 out_of_sequence 0 ")
    assert text.count("\n") == 1
    found = subprocess.run(
        ["grep", "-oE", r"(packet_seq_err|out_of_sequence|local_ack_timeout_err) +[0-9]+"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "out_of_sequence 0\npacket_seq_err 0\nlocal_ack_timeout_err 0\n"


def test_rdma_counts_cnps_and_losses() -> None:
    result = tailback.run("roce-incast-lossy", sets=["run.duration=3ms", "traffic.0.start_interval=0ms"])
    sums = dict.fromkeys(("np_cnp_sent", "rp_cnp_handled", "packet_seq_err", "out_of_sequence"), 0)
    for host in TOOLS["rdma"].nodes(result):
        words = as_tool(result, "rdma", host).split()[2:]
        for name, value in zip(words[::2], words[1::2], strict=True):
            if name in sums:
                sums[name] += int(value)
    flows = result.flows.to_pylist()
    for name, value in sums.items():
        assert value == sum(flow[name] for flow in flows) > 0, name


def test_mlnx_qos(pfc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the published experiment shows them, but for the lossy buffer, which is its spare one here."""
    text = printed(capsys, pfc, "--as", "mlnx_qos", "--host", "h1")
    assert text.splitlines()[:3] == [
        "DCBX mode: OS controlled",
        "Priority trust state: dscp",
        "dscp2prio mapping:",
    ]
    for line in (
        "\tprio:3 dscp:31,30,29,28,27,26,25,24,",
        "default priority:",
        "Receive buffer size (bytes): 147072,114944,0,0,0,0,0,0,max_buffer_size=262016",
        "Cable len: 1",
        "\tpriority    0   1   2   3   4   5   6   7",
        "\tenabled     1   0   0   0   0   0   0   0",
        "\tbuffer      1   0   0   0   0   0   0   0",
        "tc: 6 ratelimit: unlimited, tsa: strict",
        "Port buffer size = 262016",
        "Buffer  Size      xoff_threshold  xon_threshold",
        "1       114944    91392           81408",
    ):
        assert line in text.splitlines(), line


def test_mlnx_qos_says_what_it_does_not_know() -> None:
    """Of a host without a data path; trust and its table follow the scenario."""

    def lines(*sets: str) -> list[str]:
        return as_tool(
            tailback.run("first-flow", sets=["run.duration=1ms", *sets]), "mlnx_qos", "h1"
        ).splitlines()

    text = lines("host.qos.dscp={26: 4}")
    for line in (
        "Receive buffer size (bytes): N/A",
        "Cable len: N/A",
        "\tenabled     0   0   0   1   0   0   0   0",
        "\tbuffer      N/A N/A N/A N/A N/A N/A N/A N/A",
        "\tprio:3 dscp:31,30,29,28,27,25,24,",
        "\tprio:4 dscp:39,38,37,36,35,34,33,32,",
        "\tprio:4 dscp:26,",
    ):
        assert line in text, line
    assert not [line for line in text if "Port buffer size" in line]
    assert sum(line.startswith("tc: ") for line in text) == 8
    assert lines("host.qos.trust=pcp")[1:3] == ["Priority trust state: pcp", "default priority:"]
    assert lines("host.qos.trust=port")[1:3] == ["Priority trust state: N/A", "default priority:"]


def tables(text: str) -> list[tuple[list[str], dict[str, dict[str, str]]]]:
    """What SONiC's commands print: of each table its columns, and its cells by interface and column."""
    found = []
    for block in text.rstrip("\n").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.endswith(":")]
        widths = [len(dashes) for dashes in lines[1].split("  ")]
        rows = []
        for line in (lines[0], *lines[2:]):
            places = [sum(widths[:column]) + 2 * column for column in range(len(widths))]
            rows.append([line[at : at + width].strip() for at, width in zip(places, widths, strict=True)])
            assert len(line) == sum(widths) + 2 * (len(widths) - 1)
        head = rows[0]
        found.append((head, {row[0]: dict(zip(head, row, strict=True)) for row in rows[1:]}))
    return found


TWO_TO_ONE = {
    "name": "paused",
    "run": {"duration": "1ms"},
    "topology": {"kind": "star", "hosts": 3},
    "host": {"congestion": "none"},
    "switch": {"pfc": {"xoff": "50KB"}},
    "traffic": [{"kind": "write", "from": ["h0", "h1"], "to": ["h2"]}],
}


def test_sonic() -> None:
    """Titles and columns as in SONiC's Command Reference; figures as the hosts have them."""
    result = tailback.run(TWO_TO_ONE)
    text = as_tool(result, "sonic", "sw0")
    titles = [line for line in text.splitlines() if line.endswith(":")]
    assert titles == [
        "Ingress shared pool occupancy per PG:",
        "Ingress headroom per PG:",
        "Egress shared pool occupancy per unicast queue:",
    ]
    (head, interfaces), (rx_head, rx), (tx_head, tx), (_, shared), (_, headroom), (_, queues) = tables(text)
    assert " ".join(head) == (
        "IFACE STATE RX_OK RX_BPS RX_UTIL RX_ERR RX_DRP RX_OVR TX_OK TX_BPS TX_UTIL TX_ERR TX_DRP TX_OVR"
    )
    assert rx_head == ["Port Rx", *(f"PFC{priority}" for priority in range(8))]
    assert tx_head == ["Port Tx", *(f"PFC{priority}" for priority in range(8))]
    hosts = {host: ethtool(as_tool(result, "ethtool", host)) for host in ("h0", "h1", "h2")}
    for host, own in hosts.items():
        # Frames may be on their way at the end.
        sent = int(interfaces[host]["TX_OK"].replace(",", ""))
        assert 0 <= sent - own["rx_packets_phy"] <= 12
        assert 0 <= int(tx[host]["PFC3"].replace(",", "")) - own["rx_prio3_pause"] <= 1
        assert int(rx[host]["PFC3"].replace(",", "")) == own["tx_prio3_pause"] == 0
        assert interfaces[host]["STATE"] == "U"
        assert interfaces[host]["RX_ERR"] == interfaces[host]["TX_OVR"] == "N/A"
        assert interfaces[host]["RX_DRP"] == "0"
    assert hosts["h0"]["rx_prio3_pause"] > 10
    # 12.5 GB/s, of which preambles and gaps take 20 B of 1,122.
    assert float(interfaces["h2"]["TX_UTIL"].rstrip("%")) == pytest.approx(100 * 1102 / 1122, abs=0.5)
    rate, unit = interfaces["h2"]["TX_BPS"].split(" ")
    assert float(rate) == pytest.approx(12500 * 1102 / 1122, abs=60)
    assert unit == "MB/s"
    assert 50_000 - 1102 <= int(shared["h0"]["PG3"]) <= 50_000
    assert 1102 <= int(headroom["h0"]["PG3"]) <= result.plan["links"][0]["headroom_bytes"]
    held = result.bins.values("sw0:h0/pg3", "queue_max_bytes").max()
    assert int(shared["h0"]["PG3"]) + int(headroom["h0"]["PG3"]) == held
    assert int(queues["h2"]["UC3"]) == result.bins.values("sw0:h2/tc3", "queue_max_bytes").max() > 50_000
    assert shared["h0"]["PG0"] == headroom["h2"]["PG3"] == queues["h2"]["UC0"] == "0"


def test_sonic_counts_drops_at_the_side_that_refused() -> None:
    """And a frame that the link loses is nobody's; a link that is down at the end is D."""
    lossy = {
        **TWO_TO_ONE,
        "switch": {"lossless": [], "shared": "100KB"},
        "topology": {"kind": "star", "hosts": 3, "link": {"loss": 0.01}},
        "failures": [{"link": "h1-sw0", "at": "900us"}],
    }
    result = tailback.run(lossy)
    (_, interfaces), *_ = tables(as_tool(result, "sonic", "sw0"))
    reasons = {
        drop["reason"]: drop["packets"] for drop in result.meta["drops"] if drop["where"] == "sw0:h2/tc3"
    }
    assert reasons["lost on the link"] > 0
    at_queue = sum(packets for reason, packets in reasons.items() if "on the link" not in reason)
    assert int(interfaces["h2"]["TX_DRP"].replace(",", "")) == at_queue > 0
    assert interfaces["h2"]["RX_DRP"] == "0"
    assert [interfaces[host]["STATE"] for host in ("h0", "h1", "h2")] == ["U", "D", "U"]
    # Of a fabric too large for all series, the watermark of a queue that has none is not known.
    result.meta["recorded"] = "hosts and queue pairs"
    *_, (_, queues) = tables(as_tool(result, "sonic", "sw0"))
    assert int(queues["h2"].pop("UC3")) > 0
    assert set(queues["h2"].values()) == {"h2", "N/A"}


def test_ethtool_of_a_port_of_a_switch() -> None:
    """Names as Linux's mlxsw driver has them, in its order; both ends of a link count the same."""
    result = tailback.run(TWO_TO_ONE)
    assert TOOLS["ethtool"].nodes(result) == ["h0", "h1", "h2", "sw0:h0", "sw0:h1", "sw0:h2"]
    port, host = (ethtool(as_tool(result, "ethtool", node)) for node in ("sw0:h0", "h0"))
    assert list(port)[:5] == [
        "a_frames_transmitted_ok",
        "a_frames_received_ok",
        "a_octets_transmitted_ok",
        "a_octets_received_ok",
        "ecn_marked",
    ]
    assert [name for name in port if name.endswith("_3")] == [
        "rx_octets_prio_3",
        "rx_frames_prio_3",
        "tx_octets_prio_3",
        "tx_frames_prio_3",
        "rx_pause_prio_3",
        "rx_pause_duration_prio_3",
        "tx_pause_prio_3",
        "tx_pause_duration_prio_3",
        "tc_no_buffer_discard_uc_tc_3",
    ]
    assert 0 <= port["tx_pause_prio_3"] - host["rx_prio3_pause"] <= 1
    assert abs(port["tx_pause_duration_prio_3"] - host["rx_prio3_pause_duration"]) <= 4
    assert 0 <= host["tx_packets_phy"] - port["a_frames_received_ok"] <= 20
    assert port["a_octets_received_ok"] == port["rx_octets_prio_3"] > 10**6
    assert port["tc_no_buffer_discard_uc_tc_3"] == port["rx_pause_prio_3"] == 0


def test_pcm(contention: Result) -> None:
    assert TOOLS["pcm"].nodes(contention) == ["h0", "h1"]
    rows = dict(re.split(r" {2,}", line) for line in as_tool(contention, "pcm", "h1").splitlines())
    assert int(rows["ItoM (total)"]) == int(rows["ItoM (miss)"]) + int(rows["ItoM (hit)"]) > 0
    hits = 100 * int(rows["ItoM (hit)"]) / int(rows["ItoM (total)"])
    assert float(rows["DDIO hit rate (%)"]) == pytest.approx(hits, abs=0.06)
    lines = contention.plan["nics"][-1]["host_path"]["pcie"]["iio_lines"]
    assert 0 < float(rows["IIO occupancy, mean (cache lines)"]) <= lines
    owners = [f"{what} by the {owner} (MB/s)" for what in ("read", "write") for owner in ("cores", "NIC")]
    assert all(owner in rows for owner in owners)
    # 8 cores with 10 lines each against one NIC at 100 Gbit/s.
    assert float(rows["read by the cores (MB/s)"]) > float(rows["write by the NIC (MB/s)"]) > 0
    total = sum(float(rows[owner]) for owner in owners)
    assert float(rows["Memory Throughput (MB/s)"]) == pytest.approx(total, abs=0.1)


@pytest.mark.parametrize("scenario", ["memory-contention", "gpudirect-pfc"])
def test_pcm_has_no_reads_of_a_nic_that_does_not_read(scenario: str) -> None:
    sets = ["run.duration=1ms", *(["memory_load=[{host: h1, cores: 8}]"] if scenario[0] == "m" else [])]
    for reads, times in (("null", 0), ("{}", 1)):
        text = as_tool(tailback.run(scenario, sets=[*sets, f"host.path.reads={reads}"]), "pcm", "h0")
        assert text.count("read by the NIC") == times
        assert text.count("write by the NIC") == 1
        assert text.count("PCIRdCur") == (times if scenario == "memory-contention" else 0)
        assert ("read by the cores" in text) == (scenario == "memory-contention")


FLOOD = ["run.duration=200ms"]

FQ_CODEL = (
    "qdisc fq_codel 8001: dev producer-consumer root refcnt 2 limit 10240p flows 1024 quantum 1514 "
    "target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64 "
)


def tc_counted(text: str) -> dict[str, int]:
    """The first discipline of `tc -s qdisc show`, as scripts read it."""
    lines = text.splitlines()
    sent = re.fullmatch(
        r" Sent (\d+) bytes (\d+) pkt \(dropped (\d+), overlimits 0 requeues (\d+)\) ", lines[1]
    )
    left = re.fullmatch(r" backlog (\d+)b (\d+)p requeues \d+", lines[2])
    assert sent
    assert left
    names = ("bytes", "packets", "dropped", "requeues", "backlog_bytes", "backlog")
    return dict(zip(names, map(int, (*sent.groups(), *left.groups())), strict=True))


@pytest.mark.parametrize("scenario", ["veth-dark-buffer", "veth-bql"])
def test_tc_of_a_veth_pair(scenario: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = tailback.run(scenario, sets=FLOOD, out=tmp_path / "run")
    assert TOOLS["tc"].nodes(result) == ["producer", "consumer"]
    text = printed(capsys, tmp_path / "run", "--as", "tc", "--host", "producer")
    lines = text.splitlines()
    assert lines[0] == FQ_CODEL
    assert lines[3].startswith("  maxpacket 1442 drop_overlimit 0 new_flow_count ")
    assert re.fullmatch(r"  new_flows_len \d+ old_flows_len \d+", lines[4])
    assert len(lines) == 5
    of_tc = tc_counted(text)
    end = next(end for end in result.meta["veth"]["ends"] if end["name"] == "producer-consumer")
    assert of_tc["dropped"] == end["counters"]["qdisc_drops"]
    # Up to nine packets that were handed over and could not go count as sent, and wait again.
    twice = of_tc["packets"] + of_tc["dropped"] + of_tc["backlog"] - end["counters"]["offered_packets"]
    assert 0 <= twice <= 9
    assert of_tc["requeues"] > 0
    # The flood's datagrams have 1442 B, the pings' less.
    assert 1400 < of_tc["bytes"] / of_tc["packets"] < 1442
    assert of_tc["backlog_bytes"] == 1442 * of_tc["backlog"] > 0
    # Answers come one by one over the other end, and nothing waits there.
    answers = tc_counted(printed(capsys, tmp_path / "run", "--as", "tc", "--host", "consumer"))
    assert 0 < answers["packets"] < 10
    assert answers["bytes"] == 98 * answers["packets"]
    assert answers["backlog"] == answers["dropped"] == 0


@pytest.mark.parametrize(
    ("kind", "head", "own"),
    [
        ("sfq", "limit 127p quantum 1514b depth 127 divisor 1024 ", []),
        (
            "codel",
            "limit 1000p target 5ms interval 100ms ",
            ["  count N lastcount N ldelay", "  maxpacket N ecn_mark N drop_overlimit N"],
        ),
        ("pfifo", "limit 1000p", []),
    ],
)
def test_tc_of_other_disciplines_of_a_veth_pair(kind: str, head: str, own: list[str]) -> None:
    result = tailback.run("veth-dark-buffer", sets=[*FLOOD, f"veth.qdisc={{kind: {kind}}}"])
    text = as_tool(result, "tc", "producer")
    lines = text.splitlines()
    assert lines[0] == f"qdisc {kind} 8001: dev producer-consumer root refcnt 2 {head}"
    assert tc_counted(text)["packets"] > 1000
    for line, start in zip(lines[3:], own, strict=True):
        assert re.sub(r"\d+", "N", line).startswith(start)


def test_tc_has_nothing_of_a_veth_pair_without_a_discipline() -> None:
    result = tailback.run("veth-dark-buffer", sets=[*FLOOD, "veth.qdisc={kind: noqueue}"])
    assert TOOLS["tc"].nodes(result) == []
    with pytest.raises(InputError, match="expected a Linux bridge, or a veth pair with a qdisc"):
        as_tool(result, "tc")


def test_pcm_of_a_gpu(pfc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, pfc, "--as", "pcm", "--host", "h1")
    assert "ItoM" not in text
    counters = json.loads((pfc / "counters.json").read_text())["nodes"]["h1"][""]
    assert f"BAR1 stalled (us)                  {counters['bar1_stalled_us']}\n" in text


def test_a_scenario_is_run_and_nothing_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("first-flow", "--as", "ethtool", "--host", "h1", "--set", "run.duration=1ms", "--seed", "7")
    assert ethtool(printed(capsys, *arguments))["rx_prio3_packets"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["first-flow", "--as", "ethtol"],
            '--as: found "ethtol", expected one of ethtool, rdma, mlnx_qos, sonic, tc, mpstat, pcm',
        ),
        (
            ["veth-bql", "--set", "run.duration=60ms", "--as", "mlnx_qos"],
            "--as: found nothing of mlnx_qos in the run veth-bql, expected a host with a NIC",
        ),
        (
            ["tcp-incast", "--set", "run.duration=1us", "--as", "rdma"],
            "--as: found nothing of rdma in the run tcp-incast, expected a host with queue pairs of RoCE",
        ),
        (
            ["first-flow", "--as", "ethtool", "--host", "h9"],
            '--host: found "h9", expected a host or a port of a switch, one of h0..sw0:h1',
        ),
        (
            ["no-such-thing", "--as", "ethtool"],
            "no-such-thing: found no such file, expected a file or one of",
        ),
    ],
)
def test_what_is_refused(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["counters", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(text)
    assert err.count("\n") == 1


def test_a_folder_that_is_no_run(tmp_path: Path, pfc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["counters", str(tmp_path), "--as", "rdma"]) == 2
    expected = f"{tmp_path}: found no summary.json, expected the folder of a run\n"
    assert capsys.readouterr().err == expected
    assert cli.main(["counters", str(pfc.parent), "--as", "rdma"]) == 2
    assert capsys.readouterr().err.endswith(f"expected the folder of a run, perhaps {pfc}\n")
    assert cli.main(["counters", str(pfc), "--as", "rdma", "--set", "run.seed=2"]) == 2
    assert "the folder of a run" in capsys.readouterr().err


def test_every_tool_has_a_text_for_each_of_its_hosts(contention: Result) -> None:
    for name, style in TOOLS.items():
        for node in style.nodes(contention):
            assert as_tool(contention, name, node).endswith("\n")
    with pytest.raises(InputError):
        as_tool(contention, "ethtool", "sw0")


def test_hosts_of_the_hpcc_profile_have_what_they_count(tmp_path: Path) -> None:
    config = Path(__file__).parent.parent / "crates/compat/tests/data/hpcc/single_flow/config.txt"
    assert cli.main(["hpcc", str(config), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    result = Result.load(tmp_path / "run")
    sender = result.senders[0]
    counters = ethtool(as_tool(result, "ethtool", sender))
    assert counters["tx_prio3_packets"] > 0
    assert "rx_prio3_packets" not in counters, "receivers are not counted there"
    switch = TOOLS["sonic"].nodes(result)[0]
    (_, interfaces), (_, received), _, (_, shared), (_, headroom), _ = tables(
        as_tool(result, "sonic", switch)
    )
    for row in interfaces.values():
        assert row["RX_OK"] != "N/A"
        assert row["RX_DRP"] == row["TX_DRP"] == "N/A"
    for table in (shared, headroom):
        assert {cell for row in table.values() for cell in list(row.values())[1:]} == {"N/A"}
    assert all(row["PFC3"] == "0" for row in received.values())
