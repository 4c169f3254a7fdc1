//! GRO: segments of one poll that follow each other in a connection go up the stack as one.
//!
//! Source: Linux, `net/ipv4/tcp_offload.c` (`tcp_gro_receive`) and `net/ipv4/af_inet.c` (`inet_gro_receive`): a change of
//! CE and a CWR keep segments apart; ACKs are not merged.
//!
//! Leaves out: that a timestamp that differs (Linux counts milliseconds) keeps them apart too, and merging across polls
//! (`gro_flush_timeout`).

use tailback_proto::transport::tcp::{AckSegment, DataSegment};

use super::connection::Held;
use super::cpu::Batch;
use super::Tcp;
use crate::fabric::packet::{Kind, CE, CE_ECHO, CWR};
use crate::fabric::Fabric;
use crate::nic::Nics;

/// Connections that GRO holds a segment of at once; the oldest gives way. Linux, `net/core/dev.c`, `MAX_GRO_SKBS`; from
/// 4.19 on that many in each of 8 hash buckets.
const GRO_FLOWS: u32 = 8;

impl Tcp {
    /// What a poll took from a ring goes through GRO and then up the stack.
    pub fn receive_polled(
        &mut self,
        fabric: &mut Fabric,
        nics: &mut Nics,
        polled: &[u32],
        batch: &mut Batch,
    ) {
        let gro_bytes = self.cpus.of(batch.core).model.gro_bytes;
        let mut held = std::mem::take(&mut self.sockets.held);
        let mut runs = 0;
        for &index in polled {
            let packet = fabric.packets[index];
            fabric.packets.remove(index);
            let connection = packet.qp - self.sockets.first_flow;
            let (position, time) = self.sockets.headers.stamps[index as usize];
            if packet.kind == Kind::TcpAck {
                let (window, sack) = self.sockets.headers.acks[index as usize];
                let ece = packet.flags & CE_ECHO != 0;
                let segment = AckSegment { ack: position, window, sack, ece, echo: time };
                held.push(Held::Ack { connection, segment });
                continue;
            }
            let new = DataSegment {
                position,
                bytes: packet.payload_bytes(),
                segments: 1,
                ce: packet.flags & CE != 0,
                cwr: packet.flags & CWR != 0,
                sent_at: time,
            };
            let c = &mut self.sockets.connections[connection as usize];
            match held.get_mut(c.held as usize) {
                Some(Held::Data { connection: of, order, segment: run })
                    if *of == connection
                        && runs - *order <= GRO_FLOWS
                        && run.position + run.bytes as u64 == new.position
                        && run.ce == new.ce
                        && !new.cwr
                        && new.bytes > 0
                        && run.bytes + new.bytes <= gro_bytes =>
                {
                    run.bytes += new.bytes;
                    run.segments += 1;
                }
                _ => {
                    c.held = held.len() as u32;
                    held.push(Held::Data { connection, order: runs, segment: new });
                    runs += 1;
                }
            }
        }
        for segment in held.drain(..) {
            match segment {
                Held::Data { connection, segment, .. } => {
                    self.on_tcp_data(fabric, nics, connection, &segment, batch)
                }
                Held::Ack { connection, segment } => {
                    self.on_tcp_ack(fabric, nics, connection, &segment, batch)
                }
            }
        }
        self.sockets.held = held;
    }
}
