//! What latency tests have queue pairs do: a message that has arrived is answered.

use super::qp::QpState;
use super::{Ethernet, Nics};
use crate::fabric::Fabric;
use crate::workload::latency::QpNumber;

impl Nics {
    /// A latency test begins.
    pub fn begin_latency_test(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        if self.latency_tests.iter().any(|test| test.qp == qp) {
            self.write_one(fabric, ethernet, qp);
        }
    }

    /// A message of a latency test is in memory: it is answered.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn answer_message(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        received: u32,
        answer: QpNumber,
    ) {
        let answer = answer.get() - 1;
        let writer = &self.writers[self.send_qps[received as usize].writer as usize];
        let packets = self.recv_qps[received as usize].half.responder.received();
        if !packets.is_multiple_of(writer.writes.packets_per_message) {
            return;
        }
        let now = fabric.run.now;
        if let Some(test) = self.latency_tests.iter_mut().find(|test| test.qp == answer) {
            test.round_trips.push(now - test.sent_at);
        }
        self.write_one(fabric, ethernet, answer);
    }

    /// Posts a message of a latency test, unless it was the last one.
    fn write_one(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        if self.send_qps[qp as usize].state != QpState::Running {
            return;
        }
        let now = fabric.run.now;
        if let Some(test) = self.latency_tests.iter_mut().find(|test| test.qp == qp) {
            test.sent_at = now;
        }
        self.writers[self.send_qps[qp as usize].writer as usize].tx_depth += 1;
        self.post(qp);
        self.activate(fabric, ethernet, qp);
    }
}
