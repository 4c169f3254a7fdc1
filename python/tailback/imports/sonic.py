"""The switch part of a scenario from SONiC's config_db.json.

One switch for all: where ports differ, the value that most of them have. What the model has no place for, and
what was left out, is listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback.imports.tables import Tables, numbers
from tailback.scenario import loads

_READ = (
    *("PORT", "BUFFER_POOL", "BUFFER_PROFILE", "BUFFER_PG", "BUFFER_QUEUE", "WRED_PROFILE", "QUEUE"),
    *("PORT_QOS_MAP", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP"),
    *("MAP_PFC_PRIORITY_TO_QUEUE", "SCHEDULER", "PFC_WD", "DEVICE_METADATA"),
)
_ECN_OFF = ("ecn_none", "")
_MOST_HOSTS = 1024
_ALPHAS = range(-10, 11)


@dataclass
class _Switch:
    """What goes into the scenario."""

    lines: list[tuple[int, str, str]]
    """Of `switch`: depth, text, and where it comes from."""
    rate_mbps: int | None
    ports: int
    marks: dict[int, int]
    """DSCPs of lossless classes, where they are not the usual ones."""

    def put(self, depth: int, text: str, source: str = "") -> None:
        self.lines.append((depth, text, source))


def sonic(path: Path) -> str:
    """A scenario as YAML: the switch of `path`, a host for each port, and a first traffic to replace.

    It loads as it is. What is not honoured is listed in comments at its end.

    Raises:
        ScenarioError: the file is no config_db.json, or what it says makes no scenario; one line each.
    """
    tables = Tables(path)
    ports = _ports(tables)
    switch = _Switch([], tables.most("PORT speed", ports.values()), len(ports), {})
    lossless = _classes(tables, switch)
    _buffers(tables, switch, lossless)
    _marks(tables, switch)
    _schedulers(tables, switch)
    _watchdog(tables, switch)
    others = sorted(name for name in tables.data if name not in _READ)
    if others:
        tables.leave(f"tables that say nothing of queues: {', '.join(others)}")
    text = _yaml(tables, switch)
    loads(text, label=f"the scenario made from {path.name}")
    return text


def _ports(tables: Tables) -> dict[str, int]:
    """Speeds of the ports in Mbit/s, without those that are down."""
    found = {}
    for name, port in tables.entries("PORT").items():
        if port.get("admin_status") == "down":
            tables.leave("PORT: those with admin_status down")
            continue
        speed = tables.number("PORT", name, "speed", port)
        if speed is not None:
            found[name] = speed
    return found


def _classes(tables: Tables, switch: _Switch) -> list[int]:
    """Trust, classes and lossless priorities; gives the latter."""
    maps = {key: entry for key, entry in tables.entries("PORT_QOS_MAP").items() if key != "global"}

    def chosen(field: str) -> str:
        values = [str(entry[field]) for entry in maps.values() if field in entry]
        return str(tables.most(f"PORT_QOS_MAP {field}", values) or "").strip("[]").rpartition("|")[2]

    lossless = numbers(chosen("pfc_enable"))
    name = chosen("dscp_to_tc_map")
    to_queue = tables.mapping("TC_TO_QUEUE_MAP", chosen("tc_to_queue_map"), 7)
    to_group = tables.mapping("TC_TO_PRIORITY_GROUP_MAP", chosen("tc_to_pg_map"), 7)
    of_pause = tables.mapping("MAP_PFC_PRIORITY_TO_QUEUE", chosen("pfc_to_queue_map"), 7)
    if name:
        source = f"PORT_QOS_MAP, DSCP_TO_TC_MAP|{name}"
        classes = tables.mapping("DSCP_TO_TC_MAP", name, 63)
        other = {dscp: to_queue.get(tc, tc) for dscp, tc in sorted(classes.items())}
        shown = ", ".join(f"{dscp}: {tc}" for dscp, tc in other.items() if tc != dscp >> 3)
        switch.put(1, "qos:")
        switch.put(2, "trust: dscp", source)
        if shown:
            switch.put(2, f"dscp: {{{shown}}}", source)
        switch.marks = {dscp: tc for dscp, tc in other.items() if tc in lossless and tc != dscp >> 3}
    for tc in lossless:
        if to_group.get(tc, tc) != to_queue.get(tc, tc) or of_pause.get(tc, tc) != to_queue.get(tc, tc):
            tables.leave(
                f"TC_TO_PRIORITY_GROUP_MAP, MAP_PFC_PRIORITY_TO_QUEUE: class {tc} has a priority group or a "
                "pause of another number than its queue"
            )
    if maps:
        switch.put(1, f"lossless: {lossless}", "PORT_QOS_MAP pfc_enable")
    for field in ("dot1p_to_tc_map", "tc_to_dscp_map", "dscp_to_fc_map", "exp_to_fc_map", "scheduler"):
        if any(field in entry for entry in maps.values()):
            tables.leave(f"PORT_QOS_MAP {field}")
    return lossless


def _buffers(tables: Tables, switch: _Switch, lossless: list[int]) -> None:
    """Pools, thresholds and headroom."""
    groups = [
        str(entry.get("profile", "")).strip("[]").rpartition("|")[2]
        for _, group, entry in tables.by_class("BUFFER_PG")
        if group in lossless
    ]
    name = tables.most("BUFFER_PG profile of lossless groups", [name for name in groups if name])
    profile = tables.entry("BUFFER_PROFILE", name) if name else None
    headroom = None
    if profile is not None:
        headroom = tables.number("BUFFER_PROFILE", name, "xoff", profile)
    elif lossless:
        tables.leave(
            "BUFFER_PG: no profile of a lossless group in the file (dynamic model): headroom is auto"
        )
    pool = tables.entries("BUFFER_POOL").get("ingress_lossless_pool")
    size = None if pool is None else tables.number("BUFFER_POOL", "ingress_lossless_pool", "size", pool)
    if pool is not None and size:
        kept = (headroom or 0) * switch.ports * len(lossless)
        if headroom is not None or not lossless:
            switch.put(1, f"shared: {size}B", "BUFFER_POOL|ingress_lossless_pool size")
            switch.put(
                1, f"buffer: {size + kept}B", "shared, and headroom of each port and lossless priority"
            )
        else:
            switch.put(1, f"buffer: {size}B", "BUFFER_POOL|ingress_lossless_pool size; headroom is in it")
        if "xoff" in pool:
            tables.leave(
                "BUFFER_POOL|ingress_lossless_pool xoff: headroom that all ports share; each has its own here"
            )
    if tables.entries("BUFFER_POOL").get("ingress_lossy_pool"):
        tables.leave("BUFFER_POOL|ingress_lossy_pool: lossy packets are in the one shared buffer")
    if profile is not None:
        _group(tables, switch, name, profile)
    lossy = tables.entries("BUFFER_PROFILE").get("egress_lossy_profile", {})
    _alpha(
        tables, "egress_lossy_profile", lossy, lambda alpha, at: switch.put(1, f"egress_alpha: {alpha}", at)
    )
    if "static_th" in tables.entries("BUFFER_PROFILE").get("egress_lossless_profile", {}):
        tables.leave(
            "BUFFER_PROFILE|egress_lossless_profile static_th: lossless packets leave without a limit"
        )


def _group(tables: Tables, switch: _Switch, name: str, profile: dict[str, Any]) -> None:
    """Thresholds of lossless priority groups."""
    at = f"BUFFER_PROFILE|{name}"
    _alpha(tables, name, profile, lambda alpha, source: switch.put(1, f"ingress_alpha: {alpha}", source))
    found = {
        field: tables.number("BUFFER_PROFILE", name, field, profile)
        for field in ("xoff", "xon", "xon_offset", "static_th", "size")
    }
    lines = []
    if found["xoff"]:
        lines.append((f"headroom: {found['xoff']}B", f"{at} xoff"))
    if found["static_th"]:
        lines.append((f"xoff: {found['static_th']}B", f"{at} static_th"))
    if found["xon_offset"]:
        lines.append((f"xon_offset: {found['xon_offset']}B", f"{at} xon_offset"))
        if found["xon"]:
            tables.leave(f"{at} xon: beside xon_offset")
    elif found["xon"]:
        lines.append((f"xon: {found['xon']}B", f"{at} xon"))
    if found["size"]:
        tables.leave(f"{at} size: nothing is reserved for single groups")
    if lines:
        switch.put(1, "pfc:")
        for text, source in lines:
            switch.put(2, text, source)


def _alpha(tables: Tables, name: str, profile: dict[str, Any], put: Callable[[float, str], None]) -> None:
    """alpha is 2 to the power of dynamic_th (SAI_BUFFER_PROFILE_ATTR_SHARED_DYNAMIC_TH)."""
    power = tables.number("BUFFER_PROFILE", name, "dynamic_th", profile)
    if power is None:
        return
    if power not in _ALPHAS:
        tables.leave(f"BUFFER_PROFILE|{name} dynamic_th {power}: not within -10 to 10")
        return
    put(2.0**power, f"BUFFER_PROFILE|{name} dynamic_th {power}: 2^{power}")


def _marks(tables: Tables, switch: _Switch) -> None:
    """ECN by WRED profiles of queues."""
    of_profile: dict[str, list[int]] = {}
    for _, queue, entry in tables.by_class("QUEUE"):
        name = str(entry.get("wred_profile", "")).strip("[]").rpartition("|")[2]
        if name:
            of_profile.setdefault(name, []).append(queue)
    profiles = []
    for name, queues in of_profile.items():
        profile = tables.entry("WRED_PROFILE", name)
        if profile is None:
            continue
        if profile.get("ecn", "") in _ECN_OFF:
            tables.leave(f"WRED_PROFILE|{name}: drops of WRED; without ecn nothing is marked")
            continue
        if profile["ecn"] not in ("ecn_all", "ecn_green"):
            tables.leave(f"WRED_PROFILE|{name} ecn {profile['ecn']}: green packets are not marked")
            continue
        field = {
            field: tables.number("WRED_PROFILE", name, f"green_{field}", profile)
            for field in ("min_threshold", "max_threshold", "drop_probability")
        }
        if field["min_threshold"] is None or field["max_threshold"] is None:
            tables.leave(f"WRED_PROFILE|{name}: no green thresholds")
            continue
        if any(
            profile.get(f"{colour}_{end}", profile[f"green_{end}"]) != profile[f"green_{end}"]
            for colour in ("yellow", "red")
            for end in ("min_threshold", "max_threshold")
        ):
            tables.leave(f"WRED_PROFILE|{name}: thresholds of yellow and red packets; all are green")
        most = (100 if field["drop_probability"] is None else field["drop_probability"]) / 100
        profiles.append((name, sorted(set(queues)), field["min_threshold"], field["max_threshold"], most))
    if not profiles:
        switch.put(1, "ecn: null", "no queue has a WRED_PROFILE with ecn")
        return
    for number, (name, queues, low, high, most) in enumerate(profiles):
        source = f"WRED_PROFILE|{name}"
        if number == 1:
            switch.put(1, "ecn_by_priority:")
        if number == 0:
            switch.put(1, "ecn:")
        head = "  - " if number else ""
        depth = 1 if number else 2
        rest = "    " if number else ""
        switch.put(depth, f"{head}k_min: {low}B", f"{source} green_min_threshold")
        switch.put(depth, f"{rest}k_max: {high}B", f"{source} green_max_threshold")
        switch.put(depth, f"{rest}p_max: {most:g}", f"{source} green_drop_probability")
        switch.put(depth, f"{rest}priorities: {queues}", f"QUEUE with {name}")


def _schedulers(tables: Tables, switch: _Switch) -> None:
    """Strict queues, and weights of the others."""
    of_queue: dict[int, list[str]] = {}
    for _, queue, entry in tables.by_class("QUEUE"):
        name = str(entry.get("scheduler", "")).strip("[]").rpartition("|")[2]
        if name:
            of_queue.setdefault(queue, []).append(name)
    strict, weights = [], {}
    for queue, names in sorted(of_queue.items()):
        name = tables.most(f"QUEUE {queue} scheduler", names)
        scheduler = tables.entry("SCHEDULER", name)
        if scheduler is None:
            continue
        if scheduler.get("type") == "STRICT":
            strict.append(queue)
        else:
            weights[queue] = max(1, tables.number("SCHEDULER", name, "weight", scheduler) or 1)
        if "pir" in scheduler or "cir" in scheduler:
            tables.leave(f"SCHEDULER|{name}: shaping (cir, pir)")
    if of_queue:
        switch.put(1, f"strict: {strict}", "SCHEDULER type STRICT")
    if weights:
        shares = _per_cent(weights)
        shown = ", ".join(f"{queue}: {share}" for queue, share in shares.items())
        switch.put(1, f"weights: {{{shown}}}", "SCHEDULER weight, in %")


def _per_cent(weights: dict[int, int]) -> dict[int, int]:
    """Whole shares of at least 1 that add up to 100, the largest remainders first."""
    total, room = sum(weights.values()), 100 - len(weights)
    exact = {queue: room * weight / total for queue, weight in weights.items()}
    shares = {queue: 1 + int(share) for queue, share in exact.items()}
    order = sorted(exact, key=lambda queue: (int(exact[queue]) - exact[queue], queue))
    for queue in order[: 100 - sum(shares.values())]:
        shares[queue] += 1
    return shares


def _watchdog(tables: Tables, switch: _Switch) -> None:
    """PFC's watchdog, its times in ms."""
    entries = {key: entry for key, entry in tables.entries("PFC_WD").items() if key != "GLOBAL"}
    if "POLL_INTERVAL" in tables.entries("PFC_WD").get("GLOBAL", {}):
        tables.leave("PFC_WD|GLOBAL POLL_INTERVAL: a pause storm is noticed at once after its detection_time")
    times = [
        (
            tables.number("PFC_WD", key, "detection_time", entry),
            tables.number("PFC_WD", key, "restoration_time", entry),
            str(entry.get("action", "drop")),
        )
        for key, entry in entries.items()
    ]
    found = tables.most("PFC_WD", times)
    if found is None:
        return
    detection, restoration, action = found
    if action != "drop":
        tables.leave(f"PFC_WD action {action}: the watchdog of the model drops; it is off here")
        return
    shown = [f"detection_time: {detection}ms"] if detection else []
    shown += [f"restoration_time: {restoration}ms"] if restoration else []
    switch.put(1, f"watchdog: {{{', '.join(shown)}}}", "PFC_WD")


def _yaml(tables: Tables, switch: _Switch) -> str:
    """The scenario as text."""
    metadata = tables.entries("DEVICE_METADATA").get("localhost", {})
    hostname = re.sub(r"[^A-Za-z0-9._-]", "-", str(metadata.get("hostname", "sonic")))[:64].lstrip("._-")
    hosts = min(max(switch.ports, 2), _MOST_HOSTS)
    rate = "" if switch.rate_mbps is None else f", link: {{rate: {switch.rate_mbps}Mbps}}"
    marks = ", ".join(f"{dscp}: {tc}" for dscp, tc in switch.marks.items())
    first = next(iter(switch.marks.items()), None)
    traffic = "" if first is None else f", priority: {first[1]}, dscp: {first[0]}"
    width = max([len(text) + 2 * depth for depth, text, source in switch.lines if source], default=0)
    lines = [
        f"name: {hostname or 'sonic'}",
        "run: {duration: 10ms}",
        f"topology: {{kind: star, hosts: {hosts}{rate}}}  # PORT; replace it",
        "switch:" if switch.lines else "switch: {}",
        *(
            f"{'  ' * depth + text:<{min(width, 60)}}{f'  # {source}' if source else ''}"
            for depth, text, source in switch.lines
        ),
        *([f"host: {{qos: {{dscp: {{{marks}}}}}}}  # as the switch has it"] if marks else []),
        "traffic:",
        f"  - {{kind: write, from: h0, to: h1{traffic}}}  # replace it",
        *(["# Not honoured:"] if tables.not_honoured else []),
        *(f"# - {what}" for what in tables.not_honoured),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"
