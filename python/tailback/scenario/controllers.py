"""Congestion controllers and what they can be set to, as the engine declares them.

Made by tools/make_settings.py from crates/proto/src/congestion; not to be edited.
"""

# No `from __future__ import annotations`: each annotation would be compiled when the module is loaded.

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tailback.scenario.fields import Flag, Section, setting
from tailback.scenario.profiles import ControllerFacts, ControllerNames, Profile, Signal
from tailback.units import DURATION, RATE, SIZE

BUILT_IN_CONTROLLERS = (
    "dcqcn",
    "hpcc",
    "pint",
    "timely",
    "dctcp",
    "swift",
    "none",
)
"""The built-in controllers."""
ControllerName = Annotated[str, ControllerNames(BUILT_IN_CONTROLLERS)]
"""A field that names a controller, built in or given in Python."""


class Dcqcn(Section):
    """DCQCN: a profile, and what differs from it under the mlnx names, in the NIC's own units."""

    PROFILES: ClassVar[dict[str, Profile]] = {
        "connectx": Profile(
            about="ConnectX-4 and later as shipped",
            source='NVIDIA "DCQCN CC Parameters", defaults',
            values={
                "dce_tcp_g": 1019,
                "dce_tcp_rtt": 1,
                "initial_alpha_value": 1023,
                "rate_to_set_on_first_cnp": 0,
                "rpg_min_dec_fac": 50,
                "rpg_min_rate": 1,
                "rpg_gd": 11,
                "rate_reduce_monitor_period": 4,
                "clamp_tgt_rate": False,
                "clamp_tgt_rate_after_time_inc": True,
                "rpg_time_reset": 300,
                "rpg_byte_reset": 32767,
                "rpg_threshold": 1,
                "rpg_ai_rate": 5,
                "rpg_hai_rate": 50,
                "rpg_max_rate": 0,
                "min_time_between_cnps": 4,
                "byte_reset_unit_bytes": 64,
                "release_at_max_rate": True,
                "cnp_interval_per": "qp",
                "wait_follows_rate": True,
                "limiter_burst_bytes": 0,
            },
            sources={
                "byte_reset_unit_bytes": "assumption: 64 B makes 2 MB, a test vendor's default; bytes, as a tool's help text has it, bring a queue pair back in 6 ms, 64 B in 0.1 s, and a ConnectX-5 took 0.45 s",
                "release_at_max_rate": "assumption: a tool's help text: at rpg_max_rate the rate limiter is released",
                "cnp_interval_per": "assumption: documents differ; for a host or the port, RoCE Rocks would pause on",
                "wait_follows_rate": 'NVIDIA "Packet Pacing" (5T): tokens by a clock; assumption: DCQCN\'s limiter is of that kind',
                "limiter_burst_bytes": "assumption: no document says; a BlueField-3 at 4 to 18 Mbit/s sent a CNP per 6 to 7 packets, all of them marked",
            },
            per_25_gbps=frozenset([]),
        ),
        "sigcomm15": Profile(
            about="The paper's own evaluation at 40 Gbit/s",
            source="Zhu et al., SIGCOMM 2015, sections 3.1 and 5",
            values={
                "dce_tcp_g": 1020,
                "dce_tcp_rtt": 55,
                "initial_alpha_value": 1024,
                "rate_to_set_on_first_cnp": 0,
                "rpg_min_dec_fac": 50,
                "rpg_min_rate": 1,
                "rpg_gd": 11,
                "rate_reduce_monitor_period": 0,
                "clamp_tgt_rate": True,
                "clamp_tgt_rate_after_time_inc": True,
                "rpg_time_reset": 55,
                "rpg_byte_reset": 10000000,
                "rpg_threshold": 5,
                "rpg_ai_rate": 40,
                "rpg_hai_rate": 50,
                "rpg_max_rate": 0,
                "min_time_between_cnps": 50,
                "byte_reset_unit_bytes": 1,
                "release_at_max_rate": False,
                "cnp_interval_per": "qp",
                "wait_follows_rate": True,
                "limiter_burst_bytes": 0,
            },
            sources={
                "dce_tcp_g": "Zhu et al., SIGCOMM 2015, section 5: g = 1/256, so (1024 - 4)/1024 of alpha remains",
                "dce_tcp_rtt": "Zhu et al., SIGCOMM 2015, section 5: alpha timer 55 us",
                "initial_alpha_value": "Zhu et al., SIGCOMM 2015, section 3.1: alpha starts at 1",
                "rpg_min_rate": "assumption: not given there; the connectx value",
                "rpg_min_dec_fac": "Zhu et al., SIGCOMM 2015, equation 1: a cut by alpha/2 never takes more than half",
                "rate_reduce_monitor_period": "Zhu et al., SIGCOMM 2015, equation 1: a cut on each CNP, at once",
                "clamp_tgt_rate": "Zhu et al., SIGCOMM 2015, equation 1: every cut sets the target to the rate before it",
                "clamp_tgt_rate_after_time_inc": "assumption: without effect where every cut sets the target",
                "rpg_time_reset": "Zhu et al., SIGCOMM 2015, section 5: rate timer 55 us",
                "rpg_byte_reset": "Zhu et al., SIGCOMM 2015, section 5: byte counter 10 MB",
                "rpg_threshold": "Zhu et al., SIGCOMM 2015, section 3.1: F = 5",
                "rpg_ai_rate": "Zhu et al., SIGCOMM 2015, section 3.1: R_AI = 40 Mb/s",
                "rpg_hai_rate": "assumption: the paper gives no figure; the connectx value",
                "min_time_between_cnps": "Zhu et al., SIGCOMM 2015, section 3.1: 50 us",
                "byte_reset_unit_bytes": "Zhu et al., SIGCOMM 2015, section 5: byte counter 10 MB",
                "release_at_max_rate": "Zhu et al., SIGCOMM 2015, figure 7: nothing there releases the limiter",
                "cnp_interval_per": "Zhu et al., SIGCOMM 2015, section 3.1: for each flow",
                "wait_follows_rate": 'NVIDIA "Packet Pacing" (5T): tokens by a clock; assumption: DCQCN\'s limiter is of that kind',
                "limiter_burst_bytes": "assumption: no document says; a BlueField-3 at 4 to 18 Mbit/s sent a CNP per 6 to 7 packets, all of them marked",
            },
            per_25_gbps=frozenset([]),
        ),
        "alibaba": Profile(
            about="Alibaba's production setting; its ECN (100 KB, 400 KB per 25 Gbit/s) belongs to the switch",
            source="Li et al. (HPCC), SIGCOMM 2019, the DCQCN that Alibaba runs",
            values={
                "dce_tcp_g": 1020,
                "dce_tcp_rtt": 1,
                "initial_alpha_value": 1023,
                "rate_to_set_on_first_cnp": 0,
                "rpg_min_dec_fac": 50,
                "rpg_min_rate": 1000,
                "rpg_gd": 11,
                "rate_reduce_monitor_period": 4,
                "clamp_tgt_rate": False,
                "clamp_tgt_rate_after_time_inc": True,
                "rpg_time_reset": 300,
                "rpg_byte_reset": 0,
                "rpg_threshold": 1,
                "rpg_ai_rate": 5,
                "rpg_hai_rate": 50,
                "rpg_max_rate": 0,
                "min_time_between_cnps": 4,
                "byte_reset_unit_bytes": 64,
                "release_at_max_rate": True,
                "cnp_interval_per": "qp",
                "wait_follows_rate": True,
                "limiter_burst_bytes": 0,
            },
            sources={
                "byte_reset_unit_bytes": "assumption: 64 B makes 2 MB, a test vendor's default; bytes, as a tool's help text has it, bring a queue pair back in 6 ms, 64 B in 0.1 s, and a ConnectX-5 took 0.45 s",
                "release_at_max_rate": "assumption: a tool's help text: at rpg_max_rate the rate limiter is released",
                "cnp_interval_per": "assumption: documents differ; for a host or the port, RoCE Rocks would pause on",
                "wait_follows_rate": 'NVIDIA "Packet Pacing" (5T): tokens by a clock; assumption: DCQCN\'s limiter is of that kind',
                "limiter_burst_bytes": "assumption: no document says; a BlueField-3 at 4 to 18 Mbit/s sent a CNP per 6 to 7 packets, all of them marked",
                "dce_tcp_g": "Li et al. (HPCC), SIGCOMM 2019: g = 1/256, so (1024 - 4)/1024 of alpha remains",
                "initial_alpha_value": "assumption: not given there; the connectx value",
                "rate_to_set_on_first_cnp": "assumption: not given there; the connectx value",
                "rpg_min_dec_fac": "assumption: not given there; the connectx value",
                "rpg_gd": "assumption: not given there; the connectx value",
                "clamp_tgt_rate": "assumption: not given there; the connectx value",
                "clamp_tgt_rate_after_time_inc": "assumption: not given there; the connectx value",
                "rpg_byte_reset": "assumption: not given there; the authors' simulator has no byte counter",
                "rpg_max_rate": "assumption: not given there; the connectx value",
                "min_time_between_cnps": "assumption: not given there; the connectx value",
            },
            per_25_gbps=frozenset(["rpg_ai_rate", "rpg_hai_rate"]),
        ),
    }

    profile: Literal["connectx", "sigcomm15", "alibaba"] = setting(
        "connectx",
        "Which setting the parameters start from: connectx: ConnectX-4 and later as shipped; sigcomm15: The paper's own evaluation at 40 Gbit/s; alibaba: Alibaba's production setting; its ECN (100 KB, 400 KB per 25 Gbit/s) belongs to the switch.",
        "the NIC as it is shipped",
    )
    dce_tcp_g: int | None = setting(
        None, "Share of alpha that remains after a period, in 1/1024.", "the profile", ge=0, le=1024
    )
    dce_tcp_rtt: int | None = setting(
        None, "Period of the update of alpha, in us.", "the profile", ge=1, le=4294967295
    )
    initial_alpha_value: int | None = setting(
        None, "Alpha at the first CNP of a flow, in 1/1024.", "the profile", ge=0, le=1024
    )
    rate_to_set_on_first_cnp: int | None = setting(
        None, "Rate at the first CNP, in Mb/s; 0: the line rate.", "the profile", ge=0, le=4294967295
    )
    rpg_min_dec_fac: int | None = setting(
        None, "Least share of the rate that a cut leaves, in %.", "the profile", ge=0, le=100
    )
    rpg_min_rate: int | None = setting(
        None, "Lowest rate of a queue pair, in Mb/s.", "the profile", ge=1, le=4294967295
    )
    rpg_gd: int | None = setting(
        None, "A cut gives rate * (1 - alpha / 2^(rpg_gd - 10)).", "the profile", ge=10, le=30
    )
    rate_reduce_monitor_period: int | None = setting(
        None, "At most one cut in this period, in us; 0: at each CNP.", "the profile", ge=0, le=4294967295
    )
    clamp_tgt_rate: Flag | None = setting(
        None, "Every cut sets the target to the rate before it.", "the profile"
    )
    clamp_tgt_rate_after_time_inc: Flag | None = setting(
        None,
        "If not every cut sets the target: a cut after an increase by the timer does, not only a cut after an increase by the byte counter.",
        "the profile",
    )
    rpg_time_reset: int | None = setting(
        None, "Period of the timer of rate increases, in us.", "the profile", ge=1, le=4294967295
    )
    rpg_byte_reset: int | None = setting(
        None,
        "Data between two rate increases by the byte counter, in byte_reset_unit_bytes; 0: no byte counter.",
        "the profile",
        ge=0,
        le=4294967295,
    )
    rpg_threshold: int | None = setting(
        None, "Increases of either counter before fast recovery ends.", "the profile", ge=0, le=4294967295
    )
    rpg_ai_rate: int | None = setting(
        None, "Additive increase of the target, in Mb/s.", "the profile", ge=0, le=4294967295
    )
    rpg_hai_rate: int | None = setting(
        None, "Hyper increase of the target, in Mb/s.", "the profile", ge=0, le=4294967295
    )
    rpg_max_rate: int | None = setting(
        None, "Highest rate, in Mb/s; 0: the line rate.", "the profile", ge=0, le=4294967295
    )
    min_time_between_cnps: int | None = setting(
        None, "Least time between two CNPs of the receiver, in us.", "the profile", ge=0, le=4294967295
    )
    byte_reset_unit_bytes: Literal[1, 64] | None = setting(
        None, "Reading: the unit of rpg_byte_reset, in bytes.", "the profile"
    )
    release_at_max_rate: Flag | None = setting(
        None,
        "Reading: at the highest rate the limiter is released, and the next CNP is a first one again.",
        "the profile",
    )
    cnp_interval_per: Literal["qp", "destination", "port"] | None = setting(
        None,
        "Reading: whether min_time_between_cnps holds for each queue pair, for each host that CNPs go to, or for the port.",
        "the profile",
    )
    wait_follows_rate: Flag | None = setting(
        None,
        "Reading: a packet that waits for its turn leaves earlier when the rate rises meanwhile. If false, its turn does not move.",
        "the profile",
    )
    limiter_burst_bytes: int | None = setting(
        None,
        "Reading: bytes on the wire that the rate limiter lets go at once, before it waits as long as they take at the rate; 0: it waits after each packet.",
        "the profile",
        ge=0,
        le=1048576,
    )


class Hpcc(Section):
    """HPCC: switches write their load into packets, and the sender computes its window from it."""

    base_rtt: Annotated[int | Literal["auto"], DURATION.between("1ps", maximum="1s").or_word("auto")] = (
        setting(
            "auto",
            "T: round trip without queues, the same for the whole network and not below that of any queue pair. The largest window is the link's rate times T. auto: the longest round trip between two hosts on shortest routes, with a full packet one way and its ACK back, rounded up to 100 ns.",
            "Li et al. (HPCC), SIGCOMM 2019, section 5.1: a little above the longest in its fabric",
        )
    )
    eta: float = setting(
        0.95,
        "Utilisation to aim at.",
        "Li et al. (HPCC), SIGCOMM 2019, section 5.1",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    max_stage: int = setting(
        5,
        "Additive steps before a multiplicative one, below eta. The authors' site says that the paper's simulations ran with 0, as their simulator does, and that 5 is a slip.",
        "Li et al. (HPCC), SIGCOMM 2019, section 5.1",
        ge=0,
        le=1000,
    )
    additive: Annotated[int, SIZE.between(maximum="1GB")] = setting(
        SIZE.parse("80B"),
        "W_AI: what the window gains in a step; it makes queue pairs equal, and with N of them it costs a queue once N * W_AI is above (1 - eta) of the largest window.",
        "Li et al. (HPCC), SIGCOMM 2019, section 5.1",
    )
    min_rate: Annotated[int, RATE.between("1bps", maximum="100Tbps")] = setting(
        RATE.parse("100Mbps"), "Lowest rate of a queue pair.", "the HPCC authors' simulator: MIN_RATE"
    )
    telemetry: Annotated[int, SIZE.between(maximum="1KiB")] = setting(
        SIZE.parse("42B"),
        "What telemetry adds to each data packet and each ACK.",
        "Li et al. (HPCC), SIGCOMM 2019, section 4: five hops",
    )


class Pint(Section):
    """PINT: HPCC, where a packet brings the largest load of its route in a byte or two."""

    base_rtt: Annotated[int | Literal["auto"], DURATION.between("1ps", maximum="1s").or_word("auto")] = (
        setting(
            "auto",
            "T: round trip without queues, the same for the whole network and not below that of any queue pair. The largest window is the link's rate times T. auto: the longest round trip between two hosts on shortest routes, with a full packet one way and its ACK back, rounded up to 100 ns.",
            "Li et al. (HPCC), SIGCOMM 2019, section 5.1: a little above the longest in its fabric",
        )
    )
    eta: float = setting(
        0.95,
        "Utilisation to aim at.",
        "Li et al. (HPCC), SIGCOMM 2019, section 5.1",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    max_stage: int = setting(
        5,
        "Additive steps before a multiplicative one, below eta. The authors' site says that the paper's simulations ran with 0, as their simulator does, and that 5 is a slip.",
        "Li et al. (HPCC), SIGCOMM 2019, section 5.1",
        ge=0,
        le=1000,
    )
    additive: Annotated[int, SIZE.between(maximum="1GB")] = setting(
        SIZE.parse("80B"),
        "W_AI: what the window gains in a step; it makes queue pairs equal, and with N of them it costs a queue once N * W_AI is above (1 - eta) of the largest window.",
        "Li et al. (HPCC), SIGCOMM 2019, section 5.1",
    )
    min_rate: Annotated[int, RATE.between("1bps", maximum="100Tbps")] = setting(
        RATE.parse("100Mbps"), "Lowest rate of a queue pair.", "the HPCC authors' simulator: MIN_RATE"
    )
    base: float = setting(
        1.05,
        "From one code of a digest to the next the load grows by this factor.",
        "the HPCC authors' simulator: PINT_LOG_BASE",
        ge=1.0002,
        le=2.0,
        allow_inf_nan=False,
    )
    probability: float = setting(
        1.0,
        "Share of the packets that carry a digest.",
        "the HPCC authors' simulator: PINT_PROB",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    telemetry: Annotated[int, SIZE.between("1B", maximum="2B")] = setting(
        SIZE.parse("1B"),
        "What a digest adds to each data packet and each ACK.",
        "assumption: what the default base takes; the PINT authors' site says 2 B at most",
    )


class Timely(Section):
    """TIMELY: the rate follows the gradient of the round-trip time."""

    alpha: float = setting(
        0.02,
        "Weight of the newest difference of round-trip times. The paper's evaluation gives none; the simulators of Zhu et al. (CoNEXT 2016) and of the HPCC authors have 0.875.",
        "the TIMELY authors' code (timely-code-snippet.cc): ewma_alpha",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    beta: float = setting(
        0.8,
        "Strength of a decrease.",
        "Mittal et al. (TIMELY), SIGCOMM 2015, section 6",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    additive: Annotated[int, RATE.between(maximum="100Tbps")] = setting(
        RATE.parse("10Mbps"),
        "What the rate gains in a step (delta), on any link.",
        "Mittal et al. (TIMELY), SIGCOMM 2015, section 6, at 10 Gbit/s",
    )
    hyper_additive: Annotated[int, RATE.between(maximum="100Tbps")] = setting(
        RATE.parse("50Mbps"),
        "The same in hyperactive increase.",
        "Mittal et al. (TIMELY), SIGCOMM 2015, section 4.3: N = 5 times delta",
    )
    hyper_after: int = setting(
        5,
        "The increase is hyperactive after this many steps in a row without a growing round-trip time.",
        "Mittal et al. (TIMELY), SIGCOMM 2015, section 4.3",
        ge=0,
        le=1000000,
    )
    t_low: Annotated[int, DURATION.between("1ps", maximum="1s")] = setting(
        DURATION.parse("50us"),
        "Below this round-trip time the rate always grows.",
        "Mittal et al. (TIMELY), SIGCOMM 2015, section 6",
    )
    t_high: Annotated[int, DURATION.between("1ps", maximum="1s")] = setting(
        DURATION.parse("500us"),
        "Above this round-trip time the rate always falls.",
        "Mittal et al. (TIMELY), SIGCOMM 2015, section 6",
    )
    min_rtt: Annotated[int | Literal["auto"], DURATION.between("1ps", maximum="1s").or_word("auto")] = (
        setting(
            DURATION.parse("20us"),
            "The mean RTT difference is divided by this to give the gradient. auto: the longest round trip between two hosts on shortest routes, with a full packet one way and its ACK back, rounded up to 100 ns.",
            "the simulator of Zhu et al. (ECN or Delay), CoNEXT 2016: MIN RTT",
        )
    )
    segment: Annotated[int, SIZE.between(maximum="1GB")] = setting(
        SIZE.parse("16KB"),
        "A message is sent in segments of this size, rounded up to whole packets: each at line rate, with pauses between them, and a computation of the rate when it is acknowledged. 0: packets are paced, and the rate is computed once a round trip.",
        "Mittal et al. (TIMELY), SIGCOMM 2015, section 6; up to 64 KB in section 3",
    )
    min_rate: Annotated[int, RATE.between("1bps", maximum="100Tbps")] = setting(
        RATE.parse("100Mbps"), "Lowest rate of a queue pair.", "the HPCC authors' simulator: MIN_RATE"
    )
    telemetry: Annotated[int, SIZE.between(maximum="1KiB")] = setting(
        SIZE.parse("8B"),
        "What a timestamp adds to each data packet and each ACK.",
        "the HPCC authors' simulator: 8 B",
    )


class Dctcp(Section):
    """DCTCP with a rate: the share of marks sets the cut. Its ECN threshold K belongs to the switch."""

    g: float = setting(
        0.0625,
        "Weight of the newest window in the share of marks.",
        "Alizadeh et al. (DCTCP), SIGCOMM 2010: 1/16",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    additive: Annotated[int, RATE.between(maximum="100Tbps")] = setting(
        RATE.parse("615Mbps"),
        "What the rate gains in a round trip without marks.",
        "the HPCC authors' simulator, run.py: a packet of 1 KB each 13 us",
    )
    min_rate: Annotated[int, RATE.between("1bps", maximum="100Tbps")] = setting(
        RATE.parse("100Mbps"), "Lowest rate of a queue pair.", "the HPCC authors' simulator: MIN_RATE"
    )
    window_rtt: (
        Annotated[int | Literal["auto"], DURATION.between("1ps", maximum="1s").or_word("auto")] | None
    ) = setting(
        "auto",
        "A queue pair's window is its rate times this, the round trip without queues; null: no window. auto: the longest round trip between two hosts on shortest routes, with a full packet one way and its ACK back, rounded up to 100 ns.",
        "the HPCC authors' simulator, run.py: a window that follows the rate, and GLOBAL_T, the longest round trip",
    )


class Swift(Section):
    """Swift: a window that holds the round-trip time at a target, which grows with the number of flows and of hops."""

    base_target: Annotated[int, DURATION.between("1ps", maximum="1s")] = setting(
        DURATION.parse("25us"),
        "Target delay of a route without switches and with few flows.",
        "Kumar et al. (Swift), SIGCOMM 2020, section 5.2",
    )
    hop: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("2us"),
        "What each switch on the route adds to the target.",
        "assumption: the paper gives none; a link of 500 ns and a switch of 300 ns, there and back, and a packet",
    )
    ai: float = setting(
        1.0,
        "Additive increase of the window in a round trip, in packets.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
        ge=1e-06,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    beta: float = setting(
        0.8,
        "Strength of a decrease.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    max_mdf: float = setting(
        0.5,
        "Most that one decrease takes: this share of the window.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    fs_range: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("100us"),
        "Most that flow scaling adds to the target: for windows of fs_min_cwnd and below.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
    )
    fs_min_cwnd: float = setting(
        0.1,
        "Window in packets, at and below which flow scaling adds all of fs_range.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
        ge=1e-06,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    fs_max_cwnd: float = setting(
        100.0,
        "Window in packets, at and above which flow scaling adds nothing.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
        ge=1e-06,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    endpoint_target: Annotated[int, DURATION.between("1ps", maximum="1s")] = setting(
        DURATION.parse("100us"),
        "Target of the receiving host's part of the delay; it is not scaled.",
        "Kumar et al. (Swift), SIGCOMM 2020, section 5.4",
    )
    endpoint_weight: float = setting(
        0.125,
        "Weight of the newest delay of the receiving host in its average.",
        "assumption: the paper gives none; RFC 6298's 1/8",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    initial_cwnd: float = setting(
        10.0,
        "Window at the start of a flow, in packets.",
        "assumption: it has little effect on long flows (section 3.2); RFC 6928's ten",
        ge=1e-06,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    min_cwnd: float = setting(
        0.001,
        "Smallest window, in packets.",
        "Kumar et al. (Swift), SIGCOMM 2020, section 3.4",
        ge=1e-06,
        le=1.0,
        allow_inf_nan=False,
    )
    max_cwnd: float = setting(
        1000.0,
        "Largest window, in packets.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
        ge=1.0,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    retx_reset: int = setting(
        5,
        "Timeouts in a row, from which on the window is the smallest one.",
        "assumption: the paper gives none; the guess of htsim (github.com/Broadcom/csg-htsim, sim/swift.cpp)",
        ge=1,
        le=1000,
    )
    telemetry: Annotated[int, SIZE.between(maximum="1KiB")] = setting(
        SIZE.parse("5B"),
        "What the receiver's delay and the number of hops add to each data packet and each ACK.",
        "Kumar et al. (Swift), SIGCOMM 2020, appendix B: 4 B and 1 B",
    )


class RhccSender(Section):
    """RHCC's sender: a rate that follows the receiver's delay."""

    probe_bytes: Annotated[int, SIZE.between("1B", maximum="1GB")] = setting(
        SIZE.parse("32KB"),
        "Data of a queue pair between two probes.",
        "Wan et al. (RHCC), APNet 2024, section 4",
    )
    threshold_delay: Annotated[int, DURATION.between("1ps", maximum="1s")] = setting(
        DURATION.parse("200ns"),
        "D_thr: processing delay of the receiver to aim at.",
        "Wan et al. (RHCC), APNet 2024, section 4",
    )
    law: Literal["pid", "aimd"] = setting(
        "pid",
        "How an answer changes the rate: by equation (1), or by fixed steps.",
        "Wan et al. (RHCC), APNet 2024, section 3.3",
    )
    alpha: float = setting(
        0.0005,
        "Of pid: share of the rate that each ns above threshold_delay takes.",
        "Wan et al. (RHCC), APNet 2024, section 4",
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    beta: float = setting(
        0.0005,
        "Of pid: share of the rate that each ns more than the answer before takes.",
        "Wan et al. (RHCC), APNet 2024, section 4",
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    additive: Annotated[int, RATE.between(maximum="100Tbps")] = setting(
        RATE.parse("40Mbps"),
        "Of aimd: what an answer at threshold_delay or below adds.",
        "assumption: the paper names AIMD without numbers; R_AI of Zhu et al. (DCQCN), SIGCOMM 2015",
    )
    decrease: float = setting(
        0.5,
        "Of aimd: share of the rate that an answer above threshold_delay takes.",
        "assumption: the paper names AIMD without numbers; half, as TCP",
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    floor: Annotated[int, RATE.between("1bps", maximum="100Tbps")] = setting(
        RATE.parse("100Mbps"),
        "Lowest rate. From zero, which the paper allows, a rate that is only multiplied never recovers.",
        "assumption: as the lowest rate of HPCC, TIMELY and DCTCP here",
    )
    idle_probe: Annotated[int, DURATION.between("1ps", maximum="1s")] | None = setting(
        DURATION.parse("100us"),
        "Longest time without a probe while the rate is below the line's; null: probes follow data alone.",
        "assumption: 32 KB in that time are 2.6 Gbit/s; a slower queue pair would hear little",
    )


class Controllers(Section):
    """A section for each controller that can be set."""

    dcqcn: Dcqcn = Field(default_factory=Dcqcn, description="DCQCN's parameters, where congestion is dcqcn.")
    hpcc: Hpcc = Field(default_factory=Hpcc, description="HPCC's parameters, where congestion is hpcc.")
    pint: Pint = Field(default_factory=Pint, description="PINT's parameters, where congestion is pint.")
    timely: Timely = Field(
        default_factory=Timely, description="TIMELY's parameters, where congestion is timely."
    )
    dctcp: Dctcp = Field(default_factory=Dctcp, description="DCTCP's parameters, where congestion is dctcp.")
    swift: Swift = Field(default_factory=Swift, description="Swift's parameters, where congestion is swift.")


CONTROLLER_FACTS: dict[str, ControllerFacts] = {
    "dcqcn": ControllerFacts(
        "DCQCN: a profile, and what differs from it under the mlnx names, in the NIC's own units.",
        each_ack=False,
        reads_switches=False,
        counts_hops=False,
        marks=True,
        signals=(Signal("alpha", "", "The estimate of congestion, 0 to 1."),),
    ),
    "hpcc": ControllerFacts(
        "HPCC: switches write their load into packets, and the sender computes its window from it.",
        each_ack=True,
        reads_switches=True,
        counts_hops=False,
        marks=False,
        signals=(),
    ),
    "pint": ControllerFacts(
        "PINT: HPCC, where a packet brings the largest load of its route in a byte or two.",
        each_ack=True,
        reads_switches=True,
        counts_hops=False,
        marks=False,
        signals=(
            Signal(
                "load",
                "",
                "Load of the most loaded link by the last digest, 1 a full link without a queue; 0 before the first.",
            ),
        ),
    ),
    "timely": ControllerFacts(
        "TIMELY: the rate follows the gradient of the round-trip time.",
        each_ack=False,
        reads_switches=False,
        counts_hops=False,
        marks=False,
        signals=(
            Signal("rtt_ps", "ps", "Round-trip time of the last completion event; 0 before the first."),
        ),
    ),
    "dctcp": ControllerFacts(
        "DCTCP with a rate: the share of marks sets the cut. Its ECN threshold K belongs to the switch.",
        each_ack=True,
        reads_switches=False,
        counts_hops=False,
        marks=False,
        signals=(Signal("alpha", "", "Average share of marked bytes, 0 to 1."),),
    ),
    "swift": ControllerFacts(
        "Swift: a window that holds the round-trip time at a target, which grows with the number of flows and of hops.",
        each_ack=True,
        reads_switches=False,
        counts_hops=True,
        marks=False,
        signals=(
            Signal("rtt_ps", "ps", "Round-trip time by the latest ACK; 0 before the first."),
            Signal("target_delay_ps", "ps", "Target of the fabric's delay."),
            Signal(
                "cwnd_packets",
                "packets",
                "Congestion window: the smaller one of the fabric and of the receiving host.",
            ),
        ),
    ),
    "none": ControllerFacts(
        "No congestion control: every queue pair sends at line rate.",
        each_ack=False,
        reads_switches=False,
        counts_hops=False,
        marks=False,
        signals=(),
    ),
    "rhcc": ControllerFacts(
        "RHCC's sender: a rate that follows the receiver's delay.",
        each_ack=False,
        reads_switches=False,
        counts_hops=False,
        marks=False,
        signals=(
            Signal("receiver_rate_bps", "bit/s", "RHCC: the rate that the receiver's delay allows."),
            Signal(
                "receiver_delay_ns",
                "ns",
                "RHCC: the receiver's processing delay, by the latest answer; 0 before the first.",
            ),
        ),
    ),
}
"""Facts about each controller, and about host control beside them."""
