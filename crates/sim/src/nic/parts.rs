//! NICs of a network that is cut in parts: each part has all, and acts on those of its own hosts.
//!
//! A host's sending halves are its part's, receiving halves those of the part of the host that they are at. What a receiver
//! counts for its sender is told to that one's part when a bin closes.

use super::Nics;
use crate::fabric::cut::{Cut, Mail};

impl Nics {
    /// What was counted here for senders of other parts goes there.
    pub fn send_mail(&mut self, cut: &Cut, mail: &mut [Mail]) {
        for (host, nic) in self.nics.iter_mut().enumerate() {
            if nic.goodput_tx_bytes > 0 && !cut.owns(host) {
                let bytes = std::mem::take(&mut nic.goodput_tx_bytes);
                mail[cut.part_of(host)].goodput.push((host as u32, bytes));
            }
        }
    }

    /// What was counted elsewhere for senders here.
    pub fn take_mail(&mut self, mail: &mut Mail) {
        for (host, bytes) in mail.goodput.drain(..) {
            self.nics[host as usize].goodput_tx_bytes += bytes;
        }
    }

    /// Takes over all that another part, which `cut` says, did.
    pub fn absorb(&mut self, other: &mut Nics, cut: &Cut) {
        self.pair_counts.absorb(&mut other.pair_counts);
        for (host, nic) in self.nics.iter_mut().enumerate() {
            let goodput = nic.goodput_tx_bytes + other.nics[host].goodput_tx_bytes;
            if cut.owns(host) {
                std::mem::swap(nic, &mut other.nics[host]);
            }
            nic.goodput_tx_bytes = goodput;
        }
        for qp in 0..self.send_qps.len() {
            let (src, dst) = (self.send_qps[qp].src as usize, self.send_qps[qp].dst as usize);
            if cut.owns(src) {
                std::mem::swap(&mut self.send_qps[qp], &mut other.send_qps[qp]);
            }
            if cut.owns(dst) {
                std::mem::swap(&mut self.recv_qps[qp], &mut other.recv_qps[qp]);
                let point = self.recv_qps[qp].notification_point as usize;
                // Several queue pairs may share one.
                self.notification_points[point] = other.notification_points[point];
            }
        }
        for (number, writer) in self.writers.iter_mut().enumerate() {
            if cut.owns(self.send_qps[writer.first_qp as usize].src as usize) {
                std::mem::swap(writer, &mut other.writers[number]);
            }
        }
        for (number, test) in self.latency_tests.iter_mut().enumerate() {
            if cut.owns(self.send_qps[test.qp as usize].src as usize) {
                std::mem::swap(test, &mut other.latency_tests[number]);
            }
        }
    }
}
