//! Plans: what `from_json` takes runs, keeps its books and does not depend on how it is advanced; what it does not take is
//! refused in one line. Nothing panics, hangs or fills the memory.
//!
//! An input is one of the plans of the engine's own tests, with some of its values replaced.

use bolero::{check, produce, TypeGenerator, ValueGenerator};
use serde_json::{Number, Value};
use tailback_compat::hpcc::{HpccPlan, HpccSimulation};
use tailback_fuzz::Magnitude;
use tailback_sim::plan::{Plan, PlanError};
use tailback_sim::record::Recording;
use tailback_sim::{Progress, Simulation};

use crate::common::seeds;
use crate::hpcc_seeds;

/// A value of the plan, by its number in the order of the text, and what becomes of it.
#[derive(Clone, Debug, TypeGenerator)]
struct Edit {
    at: u16,
    change: Change,
}

#[derive(Clone, Debug, TypeGenerator)]
enum Change {
    Number(Magnitude<64>),
    Negative(Magnitude<63>),
    /// A number a little more or less, or many times as much.
    Add(i8),
    Times(u16),
    Float(f64),
    Share(u16),
    Flag(bool),
    Null,
    /// Another value of this plan.
    Copy(u16),
    /// A value of another plan.
    From(u8, u16),
    /// In a list: the first element twice, or gone, or last.
    Repeat,
    Remove,
    Rotate,
}

/// A few edits: with many, nearly every plan is refused.
fn edits() -> impl ValueGenerator<Output = (u8, Vec<Edit>)> {
    (produce::<u8>(), produce::<Vec<Edit>>().with().len(0..=5usize))
}

/// Where each value is, as JSON pointers (RFC 6901).
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.into());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| pointers(item, &format!("{at}/{n}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| pointers(field, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

fn pick(value: &Value, number: u16) -> String {
    let mut found = Vec::new();
    pointers(value, "", &mut found);
    found.swap_remove(number as usize % found.len())
}

fn edit(plan: &mut Value, edit: &Edit, others: &[Value]) {
    let copied = match edit.change {
        Change::Copy(number) => plan.pointer(&pick(plan, number)).cloned(),
        Change::From(other, number) => {
            let other = &others[other as usize % others.len()];
            other.pointer(&pick(other, number)).cloned()
        }
        _ => None,
    };
    let at = pick(plan, edit.at);
    let Some(value) = plan.pointer_mut(&at) else { return };
    let float = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
    match &edit.change {
        Change::Number(number) => *value = number.get().into(),
        Change::Negative(number) => *value = (-(number.get() as i64)).into(),
        Change::Add(more) => {
            let Some(number) = value.as_i64() else { return };
            *value = number.saturating_add(*more as i64).into();
        }
        Change::Times(factor) => match (value.as_u64(), value.as_f64()) {
            (Some(number), _) => *value = number.saturating_mul(*factor as u64).into(),
            (None, Some(number)) => *value = float(number * *factor as f64),
            (None, None) => {}
        },
        Change::Float(number) => *value = float(*number),
        Change::Share(share) => *value = float(*share as f64 / u16::MAX as f64),
        Change::Flag(flag) => *value = (*flag).into(),
        Change::Null => *value = Value::Null,
        Change::Copy(_) | Change::From(..) => *value = copied.unwrap_or_default(),
        Change::Repeat | Change::Remove | Change::Rotate => {
            let Some(items) = value.as_array_mut().filter(|items| !items.is_empty()) else { return };
            match edit.change {
                Change::Repeat => items.push(items[0].clone()),
                Change::Remove => _ = items.remove(0),
                _ => items.rotate_left(1),
            }
        }
    }
}

/// One of `seeds`, edited.
fn edited(seeds: &[Value], seed: u8, edits: &[Edit]) -> String {
    let mut plan = seeds[seed as usize % seeds.len()].clone();
    for one in edits {
        edit(&mut plan, one, seeds);
    }
    plan.to_string()
}

fn assert_a_line(error: &PlanError) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains('\n') && text.len() < 1000, "{text:?}");
}

/// Advances in steps of `step` events, 2,000 at most in all.
fn advance(step: u64, mut advance: impl FnMut(u64) -> Progress) -> Progress {
    let mut before = advance(0);
    for _ in 0..2000 / step {
        let now = advance(step);
        assert!(now.time >= before.time && now.packet_hops >= before.packet_hops, "{now:?} after {before:?}");
        assert!(now.events - before.events <= step);
        before = now;
    }
    before
}

fn check_recording(recording: &Recording) {
    let meta = &recording.meta;
    assert!(meta.conservation.ok, "{:?}", meta.faults);
    assert!(meta.faults.iter().all(|fault| fault.kind != "conservation"));
    for (entity, name, values) in recording.series.columns() {
        assert!(values.iter().all(|value| value.is_finite()), "{name} of {entity} has what is no number");
    }
}

fn fingerprint(recording: &Recording) -> String {
    let counters: u64 = recording.counters.iter().map(|row| row.value).fold(0, u64::wrapping_add);
    format!("{} {counters}", serde_json::to_string(&recording.meta).expect("it is plain data"))
}

#[test]
fn native() {
    let seeds = seeds::native();
    check!().with_generator(edits()).for_each(|(seed, edits)| {
        let text = edited(&seeds, *seed, edits);
        let plan = match Plan::from_json(&text) {
            Ok(plan) => plan,
            Err(error) => return assert_a_line(&error),
        };
        let again = serde_json::to_string(&plan).expect("it is plain data");
        assert!(Plan::from_json(&again).is_ok(), "what was written is not read: {again}");
        let run = |step| {
            let mut simulation = Simulation::new(plan.clone())?;
            let progress = advance(step, |events| simulation.advance(events));
            assert!(progress.time <= plan.run.duration);
            let recording = simulation.finish();
            check_recording(&recording);
            Ok(fingerprint(&recording))
        };
        match run(2000) {
            // The second run is for some: it costs as much as the first.
            Ok(once) if *seed >= 192 => assert_eq!(Ok(once), run(250), "depends on how it is advanced"),
            Ok(_) => {}
            Err(error) => assert_a_line(&error),
        }
    });
}

#[test]
fn hpcc() {
    let seeds = hpcc_seeds::hpcc();
    check!().with_generator(edits()).for_each(|(seed, edits)| {
        let text = edited(&seeds, *seed, edits);
        let plan = match HpccPlan::from_json(&text) {
            Ok(plan) => plan,
            Err(error) => return assert_a_line(&error),
        };
        match HpccSimulation::new(&plan) {
            Ok(mut simulation) => {
                advance(1000, |events| simulation.advance(events));
                check_recording(&simulation.finish().recording);
            }
            Err(error) => assert_a_line(&error),
        }
    });
}
