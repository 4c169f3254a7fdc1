"""Counters of a run as tools on real machines print them: `tailback counters RUN --as TOOL`.

A tool is a file here with a `STYLE`. What it prints, a script for the real tool can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailback.counters import ethtool, mlnx_qos, mpstat, pcm, rdma, sonic, tc
from tailback.counters.style import Style
from tailback.errors import InputError, found, nearest

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded

STYLES: dict[str, Style] = {
    module.STYLE.name: module.STYLE for module in (ethtool, rdma, mlnx_qos, sonic, tc, mpstat, pcm)
}
"""The tools, by the name after `--as`."""

__all__ = ["STYLES", "Style", "as_data", "as_tool"]


def as_data(result: Recorded, host: str | None = None) -> dict[str, dict[str, dict[str, int]]]:
    """All counters that are not zero by node, port and name, under the engine's own names.

    Raises:
        InputError: no such host.
    """
    nodes = result.counters_by_node
    if host is None:
        return nodes
    if host not in {*nodes, *result.setup.network.hosts}:
        raise InputError.at("--host", f"found {found(host)}, expected one of the run's nodes")
    return {host: nodes.get(host, {})}


def as_tool(result: Recorded, tool: str, host: str | None = None) -> str:
    """What a tool prints on a host; on all that it has something of, under a heading each.

    Raises:
        InputError: no such tool or host, or the run has nothing of the tool.
    """
    if tool not in STYLES:
        raise InputError.at("--as", f"found {found(tool)}, expected one of {', '.join(STYLES)}")
    style = STYLES[tool]
    nodes = style.nodes(result)
    if not nodes:
        raise InputError.at(
            "--as", f"found nothing of {tool} in the run {result.name}, expected {style.needs}"
        )
    if host is None:
        if len(nodes) == 1:
            return style.render(result, nodes[0])
        return "\n".join(f"==> {node} <==\n{style.render(result, node)}" for node in nodes)
    if host not in nodes:
        likely = nearest(host, nodes)
        span = nodes[0] if len(nodes) == 1 else f"{nodes[0]}..{nodes[-1]}"
        among = f"{style.needs}, one of {span}" + (f", perhaps {likely}" if likely else "")
        raise InputError.at("--host", f"found {found(host)}, expected {among}")
    return style.render(result, host)
