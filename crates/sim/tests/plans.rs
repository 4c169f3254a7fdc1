//! A plan that `from_json` takes can run, and numbers that no run can have are refused in a line that names them.

mod common;

use common::seeds;
use serde_json::Value;
use tailback_proto::parameters::Plain;
use tailback_sim::plan::{Plan, PlanError};
use tailback_sim::settings::sections;
use tailback_sim::Simulation;

#[test]
fn seeds_of_the_fuzzing_can_run() {
    for plan in seeds::native() {
        let plan = Plan::from_json(&plan.to_string()).expect("a seed is a plan");
        Simulation::new(plan).expect("a seed can run");
    }
}

/// Where the fields are whose names end so, as JSON pointers (RFC 6901).
fn fields(value: &Value, at: &str, ends: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| fields(item, &format!("{at}/{n}"), ends, found));
        }
        Value::Object(object) => {
            for (name, field) in object {
                let at = format!("{at}/{name}");
                fields(field, &at, ends, found);
                if at.ends_with(ends) && (field.is_u64() || field.is_null()) {
                    found.push(at);
                }
            }
        }
        _ => {}
    }
}

/// Why each plan is refused in which one number with such a name is this.
fn refused(ends: &str, number: u64) -> Vec<String> {
    let mut texts = Vec::new();
    for seed in seeds::native() {
        let mut places = Vec::new();
        fields(&seed, "", ends, &mut places);
        for place in places {
            let mut plan = seed.clone();
            *plan.pointer_mut(&place).expect("it was there") = number.into();
            let error = Plan::from_json(&plan.to_string()).and_then(Simulation::new).err();
            let error = error.unwrap_or_else(|| panic!("{place} may be {number}"));
            assert!(matches!(error, PlanError::Impossible { .. }), "{place}: {error}");
            texts.push(error.to_string());
        }
    }
    texts
}

#[test]
fn no_time_is_too_long_for_the_clock() {
    let texts = [refused("_ps", u64::MAX), refused("/run/duration", u64::MAX)].concat();
    assert!(texts.len() > 10, "{}", texts.len());
    // Times that are declared have no unit in their names.
    assert!(refused("/delay", u64::MAX).contains(&"links[0].delay: expected 0ps to 1s".into()));
    // A little beyond the longest run.
    refused("start_ps", 1 << 55);
}

/// A declared greatest value is checked wherever a plan has the setting.
#[test]
fn no_setting_is_above_what_is_declared() {
    let mut seen = 0;
    for parameter in sections().into_iter().flat_map(|section| section.parameters) {
        let Some(Plain::Whole(most)) = parameter.most else { continue };
        // Others of the same name may have more: far above all of them, as far as the integer goes.
        for seed in seeds::native() {
            let mut places = Vec::new();
            fields(&seed, "", &format!("/{}", parameter.name), &mut places);
            for place in places {
                let mut plan = seed.clone();
                *plan.pointer_mut(&place).expect("it was there") = (most.max(1 << 62) + 1).into();
                assert!(Plan::from_json(&plan.to_string()).is_err(), "{place} may be above {most}");
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

#[test]
fn what_memory_is_set_aside_for_has_a_limit() {
    let most = u32::MAX as u64;
    assert!(refused("qps", most).contains(&"writers: sum of qps is 4294967295, above 1048576".into()));
    for name in ["connections", "tx_ring", "rx_ring", "cores", "flows", "ring", "batch"] {
        refused(name, most);
    }
    for name in ["receive_buffer", "probe_bytes"] {
        refused(name, 1 << 41);
    }
}
