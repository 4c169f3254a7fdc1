"""All remedies, those first that most often gain most."""

from __future__ import annotations

from tailback.explain.remedies import (
    bridge_cores,
    ecn,
    expected_dscp,
    faster_stage,
    headroom_auto,
    host_taken_out,
    idle_nic,
    longer_timers,
    no_loss,
    other_routes,
    own_class,
    pfc,
    repaired_link,
    settings_of_hosts,
    tolerates_reordering,
)

ALL_REMEDIES = [
    one.remedies
    for one in (
        faster_stage,
        host_taken_out,
        ecn,
        headroom_auto,
        repaired_link,
        no_loss,
        other_routes,
        idle_nic,
        own_class,
        expected_dscp,
        pfc,
        longer_timers,
        tolerates_reordering,
        settings_of_hosts,
        bridge_cores,
    )
]
