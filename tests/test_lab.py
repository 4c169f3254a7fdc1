"""Real labs: what is planned, applied and taken back, what is checked, and what recorded outputs become."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tailback import InputError, cli
from tailback.lab import readers, recorded
from tailback.lab.ansible import RAW_MODULE
from tailback.lab.model import read
from tailback.lab.steps import plan
from tailback.metrics import METRICS
from tailback.results import Result
from tailback.study.fit_design import read_fit
from test_point import needs_namespaces, needs_root

RIG = Path(__file__).parent / "lab_rig.py"
OUTPUTS = Path(__file__).parent / "lab_outputs"
PUBLISHED_CP = """
echo 0000:61:00.0 > /sys/bus/pci/drivers/vfio-pci/unbind
echo mlx5_core > /sys/bus/pci/devices/0000:61:00.0/driver_override
echo 0000:61:00.0 > /sys/bus/pci/drivers/mlx5_core/bind
echo 0000:61:00.1 > /sys/bus/pci/drivers/mlx5_core/unbind
echo vfio-pci > /sys/bus/pci/devices/0000:61:00.1/driver_override
echo 0000:61:00.1 > /sys/bus/pci/drivers/vfio-pci/bind
devlink dev param set pci/0000:41:00.1 name enable_roce value false cmode driverinit
devlink dev param set pci/0000:61:00.0 name enable_roce value false cmode driverinit
devlink dev reload pci/0000:41:00.1
devlink dev reload pci/0000:61:00.0
ethtool -G enp65s0f1np1 rx 8192
ethtool -G enp97s0f0np0 rx 8192
tc qdisc add dev enp65s0f1np1 root RED
tc qdisc add dev enp97s0f0np0 root RED
echo 1 > /sys/class/net/eth1/ecn/roce_np/enable/0
echo 1 > /sys/class/net/eth1/ecn/roce_rp/enable/0
ib_write_bw -d mlx5_0 -x 3 -D 10
ib_write_bw -d mlx5_0 -x 3 -D 10 10.0.0.1
ib_write_lat -d mlx5_0 -x 3 -n 5000
ib_write_lat -d mlx5_0 -x 3 -n 5000 10.0.0.1
"""
RED = "red limit 2000000 min 50000 max 200000 avpkt 1500 bandwidth 25Gbit ecn probability 0.5"
PUBLISHED_PFC = """
mlnx_qos -i eth1 --pfc 1,0,0,0,0,0,0,0
mlnx_qos -i eth1 --prio2buffer 1,0,0,0,0,0,0,0
mlnx_qos -i eth1 --cable_len 1
mlnx_qos -i eth1 --buffer_size 0,114944,0,0,0,0,0,0
ib_write_bw -d mlx5_0 -x 3 -s 65536 -D 30 -b 10.0.0.1
./ib_write_bw -d mlx5_0 -x 3 -s 65536 -D 30 -b --use_cuda=0 10.0.0.1
"""
QOS = """PFC configuration:
    priority    0   1   2   3   4   5   6   7
    enabled     0   0   0   1   0   0   0   0
    buffer      0   0   0   2   0   0   0   0
"""
BUFFERS = """Port buffer size = 262016
Spare buffer size = 147072
Buffer  Size      xoff_threshold  xon_threshold
0       20480     0               524160
1       114944    91392           81408
"""


@pytest.mark.parametrize(
    ("name", "published"), [("poor-mans-cp", PUBLISHED_CP), ("gpudirect-pfc", PUBLISHED_PFC)]
)
def test_the_plan_has_every_command_that_was_published(
    capsys: pytest.CaptureFixture[str], name: str, published: str
) -> None:
    assert cli.main(["lab", "plan", name]) == 0
    printed = capsys.readouterr().out
    lines = [line.split(": ", 1)[1] for line in printed.splitlines() if ": " in line and "#" not in line]
    missing = [line for line in published.replace("RED", RED).strip().splitlines() if line not in lines]
    assert missing == []


def test_what_takes_a_step_back_is_read_off_what_was_there(tmp_path: Path) -> None:
    """The lines that a shell runs before mlnx_qos changes anything, on what it prints in the documents."""
    steps = {step.do.split()[3]: step for step in plan(read("gpudirect-pfc")[0]) if "mlnx_qos" in step.do}
    (tmp_path / "mlnx_qos").write_text(f"#!/bin/sh\ncat <<'END'\n{QOS}END\n")
    (tmp_path / "mlnx_qos").chmod(0o755)
    (tmp_path / "sizes").write_text(BUFFERS)

    def taken_back(option: str) -> list[str]:
        way = steps[option].back
        assert way is not None
        line = way.read.replace("/sys/class/net/eth1/qos/buffer_size", str(tmp_path / "sizes"))
        path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(["sh", "-c", line], env=path, capture_output=True, text=True, check=True)
        return way.lines(done.stdout)

    assert taken_back("--pfc") == ["mlnx_qos -i eth1 --pfc 0,0,0,1,0,0,0,0"]
    assert taken_back("--prio2buffer") == ["mlnx_qos -i eth1 --prio2buffer 0,0,0,2,0,0,0,0"]
    assert taken_back("--buffer_size") == ["mlnx_qos -i eth1 --buffer_size 20480,114944,0,0,0,0,0,0"]
    assert steps["--cable_len"].back is None


class _Unsafe(yaml.SafeLoader):
    pass


_Unsafe.add_constructor("!unsafe", lambda _loader, node: ("unsafe", node.value))


@pytest.mark.parametrize("name", ["poor-mans-cp", "gpudirect-pfc"])
def test_the_playbook_runs_what_the_plan_prints_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert cli.main(["lab", "apply", name, "--out", str(tmp_path), "--only-write"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "apply.yaml")
    plays = yaml.load((tmp_path / "apply.yaml").read_text(), _Unsafe)
    steps = plan(read(name)[0])
    # Hosts have other names there, since a name may be a pattern to Ansible.
    numbers = {name: f"host_{number}" for number, name in enumerate(read(name)[0].hosts)}
    read_first = [(numbers[s.host], s.back.read if s.back else "", s.do) for s in steps]
    wanted = [(host, line) for host, *lines in read_first for line in lines if line]
    tasks = [(play["hosts"], task) for play in plays for task in play["tasks"]]
    shells = [(host, task[RAW_MODULE]) for host, task in tasks if RAW_MODULE in task]
    assert shells == [(host, ("unsafe", line)) for host, line in wanted]
    others = [task for _, task in tasks if RAW_MODULE not in task]
    assert {task["delegate_to"] for task in others} == {"localhost"}
    assert len(others) == sum(step.back is not None for step in steps)
    hosts = yaml.safe_load((tmp_path / "inventory.yaml").read_text())["all"]["hosts"]
    assert hosts[numbers["vm00"]] == {"ansible_host": "vm00", "ansible_user": "root"}


ONE = {
    "name": "one",
    "scenario": "first-flow",
    "hosts": {"a": {"at": "local", "model": "h0"}, "b": {"at": "local", "model": "h1"}},
    "nics": [{"host": host, "interface": f"eth-{host}", "address": "10.0.0.1/24"} for host in "ab"],
    "tests": [{"name": "t", "tool": "ib_write_bw", "server": "a", "client": "b", "seconds": 2}],
}


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        ({"hosts": {"a": {"adress": "local"}}}, 3, "hosts.a.adress: found an unknown field, expected"),
        ({"hosts": {"a": {"at": "a; reboot"}}}, 3, "hosts.a.at: found"),
        ({"nics": [{"host": "c", "interface": "eth0"}]}, 0, "nics.0.host: found c, expected one of a, b"),
        ({"scenario": "nowhere.yaml"}, 0, "found no such file"),
        ({"nics": []}, 0, "tests.0.server: found a, expected a host with one of nics: there is none"),
        (
            {"bridges": [{"host": "a", "name": "b", "ports": [{"interface": "p"}]}]},
            0,
            "expected a list of at least 2",
        ),
    ],
)
def test_a_wrong_file_is_a_line_with_file_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], line: int, said: str
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(yaml.safe_dump({**ONE, **change}, sort_keys=False))
    assert cli.main(["lab", "plan", str(file)]) == 2
    err = capsys.readouterr().err
    assert said in err, err
    if "scenario" not in change:
        assert err.startswith(f"{file}:"), err


@needs_root
@needs_namespaces
def test_a_lab_on_one_machine_is_set_up_driven_read_and_taken_back(tmp_path: Path) -> None:
    command = ["unshare", "-rn", sys.executable, str(RIG), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verify_before"][0] == 1
    assert told["apply"][0] == 0, told["apply"]
    ran = [line.split(": ", 1)[1] for line in told["apply"][2].splitlines()]
    assert ran == [step.do for step in plan(read(str(tmp_path / "lab.yaml"))[0])]
    assert all(line in told["plan"] for line in ran)
    assert told["again"][0] == 2
    assert "expected none: tailback lab undo takes it back" in told["again"][2]
    assert any(line.startswith("br-cp") for line in told["between"])
    assert any("qdisc tbf" in line for line in told["between"])
    # No RDMA device: that check alone fails.
    wrong = [line.split()[1:5] for line in told["verify"][1].splitlines() if line.startswith("NOT")]
    assert wrong == [["a", "state", "of", "fake0"], ["b", "state", "of", "fake0"]]
    assert told["run"][0] == 0, told["run"]
    assert told["collect"][0] == 0, told["collect"]
    assert told["undo"] == [0, "", told["undo"][2]]
    assert told["at_last"] == told["at_first"]
    measured = Result.load(tmp_path / "measured")
    assert METRICS["perftest_bandwidth"](measured) == pytest.approx(1000.0)
    assert METRICS["write_latency"](measured) == pytest.approx(10.4e-6)
    # Each look at the RDMA counters counts 10 CNPs more, over both devices: so they were read while it ran.
    cnps = measured.bins.values("h0", "np_cnp_sent")
    first, last = (
        json.loads((tmp_path / "recorded/bandwidth" / when / "a/rdma-fake0.json").read_text())[0][
            "np_cnp_sent"
        ]
        for when in ("before", "after")
    )
    assert measured.counters_at["h0"]["np_cnp_sent"] == last - first
    assert "rp_cnp_handled" not in measured.counters_at["h0"]  # it stayed where it was
    assert cnps.sum() == pytest.approx(measured.counters_at["h0"]["np_cnp_sent"])
    assert cnps.sum() >= 60
    # A step that fails says so in one line, and what was done before it can be taken back.
    assert told["fails"][0] == 1
    assert told["fails"][2].splitlines()[-1].startswith("tailback: step ")
    assert told["undo_broken"][0] == 0, told["undo_broken"]
    assert [name.split("@")[0].rstrip(":") for name in told["links"]] == ["p0"]


THROUGH_ANSIBLE = """
import subprocess, sys
from pathlib import Path
from tailback.lab import ansible, apply
from tailback.lab.model import read
subprocess.run(["ip", "link", "add", "p0", "type", "veth", "peer", "name", "p1"], check=True)
lab, folder = read(sys.argv[1])[0], Path(sys.argv[2])
apply._here = lambda lab: False
apply.prepare(lab, folder)
apply.apply(lab, folder, print)
def seen(word):
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout.count(word)
print("BETWEEN", seen("master br-cp"))
print("FAILED", apply.undo(lab, folder, lambda line: None).failed)
print("AFTER", seen("br-cp"))
"""
BRIDGE_ONLY = {
    "name": "bridge-only",
    "scenario": "poor-mans-cp",
    "hosts": {"hv": {"at": "local", "model": "br0"}},
    "commands": [{"host": "hv", "do": "echo '{{ 1 + 1 }}' > /dev/null", "undo": "echo '{{ no_such }}'"}],
    "bridges": [{"host": "hv", "name": "br-cp", "ports": [{"interface": "p0"}, {"interface": "p1"}]}],
}


@needs_namespaces
def test_ansible_applies_and_takes_back(tmp_path: Path) -> None:
    pytest.importorskip("ansible_runner", reason="pip install 'tailback[lab]'")
    file = tmp_path / "lab.yaml"
    file.write_text(yaml.safe_dump(BRIDGE_ONLY))
    command = ["unshare", "-rn", sys.executable, "-c", THROUGH_ANSIBLE, str(file), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "BETWEEN 2\nFAILED []\nAFTER 0\n" in done.stdout, done.stdout


def collected(tmp_path: Path, name: str, test: str) -> Result:
    out = tmp_path / test
    assert cli.main(["lab", "collect", name, str(OUTPUTS / name), "--test", test, "--out", str(out)]) == 0
    return Result.load(out)


def test_what_the_congestion_point_printed_becomes_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = collected(tmp_path, "poor-mans-cp", "bandwidth")
    printed = capsys.readouterr().out
    assert METRICS["perftest_bandwidth"](result) == pytest.approx(1300)
    assert METRICS["write_latency"](result) == pytest.approx(10.77e-6)
    assert METRICS["softirq_share"](result) == 1.0
    assert METRICS["bridge_counter"](result, name="red_marked") == 184
    assert result.counters_at["h0"]["np_cnp_sent"] == result.counters_at["h1"]["rp_cnp_handled"] == 184
    assert result.counters_at["br0:h0"]["qdisc_sent_packets"] == 7_172_249
    assert result.summary["signals"]["ecn_marked_packets"] == 184
    assert "tc -s qdisc of enp65s0f1np1 at hv: not recorded" in printed
    page = result.explain()
    assert page.headline == "The bottleneck is probably the core of br0 that forwards."
    assert page.sure.startswith("A guess: it was measured in a lab.")
    assert cli.main(["compare", str(tmp_path / "bandwidth"), str(tmp_path / "bandwidth")]) == 0
    assert "a real lab" in (tmp_path / "bandwidth" / "report.html").read_text()
    free = {"bridge.costs.receive": {"low": "1us", "high": "3us"}}
    asked = {"scenario": "poor-mans-cp", "free": free}
    fit = read_fit(tmp_path / "bandwidth" / "measured.csv", asked)
    assert [row.metric for row in fit.observations] == [
        "perftest_bandwidth",
        "write_latency",
        "softirq_share",
    ]


def test_pauses_of_the_gpu_become_pauses_of_a_run(tmp_path: Path) -> None:
    result = collected(tmp_path, "gpudirect-pfc", "gpu")
    assert METRICS["perftest_bandwidth"](result) == pytest.approx(5295.75)
    pauses = {pause["port"]: (pause["rx_frames"], pause["transitions"]) for pause in result.meta["pauses"]}
    assert pauses == {"h0:h1": (12_667, 5418), "h1:h0": (80, 0)}
    assert [flow["goodput_bps"] for flow in result.flows.to_pylist()] == [pytest.approx(5295.75 * 2**22)] * 2
    assert cli.main(["explain", str(tmp_path / "gpu"), "--try"]) == 2
    assert collected(tmp_path, "gpudirect-pfc", "memory").meta["pauses"] == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("bandwidth/perftest.txt", "Segmentation fault", "expected the table of ib_write_bw"),
        (
            "bandwidth/after/hv/tc-enp97s0f0np0.txt",
            "RTNETLINK answers",
            "expected what tc -s qdisc show prints",
        ),
        ("bandwidth/after/vm00/rdma-mlx5_0.json", '[{"port": ', "expected the JSON of rdma -j statistic"),
        (
            "bandwidth/during/hv/mpstat.json",
            '{"sysstat": {"hosts": 3}}',
            "expected sysstat, hosts, statistics",
        ),
        ("bandwidth/during-1/at", "soon", "found no number, expected seconds since the start of the test"),
    ],
)
def test_an_output_of_something_else_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, text: str, said: str
) -> None:
    given = tmp_path / "given"
    for one in (OUTPUTS / "poor-mans-cp").rglob("*.txt"):
        copy = given / one.relative_to(OUTPUTS / "poor-mans-cp")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(one.read_text())
    (given / file).parent.mkdir(parents=True, exist_ok=True)
    (given / file).write_text(text)
    assert cli.main(["lab", "collect", "poor-mans-cp", str(given), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(str(given / file)), err
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_json_says_what_text_says() -> None:
    marked = {"kind": "red", "bytes": 29_800_422_882, "packets": 7_172_249, "drops": 0, "overlimits": 184}
    rows = [{"kind": "tbf", "bytes": 1}, {**marked, "requeues": 34, "backlog": 0, "marked": 184, "early": 0}]
    text = (OUTPUTS / "poor-mans-cp/bandwidth/after/hv/tc-enp97s0f0np0.txt").read_text()
    both = readers.tc(json.dumps(rows)), readers.tc(text)
    assert both[0].counters.items() <= both[1].counters.items()
    row = {"cpu": "31", "soft": 100.0, "irq": 0.0, "guest": 0.0}
    steps = [{"cpu-load": [{**row, "cpu": "all"}, {**row, "soft": 90.0}]}, {"cpu-load": [row]}]
    found = readers.mpstat(json.dumps({"sysstat": {"hosts": [{"statistics": steps}]}}))
    assert found == {31: {"softirq": pytest.approx(0.95), "irq": 0.0, "guest": 0.0}}
    results = {
        "MsgSize": 65536,
        "n_iterations": 104_000,
        "BW_peak": 0.0,
        "BW_average": 1300.0,
        "MsgRate": 0.02,
    }
    table = (OUTPUTS / "poor-mans-cp/bandwidth/perftest.txt").read_text()
    assert readers.perftest(json.dumps({"results": results})) == readers.perftest(table)
    head, tail = "{\ntest_info: {\nMtu: 1024,\n},\nresults: {\n", "MsgRate: 0.020800,\n},\n}\n"
    old = f"{head}MsgSize: 65536,\nn_iterations: 104000,\nBW_peak: 0.00,\nBW_average: 1300.00,\n{tail}"
    # As perftest 4.5 writes it.
    assert readers.perftest(old) == readers.perftest(table)
    with pytest.raises(readers.UnexpectedOutput):
        readers.perftest("{\nresults: {\n},\n}\n")
    gigabits = table.replace("MiB/sec", "Gb/sec").replace("1300.00", "10.905")
    assert readers.perftest(gigabits).bandwidth_bps == pytest.approx(10.905e9)


def test_a_lab_that_is_not_there_names_the_examples() -> None:
    with pytest.raises(InputError, match="one of the examples gpudirect-pfc, poor-mans-cp"):
        read("nowhere.yaml")


@pytest.mark.parametrize(
    ("reader", "text", "expected"),
    [
        (
            readers.rdma,
            "link mlx5_0/1 np_cnp_sent 184\nlink mlx5_1/1 np_cnp_sent 0\n",
            "found 2 links: mlx5_0/1, mlx5_1/1",
        ),
        (
            readers.rdma,
            json.dumps([{"ifname": one, "port": 1, "np_cnp_sent": 1} for one in ("mlx5_0", "mlx5_1")]),
            "found 2 links: mlx5_0/1, mlx5_1/1",
        ),
        (readers.ethtool, "NIC statistics:\n rx_a: 1\nNIC statistics:\n rx_a: 2\n", "rx_a comes again"),
        (
            readers.perftest,
            " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
            " 2 5000 0.05 0.04 2.700000\n 65536 5000 97.80 97.60 0.186157\n",
            "found 2 sizes: 2 B, 65536 B",
        ),
        (
            readers.perftest,
            '{"results": {"MsgSize": 2, "BW_average": 1}, "results": {"MsgSize": 4, "BW_average": 1}}',
            "found 2 sizes: 2 B, 4 B",
        ),
        (
            readers.perftest,
            json.dumps({"results": [{"MsgSize": 2, "BW_average": 1}, {"MsgSize": 4, "BW_average": 1}]}),
            "found 2 sizes: 2 B, 4 B",
        ),
        (
            readers.perftest,
            "{\nresults: {\nMsgSize: 2,\nBW_average: 1.00,\n},\n{\nMsgSize: 4,\nBW_average: 1.00,\n},\n}\n",
            "found 2 sizes: 2 B, 4 B",
        ),
        (
            readers.rdma,
            "link mlx5_0/1 np_cnp_sent 184\nlink mlx5_0/1 np_cnp_sent 190\n",
            "found 2 links: mlx5_0/1, mlx5_0/1",
        ),
        (readers.rdma, "np_cnp_sent 184\nnp_cnp_sent 0\n", "np_cnp_sent comes again"),
        (
            readers.tc,
            "".join(
                f"qdisc {kind} 0: dev {device} root refcnt 2\n"
                " Sent 1 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)\n backlog 0b 0p requeues 0\n"
                for kind, device in (("red", "eth0"), ("pfifo_fast", "eth1"))
            ),
            "found 2 devices: eth0, eth1, expected one device, as tc -s qdisc show dev eth0 prints it",
        ),
        (
            readers.tc,
            json.dumps([{"kind": "pfifo", "dev": one, "root": True, "bytes": 1} for one in ("a", "b")]),
            "found 2 devices: a, b, expected one device, as tc -s qdisc show dev a prints it",
        ),
        (
            readers.tc,
            json.dumps([{"kind": "pfifo", "root": True, "bytes": one} for one in (1, 2)]),
            "found 2, expected one root, as tc -s qdisc show dev DEV prints it",
        ),
        (
            readers.mpstat,
            json.dumps({"sysstat": {"hosts": [{"nodename": one, "statistics": []} for one in ("a", "b")]}}),
            "found 2 machines: a, b, expected one run of mpstat",
        ),
        (
            readers.mpstat,
            "Linux 6.1 (a)  01/01/26\nLinux 6.1 (b)  01/01/26\n",
            "found 2 machines: a, b, expected one run of mpstat",
        ),
    ],
)
def test_of_several_none_is_chosen_silently(reader: Any, text: str, expected: str) -> None:
    with pytest.raises(readers.UnexpectedOutput) as caught:
        reader(text)
    assert expected in f"found {caught.value.found}, expected {caught.value}"


@pytest.mark.parametrize(("average", "bps"), [(97.60, 97.6e9), (11634.83, 97.6e9)])
def test_the_unit_of_perftests_json_is_that_of_its_message_rate(average: float, bps: float) -> None:
    results = {"MsgSize": 65536, "n_iterations": 5000, "BW_average": average, "MsgRate": 0.186157}
    found = readers.perftest(json.dumps({"results": results})).bandwidth_bps
    assert found == pytest.approx(bps, rel=0.01)
    for wrong in ({"MsgRate": 0}, {"MsgRate": 5.0}):
        with pytest.raises(readers.UnexpectedOutput):
            readers.perftest(json.dumps({"results": {**results, **wrong}}))


def test_columns_are_found_by_their_headings() -> None:
    table = (
        " #bytes #sl #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
        " 65536 3 5000 97.80 90.60 0.172000\n"
    )
    found = readers.perftest(table)
    assert (found.message_bytes, found.iterations) == (65536, 5000)
    assert found.bandwidth_bps == pytest.approx(90.6e9)


@pytest.mark.parametrize(("shown", "value"), [("64b", 64), ("64Kb", 65536), ("1.5Mb", 3 << 19)])
def test_tc_counts_bytes_by_1024(shown: str, value: int) -> None:
    text = (
        "qdisc red 8001: root refcnt 2 limit 400Kb min 30Kb max 90Kb ecn\n"
        " Sent 1000 bytes 10 pkt (dropped 0, overlimits 5 requeues 0)\n"
        f" backlog {shown} 42p requeues 0\n  marked 5 early 0 pdrop 0 other 0\n"
    )
    assert readers.tc(text).backlog_bytes == value


def test_of_several_disciplines_the_root_is_read() -> None:
    rows = [{"kind": "fq_codel", "parent": ":1", "bytes": 1}, {"kind": "mq", "root": True, "bytes": 2}]
    assert readers.tc(json.dumps(rows)).kind == "mq"
    text = "".join(
        f"qdisc {head}\n Sent 1 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)\n"
        for head in ("fq_codel 0: parent :1 limit 10240p", "mq 0: root")
    )
    assert readers.tc(text).kind == "mq"


def test_two_files_of_one_name_must_agree(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    shutil.copytree(OUTPUTS / "poor-mans-cp", outputs)
    table = outputs / "bandwidth" / "perftest.txt"
    results = {"MsgSize": 65536, "n_iterations": 104000, "BW_average[MiB/sec]": 1300.0}
    (outputs / "bandwidth" / "perftest.json").write_text(json.dumps({"results": results}))
    lab, _ = read("poor-mans-cp")
    test = next(one for one in lab.tests if one.name == "bandwidth")
    assert recorded.read(lab, outputs, test).result.message_bytes == 65536
    table.write_text(table.read_text().replace("1300.00", "1200.00"))
    with pytest.raises(InputError, match=r"perftest\.txt: found other figures than in perftest\.json"):
        recorded.read(lab, outputs, test)


def recorded_lines(outputs: Path) -> list[str]:
    lab, _ = read("poor-mans-cp")
    test = next(one for one in lab.tests if one.name == "bandwidth")
    return recorded.read(lab, outputs, test).missing


def growth(outputs: Path, counter: str) -> int | None:
    """What a counter of vm00 grew by in the run that is made of the records; None: the run does not have it."""
    out = outputs.parent / "out"
    assert cli.main(["lab", "collect", "poor-mans-cp", str(outputs), "--out", str(out), "--force", "-q"]) == 0
    rows = Result.load(out).counters.to_pylist()
    return next((row["value"] for row in rows if (row["node"], row["counter"]) == ("h0", counter)), None)


@pytest.mark.parametrize(
    ("before", "after", "grew", "line"),
    [
        (7, 12, 5, None),
        (7, 3, 3, "np_cnp_sent fell from 7 to 3: it was reset, and counts from 0 there"),
        (7, None, None, "recorded only before the test, which tells nothing of it"),
        (None, 12, 12, "not recorded before the test, taken as counted from 0"),
    ],
)
def test_counters_are_what_they_grew_by_during_the_test(
    tmp_path: Path, before: int | None, after: int | None, grew: int | None, line: str | None
) -> None:
    outputs = tmp_path / "outputs"
    shutil.copytree(OUTPUTS / "poor-mans-cp", outputs)
    for when, value in (("before", before), ("after", after)):
        file = outputs / "bandwidth" / when / "vm00" / "rdma-mlx5_0.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if value is not None:
            file.write_text(f"link mlx5_0/1 np_cnp_sent {value}\n")
    lines = [one for one in recorded_lines(outputs) if "mlx5_0 at vm00" in one]
    assert lines == ([f"rdma statistic of mlx5_0 at vm00: {line}"] if line else [])
    assert growth(outputs, "np_cnp_sent") == grew


@pytest.mark.parametrize(
    "file",
    ["after/vm02/rdma-mlx5_0.txt", "before/vm00/ethtool-eth9.txt", "during-1/hv/tc-eth9.json"],
)
def test_records_of_what_the_lab_does_not_have_are_named(tmp_path: Path, file: str) -> None:
    outputs = tmp_path / "outputs"
    shutil.copytree(OUTPUTS / "poor-mans-cp", outputs)
    known = recorded_lines(outputs)
    path = outputs / "bandwidth" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parents[1] / "at").write_text("1")
    path.write_text("np_cnp_sent 184\n")
    _, host, name = file.partition(".")[0].split("/")
    line = f"{name} of {host}: recorded and not read, for poor-mans-cp has no such host, interface or device"
    assert [one for one in recorded_lines(outputs) if one not in known] == [line]


@pytest.mark.parametrize(("text", "found"), [("", "an empty file"), ("\n oops\nmore", "'oops'")])
def test_the_first_words_of_a_text_of_another_kind_are_told(tmp_path: Path, text: str, found: str) -> None:
    outputs = tmp_path / "outputs"
    shutil.copytree(OUTPUTS / "poor-mans-cp", outputs)
    (outputs / "bandwidth" / "perftest.txt").write_text(text)
    with pytest.raises(InputError, match=re.escape(f"perftest.txt: found {found}, expected the table")):
        recorded_lines(outputs)


@pytest.mark.parametrize("unit", ["MiB/sec", "MB/sec", "Gb/sec"])
@pytest.mark.parametrize("rate", ["0.000000", "0.000012", None])
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_bandwidth_of_0_00_is_no_exact_0(unit: str, rate: str | None, form: str) -> None:
    heading = f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]"
    row = " 2          5000           0.00               0.00"
    results: dict[str, Any] = {"MsgSize": 2, "n_iterations": 5000, f"BW_average[{unit}]": 0.0}
    if rate is not None:
        heading, row, results = (
            f"{heading}   MsgRate[Mpps]",
            f"{row}   {rate}",
            results | {"MsgRate": float(rate)},
        )
    text = f"{heading}\n{row}\n" if form == "table" else json.dumps({"results": results})
    found = readers.perftest(text)
    if rate == "0.000012":
        assert found.bandwidth_bps == pytest.approx(12 * 2 * 8)
        assert found.resolution_bps == pytest.approx(0.5 * 2 * 8)
    else:
        assert found.bandwidth_bps == 0
        assert found.resolution_bps == pytest.approx(0.005 * (1e9 if unit == "Gb/sec" else 2**20 * 8))


@pytest.mark.parametrize("average", [0.0, 0.01, 0.04, 1300.0])
def test_what_perftest_rounds_is_fitted_no_more_closely_than_it_is_printed(
    average: float, tmp_path: Path
) -> None:
    outputs = tmp_path / "outputs"
    shutil.copytree(OUTPUTS / "poor-mans-cp", outputs)
    table = outputs / "bandwidth" / "perftest.txt"
    text = table.read_text().replace("1300.00", f"{average:.2f}").replace("0.020800", "0.000000")
    table.write_text(text)
    said = [line for line in recorded_lines(outputs) if "0.00" in line]
    assert len(said) == (average == 0)
    if said:
        assert (
            "perftest: its bandwidth is printed as 0.00, which is below 41.9 kbit/s, or nothing was"
            in said[0]
        )
    out = tmp_path / "out"
    assert cli.main(["lab", "collect", "poor-mans-cp", str(outputs), "--out", str(out), "-q"]) == 0
    (row,) = [line for line in (out / "measured.csv").read_text().splitlines() if "perftest" in line]
    name, value, at_most, unit, tolerance = row.split(",")
    assert (name, unit) == ("perftest_bandwidth", "MiB/s")
    assert (value, at_most) == (("", "0.005") if average == 0 else (f"{average:g}", ""))
    assert float(tolerance) == pytest.approx(max(0.01 * average, 0.005))


def test_a_latency_of_0_00_is_refused() -> None:
    text = (
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n"
        " 2       1000          0.00           0.00         0.00               0.00\n"
    )
    with pytest.raises(readers.UnexpectedOutput, match=r"a typical latency above 0\.00 us"):
        readers.perftest(text)


@pytest.mark.parametrize("number", ["1,000", "1.5", "0x10", "1e3", "5k", "7%"])
def test_a_counter_that_is_no_whole_number_is_refused_and_not_left_out(number: str) -> None:
    text = f"NIC statistics:\n     rx_packets: {number}\n     tx_packets: 5\n"
    with pytest.raises(readers.UnexpectedOutput, match="a counter as a whole number") as caught:
        readers.ethtool(text)
    assert caught.value.line_in(text) == 2


def test_lines_of_ethtool_may_end_as_windows_ends_them() -> None:
    assert readers.ethtool("NIC statistics:\r\n     a: 1\r\n     b: 2\r\n") == {"a": 1, "b": 2}


@pytest.mark.parametrize("average", ["1000.00", "0.50", "20.00"])
def test_a_bandwidth_that_its_rate_of_messages_contradicts_is_refused(average: str) -> None:
    text = (
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"
        f" 65536      1000           0.00                {average}              0.000100\n"
    )
    with pytest.raises(readers.UnexpectedOutput, match="BW average that is MsgRate times #bytes"):
        readers.perftest(text)
    assert readers.perftest(text.replace(average, "6.25")).bandwidth_bps == pytest.approx(6.25 * 2**23)


@pytest.mark.parametrize(
    "values", ["9.00 10.00 5.00 9.50", "1.00 2.00 3.00 2.50", "1.00 9.00 2.00 1.50"], ids=str
)
def test_latencies_that_are_not_in_order_are_refused(values: str) -> None:
    least, most, typical, p99 = values.split()
    heading = "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] 99% percentile[usec]"
    text = f" {heading}\n 2 1000 {least} {most} {typical} {p99}\n"
    with pytest.raises(readers.UnexpectedOutput, match="each at least the one before"):
        readers.perftest(text)
