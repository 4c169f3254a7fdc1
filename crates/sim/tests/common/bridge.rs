//! Plans of hosts around a Linux bridge.

#[path = "../../../proto/tests/red_arguments/mod.rs"]
mod red_arguments;

use super::*;
use tailback_proto::units::{Bytes, Rate, Time};

pub const NS: u64 = 1_000;

/// Core 0 receives what h0 sends, core 1 what h1 sends; core 2 has the completions of both ports.
pub fn model() -> BridgeModelPlan {
    let core = |cpu| BridgeCorePlan { cpu, numa: 0, guest: false };
    let coalescing = CoalescingParameters { adaptive: true, usecs: 8, frames: 128 };
    let port = |core| BridgePortPlan { numa: 0, irq_cores: vec![core, 2], rss: vec![0] };
    BridgeModelPlan {
        cores: (0..3).map(core).collect(),
        host: BridgeParameters { rx_ring: 8192, ..BridgeParameters::default() },
        costs: BridgeCosts { transmit: Time(500 * NS), complete: Time(100 * NS), ..BridgeCosts::default() },
        ports: vec![port(0), port(1)],
        rx: coalescing,
        tx: coalescing,
        bql: Some(BqlParameters::default()),
        qdisc: QdiscPlan::Pfifo(PfifoParameters::default()),
        frame_bytes: 4214,
        multiqueue: true,
    }
}

/// h0 and h1 with a bridge br0 between them, 25 Gbit/s, MTU 4096; nothing is sent.
pub fn bridged(model: BridgeModelPlan) -> Plan {
    let mut plan = star(2);
    plan.switches.clear();
    plan.switch_models.clear();
    plan.bridges = vec![BridgePlan { name: "br0".into(), model: 0 }];
    plan.bridge_models = vec![model];
    for link in &mut plan.links {
        *link = LinkPlan { b: "br0".into(), rate: Rate(25_000_000_000), delay: Time(5_000), ..link.clone() };
    }
    plan.nics[0].mtu = Bytes(4096);
    plan
}

/// `ib_write_bw` from h0 to h1.
pub fn write_bw() -> WriterPlan {
    WriterPlan { message: Bytes(65_536), ..writer(0, 1, 1) }
}

/// `ib_write_lat` between h0, which begins, and h1.
pub fn write_lat(messages: u64) -> Vec<WriterPlan> {
    let one = |src: &str, dst: &str, writer, begins| WriterPlan {
        src: src.into(),
        dst: dst.into(),
        message: Bytes(2),
        messages: Some(messages),
        partner: Some(PartnerPlan { writer, begins }),
        ..write_bw()
    };
    vec![one("h0", "h1", 1, true), one("h1", "h0", 0, false)]
}

/// The value of a counter at the port towards a host.
pub fn at(recording: &Recording, port: &str, counter: &str) -> u64 {
    let row = recording.counters.iter().find(|row| row.port == port && row.counter == counter);
    row.unwrap_or_else(|| panic!("no {counter} at {port}")).value
}

/// RED as it was at the bridge of the published experiment.
pub const RED: RedArguments =
    RedArguments { burst: 66, bandwidth: Rate(25_000_000_000), ..red_arguments::RED };
