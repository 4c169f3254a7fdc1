//! Series of traffic items and of queue pairs, and writers that come and go.

mod common;

use common::tcp::*;
use common::*;
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::{FlowPlan, Plan};
use tailback_sim::record::{Flow, Recording, Series};

fn column<'a>(series: &'a Series, entity: &str, metric: &str) -> Option<&'a [f64]> {
    let mut columns = series.columns();
    columns
        .find(|column| series.entities[column.0] == entity && column.1 == metric)
        .map(|(_, _, values)| values)
}

/// Bytes under a series of a rate.
fn bytes(recording: &Recording, entity: &str, metric: &str) -> f64 {
    let series = &recording.series;
    let values = column(series, entity, metric).unwrap_or_else(|| panic!("no {entity} {metric}"));
    let mut left = recording.meta.end_ps;
    values.iter().fold(0.0, |sum, value| {
        let span = series.bin.0.min(left);
        left -= span;
        sum + value * span as f64 / 8e12
    })
}

fn near(found: f64, expected: u64) {
    assert!((found - expected as f64).abs() < 1.0, "found {found}, expected {expected}");
}

/// Two hosts that write, one of them in two items, and a message, all to h3.
fn mixed() -> Plan {
    let mut plan = star(4);
    plan.run.duration = Time(2 * MS);
    for (item, src, qps) in [(0, 0, 2), (0, 1, 1), (1, 1, 3)] {
        let mut one = writer(src, 3, qps);
        one.item = format!("write{item}");
        plan.writers.push(one);
    }
    plan.writers[2].start = Time(MS / 2);
    plan.writers[2].stop = Some(Time(MS));
    plan.flows.items.push("flows2".into());
    plan.flows.list.push(FlowPlan(2, 3, 0, 3, 50_000, MS / 4));
    plan
}

#[test]
fn every_byte_delivered_is_in_the_series_of_its_item() {
    let recording = run(mixed());
    let delivered = |wanted: &dyn Fn(&Flow) -> bool| -> u64 {
        recording.flows.iter().filter(|flow| wanted(flow)).map(|flow| flow.bytes_delivered).sum()
    };
    for name in ["write0", "write1", "flows2"] {
        let expected = delivered(&|flow| flow.item == name);
        assert!(expected > 0, "{name} delivered nothing");
        near(bytes(&recording, &format!("item:{name}"), "goodput_rx_bps"), expected);
    }
    for (host, item) in [("h0", "write0"), ("h1", "write0"), ("h1", "write1"), ("h2", "flows2")] {
        let expected = delivered(&|flow| flow.src == host && flow.item == item);
        near(bytes(&recording, &format!("{host}/{item}"), "goodput_tx_bps"), expected);
    }
    assert!(column(&recording.series, "h0/write1", "goodput_tx_bps").is_none());
}

#[test]
fn a_run_of_one_item_has_no_series_of_items() {
    let recording = run(incast(2));
    assert!(recording.series.entities.iter().all(|entity| !entity.starts_with("item:")));
}

#[test]
fn the_goodput_of_a_tracked_queue_pair_is_what_it_delivered() {
    let recording = run(mixed());
    // Numbers go on over the items of the same two hosts, so that each has a name of its own.
    for (name, qp) in [("h1-h3/qp0", 2), ("h1-h3/qp1", 3), ("h1-h3/qp3", 5)] {
        let flow = &recording.flows[qp];
        assert_eq!(name, format!("{}-{}/qp{}", flow.src, flow.dst, flow.qp));
        near(bytes(&recording, name, "goodput_bps"), flow.bytes_delivered);
    }
}

#[test]
fn a_writer_that_stops_sends_what_it_posted_and_no_more() {
    let recording = run(mixed());
    let stopped = &recording.flows[3..6];
    for flow in stopped {
        assert_eq!(flow.state, "done");
        let end = flow.end_ps.expect("it has ended");
        assert!(end > MS && end < 3 * MS / 2, "drained at {end} ps");
        assert_eq!(flow.messages_posted, flow.messages_completed, "all that was posted was sent");
        assert_eq!(
            flow.bytes_delivered,
            flow.messages_posted * flow.message_bytes.expect("RoCE messages have a size")
        );
    }
    let goodput = column(&recording.series, "item:write1", "goodput_rx_bps").expect("recorded");
    let after = (3 * MS / 2).div_ceil(recording.series.bin.0) as usize;
    assert!(goodput[after..].iter().all(|&value| value == 0.0));
}

#[test]
fn the_delay_of_cnps_is_that_of_their_way_back() {
    let mut plan = incast(8);
    plan.run.duration = Time(2 * MS);
    let recording = run(plan);
    let total = |metric| -> f64 {
        (0..16).flat_map(|host| column(&recording.series, &format!("h{host}"), metric).unwrap()).sum()
    };
    let mean_ns = total("cnp_delay_ns") / total("rp_cnp_handled");
    // Two links of 500 ns, the switch's 300 and the NIC's 300 ns, and twice the frame's 8 ns; ACKs may be in the way.
    assert!((1600.0..1900.0).contains(&mean_ns), "{mean_ns} ns");
}

#[test]
fn tcp_connections_are_items_like_others() {
    let mut plan = tcp_star(4);
    plan.run.duration = Time(20 * MS);
    plan.writers = vec![writer(0, 3, 2)];
    let mut both = vec![connections(0, 3, 2), connections(1, 3, 1)];
    both[1].bytes = Some(Bytes(1_000_000));
    for item in &mut both {
        item.item = "tcp1".into();
    }
    plan.tcp_connections = both;
    let recording = run(plan);
    let delivered = |src: &str| -> u64 {
        let mine = |flow: &&Flow| flow.item == "tcp1" && flow.src == src;
        recording.flows.iter().filter(mine).map(|flow| flow.bytes_delivered).sum()
    };
    assert_eq!(delivered("h1"), 1_000_000);
    near(bytes(&recording, "item:tcp1", "goodput_rx_bps"), delivered("h0") + delivered("h1"));
    for src in ["h0", "h1"] {
        near(bytes(&recording, &format!("{src}/tcp1"), "goodput_tx_bps"), delivered(src));
    }
    let first = recording.flows.iter().find(|flow| flow.item == "tcp1").unwrap();
    near(bytes(&recording, "h0-h3/tcp0", "goodput_bps"), first.bytes_delivered);
}
