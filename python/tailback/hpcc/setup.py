"""The set-up of an HPCC run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tailback import text
from tailback.files import UnchangedFile
from tailback.hpcc.flows import PORT
from tailback.hpcc.inputs import CONFIG_FILE, HpccInputs, load_inputs
from tailback.hpcc.plan import TELEMETRY_BYTES, header_bytes, make_plan, span_ps
from tailback.recorded.setup import ReportSection
from tailback.scenario.network import Network, Wire

HPCC_FILES = (CONFIG_FILE, "topology.txt", "flow.txt")
MAX_SHOWN_CHARS = 20_000


@dataclass(frozen=True)
class HpccSetup:
    inputs: HpccInputs
    plan: dict[str, Any]

    @property
    def about(self) -> str:
        """The size of the network: the files have no description."""
        topology = self.inputs.topology
        hosts = topology.nodes - len(topology.switches)
        switches = len(topology.switches)
        return (
            f"Files of the HPCC ns-3 simulator: {text.plural(hosts, 'host')}, "
            f"{text.plural(switches, 'switch')}, "
            f"{text.plural(len(topology.links), 'link')}, {text.plural(len(self.inputs.flows), 'flow')}"
        )

    @property
    def duration_ps(self) -> int:
        """From the start of the first flow to SIMULATOR_STOP_TIME."""
        begin, end = span_ps(self.inputs)
        return end - begin

    @property
    def lossless(self) -> list[int]:
        """All priorities except the strict one."""
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
        """0: every flow is a single message."""
        return 0

    @property
    def listed_items(self) -> list[str]:
        """An item for each destination port: by convention 100 is normal traffic, 200 incast."""
        return [f"port {port}" for port in sorted(set(self.inputs.flows.column(PORT)))]

    @property
    def link_events(self) -> int:
        return 0 if self.plan["link_down"] is None else 1

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """Empty: missing keys have the HPCC simulator's defaults."""
        return []

    @property
    def not_honoured(self) -> dict[str, str]:
        return self.inputs.config.not_honoured()

    @property
    def report_section(self) -> ReportSection:
        text = self.inputs.files[CONFIG_FILE].decode("utf-8", "backslashreplace")
        return ReportSection(
            "config.txt",
            "As it was read, with the names of the copies beside this report: topology.txt and flow.txt. "
            "These files alone repeat the run.",
            text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}\n...",
        )

    @property
    def files(self) -> dict[str, bytes]:
        return self.inputs.files

    @property
    def long_files(self) -> Mapping[str, UnchangedFile]:
        return {}

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """See `Setup`; without preamble, FCS and gap, as in the HPCC simulator."""
        del src, protocol  # all hosts are equal, and there is no TCP
        packet, overhead = self._packet
        payload = packet if message_bytes is None else message_bytes
        return payload, payload + -(-payload // packet) * overhead

    @cached_property
    def _packet(self) -> tuple[int, int]:
        """Payload and header bytes of a full packet."""
        config = self.inputs.config
        return int(self.plan["payload_bytes"]), header_bytes(config) + TELEMETRY_BYTES.get(
            config["CC_MODE"], 0
        )

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> HpccSetup:
        inputs = load_inputs(folder / CONFIG_FILE, beside=True)
        inputs.name = str(summary["name"])
        return cls(inputs, make_plan(inputs))
