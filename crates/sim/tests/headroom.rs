//! Headroom, checked by exhaustion in a small world: one link, all phases and packet sizes of a grid, through the real
//! switch, NIC, port and pause code. What `headroom_bytes` says is never too little, and a byte less is on every link.

mod common;

use common::host::{buffers, point_to_point, sizes};
use common::{star, US};
use tailback_proto::flow_control::pfc::headroom_bytes;
use tailback_proto::units::{Bytes, Rate, Time, BIT_PS_PER_BYTE};
use tailback_proto::wire::{write_frame_bytes, PREAMBLE_AND_GAP_BYTES};
use tailback_sim::plan::*;
use tailback_sim::Simulation;

const GAP: u32 = PREAMBLE_AND_GAP_BYTES;
/// Payload of the largest packet, and its bytes on the wire.
const MTU: u32 = 256;
const LARGEST: u32 = MTU + 98;
/// When the upstream's first packet begins.
const START: u64 = 2 * US;
/// Keeps what comes back to the upstream from answering before all is over.
const FAR: u64 = US;

/// Who sends too much to whom.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    NicToSwitch,
    SwitchToSwitch,
    NicToNic,
}

/// One link and those at its ends; picoseconds.
#[derive(Clone, Copy, Debug)]
struct Link {
    shape: Shape,
    rate: Rate,
    delay: u64,
    response: u64,
    latency: u64,
}

impl Link {
    fn headroom(&self) -> u64 {
        headroom_bytes(self.rate, Time(self.delay), Time(self.response), Time(self.latency), LARGEST)
    }

    fn time(&self, wire_bytes: u32) -> u64 {
        self.rate.serialization(wire_bytes as u64).0
    }

    /// Size of one more packet where the rest of the time is full of the largest.
    fn rest(&self) -> u32 {
        let span = self.time(LARGEST) + self.time(84) + 2 * self.delay + self.response + self.latency;
        (self.rate.0 as u128 * span as u128 / BIT_PS_PER_BYTE as u128 % LARGEST as u128) as u32
    }
}

/// One run: packets by their bytes on the wire; how long after a packet the other way began the first packet passes
/// xoff; and xoff.
#[derive(Clone, Debug)]
struct Case {
    link: Link,
    packets: Vec<u32>,
    phase: u64,
    xoff: u64,
}

/// Payload of a message of one packet with these bytes on the wire.
fn payload(wire_bytes: u32) -> u64 {
    let payload = wire_bytes - 98;
    assert_eq!(write_frame_bytes(payload, true) + GAP, wire_bytes);
    payload as u64
}

impl Case {
    /// The packet that has the switch or the NIC ask for a pause.
    fn passing(&self) -> usize {
        let mut held = 0;
        let passes = |&packet: &u32| {
            held += (packet - GAP) as u64;
            held >= self.xoff
        };
        let on_pcie = (self.link.shape == Shape::NicToNic) as usize;
        on_pcie + self.packets[on_pcie..].iter().position(passes).expect("enough packets")
    }

    /// True if no lossless packet is dropped with this headroom above xoff.
    fn holds(&self, headroom: u64) -> bool {
        let mut simulation = Simulation::new(self.plan(headroom)).expect("the plan is possible");
        while !simulation.advance(100_000).done {}
        let meta = simulation.finish().meta;
        assert!(meta.faults.iter().all(|fault| fault.kind == "lossless_drop"), "{self:?}: {:?}", meta.faults);
        meta.faults.is_empty()
    }

    fn plan(&self, headroom: u64) -> Plan {
        let Case { link, .. } = *self;
        let before: u64 = self.packets[..=self.passing()].iter().map(|&packet| link.time(packet)).sum();
        let since = |begin: u64| begin + before + link.delay + link.latency - self.phase;
        let data = |src, dst, start: u64| {
            let message = move |&packet: &u32| FlowPlan(src, dst, 0, 3, payload(packet), start);
            self.packets.iter().map(message).collect::<Vec<_>>()
        };
        let other_way = |src, begin: u64| FlowPlan(src, 0, 0, 0, MTU as u64, begin);
        let mut plan = match link.shape {
            Shape::NicToNic => {
                let mut plan = point_to_point();
                plan.writers.clear();
                (plan.links[0].rate, plan.links[0].delay) = (link.rate, Time(link.delay));
                plan.nics[0].host_path = None;
                plan.nics[1].rx_latency = Time(link.latency);
                let path = plan.nics[1].host_path.as_mut().unwrap();
                path.receive_buffer = sizes(self.xoff - 1 + headroom, 100_000, None);
                path.receive_buffers = buffers(&[3], self.xoff, 0);
                path.pause.response_delay = Time(link.response);
                path.pcie.rate = Rate(1_000_000_000); // the first packet takes 2 us
                plan.flows.list = data(0, 1, START);
                plan.flows.list.push(other_way(1, since(START)));
                plan
            }
            Shape::NicToSwitch | Shape::SwitchToSwitch => {
                let mut plan = star(3);
                let model = &mut plan.switch_models[0];
                model.latency = Time(link.latency);
                model.pfc.xoff = Some(Bytes(self.xoff));
                model.pause.response_delay = Time(link.response);
                for (own, rate) in plan.links.iter_mut().zip([link.rate.0, 1_000_000, link.rate.0]) {
                    (own.rate, own.delay, own.headroom_bytes) = (Rate(rate), Time::ZERO, headroom);
                }
                plan.links[0].delay = Time(link.delay);
                let mut begin = START;
                if link.shape == Shape::SwitchToSwitch {
                    // Another switch on the way, which forwards at the link's rate what it gets ten times as fast.
                    let mut model = plan.switch_models[0].clone();
                    (model.latency, model.pfc.xoff) = (Time(FAR), None);
                    plan.switch_models.push(model);
                    plan.switches.push(SwitchPlan { name: "sw1".into(), model: 1 });
                    let mut own = plan.links[0].clone();
                    (own.b, own.rate, own.delay) = ("sw1".into(), Rate(10 * link.rate.0), Time::ZERO);
                    begin += FAR + own.rate.serialization(self.packets[0] as u64).0;
                    let between = std::mem::replace(&mut plan.links[0], own);
                    plan.links.push(LinkPlan { a: "sw1".into(), b: "sw0".into(), ..between });
                }
                plan.flows.list = data(0, 1, START);
                // Keeps the way to h1 busy.
                plan.flows.list.push(FlowPlan(2, 1, 0, 0, MTU as u64, 0));
                plan.flows.list.push(other_way(2, since(begin) - link.time(LARGEST) - link.latency));
                plan
            }
        };
        for nic in &mut plan.nics {
            (nic.mtu, nic.congestion, nic.strict) =
                (Bytes(MTU as u64), vec![CongestionPlan::None(Default::default())], vec![]);
        }
        plan.nics[0].rx_latency = Time(FAR);
        plan.flows.items = vec!["packets".into()];
        plan.record = RecordParameters { max_bins: 16, qps: 0, queues: None };
        plan.run.duration = Time(START + 2 * FAR + US);
        plan
    }
}

/// True if some packet of the grid has this size on the wire.
fn is_packet(wire_bytes: u32) -> bool {
    (102..=LARGEST).contains(&wire_bytes) && wire_bytes % 4 == 2
}

/// Links of a shape at two rates; a byte has no whole picoseconds at one of them. `response` is such that the largest
/// packets leave a rest of the time that nothing, a small, a middling or almost another packet of those takes.
fn links(shape: Shape) -> Vec<Link> {
    let mut links = Vec::new();
    for rate in [Rate::from_gbps(100), Rate::from_gbps(300)] {
        for (delay, latency) in [(0, 0), (0, 6_240), (10_000, 0), (10_000, 6_240)] {
            for rest in [10, 106, 230, 350] {
                let at_once = Link { shape, rate, delay, response: 0, latency };
                let more = (rest + LARGEST - at_once.rest()) % LARGEST;
                links.push(Link { response: at_once.time(more) + 2, ..at_once });
            }
        }
    }
    links
}

/// Packets that come before it matters: one; at a NIC enough for a buffer as large as the engine asks for, and one more
/// that is on PCIe.
fn before(shape: Shape) -> usize {
    if shape == Shape::NicToNic {
        30
    } else {
        1
    }
}

/// Every word of sizes, and the largest packets with one other among them.
fn words(link: &Link) -> Vec<Vec<u32>> {
    const SIZES: [u32; 3] = [LARGEST, 226, 102];
    const LENGTH: u32 = 4;
    let whole = (link.headroom() / (LARGEST - GAP) as u64) as usize + 3;
    let mut words: Vec<Vec<u32>> = (0..SIZES.len().pow(LENGTH))
        .map(|number| (0..LENGTH).map(|at| SIZES[number / SIZES.len().pow(at) % SIZES.len()]).collect())
        .collect();
    words.extend((2..whole).flat_map(|at| {
        let other = move |size: u32| [vec![LARGEST; at], vec![size]].concat();
        let fills = [link.rest(), link.rest().saturating_sub(4)];
        (102..LARGEST).step_by(60).chain(fills.into_iter().filter(|&size| is_packet(size))).map(other)
    }));
    for word in &mut words {
        word.splice(0..0, vec![LARGEST; before(link.shape)]);
        word.extend(vec![LARGEST; whole]);
    }
    words
}

fn check(shape: Shape) {
    let mut runs = 0;
    for link in links(shape) {
        let packet = link.time(LARGEST);
        let filled =
            if shape == Shape::NicToNic { before(shape) as u64 - 2 } else { 0 } * (LARGEST - GAP) as u64;
        let mut dropped_with_less = false;
        for packets in words(&link) {
            for phase in [1, packet / 2, packet] {
                for above in [334, 335, 500] {
                    let case = Case { link, packets: packets.clone(), phase, xoff: filled + above };
                    assert!(case.holds(link.headroom()), "{case:?}");
                    runs += 1;
                    if phase == 1 && above == 335 && !dropped_with_less {
                        dropped_with_less = !case.holds(link.headroom() - 1);
                        runs += 1;
                    }
                }
            }
        }
        assert!(dropped_with_less, "{link:?}");
    }
    println!("{shape:?}: {runs} runs");
}

#[test]
fn a_nic_never_overflows_a_switch() {
    check(Shape::NicToSwitch);
}

#[test]
fn a_switch_never_overflows_a_switch() {
    check(Shape::SwitchToSwitch);
}

#[test]
fn a_nic_never_overflows_a_receive_buffer() {
    check(Shape::NicToNic);
}
