"""The set-up of an ASTRA-sim run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback import text
from tailback.astra.documents import not_honoured
from tailback.astra.inputs import (
    LOGICAL_FILE,
    OPTIONS_FILE,
    SYSTEM_FILE,
    TRACES_PREFIX,
    AstraInputs,
    load_inputs,
    options_of,
)
from tailback.files import UnchangedFile
from tailback.hpcc.inputs import CONFIG_FILE
from tailback.hpcc.native import native_plan
from tailback.hpcc.plan import make_plan
from tailback.hpcc.setup import HpccSetup
from tailback.recorded.setup import ReportSection, link_changes
from tailback.wire import RETH_BYTES, ROCE_OVERHEAD_BYTES

WORK_PRIORITY = 3
"""Priority of all messages of the ns-3 backend."""
ASTRA_FILES = (OPTIONS_FILE, CONFIG_FILE, "topology.txt", SYSTEM_FILE, LOGICAL_FILE)


@dataclass(frozen=True)
class AstraSetup(HpccSetup):
    """The network of the HPCC simulator's fork, and ASTRA-sim's work."""

    astra: AstraInputs

    @staticmethod
    def of(astra: AstraInputs) -> AstraSetup:
        if astra.options.native:
            return AstraNativeSetup(astra.network, native_plan(astra.network, WORK_PRIORITY), astra)
        return AstraSetup(astra.network, make_plan(astra.network), astra)

    @property
    def about(self) -> str:
        switches = len(self.inputs.topology.switches)
        dims = " x ".join(map(str, self.astra.dims))
        return (
            f"ASTRA-sim's inputs: {text.plural(len(self.astra.traces), 'rank')} ({dims}), "
            f"{text.plural(switches, 'switch')}, "
            f"{text.plural(len(self.inputs.topology.links), 'link')}"
        )

    @property
    def listed_items(self) -> list[str]:
        """All messages go to port 100."""
        return ["port 100"]

    @property
    def not_honoured(self) -> dict[str, str]:
        return {**super().not_honoured, **not_honoured(self.astra.system)}

    @property
    def report_section(self) -> ReportSection:
        return ReportSection(
            "system.json",
            "As it was read; the other files are beside this report, and the traces in its folder inputs.",
            self.files[SYSTEM_FILE].decode("utf-8", "backslashreplace"),
        )

    @property
    def files(self) -> dict[str, bytes]:
        return self.astra.files

    @property
    def long_files(self) -> Mapping[str, UnchangedFile]:
        return {f"{TRACES_PREFIX}.{rank}.et": trace for rank, trace in enumerate(self.astra.traces)}

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> AstraSetup:
        astra = load_inputs(options_of(folder), beside=True)
        astra.network.name = str(summary["name"])
        return cls.of(astra)


class NativeWork(HpccSetup):
    """Set-up of work (messages that wait for messages) on Tailback's own models."""

    @property
    def listed_items(self) -> list[str]:
        return [str(item) for item in self.plan["flows"]["items"]]

    @property
    def lossless(self) -> list[int]:
        return [WORK_PRIORITY]

    @property
    def link_events(self) -> int:
        return len(link_changes(self.plan))

    def on_wire(self, src: str, message_bytes: int | None, protocol: str) -> tuple[int, int]:
        """See `Setup`; with RoCEv2 headers."""
        del src, protocol
        mtu = int(self.plan["nics"][0]["mtu"])
        payload = message_bytes or mtu
        return payload, payload + -(-payload // mtu) * ROCE_OVERHEAD_BYTES + RETH_BYTES


@dataclass(frozen=True)
class AstraNativeSetup(NativeWork, AstraSetup):
    """An ASTRA-sim run on Tailback's own models."""
