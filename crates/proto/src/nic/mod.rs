//! A RoCE NIC: queue pairs with WRITE, WRITE with immediate, SEND and READ, their answers, and the order of
//! sending.
//!
//! Sans-I/O, like quinn-proto and [`TcpSender`](crate::transport::tcp). Decoded headers go in ([`Nic::on_packet`]), and
//! headers with a description of their payload come out ([`Nic::poll_transmit`]). Bytes are left to [`crate::wire`],
//! memory and the clock to the driver. The driver asks `poll_transmit` whenever its link is free, at
//! [`Nic::next_timeout`], and after each input. It copies payload from and to the addresses that it is given, and takes
//! the completions of work requests from [`Nic::poll_event`].
//!
//! The transport is [`crate::transport::rc`]. Above it are the two halves of a queue pair, which know only
//! packets and which other drivers use, too:
//!
//! - [`SendingHalf`]: which packet may leave when, requests for ACKs, windows, losses, and what the
//!   controller hears.
//! - [`ReceivingHalf`]: what is accepted, what is answered, and CNPs.
//! - [`Messages`]: what the halves need to know about messages; and WRITEs of one size, which take no memory.
//!
//! Above the halves a queue pair has a send queue (messages into packets; ACKs, NAKs and READ responses to completions) and a
//! receive queue (packets to messages, checked against memory regions and posted receives; answers in their order). All of
//! it is in [`queue_pair`], with work requests and completions under the names of the verbs. The arbiter decides which queue
//! pair is next.
//!
//! Arbitration: ACKs, NAKs and CNPs are a class of their own, which goes before data. In both classes, queue
//! pairs take turns, one packet each. Within a queue pair, READ responses and requests take turns. READ
//! requests are paced like data.
//!
//! Controllers hear of CNPs, of losses, and of ACKs with the round-trip time since the packet that asked, by
//! this NIC's clock. If the BECN of an ACK is set, a packet that it answers carried a CE mark (IBTA 9.2: "the
//! packet indicated by this header was subject to forward congestion"; other NICs leave the bit 0). A window
//! applies to requests; READ responses have only the rate.
//!
//! Sources: InfiniBand architecture specification, volume 1 ("IBTA"), sections 9.7, 10.2 and 10.8; annex A17.9 (CNPs); the
//! verbs' manual pages (`ibv_modify_qp`, `ibv_post_send`) for names.
//!
//! Leaves out: atomic operations (refused as invalid requests), invalidation, the unreliable and datagram services, shared
//! receive queues, end-to-end credits, the MSN on its way back (nothing here needs it), path migration, partitions, keys for the
//! local memory of sends, and the NIC's caches.

pub mod queue_pair;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::nic::queue_pair::{
    Context, Event, PostError, QueuePair, ReceiveRequest, Regions, SendRequest, MAX_MESSAGE_BYTES,
};
use crate::scheduling::pick_round_robin;
use crate::units::Time;
use crate::wire::bth::MAX_24_BITS;
use crate::wire::TransportHeaders;

pub use crate::nic::queue_pair::{
    Access, BurstPacket, Common, Connection, Counters, Echo, EqualWrites, Messages, NicSettings, Pacer,
    Payload, ReceivingHalf, Region, Segment, SendingHalf, Sent, Shown, Transmit,
};

/// Classes of the arbiter: data; ACKs, NAKs and CNPs.
const DATA: u8 = 0;

const CONTROL: u8 = 1;

/// A NIC.
#[derive(Debug)]
pub struct Nic {
    settings: NicSettings,
    regions: Regions,
    /// By number, starting with the first. None: not connected yet.
    queue_pairs: Vec<Option<QueuePair>>,
    /// Queue pairs with an ACK, NAK or CNP to send, and queue pairs that may send data.
    arbiter: Arbiter<2>,
    /// When to look at a queue pair again. Of several entries for one, only that of its `wake_at` counts.
    wakes: BinaryHeap<Reverse<(Time, u32)>>,
    events: VecDeque<Event>,
    /// For each queue pair.
    counters: Vec<Counters>,
}

impl Nic {
    /// A NIC without queue pairs.
    ///
    /// # Errors
    /// The controller needs what RoCEv2 packets do not carry.
    pub fn new(settings: NicSettings) -> Result<Self, &'static str> {
        if settings.congestion.uses().telemetry || settings.congestion.uses().hop_count {
            return Err("the controller needs telemetry, which RoCEv2 packets do not carry");
        }
        Ok(Nic {
            settings,
            regions: Regions::default(),
            queue_pairs: Vec::new(),
            arbiter: Arbiter::default(),
            wakes: BinaryHeap::new(),
            events: VecDeque::new(),
            counters: Vec::new(),
        })
    }

    /// Opens memory to peers that know the key, and to receives.
    pub fn register(&mut self, key: u32, region: Region) {
        self.regions.insert(key, region);
    }

    /// Makes a queue pair. Returns its number, for the peer.
    pub fn create_queue_pair(&mut self) -> u32 {
        self.queue_pairs.push(None);
        self.counters.push(Counters::default());
        self.settings.first_qpn + self.queue_pairs.len() as u32 - 1
    }

    /// Connects a new queue pair to its peer.
    ///
    /// # Errors
    /// [`PostError::NoQueuePair`].
    ///
    /// # Panics
    /// The path MTU is not a valid one, or a number has more than 24 bits.
    pub fn connect(&mut self, qpn: u32, connection: Connection) -> Result<(), PostError> {
        let Connection { path_mtu, dest_qp, sq_psn, rq_psn, .. } = connection;
        assert!(path_mtu.is_power_of_two() && (256..=4096).contains(&path_mtu), "path MTU {path_mtu}");
        assert!(dest_qp.max(sq_psn).max(rq_psn) <= MAX_24_BITS, "24 bits");
        let place = self.place(qpn).ok_or(PostError::NoQueuePair)?;
        let free = &mut self.queue_pairs[place];
        if free.is_some() {
            return Err(PostError::NoQueuePair);
        }
        *free = Some(QueuePair::new(qpn, connection, &self.settings));
        Ok(())
    }

    /// Posts a send work request.
    ///
    /// # Errors
    /// The request cannot be posted.
    pub fn post_send(&mut self, now: Time, qpn: u32, request: SendRequest) -> Result<(), PostError> {
        if request.length > MAX_MESSAGE_BYTES {
            return Err(PostError::TooLong);
        }
        let place = self.usable(qpn)?;
        self.with(place, |qp, _| qp.post_send(request));
        self.schedule(place, now);
        Ok(())
    }

    /// Posts a receive work request.
    ///
    /// # Errors
    /// The request cannot be posted.
    pub fn post_receive(&mut self, qpn: u32, request: ReceiveRequest) -> Result<(), PostError> {
        let place = self.usable(qpn)?;
        self.with(place, |qp, _| qp.post_receive(request));
        Ok(())
    }

    /// Handles a packet whose ICRC is good, with this many bytes of payload; `is_marked`: it carries CE.
    /// Returns where its payload goes, if anywhere. A packet for no queue pair of this NIC is ignored.
    pub fn on_packet(
        &mut self,
        now: Time,
        headers: &TransportHeaders,
        payload_len: u32,
        is_marked: bool,
    ) -> Option<u64> {
        let place = self.place(headers.bth.dest_qp)?;
        self.queue_pairs[place].as_ref()?;
        // What fell due while the link was busy comes first: a controller hears everything in order of time.
        self.wake(now);
        let address =
            self.with(place, |qp, context| qp.on_packet(context, now, headers, payload_len, is_marked));
        self.schedule(place, now);
        address
    }

    /// The next packet, if one may leave now. Call when the link is free: after each input, after each packet, and at
    /// [`Self::next_timeout`].
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.wake(now);
        while self.arbiter.ready_classes() != 0 {
            let class = pick_round_robin(self.arbiter.ready_classes(), 1 << CONTROL, DATA);
            let place = self.arbiter.take(class) as usize;
            let sent = self.with(place, |qp, context| {
                qp.in_ring[class as usize] = false;
                match class {
                    CONTROL => qp.send_control(context),
                    // An ACK may have taken away its work while it was in the ring, or a NAK may hold it up.
                    _ if qp.standing(now) != Standing::Ready => None,
                    _ => qp.send_data(context, now),
                }
            });
            self.schedule(place, now);
            if sent.is_some() {
                return sent;
            }
        }
        None
    }

    /// When to ask [`Self::poll_transmit`] even if nothing comes. It may have nothing to send then.
    pub fn next_timeout(&self) -> Option<Time> {
        self.wakes.peek().map(|Reverse((at, _))| *at)
    }

    /// The next event for the driver.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counters of all queue pairs together.
    pub fn counters(&self) -> Counters {
        self.counters.iter().copied().sum()
    }

    /// Counters of one queue pair. None: there is no such queue pair.
    pub fn counters_of(&self, qpn: u32) -> Option<&Counters> {
        self.counters.get(self.place(qpn)?)
    }

    /// What a queue pair shows now. None: it is not connected.
    pub fn shown(&self, now: Time, qpn: u32) -> Option<Shown> {
        let qp = self.queue_pairs[self.place(qpn)?].as_ref()?;
        Some(qp.shown(&self.settings.congestion, now))
    }

    /// Lets due timeouts happen.
    fn wake(&mut self, now: Time) {
        while let Some(&Reverse((at, number))) = self.wakes.peek() {
            if at > now {
                break;
            }
            self.wakes.pop();
            let place = number as usize;
            let is_due = self.with(place, |qp, context| {
                let is_due = qp.wake_at == at;
                if is_due {
                    qp.wake_at = Time::NEVER;
                    qp.on_timeout(context, now);
                }
                is_due
            });
            if is_due {
                self.schedule(place, now);
            }
        }
    }

    /// Puts a queue pair into the rings and timers that its state calls for.
    fn schedule(&mut self, place: usize, now: Time) {
        let Some(qp) = &mut self.queue_pairs[place] else { return };
        let number = place as u32;
        let mut wake_at = qp.next_timeout(&self.settings).unwrap_or(Time::NEVER);
        let standing = qp.look_again(&self.settings, now);
        if let Standing::Waits(until) = standing {
            wake_at = wake_at.min(until);
        }
        for (class, is_ready) in [(CONTROL, qp.has_control()), (DATA, standing == Standing::Ready)] {
            let in_ring = &mut qp.in_ring[class as usize];
            if is_ready && !*in_ring {
                *in_ring = true;
                self.arbiter.join(class, number);
            }
        }
        if wake_at < qp.wake_at {
            qp.wake_at = wake_at;
            self.wakes.push(Reverse((wake_at, number)));
        }
    }

    /// Calls `act` with a connected queue pair.
    fn with<T>(&mut self, place: usize, act: impl FnOnce(&mut QueuePair, &mut Context) -> T) -> T {
        let Nic { settings, regions, counters, events, queue_pairs, .. } = self;
        let qp = queue_pairs[place].as_mut().expect("it is connected");
        act(qp, &mut Context { settings, regions, counters: &mut counters[place], events })
    }

    fn place(&self, qpn: u32) -> Option<usize> {
        let place = qpn.checked_sub(self.settings.first_qpn)? as usize;
        (place < self.queue_pairs.len()).then_some(place)
    }

    fn usable(&self, qpn: u32) -> Result<usize, PostError> {
        let place = self.place(qpn).ok_or(PostError::NoQueuePair)?;
        match &self.queue_pairs[place] {
            None => Err(PostError::NoQueuePair),
            Some(qp) if qp.is_failed() => Err(PostError::Failed),
            Some(_) => Ok(place),
        }
    }
}

// Arbitration: whose turn it is to send.
//
// A sender is a queue pair, or whatever else a driver lets send. While its next packet may leave, it is in the ring of its
// class, once; the first of a ring has its turn, sends a packet, and joins the end again if it may. A sender with nothing to
// send, or with a closed window, is idle; one that is held up by its rate or by a NAK waits. Both are in no ring, and the
// driver, which has the clock, brings them back. Which class is next is for [`crate::scheduling`].

/// True if a sender's next packet may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has nothing to send, or its window is closed.
    Idle,
    /// It takes turns.
    Ready,
    /// Its next packet may leave then.
    Waits(Time),
}

impl Standing {
    /// For a sender whose next packet, if any, may leave at `at`, judged at `by`: now, or the end of the packet being
    /// sent.
    #[inline]
    pub fn new(at: Option<Time>, by: Time) -> Self {
        match at {
            None => Standing::Idle,
            Some(at) if at <= by => Standing::Ready,
            Some(at) => Standing::Waits(at),
        }
    }
}

/// The rings of a port, one for each of at most eight classes.
#[derive(Debug)]
pub struct Arbiter<const CLASSES: usize> {
    /// Boxed: they are most of a NIC, and mostly empty.
    rings: Box<[VecDeque<u32>; CLASSES]>,
    ready_classes: u8,
}

impl<const CLASSES: usize> Default for Arbiter<CLASSES> {
    fn default() -> Self {
        Arbiter { rings: Box::new(std::array::from_fn(|_| VecDeque::new())), ready_classes: 0 }
    }
}

impl<const CLASSES: usize> Arbiter<CLASSES> {
    /// Classes with a sender that takes turns, a bit each.
    #[inline]
    pub fn ready_classes(&self) -> u8 {
        self.ready_classes
    }

    /// A sender that is in no ring of the class joins the end of it.
    #[inline]
    pub fn join(&mut self, class: u8, sender: u32) {
        self.rings[class as usize].push_back(sender);
        self.ready_classes |= 1 << class;
    }

    /// Takes the sender out of its ring whose turn it is in a class that has one.
    #[inline]
    pub fn take(&mut self, class: u8) -> u32 {
        let ring = &mut self.rings[class as usize];
        let sender = ring.pop_front().expect("a ready class has a sender");
        if ring.is_empty() {
            self.ready_classes &= !(1 << class);
        }
        sender
    }

    /// Takes all senders of a class out of its ring that are `leaving`.
    pub fn take_all(&mut self, class: u8, leaving: impl Fn(u32) -> bool) -> Vec<u32> {
        let ring = &mut self.rings[class as usize];
        let taken = ring.iter().copied().filter(|&sender| leaving(sender)).collect();
        ring.retain(|&sender| !leaving(sender));
        if ring.is_empty() {
            self.ready_classes &= !(1 << class);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_of_a_class_take_turns() {
        let mut arbiter: Arbiter<8> = Arbiter::default();
        for sender in [1, 2, 3] {
            arbiter.join(4, sender);
        }
        arbiter.join(6, 9);
        assert_eq!(arbiter.ready_classes(), 0b101_0000);
        let turns = [0; 5].map(|_| {
            let sender = arbiter.take(4);
            arbiter.join(4, sender);
            sender
        });
        assert_eq!(turns, [1, 2, 3, 1, 2]);
        assert_eq!(arbiter.take(6), 9);
        assert_eq!(arbiter.ready_classes(), 0b1_0000);
    }

    #[test]
    fn those_that_stay_keep_their_order() {
        let mut arbiter: Arbiter<2> = Arbiter::default();
        (1..=5).for_each(|sender| arbiter.join(1, sender));
        assert_eq!(arbiter.take_all(1, |sender| sender % 2 == 0), [2, 4]);
        assert_eq!([0; 3].map(|_| arbiter.take(1)), [1, 3, 5]);
        assert_eq!(arbiter.ready_classes(), 0);
    }

    #[test]
    fn a_sender_is_ready_when_its_packet_may_leave() {
        assert_eq!(Standing::new(None, Time(5)), Standing::Idle);
        assert_eq!(Standing::new(Some(Time(5)), Time(5)), Standing::Ready);
        assert_eq!(Standing::new(Some(Time(6)), Time(5)), Standing::Waits(Time(6)));
    }
}
