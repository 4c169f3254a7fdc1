//! Bytes over time in bins that all lines share: where the capture is longer than they reach, two become one.

use crate::clock::{Time, NO_TIME};

/// Most bins: a plot is not finer.
pub const MAX_BINS: usize = 1024;
/// Width at the start, picoseconds: 1 us.
const FIRST_WIDTH_PS: u128 = 1_000_000;
/// Most lines; others are in the total of their interface alone.
pub const MAX_LINES: usize = 256;

/// Lines over time.
#[derive(Debug)]
pub struct Bins {
    width_ps: u128,
    lines: Vec<Vec<u64>>,
}

impl Default for Bins {
    fn default() -> Self {
        Bins { width_ps: FIRST_WIDTH_PS, lines: Vec::new() }
    }
}

impl Bins {
    /// A new line; none: there are enough.
    pub fn add_line(&mut self) -> Option<usize> {
        (self.lines.len() < MAX_LINES).then(|| {
            self.lines.push(Vec::new());
            self.lines.len() - 1
        })
    }

    /// Adds bytes to a line, unless their time is unknown. What is before the first frame is with it.
    pub fn add(&mut self, line: usize, at: Time, bytes: u64) {
        if at == NO_TIME {
            return;
        }
        let at = at.max(0) as u128;
        let mut bin = self.bin(at);
        while bin >= MAX_BINS {
            self.width_ps *= 2;
            bin = self.bin(at);
            for line in &mut self.lines {
                *line = line.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        let line = &mut self.lines[line];
        if line.len() <= bin {
            line.resize(bin + 1, 0);
        }
        line[bin] += bytes;
    }

    fn bin(&self, at: u128) -> usize {
        // Division of 64 bits is many times as fast.
        let bin = match (u64::try_from(at), u64::try_from(self.width_ps)) {
            (Ok(at), Ok(width)) => (at / width) as u128,
            _ => at / self.width_ps,
        };
        bin.min(MAX_BINS as u128) as usize
    }

    /// Width of a bin, picoseconds.
    pub fn width_ps(&self) -> u128 {
        self.width_ps
    }

    /// A line's bytes by bin.
    pub fn line(&self, line: usize) -> &[u64] {
        &self.lines[line]
    }
}
