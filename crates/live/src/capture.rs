//! Frames of a host as a pcap file with nanosecond stamps (magic number 0xa1b23c4d), in the times of the run.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use tailback_proto::units::Time;

/// Most bytes of a frame that are kept: more than any has.
const WHOLE_FRAME: u32 = 1 << 18;
/// Link type of Ethernet.
const ETHERNET: u32 = 1;

/// A file that is being written.
#[derive(Debug)]
pub struct Pcap {
    file: BufWriter<File>,
    /// The first error: nothing is written behind it.
    failed: Option<io::Error>,
}

/// The file that gets the frames of a host.
#[derive(Debug)]
pub struct Capture {
    /// Which.
    pub host: usize,
    pcap: Pcap,
}

impl Capture {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &str, host: usize) -> io::Result<Capture> {
        Ok(Capture { host, pcap: Pcap::create(path)? })
    }

    /// A frame that was sent, or came.
    pub fn put(&mut self, at: Time, frame: &[u8]) {
        self.pcap.put(at, frame, frame.len());
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Something of it could not be written.
    pub fn end(self) -> io::Result<()> {
        self.pcap.end()
    }
}

impl Pcap {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &str) -> io::Result<Pcap> {
        let mut file = BufWriter::new(File::create(path)?);
        let version = 2u32 | 4 << 16;
        for word in [0xa1b2_3c4d, version, 0, 0, WHOLE_FRAME, ETHERNET] {
            file.write_all(&word.to_le_bytes())?;
        }
        Ok(Pcap { file, failed: None })
    }

    /// Writes a frame of `length` bytes, or its beginning.
    pub fn put(&mut self, at: Time, head: &[u8], length: usize) {
        if self.failed.is_none() {
            self.failed = self.write(at, head, length).err();
        }
    }

    fn write(&mut self, at: Time, head: &[u8], length: usize) -> io::Result<()> {
        let ns = at.ps() / 1000;
        let (seconds, rest) = ((ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32);
        for word in [seconds, rest, head.len() as u32, length as u32] {
            self.file.write_all(&word.to_le_bytes())?;
        }
        self.file.write_all(head)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Something of it could not be written.
    pub fn end(mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)?;
        self.file.flush()
    }
}
