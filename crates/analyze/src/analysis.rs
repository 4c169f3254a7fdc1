//! A capture from its first frame to its last.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use crate::bins::Bins;
use crate::clock::{told, Time, NO_TIME};
use crate::connections::{Connections, Fate, Kind};
use crate::dissect::{dissect, Frame, Roce, Why};
use crate::pauses::{on_pfc, ByPriority, Pauses};
use crate::reader::{Interface, ReadError, Reader};
use crate::report::{Classes, Clock, Interfaces, Report};

/// An ECN field that says: congestion experienced.
const CE: u8 = 0b11;

/// What an interface carried.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub frames: u64,
    pub bytes: u64,
    pub roce: u64,
    pub ce: u64,
    pub cnps: u64,
    pub acks: u64,
    pub naks: u64,
    pub read_answers: u64,
    pub read_answer_bytes: u64,
    pub icrc_bad: u64,
    pub icrc_unknown: u64,
    pub trimmed: u64,
    pub pfc: u64,
    pub link_pauses: Pauses,
    pub outer_ce: u64,
    pub captured_twice: u64,
    pub pauses: ByPriority,
    /// Frames whose time is before that of the frame ahead.
    pub earlier: u64,
    pub line: Option<usize>,
    pub place: u32,
    /// It holds what a simulated link dropped, and carried nothing.
    pub holds_drops: bool,
}

/// A capture that is being read.
pub struct Analysis {
    reader: Reader,
    /// Time of the first frame, picoseconds since 1970.
    start_ps: Option<i128>,
    /// Of the newest frame that has a time.
    now: Time,
    earliest: Time,
    latest: Time,
    clock: Clock,
    roce: Option<(Time, Time)>,
    classes: Classes,
    not_read: BTreeMap<Why, u64>,
    frames: u64,
    cut_short: bool,
    interfaces: Vec<Counted>,
    places: HashMap<String, u32>,
    /// How many interfaces of a section have a name.
    named: HashMap<(usize, String), u32>,
    connections: Connections,
    bins: Bins,
}

impl Analysis {
    /// Begins to read.
    ///
    /// # Errors
    /// [`ReadError::NotACapture`].
    pub fn new(file: impl Read + Send + 'static) -> Result<Analysis, ReadError> {
        Ok(Analysis {
            reader: Reader::new(file)?,
            start_ps: None,
            now: NO_TIME,
            earliest: 0,
            latest: 0,
            clock: Clock::default(),
            roce: None,
            classes: Classes::default(),
            not_read: BTreeMap::new(),
            frames: 0,
            cut_short: false,
            interfaces: Vec::new(),
            places: HashMap::new(),
            named: HashMap::new(),
            connections: Connections::default(),
            bins: Bins::default(),
        })
    }

    /// Bytes of the file that were read; of a compressed one, compressed.
    pub fn source_bytes(&self) -> u64 {
        self.reader.source_bytes()
    }

    /// Reads at most `max_frames` frames. `true`: the file has ended. A block that is cut short ends it, too: that is how the
    /// capture of a killed program ends.
    ///
    /// # Errors
    /// Why the file cannot be read any further.
    pub fn advance(&mut self, max_frames: u64) -> Result<bool, ReadError> {
        for _ in 0..max_frames {
            let captured = match self.reader.next_frame() {
                Ok(Some(captured)) => captured,
                Ok(None) => return Ok(true),
                Err(ReadError::CutShort) if self.frames > 0 => {
                    self.cut_short = true;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            let number = captured.interface as usize;
            let (at_ps, length) = (captured.at_ps, captured.length);
            let frame = dissect(captured.link_type, captured.bytes, length);
            self.frames += 1;
            self.describe(number);
            let at = self.tick(number, at_ps);
            self.take(number, at, length, &frame);
        }
        Ok(false)
    }

    /// The time of a frame, from the first on.
    fn tick(&mut self, number: usize, at_ps: Option<i128>) -> Time {
        let Some(at_ps) = at_ps else {
            self.clock.without_time += 1;
            return NO_TIME;
        };
        let at = at_ps - *self.start_ps.get_or_insert(at_ps);
        if self.now != NO_TIME {
            let jump = at - self.now;
            if jump < 0 {
                self.clock.backwards += 1;
                self.clock.furthest_back_ps = self.clock.furthest_back_ps.max(-jump);
                self.interfaces[number].earlier += 1;
            } else if jump > self.clock.longest_jump_ps {
                self.clock.longest_jump_ps = jump;
                self.clock.longest_jump_after_frame = self.frames - 1;
            }
        }
        self.now = at;
        self.earliest = self.earliest.min(at);
        self.latest = self.latest.max(at);
        at
    }

    fn not_read(&mut self, why: Why) {
        *self.not_read.entry(why).or_default() += 1;
    }

    /// Interfaces of one name in one section are different ones: captures of several hosts that were merged.
    fn place_of(&mut self, interface: &Interface, number: usize) -> String {
        let Some(name) = &interface.name else { return format!("interface {number}") };
        let same_before = self.named.entry((interface.section, name.clone())).or_default();
        *same_before += 1;
        match *same_before {
            1 => place_named(name),
            nth => format!("{} ({nth})", place_named(name)),
        }
    }

    /// Interfaces up to this one are counted from now on.
    fn describe(&mut self, last: usize) {
        while self.interfaces.len() <= last {
            let interface = self.reader.interfaces()[self.interfaces.len()].clone();
            let number = self.interfaces.len();
            let next = self.places.len() as u32;
            let name = self.place_of(&interface, number);
            let place = *self.places.entry(name).or_insert(next);
            let holds_drops = interface.name.as_ref().is_some_and(|name| name.ends_with(" dropped"));
            let line = if holds_drops { None } else { self.bins.add_line() };
            self.interfaces.push(Counted { line, place, holds_drops, ..Counted::default() });
        }
    }

    fn take(&mut self, number: usize, at: Time, length: u32, frame: &Frame) {
        let counted = &mut self.interfaces[number];
        counted.frames += 1;
        counted.bytes += length as u64;
        if counted.holds_drops {
            self.classes.dropped += 1;
            return;
        }
        if let Some(line) = counted.line {
            self.bins.add(line, at, length as u64);
        }
        match frame {
            Frame::Known(name) => *self.classes.known.entry(name).or_default() += 1,
            &Frame::NotRead(why) => {
                counted.trimmed += (why == Why::Trimmed) as u64;
                self.not_read(why);
            }
            Frame::Pause(quanta) => {
                self.classes.link_pauses += 1;
                counted.link_pauses.on_frame(at, *quanta, self.reader.interfaces()[number].speed_bps);
            }
            Frame::Pfc(pfc) => {
                self.classes.pfc += 1;
                counted.pfc += 1;
                on_pfc(&mut counted.pauses, at, pfc, self.reader.interfaces()[number].speed_bps);
            }
            Frame::Roce(roce) => {
                counted.roce += 1;
                match roce.icrc_ok {
                    Some(true) => {}
                    Some(false) => {
                        // A NIC would drop it, and so nothing follows from it.
                        counted.icrc_bad += 1;
                        counted.ce += (roce.ecn == CE) as u64;
                        self.not_read(Why::WrongIcrc);
                        return;
                    }
                    None => counted.icrc_unknown += 1,
                }
                self.take_roce(number, at, length, roce);
            }
        }
    }

    fn take_roce(&mut self, number: usize, at: Time, length: u32, roce: &Roce) {
        let counted = &mut self.interfaces[number];
        let fate = self.connections.on_packet(counted.place, at, length, roce, &mut self.bins);
        let marked = match fate {
            Fate::LeftOut => {
                counted.ce += (roce.ecn == CE) as u64;
                self.not_read(Why::TooManyQueuePairs);
                return;
            }
            Fate::Copy { newly_marked } => {
                counted.captured_twice += 1;
                self.classes.captured_twice += 1;
                newly_marked
            }
            Fate::Counted(kind) => {
                match kind {
                    Kind::Cnp => counted.cnps += 1,
                    Kind::Ack => counted.acks += 1,
                    Kind::Nak => counted.naks += 1,
                    Kind::ReadAnswer => {
                        counted.read_answers += 1;
                        counted.read_answer_bytes += roce.payload_bytes as u64;
                    }
                    Kind::Request | Kind::Other => {}
                }
                counted.outer_ce += (roce.outer_ce && roce.ecn != CE) as u64;
                roce.ecn == CE
            }
        };
        counted.ce += marked as u64;
        self.classes.read += 1;
        if at != NO_TIME {
            let (first, last) = self.roce.unwrap_or((at, at));
            self.roce = Some((first.min(at), last.max(at)));
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Report {
        let end = if self.now == NO_TIME { NO_TIME } else { self.latest };
        if !self.reader.interfaces().is_empty() {
            self.describe(self.reader.interfaces().len() - 1);
        }
        self.connections.close();
        for counted in &mut self.interfaces {
            counted.pauses.iter_mut().for_each(|pauses| pauses.close(end));
            counted.link_pauses.close(end);
        }
        let described = self.reader.interfaces();
        let steps = described.iter().map(|interface| interface.clock_step_s);
        self.clock.coarsest_step_s = steps.clone().fold(0.0, f64::max);
        self.clock.finest_step_s = steps.reduce(f64::min).unwrap_or(0.0);
        for (why, count) in &self.not_read {
            *self.classes.not_read.entry(why.to_string()).or_default() += count;
        }
        debug_assert_eq!(self.classes.sum(), self.frames, "each frame is in one class");
        let interfaces = Interfaces::new(described, &self.interfaces, &self.places, &self.bins);
        Report {
            bytes: self.reader.read_bytes(),
            frames: self.frames,
            begin_s: self.start_ps.unwrap_or(0) as f64 / 1e12,
            duration_ps: self.latest - self.earliest,
            classes: self.classes,
            clock: self.clock,
            roce_first_at_ps: self.roce.and_then(|(first, _)| told(first)),
            roce_last_at_ps: self.roce.and_then(|(_, last)| told(last)),
            lost_by_capture: self.reader.lost_by_capture(),
            cut_short: self.cut_short,
            bin_ps: self.bins.width_ps(),
            interfaces,
            found: self.connections.told(&self.bins),
            names: self.reader.names().clone(),
        }
    }
}

/// What tells a point of capture: the ends of a link, or the interface.
fn place_named(name: &str) -> String {
    match name.split_once(':') {
        Some((one, other)) => {
            let (other, parallel) = other.split_once('#').unwrap_or((other, ""));
            let [first, second] = if one <= other { [one, other] } else { [other, one] };
            let hash = if parallel.is_empty() { "" } else { "#" };
            format!("{first}:{second}{hash}{parallel}")
        }
        None => name.to_owned(),
    }
}
