//! The C interface as a caller uses it: a ring among hosts at one switch, whose times are arithmetic by hand.

use std::ffi::{c_void, CStr, CString};
use std::ptr::{null, null_mut};

use tailback::*;

/// Four hosts at a switch, links of 400 Gbit/s and 500 ns, as ASTRA-sim's ns-3 has them: a packet of 1,036 B takes 21 ns.
fn plan() -> CString {
    let links: Vec<_> =
        (0..4).map(|host| serde_json::json!([4, host, 400_000_000_000_u64, 500, 0.0])).collect();
    let plan = serde_json::json!({
        "name": "ring", "seed": 1, "variant": "astra-sim", "nodes": 5, "switches": [4], "links": links, "flows": [],
        "stop_ns": 1_000_000_000, "payload_bytes": 1000, "telemetry_bytes": 0, "cc": {"kind": "none"},
        "rate_bound": true, "window": {"enabled": false, "global": false, "variable": false},
        "ack_high_priority": false, "l2_chunk_bytes": 4000, "l2_ack_interval_bytes": 1, "back_to_zero": false,
        "ecn": {"enabled": false, "thresholds": []}, "buffer_mib": 16, "pause_time_us": 5,
        "rng": {"seed": 1, "run": 1}, "record": {"max_bins": 16, "qps": 1},
    });
    CString::new(plan.to_string()).expect("it has no zero")
}

fn open() -> *mut Tailback {
    let network = unsafe { tailback_open(plan().as_ptr(), null_mut(), 0) };
    assert!(!network.is_null());
    network
}

/// A rank that hands on what it gets, `left` more times.
struct Rank {
    network: *mut Tailback,
    number: u32,
    left: u32,
    got: Vec<u64>,
}

extern "C" fn send(rank: *mut c_void) {
    let rank = unsafe { &mut *rank.cast::<Rank>() };
    let (next, before) = ((rank.number + 1) % 4, (rank.number + 3) % 4);
    let arg = (rank as *mut Rank).cast();
    unsafe {
        assert_eq!(tailback_send(rank.network, rank.number, next, 1000, 7, None, null_mut()), 0);
        assert_eq!(tailback_receive(rank.network, rank.number, before, 1000, 7, Some(receive), arg), 0);
    }
}

extern "C" fn receive(rank: *mut c_void) {
    let arg = rank;
    let rank = unsafe { &mut *rank.cast::<Rank>() };
    rank.got.push(unsafe { tailback_now(rank.network) });
    rank.left -= 1;
    if rank.left > 0 {
        unsafe { tailback_schedule(rank.network, 10, Some(send), arg) };
    }
}

#[test]
fn a_ring_takes_the_time_of_its_messages() {
    let network = open();
    let mut ranks: Vec<_> = (0..4).map(|number| Rank { network, number, left: 6, got: Vec::new() }).collect();
    for rank in &mut ranks {
        unsafe { tailback_schedule(network, 10, Some(send), (rank as *mut Rank).cast()) };
    }
    assert_eq!(unsafe { tailback_run(network) }, 0);
    // Two links there, and two back for an ACK of one nanosecond.
    let message = 2 * (21 + 500) + 2 * (1 + 500);
    let times: Vec<u64> = (1..=6).map(|step| step * (10 + message)).collect();
    for rank in &ranks {
        assert_eq!(rank.got, times);
    }
    let path = std::env::temp_dir().join(format!("tailback-fct-{}.txt", std::process::id()));
    let name = CString::new(path.to_str().expect("it is UTF-8")).expect("it has no zero");
    assert_eq!(unsafe { tailback_write_fct(network, name.as_ptr()) }, 0);
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(path).expect("it was written");
    assert_eq!(text.lines().count(), 24);
    assert_eq!(text.lines().next(), Some("0b000001 0b000101 10000 100 1000 10 2044 2060"));
    unsafe { tailback_close(network) };
}

extern "C" fn stop(network: *mut c_void) {
    unsafe { tailback_stop(network.cast()) };
}

#[test]
fn a_run_ends_when_it_is_stopped_and_is_the_only_one() {
    let network = open();
    unsafe {
        tailback_send(network, 0, 1, 1_000_000_000, 0, None, null_mut());
        tailback_schedule(network, 5000, Some(stop), network.cast());
        assert_eq!(tailback_run(network), 0);
        assert_eq!(tailback_now(network), 5000);
        assert_eq!(tailback_run(network), -1);
        assert_eq!(said(network), "expected one run of a network, found another");
        tailback_close(network);
    }
}

fn said(network: *const Tailback) -> String {
    let error = unsafe { tailback_error(network) };
    assert_ne!(error, null());
    unsafe { CStr::from_ptr(error) }.to_str().expect("it is UTF-8").to_string()
}

#[test]
fn what_cannot_be_is_refused_with_a_line() {
    let mut line = [1i8; 24];
    for bad in ["{}", "", "\0"] {
        let bad = CString::new(bad).unwrap_or_default();
        assert!(unsafe { tailback_open(bad.as_ptr(), line.as_mut_ptr().cast(), line.len()) }.is_null());
        assert!(line.contains(&0) && line[0] != 0);
    }
    let network = open();
    for (from, to, bytes) in [(0, 4, 1), (9, 0, 1), (1, 1, 1), (0, 1, 0), (0, 1, 1 << 32)] {
        assert_eq!(unsafe { tailback_send(network, from, to, bytes, 0, None, null_mut()) }, -1);
        assert!(said(network).contains("expected"));
    }
    unsafe { tailback_close(network) };
    unsafe { tailback_close(null_mut()) };
}

/// Its header is C and C++, if there is a compiler to ask.
#[test]
fn the_header_compiles() {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/include/tailback.h");
    for language in ["c", "c++"] {
        let mut command = std::process::Command::new("cc");
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", language, header]);
        match command.status() {
            Ok(status) => assert!(status.success(), "{language}"),
            Err(_) => eprintln!("skipped: there is no C compiler"),
        }
    }
}
