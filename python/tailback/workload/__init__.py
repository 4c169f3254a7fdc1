"""Messages and graphs of operations: drawn from a seed, or read from files."""

from __future__ import annotations

from tailback.scenario.model import Scenario
from tailback.workload import generate
from tailback.workload.graphs import read_graph
from tailback.workload.lists import from_item
from tailback.workload.operations import Operations
from tailback.workload.sizes import load_sizes
from tailback.workload.table import Messages


def messages_of(scenario: Scenario, index: int) -> Messages | None:
    """The messages of traffic item `index`, by start; None for writers. Cached.

    Raises:
        ListError, ValueError: a list or a distribution cannot be used.
        InputError: a file cannot be read.
    """
    known: dict[int, Messages | None] = scenario._messages
    if index not in known:
        known[index] = _make(scenario, index)
    return known[index]


def _make(scenario: Scenario, index: int) -> Messages | None:
    item, network = scenario.traffic[index], scenario.network
    seed, end = scenario.run.seed, scenario.run.duration
    if item.kind == "flows":
        return from_item(item, network, scenario.read)
    if item.kind == "poisson":
        sizes = load_sizes(item.sizes, scenario.read)
        return generate.poisson(item, sizes, network, seed, index, end)
    if item.kind == "incast":
        return generate.incast(item, network, seed, index, end)
    if item.kind == "permutation":
        return generate.permutation(item, network, seed, index)
    if item.kind == "all-to-all" and item.message is not None:
        return generate.all_to_all(item, network)
    return None


def graph_of(scenario: Scenario, file: str, ranks: int) -> Operations:
    """The operations of a file that a job's step names. Cached.

    Raises:
        ListError: the graph cannot be carried out.
        InputError: the file cannot be read.
    """
    known: dict[tuple[str, int], Operations] = scenario._graphs
    if (file, ranks) not in known:
        known[file, ranks] = read_graph(file, ranks, scenario.open)
    return known[file, ranks]


__all__ = ["Messages", "graph_of", "messages_of"]
