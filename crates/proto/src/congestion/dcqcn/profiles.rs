//! DCQCN as it is shipped and as it was published: profiles of its parameters, and where their values are from.

use super::super::parameters::{Plain, Profile};

pub(super) const NVIDIA: &str = "NVIDIA \"DCQCN CC Parameters\", defaults";
pub(super) const UNIT: &str = "assumption: 64 B makes 2 MB, a test vendor's default; bytes, as a tool's help text has it, bring a queue pair back \
    in 6 ms, 64 B in 0.1 s, and a ConnectX-5 took 0.45 s";
pub(super) const RELEASE: &str =
    "assumption: a tool's help text: at rpg_max_rate the rate limiter is released";
pub(super) const INTERVAL: &str =
    "assumption: documents differ; for a host or the port, RoCE Rocks would pause on";
pub(super) const TOKENS: &str =
    "NVIDIA \"Packet Pacing\" (5T): tokens by a clock; assumption: DCQCN's limiter is of that kind";
const NOT_GIVEN: &str = "assumption: not given there; the connectx value";

macro_rules! zhu {
    ($text:literal) => {
        concat!("Zhu et al., SIGCOMM 2015, ", $text)
    };
}

pub(super) const PROFILES: &[Profile] = &[
    Profile {
        name: "connectx",
        about: "ConnectX-4 and later as shipped",
        source: NVIDIA,
        values: &[],
        sources: &[],
        per_25_gbps: &[],
    },
    Profile {
        name: "sigcomm15",
        about: "The paper's own evaluation at 40 Gbit/s",
        source: zhu!("sections 3.1 and 5"),
        values: &[
            ("dce_tcp_g", Plain::Whole(1020)),
            ("dce_tcp_rtt", Plain::Whole(55)),
            ("initial_alpha_value", Plain::Whole(1024)),
            ("rate_reduce_monitor_period", Plain::Whole(0)),
            ("clamp_tgt_rate", Plain::Flag(true)),
            ("rpg_time_reset", Plain::Whole(55)),
            ("rpg_byte_reset", Plain::Whole(10_000_000)),
            ("byte_reset_unit_bytes", Plain::Whole(1)),
            ("rpg_threshold", Plain::Whole(5)),
            ("rpg_ai_rate", Plain::Whole(40)),
            ("rpg_hai_rate", Plain::Whole(50)),
            ("min_time_between_cnps", Plain::Whole(50)),
            ("release_at_max_rate", Plain::Flag(false)),
        ],
        sources: &[
            ("dce_tcp_g", zhu!("section 5: g = 1/256, so (1024 - 4)/1024 of alpha remains")),
            ("dce_tcp_rtt", zhu!("section 5: alpha timer 55 us")),
            ("initial_alpha_value", zhu!("section 3.1: alpha starts at 1")),
            ("rpg_min_rate", NOT_GIVEN),
            ("rpg_min_dec_fac", zhu!("equation 1: a cut by alpha/2 never takes more than half")),
            ("rate_reduce_monitor_period", zhu!("equation 1: a cut on each CNP, at once")),
            ("clamp_tgt_rate", zhu!("equation 1: every cut sets the target to the rate before it")),
            ("clamp_tgt_rate_after_time_inc", "assumption: without effect where every cut sets the target"),
            ("rpg_time_reset", zhu!("section 5: rate timer 55 us")),
            ("rpg_byte_reset", zhu!("section 5: byte counter 10 MB")),
            ("rpg_threshold", zhu!("section 3.1: F = 5")),
            ("rpg_ai_rate", zhu!("section 3.1: R_AI = 40 Mb/s")),
            ("rpg_hai_rate", "assumption: the paper gives no figure; the connectx value"),
            ("min_time_between_cnps", zhu!("section 3.1: 50 us")),
            ("byte_reset_unit_bytes", zhu!("section 5: byte counter 10 MB")),
            ("release_at_max_rate", zhu!("figure 7: nothing there releases the limiter")),
            ("cnp_interval_per", zhu!("section 3.1: for each flow")),
            ("wait_follows_rate", TOKENS),
        ],
        per_25_gbps: &[],
    },
    Profile {
        name: "alibaba",
        about: "Alibaba's production setting; its ECN (100 KB, 400 KB per 25 Gbit/s) belongs to the switch",
        source: "Li et al. (HPCC), SIGCOMM 2019, the DCQCN that Alibaba runs",
        values: &[
            ("dce_tcp_g", Plain::Whole(1020)),
            ("rpg_min_rate", Plain::Whole(1000)),
            ("rpg_byte_reset", Plain::Whole(0)),
        ],
        sources: &[
            ("byte_reset_unit_bytes", UNIT),
            ("release_at_max_rate", RELEASE),
            ("cnp_interval_per", INTERVAL),
            ("wait_follows_rate", TOKENS),
            ("dce_tcp_g", "Li et al. (HPCC), SIGCOMM 2019: g = 1/256, so (1024 - 4)/1024 of alpha remains"),
            ("initial_alpha_value", NOT_GIVEN),
            ("rate_to_set_on_first_cnp", NOT_GIVEN),
            ("rpg_min_dec_fac", NOT_GIVEN),
            ("rpg_gd", NOT_GIVEN),
            ("clamp_tgt_rate", NOT_GIVEN),
            ("clamp_tgt_rate_after_time_inc", NOT_GIVEN),
            ("rpg_byte_reset", "assumption: not given there; the authors' simulator has no byte counter"),
            ("rpg_max_rate", NOT_GIVEN),
            ("min_time_between_cnps", NOT_GIVEN),
        ],
        per_25_gbps: &["rpg_ai_rate", "rpg_hai_rate"],
    },
];
