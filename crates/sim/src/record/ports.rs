//! What is recorded of the ports of hosts and switches, by lane: the queues of a class, what fills them, what pauses them.

use super::quantity::{counters, quantities};
use crate::fabric::drops::DropReason;
use crate::fabric::{port_and_class, Fabric};
use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

quantities! {
    /// How long an egress queue is, and how much of its link it takes.
    EGRESS of ["egress"], |bin, at| {
        "wire_tx_bps": Rate, "bit/s", "packets sent from it, with preamble and gap; the share of its class in its port's link" = {
            let queue = &bin.world.fabric.queues[at];
            queue.tx_bytes + queue.tx_packets * u64::from(PREAMBLE_AND_GAP_BYTES)
        };
        "queue_mean_bytes": Mean, "bytes", "bytes waiting, weighted by time" = {
            let queue = &mut bin.world.fabric.queues[at];
            queue.over_time.take_mean((bin.now, bin.span), queue.bytes as u64)
        };
        "queue_max_bytes": Max, "bytes", "most bytes waiting" = {
            let queue = &mut bin.world.fabric.queues[at];
            std::mem::replace(&mut queue.max_bytes, queue.bytes) as f64
        };
    }
}

quantities! {
    /// What became of packets at an egress queue.
    MARKS of ["egress"], |bin, at| {
        "ecn_marked": Count ("ecn_marked_tc_#") [CeMark], "packets", "packets marked CE at it"
            = bin.world.fabric.marked[at];
        "dropped": Count keeps [Drop], "packets", "packets for it that were dropped" = bin.world.fabric.dropped[at][0];
    }
}

quantities! {
    /// What a peer's pauses do.
    PAUSED of ["send", "egress"], |bin, at| {
        "paused_share": Share keeps ("rx_prio#_pause_duration") [PfcPause], "share", "time for which the peer had it paused; the counter in us"
            = bin.world.fabric.pauses[at].paused_until(bin.now).0;
    }
}

quantities! {
    /// What a port holds its peer paused for.
    PAUSING of ["ingress", "nic-rx"], |bin, at| {
        "pausing_share": Share ("tx_prio#_pause_duration") [PfcXoff], "share", "time for which it held its peer paused; the counter in us"
            = bin.world.fabric.pausing[at].held_until(bin.now).0;
    }
}

quantities! {
    /// How full an ingress group is.
    INGRESS of ["ingress"], |bin, at| {
        "queue_mean_bytes": Mean, "bytes", "bytes of its packets that wait in egress queues, weighted by time" = {
            let group = &mut bin.world.fabric.groups[at];
            let bytes = group.bytes() as u64;
            group.over_time.take_mean((bin.now, bin.span), bytes)
        };
        "queue_max_bytes": Max, "bytes", "most bytes of its packets that wait" = {
            let group = &mut bin.world.fabric.groups[at];
            let bytes = group.bytes();
            std::mem::replace(&mut group.max_bytes, bytes) as f64
        };
        "xoff_bytes": Now, "bytes", "its threshold at the end of the bin" = xoff(&bin.world.fabric, at);
    }
}

quantities! {
    /// What an ingress group refused.
    REFUSED of ["ingress"], |bin, at| {
        "dropped": Count keeps [Drop], "packets", "packets that its headroom had no room for" = bin.world.fabric.dropped[at][1];
    }
}

quantities! {
    /// What a host has to send in a class.
    SEND of ["send"], |bin, at| {
        "queue_mean_bytes": Now, "bytes", "posted and not yet sent, at the end of the bin" = {
            let (port, class) = port_and_class(at);
            bin.world.nics[bin.world.fabric.ports[port].owner as usize].backlog_bytes[class as usize] as f64
        };
        "queue_max_bytes": Max, "bytes", "the same" = {
            let (port, class) = port_and_class(at);
            bin.world.nics[bin.world.fabric.ports[port].owner as usize].backlog_bytes[class as usize] as f64
        };
    }
}

fn xoff(fabric: &Fabric, at: usize) -> f64 {
    let (port, class) = port_and_class(at);
    let switch = &fabric.switches[fabric.ports[port].owner as usize - fabric.hosts];
    switch.ingress_threshold(switch.pool(class)) as f64
}

counters! {
    /// Frames of a class, from address to FCS.
    FRAMES of ["port"], |fabric: Fabric, at| {
        "tx_prio#_packets": "packets", "frames sent; PFC frames belong to no priority" = fabric.queues[at].tx_packets;
        "tx_prio#_bytes": "bytes", "bytes sent, from address to FCS" = fabric.queues[at].tx_bytes;
        "rx_prio#_packets": "packets", "frames received" = fabric.groups[at].rx_packets;
        "rx_prio#_bytes": "bytes", "bytes received, from address to FCS" = fabric.groups[at].rx_bytes;
        "rx_prio#_pause": "packets", "PFC frames received: pauses, repeats and resumes" = fabric.pauses[at].frames;
        "rx_prio#_pause_transition": "changes", "changes from paused to running" = fabric.pauses[at].transitions;
        "tx_prio#_pause": "packets", "PFC frames sent" = fabric.pausing[at].frames;
    }
}

counters! {
    /// What a switch had no buffer for.
    DISCARDS of ["switch port"], |fabric: Fabric, at| {
        "tc_no_buffer_discard_uc_tc_#": "packets", "packets dropped because there was no buffer for them: for this egress queue, or of a lossless group of this port"
            = dropped(fabric, at, DropReason::lacks_buffer);
        "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS:#": "packets", "packets that came by this port and were dropped there"
            = dropped(fabric, at, DropReason::is_ingress);
        "SAI_QUEUE_STAT_DROPPED_PACKETS:#": "packets", "packets dropped at this egress queue; what a link loses is none of them"
            = dropped(fabric, at, |reason| !reason.is_ingress() && !reason.was_on_link());
    }
}

counters! {
    /// What a switch trimmed, as SONiC's counters database has it.
    TRIMS of ["switch port"], |fabric: Fabric, at| {
        "SAI_QUEUE_STAT_TRIM_PACKETS:#": "packets", "packets of this egress queue that were trimmed: dropped, and their headers went on"
            = dropped(fabric, at, |reason| reason == DropReason::Trimmed);
    }
}

counters! {
    /// The most that an ingress group ever held, as SONiC's counters database has it.
    WATERMARKS of ["switch port"], |fabric: Fabric, at| {
        "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES:#": "bytes", "most bytes of the shared buffer that its packets held"
            = fabric.groups[at].max_shared as u64;
        "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES:#": "bytes", "most bytes of its headroom that its packets held"
            = fabric.groups[at].max_headroom as u64;
    }
}

counters! {
    /// What a PFC watchdog did, as SONiC's counters database has it, by queue.
    WATCHDOG of ["switch port"], |fabric: Fabric, at| {
        "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED:#": "storms", "pause storms that the PFC watchdog detected"
            = fabric.watchdogs.get(&at).map_or(0, |watchdog| watchdog.detected);
        "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED:#": "storms", "pause storms of them that are over"
            = fabric.watchdogs.get(&at).map_or(0, |watchdog| watchdog.restored);
        "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS:#": "packets", "packets that waited at the port, or came for it, in a pause storm"
            = dropped(fabric, at, |reason| reason.is_pause_storm() && reason != DropReason::PauseStormIngress);
        "PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS:#": "packets", "packets that came from the port in a pause storm"
            = dropped(fabric, at, |reason| reason == DropReason::PauseStormIngress);
    }
}

/// Packets dropped at a lane for some of the reasons.
pub(super) fn dropped(fabric: &Fabric, at: usize, counts: fn(DropReason) -> bool) -> u64 {
    let Some(drops) = fabric.drops.get(at) else { return 0 };
    let tallies = drops.iter().zip(DropReason::ALL);
    tallies.filter(|&(_, reason)| counts(reason)).map(|(tally, _)| tally.packets).sum()
}
