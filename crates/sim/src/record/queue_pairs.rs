//! What is recorded of queue pairs: their rates, and what their congestion controllers show.

use tailback_proto::congestion::rhcc::sender::Sender;
use tailback_proto::congestion::{shown, Controller, Merged, SignalInfo};
use tailback_proto::units::Time;

use super::entity::Entity;
use super::quantity::{quantities, Bin, Kind};
use super::readings::Shown;
use crate::nic::qp::SendQp;
use crate::nic::NicModel;
use crate::plan::Plan;
use crate::world::World;

quantities! {
    /// What a queue pair may send.
    RATE of ["queue-pair", "message"] always, |bin, qp| {
        "rate_bps": Now, "bit/s", "its rate at the end of the bin; the line rate without a limiter"
            = rate(bin.world, qp, bin.world.fabric.run.now);
    }
}

quantities! {
    /// What arrives of it.
    DELIVERED of ["queue-pair", "message"], |bin, qp| {
        "goodput_bps": Rate, "bit/s", "payload delivered in order" = bin.world.nics.recv_qps[qp].bytes_delivered;
    }
}

/// Most signals of a controller: `at` is of the queue pair and the number of the signal.
const SIGNALS: usize = 256;

fn signal(bin: &mut Bin, at: usize, _: &mut [u64], values: &mut [f64]) {
    let (s, model) = queue_pair(bin.world, at / SIGNALS);
    values[0] = s.half.pacer.flow.signal(&model.congestion[s.congestion as usize], bin.now, at % SIGNALS);
}

fn beside(bin: &mut Bin, at: usize, _: &mut [u64], values: &mut [f64]) {
    let (s, model) = queue_pair(bin.world, at / SIGNALS);
    values[0] = match (&s.prober, &model.rhcc) {
        (Some(prober), Some(law)) => (Sender::SIGNALS[at % SIGNALS].read)(&prober.sender, law),
        _ => 0.0,
    };
}

/// What the controller of a queue pair shows, and what acts beside it.
pub(super) fn signals(world: &World, qp: usize) -> (Vec<Shown<World>>, Vec<Shown<World>>) {
    let (s, model) = queue_pair(world, qp);
    let signals = |shown: Vec<SignalInfo>, read| {
        let signal = |(number, shown): (usize, SignalInfo)| Shown {
            name: shown.name,
            kind: match shown.merged {
                Merged::Mean => Kind::Now,
                Merged::Last => Kind::Last,
            },
            read,
            at: qp * SIGNALS + number,
        };
        shown.into_iter().enumerate().map(signal).collect()
    };
    let besides = if s.prober.is_some() { shown::<Sender>() } else { Vec::new() };
    (signals(model.congestion[s.congestion as usize].signals(), signal), signals(besides, beside))
}

fn queue_pair(world: &World, qp: usize) -> (&SendQp, &NicModel) {
    let s = &world.nics.send_qps[qp];
    (s, &world.nics.models[world.nics[s.src as usize].model as usize])
}

/// The rate of a queue pair at an instant after all that has happened to it.
pub(super) fn rate(world: &World, qp: usize, at: Time) -> f64 {
    let (s, model) = queue_pair(world, qp);
    let rate = s.half.pacer.flow.rate_at(&model.congestion[s.congestion as usize], at);
    s.prober.as_ref().map_or(rate, |prober| prober.sender.limit(rate))
}

pub(super) fn entity(plan: &Plan, world: &World, qp: usize) -> Entity {
    let s = &world.nics.send_qps[qp];
    let (kind, short, number, item) = match qp.checked_sub(world.nics.first_flow_qp as usize) {
        Some(message) => {
            let flow = &plan.flows.list[message];
            ("message", "flow", message, &plan.flows.items[flow.item()])
        }
        None => {
            let number = world.nics.writers[s.writer as usize].number_of(qp as u32) as usize;
            ("queue-pair", "qp", number, &plan.writers[s.writer as usize].item)
        }
    };
    let (src, dst) = (&plan.hosts[s.src as usize].name, &plan.hosts[s.dst as usize].name);
    Entity::new(format!("{src}-{dst}/{short}{number}"), kind, src).towards(dst).of_item(item)
}
