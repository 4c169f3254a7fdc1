"""An ASTRA-sim run as its results see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback import text
from tailback.astra.documents import not_honoured
from tailback.astra.inputs import LOGICAL, SETTINGS, SYSTEM, TRACES, AstraInputs, load_inputs, options_of
from tailback.files import UnchangedFile
from tailback.hpcc.inputs import CONFIG
from tailback.hpcc.native import native_plan
from tailback.hpcc.plan import make_plan
from tailback.hpcc.setup import HpccSetup
from tailback.recorded.setup import ReportSection, link_changes
from tailback.wire import RETH_BYTES, ROCE_OVERHEAD_BYTES

WORK_PRIORITY = 3
"""What that backend sends messages in."""
ASTRA_FILES = (SETTINGS, CONFIG, "topology.txt", SYSTEM, LOGICAL)


@dataclass(frozen=True)
class AstraSetup(HpccSetup):
    """The network of the HPCC simulator's fork, and what ASTRA-sim sends over it."""

    astra: AstraInputs

    @staticmethod
    def of(astra: AstraInputs) -> AstraSetup:
        """With the plan of its network."""
        if astra.options.native:
            return AstraNativeSetup(astra.network, native_plan(astra.network, WORK_PRIORITY), astra)
        return AstraSetup(astra.network, make_plan(astra.network), astra)

    @property
    def about(self) -> str:
        """Its size."""
        switches = len(self.inputs.topology.switches)
        dims = " x ".join(map(str, self.astra.dims))
        return (
            f"ASTRA-sim's inputs: {text.plural(len(self.astra.traces), 'rank')} ({dims}), "
            f"{switches:,} switch{'' if switches == 1 else 'es'}, "
            f"{text.plural(len(self.inputs.topology.links), 'link')}"
        )

    @property
    def listed_items(self) -> list[str]:
        """All messages go to port 100."""
        return ["port 100"]

    @property
    def not_honoured(self) -> dict[str, str]:
        """Keys of config.txt and of the system file."""
        return {**super().not_honoured, **not_honoured(self.astra.system)}

    @property
    def report_section(self) -> ReportSection:
        """The system file."""
        return ReportSection(
            "system.json",
            "As it was read; the other files are beside this report, and the traces in its folder inputs.",
            self.files[SYSTEM].decode("utf-8", "backslashreplace"),
        )

    @property
    def files(self) -> dict[str, bytes]:
        """Copies of the inputs."""
        return self.astra.files

    @property
    def long_files(self) -> Mapping[str, UnchangedFile]:
        """The traces."""
        return {f"{TRACES}.{rank}.et": trace for rank, trace in enumerate(self.astra.traces)}

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> AstraSetup:
        """From the folder of a run."""
        astra = load_inputs(options_of(folder), beside=True)
        astra.network.name = str(summary["name"])
        return cls.of(astra)


class NativeWork(HpccSetup):
    """What setups of messages that wait for messages are under Tailback's own models."""

    @property
    def listed_items(self) -> list[str]:
        """Of the plan."""
        return [str(item) for item in self.plan["flows"]["items"]]

    @property
    def lossless(self) -> list[int]:
        """That of the messages."""
        return [WORK_PRIORITY]

    @property
    def link_events(self) -> int:
        """LINK_DOWN."""
        return len(link_changes(self.plan))

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """Payload and the headers of each packet, as RoCEv2 has them."""
        del src, protocol
        mtu = int(self.plan["nics"][0]["mtu"])
        payload = message_bytes or mtu
        return payload, payload + -(-payload // mtu) * ROCE_OVERHEAD_BYTES + RETH_BYTES


@dataclass(frozen=True)
class AstraNativeSetup(NativeWork, AstraSetup):
    """The same under Tailback's own models."""
