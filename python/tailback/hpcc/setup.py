"""An HPCC run as its results see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tailback import text
from tailback.files import UnchangedFile
from tailback.hpcc.flows import PORT
from tailback.hpcc.inputs import CONFIG, HpccInputs, load_inputs
from tailback.hpcc.plan import TELEMETRY_BYTES, header_bytes, make_plan, span_ps
from tailback.recorded.setup import ReportSection
from tailback.scenario.network import Network, Wire

HPCC_FILES = (CONFIG, "topology.txt", "flow.txt")
MOST_SHOWN = 20_000


@dataclass(frozen=True)
class HpccSetup:
    """The inputs, and the plan made of them."""

    inputs: HpccInputs
    plan: dict[str, Any]

    @property
    def about(self) -> str:
        """Its size: the files have no words about themselves."""
        topology = self.inputs.topology
        hosts = topology.nodes - len(topology.switches)
        switches = len(topology.switches)
        return (
            f"Files of the HPCC ns-3 simulator: {text.plural(hosts, 'host')}, "
            f"{switches:,} switch{'' if switches == 1 else 'es'}, "
            f"{text.plural(len(topology.links), 'link')}, {text.plural(len(self.inputs.flows), 'flow')}"
        )

    @property
    def duration_ps(self) -> int:
        """From the first flow's start to SIMULATOR_STOP_TIME."""
        begin, end = span_ps(self.inputs)
        return end - begin

    @property
    def lossless(self) -> list[int]:
        """All but the strict queue."""
        return list(range(1, 8))

    @property
    def network(self) -> Network:
        """Hosts h0, h1, ... and switches s0, s1, ... by node id, as the recording names them."""
        topology = self.inputs.topology
        name = [f"{'h' if host else 's'}{node}" for node, host in enumerate(topology.is_host)]
        wires = [
            Wire(name[link.a], name[link.b], link.rate_bps, link.delay_ns * 1000, link.error_rate)
            for link in topology.links
        ]
        hosts = [name[node] for node, host in enumerate(topology.is_host) if host]
        return Network(hosts, [name[node] for node in topology.switches], wires)

    @property
    def writer_qps(self) -> int:
        """None: every flow is a single message."""
        return 0

    @property
    def listed_items(self) -> list[str]:
        """One for each destination port: by convention 100 is normal traffic, 200 incast."""
        return [f"port {port}" for port in sorted(set(self.inputs.flows.column(PORT)))]

    @property
    def link_events(self) -> int:
        """LINK_DOWN."""
        return 0 if self.plan["link_down"] is None else 1

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """None: whatever the files leave out is as in that simulator."""
        return []

    @property
    def not_honoured(self) -> dict[str, str]:
        """Keys of config.txt."""
        return self.inputs.config.not_honoured()

    @property
    def report_section(self) -> ReportSection:
        """config.txt."""
        text = self.inputs.files[CONFIG].decode("utf-8", "backslashreplace")
        return ReportSection(
            "config.txt",
            "As it was read, with the names of the copies beside this report: topology.txt and flow.txt. "
            "These files alone repeat the run.",
            text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}\n...",
        )

    @property
    def files(self) -> dict[str, bytes]:
        """Copies of the inputs."""
        return self.inputs.files

    @property
    def long_files(self) -> Mapping[str, UnchangedFile]:
        """None."""
        return {}

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """Payload and the headers of each packet, without preamble, FCS and gap, as that simulator has it."""
        del src, protocol  # all hosts are alike, and none speaks TCP
        packet, overhead = self._packet
        payload = packet if message_bytes is None else message_bytes
        return payload, payload + -(-payload // packet) * overhead

    @cached_property
    def _packet(self) -> tuple[int, int]:
        """Payload and headers of a full one; asked for once for each size of a message."""
        config = self.inputs.config
        return int(self.plan["payload_bytes"]), header_bytes(config) + TELEMETRY_BYTES.get(
            config["CC_MODE"], 0
        )

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> HpccSetup:
        """From the folder of a run."""
        inputs = load_inputs(folder / CONFIG, beside=True)
        inputs.name = str(summary["name"])
        return cls(inputs, make_plan(inputs))
