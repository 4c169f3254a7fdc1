"""The CPU of every host, as far as a kernel's network stack uses it, and what it is in the plan.

RDMA takes none of it: a WRITE is the NIC's work alone.
"""

from __future__ import annotations

from typing import Annotated, Any

from tailback.scenario.fields import Delay, Part, setting
from tailback.units import FREQUENCY, SIZE, duration, frequency, size

MOST_CORES = 1024
_Clock = Annotated[int, FREQUENCY.between("1MHz", "100GHz")]
_Merged = Annotated[int, SIZE.between(maximum="512KiB")]

_CAI = 'Cai et al., "Understanding Host Network Stack Overheads", SIGCOMM 2021'


def _cycles(default: float, about: str, why: str) -> Any:
    return setting(default, about, f"assumption: {why}", ge=0.0, le=1e9, allow_inf_nan=False)


class Cpu(Part):
    """The CPU of every host, of which TCP takes a part and RDMA none; no effect where no traffic is tcp."""

    cores: int = setting(
        16,
        "Cores, each with a receive ring and an interrupt; a hash spreads connections over them (RSS).",
        "assumption: a server of 2016 or 2017 with two processors of 8 cores (Xeon E5-2600 v4)",
        ge=1,
        le=MOST_CORES,
    )
    clock: _Clock = setting(
        frequency("2.6GHz"), "Cycles of a core in a second.", "assumption: Xeon E5-2600 v4 at 8 cores"
    )
    rx_ring: int = setting(
        1024,
        "Packets that a receive ring holds; more are dropped.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE = 10",
        ge=1,
        le=1_048_576,
    )
    interrupt_delay: Delay = setting(
        duration("8us"),
        "An interrupt comes at most this long after a packet.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_USEC_FROM_CQE",
    )
    interrupt_packets: int = setting(
        32,
        "An interrupt comes at once when this many packets wait.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_PKTS",
        ge=1,
        le=65_535,
    )
    napi_budget: int = setting(
        64, "Packets of a poll.", "Linux netdevice.h: NAPI_POLL_WEIGHT", ge=1, le=65_535
    )
    gro: _Merged = setting(
        size("64KiB"),
        "Most that neighbouring segments of a connection are merged into before they go up the stack (GRO); "
        "0: off.",
        "Linux netdevice.h: GRO_LEGACY_MAX_SIZE",
    )
    cycles_per_interrupt: float = _cycles(
        2500.0,
        "Cycles of an interrupt and of the begin and end of its polls.",
        "about a microsecond, the usual price of an interrupt and a softirq",
    )
    cycles_per_packet: float = _cycles(
        700.0,
        "Cycles of a packet in the driver and in GRO.",
        f"of the order of {_CAI}, section 3: about a million packets a second and core without GRO",
    )
    cycles_per_segment: float = _cycles(
        3000.0,
        "Cycles of what goes through the stack as one: merged segments up, an ACK, a burst down.",
        f"of the order of {_CAI}, section 3; a microsecond of IP, TCP and the socket",
    )
    cycles_per_byte: float = _cycles(
        0.32,
        "Cycles of copying a byte between kernel and application.",
        f"worked out from {_CAI}: 42 Gbit/s a receiving core of 3.4 GHz are 0.65 cycles a byte, half of them "
        "copying",
    )


def cpu_plan(cpu: Cpu) -> dict[str, Any]:
    """The CPU of a kind of host as the engine takes it."""
    return {
        "cores": cpu.cores,
        "clock_hz": float(cpu.clock),
        "rx_ring": cpu.rx_ring,
        "interrupt_delay_ps": cpu.interrupt_delay,
        "interrupt_packets": cpu.interrupt_packets,
        "napi_budget": cpu.napi_budget,
        "gro_bytes": cpu.gro,
        "cycles_per_interrupt": cpu.cycles_per_interrupt,
        "cycles_per_packet": cpu.cycles_per_packet,
        "cycles_per_segment": cpu.cycles_per_segment,
        "cycles_per_byte": cpu.cycles_per_byte,
    }
