"""All limits on inputs; the book's page of limits is made from them.

A few bytes can ask for terabytes: a range, a count, an alias, a hole in a file. Each limit is therefore checked
before memory is allocated, and the message that refuses an input names the limit. Memory below the limits grows
with the input, and tests bound by how much. Limits of a single setting are in the scenario reference.
"""

from __future__ import annotations

from typing import NamedTuple


class Limit(NamedTuple):
    """A row of the page of limits."""

    group: str
    what: str
    most: int
    unit: str
    why: str


ALL_LIMITS: list[Limit] = []
"""In the order of the page."""


def _limit(group: str, what: str, most: int, unit: str, why: str) -> int:
    ALL_LIMITS.append(Limit(group, what, most, unit, why))
    return most


_FILES_GROUP = "Files"
SCENARIO_BYTES = _limit(
    _FILES_GROUP,
    "A scenario, and a YAML file with a network",
    1 << 20,
    "bytes",
    "the longest have a few kilobytes",
)
SIZES_BYTES = _limit(
    _FILES_GROUP, "A distribution of sizes", 1 << 20, "bytes", "the longest have a hundred lines"
)
FLOWS_BYTES = _limit(
    _FILES_GROUP,
    "A list of flows: CSV, Parquet, flow.txt",
    128 << 20,
    "bytes",
    "three million lines of a flow.txt",
)
GRAPH_BYTES = _limit(
    _FILES_GROUP,
    "A graph of operations: CSV, Parquet, GOAL, .cm",
    1 << 30,
    "bytes",
    "20 million lines of 50 bytes",
)
CONTROLLER_BYTES = _limit(
    _FILES_GROUP, "A controller in Python", 1 << 20, "bytes", "they have some hundred lines"
)
HPCC_CONFIG_BYTES = _limit(
    _FILES_GROUP, "config.txt and trace.txt", 1 << 20, "bytes", "65,536 nodes take 400 KB"
)
HPCC_TOPOLOGY_BYTES = _limit(_FILES_GROUP, "topology.txt", 64 << 20, "bytes", "a million links take 40 MB")
ASTRA_TRACE_BYTES = _limit(
    _FILES_GROUP, "A rank's Chakra trace (.et)", 1 << 30, "bytes", "ten million nodes of a hundred bytes"
)
ASTRA_JSON_BYTES = _limit(
    _FILES_GROUP, "ASTRA-sim's JSON files", 16 << 20, "bytes", "groups of 65,536 ranks take some megabytes"
)
SIMAI_WORKLOAD_BYTES = _limit(
    _FILES_GROUP, "SimAI's workload", 64 << 20, "bytes", "half a million layers of a hundred bytes"
)
RESULT_BYTES = _limit(
    _FILES_GROUP,
    "A file in the folder of a run, as it is and unpacked",
    1 << 30,
    "bytes",
    "counters of 8,192 hosts take 10 MB",
)
RESOLVED_BYTES = _limit(
    _FILES_GROUP,
    "scenario.yaml in the folder of a run",
    16 << 20,
    "bytes",
    "a scenario with every default filled in",
)
RESULT_VALUES = _limit(
    _FILES_GROUP,
    "Values of a Parquet file in the folder of a run",
    1 << 27,
    "values",
    "44 million rows of series; more than a million flows are read in parts",
)
RESULT_FLOWS = _limit(
    _FILES_GROUP,
    "Flows in the folder of a run",
    1 << 25,
    "rows",
    "three times those of the largest run measured",
)
RESULT_BINS = _limit(
    _FILES_GROUP,
    "Bins of a time series in the folder of a run",
    1_000_000,
    "bins",
    "the most of record.max_bins",
)

CELLS_BYTES = _limit(
    _FILES_GROUP, "A table of a measured lab's cells", 4 << 20, "bytes", "the longest has 40 KB"
)
CELLS = _limit(_FILES_GROUP, "Cells of such a table", 10_000, "rows", "the longest has 217")

_TEXT_GROUP = "YAML and JSON"
MAX_DEPTH = _limit(_TEXT_GROUP, "Nesting of a scenario", 32, "levels", "the deepest that has a meaning is 4")
MAX_VALUES = _limit(
    _TEXT_GROUP,
    "Values of a scenario, aliases counted as what they stand for",
    100_000,
    "values",
    "see its bytes",
)
MAX_PROBLEMS = _limit(
    _TEXT_GROUP, "Problems that are named at a time", 100, "lines", "nobody reads more of them"
)

_NETWORK_GROUP = "Networks"
MAX_HOSTS = _limit(_NETWORK_GROUP, "Hosts", 65_535, "hosts", "the engine names them by 16 bits")
MAX_STAR_HOSTS = _limit(_NETWORK_GROUP, "Hosts of a star", 1024, "hosts", "no switch has more ports")
MAX_PORTS = _limit(
    _NETWORK_GROUP, "Ports of a switch in a form of network", 1024, "ports", "no switch has more"
)
MAX_LINKS = _limit(
    _NETWORK_GROUP, "Links, those of ranges included", 1 << 18, "links", "the largest fat tree has 178,746"
)
HPCC_NODES = _limit(
    _NETWORK_GROUP,
    "Nodes of a topology.txt",
    65_536,
    "nodes",
    "addresses there are 11.(id / 256).(id % 256).1",
)
ASTRA_CHUNKS = _limit(
    _NETWORK_GROUP,
    "Chunks of a collective (preferred-dataset-splits)",
    65_536,
    "chunks",
    "64 is many; each is held",
)
SIMAI_LAYERS = _limit(_NETWORK_GROUP, "Layers of SimAI's workload", 1 << 20, "layers", "models have hundreds")
ASTRA_QUEUES = _limit(
    _NETWORK_GROUP, "Queues of a dimension (--num-queues-per-dim)", 1024, "queues", "4 is many"
)
HPCC_RATES = _limit(
    _NETWORK_GROUP,
    "Different rates in a topology.txt",
    256,
    "rates",
    "the engine has a table of times for each",
)

_TRAFFIC_GROUP = "Traffic"
MAX_QPS = _limit(
    _TRAFFIC_GROUP,
    "Queue pairs, connections and messages of a run",
    1_000_000,
    "in all",
    "each takes a few hundred bytes in the engine",
)
MAX_NAMED_HOSTS = _limit(
    _TRAFFIC_GROUP,
    "Hosts named by all from, to and hosts of a scenario, ranges and all counted as what they stand for",
    1 << 21,
    "names",
    "32 times the largest network",
)
MAX_OUTSTANDING = _limit(
    _TRAFFIC_GROUP,
    "Packets outstanding on a queue pair",
    1 << 22,
    "packets",
    "a quarter of all PSNs leaves no doubt about which are old",
)
MAX_CODE_POINTS = _limit(
    _TRAFFIC_GROUP,
    "Different pairs of DSCP and priority",
    64,
    "pairs",
    "the engine's tables have no more places",
)
MAX_MESSAGE_BYTES = _limit(
    _TRAFFIC_GROUP,
    "Bytes of a message of a collective",
    1 << 31,
    "bytes",
    "IB specification 9.7.6: an RDMA WRITE",
)
JOB_OPERATIONS = _limit(
    _TRAFFIC_GROUP,
    "Operations of a collective",
    20_000_000,
    "in all",
    "each takes some 80 bytes while it runs",
)
GRAPH_OPERATIONS = _limit(
    _TRAFFIC_GROUP,
    "Operations of a graph from a file",
    20_000_000,
    "in all",
    "each takes some 90 bytes while it is read and runs, and 8 more for each one that it waits for",
)
MAX_SEEDS = _limit(_TRAFFIC_GROUP, "Seeds of one command", 1000, "seeds", "each is a run")
MAX_SWEEP_RUNS = _limit(
    _TRAFFIC_GROUP, "Runs of a sweep", 200_000, "runs", "its journal takes half a gigabyte"
)
