//! Two NICs on a cable, as bytes and on simulated time. What happens to a packet on its way is for the test to say.
#![allow(dead_code)] // each test uses what it needs

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tailback_proto::congestion::builtin::{Congestion, Settings};
use tailback_proto::congestion::dctcp::DctcpParameters;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::congestion::Link;
use tailback_proto::nic::queue_pair::{Event, SendRequest};
use tailback_proto::nic::{Access, Connection, Nic, NicSettings, Region, Transmit};
use tailback_proto::transport::rc::{RcParameters, SlowRestart};
use tailback_proto::units::{Rate, Time};
use tailback_proto::wire::ip::{CE, ECT_0, PROTOCOL_UDP};
use tailback_proto::wire::*;

pub const LINE_RATE: Rate = Rate::from_gbps(100);
/// One way.
pub const DELAY: Time = Time::from_us(2);
/// Opens all memory of an end.
pub const KEY: u32 = 0x1234;
pub const MEMORY: usize = 1 << 20;

pub const CONNECTION: Connection = Connection {
    dest_qp: 0,
    sq_psn: 0,
    rq_psn: 0,
    path_mtu: 1024,
    rc: RcParameters {
        ack_every: 4,
        ack_timeout: Time::from_us(1000),
        first_timeout: Time::from_us(100),
        retry_count: 7,
        slow_restart: SlowRestart::Never,
        nak_reaction: Time::ZERO,
        nak_delay: Time::ZERO,
        losses_are_cnps: false,
        discarded_cause_cnps: true,
        selective: None,
    },
    rnr_retry: 7,
    min_rnr_timer: 1, // 10 us
    max_rd_atomic: 4,
    max_dest_rd_atomic: 4,
};

/// A controller at its defaults on the cable.
pub fn congestion(settings: Settings) -> Congestion {
    settings.on(Link { rate: LINE_RATE, mtu_bytes: CONNECTION.path_mtu }).unwrap()
}

pub fn settings(congestion: Congestion) -> NicSettings {
    NicSettings { congestion, line_rate: LINE_RATE, min_time_between_cnps: Time::from_us(4), first_qpn: 0x11 }
}

/// Round trip without queues, of those that must be told.
const BASE_RTT: RoundTrip = RoundTrip(Time::from_us(5));

pub fn dctcp() -> Settings {
    Settings::Dctcp(DctcpParameters { window_rtt: Some(BASE_RTT), ..Default::default() })
}

pub fn hpcc() -> Settings {
    Settings::Hpcc(HpccParameters { base_rtt: BASE_RTT, ..Default::default() })
}

pub fn dcqcn() -> NicSettings {
    settings(congestion(Settings::Dcqcn(Default::default())))
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    IsLost,
    IsMarked,
    /// Twice, the second time this many microseconds later.
    Twice(u8),
    /// This many microseconds late: others overtake it.
    Late(u8),
    /// With this bit, counted modulo its length, changed.
    Corrupt(u16),
}

pub struct End {
    pub nic: Nic,
    pub memory: Vec<u8>,
    /// How often each byte of memory was written by the NIC.
    pub writes: Vec<u8>,
    pub events: Vec<Event>,
    link_free_at: Time,
}

impl End {
    pub fn new(settings: NicSettings) -> Self {
        let mut nic = Nic::new(settings).unwrap();
        let access = Access { remote_write: true, remote_read: true };
        nic.register(KEY, Region { address: 0, length: MEMORY as u64, access });
        End {
            nic,
            memory: vec![0; MEMORY],
            writes: vec![0; MEMORY],
            events: Vec::new(),
            link_free_at: Time::ZERO,
        }
    }
}

pub struct Cable<F: FnMut(usize) -> Fate> {
    pub now: Time,
    pub ends: [End; 2],
    /// Queue pairs of each end: the n-th of one is connected to the n-th of the other.
    pub qpns: [Vec<u32>; 2],
    fate: F,
    packets: usize,
    /// Bytes on the way to an end, by arrival.
    on_link: BTreeMap<(Time, usize), (usize, Vec<u8>)>,
}

impl<F: FnMut(usize) -> Fate> Cable<F> {
    pub fn new(connections: &[(Connection, u32, u32)], fate: F) -> Self {
        Cable::with([dcqcn(), dcqcn()], connections, fate)
    }

    pub fn with(settings: [NicSettings; 2], connections: &[(Connection, u32, u32)], fate: F) -> Self {
        let mut ends = settings.map(End::new);
        let mut qpns = [Vec::new(), Vec::new()];
        for &(c, psn_0, psn_1) in connections {
            let [a, b] = [0, 1].map(|end| ends[end].nic.create_queue_pair());
            let connection = |dest_qp, sq_psn, rq_psn| Connection { dest_qp, sq_psn, rq_psn, ..c };
            ends[0].nic.connect(a, connection(b, psn_0, psn_1)).unwrap();
            ends[1].nic.connect(b, connection(a, psn_1, psn_0)).unwrap();
            qpns[0].push(a);
            qpns[1].push(b);
        }
        Cable { now: Time::ZERO, ends, qpns, fate, packets: 0, on_link: BTreeMap::new() }
    }

    pub fn post(&mut self, end: usize, qp: usize, request: SendRequest) {
        let (now, qpn) = (self.now, self.qpns[end][qp]);
        self.ends[end].nic.post_send(now, qpn, request).unwrap();
    }

    fn put(&mut self, from: usize, sent: Transmit) {
        let end = &mut self.ends[from];
        let payload = &end.memory[sent.payload.address as usize..][..sent.payload.length as usize];
        let bytes = bytes_of(&sent.headers, payload);
        let wire = bytes.len() as u64 + (FCS_BYTES + PREAMBLE_AND_GAP_BYTES) as u64;
        end.link_free_at = self.now + LINE_RATE.serialization(wire);
        let number = self.packets;
        self.packets += 1;
        let arrives_at = end.link_free_at + DELAY;
        let mut arrive = |late: u8, bytes: Vec<u8>| {
            let at = arrives_at + Time::from_us(late as u64);
            let key = (at, 2 * number + self.on_link.contains_key(&(at, 2 * number)) as usize);
            self.on_link.insert(key, (1 - from, bytes));
        };
        match (self.fate)(number) {
            Fate::Arrives => arrive(0, bytes),
            Fate::IsLost => {}
            Fate::IsMarked => {
                let mut bytes = bytes;
                let frame = Frame::parse(&bytes.clone()).map(|frame| frame.ip).unwrap();
                if let Ip::V4(ip) = frame {
                    let payload_len = u16::from_be_bytes([bytes[16], bytes[17]]) - 20;
                    Ipv4 { ecn: CE, ..ip }.emit(payload_len, &mut bytes[14..]);
                }
                arrive(0, bytes);
            }
            Fate::Twice(late) => {
                arrive(0, bytes.clone());
                arrive(late, bytes);
            }
            Fate::Late(late) => arrive(late, bytes),
            Fate::Corrupt(bit) => {
                let mut bytes = bytes;
                // What lies before IP is for the FCS.
                let bit = Ethernet::LEN * 8 + bit as usize % ((bytes.len() - Ethernet::LEN) * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                arrive(0, bytes);
            }
        }
    }

    fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let Ok(frame) = Frame::parse(bytes) else { return };
        let end = &mut self.ends[to];
        let is_marked = frame.ip.ecn() == CE;
        let len = frame.payload.len();
        let address = end.nic.on_packet(self.now, &frame.headers, len as u32, is_marked);
        if let Some(address) = address {
            let place = address as usize..address as usize + len;
            end.memory[place.clone()].copy_from_slice(frame.payload);
            end.writes[place].iter_mut().for_each(|writes| *writes += 1);
        }
    }

    /// Runs until nothing is left to do, or until `until`.
    pub fn run_until(&mut self, until: Time) {
        for _ in 0..100_000 {
            for end in 0..2 {
                while self.ends[end].link_free_at <= self.now {
                    let Some(sent) = self.ends[end].nic.poll_transmit(self.now) else { break };
                    self.put(end, sent);
                }
                while let Some(event) = self.ends[end].nic.poll_event() {
                    self.ends[end].events.push(event);
                }
            }
            let link_at = self.on_link.keys().next().map(|key| key.0);
            let wake = |end: &End| {
                let busy = (end.link_free_at > self.now).then_some(end.link_free_at);
                busy.or(end.nic.next_timeout().map(|at| at.max(Time(self.now.0 + 1))))
            };
            let next = [link_at, wake(&self.ends[0]), wake(&self.ends[1])].into_iter().flatten().min();
            match next {
                Some(at) if at <= until => self.now = at,
                _ => return,
            }
            while let Some(entry) = self.on_link.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, bytes) = entry.remove();
                self.deliver(to, &bytes);
            }
        }
        panic!("it hangs");
    }

    pub fn run(&mut self) {
        self.run_until(Time::from_ms(10_000));
    }
}

pub fn bytes_of(headers: &TransportHeaders, payload: &[u8]) -> Vec<u8> {
    let mac = |n| MacAddress([2, 0, 0, 0, 0, n]);
    let ip = Ipv4 {
        dscp: 26,
        ecn: ECT_0,
        identification: 0,
        dont_fragment: true,
        time_to_live: 64,
        protocol: PROTOCOL_UDP,
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
    };
    let frame = Frame {
        destination: mac(1),
        source: mac(2),
        tag: None,
        ip: Ip::V4(ip),
        udp: Udp { source_port: 0xc000, destination_port: Udp::ROCE_PORT, checksum: 0 },
        headers: *headers,
        payload,
    };
    let mut bytes = vec![0; frame.frame_len()];
    frame.emit(&mut bytes).unwrap();
    bytes
}
