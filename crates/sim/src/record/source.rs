//! What a series reads: its source, its name, and how its bins are merged.

use std::borrow::Cow;

use tailback_proto::congestion::rhcc::sender::Sender;
use tailback_proto::congestion::Controller;
use tailback_proto::units::Time;

use super::bridges::{self, BridgeSource};
use super::items::Items;
use super::paths::{self, PathSource};
use super::quantity::Kind;
use super::veth::{self, VethSource};
use crate::fabric::port::mean_of_ticks;
use crate::fabric::port_and_class;
use crate::nic::qp::SendQp;
use crate::nic::NicModel;
use crate::world::World;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)] // a tag of its own is quicker to read than one hidden in a field's spare values
pub(super) enum Source {
    GoodputTx(usize),
    GoodputRx(usize),
    WireTx(usize),
    /// What the peer of a host's port put on the wire towards it.
    WireRx(usize),
    PacketSeqErr(usize),
    OutOfSequence(usize),
    LocalAckTimeoutErr(usize),
    CnpSent(usize),
    CnpHandled(usize),
    CnpDelay(usize),
    QueueMean(usize),
    QueueMax(usize),
    EcnMarked(usize),
    Dropped(usize),
    IngressDropped(usize),
    PausedShare(usize),
    GroupMean(usize),
    GroupMax(usize),
    Xoff(usize),
    PausingShare(usize),
    /// Of a host and a class.
    BacklogMean(usize, u8),
    BacklogMax(usize, u8),
    QpRate(usize),
    /// Of a queue pair: by number, a signal that its controller shows.
    QpSignal(QpSignal),
    /// The same of what acts beside its controller.
    BesideSignal(QpSignal),
    /// By agent.
    IioOccupancy(usize),
    MbaLevel(usize),
    Path(usize, PathSource),
    /// Of a bridge.
    Bridge(BridgeSource),
    QpGoodput(usize),
    /// Of a traffic item, all receivers together.
    ItemGoodput(u32),
    /// Of a traffic item at one sender: index into `at_senders` of [`Items`].
    ItemAtSenderGoodput(usize),
    CpuShare(usize),
    RxMean(usize),
    RxMax(usize),
    RxDropped(usize),
    Cwnd(usize),
    ConnectionGoodput(usize),
    /// Of an end, a ping or a namespace.
    Veth(usize, VethSource),
}

/// A signal of a queue pair's controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QpSignal {
    pub qp: u32,
    pub number: u8,
    pub kind: Kind,
    /// Of the series, by number among the recorder's.
    pub name: u16,
}

impl Source {
    pub fn kind(self) -> Kind {
        use Source::*;
        match self {
            Path(_, source) => source.kind(),
            Veth(_, source) => source.kind(),
            Bridge(source) => source.kind(),
            GoodputTx(_) | GoodputRx(_) | WireTx(_) | WireRx(_) | QpGoodput(_) | ConnectionGoodput(_)
            | ItemGoodput(_) | ItemAtSenderGoodput(_) => Kind::Rate,
            PacketSeqErr(_)
            | OutOfSequence(_)
            | LocalAckTimeoutErr(_)
            | CnpSent(_)
            | CnpHandled(_)
            | CnpDelay(_)
            | EcnMarked(_)
            | Dropped(_)
            | IngressDropped(_)
            | RxDropped(_) => Kind::Count,
            QpSignal(signal) | BesideSignal(signal) => signal.kind,
            IioOccupancy(_) | MbaLevel(_) => Kind::Mean,
            PausedShare(_) | PausingShare(_) | CpuShare(_) => Kind::Share,
            QueueMean(_) | GroupMean(_) | BacklogMean(..) | Xoff(_) | QpRate(_) | RxMean(_) | Cwnd(_) => {
                Kind::Mean
            }
            QueueMax(_) | GroupMax(_) | BacklogMax(..) | RxMax(_) => Kind::Max,
        }
    }

    /// `signals`: names of the series that controllers show.
    pub fn metric(self, signals: &[Cow<'static, str>]) -> Cow<'static, str> {
        use Source::*;
        Cow::Borrowed(match self {
            GoodputTx(_) | ItemAtSenderGoodput(_) => "goodput_tx_bps",
            GoodputRx(_) | ItemGoodput(_) => "goodput_rx_bps",
            WireTx(_) => "wire_tx_bps",
            WireRx(_) => "wire_rx_bps",
            PacketSeqErr(_) => "packet_seq_err",
            OutOfSequence(_) => "out_of_sequence",
            LocalAckTimeoutErr(_) => "local_ack_timeout_err",
            CnpSent(_) => "np_cnp_sent",
            CnpHandled(_) => "rp_cnp_handled",
            CnpDelay(_) => "cnp_delay_ns",
            QueueMean(_) | GroupMean(_) | BacklogMean(..) | RxMean(_) => "queue_mean_bytes",
            QueueMax(_) | GroupMax(_) | BacklogMax(..) | RxMax(_) => "queue_max_bytes",
            EcnMarked(_) => "ecn_marked",
            Dropped(_) | IngressDropped(_) | RxDropped(_) => "dropped",
            PausedShare(_) => "paused_share",
            Xoff(_) => "xoff_bytes",
            PausingShare(_) => "pausing_share",
            QpRate(_) => "rate_bps",
            QpSignal(signal) | BesideSignal(signal) => return signals[signal.name as usize].clone(),
            IioOccupancy(_) => "iio_occupancy_lines",
            MbaLevel(_) => "mba_level",
            Path(_, source) => source.metric(),
            Veth(_, source) => source.metric(),
            Bridge(source) => source.metric(),
            QpGoodput(_) | ConnectionGoodput(_) => "goodput_bps",
            CpuShare(_) => "cpu_share",
            Cwnd(_) => "cwnd_bytes",
        })
    }
}

/// What is read at the end of a bin: half a cache line.
pub(super) struct Column {
    pub source: Source,
    /// Counter value at the start of the bin.
    pub before: u64,
    pub entity: u32,
    pub kind: Kind,
}

impl Column {
    /// The value of the bin that ends now.
    #[inline]
    pub fn read(&mut self, world: &mut World, items: Option<&Items>, span: Time) -> f64 {
        use Source::*;
        let before = &mut self.before;
        let now = world.fabric.run.now;
        let counter = match self.source {
            GoodputTx(host) => world.nics[host].counters.goodput_tx_bytes,
            GoodputRx(host) => world.nics[host].counters.goodput_rx_bytes,
            WireRx(port) if world.fabric.is_bridge(port) => {
                world.fabric.ports[port].wire_bytes - world.fabric.unsent_bytes(port)
            }
            WireTx(port) | WireRx(port) => world.fabric.ports[port].wire_bytes,
            PacketSeqErr(host) => world.nics[host].counters.packet_seq_err,
            OutOfSequence(host) => world.nics[host].counters.out_of_sequence,
            LocalAckTimeoutErr(host) => world.nics[host].counters.local_ack_timeout_err,
            CnpSent(host) => world.nics[host].counters.np_cnp_sent,
            CnpHandled(host) => world.nics[host].counters.rp_cnp_handled,
            CnpDelay(host) => world.nics[host].counters.cnp_delay_ns,
            EcnMarked(at) => world.fabric.marked[at],
            Dropped(at) => world.fabric.dropped[at][0],
            IngressDropped(at) => world.fabric.dropped[at][1],
            PausedShare(at) => world.fabric.pauses[at].paused_until(now).0,
            PausingShare(at) => world.fabric.pausing[at].held_until(now).0,
            QueueMean(at) => {
                let queue = &mut world.fabric.queues[at];
                queue.integrate(now);
                return mean_of_ticks(std::mem::take(&mut queue.byte_ticks), now, span);
            }
            QueueMax(at) => {
                let queue = &mut world.fabric.queues[at];
                return std::mem::replace(&mut queue.max_bytes, queue.bytes) as f64;
            }
            GroupMean(at) => {
                let group = &mut world.fabric.groups[at];
                group.integrate(now);
                return mean_of_ticks(std::mem::take(&mut group.byte_ticks), now, span);
            }
            GroupMax(at) => {
                let group = &mut world.fabric.groups[at];
                let bytes = group.bytes();
                return std::mem::replace(&mut group.max_bytes, bytes) as f64;
            }
            Xoff(at) => {
                let (port, class) = port_and_class(at);
                let switch =
                    &world.fabric.switches[world.fabric.ports[port].owner as usize - world.nics.nics.len()];
                return switch.ingress_threshold(switch.pool(class)) as f64;
            }
            BacklogMean(host, class) | BacklogMax(host, class) => {
                return world.nics[host].backlog_bytes[class as usize] as f64
            }
            CpuShare(host) => {
                let cores = world.tcp.cpus.cores_of(host);
                cores.iter().map(|core| core.busy_until_now(now).0).sum::<u64>() / cores.len() as u64
            }
            RxDropped(host) => world.tcp.cpus.cores_of(host).iter().map(|core| core.rx_out_of_buffer).sum(),
            RxMean(host) => return world.tcp.cpus.backlog(host).take_mean(now, span),
            RxMax(host) => return world.tcp.cpus.backlog(host).take_max() as f64,
            Cwnd(connection) => return world.tcp.sockets.connections[connection].sender.cwnd() as f64,
            QpRate(qp) => return rate(world, qp),
            QpSignal(signal) => {
                let (s, model) = queue_pair(world, signal.qp as usize);
                return s.pacer.flow.signal(
                    &model.congestion[s.congestion as usize],
                    now,
                    signal.number as usize,
                );
            }
            BesideSignal(signal) => return beside(world, signal),
            ConnectionGoodput(connection) => world.tcp.sockets.connections[connection].bytes_read,
            IioOccupancy(agent) => return world.agents[agent].occupancy(),
            MbaLevel(agent) => return world.agents[agent].level() as f64,
            Path(path, source) => return paths::read(world, path, source, before, span),
            Bridge(source) => return bridges::read(world, source, before, span),
            Veth(index, source) => return veth::read(world, index, source, before, span),
            QpGoodput(qp) => world.nics.recv_qps[qp].bytes_delivered,
            ItemGoodput(item) => items.map_or(0, |items| items.of_item(item)),
            ItemAtSenderGoodput(index) => items.map_or(0, |items| items.at_sender(index)),
        };
        let difference = counter - std::mem::replace(before, counter);
        self.kind.of_difference(difference, span)
    }
}

fn queue_pair(world: &World, qp: usize) -> (&SendQp, &NicModel) {
    let s = &world.nics.send_qps[qp];
    (s, &world.nics.models[world.nics[s.src as usize].model as usize])
}

/// The rate of a queue pair now.
pub(super) fn rate(world: &World, qp: usize) -> f64 {
    let (s, model) = queue_pair(world, qp);
    let rate = s.pacer.flow.rate_at(&model.congestion[s.congestion as usize], world.fabric.run.now);
    s.prober.as_ref().map_or(rate, |prober| prober.sender.limit(rate))
}

fn beside(world: &World, signal: QpSignal) -> f64 {
    let (s, model) = queue_pair(world, signal.qp as usize);
    let (Some(prober), Some(law)) = (&s.prober, &model.rhcc) else { return 0.0 };
    (Sender::SIGNALS[signal.number as usize].read)(&prober.sender, law)
}
