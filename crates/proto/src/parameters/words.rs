//! Values and bounds as scenarios have them.

use std::ops::{Bound, RangeBounds};

use super::value::{Plain, Value};

/// A value as scenarios have it, such as `500us`, `16KB` or `100Gbps`: in the largest unit that it is a multiple of.
pub fn in_words<V: Value>(value: V) -> String {
    let units = match V::QUANTITY {
        "duration" | "round-trip" => ["ps", "ns", "us", "ms", "s"],
        "rate" | "falling rates" => ["bps", "Kbps", "Mbps", "Gbps", "Tbps"],
        "size" => ["B", "KB", "MB", "GB", "TB"],
        "frequency" => ["Hz", "kHz", "MHz", "GHz", "THz"],
        _ => [""; 5],
    };
    match value.plain() {
        Plain::Whole(whole) => {
            let divides = |&step: &usize| whole > 0 && whole % 1000u64.pow(step as u32) == 0;
            let step = if units[1].is_empty() { 0 } else { (0..5).rev().find(divides).unwrap_or(0) };
            format!("{}{}", whole / 1000u64.pow(step as u32), units[step])
        }
        Plain::Number(number) => number.to_string(),
        Plain::Flag(flag) => flag.to_string(),
        Plain::Word(word) => word.to_string(),
        Plain::Null => "null".to_string(),
        Plain::List(values) => format!("{values:?}"),
    }
}

/// Bounds as scenarios have them: `1us to 600s`, `above 0 and at most 1`, `at least 1B`.
pub fn bounds_in_words<B: Value>(bounds: &impl RangeBounds<B>) -> String {
    let words = |bound: Bound<&B>| match bound {
        Bound::Included(bound) | Bound::Excluded(bound) => in_words(*bound),
        Bound::Unbounded => String::new(),
    };
    let (least, most) = (words(bounds.start_bound()), words(bounds.end_bound()));
    let below = if matches!(bounds.end_bound(), Bound::Excluded(_)) { "below" } else { "at most" };
    match (bounds.start_bound(), bounds.end_bound()) {
        (Bound::Excluded(_), Bound::Unbounded) => format!("above {least}"),
        (Bound::Excluded(_), _) => format!("above {least} and {below} {most}"),
        (Bound::Included(_), Bound::Unbounded) => format!("at least {least}"),
        (Bound::Included(_), Bound::Included(_)) => format!("{least} to {most}"),
        (Bound::Included(_), Bound::Excluded(_)) => format!("at least {least} and {below} {most}"),
        (Bound::Unbounded, _) => format!("{below} {most}"),
    }
}

/// Choices as scenarios have them: `one of 256B, 512B`.
pub fn choices_in_words<V: Value>(choices: &[V]) -> String {
    let words: Vec<String> = choices.iter().map(|&choice| in_words(choice)).collect();
    format!("one of {}", words.join(", "))
}
