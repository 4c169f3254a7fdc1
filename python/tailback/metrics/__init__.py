"""The metrics of a run, a file for each subject: each is declared once, with its unit, its place in summary.json, its
title in tables of several runs, and what findings say of it. See `tailback.metrics.metric`.

A metric is a function of a `Recorded` run and keyword parameters that gives one float; NaN means "cannot be
said of this run" (no sender, never converged, run too short). `since` tells where the measured span begins:
"start" (0 s), "all_started" (the start of the last flow), "settled" (`SETTLING_S` after that), "convergence"
(`convergence_time`), "steady" (the convergence, or 0 s where there was none) or a number of seconds. The span ends
where the first flow ends, or with the run, unless the metric says otherwise.

A *sender* is a host that posts messages; per-sender figures are the payload delivered in order at the
receivers. `item` (the name of a traffic item, such as tcp1) and `protocol` ("roce" or "tcp") keep that part
of the traffic; with neither, all of it counts.
"""

# Tables show main metrics in the order of these lines.
# isort: off
from tailback.metrics import (
    run,
    collectives,
    slowdown,
    throughput,
    fairness,
    tcp,
    cpu,
    losses,
    pauses,
    marks,
)
from tailback.metrics import queues, rate_limits, critical_path, bridge, veth, host_path, counted, settings
from tailback.metrics import jobs, links, spans

# isort: on
from tailback.metrics.finding import Finding, findings
from tailback.metrics.metric import (
    METRICS,
    Metric,
    in_words,
    main_metrics,
    metric,
    named,
    section,
    summarise,
    value_at,
)
from tailback.metrics.spans import Since

__all__ = [
    "METRICS",
    "Finding",
    "Metric",
    "Since",
    "bridge",
    "collectives",
    "counted",
    "cpu",
    "critical_path",
    "fairness",
    "findings",
    "host_path",
    "in_words",
    "jobs",
    "links",
    "losses",
    "main_metrics",
    "marks",
    "metric",
    "named",
    "pauses",
    "queues",
    "rate_limits",
    "run",
    "section",
    "settings",
    "slowdown",
    "spans",
    "summarise",
    "tcp",
    "throughput",
    "value_at",
    "veth",
]
