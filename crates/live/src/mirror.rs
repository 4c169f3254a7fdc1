//! Frames that come to a congestion point as a pcap file, in the manner of Lumina's switch (Yu et al., NSDI 2023), so that its analysers read
//! it: the destination address is the time in nanoseconds, the source address the number of the packet, and the time to live of IPv4 what
//! becomes of it: 1 dropped, 2 marked, 3 damaged, else as it came.
//!
//! A packet is written when that is known, and in the order in which they came: until then the beginnings of those that wait are kept.

use std::collections::VecDeque;
use std::io;

use tailback_proto::units::Time;

use crate::capture::Pcap;
use crate::frame::{layout, set_time_to_live};

/// Bytes of a frame that are kept: all headers.
const KEPT_BYTES: usize = 128;

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    GoesOn,
    Dropped,
    Marked,
    Damaged,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    at: Time,
    head: Vec<u8>,
    length: usize,
    fate: Option<Fate>,
}

/// A file that is being written.
#[derive(Debug)]
pub struct Mirror {
    pcap: Pcap,
    number: u64,
    waiting: [VecDeque<Waiting>; 2],
    /// Frames of each direction that are no longer waiting.
    gone: [u64; 2],
}

impl Mirror {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &str) -> io::Result<Mirror> {
        let waiting = [VecDeque::new(), VecDeque::new()];
        Ok(Mirror { pcap: Pcap::create(path)?, number: 0, waiting, gone: [0; 2] })
    }

    /// A frame comes, the next of its direction.
    pub fn put(&mut self, direction: usize, at: Time, frame: &[u8]) {
        self.number += 1;
        let head = frame[..frame.len().min(KEPT_BYTES)].to_vec();
        let one = Waiting { number: self.number, at, head, length: frame.len(), fate: None };
        self.waiting[direction].push_back(one);
    }

    /// Fate of the n-th frame of a direction, from 1.
    pub fn tell(&mut self, direction: usize, nth: u64, fate: Fate) {
        let at = (nth - 1 - self.gone[direction]) as usize;
        if let Some(one) = self.waiting[direction].get_mut(at) {
            one.fate = Some(fate);
        }
        while let Some(direction) = self.next().filter(|&next| self.waiting[next][0].fate.is_some()) {
            self.write(direction);
        }
    }

    /// The direction whose first is the oldest of all.
    fn next(&self) -> Option<usize> {
        let first = |&direction: &usize| self.waiting[direction].front().map(|one| one.number);
        [0, 1].into_iter().filter(|direction| first(direction).is_some()).min_by_key(first)
    }

    fn write(&mut self, direction: usize) {
        let Some(mut one) = self.waiting[direction].pop_front() else { return };
        self.gone[direction] += 1;
        let stamp = (one.at.ps() / 1000).to_be_bytes();
        one.head[..6].copy_from_slice(&stamp[2..]);
        one.head[6..12].copy_from_slice(&one.number.to_be_bytes()[2..]);
        let told = match one.fate {
            Some(Fate::Dropped) => Some(1),
            Some(Fate::Marked) => Some(2),
            Some(Fate::Damaged) => Some(3),
            Some(Fate::GoesOn) | None => None,
        };
        if let (Some(value), Some(ip)) = (told, layout(&one.head).ip) {
            set_time_to_live(&mut one.head, ip, value);
        }
        self.pcap.put(one.at, &one.head, one.length);
    }

    /// Ends the file; what still waits goes on.
    ///
    /// # Errors
    /// Something of it could not be written.
    pub fn end(mut self) -> io::Result<()> {
        while let Some(direction) = self.next() {
            self.write(direction);
        }
        self.pcap.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, time and time to live of each packet of a file.
    fn read(path: &std::path::Path) -> Vec<(u64, u64, u8)> {
        let bytes = std::fs::read(path).unwrap();
        let mut at = 24;
        let mut found = Vec::new();
        while at < bytes.len() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            let (kept, length) = (word(at + 8), word(at + 12));
            assert_eq!((kept, length), (KEPT_BYTES, 200));
            let frame = &bytes[at + 16..at + 16 + kept];
            let number =
                |from: usize| frame[from..from + 6].iter().fold(0, |sum, &byte| sum << 8 | byte as u64);
            let header = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = header.sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            found.push((number(6), number(0), frame[22]));
            at += 16 + kept;
        }
        found
    }

    #[test]
    fn packets_are_written_as_they_came_when_all_is_known() {
        let path = std::env::temp_dir().join(format!("tailback-mirror-{}.pcap", std::process::id()));
        let mut mirror = Mirror::create(path.to_str().unwrap()).unwrap();
        let mut frame = vec![0; 200];
        frame[12] = 8;
        frame[14..26].copy_from_slice(&[0x45, 2, 0, 186, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        let sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        for (direction, ns) in [(0, 10), (1, 20), (0, 30), (0, 40)] {
            mirror.put(direction, Time::from_ns(ns), &frame);
        }
        mirror.tell(0, 2, Fate::Dropped);
        mirror.tell(1, 1, Fate::Damaged);
        assert_eq!(mirror.waiting[0].len(), 3, "of the first nothing is known");
        mirror.tell(0, 1, Fate::Marked);
        assert_eq!((mirror.waiting[0].len(), mirror.waiting[1].len()), (1, 0));
        mirror.end().unwrap();
        let found = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found, [(1, 10, 2), (2, 20, 3), (3, 30, 1), (4, 40, 64)]);
    }
}
