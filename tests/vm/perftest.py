"""perftest's `ib_write_bw`, `ib_send_bw` and `ib_read_bw`, unmodified, on soft-RoCE in a virtual machine, to
`tailback endpoint` and back.

`make test-vm` runs it; it is no part of `make test`. Needs root, and a minute for the image when there is
none. What flows stays on taps of a network namespace that is made for it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import Machine, There
from tailback import Result

ENDPOINT_AT, MACHINE_AT = "10.85.0.2", "10.85.0.1"
"""Of the exchange, on the second tap; the first has what is written."""
THERE = There("tailback-vm", ENDPOINT_AT, MACHINE_AT)
QPS, MESSAGE, MESSAGES = 2, 65_536, 50

SCENARIO = f"""
name: perftest
run: {{duration: 60s}}
topology: {{kind: point-to-point, link: {{rate: 200Mbps, delay: 10us}}}}
host: {{mtu: 1024B, congestion: dcqcn, transport: {{adaptive_timeout: null}}}}
traffic:
  - {{kind: write, from: h0, to: h1, qps: {QPS}, message: {MESSAGE}B, depth: 16, messages: {MESSAGES}}}
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with THERE.booted(tmp_path_factory.mktemp("vm")) as made:
        yield made


def endpoint(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return THERE.endpoint(folder, SCENARIO, *arguments)


def perftest(verb: str, *more: str) -> str:
    options = f"-d rxe0 -q {QPS} -s {MESSAGE} -n {MESSAGES} -t 16 -x 1 -m 1024"
    return " ".join([f"ib_{verb}_bw", options, *more])


def rate_of(output: str) -> float:
    """MiB/s of the line of results."""
    found = re.search(rf"^ {MESSAGE}\s+\d+\s+[\d.]+\s+([\d.]+)", output, re.MULTILINE)
    assert found, output
    return float(found[1])


VERBS = pytest.mark.parametrize("verb", ["write", "send", "read"])


@VERBS
def test_perftest_has_an_end_point_as_its_server(machine: Machine, tmp_path: Path, verb: str) -> None:
    at = ("--perftest", ENDPOINT_AT)
    ours = endpoint(tmp_path, "h1=rdma0", "--verb", verb, *at, "--capture", "h1")
    machine.start(f"for try in $(seq 20); do {perftest(verb, ENDPOINT_AT)} && break; sleep 1; done")
    status, output = machine.end()
    told, _ = ours.communicate(timeout=120)
    print(output, told)
    assert (status, ours.returncode) == (0, 0)
    assert rate_of(output) > 0
    if verb == "read":  # the payload leaves here
        return
    flows = Result.load(tmp_path / "run").flows.to_pylist()
    assert [row["bytes_delivered"] for row in flows] == [MESSAGE * MESSAGES] * QPS


@VERBS
def test_an_end_point_has_perftest_as_its_server(machine: Machine, tmp_path: Path, verb: str) -> None:
    machine.start(perftest(verb))
    at = ("--perftest", MACHINE_AT)
    ours = endpoint(tmp_path, "h0=rdma0", "--verb", verb, *at, "--capture", "h0")
    told, _ = ours.communicate(timeout=120)
    status, output = machine.end()
    print(output, told)
    assert (status, ours.returncode) == (0, 0)
    assert rate_of(output) > 0
    flows = Result.load(tmp_path / "run").flows.to_pylist()
    assert [(row["state"], row["messages_completed"]) for row in flows] == [("done", MESSAGES)] * QPS


def test_red_in_its_kernel_marks_and_an_end_point_slows_down(machine: Machine, tmp_path: Path) -> None:
    """From one tap to the other, across a bridge with RED behind a rate of 40 Mbit/s."""
    machine.run("rdma link delete rxe0; ip link add br0 type bridge && ip link set br0 mtu 4300 up")
    for end in ("eth0", "eth1"):
        machine.run(f"ip addr flush dev {end} && ip link set {end} mtu 4300 master br0")
    machine.run("tc qdisc add dev eth1 root handle 1: tbf rate 40mbit burst 8kb limit 1mb")
    red = "limit 1000000 min 30000 max 90000 avpkt 1000 burst 45 bandwidth 40mbit probability 0.1 ecn"
    machine.run(f"tc qdisc add dev eth1 parent 1: handle 2: red {red}")
    # What a NIC of 100 Gbit/s adds at a time is half of this rate.
    slow = ["run.duration=8s", "traffic.0.messages=null", "traffic.0.depth=2"]
    slow += ["host.dcqcn.rpg_ai_rate=1", "host.dcqcn.rpg_hai_rate=1"]
    sets = [part for setting in slow for part in ("--set", setting)]
    ours = endpoint(tmp_path, "h0=rdma0", "h1=mgmt0", *sets)
    told, _ = ours.communicate(timeout=200)
    queue = machine.run("tc -s qdisc show dev eth1")
    print(queue, told)
    assert ours.returncode == 0, told
    marked = int(re.search(r"marked (\d+)", queue)[1])  # type: ignore[index]
    flows = Result.load(tmp_path / "run").flows.to_pylist()
    seen = {
        name: sum(row[name] for row in flows)
        for name in ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "bytes_delivered")
    }
    print(seen)
    assert 0 < seen["np_ecn_marked_roce_packets"] <= marked
    assert seen["rp_cnp_handled"] > 0
    assert 0 <= seen["np_cnp_sent"] - seen["rp_cnp_handled"] <= QPS, "a CNP may be on its way at the end"
    assert 0.5 * 40e6 < seen["bytes_delivered"] < 40e6, "less than the rate, and not for want of marks"
