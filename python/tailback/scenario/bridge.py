"""A Linux host that forwards between its ports: `bridge`, where topology is kind: bridge.

What the model does with it is in docs/models/linux-bridge.md.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from tailback.scenario import declared
from tailback.scenario.fields import Section, refuse, setting
from tailback.scenario.hosts import NODE_NAME_PATTERN
from tailback.scenario.qdisc import Noqueue, Qdisc
from tailback.units import format_size

MAX_CORES = 1024
MAX_CHANNELS = 256
_Cpu = Annotated[int, Field(ge=0, le=65_535)]
_Channels = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=MAX_CHANNELS)]


class Core(declared.BridgeCore):
    """A core of the bridge."""

    isolated: bool = setting(
        False, "It takes no interrupts (isolcpus).", "Linux: no core is isolated unless it is asked for"
    )


class BridgePort(declared.BridgePort):
    """A port: the cores of its channels, which have a receive and a transmit ring each."""

    to: Annotated[str, Field(pattern=f"^{NODE_NAME_PATTERN}$")] = Field(
        description="The host at the other end."
    )
    irqs: Annotated[list[_Cpu], Field(min_length=1, max_length=MAX_CHANNELS)] | None = setting(
        None,
        "The core that takes the interrupt of each channel, smp_affinity_list; null: a channel on each core "
        "that is not isolated.",
        "Linux mlx5: as many channels as cores",
    )
    rss: _Channels | None = setting(
        None,
        "Channels that received flows are spread over, by hash, as ethtool -X has them; null: all.",
        "Linux ethtool.h: ethtool_rxfh_indir_default spreads over all",
    )


class Bql(declared.Bql):
    """Byte queue limits: bytes that may wait in a transmit ring."""

    @model_validator(mode="after")
    def _ordered(self) -> Bql:
        if self.limit_min > self.limit_max:
            raise refuse(
                "limit_min", format_size(self.limit_min), f"at most limit_max, {format_size(self.limit_max)}"
            )
        return self


class _Parts(Section):
    """Cores, ports and queues of a bridge."""

    cores: Annotated[list[Core], Field(min_length=1, max_length=MAX_CORES)] = setting(
        [Core(cpu=cpu) for cpu in range(4)],
        "Its cores that take part.",
        "assumption: four cores of one NUMA node",
    )
    ports: list[BridgePort] = setting(
        [], "Its ports; one that is not listed has all defaults.", "assumption: all ports are alike"
    )


class Bridge(declared.Bridge, _Parts):
    """The Linux host that forwards, in softirq, between its ports."""

    rx: declared.Coalescing = Field(
        default_factory=declared.Coalescing, description="Interrupts of received packets."
    )
    tx: declared.Coalescing = Field(
        default_factory=declared.Coalescing, description="Interrupts of transmit completions."
    )
    bql: Bql | None = Field(
        default_factory=Bql, description="Byte queue limits of the transmit rings; null: none."
    )
    qdisc: Qdisc | None = setting(
        None,
        "Queueing discipline of each port, for all of its transmit rings; null: mq, fq_codel for each ring.",
        "systemd sysctl.d/50-default.conf: net.core.default_qdisc = fq_codel; Linux: mq where rings are many",
    )
    costs: declared.Costs = Field(default_factory=declared.Costs, description="What a packet costs a core.")

    @model_validator(mode="after")
    def _numbered(self) -> Bridge:
        seen: set[int] = set()
        for core in self.cores:
            if core.cpu in seen:
                raise refuse("cores", f"cpu {core.cpu} twice", "every core once")
            seen.add(core.cpu)
        if all(core.isolated for core in self.cores):
            raise refuse("cores", "isolated cores only", "one that takes interrupts")
        if isinstance(self.qdisc, Noqueue):
            raise refuse("qdisc", "noqueue", "a discipline with a queue, as every device has one")
        if min(self.costs.receive, self.costs.transmit, self.costs.complete, self.interrupt, self.poll) == 0:
            raise refuse("costs", "something that takes no time", "more than 0 but for qdisc and per_byte")
        return self

    @property
    def least_latency(self) -> int:
        """Latency of a packet whose core is asleep, without interrupt moderation, ps."""
        costs = self.costs
        on_core = self.idle_exit + self.interrupt + self.poll + costs.receive + costs.transmit
        return self.rx_latency + on_core + self.tx_latency

    def port(self, host: str) -> BridgePort:
        """The port towards a host."""
        return next((port for port in self.ports if port.to == host), BridgePort(to=host))

    def irqs_of(self, port: BridgePort) -> list[int]:
        """The core of each channel."""
        return port.irqs or [core.cpu for core in self.cores if not core.isolated]
