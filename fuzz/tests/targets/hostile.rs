//! Frames of anybody's making, one after the other, to what lives long: a congestion point's queue, two hosts with a switch between them,
//! the analysis of a capture. None panics, and the memory that they take stays bounded: `make hostile` sends ten million to each, and
//! prints the figures.

use std::io::{self, Read};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tailback_analyze::Analysis;
use tailback_live::direction::{Direction, Output};
use tailback_live::host::Host;
use tailback_live::plan::{FlowPlan, Verb};
use tailback_live::settings::{PfcSettings, PointSettings};
use tailback_live::switch::Switch;
use tailback_proto::aqm::red::EcnThresholds;
use tailback_proto::units::Time;
use tailback_proto::wire::{icrc, MacAddress, Pfc};

use crate::captures::{HEADER, RXE};
use crate::live::{exchange, plan, Forged};

/// What memory may grow by after the first tenth, when queues and tables are as full as they get.
const MOST_GROWTH_BYTES: u64 = 32 << 20;
/// The longest frame, of a jumbo MTU and more.
const MOST_BYTES: u64 = 10_000;

/// How many frames each gets.
fn frames() -> u64 {
    std::env::var("TAILBACK_FRAMES").map_or(20_000, |text| text.parse().expect("TAILBACK_FRAMES is a number"))
}

/// Memory of this process now.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// Frames of all kinds, by the seed.
struct Frames {
    random: Pcg64Mcg,
    real: Vec<&'static [u8]>,
}

impl Frames {
    fn new() -> Frames {
        let mut real = Vec::new();
        let mut at = 24;
        while at + 16 <= RXE.len() {
            let length = u32::from_le_bytes(RXE[at + 8..at + 12].try_into().unwrap()) as usize;
            real.push(&RXE[at + 16..at + 16 + length]);
            at += 16 + length;
        }
        Frames { random: Pcg64Mcg::seed_from_u64(19), real }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random.next_u64() % most
    }

    fn next(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => {
                let mut bytes = vec![0; self.below(MOST_BYTES) as usize];
                self.random.fill_bytes(&mut bytes);
                bytes
            }
            // Real ones, with bytes changed, and cut, or to any queue pair; the ICRC then made right again.
            kind @ 1..=3 => {
                let which = self.below(self.real.len() as u64) as usize;
                let mut frame = self.real[which].to_vec();
                for _ in 0..self.below(4) {
                    let at = self.below(frame.len().min(80) as u64) as usize;
                    frame[at] ^= self.below(256) as u8;
                }
                if kind == 2 {
                    frame.truncate(self.below(frame.len() as u64 + 1) as usize);
                } else if kind == 3 && frame.len() > 50 {
                    self.random.fill_bytes(&mut frame[47..50]);
                    let end = frame.len() - 4;
                    if let Ok(right) = icrc::icrc(&frame[14..end]) {
                        frame[end..].copy_from_slice(&right.to_le_bytes());
                    }
                }
                frame
            }
            4 => {
                let mut frame = vec![0; Pfc::LEN];
                let time = [(); 8].map(|()| self.below(0x1_0000) as u16);
                let class_enable_vector = self.below(256) as u8;
                Pfc { source: MacAddress([2; 6]), class_enable_vector, time }.emit(&mut frame);
                frame
            }
            _ => Forged {
                opcode: self.below(256) as u8,
                qp: self.below(3) as u8,
                psn: self.random.next_u64() as u32,
                ecn: self.below(4) as u8,
                dscp: self.below(64) as u8,
                address: self.below(2000) as u32,
                length: self.below(2000) as u32,
                payload: self.below(256) as u8,
            }
            .frame(self.below(2) as u8),
        }
    }
}

/// Sends them all, and watches the memory.
fn send(what: &str, mut each: impl FnMut(u64, Vec<u8>)) {
    let (count, mut made) = (frames(), Frames::new());
    let mut before = 0;
    for number in 0..count {
        if number == count / 10 {
            before = resident_bytes();
        }
        each(number, made.next());
    }
    judge(what, count, before);
}

fn judge(what: &str, count: u64, before: u64) {
    let after = resident_bytes();
    println!(
        "{what}: {count} hostile frames, no panic; {} MiB at a tenth, {} MiB at the end",
        before >> 20,
        after >> 20
    );
    assert!(after < before + MOST_GROWTH_BYTES, "{what}: from {before} to {after} B");
}

#[test]
fn point() {
    let settings = PointSettings {
        rate_bps: 1_000_000_000,
        delay_ps: 1_000_000,
        buffer_bytes: 1_000_000,
        ecn: Some(EcnThresholds { k_min_bytes: 10_000, k_max_bytes: 300_000, p_max: 0.5 }),
        pfc: Some(PfcSettings { xoff_bytes: 500_000, xon_bytes: 300_000, priority: 3, quanta: 1000 }),
        loss: 0.01,
        seed: 1,
        events: Vec::new(),
    };
    let mut direction = Direction::new(&settings, 0, MacAddress([2; 6]));
    send("point", |number, frame| {
        let now = Time::from_us(8 * number);
        direction.advance(now);
        if let Ok(pfc) = Pfc::parse(&frame) {
            direction.on_pause(now, &pfc);
        }
        direction.on_frame(now, frame);
        while let Some(output) = direction.next_output() {
            assert!(!matches!(output, Output::Forward(_, due) if due > now));
        }
    });
}

#[test]
fn endpoint() {
    let mut plan = plan();
    for verb in [Verb::Send, Verb::Read] {
        let flow = FlowPlan { verb, ..plan.flows[0].clone() };
        plan.flows.push(flow);
    }
    let mut hosts = [0, 1].map(|number| Host::new(&plan, number, &[]).expect("it is a host"));
    let mut switch = Switch::new(&plan.switches[0], 1, 0);
    send("end points and a switch", |number, frame| {
        exchange(Time::from_us(4 * number), &frame, &mut hosts, &mut switch);
    });
}

/// A capture that is made while it is read.
struct Endless {
    frames: Frames,
    left: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl Read for Endless {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() && self.left > 0 {
            self.left -= 1;
            let (frame, ns) = (self.frames.next(), 1000 * (frames() - self.left));
            (self.at, self.bytes) = (0, Vec::with_capacity(16 + frame.len()));
            let length = frame.len() as u32;
            for word in [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, length, length] {
                self.bytes.extend(word.to_le_bytes());
            }
            self.bytes.extend(frame);
        }
        let count = (self.bytes.len() - self.at).min(room.len());
        room[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[test]
fn analyze() {
    let count = frames();
    let capture = Endless { frames: Frames::new(), left: count, bytes: HEADER.to_vec(), at: 0 };
    let mut analysis = Analysis::new(capture).expect("its header is right");
    analysis.advance(count / 10).expect("it can be read");
    let before = resident_bytes();
    while !analysis.advance(10_000).expect("it can be read") {}
    judge("analyze", count, before);
    assert_eq!(analysis.finish().frames, count);
}
