"""Makes the switch of a scenario from SONiC's config_db.json.

Where ports differ, the value that most of them have is used. Settings that the model does not have are listed, and
so are missing settings that the model needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tailback.errors import InputError, Problem, one_line
from tailback.imports.tables import READ_TABLES, Entry, Tables
from tailback.scenario import Scenario, loads
from tailback.scenario.headroom import headrooms, reserved
from tailback.text import plural, verb
from tailback.units import format_duration, format_rate, format_size

_OF_QUEUES = re.compile(r"BUFFER|QUEUE|QOS|_TO_|PFC|WRED|SCHEDULER|POLICER|TRIMMING|LOSSLESS")
"""Names of tables that say something of queues, as SONiC's schema has them; those that are not read are named."""
_ECN_OFF = ("ecn_none", "")
_MAX_HOSTS = 1024
_ALPHA_EXPONENTS = range(-10, 11)
_WATCHDOG_KEYS = ("detection_time", "restoration_time")
CABLE_PS_PER_METRE = 5000
"""SONiC's buffer_headroom_mellanox.lua: 5 ns per metre."""


@dataclass
class SonicSwitch:
    """The settings of a switch, as lines of a scenario."""

    rate_mbps: int | None
    ports: int
    cable_m: int | None
    lossless: list[int] = field(default_factory=list)
    lines: list[tuple[int, str, str]] = field(default_factory=list)
    """Lines of the section `switch`: depth, text, and source."""
    marks: dict[int, int] = field(default_factory=dict)
    """DSCPs of lossless classes, if they are not the class selectors."""
    absent: list[str] = field(default_factory=list)
    """Settings that the file does not have, with the values of the scenario."""

    def put(self, depth: int, text: str, source: str = "") -> None:
        self.lines.append((depth, text, one_line(source)))


def read(path: Path, also_read: tuple[str, ...] = ()) -> tuple[Tables, SonicSwitch]:
    """The tables of a config_db.json, and the settings of its switch. `also_read` are tables that the caller reads.

    Raises:
        InputError: the file is not a config_db.json; the line has the table and key of the file.
    """
    tables = Tables(path)
    switch = _ports(tables)
    _classes(tables, switch)
    _buffers(tables, switch)
    _marks(tables, switch)
    _schedulers(tables, switch)
    _watchdog(tables, switch)
    others = sorted(name for name in tables.data if name not in (*READ_TABLES, *also_read))
    unread = [name for name in others if _OF_QUEUES.search(name)]
    if unread:
        tables.not_honour(f"tables of classes, queues and buffers that are not read: {', '.join(unread)}")
    others = [name for name in others if name not in unread]
    if others:
        tables.not_honour(f"tables that say nothing of queues: {', '.join(others)}")
    return tables, switch


def sonic(path: Path) -> str:
    """Makes a scenario as YAML: the switch of `path`, a host for each port, and traffic to be replaced.

    It loads as it is. Comments at its end list settings that are not honoured, and settings that the file lacks.

    Raises:
        InputError: the file is not a config_db.json, or its values do not make a valid scenario; each line has the
            table and key of the file.
    """
    tables, switch = read(path)
    lines = _yaml(tables, switch)
    scenario = _loaded(path, lines)
    lines += _absent(switch, scenario)
    lines += [("# Not honoured:", "")] if tables.not_honoured else []
    lines += [(f"# - {what}", "") for what in tables.not_honoured]
    return "\n".join(text.rstrip() for text, _ in lines) + "\n"


def _loaded(path: Path, lines: list[tuple[str, str]]) -> Scenario:
    """Loads the scenario; problems name the table that the line comes from."""
    try:
        return loads("\n".join(text for text, _ in lines), label="scenario")
    except InputError as error:
        problems = []
        for problem in error.problems:
            number = problem.place.rpartition(":")[2]
            source = lines[int(number) - 1][1] if number.isdigit() else ""
            text = f"{source or problem}: {problem.text}" if source else str(problem)
            problems.append(Problem(str(path), (), text))
        raise InputError(problems) from None


def _ports(tables: Tables) -> SonicSwitch:
    """Ports that are up, with the speed and the cable of most."""
    ports = tables.entries("PORT")
    names = sorted(tables.up or ())
    speeds = []
    for name in names:
        speed = tables.number("PORT", name, "speed", ports[name])
        if speed is not None:
            speeds.append((name, speed))
    if any(ports[name].get("pfc_asym") == "on" for name in names):
        tables.not_honour(
            "PORT pfc_asym on: a switch sends pauses and obeys them for the same priorities here"
        )
    named = set(names) or tables.ports_named()
    cables = []
    for key, entry in tables.entries("CABLE_LENGTH").items():
        for name, length in entry.items():
            metres = re.fullmatch(r"([0-9]{1,9})m", str(length))
            if metres is None:
                tables.refuse(f"CABLE_LENGTH|{key}.{name}", repr(str(length)[:40]), "metres such as 40m")
            if int(metres[1]) and (name in named or not names):
                cables.append((name, int(metres[1])))
    found = SonicSwitch(
        tables.most_common("PORT speed", speeds), len(named), tables.most_common("CABLE_LENGTH", cables)
    )
    if not named:
        found.absent.append("ports: 2 hosts")
    elif not names:
        found.absent.append(
            f"the table PORT: {plural(len(named), 'port')} {verb(len(named), 'is', 'are')} named in others"
        )
    elif all(port.get("admin_status") != "up" for port in ports.values()):
        found.absent.append(
            f"PORT admin_status up: {verb(len(names), 'the one port is', f'all {len(names)} ports are')} taken as up"
        )
    elif len(names) < len(ports):
        tables.not_honour("PORT: those with admin_status down, or without one, for which SONiC takes down")
    return found


def _classes(tables: Tables, switch: SonicSwitch) -> None:
    """Trust, classes and lossless priorities."""
    maps = [(port, entry) for port, _, entry in tables.by_port("PORT_QOS_MAP")]
    for _, key, entry in tables.by_port("PORT_QOS_MAP"):
        _priorities(tables, key, str(entry.get("pfc_enable", "")))

    def chosen(field: str) -> str:
        values = [(port, str(entry[field])) for port, entry in maps if field in entry]
        return str(tables.most_common(f"PORT_QOS_MAP {field}", values) or "").strip("[]").rpartition("|")[2]

    switch.lossless = lossless = _priorities(tables, "", chosen("pfc_enable"))
    name = chosen("dscp_to_tc_map")
    to_queue = tables.mapping("TC_TO_QUEUE_MAP", chosen("tc_to_queue_map"), 7)
    to_group = tables.mapping("TC_TO_PRIORITY_GROUP_MAP", chosen("tc_to_pg_map"), 7)
    of_pause = tables.mapping("MAP_PFC_PRIORITY_TO_QUEUE", chosen("pfc_to_queue_map"), 7)
    if name:
        source = f"PORT_QOS_MAP, DSCP_TO_TC_MAP|{name}"
        classes = tables.mapping("DSCP_TO_TC_MAP", name, 63)
        class_of = {dscp: to_queue.get(tc, tc) for dscp, tc in sorted(classes.items())}
        shown = ", ".join(f"{dscp}: {tc}" for dscp, tc in class_of.items() if tc != dscp >> 3)
        switch.put(1, "qos:")
        switch.put(2, "trust: dscp", source)
        if shown:
            switch.put(2, f"dscp: {{{shown}}}", source)
        switch.marks = {dscp: tc for dscp, tc in class_of.items() if tc in lossless and tc != dscp >> 3}
    for tc in lossless:
        if to_group.get(tc, tc) != to_queue.get(tc, tc) or of_pause.get(tc, tc) != to_queue.get(tc, tc):
            tables.not_honour(
                f"TC_TO_PRIORITY_GROUP_MAP, MAP_PFC_PRIORITY_TO_QUEUE: class {tc} has a priority group or a "
                "pause of another number than its queue"
            )
    if lossless:
        switch.put(1, f"lossless: {lossless}", "PORT_QOS_MAP pfc_enable")
    elif not tables.entries("PORT_QOS_MAP"):
        switch.put(1, "lossless: []", "no PORT_QOS_MAP in the file: without it SONiC sends and obeys no PFC")
        switch.absent.append("the table PORT_QOS_MAP: no class is lossless")
    else:
        switch.put(
            1, "lossless: []", "no pfc_enable in PORT_QOS_MAP of a class of 0 to 7: SONiC sends no PFC"
        )
    for other in ("dot1p_to_tc_map", "tc_to_dscp_map", "dscp_to_fc_map", "exp_to_fc_map", "scheduler"):
        if any(other in entry for _, entry in maps):
            tables.not_honour(f"PORT_QOS_MAP {other}")


def _priorities(tables: Tables, key: str, text: str) -> list[int]:
    """Priorities as in `3,4`; those above 7 are left out, as classes are."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(re.fullmatch(r"[0-9]{1,19}", part) for part in parts):
        tables.refuse(f"PORT_QOS_MAP|{key}.pfc_enable", repr(text[:40]), "priorities such as 3,4")
    if any(int(part) > 7 for part in parts):
        tables.not_honour("PORT_QOS_MAP pfc_enable: priorities above 7")
    return sorted({int(part) for part in parts if int(part) <= 7})


def _buffers(tables: Tables, switch: SonicSwitch) -> None:
    """Pools, thresholds and headroom."""
    lossless = set(switch.lossless)
    name = _profile(tables, "BUFFER_PG", "lossless groups", lossless)
    profile = tables.entry("BUFFER_PROFILE", name) if name else None
    if name is not None and profile is not None:
        _group(tables, switch, name, profile)
    elif lossless:
        tables.not_honour(
            "BUFFER_PG: no profile of a lossless group in the file (SONiC computes it): headroom is auto, "
            "for the speed and the cable"
        )
        _default_alpha(tables, switch)
    _pools(tables, switch, profile)
    lossy = _profile(tables, "BUFFER_QUEUE", "lossy queues", set(range(8)) - lossless)
    if lossy is None and "egress_lossy_profile" in tables.entries("BUFFER_PROFILE"):
        lossy = "egress_lossy_profile"
    if lossy is not None and (entry := tables.entry("BUFFER_PROFILE", lossy)) is not None:
        _alpha(tables, lossy, entry, lambda alpha, at: switch.put(1, f"egress_alpha: {alpha}", at))
    out = _profile(tables, "BUFFER_QUEUE", "lossless queues", lossless) or "egress_lossless_profile"
    if "static_th" in tables.entries("BUFFER_PROFILE").get(out, {}):
        tables.not_honour(f"BUFFER_PROFILE|{out} static_th: lossless packets leave without a limit")


def _profile(tables: Tables, table: str, what: str, classes: set[int]) -> str | None:
    """The most common profile of groups or queues of these classes.

    SONiC gives zero profiles to ports that are not in use: they say nothing of a port that is.
    """
    names = [
        (port, str(entry.get("profile", "")).strip("[]").rpartition("|")[2])
        for port, number, entry in tables.by_class(table)
        if number in classes
    ]
    names = [(port, name) for port, name in names if name not in ("", "NULL")]
    profiles = tables.entries("BUFFER_PROFILE")
    used = [(port, name) for port, name in names if not _is_zero(name, profiles.get(name, {}))]
    if zero := len(names) - len(used):
        tables.not_honour(
            f"{table} profile of {what}: {zero} of {len(names)} {verb(zero, 'is a zero profile', 'are zero profiles')}, "
            "as ports that are not in use have"
        )
    found: str | None = tables.most_common(f"{table} profile of {what}", used)
    return found


def _is_zero(name: str, profile: Entry) -> bool:
    """True if a profile gives a port no memory: see the zero profiles of SONiC's
    cfgmgr/buffermgrdyn.cpp and of the zero_profiles.json of its platforms, which have size 0 with
    dynamic_th -8, the least that there is, or with static_th 0.
    """
    least = str(profile.get("dynamic_th")) == "-8" or str(profile.get("static_th")) == "0"
    return "_zero_" in name or (least and str(profile.get("size", "0")) == "0" and "xoff" not in profile)


def _default_alpha(tables: Tables, switch: SonicSwitch) -> None:
    """Alpha of the lossless profiles that SONiC's buffer manager computes."""
    for key, entry in tables.entries("DEFAULT_LOSSLESS_BUFFER_PARAMETER").items():
        at = f"DEFAULT_LOSSLESS_BUFFER_PARAMETER|{key}"
        power = tables.number("DEFAULT_LOSSLESS_BUFFER_PARAMETER", key, "default_dynamic_th", entry)
        if power is not None and power in _ALPHA_EXPONENTS:
            switch.put(1, f"ingress_alpha: {2.0**power}", f"{at} default_dynamic_th {power}: 2^{power}")
        if "over_subscribe_ratio" in entry:
            tables.not_honour(f"{at} over_subscribe_ratio")
        return


def _pools(tables: Tables, switch: SonicSwitch, profile: Entry | None) -> None:
    """Memory: what is shared, the headroom, and its pool."""
    ingress = {
        name: pool
        for name, pool in tables.entries("BUFFER_POOL").items()
        if pool.get("type") in ("ingress", "both", None)
    }
    for name, pool in ingress.items():
        for part in ("percentage", *(() if "size" in pool else ("xoff",))):
            if part in pool:
                tables.not_honour(f"BUFFER_POOL|{name} {part}: not without the size that SONiC computes")
    pools = {name: pool for name, pool in ingress.items() if "size" in pool}
    sizes = {name: tables.number("BUFFER_POOL", name, "size", pool) or 0 for name, pool in pools.items()}
    named = str((profile or {}).get("pool", "")).strip("[]").rpartition("|")[2]
    with_xoff = [name for name, pool in pools.items() if "xoff" in pool]
    by_name = [name for name in pools if "lossless" in name]
    first = next((name for name in (named, *with_xoff, *by_name, *sorted(sizes)) if name in pools), None)
    if first is None:
        return
    at = f"BUFFER_POOL|{first}"
    others = {name: size for name, size in sizes.items() if name != first and size > 0}
    lossy = next((name for name in others if "lossy" in name), None) if switch.lossless else None
    for name in others:
        if name != lossy:
            tables.not_honour(
                f"BUFFER_POOL|{name}: one pool for all, or one for lossless and one for lossy classes"
            )
    total = sizes[first] + (others[lossy] if lossy else 0)
    xoff = tables.number("BUFFER_POOL", first, "xoff", pools[first])
    switch.put(1, f"shared: {total}B", f"{at} size" + (f", and BUFFER_POOL|{lossy} size" if lossy else ""))
    if lossy:
        switch.put(
            1, f"pools: {{lossless: {sizes[first]}B, lossy: {others[lossy]}B}}", f"{at}, BUFFER_POOL|{lossy}"
        )
    if xoff:
        _pause(switch, f"headroom_pool: {xoff}B", f"{at} xoff: headroom that all ports share")
        kept, why = xoff, f"{at} size and xoff"
    else:
        kept, why = _headroom(switch), "shared, and headroom of each port and lossless priority"
    switch.put(1, f"buffer: {total + kept}B", why)


def _headroom(switch: SonicSwitch) -> int:
    """Total headroom of all ports and lossless priorities, with the lines so far."""
    draft = [
        "name: draft",
        *_topology(switch),
        "switch:",
        "  buffer: 64GiB",
        *(_line(*line) for line in switch.lines),
    ]
    return max(reserved(loads("\n".join([*draft, *_traffic(switch)]), label="draft")).values())


def _pause(switch: SonicSwitch, text: str, source: str) -> None:
    """Adds a line to `switch.pfc`."""
    if (1, "pfc:", "") not in switch.lines:
        switch.put(1, "pfc:")
    switch.lines.insert(switch.lines.index((1, "pfc:", "")) + 1, (2, text, one_line(source)))


def _group(tables: Tables, switch: SonicSwitch, name: str, profile: Entry) -> None:
    """Thresholds of lossless priority groups."""
    at = f"BUFFER_PROFILE|{name}"
    _alpha(tables, name, profile, lambda alpha, source: switch.put(1, f"ingress_alpha: {alpha}", source))
    found = {
        field: tables.number("BUFFER_PROFILE", name, field, profile)
        for field in ("xoff", "xon", "xon_offset", "static_th", "size")
    }
    if found["xon_offset"]:
        _pause(switch, f"xon_offset: {found['xon_offset']}B", f"{at} xon_offset")
        if found["xon"]:
            tables.not_honour(f"{at} xon: beside xon_offset")
    elif found["xon"]:
        _pause(switch, f"xon: {found['xon']}B", f"{at} xon")
    if found["static_th"]:
        _pause(switch, f"xoff: {found['static_th']}B", f"{at} static_th")
    if found["xoff"] is not None:
        _pause(switch, f"headroom: {found['xoff']}B", f"{at} xoff")
    if found["size"]:
        tables.not_honour(f"{at} size: nothing is reserved for single groups")


def _alpha(tables: Tables, name: str, profile: Entry, put: Callable[[float, str], None]) -> None:
    """alpha is 2 to the power of dynamic_th (SAI_BUFFER_PROFILE_ATTR_SHARED_DYNAMIC_TH)."""
    power = tables.number("BUFFER_PROFILE", name, "dynamic_th", profile)
    if power is None:
        return
    if power not in _ALPHA_EXPONENTS:
        tables.not_honour(f"BUFFER_PROFILE|{name} dynamic_th {power}: not within -10 to 10")
        return
    put(2.0**power, f"BUFFER_PROFILE|{name} dynamic_th {power}: 2^{power}")


def _marks(tables: Tables, switch: SonicSwitch) -> None:
    """ECN by WRED profiles of queues."""
    of_profile: dict[str, list[int]] = {}
    for queue, names in _of_queues(tables, "wred_profile").items():
        of_profile.setdefault(tables.most_common(f"QUEUE {queue} wred_profile", names), []).append(queue)
    profiles = []
    for name, queues in of_profile.items():
        profile = tables.entry("WRED_PROFILE", name)
        if profile is None:
            continue
        if profile.get("ecn", "") in _ECN_OFF:
            tables.not_honour(f"WRED_PROFILE|{name}: drops of WRED; without ecn nothing is marked")
            continue
        if profile["ecn"] not in ("ecn_all", "ecn_green"):
            tables.not_honour(f"WRED_PROFILE|{name} ecn {profile['ecn']}: green packets are not marked")
            continue
        field = {
            field: tables.number("WRED_PROFILE", name, f"green_{field}", profile)
            for field in ("min_threshold", "max_threshold", "drop_probability")
        }
        if field["min_threshold"] is None or field["max_threshold"] is None:
            tables.not_honour(f"WRED_PROFILE|{name}: no green thresholds")
            continue
        if field["min_threshold"] > field["max_threshold"]:
            tables.refuse(
                f"WRED_PROFILE|{name}.green_min_threshold",
                str(field["min_threshold"]),
                f"at most green_max_threshold, {field['max_threshold']}",
            )
        if field["drop_probability"] is not None and not 0 <= field["drop_probability"] <= 100:
            tables.refuse(
                f"WRED_PROFILE|{name}.green_drop_probability", str(field["drop_probability"]), "0 to 100 (%)"
            )
        if profile.get("wred_green_enable", "true") != "true":
            tables.not_honour(
                f"WRED_PROFILE|{name} wred_green_enable {profile['wred_green_enable']}: it marks here"
            )
        if any(
            profile.get(f"{colour}_{end}", profile[f"green_{end}"]) != profile[f"green_{end}"]
            for colour in ("yellow", "red")
            for end in ("min_threshold", "max_threshold")
        ):
            tables.not_honour(f"WRED_PROFILE|{name}: thresholds of yellow and red packets; all are green")
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


def _of_queues(tables: Tables, field: str) -> dict[int, list[tuple[str, str]]]:
    """The names in a field of QUEUE: for each queue, pairs of port and name."""
    found: dict[int, list[tuple[str, str]]] = {}
    for port, queue, entry in tables.by_class("QUEUE"):
        name = str(entry.get(field, "")).strip("[]").rpartition("|")[2]
        if name:
            found.setdefault(queue, []).append((port, name))
    return dict(sorted(found.items()))


def _schedulers(tables: Tables, switch: SonicSwitch) -> None:
    """Strict queues, and weights of the others."""
    of_queue = _of_queues(tables, "scheduler")
    strict, weights = [], {}
    for queue, names in sorted(of_queue.items()):
        name = tables.most_common(f"QUEUE {queue} scheduler", names)
        scheduler = tables.entry("SCHEDULER", name)
        if scheduler is None:
            continue
        if scheduler.get("type") == "STRICT":
            strict.append(queue)
        else:
            weight = tables.number("SCHEDULER", name, "weight", scheduler)
            if weight is not None and weight < 1:
                tables.refuse(f"SCHEDULER|{name}.weight", str(weight), "1 or more")
            weights[queue] = 1 if weight is None else weight
        if "pir" in scheduler or "cir" in scheduler:
            tables.not_honour(f"SCHEDULER|{name}: shaping (cir, pir)")
    if of_queue:
        switch.put(1, f"strict: {strict}", "SCHEDULER type STRICT")
    if weights:
        shares = _per_cent(weights)
        shown = ", ".join(f"{queue}: {share}" for queue, share in shares.items())
        switch.put(1, f"weights: {{{shown}}}", "SCHEDULER weight, in %")


def _per_cent(weights: dict[int, int]) -> dict[int, int]:
    """Integer shares of at least 1 that add up to 100; the largest remainders are rounded up."""
    total, room = sum(weights.values()), 100 - len(weights)
    exact = {queue: room * weight / total for queue, weight in weights.items()}
    shares = {queue: 1 + int(share) for queue, share in exact.items()}
    order = sorted(exact, key=lambda queue: (int(exact[queue]) - exact[queue], queue))
    for queue in order[: 100 - sum(shares.values())]:
        shares[queue] += 1
    return shares


def _watchdog(tables: Tables, switch: SonicSwitch) -> None:
    """PFC's watchdog, its times in ms."""
    if "POLL_INTERVAL" in tables.entries("PFC_WD").get("GLOBAL", {}):
        tables.not_honour(
            "PFC_WD|GLOBAL POLL_INTERVAL: a pause storm is noticed at once after its detection_time"
        )
    times = [
        (
            port,
            (
                tables.number("PFC_WD", key, "detection_time", entry),
                tables.number("PFC_WD", key, "restoration_time", entry),
                str(entry.get("action", "drop")),
            ),
        )
        for port, key, entry in tables.by_port("PFC_WD")
    ]
    found = tables.most_common("PFC_WD", times)
    if found is None:
        return
    *_, action = found
    if action != "drop":
        tables.not_honour(f"PFC_WD action {action}: the watchdog of the model drops; it is off here")
        return
    shown = [f"{name}: {time}ms" for name, time in zip(_WATCHDOG_KEYS, found, strict=False) if time]
    switch.put(1, f"watchdog: {{{', '.join(shown)}}}", "PFC_WD")


def _line(depth: int, text: str, _: str = "") -> str:
    return "  " * depth + text


def _topology(switch: SonicSwitch) -> list[str]:
    """The first lines of the scenario after its name."""
    hosts = min(max(switch.ports, 2), _MAX_HOSTS)
    link = {
        "rate": None if switch.rate_mbps is None else f"{switch.rate_mbps}Mbps",
        "delay": None if switch.cable_m is None else format_duration(switch.cable_m * CABLE_PS_PER_METRE),
    }
    shown = ", ".join(f"{key}: {value}" for key, value in link.items() if value is not None)
    link_text = f", link: {{{shown}}}" if shown else ""
    return ["run: {duration: 10ms}", f"topology: {{kind: star, hosts: {hosts}{link_text}}}"]


def _traffic(switch: SonicSwitch) -> list[str]:
    first = next(iter(switch.marks.items()), None)
    traffic = "" if first is None else f", priority: {first[1]}, dscp: {first[0]}"
    if first is None and switch.lossless and 3 not in switch.lossless:
        traffic = f", priority: {switch.lossless[0]}"
    marks = ", ".join(f"{dscp}: {tc}" for dscp, tc in switch.marks.items())
    return [
        *([f"host: {{qos: {{dscp: {{{marks}}}}}}}  # as the switch has it"] if marks else []),
        "traffic:",
        f"  - {{kind: write, from: h0, to: h1{traffic}}}  # replace it",
    ]


def _yaml(tables: Tables, switch: SonicSwitch) -> list[tuple[str, str]]:
    """The lines of the scenario, with the place in the file that each comes from."""
    metadata = tables.entries("DEVICE_METADATA").get("localhost", {})
    hostname = re.sub(r"[^A-Za-z0-9._-]", "-", str(metadata.get("hostname", "sonic")))[:64].lstrip("._-")
    width = min(max([len(_line(*line)) for line in switch.lines if line[2]], default=0), 60)
    run, topology = _topology(switch)
    return [
        (f"name: {hostname or 'sonic'}", "DEVICE_METADATA|localhost.hostname"),
        (run, ""),
        (f"{topology}  # PORT{'' if switch.cable_m is None else ', CABLE_LENGTH'}; replace it", "PORT"),
        ("switch:", ""),
        *(
            (f"{_line(*line):<{width}}{f'  # {line[2]}' if line[2] else ''}", line[2])
            for line in switch.lines
        ),
        *((text, "DSCP_TO_TC_MAP") for text in _traffic(switch)),
    ]


def _absent(switch: SonicSwitch, scenario: Scenario) -> list[tuple[str, str]]:
    """Comments on settings that the file lacks, with the defaults of the scenario."""
    return [
        ("# Not in the file, so with Tailback's defaults (`tailback show` has their sources):", ""),
        *((f"# - {text}", "") for text in missing(switch, scenario, scenario.network.switches[0])),
    ]


def missing(switch: SonicSwitch, scenario: Scenario, name: str) -> list[str]:
    """Settings that a file lacks, with what the switch `name` has of the scenario in their place."""
    given = "\n".join(text for _, text, _ in switch.lines)
    link, model = scenario.network.wires_of[name][0], scenario.switch_of[name]

    def alpha(value: float) -> str:
        return f"{value:g}"

    defaults = {
        "buffer": f"memory of the switch: {format_size(model.buffer)}",
        "ingress_alpha": f"dynamic_th of lossless groups: alpha {alpha(model.ingress_alpha)}",
        "egress_alpha": f"dynamic_th of lossy queues: alpha {alpha(model.egress_alpha)}",
        "strict": f"schedulers: strict {list(model.strict)}, the other queues in turns",
    }
    absent = list(switch.absent)
    if model.watchdog is not None:
        for name in _WATCHDOG_KEYS:
            if f"{name}:" not in given:
                absent.append(f"{name} of the watchdog: {format_duration(getattr(model.watchdog, name))}")
    if switch.rate_mbps is None:
        absent.append(f"speed of ports: {format_rate(link.rate)}")
    if switch.cable_m is None:
        absent.append(f"length of cables: {format_duration(link.delay)} on each")
    absent += [text for key, text in defaults.items() if f"{key}:" not in given]
    if switch.lossless and "headroom:" not in given:
        absent.append(f"headroom of lossless groups: auto, {format_size(_each(scenario))} for each")
    if "qos:" not in given:
        absent.append("map of DSCPs: class selectors")
    absent.append(f"pause time, latency: {model.pfc.quanta} quanta, {format_duration(model.latency)}")
    return absent


def _each(scenario: Scenario) -> int:
    return max(headrooms(scenario))
