"""`topology.txt`: nodes, which of them are switches, and the links between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from tailback.errors import InputError
from tailback.hpcc.quantities import RATE_IN_WORDS, TIME_IN_WORDS, rate_bps, time_ns
from tailback.hpcc.tokens import U32_MAX, Tokens
from tailback.limits import HPCC_NODES, HPCC_RATES

TOKENS_PER_LINK = 5


@dataclass(frozen=True)
class Link:
    """A full-duplex link. The ports of a node are numbered in the order of its links."""

    a: int
    b: int
    rate_bps: int
    delay_ns: int
    error_rate: float


@dataclass
class Topology:
    """`is_host` by node id; `links` in the order of `file`; `inner` are switches inside servers."""

    nodes: int
    switches: list[int]
    links: list[Link]
    is_host: list[bool]
    inner: frozenset[int] = frozenset()
    file: str = ""

    def connected(self, a: int, b: int) -> bool:
        """True if there is a route between two hosts."""
        return not set(self.zones[a]).isdisjoint(self.zones[b])

    @cached_property
    def zones(self) -> list[list[int]]:
        """For each node, the connected groups of switches that it is linked to; a link between two hosts is also a
        group. Two hosts have a route if they share a group: hosts do not forward.
        """
        root = list(range(self.nodes + len(self.links)))

        def find(node: int) -> int:
            while root[node] != node:
                root[node] = root[root[node]]
                node = root[node]
            return node

        touched: list[list[int]] = [[] for _ in range(self.nodes)]
        for number, link in enumerate(self.links):
            switches = [node for node in (link.a, link.b) if not self.is_host[node]]
            if len(switches) == 2:
                root[find(link.a)] = find(link.b)
            for node in (link.a, link.b):
                touched[node].append(switches[0] if switches else self.nodes + number)
        return [sorted({find(node) for node in nodes}) for nodes in touched]


def _cached(known: dict[bytes, int | None], word: bytes, read: Callable[[bytes], int | None]) -> int | None:
    """Caches parsed words: a topology has thousands of links, but few different rates and delays."""
    if word not in known:
        known[word] = read(word)
    return known[word]


def read_topology(file: str, data: bytes, nearest: bool = False) -> Topology:
    """Reads `topology.txt`: `nodes switches links`, the switches' ids, `a b rate delay error_rate` for each link.

    Delays are rounded as `quantities.nanoseconds` does.

    Raises:
        InputError: a token is not valid.
    """
    tokens = Tokens(file, data)
    _check_form(tokens, data)
    nodes = tokens.integer("the number of nodes", 1, HPCC_NODES)
    switch_count = tokens.integer("the number of switches", 0, nodes)
    link_count = tokens.integer("the number of links", 0, U32_MAX)
    check_links_fit(tokens, 2, switch_count, link_count)
    is_host = [True] * nodes
    switches = read_switches(tokens, is_host, switch_count)
    return Topology(nodes, switches, read_links(tokens, nodes, link_count, nearest), is_host, file=file)


def _check_form(tokens: Tokens, data: bytes) -> None:
    """Refuses topologies of other simulators.

    Raises:
        InputError: the message names the format.
    """
    words = tokens.words
    first = next((line.split() for line in data.splitlines() if line.strip() and line[:1] != b"#"), [])
    if first and first[0].lower() in (b"nodes", b"tiers", b"podsize"):
        raise InputError.at(
            tokens.place(0),
            "found a topology of htsim (Nodes, Tiers, Podsize), expected the HPCC simulator's: nodes "
            "switches links, the switches' ids, and a b rate delay error_rate for each link",
        )
    head = words[:4]
    if len(head) < 4 or not all(word.isdigit() and len(word) <= 9 for word in head):
        return
    # A rate is the third word of a link, and usually has a unit: its place shows the length of the header.
    switches = int(words[1])
    of_three, of_four = (words[at : at + 1] for at in (3 + switches + 2, 4 + switches + 2))
    if _is_rate(of_four) and not _is_rate(of_three):
        raise InputError.at(
            tokens.place(0),
            "found four numbers, as PowerTCP's fork has them (nodes, switches, ToR switches, links), "
            "expected three: nodes, switches, links",
        )


def _is_rate(words: list[bytes]) -> bool:
    """True for a rate, false for the id of a node."""
    return bool(words) and not words[0].isdigit() and rate_bps(words[0]) is not None


def check_links_fit(tokens: Tokens, at: int, switch_count: int, link_count: int) -> None:
    """Checks counts against the length of the file, before lists of that size are made; `at` is the index of the
    token with the number of links.

    Raises:
        InputError: the file is too short.
    """
    there = len(tokens.words) - tokens.at - switch_count
    if there < link_count * TOKENS_PER_LINK:
        fit = max(0, there) // TOKENS_PER_LINK
        raise tokens.refuse(
            at, f"the number of links: {fit} of {TOKENS_PER_LINK} tokens each follow the switches"
        )


def read_switches(tokens: Tokens, is_host: list[bool], count: int) -> list[int]:
    """Reads the ids of switches, and clears them in `is_host`.

    Raises:
        InputError: a token is not valid.
    """
    switches = []
    for _ in range(count):
        switch = tokens.integer("the id of a switch", 0, len(is_host) - 1)
        if not is_host[switch]:
            raise tokens.refuse(tokens.at - 1, "a switch that is not yet listed")
        is_host[switch] = False
        switches.append(switch)
    return switches


def read_links(tokens: Tokens, nodes: int, count: int, nearest: bool = False) -> list[Link]:
    """Reads `a b rate delay error_rate` of each link; delays are rounded as `quantities.nanoseconds` does.

    Raises:
        InputError: a token is not valid.
    """
    rates: dict[bytes, int | None] = {}
    delays: dict[bytes, int | None] = {}
    links = []
    for _ in range(count):
        a = tokens.integer("the id of a node", 0, nodes - 1)
        b = tokens.integer("the id of a node", 0, nodes - 1)
        if a == b:
            raise tokens.refuse(tokens.at - 1, "another node than the link's first")
        rate = _cached(rates, tokens.take(RATE_IN_WORDS), rate_bps)
        if rate is None:
            raise tokens.refuse(tokens.at - 1, RATE_IN_WORDS)
        if len(rates) > HPCC_RATES:
            text = f"one of the rates above: there are {HPCC_RATES} different ones, the most there may be"
            raise tokens.refuse(tokens.at - 1, text)
        delay = _cached(delays, tokens.take(TIME_IN_WORDS), partial(time_ns, nearest=nearest))
        if delay is None:
            raise tokens.refuse(tokens.at - 1, TIME_IN_WORDS)
        links.append(Link(a, b, rate, delay, tokens.real("an error rate", 0.0, 1.0)))
    return links
