//! Plans as JSON, each part of a plan in one of them: what fuzzing of plans begins with.

use serde_json::Value;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;

use super::bridge::{self, bridged};
use super::fabric::FatTree;
use super::{ecn, failure, host, star, tcp, writer, MS, US};

/// Two hosts that write to a third, a plan for each controller; round trips that are to be worked out are 13 us.
fn controllers() -> Vec<Value> {
    let plan = |congestion: CongestionPlan| {
        let mut plan = star(3);
        let name = match serde_json::to_value(&congestion).expect("it is plain data") {
            Value::Object(settings) => settings.keys().next().expect("its name").clone(),
            other => panic!("{other} has no name"),
        };
        plan.nics[0].congestion = vec![congestion];
        plan.nics[0].transport.ack_every = 1;
        plan.writers = vec![writer(0, 2, 2), writer(1, 2, 1)];
        let mut plan = serde_json::to_value(plan).expect("it is plain data");
        for key in ["base_rtt", "window_rtt"] {
            if let Some(rtt) = plan["nics"][0]["congestion"][0][&name].get_mut(key) {
                *rtt = (13 * US).into();
            }
        }
        plan
    };
    CongestionPlan::defaults().into_iter().map(plan).collect()
}

/// DCQCN over a small buffer, where links lose packets and fail, with messages of all sizes.
fn lossy() -> Plan {
    let mut plan = star(4);
    plan.writers = vec![writer(0, 3, 2), writer(1, 3, 2)];
    plan.writers[1].code_point = 0;
    plan.writers[1].start_spread = Time(10 * US);
    plan.flows.items = vec!["flows".into()];
    plan.flows.list = (0..3).map(|n| FlowPlan(n, 3, 0, 3, 1 << (4 * n), n as u64 * US)).collect();
    plan.links[0].loss = 0.01;
    plan.failures = vec![failure(1, 50 * US, Some(90 * US))];
    let model = &mut plan.switch_models[0];
    (model.buffer, model.shared_bytes) = (Bytes(300_000), 150_000);
    model.pools = Some(PoolSizes { lossless_bytes: 100_000, lossy_bytes: 50_000 });
    model.weights = Some([30, 10, 10, 50, 0, 0, 0, 0]);
    model.pfc.xoff = Some(Bytes(20_000));
    model.pfc.xon = Some(Bytes(10_000));
    model.watchdog =
        Some(WatchdogParameters { detection_time: Time(100 * US), restoration_time: Time(50 * US) });
    model.ecn.push(ecn(Some(100_000_000_000), 20_000));
    plan
}

fn tcp_and_rdma() -> Plan {
    let mut plan = tcp::tcp_star(3);
    plan.tcp_connections = vec![tcp::connections(0, 2, 2), tcp::connections(1, 2, 1)];
    plan.tcp_connections[1].bytes = Some(Bytes(100_000));
    plan.tcp_connections[1].stop = Some(Time(MS));
    plan.writers = vec![writer(0, 1, 1)];
    plan
}

fn controlled_host() -> Plan {
    let mut plan = host::memory_pair(true, 65_536, 2, 64);
    let sender = Default::default();
    plan.nics[0].rhcc = Some(RhccPlan { sender: Some(sender), receiver: None });
    plan.nics[1].hostcc = Some(host::hostcc());
    let receiver = host::receiver(70.0);
    let mut nic = plan.nics[1].clone();
    nic.hostcc = None;
    nic.rhcc = Some(RhccPlan { sender: None, receiver: Some(receiver) });
    plan.nics.push(nic);
    plan
}

fn bridges() -> [Plan; 2] {
    let mut writing = bridged(bridge::model());
    writing.writers = vec![bridge::write_bw()];
    let mut answering = bridged(BridgeModelPlan { qdisc: QdiscPlan::Red(bridge::RED), ..bridge::model() });
    answering.writers = bridge::write_lat(100);
    [writing, answering]
}

fn veth(qdisc: QdiscPlan, bql: VethBql, napi: Polling) -> Plan {
    let namespace = |name: &str| NamespacePlan {
        name: name.into(),
        costs: ConsumerParameters { rules: 100, jitter: 0.077, napi, ..ConsumerParameters::default() },
    };
    let (src, dst) = ("a".to_string(), "b".to_string());
    let veth = VethNetworkPlan {
        namespaces: vec![namespace("a"), namespace("b")],
        veths: vec![VethPlan {
            a: src.clone(),
            b: dst.clone(),
            veth: VethSettings { bql, tx_usecs: Time(10 * US), ..VethSettings::default() },
            frame_bytes: 1514,
            qdisc,
        }],
        datagrams: vec![DatagramsPlan {
            item: "flood".into(),
            src: src.clone(),
            dst: dst.clone(),
            frame_bytes: 1442,
            send: Time(1_500_000),
            interval: Time(0),
            sndbuf: Bytes(2 << 20),
            blocking: true,
            start: Time(0),
            stop: None,
        }],
        pings: vec![PingsPlan {
            item: "ping".into(),
            src: src.clone(),
            dst: dst.clone(),
            frame_bytes: 98,
            interval: Time(500 * US),
            spread: Time(40 * US),
            start: Time(10 * US),
            stop: None,
        }],
        frames: vec![FramesPlan {
            item: "xdp".into(),
            src,
            dst,
            frame_bytes: 60,
            batch: 16,
            interval: Time(100 * US),
            start: Time(0),
            stop: Some(Time(MS)),
        }],
    };
    let mut plan = star(0);
    (plan.hosts, plan.links, plan.switches) = (vec![], vec![], vec![]);
    plan.veth = Some(veth);
    plan
}

fn veths() -> [Plan; 3] {
    let (quantum, codel) = (Bytes(1514), CodelParameters::default());
    let below = QdiscPlan::Sfq(SfqParameters { limit: 127, depth: 127, flows: 128, divisor: 1024, quantum });
    let shaped = QdiscPlan::Tbf {
        own: TbfParameters { rate: Rate(100_000_000), burst: Bytes(10_000), limit: None },
        child: Some(Box::new(below)),
    };
    let memory_limit = Bytes(32 << 20);
    let own =
        FqCodelParameters { limit: 10_240, flows: 1024, quantum, ecn: true, memory_limit, drop_batch: 64 };
    let fair = QdiscPlan::FqCodel { own, codel };
    let one_queue = QdiscPlan::Codel { own: CodelQueueParameters { limit: 100, ecn: true }, codel };
    [
        veth(shaped, VethBql::Packets, Polling::Threaded),
        veth(fair, VethBql::Bytes, Polling::Softirq),
        veth(one_queue, VethBql::Off, Polling::Softirq),
    ]
}

/// Plans of Tailback's own models.
pub fn native() -> Vec<Value> {
    let mut tree = FatTree::k_ary(4).plan();
    tree.writers = vec![writer(0, 15, 1), writer(4, 8, 1)];
    let mut plans = vec![lossy(), tcp_and_rdma(), controlled_host(), tree];
    plans.push(host::point_to_point());
    plans.push(host::point_to_point_gpu([2, 0], [Some((100 * US, 20 * US)), None]));
    plans.extend(bridges());
    plans.extend(veths());
    let plans = plans.iter().map(|plan| serde_json::to_value(plan).expect("it is plain data"));
    plans.chain(controllers()).collect()
}
