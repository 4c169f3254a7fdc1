//! Where threads wait for each other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Looks before a thread that waits lets others have its core.
const LOOKS: u32 = 1_000;

/// A barrier at which threads spin: what they wait for is mostly less than the system takes to wake them.
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    /// A barrier that `threads` threads wait at.
    pub fn new(threads: usize) -> Barrier {
        let (arrived, round) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Barrier { threads, arrived, round, broken: AtomicBool::new(false) }
    }

    /// Waits until all are here. What each did before, all others see then. False: one of them panicked and never comes.
    #[must_use]
    pub fn wait(&self) -> bool {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round + 1, Ordering::Release);
            return true;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round {
            if self.broken.load(Ordering::Relaxed) {
                return false;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        true
    }

    /// Lets the others go on if this thread panics while what it gives lives.
    pub fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

/// See [`Barrier::guard`].
#[derive(Debug)]
pub struct Guard<'a>(&'a Barrier);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_is_a_round_ahead() {
        const THREADS: usize = 3;
        let (barrier, sums) = (Barrier::new(THREADS), [const { AtomicU64::new(0) }; 200]);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for sum in &sums {
                        sum.fetch_add(1, Ordering::Relaxed);
                        assert!(barrier.wait());
                        assert_eq!(sum.load(Ordering::Relaxed), THREADS as u64);
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_for_one_that_panicked_is_told() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let _guard = barrier.guard();
                panic!("as it should");
            });
            assert!(!barrier.wait());
            assert!(other.join().is_err());
        });
    }
}
