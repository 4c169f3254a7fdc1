"""DCQCN's reaction point in Python, step by step as crates/proto/src/congestion/dcqcn.rs has it.

A worked example of a controller, and what the engine's own is compared with.
"""

from __future__ import annotations

from typing import ClassVar

from tailback import Controller, Link
from tailback.scenario.controllers import Dcqcn as Settings
from tailback.scenario.profiles import resolve

US = 1_000_000
NEVER = 2**64 - 1
RATE_STEP = 1e6


class Dcqcn(Controller):
    """The profile connectx."""

    uses = ("cnps",)
    signals: ClassVar[dict[str, str]] = {"alpha": "The estimate of congestion, 0 to 1."}

    def __init__(self, link: Link) -> None:
        """A new flow starts at the highest rate, with no limiter."""
        super().__init__(link)
        p = {
            name: int(one.value)
            for name, one in resolve(Settings(), int(link.rate)).items()
            if one.value != "qp"
        }
        self.p = p
        self.g = (1024 - p["dce_tcp_g"]) / 1024.0
        powers = [1.0]
        for _ in range(255):
            powers.append(powers[-1] * (1.0 - self.g))
        coarse, base = [1.0], powers[255] * (1.0 - self.g)
        for _ in range(255):
            coarse.append(coarse[-1] * base)
        self.decay = (powers, coarse)
        self.alpha_period = p["dce_tcp_rtt"] * US
        self.cut_period = p["rate_reduce_monitor_period"] * US
        self.increase_period = p["rpg_time_reset"] * US
        self.increase_bytes = p["rpg_byte_reset"] * p["byte_reset_unit_bytes"]
        self.min_rate = p["rpg_min_rate"] * 1e6
        self.gd = float(1 << (p["rpg_gd"] - 10))
        self._release()

    def _release(self) -> None:
        self.rate = self.target = self.link.rate
        self.alpha = 0.0
        self.alpha_at = self.cut_grid_at = 0
        self.cut_at = self.increase_at = NEVER
        self.bytes = self.timer_events = self.byte_events = 0
        self.cnp_in_alpha_period = self.limited = False

    def on_sent(self, now: int, payload: int) -> None:
        """The byte counter."""
        if not self.limited:
            return
        self._run_timers(now)
        if self.increase_at == NEVER or self.increase_bytes == 0:
            return
        self.bytes += payload
        while self.bytes >= self.increase_bytes and self.limited:
            self.bytes -= self.increase_bytes
            self.byte_events += 1
            self._increase()

    def on_cnp(self, now: int) -> None:
        """The first one starts the limiter; a later one cuts at the start of the next period."""
        self._catch_up(now)
        if not self.limited:
            self.limited = True
            self.alpha = self.p["initial_alpha_value"] / 1024.0
            self.alpha_at = now
            self.cnp_in_alpha_period = False
            self.target = self.rate
            self.cut_grid_at = now
            self.cut_at = now + self.cut_period
        else:
            self.cnp_in_alpha_period = True
            if self.cut_at == NEVER:
                periods = (now - self.cut_grid_at) // self.cut_period
                self.cut_at = self.cut_grid_at + (periods + 1) * self.cut_period
        self._run_timers(now)

    def peek(self, now: int) -> Dcqcn:
        """With all timers replayed."""
        if not self.limited:
            return self
        seen = object.__new__(Dcqcn)  # copy.copy takes three times as long
        seen.__dict__.update(self.__dict__)
        seen._catch_up(now)
        return seen

    def _catch_up(self, now: int) -> None:
        self._run_timers(now)
        if self.limited:
            self._update_alpha(now)

    def _run_timers(self, now: int) -> None:
        while self.increase_at <= now or self.cut_at <= now:
            if self.increase_at <= self.cut_at:
                self.increase_at += self.increase_period
                self.timer_events += 1
                self._increase()
            else:
                self._update_alpha(self.cut_at)
                self._cut(self.cut_at)

    def _update_alpha(self, now: int) -> None:
        periods = (now - self.alpha_at) // self.alpha_period
        if periods == 0:
            return
        self.alpha_at += periods * self.alpha_period
        self.alpha *= 1.0 - self.g
        if self.cnp_in_alpha_period:
            self.alpha += self.g
            self.cnp_in_alpha_period = False
        quiet, (fine, coarse) = periods - 1, self.decay
        while quiet >= 1 << 16 and self.alpha > 0.0:
            self.alpha *= coarse[255] * coarse[1]
            quiet -= 1 << 16
        self.alpha = self.alpha * fine[quiet % 256] * coarse[quiet // 256 % 256]

    def _cut(self, at: int) -> None:
        if (
            self.p["clamp_tgt_rate"]
            or self.byte_events
            or (self.timer_events and self.p["clamp_tgt_rate_after_time_inc"])
        ):
            self.target = self.rate
        least = self.rate * (self.p["rpg_min_dec_fac"] / 100.0)
        self.rate = max(self.rate * (1.0 - self.alpha / self.gd), least, self.min_rate)
        self.timer_events = self.byte_events = self.bytes = 0
        self.increase_at = at + self.increase_period
        self.cut_at = NEVER

    def _increase(self) -> None:
        if min(self.timer_events, self.byte_events) > self.p["rpg_threshold"]:
            self.target += self.p["rpg_hai_rate"] * 1e6
        elif max(self.timer_events, self.byte_events) > self.p["rpg_threshold"]:
            self.target += self.p["rpg_ai_rate"] * 1e6
        self.target = min(self.target, self.link.rate)
        self.rate = (self.rate + self.target) / 2.0
        if self.p["release_at_max_rate"] and self.cut_at == NEVER and self.link.rate - self.rate < RATE_STEP:
            self._release()
