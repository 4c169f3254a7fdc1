//! Hosts that speak TCP.

use super::*;

/// CUBIC as Linux has it, MTU 1500.
pub fn tcp() -> TcpPlan {
    TcpPlan {
        control: TcpControlPlan::Cubic,
        mtu_bytes: 1500,
        sack: true,
        ecn: false,
        initial_window_segments: 10,
        initial_rto_ps: 1000 * MS,
        min_rto_ps: 200 * MS,
        max_rto_ps: 120_000 * MS,
        delayed_ack_ps: 40 * MS,
        ack_every_segments: 2,
        receive_buffer_bytes: 6 << 20,
        tso_bytes: 65536,
        small_queue_bytes: 1 << 20,
    }
}

/// A server whose work costs what Cai et al. (SIGCOMM 2021) measured, in order of magnitude.
pub fn cpu() -> CpuPlan {
    CpuPlan {
        cores: 16,
        clock_hz: 2.6e9,
        rx_ring: 1024,
        interrupt_delay_ps: 8 * US,
        interrupt_packets: 32,
        napi_budget: 64,
        gro_bytes: 65536,
        cycles_per_interrupt: 2500.0,
        cycles_per_packet: 700.0,
        cycles_per_segment: 3000.0,
        cycles_per_byte: 0.32,
    }
}

/// A CPU whose work takes no time.
pub fn free_cpu() -> CpuPlan {
    CpuPlan {
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
        name: "tcp".into(),
        src: format!("h{src}"),
        dst: format!("h{dst}"),
        code_point: 0,
        connections: count,
        bytes: None,
        start_ps: 0,
        start_spread_ps: 0,
        stop_ps: None,
    }
}

/// Sixteen senders, one receiver.
pub fn tcp_incast(count: u32) -> Plan {
    let mut plan = tcp_star(17);
    plan.tcp_connections = (0..16).map(|src| connections(src, 16, count)).collect();
    plan
}
