//! A NIC by itself, and the packets that it sends in words.
#![allow(dead_code)] // each test uses what it needs

use crate::nic_link::{self, CONNECTION, KEY, MEMORY};
use tailback_proto::nic::queue_pair::*;
use tailback_proto::nic::*;
use tailback_proto::transport::rc::RcParameters;
use tailback_proto::units::Time;
use tailback_proto::wire::*;

pub const PEER: u32 = 0x99;
/// First PSN of either direction.
pub const SENDS_FROM: u32 = 100;
pub const RECEIVES_FROM: u32 = 500;

/// A NIC with queue pairs to a peer that the test plays.
pub struct Alone {
    pub nic: Nic,
    pub now: Time,
}

impl Alone {
    pub fn with(connections: &[Connection]) -> Alone {
        Alone::under(nic_link::dcqcn(), connections)
    }

    pub fn under(settings: NicSettings, connections: &[Connection]) -> Alone {
        let mut nic = Nic::new(settings).unwrap();
        let access = Access { remote_write: true, remote_read: true };
        nic.register(KEY, Region { address: 0, length: MEMORY as u64, access });
        nic.register(KEY + 1, Region { address: 0, length: 4096, access: Access::default() });
        for &connection in connections {
            let qpn = nic.create_queue_pair();
            nic.connect(qpn, connection).unwrap();
        }
        Alone { nic, now: Time::ZERO }
    }

    pub fn new() -> Alone {
        Alone::with(&[connection()])
    }

    pub fn post(&mut self, operation: Operation, length: u32) {
        let request = SendRequest { wr_id: length as u64, operation, address: 0x8000, length };
        self.nic.post_send(self.now, 0x11, request).unwrap();
    }

    pub fn post_receive(&mut self, l_key: u32, length: u32) {
        let receive = ReceiveRequest { wr_id: 1, l_key, address: 0x4000, length };
        self.nic.post_receive(0x11, receive).unwrap();
    }

    /// All that it sends by now and as soon as its pacing allows, up to a microsecond from now.
    pub fn sends(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        let until = self.now + Time::from_us(1);
        loop {
            while let Some(transmit) = self.nic.poll_transmit(self.now) {
                sent.push(shown(&transmit));
            }
            match self.nic.next_timeout() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => return sent,
            }
        }
    }

    /// The same, as when in ps, PSN, and whether it asks for an ACK.
    pub fn timed(&mut self) -> Vec<(u64, u32, bool)> {
        let mut sent = Vec::new();
        let until = self.now + Time::from_us(1);
        loop {
            while let Some(Transmit { headers: TransportHeaders { bth, .. }, .. }) =
                self.nic.poll_transmit(self.now)
            {
                sent.push((self.now.0, bth.psn, bth.ack_req));
            }
            match self.nic.next_timeout() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => return sent,
            }
        }
    }

    /// A packet of the peer comes: where its payload goes.
    pub fn gets(&mut self, opcode: Opcode, psn: u32, extension: Extension, payload_len: u32) -> Option<u64> {
        let bth = Bth { ack_req: true, ..Bth::new(opcode, 0x11, psn, payload_len as usize) };
        self.nic.on_packet(self.now, &TransportHeaders { bth, extension }, payload_len, false)
    }

    pub fn gets_syndrome(&mut self, psn: u32, syndrome: Syndrome) {
        self.gets(Opcode::Acknowledge, psn, Extension::Aeth(Aeth { syndrome, msn: 0 }), 0);
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.nic.poll_event()).collect()
    }

    pub fn passes(&mut self, span: Time) {
        self.now += span;
    }
}

pub fn connection() -> Connection {
    Connection { dest_qp: PEER, sq_psn: SENDS_FROM, rq_psn: RECEIVES_FROM, ..CONNECTION }
}

pub fn with_rc(rc: RcParameters) -> Connection {
    Connection { rc, ..connection() }
}

pub fn write(immediate: Option<ImmDt>) -> Operation {
    Operation::Write { remote_address: 0x10_0000, r_key: 7, immediate }
}

pub const READ: Operation = Operation::Read { remote_address: 0x10_0000, r_key: 7 };
pub const SEND: Operation = Operation::Send { immediate: None };

pub fn reth(va: u64, r_key: u32, dma_len: u32) -> Extension {
    Extension::Reth(Reth { va, r_key, dma_len })
}

pub const AETH: Extension = Extension::Aeth(Aeth { syndrome: Syndrome::ACK, msn: 0 });

pub fn sent(wr_id: u64, status: Status) -> Event {
    Event::Sent { qpn: 0x11, wr_id, status }
}

/// A packet in a line: opcode, PSN, extended headers, payload, and whether it asks for an ACK.
pub fn shown(transmit: &Transmit) -> String {
    let TransportHeaders { bth, extension } = transmit.headers;
    let mut text = format!("{:?} {}", bth.opcode, bth.psn);
    match extension {
        Extension::Reth(Reth { va, r_key, dma_len }) => {
            text += &format!(" to {va:#x} key {r_key} of {dma_len}")
        }
        Extension::RethImmDt(_, ImmDt(n)) | Extension::ImmDt(ImmDt(n)) => text += &format!(" immediate {n}"),
        Extension::Aeth(Aeth { syndrome, msn }) => text += &format!(" {:#04x} msn {msn}", u8::from(syndrome)),
        _ => {}
    }
    if transmit.payload.length > 0 {
        text += &format!(", {} B at {:#x}", transmit.payload.length, transmit.payload.address);
    }
    text + if bth.becn { ", BECN" } else { "" } + if bth.ack_req { ", ask" } else { "" }
}
