//! Hosts that speak TCP.

use super::*;
use tailback_proto::units::Time;

/// CUBIC as Linux has it, MTU 1500.
pub fn tcp() -> TcpSettings {
    TcpSettings { initial_rto: Some(Time(1000 * MS)), ..TcpSettings::default() }
}

/// A server whose work costs what Cai et al. (SIGCOMM 2021) measured, in order of magnitude.
pub fn cpu() -> CpuParameters {
    CpuParameters::default()
}

/// A CPU whose work takes no time.
pub fn free_cpu() -> CpuParameters {
    CpuParameters {
        cycles_per_interrupt: 0.0,
        cycles_per_packet: 0.0,
        cycles_per_segment: 0.0,
        cycles_per_byte: 0.0,
        ..cpu()
    }
}

/// A star whose hosts speak TCP.
pub fn tcp_star(hosts: usize) -> Plan {
    let mut plan = star(hosts);
    plan.nics[0].tcp = Some(tcp());
    plan.nics[0].cpu = Some(cpu());
    plan
}

/// Endless connections in class 0.
pub fn connections(src: usize, dst: usize, count: u32) -> TcpConnectionPlan {
    TcpConnectionPlan {
        item: "tcp".into(),
        src: format!("h{src}"),
        dst: format!("h{dst}"),
        code_point: 0,
        connections: count,
        bytes: None,
        start: Time(0),
        start_spread: Time(0),
        stop: None,
    }
}

/// Sixteen senders, one receiver.
pub fn tcp_incast(count: u32) -> Plan {
    let mut plan = tcp_star(17);
    plan.tcp_connections = (0..16).map(|src| connections(src, 16, count)).collect();
    plan
}
