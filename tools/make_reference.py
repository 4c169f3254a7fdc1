"""Writes docs/reference: every setting of a scenario, and every assumption behind a run.

Both pages are made from what the program itself uses: the model of a scenario, the DCQCN profiles, and the
constants in the engine's sources.

    python tools/make_reference.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine_assumptions import CHOICES, CONSTANTS
from pydantic import BaseModel
from reference_settings import (
    FROM_PROFILE,
    OR_NULL,
    all_settings,
    anchor_of,
    kind_of,
    of_profile,
    sections,
    settings,
    takes,
)
from tailback._engine import recorded
from tailback.hpcc.keys import CONFIG_KEYS, VALUE_FORMS
from tailback.limits import ALL_LIMITS
from tailback.scenario.controllers import CONTROLLER_FACTS, Controllers, Dcqcn
from tailback.scenario.host_control import Rhcc
from tailback.scenario.profiles import parameters, profiles_of
from tailback.units import format_size

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
ASSUMPTION = "assumption: "
PERFTEST = "perftest"
MADE = "<!-- Made by tools/make_reference.py: change the sources that it reads, not this file. -->\n"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    return {
        "scenario.md": scenario_page(),
        "assumptions.md": assumptions_page(),
        "hpcc-keys.md": hpcc_page(),
        "limits.md": limits_page(),
        "recorded.md": recorded_page(),
    }


# Limits


def limits_page() -> str:
    """All limits on inputs, by what they are about."""
    lines = [
        "# Limits",
        "",
        MADE,
        "Inputs may be large, but a small input may not ask for huge resources: each limit is checked before",
        "anything of that size is made. A refused input ends with status 2 and a line that names the limit.",
        "Only regular files are read: no device, pipe, socket or directory. Limits of single settings are in",
        "the [scenario reference](scenario.md).",
        "",
        "Within the limits, the cost of reading grows with the input:",
        "[by how much](../testing.md#what-an-input-may-cost).",
    ]
    for group in dict.fromkeys(limit.group for limit in ALL_LIMITS):
        lines += ["", f"## {group}", "", "| What | At most | Why |", "| --- | --- | --- |"]
        for limit in ALL_LIMITS:
            if limit.group == group:
                most = format_size(limit.most) if limit.unit == "bytes" else f"{limit.most:,} {limit.unit}"
                lines.append(f"| {limit.what} | {most} | {limit.why} |")
    return "\n".join(lines) + "\n"


# What is recorded


def recorded_page() -> str:
    """Every series, counter and column, as the engine declares them."""
    declared = json.loads(recorded())
    quantities = declared["quantities"]
    parts = [MADE, RECORDED_TOP, "## Flows\n\nA row for each queue pair, and for each TCP connection.\n\n"]
    parts.append(
        table(
            ["Column", "Type", "Meaning"],
            [[f"`{name}`", kind, what] for name, kind, what in declared["columns"]],
        )
    )
    parts.append(
        "`packets_sent` counts TCP's data segments. What TCP does not have, NAKs and CNPs above all, is\n"
    )
    parts.append("0 there, and what RoCE does not have is 0 or null.\n\n## Series\n\n")
    for name, what in declared["kinds"]:
        rows = [
            [f"`{one['metric']}`", one["unit"], one["merged"], one["help"]]
            for one in quantities
            if one["metric"] and name in one["of"]
        ]
        parts.append(f"### `{name}`\n\n{what[0].upper()}{what[1:]}.\n\n")
        parts.append(table(["Series", "Unit", "Of a bin", "What"], rows))
        if name in ("queue-pair", "message"):
            parts.append(f"{SIGNALS}\n\n")
    parts.append(f"## Signals\n\n{LOG}\n\n")
    of = {name: [one for one in quantities if one["signal"] == name] for name, _, _ in declared["signals"]}
    rows = [
        [f"`{name}`", "time" if lasts else "count", ", ".join(dict.fromkeys(_series(of[name]))), help_]
        for name, lasts, help_ in declared["signals"]
    ]
    parts.append(table(["Signal", "Has", "Series", "What"], rows))
    parts.append("## Counters\n\nN is the priority, or the class.\n\n")
    places = dict.fromkeys(one["at"] for one in quantities if one["counter"])
    for place in places:
        rows = [
            [f"`{one['counter']}`", "us" if one["unit"] == "share" else one["unit"], one["help"]]
            for one in quantities
            if one["counter"] and one["at"] == place
        ]
        parts.append(f"### Of a {place}\n\n" + table(["Counter", "Unit", "Counts"], rows))
    return "".join(parts).rstrip("\n") + "\n"


def _series(quantities: list[dict[str, Any]]) -> list[str]:
    """Their series, and what has each."""
    return [f"`{one['metric']}` of {' and '.join(f'`{kind}`' for kind in one['of'])}" for one in quantities]


LOG = "How it is stored: [the log of signals](../results.md#signals). Its bins are those of the series."
SIGNALS = "And what its congestion controller shows: see [scenario](scenario.md), with each controller."
RECORDED_TOP = """# What is recorded

How tables are stored, and how long series stay bounded: [results](../results.md).

"""


# The sections


def cell(text: str) -> str:
    """A text inside a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell(text) for text in row)} |\n" for row in lines) + "\n"


def scenario_page() -> str:
    """docs/reference/scenario.md."""
    parts = [MADE, SCENARIO_TOP]
    for path, model in sections():
        title = f"`{path}`" if path else "The file"
        title += f" with `kind: {kind_of(model)}`" if kind_of(model) else ""
        paragraphs = (model.__doc__ or "").strip().split("\n\n")
        about = "\n\n".join(map(cell, paragraphs if kind_of(model) else paragraphs[:1]))
        name = anchor_of(model)
        parts.append(f"## {title} {{ #{name} }}\n\n{about}\n\n")
        rows = []
        for setting in settings(model, path):
            meaning = setting.field.description or ""
            if setting.source and not of_profile(model, setting.key):
                meaning += f"<br>*Default: {setting.source}.*"
            what = takes(setting.field, setting.key)
            if setting.default == FROM_PROFILE:  # null is the same as leaving it out
                what = what.removesuffix(OR_NULL)
            rows.append([f"`{setting.key}`", what, setting.default, meaning])
        parts.append(table(["Key", "Takes", "Default", "Meaning, and where the default comes from"], rows))
        if profiles_of(model):
            parts.append(profiles(model))
        parts.append(signals(model))
    return "".join(parts).rstrip("\n") + "\n"


def signals(model: type[BaseModel]) -> str:
    """The series that a controller shows."""
    found = [field for field in Controllers.model_fields.values() if field.annotation is model]
    names = [name for name, field in Controllers.model_fields.items() if field in found]
    shown = [signal for name in names for signal in CONTROLLER_FACTS[name].signals]
    if issubclass(model, Rhcc):
        shown = list(CONTROLLER_FACTS["rhcc"].signals)
    if not shown:
        return ""
    rows = [[f"`{signal.name}`", signal.unit or "a number", signal.about] for signal in shown]
    text = "Series that each tracked queue pair then has besides `rate_bps` and `goodput_bps`:\n\n"
    return text + table(["Series", "Unit", "What it says"], rows)


def profiles(model: type[BaseModel]) -> str:
    """The profiles of a controller, value by value and source by source."""
    text = "### The profiles\n\n"
    every = profiles_of(model)
    for name, profile in every.items():
        text += f"- `{name}`: {profile.about}. Source: {profile.source}.\n"
    rows = []
    for name in parameters(model):
        row = [f"`{name}`"]
        for profile in every.values():
            value = as_yaml(profile.values[name])
            row.append(f"{value} per 25 Gbit/s" if name in profile.per_25_gbps else value)
        rows.append(row)
    text += "\n" + table(["Parameter", *(f"`{name}`" for name in every)], rows)
    text += (
        "A rate per 25 Gbit/s is multiplied by the link's rate over 25 Gbit/s, rounded to the nearest Mb/s "
        "(halves up), and is at least 1 Mb/s. A value that a scenario gives itself is taken as it is.\n\n"
        "Where a value has a source of its own:\n\n"
    )
    own = [
        [f"`{name}`", f"`{profile}`", source]
        for profile, setting in every.items()
        for name, source in setting.sources.items()
    ]
    return text + table(["Parameter", "Profile", "Source"], own)


def as_yaml(value: object) -> str:
    """A value as a file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# Keys of the HPCC simulator


def hpcc_page() -> str:
    """docs/reference/hpcc-keys.md."""
    rows = []
    for key in CONFIG_KEYS.values():
        default = "must be given" if key.default is None else hpcc_default(key.default)
        rows.append([f"`{key.name}`", VALUE_FORMS[key.kind], default, key.effect, key.note])
    text = table(["Key", "Takes", "Default", "Here", "What it does, or why it does nothing"], rows)
    return f"{MADE}{HPCC_TOP}{text}".rstrip("\n") + "\n"


def hpcc_default(default: object) -> str:
    """A default as a file has it."""
    if isinstance(default, bytes):
        return f"`{default.decode()}`" if default else "none"
    return f"`{' '.join(map(str, default)) if isinstance(default, tuple) else default}`"


# The assumptions


def assumptions_page() -> str:
    """docs/reference/assumptions.md."""
    assumed, tools = [], []
    for setting in all_settings():
        row = [f"`{setting.path}`", setting.default]
        if setting.source.startswith(ASSUMPTION):
            assumed.append([*row, setting.source.removeprefix(ASSUMPTION)])
        elif setting.source.startswith(PERFTEST):
            tools.append([*row, setting.source])
    values = [
        [f"`{name}`", f"`{profile}`", f"`{as_yaml(setting.values[name])}`", source.removeprefix(ASSUMPTION)]
        for profile, setting in Dcqcn.PROFILES.items()
        for name, source in setting.sources.items()
        if source.startswith(ASSUMPTION)
    ]
    constants = [constant.row(ROOT / "crates") for constant in CONSTANTS]
    parts = [
        MADE,
        ASSUMPTIONS_TOP,
        "## Defaults of a scenario\n\nAll of them can be set.\n\n",
        table(["Setting", "Default", "Why this value"], assumed),
        "## Defaults that a tool sets, not the hardware\n\n",
        "These are the defaults of perftest. Another application has others: the ACK timeout and the retry "
        "count above all are set by whoever connects a queue pair.\n\n",
        table(["Setting", "Default", "Where perftest has it"], tools),
        "## Values of the DCQCN profiles\n\n",
        "What the profiles' sources leave open. The three *readings* are switches: two ways to understand "
        "one sentence of a vendor's document. See [DCQCN](../models/dcqcn.md#readings).\n\n",
        table(["Parameter", "Profile", "Value", "Why"], values),
        "## Constants of the engine\n\nThese cannot be set.\n\n",
        table(["What", "Value", "Why", "Where"], constants),
        "## Choices of the engine\n\nWhere the standards and the vendors leave room.\n\n",
        table(["What", "Choice", "Why"], [list(choice) for choice in CHOICES]),
    ]
    return "".join(parts).rstrip("\n") + "\n"


SCENARIO_TOP = """# Scenario reference

A scenario is a YAML file, or the same as plain Python data. This page lists every key. It is made from
the schema that checks scenarios, so it cannot be out of date.

`tailback show NAME` prints a scenario with every key filled in, and beside each value where it comes
from: a line of the file, `--set`, or the source of the default. `tailback schema` prints a JSON Schema. A
file that begins with

```yaml
# yaml-language-server: $schema=scenario.schema.json
```

is completed and checked by editors that know the YAML language server, once `tailback schema >
scenario.schema.json` has put the schema beside it.

## Units

A quantity carries its unit, with or without a space: `100Gbps`, `500ns`, `150KB`, `4 MiB`. Only 0 may
come without one.

| Quantity | Units | Stored as |
| --- | --- | --- |
| duration | `ps` `ns` `us` (or `µs`) `ms` `s` | whole picoseconds |
| size | `B`; `KB` `MB` `GB` `TB` are powers of 1000; `KiB` `MiB` `GiB` `TiB` powers of 1024 | whole bytes |
| rate | `bps` `Kbps` `Mbps` `Gbps` `Tbps`, powers of 1000 | whole bit/s |
| frequency | `Hz` `kHz` `MHz` `GHz`, powers of 1000 | whole Hz |

No floating point is involved: `0.1ns` is exactly 100 ps, and `0.0001ns`, which is no whole number of
picoseconds, is refused.

## Errors

All errors of a file are reported at once, one line each: file and line, field, what was found, what was
expected; of the messages or links of one list, the first that is wrong. The exit status is then 2, and
nothing was run. What is impossible only as a whole is refused in
the same way: headroom of all ports larger than the buffer, `k_min` above `k_max`, `xon` not below `xoff`,
a host or a link that does not exist, a network in two parts, traffic that stops before it starts, a
lowest DCQCN rate above the link's, DCTCP without ECN.

## Hosts and links

`from`, `to` and `hosts` take a name, a range, a list of both, or `all`. In a range every number goes from
that of the first name to that of the last: `h0..h15` are 16 hosts, `s0n3..s7n3` NIC 3 of eight servers,
`s0n0..s1n7` all eight NICs of two.

| Form | Hosts | Switches |
| --- | --- | --- |
| star | `h0` to `hN` | `sw0` |
| dumbbell | `left0` ..., `right0` ... | `sw0` with the left hosts, `sw1` with the right ones |
| leaf-spine, fat-tree-2level | `h0` ..., leaf by leaf | `leaf0` ..., `spine0` ... |
| fat-tree | `h0` ..., edge switch by edge switch | `edge0` ..., `agg0` ..., `core0` ..., pod by pod |
| rail-optimised | `s0n0`: NIC 0 of server 0 | `rail0` ..., `spine0` ... |
| graph, YAML file | as the links name them | as listed |
| topology.txt | `h3`: node 3 | `s20`: node 20 |

A link is named by its two ends, either way round: `leaf0-spine1`. `tailback show NAME` draws the network in
the terminal, and `tailback show NAME --svg FILE` as a picture.

## Files that a scenario names

`topology.path`, `traffic[].file` and `traffic[].sizes` are relative to the folder of the scenario. A result
has copies of these files in its folder `inputs`, and its scenario.yaml names those.

## YAML

YAML is read by the rules of version 1.2: `no` is a text, `1:30` is not 90. A file has at most 1 MiB.

"""

HPCC_TOP = """# Keys of config.txt

How `tailback hpcc` treats each key of the HPCC simulator's `config.txt`, see
[the drop-in](../hpcc.md). The page is made from the table that reads the file.

- *the same*: the key works as in that simulator.
- *not honoured*: the key has an effect in that simulator, but not here. A run lists such keys in its input.
- *no effect*: that simulator also reads the key and ignores it.

Defaults are that simulator's. A key that *must be given* has no usable default there; of the keys of
controllers, only those of the chosen one must be given.

"""

ASSUMPTIONS_TOP = """# Assumptions

Every default of Tailback has a source: a standard, a vendor's document, a paper, the source of a driver
or a tool. Where there is none, the default is an assumption, and stands on this page with its reason. The
page is made from the schema and the engine's sources, so it is complete for what it covers.

A report has a table of the assumptions that its run rests on, and `summary.json` has the same list under
`assumptions`: the settings of the first and third table that the scenario left at their defaults.

"""


if __name__ == "__main__":
    sys.exit(main())
