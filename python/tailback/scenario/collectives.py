"""Traffic whose messages wait for each other: collectives of ranks on hosts, and jobs made of them.

Sizes are those of nccl-tests (NVIDIA, doc/PERFORMANCE.md): all that a rank gives or gets, whichever is more.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypeGuard

from pydantic import Field, model_validator

from tailback.scenario import declared
from tailback.scenario.controllers import ControllerName
from tailback.scenario.declared import Message, Start
from tailback.scenario.fields import Dscp, Priority, Section, like, refuse, setting
from tailback.scenario.hosts import ALL_HOSTS, HostSet
from tailback.units import DURATION, RATE, SIZE

Size = Annotated[int, SIZE.between("1B", "1TB")]
_Algorithm = Literal["ring", "direct", "halving-doubling", "double-binary-tree", "hierarchical"]
COLLECTIVE_ALGORITHMS: dict[str, tuple[_Algorithm, ...]] = {
    "all-reduce": ("ring", "direct", "halving-doubling", "double-binary-tree", "hierarchical"),
    "all-gather": ("ring", "direct", "halving-doubling", "hierarchical"),
    "reduce-scatter": ("ring", "direct", "halving-doubling", "hierarchical"),
    "all-to-all": ("direct", "hierarchical"),
    "broadcast": ("ring", "direct", "double-binary-tree", "hierarchical"),
}
"""Algorithms of each collective."""
DEFAULT_ALGORITHMS: dict[str, _Algorithm] = {
    kind: "direct" if kind == "all-to-all" else "ring" for kind in COLLECTIVE_ALGORITHMS
}
"""The default algorithm of each collective."""
_NCCL_SOURCE = "NVIDIA NCCL: rings are its algorithm for large sizes"


class Roce(Section):
    """Traffic class and congestion control of RoCE traffic."""

    priority: Priority = setting(
        3, "Priority (PCP) of data and ACKs.", "Mellanox community DOC-2591: RoCE in priority 3"
    )
    dscp: Dscp | None = setting(
        None,
        "DSCP of data and ACKs; null: 8 times the priority.",
        "RFC 2474, section 4.2.2: the class selector of the priority",
    )
    congestion: ControllerName | None = setting(
        None,
        "Its own congestion control; null: that of each sending host.",
        "host.congestion, host.congestion_by_host",
    )


class Servers(Section):
    """Servers of several GPUs with a NIC each, and the links between these (NVLink), no part of the fabric.

    A host is one GPU with its NIC. Messages inside of a server take the latency and their bytes at the rate,
    one after the other at each end.
    """

    gpus: int = setting(
        8,
        "Hosts of a server, one after the other in the order of the network; on rails all NICs of a server.",
        "NVIDIA DGX H100 user guide: eight GPUs with a ConnectX-7 each",
        ge=1,
        le=1024,
    )
    rate: Annotated[int, RATE.between("1Mbps", "100Tbps")] | None = setting(
        RATE.parse("3600Gbps"),
        "Rate of each GPU, each way. null: there are no such links, and all messages take the network.",
        "NVIDIA H100: NVLink of 900 GB/s, both ways together",
    )
    latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("1us"),
        "From the first bit sent to the first bit received.",
        "assumption: no document says; a store and a flag over NVLink take about that",
    )


class Ranks(Section):
    """Ranks of a job: their hosts and traffic class."""

    hosts: HostSet = setting(
        (ALL_HOSTS,), "Hosts that ranks may be on, in this order.", "assumption: the whole network takes part"
    )
    ranks: int | None = setting(
        None,
        "How many of the hosts take part, of the hosts that no earlier item has taken with ranks. null: all.",
        "assumption: all hosts",
        ge=2,
        le=65_535,
    )
    placement: Literal["packed", "spread", "random"] = setting(
        "packed",
        "Which hosts, where ranks is given. packed: the first ones; spread: from each switch with hosts in "
        "turn; random: drawn by the seed. With servers, whole servers.",
        "assumption: as schedulers place jobs that know the topology",
    )
    groups: int = setting(
        1,
        "The ranks are split into this many groups of neighbours, which do the same side by side.",
        "assumption: all ranks together",
        ge=1,
        le=32_768,
    )
    interleaved: bool = setting(
        False,
        "Rank i is in group i modulo groups, as in data parallelism.",
        "assumption: neighbours",
    )
    servers: Servers | None = setting(
        None,
        "Servers of several GPUs; null: a host is a server.",
        "assumption: every message takes the network",
    )
    reduce_rate: Annotated[int, RATE.between("1Mbps", "1000Tbps")] | None = setting(
        None,
        "How fast a rank reduces what it received. null: in no time.",
        "assumption: a GPU's memory is some fifty times as fast as its NIC",
    )
    queue_pairs: Literal["pair", "message"] = setting(
        "pair",
        "Pair: messages of one channel and size between two ranks share a queue pair; message: each has its "
        "own.",
        "NVIDIA NCCL keeps its connections",
    )
    repeat: int = setting(1, "How often.", "assumption: once", ge=1, le=1_000_000)
    start: int = like(declared.Write, "start", "When the ranks begin.")
    priority: Priority = like(Roce, "priority")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")

    @model_validator(mode="after")
    def _effective(self) -> Ranks:
        if self.placement != "packed" and self.ranks is None:
            raise refuse("placement", f'"{self.placement}"', "ranks with it: how many of the hosts")
        if self.interleaved and self.groups == 1:
            raise refuse("interleaved", "true", "groups with it: two or more")
        return self


_SIZE_ABOUT = "Its size as nccl-tests counts it: all that a rank sends or receives, whichever is more."
_CHANNELS_TEXT = "Parts that run side by side, each on queue pairs of its own."
_CHANNELS_SOURCE = "assumption: one; NCCL takes more, which share the link"
_CHUNK_TEXT = (
    "Largest message; null: a whole share. Whatever waits for a message waits for its chunk only; chunks "
    "follow each other on a queue pair that they share, and run side by side where each has its own."
)
_CHUNK_SOURCE = "assumption: as the closed forms have it"
_Channels = Annotated[int, Field(ge=1, le=64)]


OF_JOBS = {*Ranks.model_fields, "channels", "chunk", "compute", "overlap", "algorithm"} - {
    "hosts", "start", "priority", "dscp", "congestion",
}  # fmt: skip
"""Settings of ranks whose messages wait for each other."""


def changed(part: Section, names: set[str]) -> list[str]:
    """Settings among these that are not at their defaults: a resolved scenario gives all of them."""
    fields = type(part).model_fields
    return sorted(name for name in names if getattr(part, name) != fields[name].default)


class _Parts(Section):
    """How a collective is split into messages."""

    channels: _Channels = setting(1, _CHANNELS_TEXT, _CHANNELS_SOURCE)
    chunk: Size | None = setting(None, _CHUNK_TEXT, _CHUNK_SOURCE)


class _Alone(Ranks, _Parts):
    """A repeated collective, with computation in between."""

    compute: Start = setting(0, "Every rank computes for this long in each repetition.", "assumption: none")
    overlap: bool = setting(
        False,
        "It computes while the collective runs. false: it computes before.",
        "assumption: one after the other",
    )

    @model_validator(mode="after")
    def _something_to_overlap(self) -> _Alone:
        if self.overlap and not self.compute:
            raise refuse("overlap", "true", "compute with it: what goes on meanwhile")
        return self


class AllReduce(_Alone):
    """All-reduce: every rank gets the sum of what all ranks have."""

    kind: Literal["all-reduce"] = Field(description="The kind of traffic.")
    size: Size = Field(description=_SIZE_ABOUT)
    algorithm: _Algorithm = setting("ring", "How it is carried out.", _NCCL_SOURCE)


class AllGather(_Alone):
    """All-gather: every rank gets what all ranks have; size is that of all together."""

    kind: Literal["all-gather"] = Field(description="The kind of traffic.")
    size: Size = Field(description=_SIZE_ABOUT)
    algorithm: Literal["ring", "direct", "halving-doubling", "hierarchical"] = setting(
        "ring", "How it is carried out.", _NCCL_SOURCE
    )


class ReduceScatter(_Alone):
    """Reduce-scatter: every rank gets a share of the sum of what all ranks have; size is that of the sum."""

    kind: Literal["reduce-scatter"] = Field(description="The kind of traffic.")
    size: Size = Field(description=_SIZE_ABOUT)
    algorithm: Literal["ring", "direct", "halving-doubling", "hierarchical"] = setting(
        "ring", "How it is carried out.", _NCCL_SOURCE
    )


class Broadcast(_Alone):
    """Broadcast: every rank gets what the first one has."""

    kind: Literal["broadcast"] = Field(description="The kind of traffic.")
    size: Size = Field(description=_SIZE_ABOUT)
    algorithm: Literal["ring", "direct", "double-binary-tree", "hierarchical"] = setting(
        "ring", "How it is carried out.", _NCCL_SOURCE
    )


class AllToAll(_Alone):
    """Every rank has a share for every other: with `size` a collective, with `message` a list of messages.

    As a list, every host sends one message to every other host. In step k, host i sends to host i + k,
    counted round the list of hosts, so that no step has two senders for one receiver. Nothing waits for a
    message.
    """

    kind: Literal["all-to-all"] = Field(description="The kind of traffic.")
    size: Size | None = setting(
        None,
        "All that a rank sends, as nccl-tests counts it; messages may be repeated, and wait for each other.",
        "assumption: message is given",
    )
    message: Message | None = setting(
        None, "Bytes of each pair: one message from every host to every other.", "assumption: size is given"
    )
    stagger: Start = setting(
        0, "Time between the starts of two steps, with message; 0: all at once.", "assumption: not staggered"
    )
    algorithm: Literal["direct", "hierarchical"] = setting(
        "direct", "How it is carried out.", "NVIDIA NCCL: sends and receives, all at once"
    )

    @model_validator(mode="after")
    def _one(self) -> AllToAll:
        if (self.message is None) == (self.size is None):
            what = "neither message nor size" if self.message is None else "message and size"
            raise refuse("message", what, "one of the two")
        if self.message is not None and (of_jobs := changed(self, OF_JOBS)):
            raise refuse(of_jobs[0], "a setting of a collective", "size in place of message")
        if self.message is None and self.stagger:
            raise refuse("stagger", "a setting of a list of messages", "message in place of size")
        return self


class Step(_Parts):
    """A step of a job: ranks compute, take part in a collective, or run a graph."""

    compute: Start | None = setting(
        None, "The ranks compute for this long.", "assumption: collective is given"
    )
    collective: Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast"] | None = (
        setting(None, "They take part in this collective.", "assumption: compute is given")
    )
    graph: str | None = setting(
        None,
        "They carry out the operations of this file, relative to the folder of the scenario: .csv or "
        ".parquet with the columns operation, rank, what, time, bytes, to, channel and after, a .goal "
        "schedule, or a .cm connection matrix of htsim.",
        "assumption: compute or collective is given",
        min_length=1,
        max_length=1000,
    )
    size: Size | None = setting(None, "Its size as nccl-tests counts it.", "a collective has to have one")
    algorithm: _Algorithm | None = setting(
        None, "How it is carried out. null: direct for all-to-all, ring for all others.", _NCCL_SOURCE
    )
    overlap: bool = setting(
        False,
        "The ranks go on with the next step meanwhile; before they begin again they wait for it.",
        "assumption: one after the other",
    )

    @model_validator(mode="after")
    def _one(self) -> Step:
        kinds = ("compute", "collective", "graph")
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1:
            raise refuse("compute", " and ".join(given) or "nothing to do", f"one of {', '.join(kinds)}")
        if self.collective is not None:
            if self.size is None:
                raise refuse("size", "nothing", "the size of the collective")
            known = COLLECTIVE_ALGORITHMS[self.collective]
            if self.algorithm is not None and self.algorithm not in known:
                raise refuse("algorithm", f'"{self.algorithm}"', f"one of {', '.join(known)}")
        elif other := changed(self, set(Step.model_fields) - {given[0]}):
            raise refuse(other[0], "a setting of a collective", f"none: the step has {given[0]}")
        return self


class Job(Ranks):
    """A training job: ranks repeat steps. An iteration ends when all ranks have ended it."""

    kind: Literal["job"] = Field(description="The kind of traffic.")
    steps: list[Step] = Field(description="What every rank does, in turn.", min_length=1, max_length=1000)


COLLECTIVE_ITEMS = (AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast)
Collective: TypeAlias = AllReduce | AllGather | ReduceScatter | AllToAll | Broadcast


def is_job(item: object) -> TypeGuard[Collective | Job]:
    """True for traffic items of ranks whose messages wait for each other."""
    if isinstance(item, AllToAll):
        return item.size is not None
    return isinstance(item, (*COLLECTIVE_ITEMS, Job))


def steps_of(item: Collective | Job) -> list[Step]:
    """The steps of the ranks of a traffic item."""
    if isinstance(item, Job):
        return item.steps
    names = ("size", "algorithm", "channels", "chunk", "overlap")
    own = {name: getattr(item, name) for name in names}
    steps = [Step.model_construct(compute=None, collective=item.kind, graph=None, **own)]
    if item.compute:
        computes = Step.model_construct(compute=item.compute, collective=None, graph=None)
        steps.insert(1 if item.overlap else 0, computes)
    return steps
