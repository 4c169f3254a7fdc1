"""The set-up of a SimAI run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tailback import text
from tailback.astra.setup import WORK_PRIORITY, NativeWork
from tailback.hpcc.inputs import CONFIG_FILE
from tailback.hpcc.native import native_plan
from tailback.hpcc.plan import make_plan
from tailback.hpcc.setup import HpccSetup
from tailback.recorded.setup import ReportSection
from tailback.simai.inputs import (
    OPTIONS_FILE,
    TOPOLOGY_FILE,
    WORKLOAD_FILE,
    SimaiInputs,
    load_inputs,
    options_of,
)

SIMAI_FILES = (OPTIONS_FILE, CONFIG_FILE, TOPOLOGY_FILE, WORKLOAD_FILE)
MAX_SHOWN_CHARS = 20_000


@dataclass(frozen=True)
class SimaiSetup(HpccSetup):
    """The network of SimAI's fork of the HPCC simulator, and the work of its front end."""

    simai: SimaiInputs

    @staticmethod
    def of(simai: SimaiInputs) -> SimaiSetup:
        if simai.options.native:
            return SimaiNativeSetup(simai.network, native_plan(_outside(simai).network, WORK_PRIORITY), simai)
        return SimaiSetup(simai.network, make_plan(simai.network), simai)

    @property
    def about(self) -> str:
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
        return {**super().not_honoured, **self.simai.not_honoured}

    @property
    def report_section(self) -> ReportSection:
        text = self.files[WORKLOAD_FILE].decode("utf-8", "backslashreplace")
        return ReportSection(
            WORKLOAD_FILE,
            f"As it was read; {TOPOLOGY_FILE} and {CONFIG_FILE} are beside this report. To repeat the run in "
            f"its folder: {self.simai.command}",
            text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}\n...",
        )

    @property
    def files(self) -> dict[str, bytes]:
        return self.simai.files

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> SimaiSetup:
        simai = load_inputs(options_of(folder), beside=True)
        simai.network.name = str(summary["name"])
        return cls.of(simai)


def _outside(simai: SimaiInputs) -> SimaiInputs:
    """The inputs without switches and links inside servers."""
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
    """A SimAI run on Tailback's own models; messages within a server use separate links."""

    @property
    def network(self) -> Any:
        return HpccSetup(_outside(self.simai).network, self.plan).network
