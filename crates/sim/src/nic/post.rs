//! What writers have queue pairs do: they begin, post messages as completions make room, and end.

use super::qp::QpState;
use super::{Ethernet, Nics};
use crate::event::Event;
use crate::fabric::Fabric;
use crate::workload::Writer;

impl Nics {
    /// The queue pairs of a writer begin.
    pub fn on_writer_start(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, writer: u32) {
        let Writer { first_qp, qps, .. } = self.writers[writer as usize];
        for qp in first_qp..first_qp + qps {
            let s = &mut self.send_qps[qp as usize];
            s.state = QpState::Running;
            s.start = fabric.run.now;
            self.post(qp);
        }
        for qp in first_qp..first_qp + qps {
            self.activate(fabric, ethernet, qp);
        }
        if !self.latency_tests.is_empty() {
            self.begin_latency_test(fabric, ethernet, first_qp);
        }
    }

    /// A message of the flow list is posted.
    pub fn on_flow_start(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, number: u32) {
        let qp = self.slots.of(number);
        let s = &mut self.send_qps[qp as usize];
        s.state = QpState::Running;
        s.start = fabric.run.now;
        self.post(qp);
        self.activate(fabric, ethernet, qp);
    }

    /// The arrival of each message of a queue pair is told: of a single one, or of as many as will be posted on one that
    /// lasts.
    pub fn tell_arrivals(&mut self, qp: u32, lasts: bool) {
        let writer = &mut self.writers[self.send_qps[qp as usize].writer as usize];
        writer.post_one_by_one(lasts);
        let r = &mut self.recv_qps[qp as usize];
        (r.is_awaited, r.message_end) = (true, writer.writes.packets_per_message);
    }

    /// A message whose arrival is told is posted.
    pub fn post_message(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        if s.state == QpState::Waiting {
            s.state = QpState::Running;
            s.start = fabric.run.now;
        }
        self.writers[s.writer as usize].tx_depth += 1;
        self.post(qp);
        self.activate(fabric, ethernet, qp);
    }

    /// A message that something waits for is in memory.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn message_arrived(&mut self, fabric: &mut Fabric, qp: u32) {
        let s = &self.send_qps[qp as usize];
        let writer = &self.writers[s.writer as usize];
        self.recv_qps[qp as usize].message_end += writer.writes.packets_per_message;
        fabric.run.schedule(fabric.run.now, Event::MessageArrived(s.number));
    }

    /// A writer posts no more; what it posted is still sent.
    pub fn on_writer_stop(&mut self, fabric: &mut Fabric, writer: u32) {
        self.writers[writer as usize].stopped = true;
        let Writer { first_qp, qps, .. } = self.writers[writer as usize];
        for qp in first_qp..first_qp + qps {
            match self.send_qps[qp as usize].state {
                QpState::Waiting => self.end_qp(fabric, qp, QpState::Done),
                QpState::Running => self.end_if_idle(fabric, qp),
                QpState::Done | QpState::Error => {}
            }
        }
    }

    /// Packets of a queue pair were acknowledged.
    pub fn on_progress(&mut self, fabric: &mut Fabric, qp: u32) {
        self.post(qp);
        self.end_if_idle(fabric, qp);
    }

    /// Posts what a queue pair has room for.
    pub(super) fn post(&mut self, qp: u32) {
        let s = &mut self.send_qps[qp as usize];
        let writer = &self.writers[s.writer as usize];
        let completed = writer.writes.complete_before(s.half.requester.acknowledged());
        let messages = writer.to_post(s.messages_posted, completed);
        if messages == 0 {
            return;
        }
        let packets = messages * writer.writes.packets_per_message;
        s.messages_posted += messages;
        s.half.requester.post(packets);
        self.nics[s.src as usize].backlog_bytes[s.class as usize] +=
            (packets * writer.backlog_weight as u64) as i64;
    }

    fn end_if_idle(&mut self, fabric: &mut Fabric, qp: u32) {
        let s = &self.send_qps[qp as usize];
        let writer = &self.writers[s.writer as usize];
        let complete = writer.stopped || writer.messages == Some(s.messages_posted);
        if complete && s.half.requester.is_idle() {
            self.end_qp(fabric, qp, QpState::Done);
        }
    }

    /// Whether nothing that is still to come changes what a queue pair that is done has counted, or asks for more of it than
    /// that it is done. What was sent again may come twice, and a prober counts to the end of the run.
    pub fn is_forgotten(&self, slot: u32) -> bool {
        let s = &self.send_qps[slot as usize];
        s.state == QpState::Done && !s.scheduled && s.packets_retransmitted == 0 && s.prober.is_none()
    }

    /// A queue pair is finished, well or not.
    pub fn end_qp(&mut self, fabric: &mut Fabric, qp: u32, state: QpState) {
        let s = &mut self.send_qps[qp as usize];
        if s.state == QpState::Waiting {
            s.start = fabric.run.now;
        }
        if state == QpState::Error {
            let unsent = s.half.requester.unsent();
            let weight = self.writers[s.writer as usize].backlog_weight as i64;
            self.nics[s.src as usize].backlog_bytes[s.class as usize] -= unsent as i64 * weight;
        }
        s.state = state;
        s.end = fabric.run.now;
        if state == QpState::Done {
            if self.tells_ends {
                fabric.run.schedule(fabric.run.now, Event::MessageDone(s.number));
            } else if self.slots.is_of_work(s.number) {
                self.slots.done.push(qp);
            }
        }
        fabric.run.flow_ended();
    }
}
