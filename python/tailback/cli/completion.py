"""Shell completion of arguments."""

from __future__ import annotations

from pathlib import Path

import typer


def scenarios(incomplete: str) -> list[str]:
    """Built-in scenarios, YAML files and folders."""
    from tailback import library

    found = [name for name in library.names() if name.startswith(incomplete)]
    for path in sorted(Path().glob(f"{incomplete}*")):
        found += [f"{path}/"] if path.is_dir() else [str(path)] if path.suffix in (".yaml", ".yml") else []
    return found


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Settings of the named scenario; after `congestion=`, names of controllers."""
    from tailback.errors import InputError
    from tailback.scenario import load
    from tailback.scenario.controllers import BUILT_IN_CONTROLLERS
    from tailback.scenario.document import flat, from_yaml
    from tailback.scenario.show import resolved_yaml

    path, equals, _ = incomplete.partition("=")
    if equals:
        values = BUILT_IN_CONTROLLERS if path.endswith("congestion") else ()
        return [whole for value in values if (whole := f"{path}={value}").startswith(incomplete)]
    try:
        scenario = load(str(ctx.params.get("name") or "first-flow"))
    except InputError:
        return []
    data = from_yaml(resolved_yaml(scenario), "").data
    return [f"{name}=" for name, _ in flat(data) if name.startswith(incomplete)]


def links(ctx: typer.Context, incomplete: str) -> list[str]:
    """Links (by their ends) and nodes that --capture may name."""
    from tailback.errors import InputError
    from tailback.scenario import load

    before, comma, last = incomplete.rpartition(",")
    try:
        network = load(str(ctx.params.get("name") or "first-flow")).network
    except InputError:
        return []
    names = ["all", *network.hosts, *network.switches]
    names += [f"{one}:{other}" for wire in network.wires for one, other in (wire[:2], wire[1::-1])]
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]
