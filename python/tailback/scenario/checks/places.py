"""Settings of some switches and links: what contradicts itself, and what each switch has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import ValidationError

from tailback.errors import Path
from tailback.scenario.by_place import WILD_CARDS, given, is_link, matches
from tailback.scenario.hosts import expand
from tailback.scenario.model import Scenario
from tailback.scenario.switch import Switch


def problems_of_places(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Entries that name no switch, and settings that contradict those that they are laid over."""
    every = scenario.network.switches
    for section, entries in (("switches", scenario.switches), ("links", scenario.links)):
        for index, one in enumerate(entries):
            if one.model_fields_set == {"at"}:
                yield (section, index), "found no setting beside at, expected one"
    for index, entry in enumerate(scenario.switches):
        for pattern in entry.at:
            named = [pattern] if WILD_CARDS.fullmatch(pattern) else list(expand(pattern))
            lacking = [one for one in named if not any(fnmatchcase(name, one) for name in every)]
            if lacking:
                pattern = lacking[0]
                listed = ", ".join(every[:3]) + (", ..." if len(every) > 3 else "")
                text = f"found {pattern}, which names no switch, expected one of {listed or 'none: there is no switch'}"
                yield ("switches", index, "at"), text
    for index, links in enumerate(scenario.links):
        for pattern in links.at:
            found = [wire for wire in scenario.network.wires if is_link(pattern, wire)]
            if len(found) > 1 and not re.search(r"[*?]", pattern):
                both = " and ".join(f"{wire.a} to {wire.b}" for wire in found[:2])
                yield ("links", index, "at"), f"found {pattern}, which names two links, {both}, expected one"
            if not found:
                listed = ", ".join(wire.name for wire in scenario.network.wires[:3])
                text = f"found {pattern}, which names no link, expected one of {listed}, ..."
                yield ("links", index, "at"), text
    try:
        scenario.switch_of  # noqa: B018  what it raises is wanted
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        context = details.get("ctx", {})
        where = tuple(details["loc"]) + ((context["at"],) if "at" in context else ())
        last = len(scenario.switches) - 1
        index = next(
            (i for i in range(last, -1, -1) if given(scenario.switches[i]).keys() & {*where[:1]}), last
        )
        expected = context.get("expected", details["msg"])
        yield (
            ("switches", index, *where),
            f"found {context.get('found', details['input'])}, expected {expected}",
        )


def places(scenario: Scenario) -> Iterator[tuple[Path, str, Switch]]:
    """Each different setting of switches once: the path to name in a message, a switch that has it, and the setting."""
    seen: set[int] = set()
    for name, switch in scenario.switch_of.items():
        if id(switch) in seen:
            continue
        seen.add(id(switch))
        own = [i for i, entry in enumerate(scenario.switches) if matches(entry.at, name)]
        yield (("switches", own[-1]) if own else ("switch",)), name, switch


def rates_of_ports(scenario: Scenario, switch: Switch) -> set[int]:
    """Rates of the links for which a setting of switches must have thresholds: of all links for `switch` itself, of
    its switches' links for one of `switches`.
    """
    network = scenario.network
    if switch is scenario.switch:
        return {wire.rate for wire in network.wires}
    names = (name for name, one in scenario.switch_of.items() if one is switch)
    return {wire.rate for name in names for wire in network.wires_of[name]}
