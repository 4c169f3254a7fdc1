"""TCP of every host: the settings of a Linux kernel."""

from __future__ import annotations

from pydantic import model_validator

from tailback.scenario import declared
from tailback.scenario.fields import refuse
from tailback.units import format_duration, format_size
from tailback.wire import TCP_HEADER_BYTES

MAX_CONNECTIONS = 65_536
"""Connections of a pair of hosts: port numbers have 16 bits."""


class Tcp(declared.Tcp):
    """TCP of every host, as in Linux; without effect if no traffic is tcp."""

    @property
    def segment(self) -> int:
        """Payload of a full segment in bytes."""
        return self.mtu - TCP_HEADER_BYTES

    @property
    def uses_ecn(self) -> bool:
        """True if data packets are ECN-capable (ECT)."""
        return self.ecn or self.control == "dctcp"

    @property
    def first_rto(self) -> int:
        """The timeout before the first round trip is measured, picoseconds."""
        return self.min_rto if self.initial_rto is None else self.initial_rto

    @model_validator(mode="after")
    def _consistent(self) -> Tcp:
        given = self.model_fields_set
        if self.control == "dctcp" and "ecn" in given and not self.ecn:
            raise refuse("ecn", "false", "true with dctcp, which needs marks")
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
