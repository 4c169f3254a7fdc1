"""The engine: `crates/py`. Tables are anything that speaks the Arrow PyCapsule interface."""

from typing import Any, final

def controllers() -> str:
    """All controllers as JSON: those that a queue pair may run, then those that act beside one."""

def check_controller(settings_json: str, rate_bps: int, mtu_bytes: int) -> tuple[str, str] | None:
    """None where a controller can be set so on a link; else what parameter is wrong and what was expected."""

@final
class Progress:
    """How far a run is."""

    @property
    def time_ps(self) -> int:
        """Simulated time, picoseconds."""
    @property
    def packet_hops(self) -> int:
        """Transmissions of a packet over a link so far."""
    @property
    def events(self) -> int:
        """Events executed so far."""
    @property
    def done(self) -> bool:
        """Whether the run is over."""

@final
class Recording:
    """What was recorded of a run."""

    @property
    def flows(self) -> Any:
        """A row a queue pair."""
    @property
    def series(self) -> Any:
        """A row a bin, entity and metric."""
    @property
    def counters(self) -> Any:
        """A row a counter."""
    @property
    def meta_json(self) -> str:
        """The run as a whole, as JSON."""

@final
class HpccRecording:
    """What was recorded of a run of the HPCC profile."""

    @property
    def recording(self) -> Recording:
        """As of any run; its times count from `origin_ns`."""
    @property
    def fct(self) -> Any:
        """A row a finished message, in the order in which they finished."""
    @property
    def pfc(self) -> Any:
        """A row a PFC frame received."""
    @property
    def qlen(self) -> str:
        """The queue-length file; empty where the plan asks for none."""
    @property
    def origin_ns(self) -> int:
        """When the first flow starts."""

@final
class HpccSimulation:
    """A run of the HPCC profile under way."""

    def __init__(self, plan_json: str) -> None:
        """ValueError with one line where the plan is impossible."""
    def advance(self, max_events: int) -> Progress:
        """Executes up to `max_events` events, without the interpreter's lock."""
    def finish(self) -> HpccRecording:
        """Ends the run where it stands and hands over what was recorded; once."""

@final
class Simulation:
    """A run under way."""

    def __init__(self, plan_json: str) -> None:
        """ValueError with one line where the plan is impossible."""
    def advance(self, max_events: int) -> Progress:
        """Executes up to `max_events` events, without the interpreter's lock."""
    def finish(self) -> Recording:
        """Ends the run where it stands and hands over what was recorded; once."""

def settings() -> str:
    """All sections of settings, as JSON."""

def headroom_bytes(
    rate_bps: int, delay_ps: int, response_delay_ps: int, latency_ps: int, largest_packet_bytes: int
) -> int:
    """Bytes that a lossless priority of a port needs above xoff; packets are counted as on the wire."""
