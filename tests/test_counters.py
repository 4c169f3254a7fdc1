"""Counters as the tools print them: layouts, names, where the figures come from, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import tailback
from tailback import cli
from tailback.counters import STYLES, as_tool
from tailback.results import Result
from tailback.scenario import ScenarioError

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
    for host in STYLES["rdma"].nodes(result):
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
    assert text.startswith("Receive buffer size (bytes): 147072,114944,0,0,0,0,0,0,max_buffer_size=262016\n")
    for line in (
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


def test_pcm(contention: Result) -> None:
    assert STYLES["pcm"].nodes(contention) == ["h0", "h1"]
    rows = dict(re.split(r" {2,}", line) for line in as_tool(contention, "pcm", "h1").splitlines())
    assert int(rows["ItoM (total)"]) == int(rows["ItoM (miss)"]) + int(rows["ItoM (hit)"]) > 0
    hits = 100 * int(rows["ItoM (hit)"]) / int(rows["ItoM (total)"])
    assert float(rows["DDIO hit rate (%)"]) == pytest.approx(hits, abs=0.06)
    lines = contention.plan["nics"][-1]["host_path"]["path"]["iio_lines"]
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
    assert STYLES["tc"].nodes(result) == ["producer", "consumer"]
    text = printed(capsys, tmp_path / "run", "--as", "tc", "--host", "producer")
    lines = text.splitlines()
    assert lines[0] == FQ_CODEL
    assert lines[3].startswith("  maxpacket 1442 drop_overlimit 0 new_flow_count ")
    assert re.fullmatch(r"  new_flows_len \d+ old_flows_len \d+", lines[4])
    assert len(lines) == 5
    of_tc = tc_counted(text)
    end = next(end for end in result.meta["veth"]["ends"] if end["name"] == "producer-consumer")
    assert of_tc["dropped"] == end["counters"]["qdisc_drops"]
    # A packet that the full ring gave back has been sent, and waits again.
    twice = of_tc["packets"] + of_tc["dropped"] + of_tc["backlog"] - end["counters"]["offered_packets"]
    assert twice in ((0, 1) if scenario == "veth-dark-buffer" else (0,))
    assert (of_tc["requeues"] > 0) == (scenario == "veth-dark-buffer")
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
    assert STYLES["tc"].nodes(result) == []
    with pytest.raises(ScenarioError, match="expected a Linux bridge, or a veth pair with a qdisc"):
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
            '--as: found "ethtol", expected one of ethtool, rdma, mlnx_qos, tc, mpstat, pcm',
        ),
        (
            ["first-flow", "--as", "mlnx_qos"],
            "--as: found nothing of mlnx_qos in the run first-flow, expected a host with host.path",
        ),
        (
            ["tcp-incast", "--set", "run.duration=1us", "--as", "rdma"],
            "--as: found nothing of rdma in the run tcp-incast, expected a host with queue pairs of RoCE",
        ),
        (
            ["first-flow", "--as", "ethtool", "--host", "h9"],
            '--host: found "h9", expected a host, one of h0..h1',
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
    for name, style in STYLES.items():
        for node in style.nodes(contention):
            assert as_tool(contention, name, node).endswith("\n")
    with pytest.raises(ScenarioError):
        as_tool(contention, "ethtool", "sw0")


def test_hosts_of_the_hpcc_profile_have_what_they_count(tmp_path: Path) -> None:
    config = Path(__file__).parent.parent / "crates/sim/tests/data/hpcc/single_flow/config.txt"
    assert cli.main(["hpcc", str(config), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    result = Result.load(tmp_path / "run")
    sender = result.senders[0]
    counters = ethtool(as_tool(result, "ethtool", sender))
    assert counters["tx_prio3_packets"] > 0
    assert "rx_prio3_packets" not in counters, "receivers are not counted there"
