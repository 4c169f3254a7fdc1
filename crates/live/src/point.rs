//! A congestion point between two interfaces: sockets, a clock, and two directions.

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde::Serialize;
use tailback_proto::units::Time;
use tailback_proto::wire::{EtherType, Ethernet, Pfc};

use crate::direction::{Counters, Direction, Output};
use crate::events::Happened;
use crate::mirror::Mirror;
use crate::settings::PointSettings;
use crate::socket::{wait, PacketSocket};
use crate::turns::Lead;

/// Frames read from an interface before the other has its turn.
const BATCH: usize = 64;
/// A sleep and its wake-up take some 15 us: for shorter waits the point looks again at once.
const SHORTEST_SLEEP: Duration = Duration::from_micros(30);
/// Memory for frames that come while the program has no core: 16 ms of 1 Gbit/s in packets of 1 KB, in slots for 4 KB.
const RING_BYTES: usize = 16 << 20;
/// Most rows of the series. When there would be more, rows are merged in pairs.
const MAX_BINS: usize = 4096;
const FIRST_BIN: Time = Time::from_ms(1);

/// Counts of one direction during a bin.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bin {
    pub tx_bytes: u64,
    pub marked: u64,
    pub dropped: u64,
    pub most_queued_bytes: u64,
    /// Integral of the waiting bytes over time.
    pub queued_byte_ps: u128,
}

/// State of the point.
#[derive(Debug, Serialize)]
pub struct Told<'a> {
    pub elapsed_ps: u64,
    pub interfaces: &'a [String; 2],
    pub directions: [Counters; 2],
    pub queued_bytes: [u64; 2],
    /// Frames whose checksum was left to a NIC that does not exist.
    pub unfinished_checksums: u64,
    /// How late forwarded frames left: percentiles 50, 99 and 99.9, and the maximum, nanoseconds.
    pub late_ns: [u64; 4],
    pub happened: Vec<Happened>,
    pub bin_ps: u64,
    pub bins: &'a [Vec<Bin>; 2],
}

/// A congestion point.
pub struct Point {
    sockets: [PacketSocket; 2],
    names: [String; 2],
    directions: [Direction; 2],
    begin: Instant,
    /// The same by the wall clock, by which the kernel stamps frames, nanoseconds.
    begin_ns: u64,
    /// The time up to which each direction has advanced.
    came: [Time; 2],
    late: Histogram<u64>,
    unfinished: u64,
    bin: Time,
    bins: [Vec<Bin>; 2],
    before: [Counters; 2],
    mirror: Option<Mirror>,
    /// Leads others, which go by its clock.
    lead: Option<Lead>,
}

/// An interface that is gone, or may not be used.
#[derive(Debug)]
pub struct InterfaceError {
    /// Name of the interface.
    pub name: String,
    /// The reason.
    pub error: io::Error,
}

impl Point {
    /// A point between two interfaces. Frames go on from now on, while [`Point::run`] runs.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn new(names: [String; 2], settings: &PointSettings) -> Result<Point, InterfaceError> {
        let open = |name: &String| {
            PacketSocket::open(name, RING_BYTES).map_err(|error| InterfaceError { name: name.clone(), error })
        };
        let sockets = [open(&names[0])?, open(&names[1])?];
        // A pause for the sender comes from the interface that it sends to.
        let directions = [0, 1].map(|number| Direction::new(settings, number, sockets[number].mac));
        Ok(Point {
            sockets,
            names,
            directions,
            begin: Instant::now(),
            begin_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_nanos() as u64),
            came: [Time::ZERO; 2],
            late: Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are in order"),
            unfinished: 0,
            bin: FIRST_BIN,
            bins: [Vec::new(), Vec::new()],
            before: Default::default(),
            mirror: None,
            lead: None,
        })
    }

    /// Writes incoming frames to a file. Call before the first frame has come.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn mirror(&mut self, path: &str) -> io::Result<()> {
        self.mirror = Some(Mirror::create(path)?);
        self.directions.iter_mut().for_each(|direction| direction.fates = Some(Vec::new()));
        Ok(())
    }

    /// Ends the writing of incoming frames.
    ///
    /// # Errors
    /// Some of it could not be written.
    pub fn end_mirror(&mut self) -> io::Result<()> {
        self.directions.iter_mut().for_each(|direction| direction.fates = None);
        self.mirror.take().map_or(Ok(()), Mirror::end)
    }

    /// Shares its clock with this many programs with end points. Call before the first frame has come.
    ///
    /// # Errors
    /// The file by which they follow cannot be made.
    pub fn lead(&mut self, path: &str, followers: usize) -> io::Result<()> {
        self.lead = Some(Lead::new(path, followers, self.directions[0].rate())?);
        Ok(())
    }

    fn now(&self) -> Time {
        if let Some(lead) = &self.lead {
            return lead.now();
        }
        Time(u64::try_from(self.begin.elapsed().as_nanos() * 1000).unwrap_or(u64::MAX))
    }

    /// Forwards frames for the time `span`.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn run(&mut self, span: Duration) -> Result<(), InterfaceError> {
        let end = Instant::now() + span;
        while Instant::now() < end {
            if self.lead.as_mut().is_some_and(|lead| lead.next_turn().is_none()) {
                continue;
            }
            let mut busy = false;
            for number in 0..2 {
                busy |= self.read(number);
            }
            let now = self.now();
            self.came = [now; 2];
            for number in 0..2 {
                self.directions[number].advance(now);
                busy |= self.write(number)?;
                if let Some(mirror) = &mut self.mirror {
                    let fates = self.directions[number].fates.iter_mut().flat_map(|fates| fates.drain(..));
                    fates.for_each(|(nth, fate)| mirror.tell(number, nth, fate));
                }
            }
            self.count(now);
            if busy || self.lead.is_some() {
                continue;
            }
            let next = self.directions.iter().filter_map(Direction::next_timeout).min();
            let left = end.saturating_duration_since(Instant::now());
            let sleep =
                next.map_or(left, |at| left.min(Duration::from_nanos(at.saturating_sub(now).ps() / 1000)));
            if sleep > SHORTEST_SLEEP {
                wait(&self.sockets, sleep - SHORTEST_SLEEP / 2);
            }
        }
        for number in 0..2 {
            let drops = self.sockets[number].take_drops().map_err(|error| self.failed(number, error))?;
            self.directions[number].counters.dropped_unread += drops;
        }
        Ok(())
    }

    fn failed(&self, number: usize, error: io::Error) -> InterfaceError {
        InterfaceError { name: self.names[number].clone(), error }
    }

    /// Reads a batch of frames. Returns whether there may be more.
    fn read(&mut self, number: usize) -> bool {
        for _ in 0..BATCH {
            let now = self.now();
            let read = self.sockets[number].receive(|frame, received| {
                self.unfinished += received.unfinished as u64;
                // However late it is read, a frame came when the kernel stamped it: its queue is as if the
                // program had been there.
                let came = Time(received.at_ns.saturating_sub(self.begin_ns).saturating_mul(1000));
                let came = if self.lead.is_some() { now } else { came.min(now).max(self.came[number]) };
                self.came[number] = came;
                self.directions[number].advance(came);
                match Ethernet::parse(frame) {
                    // A pause stops what is sent towards the interface that it came from.
                    Ok((ethernet, _)) if ethernet.ether_type == EtherType::MAC_CONTROL => {
                        if let Ok(pfc) = Pfc::parse(frame) {
                            self.directions[1 - number].on_pause(came, &pfc);
                        }
                    }
                    // Addresses that no bridge forwards (IEEE 802.1Q, table 8-1).
                    Ok((ethernet, _)) if is_link_local(ethernet.destination.0) => {}
                    Ok(_) if received.cut => self.directions[number].counters.dropped_too_long += 1,
                    Ok(_) => {
                        if let Some(mirror) = &mut self.mirror {
                            mirror.put(number, came, frame);
                        }
                        self.directions[number].on_frame(came, frame.to_vec());
                    }
                    Err(_) => {}
                }
            });
            if read.is_none() {
                return false;
            }
        }
        true
    }

    fn write(&mut self, number: usize) -> Result<bool, InterfaceError> {
        let mut any = false;
        while let Some(output) = self.directions[number].next_output() {
            any = true;
            let (to, frame, due) = match output {
                Output::Forward(frame, due) => (1 - number, frame, Some(due)),
                Output::Back(frame) => (number, frame, None),
            };
            match self.sockets[to].send(&frame) {
                Ok(()) => {
                    if let Some(due) = due {
                        let late = self.now().saturating_sub(due).ps() / 1000;
                        self.late.saturating_record(late.max(1));
                    }
                }
                Err(error) => {
                    let counters = &mut self.directions[number].counters;
                    if due.is_some() {
                        counters.tx_frames -= 1;
                        counters.tx_bytes -= frame.len() as u64;
                    }
                    match error.raw_os_error() {
                        Some(libc::EMSGSIZE) => counters.dropped_too_long += 1,
                        Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => counters.dropped_send += 1,
                        _ => return Err(self.failed(to, error)),
                    }
                }
            }
        }
        Ok(any)
    }

    fn count(&mut self, now: Time) {
        while now.ps() / self.bin.ps() >= MAX_BINS as u64 {
            self.bin = Time(self.bin.ps() * 2);
            for bins in &mut self.bins {
                *bins = bins.chunks(2).map(merged).collect();
            }
        }
        let bin = (now.ps() / self.bin.ps()) as usize;
        for (number, direction) in self.directions.iter().enumerate() {
            let (c, before) = (&direction.counters, &mut self.before[number]);
            let bins = &mut self.bins[number];
            if bins.len() <= bin {
                bins.resize(bin + 1, Bin::default());
            }
            let row = &mut bins[bin];
            // The bytes of a frame that could not be sent are taken back.
            row.tx_bytes += c.tx_bytes.saturating_sub(before.tx_bytes);
            row.marked += c.marked - before.marked;
            row.dropped += c.dropped() - before.dropped();
            row.most_queued_bytes = row.most_queued_bytes.max(direction.queued_bytes());
            row.queued_byte_ps += c.queued_byte_ps - before.queued_byte_ps;
            *before = *c;
        }
    }

    /// State of the point so far.
    pub fn told(&self) -> Told<'_> {
        let at = |share| self.late.value_at_quantile(share);
        Told {
            elapsed_ps: self.now().ps(),
            interfaces: &self.names,
            directions: [0, 1].map(|number| self.directions[number].counters),
            queued_bytes: [0, 1].map(|number| self.directions[number].queued_bytes()),
            unfinished_checksums: self.unfinished,
            late_ns: [at(0.5), at(0.99), at(0.999), self.late.max()],
            happened: self
                .directions
                .iter()
                .flat_map(|direction| direction.events.happened.clone())
                .collect(),
            bin_ps: self.bin.ps(),
            bins: &self.bins,
        }
    }
}

fn is_link_local(address: [u8; 6]) -> bool {
    address[..5] == [0x01, 0x80, 0xc2, 0x00, 0x00] && address[5] <= 0x0f
}

fn merged(pair: &[Bin]) -> Bin {
    pair.iter().fold(Bin::default(), |sum, bin| Bin {
        tx_bytes: sum.tx_bytes + bin.tx_bytes,
        marked: sum.marked + bin.marked,
        dropped: sum.dropped + bin.dropped,
        most_queued_bytes: sum.most_queued_bytes.max(bin.most_queued_bytes),
        queued_byte_ps: sum.queued_byte_ps + bin.queued_byte_ps,
    })
}
