//! Plans for tests of all plans.
#![allow(dead_code)] // each test uses its own part

use serde_json::{json, Value};

/// Plans of the HPCC simulator's profile: two hosts at a switch, by congestion control.
pub fn hpcc() -> Vec<Value> {
    let plan = |cc: Value| {
        json!({
            "name": "hpcc", "seed": 1, "nodes": 4, "switches": [3],
            "links": [[0, 3, 100_000_000_000u64, 1000, 0.0], [1, 3, 100_000_000_000u64, 1000, 0.0],
                      [2, 3, 100_000_000_000u64, 1000, 0.001]],
            "flows": [[0, 2, 3, 100, 100_000, 0], [1, 2, 3, 100, 1_000_000, 1000], [2, 0, 3, 100, 1000, 2000]],
            "stop_ns": 10_000_000, "payload_bytes": 1000, "telemetry_bytes": 42, "cc": cc, "rate_bound": true,
            "window": {"enabled": true, "global": true, "variable": true}, "ack_high_priority": true,
            "l2_chunk_bytes": 4000, "l2_ack_interval_bytes": 1, "back_to_zero": false,
            "ecn": {"enabled": true, "thresholds": [[100_000_000_000u64, 100, 400, 0.2]]},
            "buffer_mib": 16, "pause_time_us": 5, "link_down": [5_000_000, 0, 3], "queue_monitor": [0, 100_000],
            "rng": {"seed": 1, "run": 1}, "error_rate_per_link": 0.0,
            "departures": {"exact_time": false, "cnp_interval_ns": 0, "retransmission_timeout_ns": 100_000,
                           "wire_overhead_bytes": 0},
            "record": {"max_bins": 100, "qps": 4},
        })
    };
    vec![
        plan(
            json!({"kind": "dcqcn", "alpha_resume_us": 1, "rate_decrease_us": 4, "clamp_target_rate": false,
                    "rp_timer_us": 300, "ewma_gain": 0.00390625, "fast_recovery_times": 1,
                    "rate_ai_bps": 50_000_000, "rate_hai_bps": 100_000_000, "min_rate_bps": 100_000_000}),
        ),
        plan(json!({"kind": "hpcc", "target_utilization": 0.95, "max_stage": 5, "rate_ai_bps": 50_000_000,
                    "min_rate_bps": 100_000_000, "int_multi": 1, "fast_react": true, "multi_rate": false,
                    "sample_feedback": false})),
        plan(json!({"kind": "pint", "target_utilization": 0.95, "max_stage": 5, "rate_ai_bps": 50_000_000,
                    "min_rate_bps": 100_000_000, "log_base": 1.05, "probability": 1.0})),
        plan(json!({"kind": "timely", "rate_ai_bps": 50_000_000, "rate_hai_bps": 100_000_000,
                    "min_rate_bps": 100_000_000})),
        plan(
            json!({"kind": "dctcp", "ewma_gain": 0.0625, "rate_ai_bps": 50_000_000, "min_rate_bps": 100_000_000}),
        ),
        plan(json!({"kind": "none"})),
    ]
}
