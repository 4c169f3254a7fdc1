"""Places ranks of jobs on hosts, and checks jobs for conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tailback.errors import InputError, Path
from tailback.limits import JOB_OPERATIONS, MAX_MESSAGE_BYTES, MAX_OUTSTANDING
from tailback.scenario.collectives import DEFAULT_ALGORITHMS, Collective, Job, Step, is_job, steps_of
from tailback.scenario.hosts import names
from tailback.scenario.model import Scenario
from tailback.scenario.network import Network
from tailback.units import format_size

Problems = Iterator[tuple[Path, str]]


def groups_of(scenario: Scenario, index: int) -> list[list[int]]:
    """By group of a traffic item: its hosts by their numbers, rank by rank.

    Raises:
        ValueError: there are not as many hosts.
    """
    item = scenario.traffic[index]
    assert is_job(item)
    hosts = _placed(scenario)[index]
    size = len(hosts) // item.groups
    if item.interleaved:
        return [hosts[group :: item.groups] for group in range(item.groups)]
    return [hosts[group * size : (group + 1) * size] for group in range(item.groups)]


def _placed(scenario: Scenario) -> dict[int, list[int]]:
    """By traffic item: the hosts of its ranks. Those that give `ranks` have different hosts."""
    if not scenario._placed:
        scenario._placed = _place(scenario)
    return scenario._placed


def _place(scenario: Scenario) -> dict[int, list[int]]:
    network, taken = scenario.network, set[int]()
    found = {}
    for index, item in enumerate(scenario.traffic):
        if not is_job(item):
            continue
        hosts = [network.host_number[name] for name in names(item.hosts, network.hosts)]
        if item.ranks is not None:
            hosts = _chosen(item, [host for host in hosts if host not in taken], scenario, index)
            taken.update(hosts)
        found[index] = hosts
    return found


def _chosen(item: Collective | Job, free: list[int], scenario: Scenario, index: int) -> list[int]:
    """Chooses hosts for the ranks, server by server."""
    assert item.ranks is not None
    gpus = 1 if item.servers is None else item.servers.gpus
    servers: dict[int, list[int]] = {}
    for host in free:
        servers.setdefault(host // gpus, []).append(host)
    units = list(servers.values())
    if item.placement == "random":
        from tailback.workload import draws

        bits = draws.raw(scenario.run.seed, index, 0, len(units))
        units = [units[place] for place in draws.sample(bits, len(units), len(units))]
    elif item.placement == "spread":
        units = _in_turn(units, scenario.network)
    hosts = [host for unit in units for host in unit]
    if len(hosts) < item.ranks:
        raise ValueError(f"found {item.ranks}, expected at most {len(hosts)}, the hosts that are left")
    return hosts[: item.ranks]


def _in_turn(units: list[list[int]], network: Network) -> list[list[int]]:
    """Hosts in turn from each switch."""
    at: dict[str, list[list[int]]] = {}
    for unit in units:
        wire = network.wires_of[network.hosts[unit[0]]][0]
        at.setdefault(wire.b if wire.a == network.hosts[unit[0]] else wire.a, []).append(unit)
    most = max(map(len, at.values()), default=0)
    return [of[turn] for turn in range(most) for of in at.values() if turn < len(of)]


def in_server(group: list[int], item: Collective | Job) -> int:
    """Maximum number of ranks of a group in one server."""
    gpus = 1 if item.servers is None else item.servers.gpus
    return max(Counter(host // gpus for host in group).values())


def share(step: Step, ranks: int, gpus: int) -> int:
    """Most bytes of a collective that go in one message, or in one chunk behind the other, on one channel.

    Args:
        step: The collective.
        ranks: How many there are.
        gpus: How many of them are in a server, see `in_server`.
    """
    assert step.collective is not None
    assert step.size is not None
    algorithm, size = step.algorithm or DEFAULT_ALGORITHMS[step.collective], -(-step.size // step.channels)
    if algorithm == "hierarchical":
        servers = max(1, ranks // gpus)
        parts = {"broadcast": 1, "all-to-all": min(gpus, servers)}.get(step.collective, gpus)
    elif algorithm in ("halving-doubling", "double-binary-tree"):
        parts = 2
    else:
        parts = 1 if step.collective == "broadcast" else ranks
    return -(-size // max(1, parts))


def chunks(step: Step, ranks: int, gpus: int) -> int:
    """Number of sequential parts."""
    return 1 if step.chunk is None else -(-share(step, ranks, gpus) // step.chunk)


def operations(step: Step, ranks: int, gpus: int) -> int:
    """Approximate number of operations of a collective."""
    if step.collective is None:
        return 0
    algorithm = step.algorithm or DEFAULT_ALGORITHMS[step.collective]
    each = {
        "ring": 2 * ranks,
        "direct": 2 * ranks,
        "halving-doubling": 2 * ranks.bit_length(),
        "double-binary-tree": 4,
        "hierarchical": 2 * (gpus + ranks // gpus),
    }[algorithm]
    return ranks * each * step.channels * chunks(step, ranks, gpus)


def _collectives(item: Collective | Job) -> list[tuple[Path, Step]]:
    """The collectives of a job, with their paths."""
    steps = enumerate(steps_of(item))
    return [
        (("steps", at) if isinstance(item, Job) else (), step)
        for at, step in steps
        if step.collective is not None
    ]


def job_conflicts(scenario: Scenario, index: int) -> Problems:
    """Conflicts of a job whose hosts are known."""
    item, path = scenario.traffic[index], ("traffic", index)
    assert is_job(item)
    try:
        groups = groups_of(scenario, index)
    except ValueError as error:
        yield (*path, "ranks"), str(error)
        return
    ranks = len(groups[0])
    every = len(_placed(scenario)[index])
    if every % item.groups or ranks < 2:
        text = f"a divisor of the {every} ranks, with two ranks or more in each group"
        yield (*path, "groups"), f"found {item.groups}, expected {text}"
        return
    yield from _graphs(scenario, item, ranks, path)
    gpus = 1 if item.servers is None else item.servers.gpus
    for place, step in _collectives(item):
        assert step.collective is not None
        algorithm = step.algorithm or DEFAULT_ALGORITHMS[step.collective]
        field = (*path, *place, "algorithm")
        if algorithm == "halving-doubling" and ranks & (ranks - 1):
            yield field, f'found "{algorithm}" for {ranks} ranks, expected 2, 4, 8 or another power of two'
        elif algorithm == "hierarchical" and not _alike(groups, gpus):
            what = "servers" if item.servers is None else "as many ranks of a group in each server"
            yield field, f'found "{algorithm}", expected {what}'
        else:
            most = max(in_server(group, item) for group in groups)
            yield from _sizes(scenario, item, step, (ranks, most), (*path, *place))


def _queue_pairs(scenario: Scenario, step: Step, ranks: int, of_messages: bool) -> int:
    """The operations of a step's file; None if the file is refused."""
    from tailback.workload import graph_of
    from tailback.workload.lists import ListError

    assert step.graph is not None
    try:
        return graph_of(scenario, step.graph, ranks).queue_pairs(of_messages)
    except (ListError, InputError):
        return 0


def _graphs(scenario: Scenario, item: Collective | Job, ranks: int, path: Path) -> Problems:
    """Problems of the files of a job's steps."""
    from tailback.workload import graph_of
    from tailback.workload.lists import ListError

    for at, step in enumerate(steps_of(item)):
        if step.graph is None:
            continue
        try:
            graph_of(scenario, step.graph, ranks)
        except ListError as error:
            yield (*path, "steps", at, "graph"), str(error)
        except InputError as error:
            yield (*path, "steps", at, "graph"), error.problems[0].text


def _alike(groups: list[list[int]], gpus: int) -> bool:
    """True if there are servers, and each has the same number of ranks of each of its groups."""
    if gpus == 1:
        return False
    for group in groups:
        counts: dict[int, int] = {}
        for host in group:
            counts[host // gpus] = counts.get(host // gpus, 0) + 1
        if len(set(counts.values())) > 1:
            return False
    return True


def _sizes(
    scenario: Scenario, item: Collective | Job, step: Step, counts: tuple[int, int], path: Path
) -> Problems:
    """Args: counts: ranks, and how many of them are in a server."""
    outstanding = MAX_OUTSTANDING * scenario.host.mtu
    most = min(MAX_MESSAGE_BYTES, outstanding)
    together = share(step, *counts)
    largest = -(-together // chunks(step, *counts))
    if largest > most:
        text = f"messages of at most {format_size(most)}: give chunk"
        yield (*path, "size"), f"found messages of {format_size(largest)}, expected {text}"
    elif together > outstanding and item.queue_pairs == "pair":
        text = f"at most {format_size(outstanding)}: give channels, or queue_pairs: message"
        yield (*path, "size"), f"found {format_size(together)} on a queue pair at once, expected {text}"
    count = operations(step, *counts)
    if count > JOB_OPERATIONS:
        text = f"at most {JOB_OPERATIONS:,} in a collective: larger chunks, fewer channels or ranks"
        yield (*path, "chunk"), f"found about {count:,} operations, expected {text}"


def queue_pairs_of(scenario: Scenario, index: int) -> int:
    """Approximate number of queue pairs of a job."""
    item = scenario.traffic[index]
    assert is_job(item)
    groups = groups_of(scenario, index)
    ranks, gpus = len(groups[0]), max(in_server(group, item) for group in groups)
    total = 0
    for step in steps_of(item):
        if step.graph is not None:
            of_messages = item.queue_pairs == "message"
            every = _queue_pairs(scenario, step, ranks, of_messages)
            total += every * len(groups) * (item.repeat if of_messages else 1)
    for _, step in _collectives(item):
        assert step.collective is not None
        algorithm = step.algorithm or DEFAULT_ALGORITHMS[step.collective]
        if item.queue_pairs == "message":
            total += operations(step, ranks, gpus) * item.repeat * item.groups
        else:
            each = {
                "ring": 1,
                "direct": ranks,
                "halving-doubling": ranks.bit_length(),
                "double-binary-tree": 4,
                "hierarchical": gpus + (1 if step.collective != "all-to-all" else ranks // gpus),
            }[algorithm]
            total += ranks * len(groups) * each * step.channels
    return total
