"""The switch: output queues behind one shared buffer, ECN marking, PFC."""

from __future__ import annotations

from pydantic import Field, model_validator

from tailback.scenario import declared
from tailback.scenario.by_rate import at_rate, rates_of
from tailback.scenario.classes import Classification, Pools, Priorities, Weights
from tailback.scenario.fields import Section, refuse, setting
from tailback.units import format_rate, format_size


class Thresholds(declared.Thresholds):
    """Thresholds of ECN marking."""

    @property
    def settings(self) -> tuple[int | dict[int, int], int | dict[int, int], float | dict[int, float]]:
        """k_min, k_max and p_max."""
        return self.k_min, self.k_max, self.p_max

    @property
    def by_rate(self) -> bool:
        """True if thresholds depend on the rate of a port."""
        return any(isinstance(value, dict) for value in self.settings)

    def at(self, rate: int) -> tuple[int, int, float]:
        """k_min, k_max and p_max of ports of this rate; KeyError if they are not given."""
        return at_rate(self.k_min, rate), at_rate(self.k_max, rate), at_rate(self.p_max, rate)

    @model_validator(mode="after")
    def _ordered(self) -> Thresholds:
        for rate in rates_of((self.k_min, self.k_max)) or [0]:
            try:
                low, high = at_rate(self.k_min, rate), at_rate(self.k_max, rate)
            except KeyError:  # mappings without a common rate
                continue
            if low > high:
                where = f" at {format_rate(rate)}" if rate else ""
                raise refuse("k_min", format_size(low) + where, f"at most k_max, {format_size(high)}")
        return self


class Ecn(Thresholds):
    """ECN marking between a low and a high threshold of an egress queue, for all ports or by their rates.

    `k_min: {25Gbps: 100KB, 100Gbps: 400KB}` is for ports of these rates.
    """

    priorities: Priorities | None = setting(
        None,
        "Priorities that are marked; null: all that are not strict.",
        "assumption: a class that waits for no other needs no marks",
    )


class EcnOfPriorities(Thresholds):
    """ECN marking of some priorities."""

    priorities: Priorities = Field(description="The priorities.", min_length=1)


class Pfc(declared.Pause, declared.Pfc, declared.Headroom):
    """Priority flow control of the switch (IEEE 802.1Qbb)."""

    @model_validator(mode="after")
    def _ordered(self) -> Pfc:
        if self.xoff is not None and self.xon is not None and self.xon >= self.xoff:
            raise refuse("xon", format_size(self.xon), f"less than xoff, {format_size(self.xoff)}")
        if self.xoff is not None and self.xon is None and self.xon_offset > self.xoff:
            raise refuse(
                "xon_offset", format_size(self.xon_offset), f"at most xoff, {format_size(self.xoff)}"
            )
        return self


class Trimming(declared.Trimming):
    """Packet trimming: data that a lossy priority has no room for loses its payload; its headers go on."""

    priority: int = setting(
        6,
        "Priority of trimmed packets: their PCP, and 8 times it their DSCP.",
        'Handley et al., "NDP", SIGCOMM 2017: headers go before data; 6 is that of CNPs, strict',
        ge=0,
        le=7,
    )


class _Classified(Section):
    qos: Classification = Field(
        default_factory=Classification, description="Classes of the packets that arrive."
    )


class Switch(declared.Shared, _Classified, declared.Switch):
    """The switch: output queues behind one shared buffer."""

    lossless: Priorities = setting(
        [3],
        "Priorities under PFC; [] makes the switch lossy.",
        "Mellanox community DOC-2591: RoCE in priority 3",
    )
    strict: Priorities = setting(
        [6],
        "Classes with strict priority, the highest number first.",
        "Mellanox community DOC-2591: CNPs in priority 6, strict",
    )
    weights: Weights | None = setting(
        None,
        "Shares of the other classes in %, such as {0: 50, 3: 50}; a class without one is served last. null: "
        "all classes take turns, a packet each.",
        "assumption: no document gives the weights of a switch without configuration; turns are the simplest",
    )
    pools: Pools | None = setting(
        None,
        "Parts of the shared buffer for lossless and for lossy priorities; null: one for all.",
        "assumption: one pool, which dynamic thresholds divide",
    )
    ecn: Ecn | None = Field(
        default_factory=Ecn, description="ECN marking of ECN-capable packets; null: none but ecn_by_priority."
    )
    ecn_by_priority: list[EcnOfPriorities] = setting(
        [], "Other thresholds for some priorities.", "assumption: the same for all", max_length=8
    )
    pfc: Pfc = Field(default_factory=Pfc, description="Priority flow control of the lossless priorities.")
    watchdog: declared.Watchdog | None = setting(
        None,
        "PFC watchdog of lossless priorities; null: none. {} has its defaults.",
        "SONiC: pfcwd does not run unless it is started",
    )
    trimming: Trimming | None = setting(
        None,
        "Trimming of RoCE's data in lossy priorities: its headers go on where it would be dropped, and the "
        "sender hears of it at once. null: none. {} has its defaults. It takes "
        "host.transport.loss_recovery: selective-repeat.",
        "SAI: the default of a queue is to drop what it has no room for",
    )
