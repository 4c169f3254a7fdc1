"""What a run was set up from: a scenario, or the files of another simulator; and what its results need of it.

Results, summary and report ask only what `Setup` answers, so they are the same for every form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tailback.files import Copied, read_file
from tailback.files.json import in_lines, read_json
from tailback.limits import GRAPH_BYTES, RESOLVED_BYTES
from tailback.scenario.document import from_yaml
from tailback.scenario.network import Network, Wire
from tailback.scenario.show import INPUTS
from tailback.wire import ETHERNET_OVERHEAD_BYTES, RETH_BYTES, ROCE_OVERHEAD_BYTES, TCP_HEADER_BYTES

ROCE, TCP = "roce", "tcp"
"""What the column `protocol` of the flows says."""
TRIMMED = "trimmed: its headers went on"
"""The reason of a drop of nothing but the payload."""


class Shown(NamedTuple):
    """The text that a report ends with: what was run."""

    heading: str
    caption: str
    text: str


class Setup(Protocol):
    """What a run was set up from."""

    @property
    def about(self) -> str:
        """A line on the run, in its author's words; or nothing."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """What the engine was given."""

    @property
    def duration_ps(self) -> int:
        """The simulated time that was planned."""

    @property
    def lossless(self) -> list[int]:
        """Priorities under PFC."""

    @property
    def network(self) -> Network:
        """Hosts, switches and links."""

    @property
    def writer_qps(self) -> int:
        """Queue pairs that are no single messages, and TCP connections."""

    @property
    def listed_items(self) -> list[str]:
        """Traffic items of single messages."""

    @property
    def link_events(self) -> int:
        """How often a link was to fail or to be repaired."""

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """Settings at a default that no document gives: `setting`, `value` and `why` each."""

    @property
    def not_honoured(self) -> dict[str, str]:
        """What was asked for and not done, and why."""

    @property
    def shown(self) -> Shown:
        """The run as the report ends with it."""

    @property
    def files(self) -> dict[str, bytes]:
        """The files that repeat the run, by name."""

    @property
    def long_files(self) -> Mapping[str, Copied]:
        """More of them, that may be too long to be in memory."""

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """Payload, and what it takes on the wire when every packet arrives once.

        Of a message of this host, or of a full segment of a connection without an end.
        """


@dataclass(frozen=True)
class ScenarioSetup:
    """A scenario with every default filled in, and the plan made of it."""

    scenario_yaml: str
    plan: dict[str, Any]
    assumptions: list[dict[str, str]] = field(default_factory=list)
    inputs: dict[str, bytes] = field(default_factory=dict)
    """Files that the scenario names, by their names in the folder."""
    long_inputs: Mapping[str, Copied] = field(default_factory=dict)
    """More of them, that may be too long to be in memory."""

    @property
    def about(self) -> str:
        """The scenario's own words about itself."""
        scenario = self.scenario
        return str(scenario.get("about") or "") if isinstance(scenario, dict) else ""

    @cached_property
    def scenario(self) -> Any:
        """The scenario as plain data."""
        return from_yaml(self.scenario_yaml, "scenario.yaml", most_bytes=RESOLVED_BYTES).data

    @property
    def duration_ps(self) -> int:
        """As planned."""
        return int(self.plan["run"]["duration"])

    @property
    def lossless(self) -> list[int]:
        """Of all kinds of switch, and of the receive buffers of all kinds of host."""
        found = {prio for model in self.plan["switch_models"] for prio in model["lossless"]}
        paths = [nic["host_path"] for nic in self.plan["nics"] if nic.get("host_path")]
        for part in (part for path in paths for part in path["receive_buffers"]):
            found.update(part["priorities"] if part["xoff_bytes"] is not None else ())
        return sorted(found)

    @property
    def network(self) -> Network:
        """That of the plan."""
        return _of_plan(self.plan)

    @property
    def writer_qps(self) -> int:
        """Of all writers and TCP connections."""
        qps = sum(writer["qps"] for writer in self.plan.get("writers", []))
        return int(qps + sum(entry["connections"] for entry in self.plan.get("tcp_connections", [])))

    @property
    def listed_items(self) -> list[str]:
        """In the order of the scenario."""
        return [str(item) for item in self.plan.get("flows", {}).get("items", [])]

    @property
    def link_events(self) -> int:
        """As planned."""
        return len(link_changes(self.plan))

    @property
    def not_honoured(self) -> dict[str, str]:
        """Nothing: a scenario with a key that is not known is refused."""
        return {}

    @property
    def shown(self) -> Shown:
        """The scenario."""
        return Shown(
            "The scenario, resolved",
            "Every setting of this run, defaults filled in. This text alone repeats the run; it is also "
            "scenario.yaml beside this report.",
            self.scenario_yaml,
        )

    @property
    def files(self) -> dict[str, bytes]:
        """The scenario and the files that it names, which repeat the run, and the plan."""
        plan = in_lines(self._plan_of_files)
        return {"scenario.yaml": self.scenario_yaml.encode(), "plan.json": plan.encode(), **self.inputs}

    @property
    def long_files(self) -> Mapping[str, Copied]:
        """Of those that the scenario names."""
        return self.long_inputs

    @property
    def _plan_of_files(self) -> dict[str, Any]:
        """The plan as a file has it."""
        return self.plan

    @cached_property
    def _nic_of(self) -> dict[str, Mapping[str, Any]]:
        return {host["name"]: self.plan["nics"][host["nic"]] for host in self.plan["hosts"]}

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """Payload and the headers of each packet; the RETH is in the first packet of a message only."""
        nic = self._nic_of[src]
        if protocol == TCP:
            segment = nic["tcp"]["mtu"] - TCP_HEADER_BYTES
            payload = segment if message_bytes is None else message_bytes
            return payload, payload + -(-payload // segment) * (TCP_HEADER_BYTES + ETHERNET_OVERHEAD_BYTES)
        payload = message_bytes or nic["mtu"]
        return payload, payload + -(-payload // nic["mtu"]) * ROCE_OVERHEAD_BYTES + RETH_BYTES

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> ScenarioSetup:
        """From the folder of a run."""
        return cls(
            read_file(folder / "scenario.yaml", RESOLVED_BYTES).decode("utf-8"),
            read_json(folder / "plan.json"),
            summary["assumptions"],
            long_inputs={
                str(file.relative_to(folder)): Copied(file, GRAPH_BYTES)
                for file in sorted((folder / INPUTS).glob("*"))
            },
        )


def link_changes(plan: Mapping[str, Any]) -> list[tuple[int, int, bool]]:
    """When which link of a plan fails, or comes up again: by time, in picoseconds."""
    found = [(one["at"], one["link"], False) for one in plan.get("failures", [])]
    repaired = [one for one in plan.get("failures", []) if one["repair"] is not None]
    return sorted(found + [(one["repair"], one["link"], True) for one in repaired])


def _of_plan(plan: Mapping[str, Any]) -> Network:
    """The network of a plan, that of the HPCC profile included: there a node is a number."""
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
