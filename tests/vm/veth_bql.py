"""Byte queue limits in a kernel's veth: our module, in a virtual machine, beside the model and the letter.

`make test-vm` runs a short form of it; it is no part of `make test`. `python tests/vm/veth_bql.py` measures
all cases, some minutes, and `--rounds 10000` attaches, detaches, renames and tears down pairs under load.

The machine is emulated. While pings are counted it has real-time priority, or its clock would count the time
of other programs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import pytest
from machine import HERE, IMAGE, Machine, image
from tailback import running
from tailback.metrics.veth import ping_rtt
from tailback.scenario import load

SERIES = "6.12"
"""Of the kernel: the first of Debian's that stops the queue when the ring is full, as the series expects."""
KERNEL = HERE.parent.parent / "kernel" / "veth-bql"
PAYLOAD_BYTES, PAUSE_S = 1400, 0.2
TAKE_NS = 300
"""What the model has beside the consumer's stack: for taking a packet."""
ALARMS = "NETDEV WATCHDOG|BUG|WARNING|rcu.*stall|blocked for more"
"""Lines of the kernel's log that nothing here may cause."""
LETTER_RATIO = 22 / 1.3
"""Of round trips without and with limits: fq_codel, 13,000 rules; each completion told, as in v1."""


@dataclass
class Case:
    """What was seen of one flood, in the machine's time."""

    rules: int
    qdisc: str
    module: str
    tx_usecs: int
    idle_ms: float
    rtt_ms: float
    pings: int
    answered: int
    packets_per_s: float
    limit: float | None

    @property
    def packet_us(self) -> float:
        """What the consumer needs for a packet."""
        return 1e6 / self.packets_per_s


def module() -> Path:
    """Ours, built; skips the test where it cannot be."""
    release = (IMAGE / f"release-{SERIES}").read_text().strip()
    if subprocess.run([str(KERNEL / "build"), str(IMAGE), release], check=False).returncode:
        pytest.skip(f"veth cannot be built for {release}: the lines above say why")
    return IMAGE / "veth-bql.ko"


def boot(folder: Path) -> Machine:
    """The machine, with what the cases need in its root folder."""
    where = image(SERIES)
    files = [module(), HERE / "veth-guest"]
    for name in ("flood", "churn"):
        source, program = HERE / f"{name}.c", folder / name
        subprocess.run(["gcc", "-O2", "-Wall", "-static", "-pthread", "-o", program, source], check=True)
        files.append(program)
    return Machine(where, "", [], folder / "log", series=SERIES, cores=2, files=files)


@contextmanager
def real_time(machine: Machine) -> Iterator[None]:
    """All threads of the machine's process before those of other programs."""
    pid = str(machine.process.pid)
    subprocess.run(["chrt", "-a", "-r", "-p", "10", pid], check=True)
    try:
        yield
    finally:
        subprocess.run(["chrt", "-a", "-o", "-p", "0", pid], check=True)


def pair(machine: Machine, which: str, rules: int) -> None:
    """Two namespaces and a pair between them."""
    machine.run(f"/veth-guest pair {which}")
    machine.run(f"/veth-guest rules {rules}")


def measured(
    machine: Machine,
    which: str,
    rules: int,
    qdisc: str,
    tx_usecs: int = 100,
    pings: int = 20,
    payload: int = PAYLOAD_BYTES,
) -> Case:
    """A flood of the pair that there is, and pings through it."""
    machine.run(f"tc -n P qdisc replace dev vp root {qdisc}")
    if which != "stock":
        machine.run(f"ip netns exec P ethtool -C vp tx-usecs {tx_usecs}")
    with real_time(machine):
        idle = [float(line) for line in machine.run("/veth-guest pings 10 0.05").split()]
        seen = machine.run(f"/veth-guest flood {pings} {PAUSE_S} {payload}")
    lines = [line.split() for line in seen.splitlines() if line.strip()]

    def difference(of: str) -> float:
        after, before = next((float(line[1]), float(line[2])) for line in lines if line[0] == of)
        return after - before

    trips = [float(line[1]) for line in lines if line[0] == "rtt"]
    limits = [float(line[1]) for line in lines if line[0] == "limit" and len(line) > 1]
    return Case(
        rules=rules,
        qdisc=qdisc,
        module=which,
        tx_usecs=tx_usecs,
        idle_ms=median(idle),
        rtt_ms=median(trips),
        pings=pings,
        answered=len(trips),
        packets_per_s=difference("packets") / difference("seconds"),
        limit=median(limits[len(limits) // 2 :]) if limits else None,
    )


def modelled_ms(case: Case) -> float:
    """The model's round trip, from the consumer's cost of a packet. An echo on the idle pair costs several times as much, but
    caches are cold then."""
    charge = {"stock": "none", "bql": "packets", "bytes": "bytes"}[case.module]
    settings = {
        "run.duration": "6s",
        "veth.bql": charge,
        "veth.qdisc": f"{{kind: {case.qdisc}}}",
        "veth.tx_usecs": f"{case.tx_usecs}us",
        "veth.consumer.rules": 0,
        "veth.consumer.stack": f"{case.packet_us * 1000 - TAKE_NS:.0f}ns",
        "traffic.1.interval": f"{PAUSE_S}s",
    }
    scenario = load("veth-bql", sets=[f"{key}={value}" for key, value in settings.items()])
    return ping_rtt(running.run(scenario, report=False), 50) * 1000


def row(case: Case) -> str:
    """Of the book's table."""
    limit = "" if case.limit is None else f"{case.limit:.0f}"
    answered = f"{case.answered} of {case.pings}"
    which = case.module if case.module == "stock" else f"{case.module}, {case.tx_usecs} us"
    return (
        f"| {case.rules} | {case.qdisc} | {which} | {case.packet_us:.0f} us | {case.rtt_ms:.2f} ms "
        f"| {modelled_ms(case):.2f} ms | {answered} | {case.packets_per_s:.0f} | {limit} |"
    )


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = boot(tmp_path_factory.mktemp("veth"))
    try:
        yield made
    finally:
        made.close()


def test_a_stock_veth_has_no_limits(machine: Machine) -> None:
    pair(machine, "stock", 0)
    queue = machine.run("ip netns exec P ls /sys/class/net/vp/queues/tx-0")
    assert "byte_queue_limits" not in queue
    machine.start("ip netns exec P ethtool -C vp tx-usecs 100")
    assert "not supported" in machine.end()[1]


def test_limits_are_settled_and_the_ping_passes_the_flood(machine: Machine) -> None:
    rules = 13_000
    pair(machine, "stock", rules)
    without = measured(machine, "stock", rules, "fq_codel")
    pair(machine, "bql", rules)
    collected = measured(machine, "bql", rules, "fq_codel")
    each = measured(machine, "bql", rules, "fq_codel", tx_usecs=0)
    print("\n".join(row(case) for case in (without, collected, each)))
    assert each.limit == 2
    assert collected.limit is not None
    assert 15 <= collected.limit <= 20
    ratio = without.rtt_ms / each.rtt_ms
    assert LETTER_RATIO / 1.5 < ratio < LETTER_RATIO * 1.5
    assert collected.rtt_ms < without.rtt_ms / 4
    # The emulated machine's own speed varies by a tenth.
    assert collected.packets_per_s > 0.75 * without.packets_per_s


def test_settings_and_teardown_under_load(machine: Machine) -> None:
    pair(machine, "bql", 13_000)
    machine.start("ip netns exec P ethtool -C vp tx-usecs 8000001")
    assert "16 s" in machine.end()[1]
    machine.run("ip netns exec P ethtool -C vp tx-usecs 8000000")
    assert "tx-usecs: 8000000" in machine.run("ip netns exec C ethtool -c vc"), "both ends have it"
    inflight = "ip netns exec P cat /sys/class/net/vp/queues/tx-0/byte_queue_limits/inflight"
    machine.run("ip netns exec P /flood 10.8.0.2 9999 1400 1")
    assert int(machine.run(inflight)) == 0, "without a qdisc nothing is charged"
    machine.run("tc -n P qdisc replace dev vp root fq_codel")
    machine.run("(ip netns exec P /flood 10.8.0.2 9999 1400 100 > /dev/null &); sleep 2")
    assert int(machine.run(inflight)) > 0
    machine.run("ip netns exec C ethtool -K vc gro off")
    assert int(machine.run(inflight)) == 0, "every charge is completed when the ring goes"
    machine.run("killall flood")


def test_pairs_come_and_go_under_load(machine: Machine) -> None:
    machine.run("for name in P C; do ip netns delete $name; done; sleep 1; rmmod veth; insmod /veth-bql.ko")
    told = machine.run("/churn 100", patience_s=600)
    print(told)
    assert "rounds 100\nstill 0\n" in told
    assert machine.run(f"dmesg | grep -E '{ALARMS}' || true").strip() == ""


def main(arguments: list[str]) -> int:
    """All cases, and as many rounds of what may happen to a pair as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, nargs="*", default=[0, 1300, 4000, 13000])
    parser.add_argument("--qdiscs", nargs="*", default=["fq_codel", "sfq"])
    parser.add_argument("--modules", nargs="*", default=["stock", "bql"])
    parser.add_argument("--tx-usecs", type=int, nargs="*", default=[100, 0])
    parser.add_argument("--pings", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        machine = boot(Path(folder))
        for rules in asked.rules:
            for which in asked.modules:
                pair(machine, which, rules)
                for qdisc in asked.qdiscs:
                    for tx_usecs in asked.tx_usecs if which != "stock" else [0]:
                        cases.append(measured(machine, which, rules, qdisc, tx_usecs, asked.pings))
                        print(row(cases[-1]), flush=True)
        if asked.rounds:
            machine.run(
                "for name in P C; do ip netns delete $name; done; sleep 1; rmmod veth; insmod /veth-bql.ko"
            )
            print(machine.run(f"/churn {asked.rounds}", patience_s=3.0 * asked.rounds))
        print(machine.run(f"dmesg | grep -E '{ALARMS}' || true"))
        machine.close()
    if asked.json:
        asked.json.write_text(json.dumps([asdict(case) for case in cases], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
