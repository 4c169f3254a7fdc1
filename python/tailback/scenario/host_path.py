"""A host's data path from the NIC's receive buffer to memory or a GPU, and traffic of cores to memory.

What the model does with it is in docs/models/host-path.md.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from tailback.scenario import declared
from tailback.scenario.classes import Priorities
from tailback.scenario.fields import (
    Section,
    refuse,
    setting,
    stop_after_start,
)
from tailback.scenario.hosts import HostSet
from tailback.units import format_size, rate

_RHCC_SOURCE = "Wan et al. (RHCC), APNet 2024"

CACHE_LINE_BYTES = 64
TLP_OVERHEAD_BYTES = 4 + 16 + 4
"""Bytes of a write besides its payload: STP token with the sequence number, header with a 64-bit address, LCRC
(PCI Express base specification 3.1, sections 2.2 and 4.2.2)."""
MAX_INTERFACE_MTU = 9978
"""Largest MTU of a ConnectX-4 Lx's interface (ip -d link: maxmtu), by which the mlx5 driver sets xon below
xoff."""
CELL_BYTES = 128
"""Unit in which ConnectX-4 counts its receive buffer (mlx5 en/port_buffer.h)."""
XON_OFFSET_BYTES = 10_000
"""Distance of xon below xoff, where xon is auto."""


class Preset(NamedTuple):
    """A PCIe link and a host of its time."""

    transfers: int
    """Transfers per second of a lane, in 10^9."""
    lanes: int
    lines: int
    memory: int
    channels: int

    @property
    def rate(self) -> int:
        """Rate for TLPs in each direction, bit/s: after 128b/130b coding, and 2 % for DLLPs."""
        return self.transfers * 10**9 * self.lanes // 130 * 128 // 100 * 98


def _memory(channels: int, megatransfers: int) -> int:
    """80 % of the rate of the DRAM channels of 64 bits, bit/s."""
    return channels * 64 * megatransfers * 10**6 * 8 // 10


PCIE_PRESETS = {
    "pcie3-x8": Preset(8, 8, 93, rate("265.6Gbps"), 2),
    "pcie3-x16": Preset(8, 16, 93, rate("265.6Gbps"), 2),
    "pcie4-x16": Preset(16, 16, 186, _memory(8, 3200), 8),
    "pcie5-x16": Preset(32, 16, 372, _memory(8, 4800), 8),
}
WRITE_QUEUE_LINES = 32
"""Entries of the queue of pending writes of a channel: Intel, Xeon E5-2600 uncore performance monitoring
guide (327043-001), WPQ_OCCUPANCY grows by at most 32 a cycle."""


class _Parts(Section):
    """Priorities of the lossless part."""

    lossless: Priorities | None = setting(
        None,
        "Priorities for which the NIC pauses its peer; null: those of switch.lossless, at its default where "
        "there is no switch.",
        "assumption: NIC and switch are set up alike",
    )


class ReceiveBuffer(declared.Pause, declared.ReceiveThresholds, _Parts, declared.ReceiveBuffer):
    """The NIC's receive buffer: a part for its lossless priorities, and one for all others."""

    @model_validator(mode="after")
    def _ordered(self) -> ReceiveBuffer:
        if isinstance(self.xoff, int) and self.xoff > self.lossless_size:
            raise refuse(
                "xoff", format_size(self.xoff), f"at most lossless_size, {format_size(self.lossless_size)}"
            )
        if isinstance(self.xoff, int) and isinstance(self.xon, int) and self.xon >= self.xoff:
            raise refuse("xon", format_size(self.xon), f"less than xoff, {format_size(self.xoff)}")
        if self.cnp_threshold is not None and self.cnp_threshold > self.lossy_size:
            expected = f"at most lossy_size, {format_size(self.lossy_size)}"
            raise refuse("cnp_threshold", format_size(self.cnp_threshold), expected)
        return self


class Memory(declared.Memory):
    """The memory controller, which the NIC shares with the cores."""

    ddio: declared.Ddio | None = Field(
        default_factory=declared.Ddio, description="Direct cache access; null: off, writes go to memory."
    )


class Gpu(declared.Gpu):
    """A GPU's memory behind another root port, peer to peer."""

    stalls: declared.Stalls | None = setting(
        None, "Times in which it serves nothing; null: none.", "assumption: a GPU that runs no kernel answers"
    )


class _Ends(Section):
    """Preset of the host, and target of the path."""

    preset: Literal["pcie3-x8", "pcie3-x16", "pcie4-x16", "pcie5-x16"] = Field(
        description="PCIe generation and lanes; sets rate, iio_lines and bandwidths where they are null."
    )
    target: Literal["memory", "gpu"] = setting(
        "memory", "Where payload goes to, and comes from.", "assumption: a host without a GPU"
    )
    receive_buffer: ReceiveBuffer = Field(
        default_factory=ReceiveBuffer, description="The NIC's receive buffer, with its thresholds of PFC."
    )


FOLLOW_FROM_PRESET = ("iio_lines", "bandwidth", "write_queue")
"""Settings of a host path, its memory and its GPU that are derived from the preset if they are null."""


class HostPath(declared.HostPath, _Ends):
    """The path of a packet behind the NIC's port, on a host and a PCIe link of a preset."""

    memory: Memory = Field(
        default_factory=Memory, description="The memory controller, where target is memory."
    )
    gpu: Gpu = Field(default_factory=Gpu, description="The GPU's memory, where target is gpu.")
    reads: declared.Reads | None = setting(
        None,
        "How the NIC fetches what it sends; null: it always has it. {} has its defaults.",
        "assumption: host memory is read faster than a link carries",
    )

    @model_validator(mode="after")
    def _fits(self) -> HostPath:
        if self.max_payload.bit_count() != 1:
            raise refuse("max_payload", format_size(self.max_payload), "a power of two, 128B to 4096B")
        least = -(-self.max_payload // CACHE_LINE_BYTES)
        if self.iio_lines is not None and self.iio_lines < least:
            raise refuse("iio_lines", str(self.iio_lines), f"at least {least}, a write of max_payload")
        return self

    def usual(self) -> HostPath:
        """The path with the preset's values in place of given ones."""
        free = {
            "iio_lines": None,
            "memory": self.memory.model_copy(update={"bandwidth": None, "write_queue": None}),
            "gpu": self.gpu.model_copy(update={"bandwidth": None}),
        }
        return self.model_copy(update=free).resolved()

    def resolved(self) -> HostPath:
        """The path with the preset's values in place of null."""
        preset = PCIE_PRESETS[self.preset]
        link = self.rate or preset.rate
        write = self.max_payload
        return self.model_copy(
            update={
                "rate": link,
                "iio_lines": self.iio_lines or preset.lines,
                "memory": self.memory.model_copy(
                    update={
                        "bandwidth": self.memory.bandwidth or preset.memory,
                        "write_queue": self.memory.write_queue or preset.channels * WRITE_QUEUE_LINES,
                    }
                ),
                "gpu": self.gpu.model_copy(
                    update={"bandwidth": self.gpu.bandwidth or link * write // (write + TLP_OVERHEAD_BYTES)}
                ),
            }
        )


class PathOfHosts(HostPath):
    """The path of some hosts, instead of host.path."""

    hosts: HostSet = Field(description="The hosts: h0, h0..h15, or a list of these.")


class _At(Section):
    host: HostSet = Field(description="Hosts, each with such cores: h0, h0..h15, or a list of these.")


class MemoryLoad(declared.MemoryLoad, _At):
    """Memory traffic of cores, as from Intel MLC: each core keeps cache lines outstanding."""

    @model_validator(mode="after")
    def _ordered(self) -> MemoryLoad:
        stop_after_start(self.start, self.stop)
        return self
