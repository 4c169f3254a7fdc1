//! CNPs, NAKs and delay probes by pair of hosts: who told whom, if hosts are few.

/// Most hosts for which each pair is counted: the rows of all pairs and bins then stay below 45 MB.
const MOST_HOSTS: usize = 24;

/// What one host tells another as an end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EndSignal {
    Cnp,
    Nak,
    DelayProbe,
}

impl EndSignal {
    /// In the order of their numbers.
    const ALL: [EndSignal; 3] = [EndSignal::Cnp, EndSignal::Nak, EndSignal::DelayProbe];
}

/// A signal, who told it and who was told, as one number.
pub(crate) type Pair = u32;

/// What was told since the counts were last taken.
#[derive(Debug, Default)]
pub(crate) struct PairCounts {
    hosts: usize,
    /// By [`Pair`]. Empty: there are too many hosts.
    counts: Vec<u32>,
    /// The pairs whose count is not 0.
    some: Vec<Pair>,
}

impl PairCounts {
    pub fn new(hosts: usize) -> Self {
        let pairs = if hosts <= MOST_HOSTS { EndSignal::ALL.len() * hosts * hosts } else { 0 };
        PairCounts { hosts, counts: vec![0; pairs], some: Vec::new() }
    }

    /// Whether pairs are counted.
    pub fn is_kept(&self) -> bool {
        !self.counts.is_empty()
    }

    #[inline]
    pub fn note(&mut self, signal: EndSignal, from: u16, to: u16) {
        let pair = (signal as usize * self.hosts + from as usize) * self.hosts + to as usize;
        self.add(pair as Pair, 1);
    }

    /// Notes the same signal `count` times.
    pub fn note_many(&mut self, signal: EndSignal, from: u16, to: u16, count: u64) {
        let pair = (signal as usize * self.hosts + from as usize) * self.hosts + to as usize;
        if count > 0 {
            self.add(pair as Pair, count.min(u32::MAX as u64) as u32);
        }
    }

    #[inline]
    fn add(&mut self, pair: Pair, more: u32) {
        if let Some(count) = self.counts.get_mut(pair as usize) {
            if *count == 0 {
                self.some.push(pair);
            }
            *count += more;
        }
    }

    /// Signal, who told it and who was told.
    pub fn ends(&self, pair: Pair) -> (EndSignal, usize, usize) {
        let (from, to) = (pair as usize / self.hosts, pair as usize % self.hosts);
        (EndSignal::ALL[from / self.hosts], from % self.hosts, to)
    }

    /// Hands out all counts that are not 0, and starts over.
    pub fn take(&mut self, mut each: impl FnMut(Pair, u32)) {
        for pair in self.some.drain(..) {
            each(pair, std::mem::take(&mut self.counts[pair as usize]));
        }
    }

    /// Takes over the counts of another one.
    pub fn absorb(&mut self, other: &mut PairCounts) {
        other.take(|pair, count| self.add(pair, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_counted_until_it_is_taken_out() {
        let mut counts = PairCounts::new(3);
        counts.note(EndSignal::Nak, 2, 1);
        counts.note(EndSignal::Cnp, 2, 1);
        counts.note(EndSignal::Nak, 2, 1);
        counts.note(EndSignal::DelayProbe, 0, 1);
        let mut other = PairCounts::new(3);
        other.note(EndSignal::Cnp, 0, 2);
        counts.absorb(&mut other);
        let mut taken = Vec::new();
        counts.take(|pair, count| taken.push((pair, count)));
        let taken: Vec<_> = taken.into_iter().map(|(pair, count)| (counts.ends(pair), count)).collect();
        use EndSignal::{Cnp, DelayProbe, Nak};
        let told = [((Nak, 2, 1), 2), ((Cnp, 2, 1), 1), ((DelayProbe, 0, 1), 1), ((Cnp, 0, 2), 1)];
        assert_eq!(taken, told);
        counts.take(|_, _| panic!("nothing is left"));
        other.take(|_, _| panic!("nothing is left"));
    }

    #[test]
    fn of_many_hosts_nothing_is_kept() {
        let mut counts = PairCounts::new(MOST_HOSTS + 1);
        counts.note(EndSignal::Cnp, 0, 1);
        assert!(!counts.is_kept());
        counts.take(|_, _| panic!("nothing is kept"));
    }
}
