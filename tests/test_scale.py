"""Large runs from the scenario to the folder of results: books that add up, and memory that a laptop has."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hpcc_files import CONFIG, write
from tailback.results import Result

FLOWS = 100_000
RUN = """
import re, sys, tailback
result = tailback.run(sys.argv[1], out=sys.argv[2])
assert result.complete and not result.faults
print(int(re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1]) // 1024)
"""
"""Prints its peak memory in MiB. (That of getrusage includes the parent's, from before the program began.)"""


def many_flows(folder: Path) -> str:
    """A list of messages over 32 hosts, one each 100 ns."""
    draw = random.Random(1)
    rows = ["src,dst,bytes,start_ns"]
    for number in range(FLOWS):
        src, dst = draw.sample(range(32), 2)
        rows.append(f"h{src},h{dst},{draw.randrange(1, 3000)},{number * 100}")
    (folder / "flows.csv").write_text("\n".join(rows))
    return """
name: many-flows
run: {duration: 100ms}
topology: {kind: leaf-spine, leaves: 4, spines: 4, hosts_per_leaf: 8}
traffic: [{kind: flows, file: flows.csv}]
"""


def many_queue_pairs(_: Path) -> str:
    """All queue pairs of one NIC have something to send."""
    return """
name: many-queue-pairs
run: {duration: 5ms}
topology: {kind: star, hosts: 2}
traffic: [{kind: write, from: h0, to: h1, qps: 10000, message: 1KB, depth: 1}]
"""


def many_hosts(_: Path) -> str:
    """A fat tree of 8,192 hosts, each of which sends and receives a message."""
    return """
name: many-hosts
run: {duration: 1ms}
topology: {kind: fat-tree, k: 32}
traffic: [{kind: permutation, message: 10KB}]
"""


@pytest.mark.parametrize(
    ("make", "queue_pairs", "most_mib"),
    [(many_flows, FLOWS, 800), (many_queue_pairs, 10_000, 500), (many_hosts, 8192, 1200)],
)
def test_a_large_run_ends_with_books_that_add_up(
    make: object, queue_pairs: int, most_mib: int, tmp_path: Path
) -> None:
    assert callable(make)
    file = tmp_path / "large.yaml"
    file.write_text(make(tmp_path))
    out = tmp_path / "out"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(file), str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout)
    size = sum(path.stat().st_size for path in out.rglob("*"))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{make.__name__}: {peak} MiB, {cpu:.1f} CPU-seconds, results of {size / 1e6:.1f} MB")
    assert peak < most_mib
    assert size < 40_000_000
    summary = json.loads((out / "summary.json").read_text())
    books = summary["conservation"]
    assert books["ok"] is True
    data = books["data_packets"]
    assert data["sent"] == sum(count for name, count in data.items() if name != "sent")
    result = Result.load(out)
    assert result.flows.num_rows == queue_pairs
    # Counters leave out zeros, and still add up to what the engine counted as a whole.
    received = {
        name for name in result.counter_names if name.startswith("rx_prio") and name.endswith("_packets")
    }
    rows = zip(*(result.counters.column(name).to_pylist() for name in ("counter", "value")), strict=True)
    hops = sum(value for name, value in rows if name in received)
    in_flight = result.meta["packet_hops"] - hops
    assert 0 <= in_flight <= 1000, in_flight


HPCC = """
import re, sys, tailback
result = tailback.run_hpcc(sys.argv[1], out=sys.argv[2])
assert result.complete and not result.faults
print(int(re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1]) // 1024)
"""


def hpcc_fat_tree(k: int) -> str:
    """A topology.txt: hosts first, then edge, aggregation and core switches."""
    half = k // 2
    hosts, edges = k * half * half, k * half
    links = [(host, hosts + host // half) for host in range(hosts)]
    for edge in range(edges):
        first = hosts + edges + edge // half * half
        links += [(hosts + edge, agg) for agg in range(first, first + half)]
    for agg in range(edges):
        first = hosts + 2 * edges + agg % half * half
        links += [(hosts + edges + agg, core) for core in range(first, first + half)]
    switches = range(hosts, hosts + 2 * edges + half * half)
    head = f"{hosts + len(switches)} {len(switches)} {len(links)}\n{' '.join(map(str, switches))}\n"
    return head + "".join(f"{a} {b} 100Gbps 1us 0\n" for a, b in links)


@pytest.mark.parametrize(
    ("topology", "flows", "most_mib"),
    [
        (hpcc_fat_tree(32), "1\n0 8191 3 100 10000 2.0\n", 600),
        (hpcc_fat_tree(16), "1\n0 1023 3 100 10000 2.0\n", 190),
        ("8000 0 0", "0", 300),
        ("65536 0 0", "0", 600),
    ],
    ids=["8192 hosts", "1024 hosts", "8000 lone nodes", "65536 lone nodes"],
)
def test_what_hpcc_files_cost_grows_with_hosts_and_not_with_their_pairs(
    topology: str, flows: str, most_mib: int, tmp_path: Path
) -> None:
    """With windows of the largest bandwidth-delay product of all pairs (GLOBAL_T)."""
    config = write(tmp_path / "in", config=f"{CONFIG}HAS_WIN 1\nGLOBAL_T 1\n", topology=topology, flow=flows)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", HPCC, str(config), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{peak} MiB, {cpu:.1f} CPU-seconds")
    assert peak < most_mib
    assert cpu < 20  # measured: 1.2 to 5
