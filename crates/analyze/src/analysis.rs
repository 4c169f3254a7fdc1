//! A capture from its first frame to its last.

use std::collections::HashMap;
use std::io::Read;

use crate::bins::Bins;
use crate::connections::{Connections, Kind};
use crate::dissect::{dissect, Frame, Roce};
use crate::pauses::{on_pfc, ByPriority};
use crate::reader::{Interface, ReadError, Reader};
use crate::report::{Interfaces, Report};

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
    pub icrc_bad: u64,
    pub icrc_unknown: u64,
    pub broken: u64,
    pub trimmed: u64,
    pub pfc: u64,
    pub pauses: ByPriority,
    /// Frames whose time is before that of an earlier one.
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
    now_ps: u64,
    frames: u64,
    cut_short: bool,
    interfaces: Vec<Counted>,
    places: HashMap<String, u32>,
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
            now_ps: 0,
            frames: 0,
            cut_short: false,
            interfaces: Vec::new(),
            places: HashMap::new(),
            connections: Connections::default(),
            bins: Bins::default(),
        })
    }

    /// Bytes of the file that were read.
    pub fn read_bytes(&self) -> u64 {
        self.reader.read_bytes()
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
            let start = *self.start_ps.get_or_insert(at_ps);
            let at = u64::try_from((at_ps - start).max(0)).unwrap_or(u64::MAX);
            self.frames += 1;
            let frame = dissect(captured.link_type, captured.bytes);
            self.describe(number);
            self.take(number, at, length, &frame);
        }
        Ok(false)
    }

    /// Interfaces up to this one are counted from now on.
    fn describe(&mut self, last: usize) {
        while self.interfaces.len() <= last {
            let interface = self.reader.interfaces()[self.interfaces.len()].clone();
            let number = self.interfaces.len();
            let next = self.places.len() as u32;
            let place = *self.places.entry(place_of(&interface, number)).or_insert(next);
            let holds_drops = interface.name.as_ref().is_some_and(|name| name.ends_with(" dropped"));
            let line = if holds_drops { None } else { self.bins.add_line() };
            self.interfaces.push(Counted { line, place, holds_drops, ..Counted::default() });
        }
    }

    fn take(&mut self, number: usize, at: u64, length: u32, frame: &Frame) {
        let counted = &mut self.interfaces[number];
        counted.earlier += (at < self.now_ps) as u64;
        self.now_ps = self.now_ps.max(at);
        counted.frames += 1;
        counted.bytes += length as u64;
        if counted.holds_drops {
            return;
        }
        if let Some(line) = counted.line {
            self.bins.add(line, at, length as u64);
        }
        match frame {
            Frame::Other => {}
            Frame::Broken => counted.broken += 1,
            Frame::Trimmed => counted.trimmed += 1,
            Frame::Pfc(pfc) => {
                counted.pfc += 1;
                on_pfc(&mut counted.pauses, at, pfc, self.reader.interfaces()[number].speed_bps);
            }
            Frame::Roce(roce) => {
                counted.roce += 1;
                counted.ce += (roce.ecn == CE) as u64;
                match roce.icrc_ok {
                    Some(true) => {}
                    Some(false) => {
                        // A NIC would drop it, and so nothing follows from it.
                        counted.icrc_bad += 1;
                        return;
                    }
                    None => counted.icrc_unknown += 1,
                }
                self.take_roce(number, at, length, roce);
            }
        }
    }

    fn take_roce(&mut self, number: usize, at: u64, length: u32, roce: &Roce) {
        let counted = &mut self.interfaces[number];
        let kind = self.connections.on_packet(counted.place, at, length, roce, &mut self.bins);
        match kind {
            Kind::Cnp => counted.cnps += 1,
            Kind::Ack => counted.acks += 1,
            Kind::Nak => counted.naks += 1,
            Kind::ReadAnswer => counted.read_answers += 1,
            Kind::Request | Kind::Other => {}
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Report {
        let end = self.now_ps;
        if !self.reader.interfaces().is_empty() {
            self.describe(self.reader.interfaces().len() - 1);
        }
        self.connections.close();
        for counted in &mut self.interfaces {
            counted.pauses.iter_mut().for_each(|pauses| pauses.close(end));
        }
        let described = self.reader.interfaces();
        let interfaces = Interfaces::new(described, &self.interfaces, &self.places, &self.bins);
        Report {
            bytes: self.reader.read_bytes(),
            frames: self.frames,
            begin_s: self.start_ps.unwrap_or(0) as f64 / 1e12,
            duration_ps: end,
            cut_short: self.cut_short,
            bin_ps: self.bins.width_ps(),
            interfaces,
            found: self.connections.told(&self.bins),
            names: self.reader.names().clone(),
        }
    }
}

/// What tells a point of capture: the ends of a link, or the interface.
fn place_of(interface: &Interface, number: usize) -> String {
    let Some(name) = &interface.name else { return format!("interface {number}") };
    match name.split_once(':') {
        Some((one, other)) => {
            let (other, parallel) = other.split_once('#').unwrap_or((other, ""));
            let [first, second] = if one <= other { [one, other] } else { [other, one] };
            let hash = if parallel.is_empty() { "" } else { "#" };
            format!("{first}:{second}{hash}{parallel}")
        }
        None => name.clone(),
    }
}
