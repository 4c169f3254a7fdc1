//! A link fails during the run.

use super::packet::NONE;
use super::port::LANES;
use super::routing::Routes;
use super::world::World;

impl World {
    /// Takes the plan's link down: new routes, empty queues at both ends, and every queue pair chooses its NIC anew.
    ///
    /// What the dropped packets held of the switches' buffers is not given back. Queue pairs rejoin host by host, those
    /// of a host in the order of a hash table.
    pub fn on_link_down(&mut self) {
        let Some(down) = self.plan.link_down else { return };
        self.rerouted = true;
        self.routes = Routes::new(&self.plan, Some(down));
        // Round trips, and products with them, are not worked out anew there.
        for (flow, pair) in self.plan.flows.iter().zip(&mut self.pairs) {
            let rate = self.routes.pair(self.routes.host(flow.0), self.routes.host(flow.1)).rate;
            pair.rate = if rate == 0 { pair.rate } else { rate };
        }
        // Of several links between two nodes only the last is known by name and goes down.
        let ends = self
            .plan
            .links
            .iter()
            .rposition(|l| (l.0, l.1) == (down.1, down.2) || (l.1, l.0) == (down.1, down.2));
        for port in ends.into_iter().flat_map(|link| [link * 2, link * 2 + 1]) {
            self.take_down(port);
        }
        for nic in &mut self.nics {
            nic.qps.clear();
            nic.ready.clear();
            nic.finished = 0;
        }
        for flow in 0..self.send.len() {
            let qp = &self.send[flow];
            let (started, node, key, src) = (qp.started, qp.dst_node, qp.key(true), qp.src);
            let back = self.nic_of(node, key, src);
            if started && back != NONE {
                self.recv[flow].port = back;
            }
            self.send[flow].slot = NONE;
        }
        for host in 0..self.qp_tables.len() {
            for flow in self.qp_tables[host].flows() {
                let qp = &self.send[flow as usize];
                let (node, key, dst) = (qp.src_node, qp.key(false), qp.dst);
                let port = self.nic_of(node, key, dst);
                if port != NONE {
                    self.send[flow as usize].port = port;
                    self.join(flow);
                    self.transmit(port);
                }
            }
        }
    }

    fn take_down(&mut self, port: usize) {
        self.ports[port].up = false;
        if !self.ports[port].is_switch {
            let owner = self.ports[port].owner as usize;
            while let Some(packet) = self.nics[owner].acks.pop(&self.packets) {
                self.lose(port as u32, packet);
            }
            return;
        }
        self.ports[port].paused = 0;
        self.ports[port].waiting = 0;
        self.ports[port].queued = 0;
        for lane in port * LANES..(port + 1) * LANES {
            if let Some(since) = self.heard[lane].since.take() {
                self.heard[lane].paused += self.now - since;
            }
            while let Some(packet) = self.lanes[lane].queue.pop(&self.packets) {
                self.lose(port as u32, packet);
            }
        }
    }
}
