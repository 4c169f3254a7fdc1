//! Bytes over time in bins that all lines share: where the capture is longer than they reach, two become one.

/// Most bins: a plot is not finer.
pub const MAX_BINS: usize = 1024;
/// Width at the start, picoseconds: 1 us.
const FIRST_WIDTH_PS: u64 = 1_000_000;
/// Most lines; others are in the total of their interface alone.
pub const MAX_LINES: usize = 256;

/// Lines over time.
#[derive(Debug)]
pub struct Bins {
    width_ps: u64,
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

    /// Adds bytes to a line.
    pub fn add(&mut self, line: usize, at_ps: u64, bytes: u64) {
        while at_ps / self.width_ps >= MAX_BINS as u64 {
            self.width_ps *= 2;
            for line in &mut self.lines {
                *line = line.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        let bin = (at_ps / self.width_ps) as usize;
        let line = &mut self.lines[line];
        if line.len() <= bin {
            line.resize(bin + 1, 0);
        }
        line[bin] += bytes;
    }

    /// Width of a bin, picoseconds.
    pub fn width_ps(&self) -> u64 {
        self.width_ps
    }

    /// A line's bytes by bin.
    pub fn line(&self, line: usize) -> &[u64] {
        &self.lines[line]
    }
}
