//! The controllers' state after each ACK, and each number that a switch writes under PINT, against logs of that simulator.
//!
//! `cc_log.txt` and `pint_log.txt` of a case have some of its log's lines, each behind its number. Whatever the lines
//! between did wrong would show in the next.

use super::super::world::World;
use super::super::HpccSimulation;
use super::{Ack, AckControl, Leaving};

#[path = "../../../tests/common/hpcc.rs"]
mod common;

/// The logs' times count from here.
const ORIGIN_NS: u64 = 2_000_000_000;

impl World {
    pub fn log_ack(&mut self, flow: u32, packet: u32, ack: &Ack) {
        let qp = &self.send[flow as usize];
        let window = match (qp.window, self.plan.window.variable) {
            (0, _) => 0,
            (window, false) => window as u64,
            (window, true) => (window as u64 * qp.reaction.rate / qp.line_rate).max(1),
        };
        let kind = if self.packets[packet].kind == super::super::packet::EntryKind::Nack { "N" } else { "A" };
        let mut line = format!(
            "{} {} {kind} {} {} {} {} {} {window} ",
            ack.now_ns.wrapping_sub(ORIGIN_NS),
            qp.src_node,
            ack.marked as u8,
            ack.seq,
            qp.snd_una,
            ack.snd_nxt,
            qp.reaction.rate
        );
        let Some(acks) = &mut self.acks else { return };
        match acks {
            AckControl::Hpcc(mode) => {
                let area = &mode.areas.0[packet as usize];
                let Some(f) = mode.flows.get(flow) else { return };
                let multi = mode.parameters.multi_rate;
                // There, this column is memory that nothing was written to.
                let stage = if multi { "-".into() } else { f.stage.to_string() };
                line += &format!("{} {} {stage} {:?} {}", f.rate, f.last_update, f.u, area.count);
                for (hop, own) in area.hops[..area.count as usize].iter().zip(&f.own) {
                    line += &format!(" {},{},{},{}", hop.rate(), hop.time(), hop.bytes(), hop.queue());
                    if multi {
                        line += &format!(",{:?},{},{}", own.u, own.rate, own.stage);
                    }
                }
            }
            AckControl::Timely(mode) => {
                let made = mode.made_ns.0[packet as usize].wrapping_sub(ORIGIN_NS);
                let Some(f) = mode.flows.get(flow) else { return };
                line += &format!("{made} {} {} {}", f.rate, f.last_update, f.stage);
                line += &format!(" {} {:?}", f.last_rtt_ns, f.rtt_diff);
            }
            AckControl::Dctcp(mode) => {
                let Some(f) = mode.flows.get(flow) else { return };
                line += &format!("{} {} {}", f.last_update, f.reduced as u8, f.high_seq);
                line += &format!(" {:?} {} {}", f.alpha, f.marked, f.batch);
            }
            AckControl::Pint(mode) => {
                let (field, drawn) = (mode.fields.0[packet as usize], mode.arithmetic.rand.drawn);
                let Some(f) = mode.flows.get(flow) else { return };
                line += &format!("{field} {} {} {} {drawn}", f.rate, f.last_update, f.stage);
            }
        }
        line += &format!(" {}", (qp.next_avail / 1000) as i64 - ORIGIN_NS as i64);
        self.log[0].push(line);
    }

    pub fn log_written(&mut self, leaving: &Leaving) {
        let Some(AckControl::Pint(mode)) = &self.acks else { return };
        let (at, port) = (&self.ports[leaving.port as usize], &mode.ports[leaving.port as usize]);
        let (last, field) = (port.last, mode.fields.0[leaving.data as usize]);
        self.log[1].push(format!(
            "{} {} {} {} {} {} {:?} {:?} {} {field} {}",
            leaving.now_ns.wrapping_sub(ORIGIN_NS),
            at.node,
            at.number,
            last.dt,
            leaving.queued,
            last.bytes_before,
            last.u_before,
            last.u,
            last.value,
            mode.arithmetic.rand.drawn
        ));
    }
}

/// True if two fields are the same text or the same number to the last bit, or there is nothing to compare.
fn same(our: &str, their: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().map(f64::to_bits);
    our == their || our == "-" || number(our).is_some() && number(our) == number(their)
}

/// Compares the lines of a log that the case has; how many these are.
fn compare(case: &str, file: &str, ours: &[String]) -> usize {
    let text = common::text(case, file);
    for line in text.lines() {
        let (number, their) = line.split_once(' ').expect("a number and a line");
        let number: usize = number.parse().expect("a number");
        let our = ours.get(number - 1).unwrap_or_else(|| panic!("{case}/{file}: no line {number}"));
        let fields = |line: &str| line.split([' ', ',']).map(str::to_owned).collect::<Vec<_>>();
        let (our, their) = (fields(our), fields(their));
        assert_eq!(our.len(), their.len(), "{case}/{file}, line {number}");
        for (field, (our, their)) in our.iter().zip(&their).enumerate() {
            assert!(
                same(our, their),
                "{case}/{file}, line {number}, field {}: {our}, not {their}",
                field + 1
            );
        }
    }
    text.lines().count()
}

#[test]
fn every_field_of_the_logs_is_equal() {
    for name in ["hpcc_two_4MB", "hpcc_loss_gbn", "timely_two_4MB", "dctcp_k30_two_4MB", "pint_two_4MB"] {
        let case = format!("modes/{name}");
        let mut simulation = HpccSimulation::new(&common::plan(&case)).expect("the plan is possible");
        while !simulation.advance(1_000_000).done {}
        let [acks, written] = &simulation.world.log;
        assert!(compare(&case, "cc_log.txt", acks) > 100, "{case}");
        if name == "pint_two_4MB" {
            assert!(compare(&case, "pint_log.txt", written) > 100, "{case}");
        }
    }
}
