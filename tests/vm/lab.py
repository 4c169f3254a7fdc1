"""`tailback lab` on a real kernel: soft-RoCE at both ends of a bridge with RED, in one virtual machine.

`make test-vm` runs it; it is no part of `make test`. Lines go to the machine over its serial line, in place
of ssh; all else is what `tailback lab` does. Both RDMA devices are in the machine's own namespace, as rxe of
kernel 6.1 knows no other, and the bridge between them in one of its own.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from machine import Machine, image
from tailback import Result, cli
from tailback.lab import apply, checks, drive
from tailback.lab.model import LabHost, read

NAMESPACE = "tailback-vm-lab"
RATE_MBPS = 20
LAB = f"""
name: soft-roce
scenario: poor-mans-cp
hosts:
  hv: {{at: local, model: br0}}
  a: {{at: local, model: h0}}
  b: {{at: local, model: h1}}
bridges:
  - host: hv
    name: br-cp
    ports:
      - interface: sA
        towards: h0
        qdisc:
          kind: tbf
          rate: {RATE_MBPS}Mbps
          burst: 20KB
          child:
            {{kind: red, limit: 1MB, min: 20KB, max: 60KB, avpkt: 1000B, burst: 45,
             bandwidth: {RATE_MBPS}Mbps, ecn: true, probability: 0.5}}
      - {{interface: sB, towards: h1}}
nics:
  - {{host: a, interface: vA, device: rxe0, gid: 1, address: 10.9.0.1/24, mtu: 1500}}
  - {{host: b, interface: vB, device: rxe1, gid: 1, address: 10.9.0.2/24, mtu: 1500}}
tests:
  - {{name: bandwidth, tool: ib_write_bw, server: a, client: b, connect: 127.0.0.1, seconds: 8, tclass: 2}}
"""
CABLES = """
ip netns add S
ip link add vA address 02:00:00:00:00:0a type veth peer name sA netns S
ip link add vB address 02:00:00:00:00:0b type veth peer name sB netns S
"""
ROUTES = """
cd /proc/sys/net/ipv4/conf; for i in all vA vB; do echo 1 > $i/accept_local; echo 0 > $i/rp_filter; done
ip route add 10.9.0.2/32 dev vA src 10.9.0.1
ip route add 10.9.0.1/32 dev vB src 10.9.0.2 metric 5
ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:0b dev vA nud permanent
ip neigh replace 10.9.0.1 lladdr 02:00:00:00:00:0a dev vB nud permanent
rdma link add rxe0 type rxe netdev vA
rdma link add rxe1 type rxe netdev vB
"""


class Guest:
    """The hosts of the lab, in one machine: its serial line has one line at a time."""

    def __init__(self, machine: Machine, lab: Any) -> None:
        self.machine, self.lab, self.lock, self.begun = machine, lab, threading.Lock(), 0

    def _run(self, line: str) -> tuple[int, str]:
        with self.lock:
            self.machine.start(line)
            return self.machine.end()

    def _there(self, host: LabHost, line: str) -> str:
        return f"ip netns exec S dash -c {shlex.quote(line)}" if host is self.lab.hosts["hv"] else line

    def _begin(self, host: LabHost, line: str) -> str:
        self.begun += 1
        files = f"/tmp/line{self.begun}"
        inner = f"({self._there(host, line)}); echo $? > {files}.part; mv {files}.part {files}.status"
        # Its output is nobody's on the serial line.
        self._run(f"dash -c {shlex.quote(inner)} > {files}.out 2> {files}.err < /dev/null &")
        return files

    def ask(
        self, host: LabHost, given: str | Sequence[str], patience_s: float = 60.0
    ) -> tuple[int, str, str]:
        """As `tailback.lab.remote_shell.ask`; other lines may run meanwhile."""
        line = given if isinstance(given, str) else shlex.join(given)
        files = self._begin(host, line)
        until = time.monotonic() + 4 * patience_s  # time is slower there
        while time.monotonic() < until:
            found, status = self._run(f"cat {files}.status 2> /dev/null")
            if found == 0:
                return int(status), self._run(f"cat {files}.out")[1], self._run(f"cat {files}.err")[1]
            time.sleep(0.2)
        return 124, "", "no end"

    @contextmanager
    def started(self, host: LabHost, line: str) -> Iterator[Any]:
        """As `tailback.lab.remote_shell.started`, of which the driver looks at whether it still runs."""
        self._begin(host, line)
        yield _Beside()


class _Beside:
    stdout = None
    returncode = 1

    def poll(self) -> None:
        return None

    def communicate(self, timeout: float) -> tuple[str, str]:
        return "", ""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    where = image()
    subprocess.run(["ip", "netns", "delete", NAMESPACE], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        made = Machine(where, NAMESPACE, [], tmp_path_factory.mktemp("vm") / "log")
        try:
            yield made
        finally:
            made.close()
    finally:
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def test_a_lab_of_soft_roce_is_set_up_driven_read_and_taken_back(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB)
    lab, _ = read(str(file))
    guest = Guest(machine, lab)
    for module in (apply, checks, drive):
        monkeypatch.setattr(module, "ask", guest.ask)
    monkeypatch.setattr(drive, "started", guest.started)
    for line in CABLES.strip().split("\n"):
        machine.run(line)

    applied, recorded, said = tmp_path / "applied", tmp_path / "recorded", list[str]()
    apply.prepare(lab, applied)
    apply.apply(lab, applied, said.append)
    for line in ROUTES.strip().split("\n"):
        machine.run(line)
    assert [(one.check.what, one.found) for one in checks.verify(lab) if not one.ok] == []
    drive.run(lab, lab.tests[0], recorded, said.append)
    print("\n".join(said))
    assert cli.main(["lab", "collect", str(file), str(recorded), "--out", str(tmp_path / "run")]) == 0
    print(capsys.readouterr().out)
    result = Result.load(tmp_path / "run")
    marked = result.counters_at["br0:h0"]["red_marked"]
    sent = result.counters_at["br0:h0"]["qdisc_sent_packets"]
    # rxe heeds no mark: the queue stays at what its window lets through, between the two thresholds or above.
    assert 0.1 * sent < marked <= sent
    assert 0.5 * RATE_MBPS * 1e6 < result.summary["goodput"]["total_bps"] < RATE_MBPS * 1e6
    assert result.counters_at["h1"]["sent_pkts"] >= marked
    assert any(path.name.startswith("during-") for path in (recorded / "bandwidth").iterdir())
    machine.run("rdma link delete rxe0; rdma link delete rxe1")
    assert apply.undo(lab, applied, said.append) == apply.UndoOutcome([], [])
    assert machine.run("ip netns exec S ip -o link show type bridge").strip() == ""
    assert "tbf" not in machine.run("ip netns exec S tc qdisc show")
