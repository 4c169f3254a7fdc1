"""Traffic of a scenario: writers that keep messages outstanding, always or for some time, single messages,
listed or drawn, and TCP.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tailback.scenario import declared
from tailback.scenario.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    Job,
    ReduceScatter,
    Roce,
)
from tailback.scenario.controllers import ControllerName
from tailback.scenario.declared import Message, RunTime, Start
from tailback.scenario.fields import ByKind, Dscp, Priority, Section, like, refuse, setting, stop_after_start
from tailback.scenario.hosts import ALL_HOSTS, HostSet
from tailback.scenario.veth import Ping, UdpFlood, XdpFrames
from tailback.units import duration, format_duration, size

PERFTEST_SOURCE = "perftest, ib_write_bw"
_PERFTEST_LAT = "perftest, ib_write_lat"
IPERF_SOURCE = "iperf3"
_ROCE_ROCKS_SECTION = '"RoCE Rocks without PFC", section'
_ALL_HOSTS_SOURCE = "assumption: the whole network takes part"


class _Ends(Section):
    """Sources, destinations and traffic class."""

    # from is a keyword of Python; Arrow tables and the plan say src and dst.
    model_config = ConfigDict(populate_by_name=False)

    kind: str
    from_: HostSet = Field(alias="from", description="Sending hosts: h0, h0..h15, all, or a list of these.")
    to: HostSet = Field(description="Receiving hosts: h0, h0..h15, all, or a list of these.")
    start_interval: Start = setting(
        0,
        "Each sending host starts this much after the one before, in the order of from.",
        "assumption: all at the same time",
    )


class _Controlled(_Ends):
    """Traffic with RoCE's congestion control."""

    priority: Priority = like(Roce, "priority")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")


class Write(declared.Write, _Controlled):
    """RDMA WRITEs as ib_write_bw posts them, from every host in from to every other host in to."""

    kind: Literal["write"] = Field(description="The kind of traffic.")
    bidirectional: bool = setting(
        False, "Every pair has as many queue pairs in the opposite direction.", f"{PERFTEST_SOURCE} -b: off"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Write:
        stop_after_start(self.start, self.stop)
        return self


class WriteLatency(Section):
    """One small RDMA WRITE at a time, answered by another, as ib_write_lat does, from from to to."""

    model_config = ConfigDict(populate_by_name=False)

    kind: Literal["write-latency"] = Field(description="The kind of traffic.")
    from_: HostSet = Field(
        alias="from", description="The hosts that begin: h0, h0..h15, all, or a list of these."
    )
    to: HostSet = Field(description="The hosts that answer: h0, h0..h15, all, or a list of these.")
    priority: Priority = like(Roce, "priority")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")
    message: Message = setting(size("2B"), "Size of a message.", f"{_PERFTEST_LAT} -s")
    iterations: int | None = setting(
        1000,
        "Round trips of each pair of hosts; null: until the end of the run.",
        f"{_PERFTEST_LAT} -n",
        ge=1,
        le=2**32,
    )
    start: int = like(declared.Write, "start", "Time of the first message.")


class TcpStreams(declared.TcpConnections, _Ends):
    """TCP connections as iperf3 has them, from every host in from to every other host in to."""

    kind: Literal["tcp"] = Field(description="The kind of traffic.")
    priority: Priority = setting(0, "Priority of data and ACKs.", "IEEE 802.1Q: best effort, unless marked")
    dscp: Dscp | None = like(Roce, "dscp")
    bidirectional: bool = setting(
        False, "Every pair has as many connections in the opposite direction.", f"{IPERF_SOURCE} --bidir: off"
    )

    @model_validator(mode="after")
    def _ordered(self) -> TcpStreams:
        stop_after_start(self.start, self.stop)
        return self


class Churn(Section):
    """Connections that come and go: at regular intervals some hosts are chosen to start new queue pairs.

    The hosts of each round are drawn anew, and so is how long each queue pair lasts. While it does, it keeps
    RDMA WRITEs outstanding as `write` does; then it posts no more, and ends when what it posted has arrived.
    """

    kind: Literal["churn"] = Field(description="The kind of traffic.")
    from_: HostSet = Field(
        alias="from", description="Hosts that senders are chosen from: h0, h0..h15, all, or a list of these."
    )
    to: HostSet = Field(description="Receiving hosts: h0, h0..h15, all, or a list of these.")
    interval: RunTime = setting(
        duration("1s"), "Time between two rounds.", f"{_ROCE_ROCKS_SECTION} 3.2.5: every 1 second"
    )
    senders: int | None = setting(
        None,
        "Hosts chosen in each round; null: half of them, rounded up.",
        f'assumption: {_ROCE_ROCKS_SECTION} 3.2.5 says "a subset"',
        ge=1,
        le=65_535,
    )
    qps: int = setting(
        1,
        "New queue pairs of each chosen host to every other host in to.",
        "assumption: one",
        ge=1,
        le=100_000,
    )
    lifetime_min: Start = setting(
        0,
        "Shortest time that a queue pair lasts.",
        f'assumption: {_ROCE_ROCKS_SECTION} 3.2.5 says "a random time span"',
    )
    lifetime_max: RunTime = setting(
        duration("2s"),
        "Longest time that a queue pair lasts; all times between are equally likely.",
        "assumption: with the shortest, one interval on average, so that about as many end as begin",
    )
    priority: Priority = like(Roce, "priority")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")
    message: int = like(declared.Write, "message")
    depth: int = like(declared.Write, "depth")
    start: int = like(declared.Write, "start", "The first round.")
    stop: RunTime | None = like(
        declared.Write, "stop", "No round from here on; null: until the end of the run."
    )

    model_config = ConfigDict(populate_by_name=False)

    @model_validator(mode="after")
    def _ordered(self) -> Churn:
        stop_after_start(self.start, self.stop)
        if self.lifetime_max < self.lifetime_min:
            raise refuse(
                "lifetime_max",
                format_duration(self.lifetime_max),
                f"at least lifetime_min, {format_duration(self.lifetime_min)}",
            )
        return self


class Flows(Section):
    """Single messages from a list, each on its own queue pair."""

    kind: Literal["flows"] = Field(description="The kind of traffic.")
    list_: list[str] | None = Field(
        None,
        alias="list",
        description='The messages: "h0 h1 1MB 10us" is sender, receiver, size and start; a fifth word is the '
        "priority.",
        json_schema_extra={"source": "assumption: file has them"},
        min_length=1,
        max_length=50_000,
    )
    file: str | None = setting(
        None,
        "A file with them, relative to the folder of the scenario: .csv or .parquet with the columns src, "
        "dst, bytes, start and, if wanted, priority; or a flow.txt of the HPCC simulator, with any other "
        "ending.",
        "assumption: list has them",
        min_length=1,
        max_length=1000,
    )
    priority: Priority = like(Roce, "priority", "Priority (PCP) of data and ACKs, where the list gives none.")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")
    start: Start | None = setting(
        None,
        "When the first message is posted; all others move with it. null: as the list has it.",
        "assumption: the list means what it says",
    )

    model_config = ConfigDict(populate_by_name=False)

    @model_validator(mode="after")
    def _one(self) -> Flows:
        if (self.list_ is None) == (self.file is None):
            what = "neither list nor file" if self.file is None else "list and file"
            raise refuse("list", what, "one of the two")
        return self


class Poisson(Section):
    """Messages of random sizes at random times between random hosts: an open system under a given load.

    Every host posts messages with exponentially distributed gaps. Sizes are drawn from a distribution,
    receivers uniformly from the other hosts. Each message is on a queue pair of its own. The load is that
    of the generator of the HPCC simulator (traffic_gen.py): a host posts load * rate / (8 * mean size)
    messages a second.
    """

    kind: Literal["poisson"] = Field(description="The kind of traffic.")
    load: float = Field(
        description="Payload that each host posts, as a share of the rate of its link.",
        gt=0.0,
        le=2.0,
        allow_inf_nan=False,
    )
    sizes: str = Field(
        description="Distribution of the sizes: websearch, fb_hadoop, alistorage, or a file with lines of "
        "size in bytes and share of the messages up to it in %, or as fractions that end at 1, relative to "
        "the folder of the scenario.",
        min_length=1,
        max_length=1000,
    )
    hosts: HostSet = setting((ALL_HOSTS,), "Hosts that send and receive.", _ALL_HOSTS_SOURCE)
    priority: Priority = like(Roce, "priority")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")
    start: int = like(declared.Write, "start", "When the arrivals begin.")
    stop: RunTime | None = like(declared.Write, "stop", "When the arrivals end; null: with the run.")

    @model_validator(mode="after")
    def _ordered(self) -> Poisson:
        stop_after_start(self.start, self.stop)
        return self


class Incast(Section):
    """Bursts: many hosts send a message to the same receiver at the same moment, at regular intervals.

    Receiver and senders of each burst are drawn anew. Each message is on a queue pair of its own.
    """

    kind: Literal["incast"] = Field(description="The kind of traffic.")
    fan_in: int = Field(description="Senders of each burst.", ge=1, le=65_535)
    message: Message = Field(description="Bytes of each sender.")
    load: float | None = setting(
        None,
        "Payload of all bursts as a share of the rate of all hosts in to and from together; sets the "
        "interval.",
        "assumption: interval is given",
        gt=0.0,
        le=2.0,
        allow_inf_nan=False,
    )
    interval: RunTime | None = setting(None, "Time between two bursts.", "assumption: load is given")
    from_: HostSet = Field(
        (ALL_HOSTS,),
        alias="from",
        description="Hosts that senders are drawn from, without the receiver.",
        json_schema_extra={"source": _ALL_HOSTS_SOURCE},
    )
    to: HostSet = setting((ALL_HOSTS,), "Hosts that receivers are drawn from.", _ALL_HOSTS_SOURCE)
    bursts: int | None = setting(
        None, "Number of bursts; null: until stop.", "assumption: the load lasts", ge=1, le=1_000_000
    )
    priority: Priority = like(Roce, "priority")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")
    start: int = like(declared.Write, "start", "The first burst.")
    stop: RunTime | None = like(
        declared.Write, "stop", "No burst from here on; null: until the end of the run."
    )

    model_config = ConfigDict(populate_by_name=False)

    @model_validator(mode="after")
    def _ordered(self) -> Incast:
        stop_after_start(self.start, self.stop)
        if (self.load is None) == (self.interval is None):
            what = "neither load nor interval" if self.load is None else "load and interval"
            raise refuse("interval", what, "one of the two")
        return self


class Permutation(Section):
    """Every host sends one message to one other host, and receives one: a random derangement each round."""

    kind: Literal["permutation"] = Field(description="The kind of traffic.")
    message: Message = Field(description="Bytes of each message.")
    hosts: HostSet = setting((ALL_HOSTS,), "Hosts that send and receive.", _ALL_HOSTS_SOURCE)
    repeat: int = setting(
        1, "Rounds, each with a derangement of its own.", "assumption: one", ge=1, le=10_000
    )
    interval: Start = setting(0, "Time between the starts of two rounds.", "assumption: all at once")
    priority: Priority = like(Roce, "priority")
    dscp: Dscp | None = like(Roce, "dscp")
    congestion: ControllerName | None = like(Roce, "congestion")
    start: int = like(declared.Write, "start", "The first round.")


CONNECTION_ITEMS = (Write, WriteLatency, Churn, TcpStreams)
"""Items of connections, not of single messages."""

Traffic = Annotated[
    Write
    | WriteLatency
    | Churn
    | TcpStreams
    | Flows
    | Poisson
    | Incast
    | Permutation
    | AllToAll
    | AllReduce
    | AllGather
    | ReduceScatter
    | Broadcast
    | Job
    | UdpFlood
    | Ping
    | XdpFrames,
    ByKind(),
]
"""Traffic of one of the kinds; `kind` says which."""
