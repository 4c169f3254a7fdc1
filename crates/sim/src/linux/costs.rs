//! What forwarding costs a core, and how much may wait in a transmit ring: settings of a bridge.

use tailback_proto::parameters::DELAY;
use tailback_proto::units::{Bytes, Time};

/// The order of what forwarding costs.
const COST: &str = "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides";

tailback_proto::parameters! {
    /// What a packet costs a core.
    pub struct BridgeCosts {
        /// Receiving it and looking up its port, up to the queueing discipline.
        receive: Time = Time::from_ns(1500), in DELAY, source COST;
        /// The same, ns for each byte of the frame.
        per_byte: f64 = 0.0, in 0.0..=1000.0, source "assumption: forwarding touches headers only";
        /// Queueing it and taking it out again, where the discipline is not bypassed.
        qdisc: Time = Time::ZERO, in DELAY, source "assumption: part of receive and transmit";
        /// Handing it to the device.
        transmit: Time = Time::from_ns(400), in DELAY, source COST;
        /// Its transmit completion: unmapping and freeing it.
        complete: Time = Time::from_ns(150), in DELAY, source COST;
        /// Factor of all of these, where the core is not on the NUMA node of the device.
        remote_factor: f64 = 1.0, in 1.0..=100.0,
            source "assumption: no document says; 1 = it makes no difference";
    }
}

tailback_proto::parameters! {
    /// Byte queue limits: how much may wait in a transmit ring.
    pub struct BqlParameters {
        /// The limit is not below this.
        limit_min: Bytes = Bytes(0), in LIMIT, source "Linux lib/dynamic_queue_limits.c";
        /// The limit is not above this.
        limit_max: Bytes = Bytes(1 << 30), in LIMIT,
            source "Linux lib/dynamic_queue_limits.c: DQL_MAX_LIMIT, about 1.9 GB";
        /// Time over which slack is observed before the limit is lowered.
        hold_time: Time = Time::from_ms(1000), in DELAY, source "Linux net/core/dev.c: HZ";
    }
}

/// Below the kernel's greatest limit, `DQL_MAX_LIMIT`.
const LIMIT: std::ops::RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 30);

tailback_proto::parameters! {
    /// The Linux host that forwards, in softirq, between its ports.
    pub struct BridgeParameters {
        /// Descriptors of each receive ring (ethtool -G rx).
        rx_ring: u32 = 1024, in RING, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE";
        /// Descriptors of each transmit ring (ethtool -G tx).
        tx_ring: u32 = 1024, in RING, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_SQ_SIZE";
        /// A hard interrupt, entry and exit included.
        interrupt: Time = Time::from_ns(500), in DELAY, source COST;
        /// From an interrupt to its handler on a core that sleeps.
        idle_exit: Time = Time::from_us(1), in DELAY,
            source "assumption: a shallow idle state (C1) and the message over PCIe";
        /// The start of a poll, with its softirq.
        poll: Time = Time::from_ns(200), in DELAY, source COST;
        /// From a packet's last bit on the wire to its completion in memory.
        rx_latency: Time = Time::from_ns(500), in DELAY,
            source "assumption: NIC and PCIe; no vendor document says";
        /// From the doorbell to a packet's first bit on the wire.
        tx_latency: Time = Time::from_ns(500), in DELAY,
            source "assumption: NIC and PCIe; no vendor document says";
    }
}

/// More than drivers offer (`ethtool -g`; mlx5: 8192).
const RING: std::ops::RangeInclusive<u32> = 64..=65_536;
