//! Latency tests like perftest's `ib_write_lat`: one message at a time, answered by one of the same size.
//!
//! Source: perftest (`ib_write_lat`, `perftest_resources.c`, `run_iter_lat_write`): each side polls the memory that the other
//! writes to, and writes when it has changed; what is reported is half of the median round trip.
//!
//! Leaves out: what polling and posting cost the CPU, which is part of the NIC's latency here.

use std::num::NonZeroU32;

use tailback_proto::units::Time;

use crate::nic::QpState;
use crate::plan::Plan;
use crate::world::World;

/// The side that begins.
#[derive(Clone, Debug)]
pub(crate) struct LatencyTest {
    /// Its queue pair.
    pub qp: u32,
    sent_at: Time,
    /// Round trips so far.
    pub round_trips: Vec<Time>,
}

/// Number of a queue pair, plus one.
pub(crate) type QpNumber = NonZeroU32;

/// A queue pair by number.
pub(crate) fn number(qp: u32) -> Option<QpNumber> {
    NonZeroU32::new(qp + 1)
}

impl World {
    /// Ties the queue pairs of latency tests together.
    pub(crate) fn add_latency_tests(&mut self, plan: &Plan) {
        for (index, writer) in plan.writers.iter().enumerate() {
            let Some(partner) = writer.partner else { continue };
            let (own, other) = (self.writers[index].first_qp, self.writers[partner.writer].first_qp);
            self.recv_qps[own as usize].answered_by = number(other);
            if partner.begins {
                self.latency_tests.push(LatencyTest {
                    qp: own,
                    sent_at: Time::ZERO,
                    round_trips: Vec::new(),
                });
            }
        }
    }

    /// A latency test begins.
    pub(crate) fn begin_latency_test(&mut self, qp: u32) {
        if self.latency_tests.iter().any(|test| test.qp == qp) {
            self.write_one(qp);
        }
    }

    /// A message of a latency test is in memory: it is answered.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn answer_message(&mut self, received: u32, answer: QpNumber) {
        let answer = answer.get() - 1;
        let writer = &self.writers[self.send_qps[received as usize].writer as usize];
        if !self.recv_qps[received as usize].responder.received().is_multiple_of(writer.packets_per_message) {
            return;
        }
        let now = self.fabric.run.now;
        if let Some(test) = self.latency_tests.iter_mut().find(|test| test.qp == answer) {
            test.round_trips.push(now - test.sent_at);
        }
        self.write_one(answer);
    }

    /// Posts a message of a latency test, unless it was the last one.
    fn write_one(&mut self, qp: u32) {
        if self.send_qps[qp as usize].state != QpState::Running {
            return;
        }
        let now = self.fabric.run.now;
        if let Some(test) = self.latency_tests.iter_mut().find(|test| test.qp == qp) {
            test.sent_at = now;
        }
        self.writers[self.send_qps[qp as usize].writer as usize].tx_depth += 1;
        self.post(qp);
        self.activate(qp);
    }
}
