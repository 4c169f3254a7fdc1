//! Time series of hosts, egress queues, pauses and queue pairs, in bins that are merged as they fill up.
//!
//! Their time begins when the first flow starts: the simulator's files start at 2 s by custom.

use tailback_proto::units::Time;

use super::cc::AckControl;
use super::port::LANES;
use super::world::World;
use crate::record::bins::{Bins, FEW_BINS, FIRST_BIN, MAX_VALUES};
use crate::record::quantity::Kind;
use crate::record::signals::{Signal, Signals, Who};
use crate::record::{Entity, Series};

/// Where a value comes from: a host, a port, a lane, a flow.
#[derive(Clone, Copy, Debug)]
enum Source {
    GoodputTx(usize),
    GoodputRx(usize),
    WireTx(usize),
    PacketSeqErr(usize),
    DelayProbes(usize),
    OutOfSequence(usize),
    LocalAckTimeoutErr(usize),
    CnpSent(usize),
    CnpHandled(usize),
    QueueMean(usize),
    QueueMax(usize),
    EcnMarked(usize),
    PausedShare(usize),
    QpRate(usize),
    QpAlpha(usize),
}

impl Source {
    /// The signal whose bins these are in the log of signals.
    fn signal(self) -> Option<Signal> {
        match self {
            Source::EcnMarked(_) => Some(Signal::CeMark),
            Source::PausedShare(_) => Some(Signal::PfcPause),
            Source::CnpSent(_) => Some(Signal::Cnp),
            Source::PacketSeqErr(_) => Some(Signal::Nak),
            Source::DelayProbes(_) => Some(Signal::DelayProbe),
            _ => None,
        }
    }
}

struct Column {
    entity: usize,
    source: Source,
    kind: Kind,
    metric: &'static str,
    before: u64,
}

/// Reads the counters at the end of each bin.
pub(super) struct Recorder {
    columns: Vec<Column>,
    entities: Vec<Entity>,
    detail: &'static str,
    bins: Bins,
}

impl Recorder {
    pub fn new(world: &World) -> Self {
        let mut recorder = Recorder {
            columns: Vec::new(),
            entities: Vec::new(),
            detail: "hosts, queue pairs and egress queues",
            bins: Bins::default(),
        };
        recorder.add_hosts(world);
        let hosts = (recorder.columns.len(), recorder.entities.len());
        recorder.add_queues(world);
        if recorder.columns.len() * FEW_BINS.min(world.plan.record.max_bins as usize) > MAX_VALUES {
            recorder.columns.truncate(hosts.0);
            recorder.entities.truncate(hosts.1);
            recorder.detail = "hosts and queue pairs";
        }
        let flows = world.plan.flows.len();
        let tracked = (world.plan.record.qps as usize).min(flows);
        for flow in (0..tracked).map(|pick| pick * flows / tracked) {
            let plan = &world.plan.flows[flow];
            let (src, dst) = (world.node_name(plan.0), world.node_name(plan.1));
            recorder.add(
                Entity::new(format!("{src}-{dst}/flow{flow}"), "message", src).towards(dst),
                [
                    (Source::QpRate(flow), Kind::Mean, "rate_bps"),
                    (Source::QpAlpha(flow), Kind::Mean, "alpha"),
                ],
            );
        }
        let kinds = recorder.columns.iter().map(|column| column.kind).collect();
        let most = world.plan.record.max_bins as usize;
        recorder.bins = Bins::new(kinds, Time(world.origin), FIRST_BIN, most);
        recorder
    }

    fn add_hosts(&mut self, world: &World) {
        for (host, &node) in world.hosts.iter().enumerate() {
            use Source::*;
            let name = world.node_name(node);
            self.add(
                Entity::new(name.clone(), "host", name),
                [
                    (GoodputTx(host), Kind::Rate, "goodput_tx_bps"),
                    (GoodputRx(host), Kind::Rate, "goodput_rx_bps"),
                    (PacketSeqErr(host), Kind::Count, "packet_seq_err"),
                    (OutOfSequence(host), Kind::Count, "out_of_sequence"),
                    (LocalAckTimeoutErr(host), Kind::Count, "local_ack_timeout_err"),
                    (CnpSent(host), Kind::Count, "np_cnp_sent"),
                    (CnpHandled(host), Kind::Count, "rp_cnp_handled"),
                ],
            );
            if world.acks.as_ref().is_some_and(AckControl::hears_delay) {
                let entity = self.entities.len() - 1;
                self.add_to(entity, (DelayProbes(host), Kind::Count, "delay_probes"));
            }
            // Of several NICs the first: the series has one value for a host.
            if let Some(port) = world.first_port(node) {
                let peer = world.ports[port].peer as usize;
                let entity = self.entities.len() - 1;
                self.add_to(entity, (WireTx(port), Kind::Rate, "wire_tx_bps"));
                self.add_to(entity, (WireTx(peer), Kind::Rate, "wire_rx_bps"));
            }
        }
    }

    fn add_queues(&mut self, world: &World) {
        let priorities = world.priorities();
        for port in 0..world.ports.len() {
            for &priority in &priorities {
                use Source::*;
                let at = port * LANES + priority as usize;
                let paused = (PausedShare(at), Kind::Share, "paused_share");
                let queue = |name, kind| {
                    let (own, peer) = (&world.ports[port], &world.ports[world.ports[port].peer as usize]);
                    Entity::new(name, kind, world.node_name(own.node)).towards(world.node_name(peer.node))
                };
                if !world.ports[port].is_switch {
                    self.add(queue(world.send_queue_name(port, priority), "send"), [paused]);
                    continue;
                }
                self.add(
                    queue(world.egress_name(port, priority), "egress"),
                    [
                        (QueueMean(at), Kind::Mean, "queue_mean_bytes"),
                        (QueueMax(at), Kind::Max, "queue_max_bytes"),
                        (EcnMarked(at), Kind::Count, "ecn_marked"),
                        paused,
                    ],
                );
            }
        }
    }

    fn add<const N: usize>(&mut self, entity: Entity, columns: [(Source, Kind, &'static str); N]) {
        self.entities.push(entity);
        for column in columns {
            self.add_to(self.entities.len() - 1, column);
        }
    }

    fn add_to(&mut self, entity: usize, (source, kind, metric): (Source, Kind, &'static str)) {
        self.columns.push(Column { entity, source, kind, metric, before: 0 });
    }

    /// When the bin that is open ends.
    pub fn next_sample(&self) -> u64 {
        self.bins.next().0
    }

    /// Closes the bin that ends now.
    pub fn sample(&mut self, world: &mut World) {
        self.close_bin(world);
        self.bins.merge_if_full();
    }

    fn close_bin(&mut self, world: &mut World) {
        let now = Time(world.now);
        let span = self.bins.span(now);
        for (column, value) in self.columns.iter_mut().zip(self.bins.close(now)) {
            *value = read(world, column, span);
        }
    }

    /// Closes the last bin, which may be shorter, and gives out what was recorded. Queues that stayed empty are left
    /// out of the series.
    pub fn into_series(mut self, world: &mut World) -> (Series, Signals) {
        if self.bins.span(Time(world.now)) > Time::ZERO {
            self.close_bin(world);
        }
        let (bin, bins, mut values) = self.bins.into_columns();
        let read = || self.columns.iter().zip(values.chunks_exact(bins.max(1)));
        let mut signals = Signals::default();
        for (column, values) in read() {
            if let Some(signal) = column.source.signal() {
                let who = || Who::at(signal, &self.entities[column.entity]);
                signals.add_column(who, column.kind, values, (bin, Time(world.now - world.origin)));
            }
        }
        let mut used = vec![false; self.entities.len()];
        for (column, values) in read() {
            used[column.entity] |= match column.source {
                Source::GoodputTx(_) | Source::QpRate(_) => true,
                Source::QueueMax(_) | Source::PausedShare(_) => values.iter().any(|&value| value > 0.0),
                _ => false,
            };
        }
        let kept = Series::keep(self.columns.into_iter(), |column| used[column.entity], bins, &mut values);
        let series = Series {
            names: kept.into_iter().map(|column| (column.entity, column.metric.into())).collect(),
            values,
            entities: self.entities,
            bin,
            bins,
            detail: self.detail,
        };
        (series, signals)
    }
}

fn read(world: &mut World, column: &mut Column, span: Time) -> f64 {
    use Source::*;
    let now = world.now;
    let counter = match column.source {
        GoodputTx(host) => world.host_counters[host].goodput_tx,
        GoodputRx(host) => world.host_counters[host].goodput_rx,
        WireTx(port) => world.ports[port].tx_bytes,
        PacketSeqErr(host) => world.host_counters[host].packet_seq_err,
        DelayProbes(host) => world.host_counters[host].delay_probes,
        OutOfSequence(host) => world.host_counters[host].out_of_sequence,
        LocalAckTimeoutErr(host) => world.host_counters[host].timeouts,
        CnpSent(host) => world.host_counters[host].cnp_sent,
        CnpHandled(host) => world.host_counters[host].cnp_handled,
        EcnMarked(at) => world.lane_counters[at].marked,
        PausedShare(at) => world.heard[at].paused_until(now),
        QueueMean(at) => {
            let lane = &mut world.lanes[at];
            lane.integrate(now);
            return std::mem::take(&mut lane.byte_ns) as f64 * 1000.0 / span.0 as f64;
        }
        QueueMax(at) => {
            let lane = &mut world.lanes[at];
            return std::mem::replace(&mut lane.max_egress, lane.egress) as f64;
        }
        QpRate(flow) => return world.rate_and_alpha(flow).0,
        QpAlpha(flow) => return world.rate_and_alpha(flow).1,
    };
    let difference = counter - std::mem::replace(&mut column.before, counter);
    column.kind.of_difference(difference, span)
}
