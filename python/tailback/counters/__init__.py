"""Counters of a run as tools on real machines print them: `tailback counters RUN --as TOOL`.

A tool is a file here with a `STYLE`. What it prints, a script for the real tool can read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tailback.counters import ethtool, mlnx_qos, mpstat, pcm, rdma, tc
from tailback.counters.style import Style
from tailback.scenario import Problem, ScenarioError
from tailback.scenario.errors import found, nearest

if TYPE_CHECKING:
    from tailback.results import Result

STYLES: dict[str, Style] = {
    module.STYLE.name: module.STYLE for module in (ethtool, rdma, mlnx_qos, tc, mpstat, pcm)
}
"""The tools, by the name after `--as`."""

__all__ = ["STYLES", "Style", "as_tool", "read_run"]


def as_tool(result: Result, tool: str, host: str | None = None) -> str:
    """What a tool prints on a host; on all that it has something of, under a heading each.

    Raises:
        ScenarioError: no such tool or host, or the run has nothing of the tool.
    """
    if tool not in STYLES:
        raise _problem("--as", f"found {found(tool)}, expected one of {', '.join(STYLES)}")
    style = STYLES[tool]
    nodes = style.nodes(result)
    if not nodes:
        raise _problem("--as", f"found nothing of {tool} in the run {result.name}, expected {style.needs}")
    if host is None:
        if len(nodes) == 1:
            return style.render(result, nodes[0])
        return "\n".join(f"==> {node} <==\n{style.render(result, node)}" for node in nodes)
    if host not in nodes:
        likely = nearest(host, nodes)
        span = nodes[0] if len(nodes) == 1 else f"{nodes[0]}..{nodes[-1]}"
        among = f"{style.needs}, one of {span}" + (f", perhaps {likely}" if likely else "")
        raise _problem("--host", f"found {found(host)}, expected {among}")
    return style.render(result, host)


def read_run(folder: Path) -> Result:
    """The result in a folder.

    Raises:
        ScenarioError: it is not the folder of a run.
    """
    from tailback.results import Result

    try:
        return Result.load(folder)
    except FileNotFoundError as error:
        inside = sorted(path.parent for path in folder.glob("*/*/summary.json")) or sorted(
            path.parent for path in folder.glob("*/summary.json")
        )
        other = f", perhaps {inside[0]}" if inside else ""
        missing = str(error).split(": ")[0].rpartition("/")[2]
        raise _problem(str(folder), f"found no {missing}, expected the folder of a run{other}") from None
    except (ValueError, KeyError, OSError) as error:
        what = " ".join(str(error).split())
        raise _problem(
            str(folder), f"found what cannot be read ({what}), expected the folder of a run"
        ) from None


def _problem(place: str, text: str) -> ScenarioError:
    return ScenarioError([Problem(place, (), text)])
