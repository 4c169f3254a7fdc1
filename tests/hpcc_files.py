"""A small run in the HPCC simulator's files: two hosts at one switch, and what changes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tailback.errors import InputError
from tailback.hpcc.config import read_config
from tailback.hpcc.flows import read_flows, read_trace
from tailback.hpcc.inputs import HpccInputs, load_inputs
from tailback.hpcc.plan import make_plan
from tailback.hpcc.topology import read_topology
from tailback.rows import Rows

CONFIG = """ENABLE_QCN 1
PACKET_PAYLOAD_SIZE 1000
TOPOLOGY_FILE topology.txt
FLOW_FILE flow.txt
TRACE_FILE trace.txt
SIMULATOR_STOP_TIME 2.001
CC_MODE 1
RP_TIMER 300
EWMA_GAIN 0.00390625
RATE_AI 20Mb/s
RATE_HAI 200Mb/s
L2_ACK_INTERVAL 1
HAS_WIN 0
KMAX_MAP 1 100000000000 1600
KMIN_MAP 1 100000000000 400
PMAX_MAP 1 100000000000 0.2
BUFFER_SIZE 32
"""
TOPOLOGY = """3 1 2
2
0 2 100Gbps 1000ns 0.000000
1 2 100Gbps 1us 0
nodes switches links, then what the columns are
"""
FLOW = """2
0 1 3 100 10000 2.000000000
1 0 3 100 20000 2.000000577
"""
TRACE = "1\n0\n"
TEXTS = {"config.txt": CONFIG, "topology.txt": TOPOLOGY, "flow.txt": FLOW, "trace.txt": TRACE}


def write(folder: Path, **changed: str | bytes | None) -> Path:
    """The files in a folder; `flow="..."` is another flow.txt, None leaves it out. Gives config.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        new = changed.get(name.removesuffix(".txt"), text)
        if new is not None:
            (folder / name).write_bytes(new if isinstance(new, bytes) else new.encode())
    return folder / "config.txt"


def without(key: str) -> str:
    """The config without a key."""
    return "".join(line for line in CONFIG.splitlines(keepends=True) if line.split()[0] != key)


def refusal(folder: Path) -> str:
    """The one line that the files of a folder are refused with."""
    with pytest.raises(InputError) as caught:
        make_plan(load_inputs(folder / "config.txt", beside=True))
    (problem,) = caught.value.problems
    return str(problem).replace(f"{folder}/", "")


READERS = ("config", "topology", "flow", "trace")
_NETWORK = read_topology("topology.txt", TOPOLOGY.encode())


def answer(reader: str, data: bytes) -> bool:
    """Whether a reader takes these bytes: it reads them, or says in one clean line what is wrong.

    Anything else fails. What it makes of them is never larger than they are.
    """
    tokens = len(data.split())
    try:
        if reader == "config":
            config = read_config("config.txt", data)
            assert len(config.values) <= tokens
            assert all(text.isprintable() and len(text) < 1000 for text in config.warnings)
            assert len(config.warnings) <= 21
            make_plan(HpccInputs("fuzz", config, _NETWORK, Rows(), {}, []))
        elif reader == "topology":
            topology = read_topology("topology.txt", data)
            assert len(topology.links) * 5 + len(topology.switches) + 3 <= tokens
            assert topology.connected(0, topology.nodes - 1) in (True, False)
        elif reader == "flow":
            flows = read_flows("flow.txt", data, _NETWORK)
            assert len(flows) * 6 + 1 <= tokens
            assert all(len(flow) == 6 and flow[0] != flow[1] for flow in flows)
        else:
            assert len(read_trace("trace.txt", data)) < tokens
    except InputError as error:
        (problem,) = error.problems
        line = str(problem)
        assert line.startswith(("config.txt", "topology.txt", "flow.txt", "trace.txt")), line
        assert line.isprintable(), line
        assert len(line) < 1000, line
        assert "expected" in line or "above" in line, line
        return False
    return True
