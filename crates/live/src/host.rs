//! A host: the NIC of `proto`, its memory, its writers, and the end of a link. No clock and no I/O.
//!
//! Received frames go in ([`Host::on_frame`]). Frames to send come out with the time at which they have crossed the link
//! ([`Host::next_output`]). In between, everything happens at its own time, however late the program calls ([`Host::advance`]).
//!
//! A packet begins when the link is free and no class that the host sends in is paused: a pause holds all that it sends, CNPs too.
//! Memory is real: the payload of a WRITE is copied to its address, and each message is compared with what was sent once its last
//! packet has arrived. What another program writes is not known beforehand: it is counted and not kept.
//!
//! Leaves out: the limits of a host that receives too fast (memory takes every packet), and separate classes for what it sends.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::flow_control::pfc::{pause_span, PauseSink};
use tailback_proto::nic::queue_pair::{Event, Operation, ReceiveRequest, SendRequest, Status};
use tailback_proto::nic::{Access, Connection, Counters, Nic, NicSettings, Region, Transmit};
use tailback_proto::units::Time;
use tailback_proto::wire::ip::{CE, ECT_0, NOT_ECT, PROTOCOL_UDP};
use tailback_proto::wire::{EtherType, Ethernet, Frame, Ip, Ipv4, MacAddress, Opcode, Pfc, Udp};

use crate::counted::{count, wire_bytes, HostCounters, Sending, Sends};
use crate::direction::{seeded, uniform};
use crate::frame::{dscp, layout};
use crate::pair::{ends_at, memory_of, Pair, ADDRESSES, FIRST_QPN};
use crate::pattern::Pattern;
use crate::plan::{class_table, ClassOf, HostPlan, LinkPlan, LivePlan, RemotePlan, Verb, CLASSES};

/// Time asked for in RNR NAKs, which no host here sends: 10.24 ms.
const RNR_TIMER: u8 = 20;
/// Most frames that wait for the transport; more are dropped and counted.
const MOST_ARRIVING: usize = 1 << 16;
/// Receives posted for SENDs: the default of perftest's `--rx-depth`.
const RECEIVES: u64 = 512;

/// A host.
pub struct Host {
    nic: Nic,
    mac: MacAddress,
    ip: Ipv4Addr,
    ect: bool,
    cnp_dscp: Option<u8>,
    rx_latency: Time,
    class_of: ClassOf,
    link: LinkPlan,
    random: Pcg64Mcg,
    pairs: Vec<Pair>,
    /// Classes that it sends in, as bits.
    classes: u8,
    /// The time that it has advanced to.
    at: Time,
    free_at: Time,
    sinks: [PauseSink; CLASSES],
    arriving: VecDeque<(Time, Vec<u8>)>,
    pauses: VecDeque<(Time, Pfc)>,
    on_link: VecDeque<Sending>,
    spare: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    pub counters: HostCounters,
}

impl Host {
    /// A host of a plan. `controls`: controllers that are not built in, by their numbers in the plan.
    ///
    /// # Errors
    /// The settings of its controller are refused; one line.
    pub fn new(
        plan: &LivePlan,
        number: usize,
        controls: &[Arc<dyn ExternalControl>],
    ) -> Result<Host, String> {
        let own: &HostPlan = &plan.hosts[number];
        let congestion = own
            .controller(controls)
            .map_err(|refused| format!("{}: expected {}", refused.field, refused.expected))?;
        let min_time_between_cnps =
            own.congestion.cnp_interval().map_or(Time::ZERO, |(us, _)| Time::from_us(us as u64));
        let settings = NicSettings {
            congestion,
            line_rate: own.link.rate(),
            min_time_between_cnps,
            first_qpn: FIRST_QPN,
        };
        let nic = Nic::new(settings)?;
        let mut host = Host {
            nic,
            mac: MacAddress(own.mac),
            ip: own.ip,
            ect: own.ect,
            cnp_dscp: own.cnp_dscp,
            rx_latency: Time(own.rx_latency_ps),
            class_of: class_table(&own.class_of),
            link: own.link,
            random: seeded(plan.seed, 1000 + number as u64),
            pairs: Vec::new(),
            classes: 0,
            at: Time::ZERO,
            free_at: Time::ZERO,
            sinks: [PauseSink::default(); CLASSES],
            arriving: VecDeque::new(),
            pauses: VecDeque::new(),
            on_link: VecDeque::new(),
            spare: Vec::new(),
            scratch: Vec::new(),
            counters: HostCounters::default(),
        };
        for (flow, writes, qpn, peer) in ends_at(plan, number) {
            host.connect(own, Pair::new(flow, &plan.flows[flow], qpn, writes, &peer), &peer)?;
        }
        Ok(host)
    }

    fn connect(&mut self, own: &HostPlan, pair: Pair, peer: &RemotePlan) -> Result<(), String> {
        let qpn = self.nic.create_queue_pair();
        debug_assert_eq!(qpn, pair.qpn);
        let connection = Connection {
            dest_qp: peer.qpn,
            sq_psn: peer.own_psn,
            rq_psn: peer.psn,
            path_mtu: own.mtu,
            rc: own.transport.connection(),
            rnr_retry: 7,
            min_rnr_timer: RNR_TIMER,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
        };
        self.nic.connect(qpn, connection).map_err(|error| format!("{error:?}"))?;
        if pair.sends.is_none() {
            let region = Region {
                address: memory_of(qpn),
                length: if pair.plan.remote.is_some() { ADDRESSES } else { pair.plan.message as u64 },
                access: Access {
                    remote_write: pair.plan.verb == Verb::Write,
                    remote_read: pair.plan.verb == Verb::Read,
                },
            };
            self.nic.register(qpn, region);
            if pair.plan.verb == Verb::Send {
                (0..RECEIVES).for_each(|number| post_receive(&mut self.nic, &pair, number));
            }
        }
        self.classes |= 1 << self.class_of[pair.plan.dscp as usize & 63];
        self.pairs.push(pair);
        Ok(())
    }

    /// A frame comes from the link.
    pub fn on_frame(&mut self, now: Time, bytes: &[u8]) {
        let Ok((ethernet, _)) = Ethernet::parse(bytes) else {
            self.counters.rx_malformed += 1;
            return;
        };
        if self.link.loss > 0.0 && uniform(&mut self.random) < self.link.loss {
            self.counters.rx_lost += 1;
            return;
        }
        if ethernet.ether_type == EtherType::MAC_CONTROL {
            match Pfc::parse(bytes) {
                Ok(pfc) if self.pauses.len() < MOST_ARRIVING => {
                    self.counters.pause_frames += 1;
                    self.pauses.push_back((now + Time(self.link.response_delay_ps), pfc));
                }
                _ => self.counters.rx_foreign += 1,
            }
        } else if ethernet.destination != self.mac {
            self.counters.rx_others += 1;
        } else if self.arriving.len() >= MOST_ARRIVING {
            self.counters.rx_dropped += 1;
        } else {
            self.counters.rx_frames += 1;
            self.counters.rx_wire_bytes += wire_bytes(bytes.len());
            let dscp = layout(bytes).ip.map_or(0, |ip| dscp(bytes, ip));
            count(&mut self.counters.rx_class[self.class_of[dscp as usize] as usize], bytes.len());
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            frame.extend_from_slice(bytes);
            self.arriving.push_back((now + self.rx_latency, frame));
        }
    }

    /// Carries out all that happened by `now`.
    pub fn advance(&mut self, now: Time) {
        loop {
            // An answered message makes room for the next, which may leave at once.
            self.take_events();
            while self.free_at <= self.at && !self.is_paused() {
                let Some(packet) = self.nic.poll_transmit(self.at) else { break };
                self.send(&packet);
                self.take_events();
            }
            let Some(next) = self.next_internal().filter(|next| *next <= now) else { break };
            self.at = self.at.max(next);
            self.happen();
        }
        self.take_events();
        self.at = self.at.max(now);
    }

    /// When something happens here next without a frame coming.
    fn next_internal(&self) -> Option<Time> {
        let arriving = self.arriving.front().map(|(due, _)| *due);
        let pause = self.pauses.front().map(|(due, _)| *due);
        let pause_end = self.sinks.iter().filter_map(PauseSink::next_timeout).min();
        // The NIC is not asked while the link is busy or paused: its timers wait that long, as a real NIC's wait for its pipeline.
        let nic = if self.is_paused() {
            None
        } else if self.free_at > self.at {
            Some(self.free_at)
        } else {
            self.nic.next_timeout()
        };
        let start = self.pairs.iter().filter_map(Pair::starts_at).min();
        [arriving, pause, pause_end, nic, start].into_iter().flatten().min()
    }

    fn happen(&mut self) {
        let now = self.at;
        while self.pauses.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, pfc)) = self.pauses.pop_front() else { break };
            for class in (0..CLASSES).filter(|class| pfc.class_enable_vector & 1 << class != 0) {
                let span = pause_span(pfc.time[class], self.link.rate());
                let ended = self.sinks[class].on_frame(now, span);
                self.count_pause(ended);
            }
        }
        for class in 0..CLASSES {
            let ended = self.sinks[class].on_timeout(now);
            self.count_pause(ended);
        }
        for at in 0..self.pairs.len() {
            if self.pairs[at].starts_at().is_some_and(|start| start <= now) {
                if let Some(sends) = &mut self.pairs[at].sends {
                    sends.started = true;
                }
                self.post(at);
            }
        }
        while self.arriving.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, frame)) = self.arriving.pop_front() else { break };
            self.receive(&frame);
            self.spare.push(frame);
        }
    }

    fn is_paused(&self) -> bool {
        (0..CLASSES).any(|class| self.classes & 1 << class != 0 && self.sinks[class].is_paused())
    }

    fn count_pause(&mut self, ended: Option<(Time, Time)>) {
        if let Some((from, to)) = ended {
            self.counters.paused_ps += (to - from).ps();
        }
    }

    /// Time that it was paused, the current pause included.
    pub fn paused(&self) -> Time {
        let lasts = self.sinks.iter().filter_map(PauseSink::paused_since).min();
        Time(self.counters.paused_ps) + lasts.map_or(Time::ZERO, |since| self.at.saturating_sub(since))
    }

    fn receive(&mut self, bytes: &[u8]) {
        use tailback_proto::wire::Error;
        let frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(Error::Icrc) => return self.counters.rx_icrc_errors += 1,
            Err(Error::Unsupported) => return self.counters.rx_foreign += 1,
            Err(_) => return self.counters.rx_malformed += 1,
        };
        let (qpn, opcode) = (frame.headers.bth.dest_qp, frame.headers.bth.opcode);
        let place = qpn.checked_sub(FIRST_QPN).map(|place| place as usize);
        let known = place.and_then(|place| self.pairs.get(place)).is_some_and(|pair| {
            // Packets that someone else sends in its name have no effect.
            matches!(frame.ip, Ip::V4(ip) if ip.source == pair.peer_ip && ip.destination == self.ip)
        });
        let Some(place) = place.filter(|_| known) else {
            self.counters.rx_unknown_qp += 1;
            return;
        };
        self.counters.cnps_received += (opcode == Opcode::Cnp) as u64;
        let marked = frame.ip.ecn() == CE;
        let length = frame.payload.len() as u32;
        let Some(address) = self.nic.on_packet(self.at, &frame.headers, length, marked) else { return };
        let pair = &mut self.pairs[place];
        if !pair.place(address, frame.payload) {
            return;
        }
        self.counters.rx_payload_bytes += length as u64;
        self.counters.rx_data += 1;
        if is_last(opcode) {
            if let Some(is_right) = pair.complete() {
                self.counters.checked_messages += 1;
                self.counters.wrong_messages += !is_right as u64;
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.nic.poll_event() {
            match event {
                Event::Sent { qpn, status: Status::Success, .. } => {
                    let place = (qpn - FIRST_QPN) as usize;
                    let Pair { sends, plan, .. } = &mut self.pairs[place];
                    if let Some(sends) = sends {
                        sends.completed += 1;
                        if plan.messages == Some(sends.completed) {
                            sends.ended = Some(self.at);
                        }
                    }
                    self.post(place);
                }
                Event::Received { qpn, wr_id, status: Status::Success, .. } => {
                    post_receive(&mut self.nic, &self.pairs[(qpn - FIRST_QPN) as usize], wr_id + RECEIVES);
                }
                Event::Failed { qpn, .. } => {
                    if let Some(sends) = &mut self.pairs[(qpn - FIRST_QPN) as usize].sends {
                        sends.failed = true;
                        sends.ended = Some(self.at);
                    }
                }
                _ => {}
            }
        }
    }

    /// Posts as many messages as may be outstanding.
    fn post(&mut self, place: usize) {
        let pair = &mut self.pairs[place];
        let Some(sends) = &mut pair.sends else { return };
        let limit = pair.plan.messages.unwrap_or(u64::MAX);
        let stopped = pair.plan.stop_ps.is_some_and(|stop| self.at >= Time(stop));
        while !stopped
            && !sends.failed
            && sends.posted < limit
            && sends.posted - sends.completed < pair.plan.depth
        {
            let (remote_address, r_key) = pair.peer_memory;
            let operation = match pair.plan.verb {
                Verb::Write => Operation::Write { remote_address, r_key, immediate: None },
                Verb::Send => Operation::Send { immediate: None },
                Verb::Read => Operation::Read { remote_address, r_key },
            };
            // The memory that is sent has a pattern: the message's number and the offset in it.
            let address = if pair.plan.verb == Verb::Read { memory_of(pair.qpn) } else { sends.posted << 32 };
            let request = SendRequest { wr_id: sends.posted, operation, address, length: pair.plan.message };
            if self.nic.post_send(self.at, pair.qpn, request).is_err() {
                break;
            }
            sends.posted += 1;
        }
    }

    fn send(&mut self, packet: &Transmit) {
        let pair = &mut self.pairs[(packet.qpn - FIRST_QPN) as usize];
        let opcode = packet.headers.bth.opcode;
        let (number, offset) = (packet.payload.address >> 32, packet.payload.address as u32);
        self.scratch.resize(packet.payload.length as usize, 0);
        Pattern::of(pair.flow as u32, number).fill(offset, &mut self.scratch);
        let is_data = !matches!(opcode, Opcode::Cnp | Opcode::Acknowledge);
        let dscp =
            if opcode == Opcode::Cnp { self.cnp_dscp.unwrap_or(pair.plan.dscp) } else { pair.plan.dscp };
        match opcode {
            Opcode::Cnp => {}
            Opcode::Acknowledge if is_nak(packet) => self.counters.naks_sent += 1,
            Opcode::Acknowledge => self.counters.acks_sent += 1,
            _ => {
                self.counters.data_sent += 1;
                if let Some(sends) = &mut pair.sends {
                    sends.packets += 1;
                }
            }
        }
        let frame = Frame {
            destination: pair.peer_mac,
            source: self.mac,
            tag: None,
            ip: Ip::V4(Ipv4 {
                dscp,
                ecn: if is_data && self.ect { ECT_0 } else { NOT_ECT },
                identification: 0,
                dont_fragment: true,
                time_to_live: 64,
                protocol: PROTOCOL_UDP,
                source: self.ip,
                destination: pair.peer_ip,
            }),
            udp: Udp {
                source_port: 0xc000 | (pair.flow & 0x3fff) as u16,
                destination_port: Udp::ROCE_PORT,
                checksum: 0,
            },
            headers: packet.headers,
            payload: &self.scratch,
        };
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(frame.frame_len(), 0);
        frame
            .emit(&mut bytes)
            .expect("headers are those of their opcode, and a packet is no longer than an MTU");
        let on_wire = wire_bytes(bytes.len());
        self.counters.tx_frames += 1;
        self.counters.tx_wire_bytes += on_wire;
        count(&mut self.counters.tx_class[self.class_of[dscp as usize & 63] as usize], bytes.len());
        self.free_at = self.at + self.link.rate().serialization(on_wire);
        let due = self.free_at + Time(self.link.delay_ps);
        self.on_link.push_back(Sending { due, frame: bytes });
    }

    /// The next frame that has crossed the link by `now`.
    pub fn next_output(&mut self, now: Time) -> Option<Sending> {
        self.on_link.front().filter(|sending| sending.due <= now)?;
        self.on_link.pop_front()
    }

    /// Takes back a frame's memory for the next one.
    pub fn give_back(&mut self, frame: Vec<u8>) {
        self.spare.push(frame);
    }

    /// When something happens here without a frame coming.
    pub fn next_timeout(&self) -> Option<Time> {
        let output = self.on_link.front().map(|sending| sending.due);
        [output, self.next_internal()].into_iter().flatten().min()
    }

    /// The flows that it sends: number, QPN, counters of the queue pair, and what was sent.
    pub fn sending(&self) -> impl Iterator<Item = (usize, u32, Counters, &Sends)> {
        self.pairs.iter().filter_map(|pair| {
            Some((pair.flow, pair.qpn, *self.nic.counters_of(pair.qpn)?, pair.sends.as_ref()?))
        })
    }

    /// Payload that is posted and not sent yet.
    pub fn backlog_bytes(&self, now: Time) -> u64 {
        let rest = |pair: &Pair| {
            let posted = pair.sends?.posted * pair.plan.message as u64;
            Some(posted.saturating_sub(self.nic.shown(now, pair.qpn)?.sent_bytes))
        };
        self.pairs.iter().filter_map(rest).sum()
    }

    /// The flows that it receives: number, counters of the queue pair, bytes delivered.
    pub fn receiving(&self) -> impl Iterator<Item = (usize, Counters, u64)> + '_ {
        let receiving = self.pairs.iter().filter(|pair| pair.is_sink());
        receiving.filter_map(|pair| Some((pair.flow, *self.nic.counters_of(pair.qpn)?, pair.delivered)))
    }

    /// Its NIC.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// True if it posts messages at all.
    pub fn writes(&self) -> bool {
        self.pairs.iter().any(|pair| pair.sends.is_some())
    }

    /// True if all messages that it was to post are answered.
    pub fn is_done(&self) -> bool {
        self.pairs.iter().filter_map(|pair| pair.sends.as_ref()).all(|sends| sends.ended.is_some())
    }
}

/// Posts a receive. All messages of a queue pair go to the same place, one after the other.
fn post_receive(nic: &mut Nic, pair: &Pair, wr_id: u64) {
    let (l_key, address, length) = (pair.qpn, memory_of(pair.qpn), pair.plan.message);
    // A failed queue pair refuses it, and receives nothing either.
    let _ = nic.post_receive(pair.qpn, ReceiveRequest { wr_id, l_key, address, length });
}

/// True if a packet with this opcode ends a message.
fn is_last(opcode: Opcode) -> bool {
    use Opcode::{ReadResponseLast, ReadResponseOnly, SendLast, SendOnly, WriteLast, WriteOnly};
    matches!(opcode, WriteLast | WriteOnly | SendLast | SendOnly | ReadResponseLast | ReadResponseOnly)
}

fn is_nak(packet: &Transmit) -> bool {
    use tailback_proto::wire::{Extension, Syndrome};
    matches!(packet.headers.extension, Extension::Aeth(aeth) if !matches!(aeth.syndrome, Syndrome::Ack { .. }))
}
