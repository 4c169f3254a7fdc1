//! TCP through the whole path: sockets, CPU, rings, NIC, switch.

mod common;

use common::tcp::*;
use common::*;

/// A connection whose CPU costs nothing: payload over payload plus exact overhead, of the line rate.
#[test]
fn goodput_is_the_payload_share_of_the_line_rate() {
    for (mtu, gbps) in [(1500, 10u64), (1500, 100), (9000, 100)] {
        let mut plan = tcp_star(2);
        let tcp = plan.nics[0].tcp.as_mut().unwrap();
        tcp.mtu_bytes = mtu;
        plan.nics[0].cpu = Some(free_cpu());
        for link in &mut plan.links {
            link.rate_bps = gbps * 1_000_000_000;
        }
        let mut connection = connections(0, 1, 1);
        connection.bytes = Some(gbps * 10_000_000);
        plan.tcp_connections = vec![connection];
        plan.duration_ps = 200 * MS;
        let recording = run(plan);
        let flow = &recording.flows[0];
        assert_eq!(flow.state, "done");
        assert_eq!(flow.retransmitted_segments, 0);
        let expected = gbps as f64 * 1e9 * (mtu - 52) as f64 / (mtu + 38) as f64;
        let found = flow.goodput_bps;
        assert!((found / expected - 1.0).abs() < 5e-3, "{gbps}G MTU {mtu}: {found} of {expected}");
    }
}
