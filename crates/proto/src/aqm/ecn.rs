//! ECN marking between two thresholds, as RoCE switches do it.
//!
//! Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1,
//! figure 5 (congestion point): never below K_min, with a probability that rises linearly to P_max at K_max,
//! always above K_max. The queue is the instantaneous depth of the egress queue of the packet's class.
//!
//! Leaves out: averaging of the queue (the paper uses none; `tc`'s RED does).

/// Marking thresholds of one egress queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnThresholds {
    /// Bytes up to which nothing is marked.
    pub k_min_bytes: u64,
    /// Bytes above which every packet is marked.
    pub k_max_bytes: u64,
    /// Marking probability at `k_max_bytes`, 0 to 1.
    pub p_max: f64,
}

impl EcnThresholds {
    /// Probability of marking a packet that leaves `queue_bytes` behind it.
    pub fn probability(&self, queue_bytes: u64) -> f64 {
        if queue_bytes <= self.k_min_bytes {
            0.0
        } else if queue_bytes > self.k_max_bytes {
            1.0
        } else {
            let above = (queue_bytes - self.k_min_bytes) as f64;
            self.p_max * above / (self.k_max_bytes - self.k_min_bytes) as f64
        }
    }

    /// Whether to mark; `draw` gives a number in [0, 1) and is asked for only between the thresholds.
    #[inline(always)] // each packet of a queue takes it: a call would cost more than the rest
    pub fn mark(&self, queue_bytes: u64, draw: impl FnOnce() -> f64) -> bool {
        if queue_bytes <= self.k_min_bytes {
            return false;
        }
        queue_bytes > self.k_max_bytes || draw() < self.probability(queue_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROCKS: EcnThresholds = EcnThresholds { k_min_bytes: 150_000, k_max_bytes: 1_500_000, p_max: 0.5 };

    #[test]
    fn probability_is_zero_linear_one() {
        assert_eq!(ROCKS.probability(150_000), 0.0);
        // Half-way between 150 KB and 1500 KB is 825 KB: half of P_max.
        assert_eq!(ROCKS.probability(825_000), 0.25);
        assert_eq!(ROCKS.probability(1_500_000), 0.5);
        assert_eq!(ROCKS.probability(1_500_001), 1.0);
    }

    #[test]
    fn equal_thresholds_are_a_step() {
        let step = EcnThresholds { k_min_bytes: 1000, k_max_bytes: 1000, p_max: 1.0 };
        assert!(!step.mark(1000, || unreachable!("no draw at a step")));
        assert!(step.mark(1001, || unreachable!("no draw at a step")));
    }
}
