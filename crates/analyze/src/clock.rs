//! Times of a capture: picoseconds since its first frame that has one. They may go backwards, or jump by years where a clock was set.

/// A time, picoseconds since the first; or [`NO_TIME`].
pub type Time = i128;
/// Of a frame that the file gives no time.
pub const NO_TIME: Time = Time::MIN;

/// From one time to a later one; none: one is unknown, they go backwards, or are more than 213 days apart.
pub fn since(later: Time, earlier: Time) -> Option<u64> {
    if later == NO_TIME || earlier == NO_TIME {
        return None;
    }
    u64::try_from(later - earlier).ok()
}

/// For a report.
pub fn told(time: Time) -> Option<Time> {
    (time != NO_TIME).then_some(time)
}
