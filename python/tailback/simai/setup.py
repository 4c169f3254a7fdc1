"""A SimAI run as its results see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tailback import text
from tailback.astra.setup import WORK_PRIORITY, NativeWork
from tailback.hpcc.inputs import CONFIG
from tailback.hpcc.native import native_plan
from tailback.hpcc.plan import make_plan
from tailback.hpcc.setup import HpccSetup
from tailback.recorded.setup import ReportSection
from tailback.simai.inputs import SETTINGS, TOPOLOGY, WORKLOAD, SimaiInputs, load_inputs, options_of

SIMAI_FILES = (SETTINGS, CONFIG, TOPOLOGY, WORKLOAD)
MOST_SHOWN = 20_000


@dataclass(frozen=True)
class SimaiSetup(HpccSetup):
    """The network of SimAI's fork of the HPCC simulator, and what its front end sends over it."""

    simai: SimaiInputs

    @staticmethod
    def of(simai: SimaiInputs) -> SimaiSetup:
        """With the plan of its network."""
        if simai.options.native:
            return SimaiNativeSetup(simai.network, native_plan(_outside(simai).network, WORK_PRIORITY), simai)
        return SimaiSetup(simai.network, make_plan(simai.network), simai)

    @property
    def about(self) -> str:
        """Its size."""
        servers, workload = self.simai.servers, self.simai.workload
        return (
            f"SimAI's inputs: {text.plural(len(workload.layers), 'layer')} on "
            f"{text.plural(servers.gpus, 'GPU')} in servers of {servers.gpus_per_server} "
            f"(tensor {workload.tensor}, expert {self.simai.expert})"
        )

    @property
    def listed_items(self) -> list[str]:
        """All messages go to port 100."""
        return ["port 100"]

    @property
    def not_honoured(self) -> dict[str, str]:
        """Keys of SimAI.conf, the workload and the environment."""
        return {**super().not_honoured, **self.simai.not_honoured}

    @property
    def report_section(self) -> ReportSection:
        """The workload."""
        text = self.files[WORKLOAD].decode("utf-8", "backslashreplace")
        return ReportSection(
            WORKLOAD,
            f"As it was read; {TOPOLOGY} and {CONFIG} are beside this report. In its folder the run repeats "
            f"itself with {self.simai.command}",
            text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}\n...",
        )

    @property
    def files(self) -> dict[str, bytes]:
        """Copies of the inputs."""
        return self.simai.files

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> SimaiSetup:
        """From the folder of a run."""
        simai = load_inputs(options_of(folder), beside=True)
        simai.network.name = str(summary["name"])
        return cls.of(simai)


def _outside(simai: SimaiInputs) -> SimaiInputs:
    """Without what is inside of servers."""
    topology = simai.network.topology
    outside = replace(
        topology,
        switches=[node for node in topology.switches if node not in topology.inner],
        links=[link for link in topology.links if not {link.a, link.b} & topology.inner],
        inner=frozenset(),
    )
    return replace(simai, network=replace(simai.network, topology=outside))


@dataclass(frozen=True)
class SimaiNativeSetup(NativeWork, SimaiSetup):
    """The same under Tailback's own models; what stays in a server takes links of its own."""

    @property
    def network(self) -> Any:
        """The fabric."""
        return HpccSetup(_outside(self.simai).network, self.plan).network
