//! What a bridge does with a packet: it goes from one port to another by its address.

use super::bridge::flow_hash;
use super::Linux;
use crate::fabric::drops::DropReason;
use crate::fabric::Fabric;

impl Linux {
    /// A packet has reached a port of a bridge.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn receive(&mut self, fabric: &mut Fabric, port: usize, index: u32) {
        let p = &self.bridge_ports[port - self.first_bridge_port];
        let channels = p.rss.len() as u64;
        let at = (flow_hash(&fabric.packets[index]) as u64 * channels) >> 32;
        let channel = p.first_channel + p.rss[at as usize];
        self.channel_receive(fabric, channel, index);
    }

    /// A core has taken a packet from a channel and forwards it to its output port.
    pub(super) fn forward(&mut self, fabric: &mut Fabric, core: u32, channel: u32, index: u32) {
        let c = &self.channels[channel as usize];
        let (in_port, number) = (c.port as usize, c.number);
        let packet = &fabric.packets[index];
        let node = fabric.ports[in_port].owner as usize - fabric.hosts;
        let Some(out) = fabric.routes.next_port(node, packet.dst, packet.qp) else {
            fabric.drop_packet(in_port, index, DropReason::NoRoute);
            return;
        };
        let p = &self.bridge_ports[out - self.first_bridge_port];
        let of_bridge = core - self.bridges[p.bridge as usize].first_core;
        let queue = p.xps[of_bridge as usize].unwrap_or(number % p.channels);
        let egress = self.channels[(p.first_channel + queue) as usize].tx.egress;
        // Which transmit queue it has stands where a switch notes the port that a packet came in by.
        fabric.packets[index].ingress = (p.first_channel + queue) as u16;
        if self.egress_enqueue(fabric, egress, index) {
            self.channels[channel as usize].running = Some(egress);
        }
    }

    /// The channel whose transmit queue a packet has.
    pub(super) fn transmit_queue(&self, fabric: &mut Fabric, packet: u32) -> u32 {
        fabric.packets[packet].ingress as u32
    }
}
