"""Counters of a run as tools on real machines print them: `tailback counters RUN --as TOOL`.

Each tool is a module here with a `TOOL`. Scripts for the real tool can parse its output.
"""

from __future__ import annotations

from tailback.counters import ethtool, mlnx_qos, mpstat, pcm, rdma, sonic, tc
from tailback.counters.tool import CounterTool
from tailback.errors import InputError, found, nearest
from tailback.recorded.run import Recorded

TOOLS: dict[str, CounterTool] = {
    module.TOOL.name: module.TOOL for module in (ethtool, rdma, mlnx_qos, sonic, tc, mpstat, pcm)
}
"""The tools, by the name after `--as`."""

__all__ = ["TOOLS", "CounterTool", "as_data", "as_tool"]


def as_data(result: Recorded, host: str | None = None) -> dict[str, dict[str, dict[str, int]]]:
    """All counters that are not zero by node, port and name, under the engine's own names.

    Raises:
        InputError: there is no such host.
    """
    nodes = result.counters_by_node
    if host is None:
        return nodes
    if host not in {*nodes, *result.setup.network.hosts}:
        raise InputError.at("--host", f"found {found(host)}, expected one of the run's nodes")
    return {host: nodes.get(host, {})}


def as_tool(result: Recorded, tool: str, host: str | None = None) -> str:
    """The output of a tool on a host, or on all its hosts, each under a heading.

    Raises:
        InputError: there is no such tool or host, or the run has no data for the tool.
    """
    if tool not in TOOLS:
        raise InputError.at("--as", f"found {found(tool)}, expected one of {', '.join(TOOLS)}")
    chosen = TOOLS[tool]
    nodes = chosen.nodes(result)
    if not nodes:
        raise InputError.at(
            "--as", f"found nothing of {tool} in the run {result.name}, expected {chosen.needs}"
        )
    if host is None:
        if len(nodes) == 1:
            return chosen.render(result, nodes[0])
        return "\n".join(f"==> {node} <==\n{chosen.render(result, node)}" for node in nodes)
    if host not in nodes:
        likely = nearest(host, nodes)
        span = nodes[0] if len(nodes) == 1 else f"{nodes[0]}..{nodes[-1]}"
        among = f"{chosen.needs}, one of {span}" + (f", perhaps {likely}" if likely else "")
        raise InputError.at("--host", f"found {found(host)}, expected {among}")
    return chosen.render(result, host)
