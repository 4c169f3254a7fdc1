"""The input of a run: a scenario, or the files of another simulator.

Results, summary and report use only `Setup`, so that they work for every kind of input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tailback.files import UnchangedFile, read_file
from tailback.files.json import in_lines, read_json
from tailback.limits import GRAPH_BYTES, RESOLVED_BYTES
from tailback.scenario.document import from_yaml
from tailback.scenario.network import Network, Wire
from tailback.scenario.show import INPUTS_FOLDER
from tailback.wire import ETHERNET_OVERHEAD_BYTES, RETH_BYTES, ROCE_OVERHEAD_BYTES, TCP_HEADER_BYTES

ROCE, TCP = "roce", "tcp"
"""Values of the column `protocol` of the flows."""
TRIMMED_REASON = "trimmed: its headers went on"
"""The engine's reason of a drop of only the payload."""


class ReportSection(NamedTuple):
    """The last section of a report: the input of the run."""

    heading: str
    caption: str
    text: str


class Setup(Protocol):
    """The input of a run."""

    @property
    def about(self) -> str:
        """The author's description of the run; may be empty."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """The engine's input."""

    @property
    def duration_ps(self) -> int:
        """The planned simulated time."""

    @property
    def lossless(self) -> list[int]:
        """Priorities under PFC."""

    @property
    def network(self) -> Network:
        """Hosts, switches and links."""

    @property
    def writer_qps(self) -> int:
        """Number of queue pairs with more than one message, and of TCP connections."""

    @property
    def listed_items(self) -> list[str]:
        """Traffic items of single messages."""

    @property
    def link_events(self) -> int:
        """Number of failures and repairs of links."""

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """Settings at a default without a source: each has `setting`, `value` and `why`."""

    @property
    def not_honoured(self) -> dict[str, str]:
        """Settings that were ignored, and why."""

    @property
    def report_section(self) -> ReportSection:
        """The last section of the report."""

    @property
    def files(self) -> dict[str, bytes]:
        """The files that repeat the run, by name."""

    @property
    def long_files(self) -> Mapping[str, UnchangedFile]:
        """Further files, which may be too long for memory."""

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """Payload, and bytes on the wire if every packet is sent once, of a message of this host, or of a full
        segment of a connection without an end.
        """


@dataclass(frozen=True)
class ScenarioSetup:
    """A resolved scenario and its plan."""

    scenario_yaml: str
    plan: dict[str, Any]
    assumptions: list[dict[str, str]] = field(default_factory=list)
    inputs: dict[str, bytes] = field(default_factory=dict)
    """Files that the scenario refers to, by their names in the folder."""
    long_inputs: Mapping[str, UnchangedFile] = field(default_factory=dict)
    """Further files, which may be too long for memory."""

    @property
    def about(self) -> str:
        scenario = self.scenario
        return str(scenario.get("about") or "") if isinstance(scenario, dict) else ""

    @cached_property
    def scenario(self) -> Any:
        """The scenario as plain data."""
        return from_yaml(self.scenario_yaml, "scenario.yaml", max_bytes=RESOLVED_BYTES).data

    @property
    def duration_ps(self) -> int:
        return int(self.plan["run"]["duration"])

    @property
    def lossless(self) -> list[int]:
        """Priorities that are lossless at any switch or in any host's receive buffer."""
        found = {prio for model in self.plan["switch_models"] for prio in model["lossless"]}
        paths = [nic["host_path"] for nic in self.plan["nics"] if nic.get("host_path")]
        for part in (part for path in paths for part in path["receive_buffers"]):
            found.update(part["priorities"] if part["xoff_bytes"] is not None else ())
        return sorted(found)

    @property
    def network(self) -> Network:
        return _network_of_plan(self.plan)

    @property
    def writer_qps(self) -> int:
        qps = sum(writer["qps"] for writer in self.plan.get("writers", []))
        return int(qps + sum(entry["connections"] for entry in self.plan.get("tcp_connections", [])))

    @property
    def listed_items(self) -> list[str]:
        return [str(item) for item in self.plan.get("flows", {}).get("items", [])]

    @property
    def link_events(self) -> int:
        return len(link_changes(self.plan))

    @property
    def not_honoured(self) -> dict[str, str]:
        """Empty: a scenario with an unknown key is refused."""
        return {}

    @property
    def report_section(self) -> ReportSection:
        return ReportSection(
            "The scenario, resolved",
            "Every setting of this run, defaults filled in. This text alone repeats the run; it is also "
            "scenario.yaml beside this report.",
            self.scenario_yaml,
        )

    @property
    def files(self) -> dict[str, bytes]:
        plan = in_lines(self._plan_for_file)
        return {"scenario.yaml": self.scenario_yaml.encode(), "plan.json": plan.encode(), **self.inputs}

    @property
    def long_files(self) -> Mapping[str, UnchangedFile]:
        return self.long_inputs

    @property
    def _plan_for_file(self) -> dict[str, Any]:
        """The plan as it is written to plan.json."""
        return self.plan

    @cached_property
    def _nic_of(self) -> dict[str, Mapping[str, Any]]:
        return {host["name"]: self.plan["nics"][host["nic"]] for host in self.plan["hosts"]}

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """See `Setup`. Only the first packet of a message has a RETH."""
        nic = self._nic_of[src]
        if protocol == TCP:
            segment = nic["tcp"]["mtu"] - TCP_HEADER_BYTES
            payload = segment if message_bytes is None else message_bytes
            return payload, payload + -(-payload // segment) * (TCP_HEADER_BYTES + ETHERNET_OVERHEAD_BYTES)
        payload = message_bytes or nic["mtu"]
        return payload, payload + -(-payload // nic["mtu"]) * ROCE_OVERHEAD_BYTES + RETH_BYTES

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> ScenarioSetup:
        """Reads the set-up from the folder of a run."""
        return cls(
            read_file(folder / "scenario.yaml", RESOLVED_BYTES).decode("utf-8"),
            read_json(folder / "plan.json"),
            summary["assumptions"],
            long_inputs={
                str(file.relative_to(folder)): UnchangedFile(file, GRAPH_BYTES)
                for file in sorted((folder / INPUTS_FOLDER).glob("*"))
            },
        )


def link_changes(plan: Mapping[str, Any]) -> list[tuple[int, int, bool]]:
    """Time in picoseconds, link, and state (True: up) of each failure and repair in a plan, by time."""
    found = [(one["at"], one["link"], False) for one in plan.get("failures", [])]
    repaired = [one for one in plan.get("failures", []) if one["repair"] is not None]
    return sorted(found + [(one["repair"], one["link"], True) for one in repaired])


def _network_of_plan(plan: Mapping[str, Any]) -> Network:
    """The network of a plan. In a plan of the HPCC profile a node is a number."""
    if "nodes" in plan:
        switches = set(plan["switches"])
        names = [f"{'s' if node in switches else 'h'}{node}" for node in range(plan["nodes"])]
        return Network(
            [name for name in names if name[0] == "h"],
            [name for name in names if name[0] == "s"],
            [Wire(names[a], names[b], rate, delay * 1000, loss) for a, b, rate, delay, loss in plan["links"]],
        )
    wires = [
        Wire(link["a"], link["b"], link["rate"], link["delay"], link.get("loss", 0.0))
        for link in plan["links"]
    ]
    return Network(
        [host["name"] for host in plan["hosts"]],
        [one["name"] for one in plan["switches"]],
        wires,
        bridges=[one["name"] for one in plan.get("bridges", [])],
    )
