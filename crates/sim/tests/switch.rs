//! Admission of a switch, byte by byte, and when it asks for pauses.

mod common;

use common::*;
use std::collections::BTreeSet;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

/// Of a message of 1,024 B: a frame without preamble and gap.
const FRAME: u64 = 1102;

const EGRESS: &str = "egress queue above its share of the free buffer";
const INGRESS: &str = "ingress group above its share of the free buffer";
const FULL: &str = "shared buffer full";

/// A star without congestion control, marks and lossless classes.
fn plain_star(hosts: usize, change: impl Fn(&mut SwitchModelPlan)) -> Plan {
    let mut plan = star(hosts);
    plan.run.duration = Time(MS);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    let model = &mut plan.switch_models[0];
    (model.lossless, model.ecn) = (vec![], vec![]);
    change(model);
    plan
}

fn in_class_1(src: usize, dst: usize) -> WriterPlan {
    WriterPlan { code_point: 1, ..writer(src, dst, 1) }
}

/// Two senders, one receiver, in one class.
fn two_to_one(change: impl Fn(&mut SwitchModelPlan)) -> Plan {
    let plan = plain_star(3, change);
    Plan { writers: vec![in_class_1(0, 2), in_class_1(1, 2)], ..plan }
}

/// The largest value of a series.
fn most(recording: &Recording, entity: &str, quantity: &str) -> u64 {
    let series = &recording.series;
    let index = series.entities.iter().position(|name| name == entity).expect(entity);
    let column = series.columns().find(|(of, name, _)| *of == index && *name == quantity);
    column.expect(quantity).2.iter().fold(0.0, |most: f64, &value| most.max(value)) as u64
}

/// A counter of a port; a host's port has no name.
fn counter(recording: &Recording, node: &str, port: &str, name: &str) -> u64 {
    let mut rows = recording.counters.iter();
    let row = rows.find(|row| row.node == node && row.port == port && row.counter == name);
    row.map_or(0, |row| row.value)
}

/// Why packets were dropped.
fn reasons(recording: &Recording) -> BTreeSet<&'static str> {
    recording.meta.drops.iter().map(|drop| drop.reason).collect()
}

/// A queue of q holds alpha of the rest at most: with alpha 1 and room for 41 frames that is 21, the last one to the byte.
#[test]
fn a_lossy_queue_holds_alpha_of_what_is_free_to_the_byte() {
    let recording = run(two_to_one(|model| {
        (model.shared_bytes, model.egress_alpha, model.ingress_alpha) = (41 * FRAME, 1.0, 1000.0)
    }));
    assert_eq!(most(&recording, "sw0:h2/tc1", "queue_max_bytes"), 21 * FRAME);
    assert_eq!(reasons(&recording), [EGRESS].into());
}

/// Where neither share limits it, the buffer is filled to the byte; a rest that is no whole frame stays empty.
#[test]
fn a_lossy_queue_may_fill_the_buffer() {
    let run = |shared| {
        run(two_to_one(|model| {
            (model.shared_bytes, model.egress_alpha, model.ingress_alpha) = (shared, 1000.0, 1000.0)
        }))
    };
    let whole = run(40 * FRAME);
    assert_eq!(most(&whole, "sw0:h2/tc1", "queue_max_bytes"), 40 * FRAME);
    let rest = run(40 * FRAME + 500);
    assert_eq!(most(&rest, "sw0:h2/tc1", "queue_max_bytes"), 40 * FRAME);
    assert_eq!(reasons(&rest), [FULL].into());
}

/// A group of two with a quarter of the rest each: q <= (S - 2 q) / 4 and the frame that comes.
#[test]
fn a_lossy_group_holds_its_share_of_what_is_free() {
    let recording = run(two_to_one(|model| {
        (model.shared_bytes, model.egress_alpha, model.ingress_alpha) = (60 * FRAME, 1000.0, 0.25)
    }));
    assert_eq!(reasons(&recording), [INGRESS].into());
    let groups = ["sw0:h0/pg1", "sw0:h1/pg1"].map(|group| most(&recording, group, "queue_max_bytes"));
    assert!(groups.iter().all(|&bytes| (9 * FRAME..=12 * FRAME).contains(&bytes)), "{groups:?}");
}

/// A packet that finds its port idle is in the buffer all the same, for no time.
#[test]
fn what_passes_an_idle_port_counts_as_one_packet() {
    let mut plan = two_to_one(|_| {});
    plan.writers.truncate(1);
    let recording = run(plan);
    assert_eq!(most(&recording, "sw0:h0/pg1", "queue_max_bytes"), FRAME);
    assert_eq!(most(&recording, "sw0:h0/pg1", "queue_mean_bytes"), 0);
}

/// Eight classes in turns, a sender each: when the senders are done, the port goes on until all are empty.
#[test]
fn a_port_drains_all_eight_classes() {
    let mut plan = plain_star(9, |_| {});
    plan.flows.items = vec!["flows".into()];
    plan.flows.list = (0..8).map(|class| FlowPlan(class, 8, 0, class as u8, 20_000, 0)).collect();
    let recording = run(plan);
    assert!(recording.flows.iter().all(|flow| flow.state == "done"));
}

/// Packets that say that they cannot be marked are not, however long the queue is.
#[test]
fn only_packets_that_may_be_marked_are() {
    for (ect, marks) in [(true, true), (false, false)] {
        let mut plan = two_to_one(|model| model.ecn = vec![ecn(None, 20_000)]);
        plan.nics[0].ect = ect;
        assert_eq!(total(&run(plan), "ecn_marked_tc_1") > 0, marks);
    }
}

/// The way on fails: what was sent over a long link comes back over it, and with what sw1's own host sends is more than the
/// link carries. The pause of these packets ends as one of them leaves by the port that the resume leaves by, too.
#[test]
fn a_resume_waits_for_the_packet_that_makes_room() {
    let mut plan = plain_star(3, |model| {
        (model.lossless, model.shared_bytes, model.buffer) = (vec![1], 2_000_000, Bytes(40_000_000));
        model.pfc.xoff = Some(Bytes(30_000));
    });
    // h0 at sw0, h1 at sw2, h2 at sw1; sw0-sw1-sw2 is shorter than sw0-sw3-sw4-sw2.
    let model = plan.switches[0].clone();
    plan.switches.extend((1..5).map(|at| SwitchPlan { name: format!("sw{at}"), ..model.clone() }));
    (plan.links[1].b, plan.links[2].b) = ("sw2".into(), "sw1".into());
    for (a, b) in [(0, 1), (1, 2), (0, 3), (3, 4), (4, 2)] {
        let (a, b, delay) = (format!("sw{a}"), format!("sw{b}"), Time(10 * US));
        plan.links.push(LinkPlan { a, b, delay, headroom_bytes: 1_000_000, ..plan.links[0].clone() });
    }
    plan.writers = [in_class_1(0, 1), in_class_1(2, 0)].map(|writer| WriterPlan { qps: 16, ..writer }).into();
    plan.failures = vec![failure(4, 300 * US, None)];
    let recording = run(plan);
    assert!(recording.meta.pauses.iter().any(|pause| pause.port == "sw0:sw1"), "{:?}", recording.meta.pauses);
}

/// Of a pause both ends count the same: frames, changes and, the way of the frames aside, time; in its class alone.
#[test]
fn both_ends_of_a_link_count_the_same_pauses() {
    let recording = run(two_to_one(|model| {
        (model.lossless, model.shared_bytes) = (vec![1, 2], 400_000);
        model.pfc.xoff = Some(Bytes(50_000));
    }));
    let at_switch = |name: &str| counter(&recording, "sw0", "sw0:h0", name);
    let at_host = |name: &str| counter(&recording, "h0", "", name);
    let frames = at_switch("tx_prio1_pause");
    assert!(frames > 10, "{frames}");
    assert!(frames - at_host("rx_prio1_pause") <= 1, "one may be on its way");
    assert!(frames.abs_diff(2 * at_host("rx_prio1_pause_transition")) <= 2, "one begins and one ends each");
    let held = at_switch("tx_prio1_pause_duration");
    assert!(held > 100 && held.abs_diff(at_host("rx_prio1_pause_duration")) <= 4, "{held} us");
    assert_eq!(recording.meta.packets["pfc"], total(&recording, "tx_prio1_pause"));
    for class in (0..8).filter(|&class| class != 1) {
        assert_eq!(total(&recording, &format!("tx_prio{class}_pause")), 0, "class {class}");
        assert_eq!(total(&recording, &format!("rx_prio{class}_pause")), 0, "class {class}");
    }
}

/// Watermarks of a priority group: what it drew of the shared buffer ends at xoff, and the rest is headroom; together they are
/// what it ever held, in its own class alone.
#[test]
fn watermarks_are_the_most_of_a_group_by_where_it_lay() {
    let recording = run(two_to_one(|model| {
        (model.lossless, model.shared_bytes) = (vec![1, 2], 400_000);
        model.pfc.xoff = Some(Bytes(50_000));
    }));
    let of = |kind: &str, class: u8| {
        let name = format!("SAI_INGRESS_PRIORITY_GROUP_STAT_{kind}_WATERMARK_BYTES:{class}");
        counter(&recording, "sw0", "sw0:h0", &name)
    };
    assert!((50_000 - FRAME..=50_000).contains(&of("SHARED", 1)), "{}", of("SHARED", 1));
    assert!((FRAME..=20_000).contains(&of("XOFF_ROOM", 1)), "{}", of("XOFF_ROOM", 1));
    let held = most(&recording, "sw0:h0/pg1", "queue_max_bytes");
    assert_eq!(of("SHARED", 1) + of("XOFF_ROOM", 1), held);
    assert_eq!(of("SHARED", 2) + of("XOFF_ROOM", 2), 0);
    // A packet that leaves at once was held, too: the receiver's ACKs.
    let acks = "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES:1";
    assert_eq!(counter(&recording, "sw0", "sw0:h2", acks), most(&recording, "sw0:h2/pg1", "queue_max_bytes"));
}

/// A link that comes back is quiet in a class that its other end wants paused, until that end has said so itself: the frame's
/// 84 B, the link and the response.
#[test]
fn a_link_that_comes_back_is_paused_until_it_is_told() {
    let run = |xoff, quanta, after_repair: u64| {
        let mut plan = two_to_one(|model| {
            (model.lossless, model.pfc.xoff, model.pause.quanta) = (vec![1], Some(Bytes(xoff)), quanta);
        });
        (plan.links[0].delay, plan.links[0].headroom_bytes) = (Time(10 * US), 400_000);
        plan.links[2].rate = Rate(1_000_000_000); // what waits for it keeps the pause
        plan.writers[0].depth = 4096;
        plan.failures = vec![failure(0, 300 * US, Some(310 * US))];
        plan.run.duration = Time(310 * US + after_repair);
        let recording = run_with_faults(plan);
        ["tx_prio1_packets", "rx_prio1_pause"].map(|name| counter(&recording, "h0", "", name))
    };
    let told = 84 * 80 + 10 * US + 300_000;
    // Two quanta, since a longer pause would hide a wait that is too short.
    assert_eq!(run(30_000, 2, 1), run(30_000, 2, told - 1));
    assert!(run(5_000_000, 2, 1)[0] < run(5_000_000, 2, told - 1)[0], "there was something to send");
    // Long ones are not repeated before: the frame is that which tells.
    let [before, after] = [told - 1, told].map(|time| run(30_000, 65_535, time)[1]);
    assert_eq!(after, before + 1);
}

/// A pause lasts for its quanta and no longer: where its repetition waits for packets that take longer, it is one pause
/// after the other.
#[test]
fn a_pause_lapses_with_its_quanta() {
    for (quanta, lapse) in [(16, true), (65_535, false)] {
        let mut plan = two_to_one(|model| {
            (model.lossless, model.pfc.xoff, model.pause.quanta) = (vec![1], Some(Bytes(30_000)), quanta);
        });
        plan.links[2].rate = Rate(1_000_000_000);
        plan.writers = vec![in_class_1(0, 2), in_class_1(1, 0)];
        plan.writers[0].depth = 4096;
        let recording = run_with_faults(plan);
        let pauses = counter(&recording, "h0", "", "rx_prio1_pause_transition");
        assert_eq!(pauses > 1000, lapse, "{pauses} pauses of {quanta} quanta");
    }
}
