//! Time series of a live run, under the names that the simulator's have.

use std::sync::Arc;

use serde::Serialize;
use tailback_proto::congestion::external::ExternalControl;
use tailback_proto::units::Time;

use crate::host::Host;
use crate::plan::{HostPlan, LivePlan, CLASSES};
use crate::switch::Switch;

/// An entity that has series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host(usize),
    Send(usize),
    Egress(usize, usize, usize),
    Ingress(usize, usize, usize),
    Flow(usize),
}

/// How a value of a bin comes about.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The difference of a counter.
    Count,
    /// That of a counter of bytes, as bit/s.
    Rate,
    /// That of a counter of picoseconds, as a share of the bin.
    Share,
    /// As it is.
    Value,
}

/// A series.
#[derive(Debug, Serialize)]
pub struct Series {
    /// Whose.
    pub entity: String,
    /// Of what kind that is.
    pub kind: &'static str,
    /// Node that it belongs to.
    pub node: String,
    /// Node at the other end.
    pub peer: Option<String>,
    /// Flow, of a queue pair.
    pub flow: Option<usize>,
    /// The entity.
    pub metric: String,
    /// A value a bin.
    pub values: Vec<f64>,
}

struct Column {
    place: Place,
    metric: String,
    before: f64,
    values: Vec<f64>,
}

/// Series that are being recorded.
pub struct Recorder {
    bin: Time,
    next: Time,
    /// Of each host's controller: its signals, and whether it acts on delays.
    shown: Vec<(Vec<String>, bool)>,
    columns: Vec<Column>,
}

impl Recorder {
    /// Of a run. `controls`: controllers that are not built in, by their numbers in the plan.
    pub fn new(plan: &LivePlan, controls: &[Arc<dyn ExternalControl>]) -> Recorder {
        let shown = |host: &HostPlan| {
            let Ok(congestion) = host.controller(controls) else { return Default::default() };
            let names = congestion.signals().iter().map(|signal| signal.name.to_string()).collect();
            (names, congestion.uses().delay)
        };
        let shown = plan.hosts.iter().map(shown).collect();
        let bin = Time(plan.bin_ps.max(1));
        Recorder { bin, next: bin, shown, columns: Vec::new() }
    }

    /// When the next bin ends.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Ends the bins that are over; of several, the first has all that happened.
    pub fn look(&mut self, plan: &LivePlan, now: Time, hosts: &[Option<Host>], switches: &mut [Switch]) {
        let end = plan.duration();
        while self.next <= now {
            let begin = Time(self.next.ps() - self.bin.ps());
            if begin >= end {
                return;
            }
            let span = self.next.min(end) - begin;
            self.sample(plan, self.next.min(end), span, hosts, switches);
            self.next += self.bin;
        }
    }

    fn sample(
        &mut self,
        plan: &LivePlan,
        at: Time,
        span: Time,
        hosts: &[Option<Host>],
        switches: &mut [Switch],
    ) {
        let controllers = std::mem::take(&mut self.shown);
        let mut number = 0;
        let mut put = |place: Place, metric: &str, kind: Kind, value: f64| {
            if number == self.columns.len() {
                let column = Column { place, metric: metric.to_owned(), before: 0.0, values: Vec::new() };
                self.columns.push(column);
            }
            let column = &mut self.columns[number];
            number += 1;
            let difference = value - column.before;
            column.values.push(match kind {
                Kind::Value => value,
                Kind::Count => difference,
                Kind::Rate => difference * 8.0 / span.as_secs_f64(),
                Kind::Share => difference / span.ps() as f64,
            });
            column.before = value;
        };
        for (index, host) in hosts.iter().enumerate().filter_map(|(i, host)| Some((i, host.as_ref()?))) {
            let (c, n) = (&host.counters, host.nic().counters());
            let here = Place::Host(index);
            put(here, "goodput_rx_bps", Kind::Rate, c.rx_payload_bytes as f64);
            put(here, "wire_rx_bps", Kind::Rate, c.rx_wire_bytes as f64);
            put(here, "wire_tx_bps", Kind::Rate, c.tx_wire_bytes as f64);
            for (metric, value) in [
                ("np_cnp_sent", n.np_cnp_sent),
                ("rp_cnp_handled", n.rp_cnp_handled),
                ("out_of_sequence", n.out_of_sequence),
                ("packet_seq_err", n.packet_seq_err),
                ("local_ack_timeout_err", n.local_ack_timeout_err),
            ] {
                put(here, metric, Kind::Count, value as f64);
            }
            if controllers[index].1 {
                put(here, "delay_probes", Kind::Count, n.delay_probes as f64);
            }
            let backlog = host.backlog_bytes(at) as f64;
            put(Place::Send(index), "queue_mean_bytes", Kind::Value, backlog);
            put(Place::Send(index), "queue_max_bytes", Kind::Value, backlog);
            put(Place::Send(index), "paused_share", Kind::Share, host.paused().ps() as f64);
        }
        // What a host sends that is delivered, its receivers know.
        let mut delivered = vec![None; plan.flows.len()];
        for host in hosts.iter().flatten() {
            for (flow, _, bytes) in host.receiving() {
                delivered[flow] = Some(bytes as f64);
                put(Place::Flow(flow), "goodput_bps", Kind::Rate, bytes as f64);
            }
        }
        let mut elsewhere: Vec<Option<f64>> = vec![None; hosts.len()];
        for host in hosts.iter().flatten() {
            for (flow, qpn, _, sends) in host.sending() {
                if delivered[flow].is_none() {
                    // Its receiver is elsewhere: what is acknowledged has arrived.
                    let bytes = sends.completed as f64 * plan.flows[flow].message as f64;
                    delivered[flow] = Some(bytes);
                    put(Place::Flow(flow), "goodput_bps", Kind::Rate, bytes);
                    *elsewhere[plan.flows[flow].dst].get_or_insert(0.0) += bytes;
                }
                if let Some(shown) = host.nic().shown(at, qpn) {
                    put(Place::Flow(flow), "rate_bps", Kind::Value, shown.rate_bps);
                    for (name, value) in controllers[plan.flows[flow].src].0.iter().zip(shown.signals) {
                        if name != "rate_bps" {
                            put(Place::Flow(flow), name, Kind::Value, value);
                        }
                    }
                }
            }
        }
        for (index, bytes) in elsewhere.into_iter().enumerate() {
            if let Some(bytes) = bytes {
                put(Place::Host(index), "goodput_rx_bps", Kind::Rate, bytes);
            }
        }
        let mut sent = vec![0.0; hosts.len()];
        for (flow, bytes) in plan.flows.iter().zip(delivered) {
            sent[flow.src] += bytes.unwrap_or(0.0);
        }
        for (index, bytes) in sent.into_iter().enumerate() {
            put(Place::Host(index), "goodput_tx_bps", Kind::Rate, bytes);
        }
        for (s, switch) in switches.iter_mut().enumerate() {
            let classes = switch.classes();
            for p in 0..switch.ports.len() {
                for class in (0..CLASSES).filter(|class| classes & 1 << class != 0) {
                    let threshold = switch.ingress_threshold(class);
                    let lane = &mut switch.ports[p].lanes[class];
                    let (bin, [paused, pausing]) = (lane.take_bin(at), lane.pauses(at));
                    let c = &lane.counters;
                    let out = Place::Egress(s, p, class);
                    let mean = |byte_ps: u128| byte_ps as f64 / span.ps() as f64;
                    put(out, "queue_mean_bytes", Kind::Value, mean(bin.queued_byte_ps));
                    put(out, "queue_max_bytes", Kind::Value, bin.max_queued as f64);
                    put(out, "ecn_marked", Kind::Count, c.marked as f64);
                    put(out, "dropped", Kind::Count, (c.dropped - c.headroom_dropped) as f64);
                    put(out, "paused_share", Kind::Share, paused.ps() as f64);
                    let into = Place::Ingress(s, p, class);
                    put(into, "queue_mean_bytes", Kind::Value, mean(bin.held_byte_ps));
                    put(into, "queue_max_bytes", Kind::Value, bin.max_held as f64);
                    put(into, "dropped", Kind::Count, c.headroom_dropped as f64);
                    put(into, "pausing_share", Kind::Share, pausing.ps() as f64);
                    put(into, "xoff_bytes", Kind::Value, threshold as f64);
                }
            }
        }
        self.shown = controllers;
    }

    /// All of them.
    pub fn told(&self, plan: &LivePlan) -> Vec<Series> {
        self.columns.iter().map(|column| told(plan, column)).collect()
    }
}

fn told(plan: &LivePlan, column: &Column) -> Series {
    let host = |number: usize| plan.hosts[number].name.clone();
    let (entity, kind, node, peer, flow) = match column.place {
        Place::Host(at) => (host(at), "host", host(at), None, None),
        Place::Send(at) => (format!("{}/sq", host(at)), "send", host(at), None, None),
        Place::Egress(s, p, class) | Place::Ingress(s, p, class) => {
            let switch = &plan.switches[s];
            let peer = switch.ports[p].peer.clone();
            let (letter, kind) =
                if matches!(column.place, Place::Egress(..)) { ("tc", "egress") } else { ("pg", "ingress") };
            let entity = format!("{}:{peer}/{letter}{class}", switch.name);
            (entity, kind, switch.name.clone(), Some(peer), None)
        }
        Place::Flow(flow) => {
            let f = &plan.flows[flow];
            let (src, dst) = (host(f.src), host(f.dst));
            (String::new(), "queue-pair", src, Some(dst), Some(flow))
        }
    };
    Series { entity, kind, node, peer, flow, metric: column.metric.clone(), values: column.values.clone() }
}
