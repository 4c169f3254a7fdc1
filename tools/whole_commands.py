"""CPU time and memory of whole commands beside the engine's own: what is lost around it.

    .venv/bin/python tools/whole_commands.py [CASE ...]

Each command is a process of its own, measured from the start of the interpreter to its end: reading,
building, running, writing. The engine's own time is `cpu_s` of timing.json: its event loop, and the
recording's end. The fastest of a few runs counts. docs/performance.md has figures of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tailback.workload.sizes import load_sizes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import astra_files

REPEATS = 3
TAILBACK = Path(sys.executable).parent / "tailback"

CONFIG = """ENABLE_QCN 1
PACKET_PAYLOAD_SIZE 1000
TOPOLOGY_FILE topology.txt
FLOW_FILE flow.txt
SIMULATOR_STOP_TIME 4
CC_MODE 1
RP_TIMER 300
EWMA_GAIN 0.00390625
RATE_AI 20Mb/s
RATE_HAI 200Mb/s
MIN_RATE 1000Mb/s
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
HAS_WIN 0
KMAX_MAP 2 100000000000 1600 400000000000 6400
KMIN_MAP 2 100000000000 400 400000000000 1600
PMAX_MAP 2 100000000000 0.20 400000000000 0.20
BUFFER_SIZE 32
"""
"""As the cases of the HPCC simulator that the tests compare with have it."""

TINY = """name: tiny
run: {duration: 1ms}
topology: {kind: star, hosts: 5}
traffic:
  - {kind: write, from: h0..h3, to: h4, qps: 4}
"""


class Tree(NamedTuple):
    """A fat tree: pods of edge and aggregation switches; aggregation switch j of each pod is linked to the
    cores of group j. Hosts have 100 Gbit/s, all links 1 us.
    """

    pods: int
    edges: int
    hosts_an_edge: int
    aggregations: int
    cores_a_group: int
    fabric_gbps: int

    @property
    def hosts(self) -> int:
        """All of them."""
        return self.pods * self.edges * self.hosts_an_edge

    def text(self) -> str:
        """As topology.txt."""
        edge = self.hosts
        above = edge + self.pods * self.edges
        core = above + self.pods * self.aggregations
        nodes = core + self.aggregations * self.cores_a_group
        links = [f"{host} {edge + host // self.hosts_an_edge} 100Gbps" for host in range(self.hosts)]
        for pod in range(self.pods):
            for j in range(self.aggregations):
                here = above + pod * self.aggregations + j
                ends = [edge + pod * self.edges + i for i in range(self.edges)]
                ends += [core + j * self.cores_a_group + i for i in range(self.cores_a_group)]
                links += [f"{here} {end} {self.fabric_gbps}Gbps" for end in ends]
        switches = " ".join(map(str, range(edge, nodes)))
        lines = "".join(f"{link} 1000ns 0\n" for link in links)
        return f"{nodes} {nodes - edge} {len(links)}\n{switches}\n{lines}"


HPCC_320 = Tree(5, 4, 16, 4, 4, 400)
"""Li et al., "HPCC", SIGCOMM 2019, section 5.1."""
K16 = Tree(16, 8, 8, 8, 8, 100)
K4 = Tree(4, 2, 2, 2, 2, 100)


def flows(hosts: int, load: float, sizes: str | int, span_s: float) -> str:
    """Poisson arrivals at this load of the hosts' links, as flow.txt; sizes by name, or all alike."""
    draws = np.random.default_rng(1)
    known = None if isinstance(sizes, int) else load_sizes(sizes, lambda _name, _most: b"")
    mean = sizes if known is None else known.mean
    count = int(load * 100e9 / 8 * hosts / mean * span_s)
    start = np.sort(draws.random(count)) * span_s + 2
    src = draws.integers(0, hosts, count)
    dst = (src + draws.integers(1, hosts, count)) % hosts
    size = np.full(count, sizes) if known is None else known.at(draws.random(count))
    rows = zip(src.tolist(), dst.tolist(), size.tolist(), start.tolist(), strict=True)
    return f"{count}\n" + "".join(f"{a} {b} 3 100 {n} {at:.9f}\n" for a, b, n, at in rows)


def hpcc(tree: Tree, load: float, sizes: str | int, span_s: float) -> Callable[[Path], list[str]]:
    """A command that runs such files."""

    def write(folder: Path) -> list[str]:
        (folder / "config.txt").write_text(CONFIG)
        (folder / "topology.txt").write_text(tree.text())
        (folder / "flow.txt").write_text(flows(tree.hosts, load, sizes, span_s))
        return ["hpcc", "config.txt"]

    return write


def ring_64(folder: Path) -> list[str]:
    """A ring all-reduce of 16 MiB over 64 ranks, under DCQCN. ASTRA-sim 518bd51 with its ns-3 backend f764bed
    took 52 CPU seconds at -O2, and 158 as it is shipped (-O0), on two cores with other work.
    """
    case = astra_files.CASES / "ar64_ring_16MB_cc1"
    for file in ("config.txt", "topology.txt", "system.json", "logical.json"):
        (folder / file).write_bytes((case / file).read_bytes())
    (folder / "et").mkdir()
    for rank in range(64):
        node = astra_files.collective(rank, astra_files.ALL_REDUCE, 16 << 20)
        (folder / "et" / f"w.{rank}.et").write_bytes(astra_files.trace(node))
    return [
        "astra",
        *("--workload-configuration", "et/w", "--system-configuration", "system.json"),
        *("--network-configuration", "config.txt", "--logical-topology-configuration", "logical.json"),
    ]


def tiny(folder: Path) -> list[str]:
    """Five hosts for 1 ms."""
    (folder / "tiny.yaml").write_text(TINY)
    return ["run", "tiny.yaml"]


CASES: dict[str, Callable[[Path], list[str]]] = {
    "tiny": tiny,
    "320 hosts, FB_Hadoop at 50 %, 2 ms": hpcc(HPCC_320, 0.5, "fb_hadoop", 2.0e-3),
    "320 hosts, FB_Hadoop at 50 %, 8 ms": hpcc(HPCC_320, 0.5, "fb_hadoop", 8.0e-3),
    "1,024 hosts, WebSearch at 50 %": hpcc(K16, 0.5, "websearch", 0.3e-3),
    "16 hosts, 10^6 flows of 1.5 KB": hpcc(K4, 0.5, 1500, 15e-3),
    "ASTRA-sim's inputs, ring of 64 ranks": ring_64,
}


class Took(NamedTuple):
    """CPU seconds of the whole command and of the engine's event loop, packet-hops, peak memory."""

    whole_s: float
    engine_s: float
    hops: float
    peak_mib: float


def measured(folder: Path, command: list[str]) -> Took:
    """Runs it once in a process of its own."""
    out = folder / "out"
    words = [str(TAILBACK), *command, "--quiet", "--out", str(out)]
    # Whoever installs the package has its bytecode.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=kept)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if status:
        raise SystemExit(f"{' '.join(command)}: status {status}")
    engine_s = json.loads((out / "timing.json").read_text())["cpu_s"]
    hops = json.loads((out / "summary.json").read_text())["meta"]["packet_hops"]
    shutil.rmtree(out)
    return Took(usage.ru_utime + usage.ru_stime, engine_s, hops, usage.ru_maxrss / 1024)


def written(name: str, folder: Path) -> list[str]:
    """Writes the files of a case and gives its command."""
    return CASES[name](folder)


def rows(names: list[str]) -> Iterator[str]:
    """A line a command, with a report and without."""
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            os.chdir(folder)
            # In a process of its own: the peak of one that starts another counts for that, too.
            with ProcessPoolExecutor(1, get_context("fork")) as writer:
                command = writer.submit(written, name, folder).result()
            for options in ([], ["--no-report"]):
                best = min(measured(folder, [*command, *options]) for _ in range(REPEATS))
                yield (
                    f"| {name}{', no report' if options else ''} | {best.hops / 1e6:.2f} "
                    f"| {best.whole_s:.2f} | {best.engine_s:.2f} | {best.whole_s - best.engine_s:.2f} "
                    f"| {best.whole_s / best.engine_s:.2f} | {best.peak_mib:.0f} MiB |"
                )


if __name__ == "__main__":
    print("| Command | Million hops | Whole, s | Engine, s | Around it, s | Whole / engine | Peak memory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows(sys.argv[1:] or list(CASES)):
        print(row, flush=True)
