"""TCP of every host: the settings of a Linux kernel, and what they are in the plan."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import model_validator

from tailback.scenario.fields import Part, refuse, setting
from tailback.units import DURATION, SIZE, duration, format_duration, format_size, size

HEADERS_BYTES = 20 + 20 + 12
"""IPv4 (RFC 791), TCP (RFC 9293), and the timestamps option with its padding (RFC 7323, appendix A)."""
ETHERNET_BYTES = 14 + 4 + 8 + 12
"""What IEEE 802.3 puts around an IP packet: addresses and type, FCS, preamble, gap."""
MOST_CONNECTIONS = 65_536
"""Most connections of a pair of hosts: a port has 16 bits."""

_Timer = Annotated[int, DURATION.between("1us", "600s")]
_Mtu = Annotated[int, SIZE.between("576B", "9216B")]
_Buffer = Annotated[int, SIZE.between("1B", "1GiB")]
_Burst = Annotated[int, SIZE.between(maximum="512KiB")]


class Tcp(Part):
    """TCP of every host, as a Linux kernel has it; without effect where no traffic is tcp."""

    control: Literal["cubic", "newreno", "dctcp"] = setting(
        "cubic",
        "Congestion control: cubic (RFC 9438), newreno (RFC 5681, RFC 6582) or dctcp (RFC 8257).",
        "Linux net/ipv4/Kconfig: DEFAULT_CUBIC",
    )
    mtu: _Mtu = setting(
        size("1500B"),
        "Largest IP packet; 52 B of it are headers.",
        "IEEE 802.3: the payload of a frame that is no jumbo frame",
    )
    sack: bool = setting(
        True,
        "Selective acknowledgements (RFC 2018, RFC 6675); without them NewReno's recovery (RFC 6582).",
        "Linux tcp_ipv4.c: net.ipv4.tcp_sack = 1",
    )
    ecn: bool = setting(
        False,
        "Whether connections use ECN (RFC 3168). dctcp always does.",
        "Linux tcp_ipv4.c: net.ipv4.tcp_ecn = 2, which accepts ECN and does not ask for it",
    )
    initial_window: int = setting(
        10, "Segments of the first window.", "RFC 6928; Linux tcp.h: TCP_INIT_CWND", ge=1, le=10_000
    )
    initial_rto: _Timer | None = setting(
        None,
        "Retransmission timeout before data has measured a round trip. null: min_rto.",
        "assumption: the handshake, which is left out, has measured a short round trip by then (RFC 6298, "
        "section 2.1, and Linux, TCP_TIMEOUT_INIT, have 1 s without one)",
    )
    min_rto: _Timer = setting(
        duration("200ms"),
        "Shortest retransmission timeout; longer than delayed_ack, or it ends waits for ACKs that are due.",
        "Linux tcp.h: TCP_RTO_MIN (RFC 6298 has 1 s)",
    )
    max_rto: _Timer = setting(duration("120s"), "Longest retransmission timeout.", "Linux tcp.h: TCP_RTO_MAX")
    delayed_ack: _Timer = setting(
        duration("40ms"), "Longest time that an ACK waits for more data.", "Linux tcp.h: TCP_DELACK_MIN"
    )
    ack_every: int = setting(
        2, "Full segments after which an ACK waits no longer.", "RFC 5681, section 4.2", ge=1, le=64
    )
    receive_buffer: _Buffer = setting(
        size("6MiB"),
        "Most that a receiver lets a sender have under way and unread.",
        "Linux tcp.c, tcp_init: the largest of net.ipv4.tcp_rmem (32 MiB in the newest kernels); its growth "
        "up to there is left out",
    )
    tso: _Burst = setting(
        size("64KiB"),
        "Most that TCP hands to the NIC at once, which cuts it into segments; less than a segment: segment "
        "by segment.",
        "Linux netdevice.h: GSO_LEGACY_MAX_SIZE",
    )
    small_queue: _Buffer = setting(
        size("1MiB"),
        "Most of one connection that waits in its own host's queues (TCP small queues).",
        "Linux tcp_ipv4.c: net.ipv4.tcp_limit_output_bytes = 16 bursts of 64 KiB (4 MiB in the newest "
        "kernels)",
    )

    @property
    def segment(self) -> int:
        """Payload of a full segment in bytes."""
        return self.mtu - HEADERS_BYTES

    @property
    def uses_ecn(self) -> bool:
        """Whether data carries ECT."""
        return self.ecn or self.control == "dctcp"

    @property
    def first_rto(self) -> int:
        """The timeout before data has measured a round trip, picoseconds."""
        return self.min_rto if self.initial_rto is None else self.initial_rto

    @model_validator(mode="after")
    def _consistent(self) -> Tcp:
        given = self.model_fields_set
        if self.control == "dctcp" and "ecn" in given and not self.ecn:
            raise refuse("ecn", "false", "true with dctcp, which lives on marks")
        if self.min_rto > self.max_rto:
            which, other = ("max_rto", "min_rto") if "max_rto" in given else ("min_rto", "max_rto")
            bound = "at least" if which == "max_rto" else "at most"
            shown = (format_duration(getattr(self, name)) for name in (which, other))
            raise refuse(which, next(shown), f"{bound} {other}, {next(shown)}")
        if self.delayed_ack >= self.min_rto:
            which = "delayed_ack" if "delayed_ack" in given else "min_rto"
            bounds = {
                "delayed_ack": f"less than min_rto, {format_duration(self.min_rto)}",
                "min_rto": f"more than delayed_ack, {format_duration(self.delayed_ack)}",
            }
            raise refuse(which, format_duration(getattr(self, which)), bounds[which])
        if not self.min_rto <= self.first_rto <= self.max_rto:
            span = f"{format_duration(self.min_rto)} to {format_duration(self.max_rto)}, min_rto to max_rto"
            raise refuse("initial_rto", format_duration(self.first_rto), span)
        for name, packets, words in (
            ("receive_buffer", 2, f"at least two packets of {self.mtu}B, the mtu"),
            ("small_queue", 1, f"at least one packet, {self.mtu}B, the mtu"),
        ):
            if getattr(self, name) < packets * self.mtu:
                raise refuse(name, format_size(getattr(self, name)), words)
        return self


def tcp_plan(tcp: Tcp) -> dict[str, Any]:
    """TCP of a kind of host as the engine takes it."""
    return {
        "control": tcp.control,
        "mtu_bytes": tcp.mtu,
        "sack": tcp.sack,
        "ecn": tcp.uses_ecn,
        "initial_window_segments": tcp.initial_window,
        "initial_rto_ps": tcp.first_rto,
        "min_rto_ps": tcp.min_rto,
        "max_rto_ps": tcp.max_rto,
        "delayed_ack_ps": tcp.delayed_ack,
        "ack_every_segments": tcp.ack_every,
        "receive_buffer_bytes": tcp.receive_buffer,
        "tso_bytes": max(tcp.tso, tcp.segment),
        "small_queue_bytes": tcp.small_queue,
    }
