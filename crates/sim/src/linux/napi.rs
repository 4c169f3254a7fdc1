//! What a core's units of work belong to: a NAPI instance, a transmit queue or a thread.

/// A NAPI instance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Napi {
    /// A channel of a bridge's port: transmit completions, then received packets.
    Channel(u32),
    /// Polls the ring of an end of a veth pair.
    Veth(u32),
}

/// A transmit queue that `__netif_schedule` names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    /// A queueing discipline of a bridge's port.
    Bridge(u32),
    /// Of an end of a veth pair.
    Veth(u32),
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thread {
    /// A virtual CPU that never sleeps.
    Guest,
    /// NAPI of the ring of an end of a veth pair (`napi_threaded_poll`).
    VethNapi(u32),
    /// Sends datagrams.
    Flood(u32),
}
