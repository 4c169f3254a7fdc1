"""SimAI's topology: `nodes gpus_per_server nvswitches switches links GPU-type`, ids of switches, links."""

from __future__ import annotations

from dataclasses import dataclass

from tailback.hpcc.tokens import U32_MAX, Tokens
from tailback.hpcc.topology import Topology, check_links_fit, read_links, read_switches
from tailback.limits import HPCC_NODES


@dataclass
class Servers:
    """The network and its servers."""

    topology: Topology
    gpus: int
    gpus_per_server: int
    gpu_type: str


def read_servers(file: str, data: bytes) -> Servers:
    """Reads a topology.

    Raises:
        InputError: the message has file, line, and what was expected.
    """
    tokens = Tokens(file, data)
    nodes = tokens.integer("the number of nodes", 1, HPCC_NODES)
    per_server = tokens.integer("the number of GPUs in a server", 1, nodes)
    inner_count = tokens.integer("the number of NVSwitches", 0, nodes)
    switch_count = tokens.integer("the number of switches", 0, nodes)
    link_count = tokens.integer("the number of links", 0, U32_MAX)
    gpu_type = tokens.take("the type of the GPUs").decode("utf-8", "backslashreplace")
    check_links_fit(tokens, 4, inner_count + switch_count, link_count)
    is_host = [True] * nodes
    at = tokens.at
    inner = read_switches(tokens, is_host, inner_count)
    switches = inner + read_switches(tokens, is_host, switch_count)
    gpus = nodes - len(switches)
    if not gpus or not all(is_host[:gpus]):
        raise tokens.refuse(at, f"ids of switches from {gpus} on: GPUs are the nodes below")
    if gpus % per_server:
        raise tokens.refuse(1, f"a divisor of the {gpus} GPUs")
    topology = Topology(
        nodes, switches, read_links(tokens, nodes, link_count, nearest=True), is_host, frozenset(inner), file
    )
    return Servers(topology, gpus, per_server, gpu_type)
