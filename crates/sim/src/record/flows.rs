//! The flow table: a row a queue pair or TCP connection.

use tailback_proto::nic::Messages;

use crate::nic::qp::QpState;
use crate::nic::slots::GONE;
use crate::plan::Plan;
use crate::world::World;

use super::flow::Flow;
use super::quantity::bits_per_second;

/// The rows of queue pairs, with their numbers; not of those whose slots are free.
pub(super) fn flows<'a>(plan: &'a Plan, world: &'a World) -> impl Iterator<Item = (usize, Flow)> + 'a {
    let numbers = world.nics.send_qps.iter().map(|s| s.number).enumerate();
    let there = numbers.filter(|&(_, number)| number != GONE);
    there.map(move |(slot, number)| (number as usize, flow(plan, world, slot)))
}

/// The row of the queue pair in a slot.
pub(super) fn flow(plan: &Plan, world: &World, slot: usize) -> Flow {
    let message = slot.checked_sub(world.nics.first_flow_qp as usize);
    let (s, r) = (&world.nics.send_qps[slot], &world.nics.recv_qps[slot]);
    let kinds = &world.nics.models[world.nics[s.src as usize].model as usize].congestion;
    let writer = &world.nics.writers[s.writer as usize];
    let ended = matches!(s.state, QpState::Done | QpState::Error);
    let told = |at| world.fabric.run.skips.told(at);
    let (start, end) = (told(s.start), if ended { told(s.end) } else { world.fabric.run.simulated() });
    let error = (s.state == QpState::Error).then(|| {
        format!(
            "transport retry counter exceeded: no progress past packet {} for {}",
            s.half.requester.acknowledged(),
            world.nics.models[world.nics[s.src as usize].model as usize].rc.patience(),
        )
    });
    // What a queue pair that gave up had on the way may still arrive, in the end more than the link carries up to then.
    let counted = match s.state {
        QpState::Error => writer.writes.position(s.half.requester.acknowledged()),
        _ => r.bytes_delivered,
    };
    let waits = s.at_min_rate.as_deref();
    // Of many messages on one queue pair none has a completion time of its own here.
    let single = message.filter(|_| writer.messages == Some(1));
    // A message of work may be forgotten when it is done.
    let is_of_work = single.is_some() && world.nics.slots.is_of_work(s.number);
    let rate_at = if is_of_work && ended { s.end } else { world.fabric.run.now };
    Flow {
        item: match message {
            Some(message) => plan.flows.items[plan.flows.list[message].item()].clone(),
            None => plan.writers[s.writer as usize].item.clone(),
        },
        protocol: "roce",
        src: plan.hosts[s.src as usize].name.clone(),
        dst: plan.hosts[s.dst as usize].name.clone(),
        qp: writer.number_of(slot as u32),
        congestion: (kinds.len() > 1).then(|| kinds[s.congestion as usize].name()),
        priority: s.class,
        start_ps: (s.state != QpState::Waiting).then_some(start.0),
        end_ps: ended.then_some(end.0),
        state: s.state.text(),
        error,
        message_bytes: Some(writer.writes.message_bytes),
        messages_posted: s.messages_posted,
        messages_completed: s.half.requester.acknowledged() / writer.writes.packets_per_message,
        bytes_delivered: r.bytes_delivered,
        fct_ps: (single.is_some() && s.state == QpState::Done).then(|| (end - start).0),
        ideal_fct_ps: single.map(|message| world.nics.ideal_fct[message].0),
        goodput_bps: bits_per_second(counted, end.saturating_sub(start)),
        packets_sent: s.packets_sent,
        packets_retransmitted: s.packets_retransmitted,
        packet_seq_err: s.packet_seq_err,
        out_of_sequence: r.out_of_sequence,
        duplicate_request: r.duplicate_request,
        local_ack_timeout_err: s.local_ack_timeout_err,
        rp_cnp_handled: s.rp_cnp_handled,
        np_cnp_sent: r.np_cnp_sent,
        np_ecn_marked_roce_packets: r.np_ecn_marked_roce_packets,
        rate_bps: Some(super::queue_pairs::rate(world, slot, rate_at)),
        // The last wait may reach past the end.
        min_rate_wait_ps: waits.map(|waits| waits.waited.0 - told(waits.to).saturating_sub(end).0),
        min_rate_span_ps: waits.map(|waits| (told(waits.from).0, told(waits.to).min(end).0)),
        ..Flow::default()
    }
}
