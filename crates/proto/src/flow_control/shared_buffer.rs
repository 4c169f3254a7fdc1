//! The packet buffer of a switch: which packet is admitted, what it is charged to, and when a pause is due.
//!
//! Sources: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM ToN 1998
//! (a queue may hold alpha times the free buffer); IEEE 802.1Qbb (per-priority ingress accounting, xoff, xon,
//! headroom); Zhu et al., SIGCOMM 2015, section 4 (how the three thresholds of PFC and ECN go together).
//!
//! A packet is charged to the priority group of the port and class that it came in by. A lossless group draws on the
//! shared buffer up to its threshold (xoff), then asks for a pause and fills its headroom, which is reserved; bytes
//! beyond that are a fault. A lossy packet is dropped where its egress queue or its ingress group would pass alpha
//! times the free buffer. Where lossless and lossy priorities have pools of their own, each sees the free space of its
//! own.
//!
//! The owner of the buffer keeps a [`Group`] for each port and class, and the egress queues. For each packet it calls
//! [`SharedBuffer::admit`], then [`SharedBuffer::charge`], and [`SharedBuffer::release`] when the packet leaves.
//!
//! Leaves out: guaranteed minima for each queue, cells and their rounding, multicast.

use std::num::NonZeroU32;
use std::ops::Bound;

use super::pfc::PfcParameters;

/// Bounds of an alpha.
pub const ALPHAS: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Included(1024.0));

/// Binary digits after the point of an alpha.
const ALPHA_SHIFT: u32 = 16;

/// Most bytes of a pool in use at once: a group counts its bytes in 32 bits. Thresholds follow the whole pool.
const MAX_USED_BYTES: u64 = u32::MAX as u64;

/// Free headroom where the groups draw on no pool: more than all of them can hold.
const NO_HEADROOM_POOL: u64 = u64::MAX / 2;

crate::in_plans! {
    /// Sizes of the two pools of a shared buffer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PoolSizes {
        pub lossless_bytes: u64,
        pub lossy_bytes: u64,
    }
}

crate::in_plans! {
    /// Settings of a shared buffer.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SharedBufferSettings {
        /// Bytes that all queues share, without the headroom.
        pub shared_bytes: u64,
        /// Two pools, for lossless and for lossy priorities; none: one pool for all.
        pub pools: Option<PoolSizes>,
        /// An ingress group may hold this many times the free buffer.
        pub ingress_alpha: f64,
        /// A lossy egress queue may hold this many times the free buffer.
        pub egress_alpha: f64,
        /// Priorities under PFC.
        pub lossless: Vec<u8>,
        pub pfc: PfcParameters,
    }
}

/// A set of classes as bits.
pub fn class_bits(classes: &[u8]) -> u8 {
    classes.iter().fold(0, |bits, class| bits | 1 << (class & 7))
}

/// Bytes that a priority group of an ingress port holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// In the shared buffer.
    pub shared: u32,
    /// In the group's headroom.
    pub headroom: u32,
    /// True if it holds a pause.
    pub pausing: bool,
}

impl Group {
    pub const EMPTY: Group = Group { shared: 0, headroom: 0, pausing: false };

    pub fn bytes(&self) -> u32 {
        self.shared + self.headroom
    }
}

/// A packet that may enter the buffer: what it will be charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pool: usize,
    is_lossless: bool,
    /// True if it is charged to the headroom of its group, else to the pool.
    pub in_headroom: bool,
}

/// Why a packet is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A lossy packet: its egress queue would pass alpha times the free buffer.
    EgressThreshold,
    /// A lossy packet: the free buffer is smaller than the packet.
    BufferFull,
    /// A lossy packet: its ingress group would pass its threshold.
    IngressThreshold,
    /// A lossless packet: it fits neither below xoff nor into the headroom. If the group holds no pause, one is due.
    HeadroomOverflow,
}

/// A shared buffer. What each packet needs comes first and fits a cache line with some room; the rest is boxed.
#[derive(Clone, Debug)]
pub struct SharedBuffer {
    /// Free bytes by pool; the first is that of lossless priorities where there are two.
    free: [u64; 2],
    /// The part of each pool that no run fills, in MiB: see [`MAX_USED_BYTES`].
    never_used_mib: [u32; 2],
    ingress_alpha: u32,
    egress_alpha: u32,
    /// Fixed ingress threshold; none: it follows the free buffer.
    xoff: Option<NonZeroU32>,
    /// Classes in the second pool, as bits.
    second_pool: u8,
    /// Lossless classes, as bits.
    lossless: u8,
    rest: Box<Rest>,
}

#[derive(Clone, Debug)]
struct Rest {
    pool_bytes: [u64; 2],
    free_headroom: u64,
    xon: Option<u64>,
    xon_offset: u64,
}

/// An alpha in fixed point.
fn fixed_point(alpha: f64) -> u32 {
    (alpha * (1u64 << ALPHA_SHIFT) as f64).round() as u32
}

impl SharedBuffer {
    pub fn new(settings: &SharedBufferSettings) -> Self {
        let lossless = class_bits(&settings.lossless);
        let (pool_bytes, second_pool) = match settings.pools {
            Some(pools) => ([pools.lossless_bytes, pools.lossy_bytes], !lossless),
            None => ([settings.shared_bytes, 0], 0),
        };
        let pfc = &settings.pfc;
        SharedBuffer {
            free: pool_bytes,
            never_used_mib: pool_bytes
                .map(|bytes| bytes.saturating_sub(MAX_USED_BYTES).div_ceil(1 << 20) as u32),
            ingress_alpha: fixed_point(settings.ingress_alpha),
            egress_alpha: fixed_point(settings.egress_alpha),
            xoff: pfc.xoff.map(|xoff| {
                let xoff = u32::try_from(xoff.0).unwrap_or(u32::MAX);
                NonZeroU32::new(xoff).unwrap_or(NonZeroU32::MIN)
            }),
            second_pool,
            lossless,
            rest: Box::new(Rest {
                pool_bytes,
                free_headroom: pfc.headroom_pool.map_or(NO_HEADROOM_POOL, |pool| pool.0),
                xon: pfc.xon.map(|xon| xon.0),
                xon_offset: pfc.xon_offset.0,
            }),
        }
    }

    #[inline]
    pub fn is_lossless(&self, class: u8) -> bool {
        self.lossless & (1 << class) != 0
    }

    /// Pool of a class.
    #[inline]
    pub fn pool(&self, class: u8) -> usize {
        (self.second_pool >> class & 1) as usize
    }

    pub fn pool_bytes(&self, pool: usize) -> u64 {
        self.rest.pool_bytes[pool]
    }

    pub fn free_bytes(&self, pool: usize) -> u64 {
        self.free[pool]
    }

    /// Bytes of a pool in use.
    pub fn used_bytes(&self, pool: usize) -> u64 {
        self.rest.pool_bytes[pool] - self.free[pool]
    }

    /// Bytes that an ingress group may hold in the shared buffer; above it, xoff.
    #[inline]
    pub fn ingress_threshold(&self, pool: usize) -> u64 {
        match self.xoff {
            Some(xoff) => xoff.get() as u64,
            None => (self.free[pool] * self.ingress_alpha as u64) >> ALPHA_SHIFT,
        }
    }

    /// Bytes that a lossy egress queue may hold.
    #[inline]
    pub fn egress_threshold(&self, pool: usize) -> u64 {
        (self.free[pool] * self.egress_alpha as u64) >> ALPHA_SHIFT
    }

    /// Bytes of a pool that packets may still take.
    #[inline]
    fn room(&self, pool: usize) -> u64 {
        self.free[pool] - ((self.never_used_mib[pool] as u64) << 20)
    }

    /// Decides on a packet of `group`, without charging it. `queued` gives the bytes of the egress queue that it would join,
    /// `headroom` the headroom that the group may fill.
    ///
    /// # Errors
    /// The packet is dropped.
    #[inline(always)]
    pub fn admit(
        &self,
        group: &Group,
        class: u8,
        bytes: u32,
        queued: impl FnOnce() -> u64,
        headroom: impl FnOnce() -> u64,
    ) -> Result<Admission, Refusal> {
        let pool = self.pool(class);
        let is_lossless = self.is_lossless(class);
        let room = self.room(pool);
        let fits = group.shared as u64 + bytes as u64 <= self.ingress_threshold(pool) && bytes as u64 <= room;
        if is_lossless {
            let overflows = !fits
                && ((group.headroom + bytes) as u64 > headroom() || bytes as u64 > self.rest.free_headroom);
            if overflows {
                return Err(Refusal::HeadroomOverflow);
            }
        } else if queued() + bytes as u64 > self.egress_threshold(pool) {
            return Err(Refusal::EgressThreshold);
        } else if bytes as u64 > room {
            return Err(Refusal::BufferFull);
        } else if !fits {
            return Err(Refusal::IngressThreshold);
        }
        Ok(Admission { pool, is_lossless, in_headroom: !fits })
    }

    /// Charges an admitted packet. Returns true if the group passed xoff and must ask for a pause.
    #[inline(always)]
    pub fn charge(&mut self, group: &mut Group, bytes: u32, admission: Admission) -> bool {
        let Admission { pool, is_lossless, in_headroom } = admission;
        if in_headroom {
            group.headroom += bytes;
            self.rest.free_headroom -= bytes as u64;
        } else {
            group.shared += bytes;
            self.free[pool] -= bytes as u64;
        }
        let pauses = is_lossless
            && !group.pausing
            && (group.headroom > 0 || group.shared as u64 >= self.ingress_threshold(pool));
        if pauses {
            group.pausing = true;
        }
        pauses
    }

    /// Gives back the buffer of a packet that leaves, headroom first. Returns true if the group's pause ends.
    #[inline(always)]
    pub fn release(&mut self, group: &mut Group, class: u8, bytes: u32) -> bool {
        let from_headroom = group.headroom.min(bytes);
        group.headroom -= from_headroom;
        group.shared -= bytes - from_headroom;
        let pool = self.pool(class);
        self.free[pool] += (bytes - from_headroom) as u64;
        if from_headroom > 0 {
            self.rest.free_headroom += from_headroom as u64;
        }
        let resumes = group.pausing && group.headroom == 0 && self.is_below_xon(pool, group.shared as u64);
        if resumes {
            group.pausing = false;
        }
        resumes
    }

    fn is_below_xon(&self, pool: usize, shared: u64) -> bool {
        match self.rest.xon {
            Some(xon) => shared <= xon,
            None => shared == 0 || shared + self.rest.xon_offset <= self.ingress_threshold(pool),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use proptest::prelude::*;

    /// Class 3 lossless, 1,000,000 B shared, alphas of 1/2 and 3.
    fn settings() -> SharedBufferSettings {
        SharedBufferSettings {
            shared_bytes: 1_000_000,
            pools: None,
            ingress_alpha: 0.5,
            egress_alpha: 3.0,
            lossless: vec![3],
            pfc: PfcParameters::default(),
        }
    }

    fn buffer(change: impl Fn(&mut SharedBufferSettings)) -> SharedBuffer {
        let mut settings = settings();
        change(&mut settings);
        SharedBuffer::new(&settings)
    }

    #[test]
    fn thresholds_are_alpha_times_what_is_free() {
        let mut buffer = buffer(|_| {});
        assert_eq!((buffer.ingress_threshold(0), buffer.egress_threshold(0)), (500_000, 3_000_000));
        buffer.free[0] -= 600_000;
        assert_eq!(buffer.used_bytes(0), 600_000);
        assert_eq!((buffer.ingress_threshold(0), buffer.egress_threshold(0)), (200_000, 1_200_000));
    }

    #[test]
    fn lossless_classes_have_the_first_pool_and_all_others_the_second() {
        let pools = PoolSizes { lossless_bytes: 700_000, lossy_bytes: 300_000 };
        let parted = buffer(|to| (to.lossless, to.pools) = (vec![3, 5], Some(pools)));
        assert_eq!(std::array::from_fn(|class| parted.pool(class as u8)), [1, 1, 1, 0, 1, 0, 1, 1]);
        assert_eq!((parted.ingress_threshold(0), parted.ingress_threshold(1)), (350_000, 150_000));
        let whole = buffer(|_| {});
        assert_eq!(std::array::from_fn(|class| whole.pool(class as u8)), [0; 8]);
    }

    #[test]
    fn a_pause_ends_at_xon_or_that_far_below_xoff() {
        let fixed = buffer(|to| to.pfc.xon = Some(Bytes(40_000)));
        assert_eq!([40_000, 40_001].map(|shared| fixed.is_below_xon(0, shared)), [true, false]);
        let mut moving = buffer(|to| to.pfc.xon_offset = Bytes(3_000));
        assert_eq!([497_000, 497_001].map(|shared| moving.is_below_xon(0, shared)), [true, false]);
        // With next to nothing free, xoff is below the offset: the pause ends with the last byte.
        moving.free[0] = 100;
        assert_eq!([0, 1].map(|shared| moving.is_below_xon(0, shared)), [true, false]);
    }

    #[test]
    fn a_group_at_a_fixed_xoff_pauses_then_fills_its_headroom_then_overflows() {
        let mut buffer = buffer(|to| (to.pfc.xoff, to.pfc.xon) = (Some(Bytes(2_000)), Some(Bytes(1_000))));
        let mut group = Group::EMPTY;
        let mut receive = || {
            let admission = buffer.admit(&group, 3, 1_000, || 0, || 1_500)?;
            Ok((admission.in_headroom, buffer.charge(&mut group, 1_000, admission)))
        };
        assert_eq!(receive(), Ok((false, false)));
        assert_eq!(receive(), Ok((false, true)), "2,000 B reach xoff");
        assert_eq!(receive(), Ok((true, false)), "it holds a pause already");
        assert_eq!(receive(), Err(Refusal::HeadroomOverflow));
        assert_eq!(buffer.free_bytes(0), 998_000);
        assert!(!buffer.release(&mut group, 3, 1_000), "the headroom empties first");
        assert_eq!(group, Group { shared: 2_000, headroom: 0, pausing: true });
        assert!(buffer.release(&mut group, 3, 1_000), "1,000 B are xon");
        assert!(!group.pausing);
    }

    const PORTS: usize = 3;
    const CLASSES: usize = 8;
    const LARGEST: u32 = 1_500;

    /// Class, ingress port, egress port, bytes.
    type Packet = (u8, usize, usize, u32);

    /// A buffer and what it holds.
    struct Switch {
        buffer: SharedBuffer,
        groups: [[Group; CLASSES]; PORTS],
        queued: [[u64; CLASSES]; PORTS],
        packets: Vec<Packet>,
        headroom: u64,
    }

    impl Switch {
        fn new(settings: &SharedBufferSettings, headroom: u64) -> Self {
            Switch {
                buffer: SharedBuffer::new(settings),
                groups: Default::default(),
                queued: Default::default(),
                packets: Vec::new(),
                headroom,
            }
        }

        fn receive(&mut self, (class, from, to, bytes): Packet) -> Result<bool, Refusal> {
            let (group, queued) =
                (&mut self.groups[from][class as usize], &mut self.queued[to][class as usize]);
            let admission = self.buffer.admit(group, class, bytes, || *queued, || self.headroom)?;
            let pauses = self.buffer.charge(group, bytes, admission);
            *queued += bytes as u64;
            self.packets.push((class, from, to, bytes));
            Ok(pauses)
        }

        fn send(&mut self, at: usize) -> bool {
            let (class, from, to, bytes) = self.packets.swap_remove(at % self.packets.len());
            self.queued[to][class as usize] -= bytes as u64;
            self.buffer.release(&mut self.groups[from][class as usize], class, bytes)
        }

        fn assert_balance(&self, settings: &SharedBufferSettings) {
            let mut used = [0u64; 2];
            let mut headroom = 0u64;
            for (port, groups) in self.groups.iter().enumerate() {
                for (class, group) in groups.iter().enumerate() {
                    let waits = |&&(of, from, _, _): &&Packet| (of as usize, from) == (class, port);
                    let held: u32 = self.packets.iter().filter(waits).map(|packet| packet.3).sum();
                    assert_eq!(group.bytes(), held, "the group holds its packets");
                    assert!(group.headroom as u64 <= self.headroom);
                    used[self.buffer.pool(class as u8)] += group.shared as u64;
                    headroom += group.headroom as u64;
                }
            }
            for (pool, used) in used.into_iter().enumerate() {
                assert_eq!(self.buffer.used_bytes(pool), used, "the pool is charged for its groups");
                assert!(used <= self.buffer.pool_bytes(pool));
            }
            if let Some(pool) = settings.pfc.headroom_pool {
                assert_eq!(self.buffer.rest.free_headroom, pool.0 - headroom);
            }
        }
    }

    fn any_settings() -> impl Strategy<Value = SharedBufferSettings> {
        let sizes = (2_000..60_000u64, 2_000..60_000u64, any::<bool>());
        let alphas = (0.01..8.0, 0.01..8.0);
        let thresholds =
            (proptest::option::of(1..20_000u64), proptest::option::of(0..20_000u64), 0..6_000u64);
        let headroom_pool = proptest::option::of(1..30_000u64);
        (sizes, alphas, proptest::collection::vec(0..8u8, 0..4), thresholds, headroom_pool).prop_map(
            |((first, second, parted), (ingress, egress), lossless, (xoff, xon, offset), headroom)| {
                SharedBufferSettings {
                    shared_bytes: first + second,
                    pools: parted.then_some(PoolSizes { lossless_bytes: first, lossy_bytes: second }),
                    ingress_alpha: ingress,
                    egress_alpha: egress,
                    lossless,
                    pfc: PfcParameters {
                        xoff: xoff.map(Bytes),
                        xon: xon.map(|xon| Bytes(xoff.map_or(xon, |xoff| xon.min(xoff - 1)))),
                        xon_offset: Bytes(offset),
                        headroom_pool: headroom.map(Bytes),
                    },
                }
            },
        )
    }

    /// True where the packet comes, else which of those that wait leaves.
    fn any_steps() -> impl Strategy<Value = Vec<(bool, usize, Packet)>> {
        let packet = (0..8u8, 0..PORTS, 0..PORTS, 64..=LARGEST);
        proptest::collection::vec((proptest::bool::weighted(0.6), any::<usize>(), packet), 1..300)
    }

    proptest! {
        /// Whatever comes and goes, groups and pools balance, no count passes below zero (debug builds check that), only lossless
        /// groups pause, a pause is asked for and ended in turns, and what has left leaves the buffer as it was.
        #[test]
        fn bytes_are_conserved_and_pauses_alternate(
            settings in any_settings(), headroom in 0..10_000u64, steps in any_steps()
        ) {
            let mut switch = Switch::new(&settings, headroom);
            let mut pausing = [[false; CLASSES]; PORTS];
            for (comes, at, packet) in steps {
                if comes {
                    let (class, from, ..) = packet;
                    let before = switch.groups[from][class as usize];
                    match switch.receive(packet) {
                        Ok(pauses) => {
                            let is_paused = &mut pausing[from][class as usize];
                            prop_assert!(!(pauses && *is_paused), "xoff without xon between");
                            *is_paused |= pauses;
                        }
                        Err(refusal) => {
                            let overflow = refusal == Refusal::HeadroomOverflow;
                            prop_assert_eq!(overflow, switch.buffer.is_lossless(class));
                            prop_assert_eq!(before, switch.groups[from][class as usize]);
                        }
                    }
                } else if !switch.packets.is_empty() {
                    let (class, from, ..) = switch.packets[at % switch.packets.len()];
                    if switch.send(at) {
                        prop_assert!(pausing[from][class as usize], "xon without xoff");
                        pausing[from][class as usize] = false;
                    }
                }
                switch.assert_balance(&settings);
                for (port, groups) in switch.groups.iter().enumerate() {
                    for (class, group) in groups.iter().enumerate() {
                        prop_assert_eq!(group.pausing, pausing[port][class]);
                        prop_assert!(!group.pausing || switch.buffer.is_lossless(class as u8));
                        prop_assert!(group.headroom == 0 || group.pausing, "headroom without a pause");
                    }
                }
            }
            while !switch.packets.is_empty() {
                switch.send(0);
            }
            switch.assert_balance(&settings);
            prop_assert!(switch.groups.iter().flatten().all(|group| *group == Group::EMPTY), "all pauses ended");
        }

        /// A peer that obeys a pause after `in_flight` bytes loses nothing with that much headroom and a packet.
        #[test]
        fn a_lossless_packet_is_never_dropped_with_enough_headroom(
            settings in any_settings(), in_flight in 0..20_000u64, steps in any_steps()
        ) {
            let settings = SharedBufferSettings {
                pfc: PfcParameters { headroom_pool: None, ..settings.pfc },
                ..settings
            };
            let mut switch = Switch::new(&settings, in_flight + LARGEST as u64);
            // Bytes that the peer has sent since its pause was asked for.
            let mut sent = [[0u64; CLASSES]; PORTS];
            for (comes, at, packet) in steps {
                let (class, from, _, bytes) = packet;
                if comes {
                    if !switch.buffer.is_lossless(class) {
                        let _ = switch.receive(packet);
                        continue;
                    }
                    let since_pause = &mut sent[from][class as usize];
                    if switch.groups[from][class as usize].pausing {
                        if *since_pause + bytes as u64 > in_flight {
                            continue; // the peer is quiet
                        }
                        *since_pause += bytes as u64;
                    } else {
                        *since_pause = 0;
                    }
                    prop_assert!(switch.receive(packet).is_ok());
                } else if !switch.packets.is_empty() {
                    switch.send(at);
                }
            }
        }
    }
}
