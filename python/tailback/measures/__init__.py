"""Named measures on a run, a file for each subject: one definition each, used by the summary, the report and
the published claims alike.

A measure is a function of a `Recorded` run and keyword parameters that gives one float; NaN means "cannot be
said of this run" (no sender, never converged, run too short). `since` tells where the measured span begins:
"start" (0 s), "all_started" (the start of the last flow), "settled" (`SETTLING_S` after that), "convergence"
(`convergence_time`) or a number of seconds. The span ends where the first flow ends, or with the run, unless
the measure says otherwise.

A *sender* is a host that posts messages; per-sender figures are the payload delivered in order at the
receivers. `item` (the name of a traffic item, such as tcp1) and `protocol` ("roce" or "tcp") keep that part
of the traffic; with neither, all of it counts.
"""

from tailback.measures import (
    bridge,
    collectives,
    counters,
    host_path,
    hosts,
    jobs,
    rate_limits,
    shares,
    veth,
)
from tailback.measures.fairness import (
    jain,
    jain_index,
    min_max_ratio,
    sender_goodputs,
    sender_variation,
)
from tailback.measures.losses import (
    arrived_marked_packets,
    arrived_packets,
    cnps,
    delay_probes,
    dropped_packets,
    failed_flows,
    last_nak,
    marked_packets,
    naks,
    naks_after_last_start,
    retransmitted_share,
    windows_with_drops,
    windows_with_naks,
)
from tailback.measures.pauses import (
    largest_pause_share,
    last_pause,
    pause_frames,
    pause_share,
    pauses_after_last_start,
)
from tailback.measures.queues import (
    Standing,
    standing_queue,
    standing_queue_bytes,
)
from tailback.measures.registry import (
    MEASURES,
    NAN,
    Measure,
    measure,
)
from tailback.measures.spans import (
    SETTLING_S,
    STEADY_WINDOW_S,
    Since,
    convergence_time,
    first_end,
    last_start,
    since_s,
    span,
)
from tailback.measures.throughput import (
    capacity,
    goodput_of_ideal,
    goodput_of_line_rate,
    goodput_variation,
    ideal_payload_share,
    line_rate,
    link_utilisation,
    total_goodput,
)

__all__ = [
    "MEASURES",
    "NAN",
    "SETTLING_S",
    "STEADY_WINDOW_S",
    "Measure",
    "Since",
    "Standing",
    "arrived_marked_packets",
    "arrived_packets",
    "bridge",
    "capacity",
    "cnps",
    "collectives",
    "convergence_time",
    "counters",
    "delay_probes",
    "dropped_packets",
    "failed_flows",
    "first_end",
    "goodput_of_ideal",
    "goodput_of_line_rate",
    "goodput_variation",
    "host_path",
    "hosts",
    "ideal_payload_share",
    "jain",
    "jain_index",
    "jobs",
    "largest_pause_share",
    "last_nak",
    "last_pause",
    "last_start",
    "line_rate",
    "link_utilisation",
    "marked_packets",
    "measure",
    "min_max_ratio",
    "naks",
    "naks_after_last_start",
    "pause_frames",
    "pause_share",
    "pauses_after_last_start",
    "rate_limits",
    "retransmitted_share",
    "sender_goodputs",
    "sender_variation",
    "shares",
    "since_s",
    "span",
    "standing_queue",
    "standing_queue_bytes",
    "total_goodput",
    "veth",
    "windows_with_drops",
    "windows_with_naks",
]
