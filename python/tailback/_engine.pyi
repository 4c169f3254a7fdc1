"""The engine: `crates/py`. Tables are anything that speaks the Arrow PyCapsule interface."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from tailback.controller import Checked

__version__: str
PREAMBLE_AND_GAP_BYTES: int
ETHERNET_HEADER_BYTES: int
FCS_BYTES: int
ROCE_HEADER_BYTES: int
RETH_BYTES: int
ACK_FRAME_BYTES: int
TCP_HEADER_BYTES: int

def controllers() -> str:
    """All controllers as JSON: those that a queue pair may run, then those that act beside one."""

def check_controller(settings_json: str, rate_bps: int, mtu_bytes: int) -> tuple[str, str] | None:
    """None where a controller can be set so on a link; else what parameter is wrong and what was expected."""

def read_flow_list(data: bytes, is_host: Sequence[bool], zones: Sequence[Sequence[int]]) -> bytes:
    """The rows of a flow.txt, see `tailback.rows`.

    ValueError with line, token (none: the file ends) and what is expected there.
    """

def rows_as_json(packed: bytes, between: str) -> str:
    """Rows as JSON has them, with a text between two."""

def circle(columns: tuple[bytes, ...]) -> list[int] | None:
    """Places of operations that wait for each other in a circle, of columns as
    `tailback.workload.operations.Columns`; None: there are none.
    """

class ControllerError(Exception):
    """A controller in Python failed: one line, and the exception behind it as the cause."""

@final
class Hop:
    """What a switch wrote into a packet that left it."""

    @property
    def at(self) -> int:
        """When the packet left its queue, picoseconds, by the switch's clock."""
    @property
    def tx_bytes(self) -> int:
        """Bytes that the port has sent so far."""
    @property
    def queue_bytes(self) -> int:
        """Bytes in the egress queue that the packet left behind."""
    @property
    def rate(self) -> int:
        """Rate of the link, bit/s."""

@final
class Ack:
    """What an acknowledgement tells a controller; times in picoseconds."""

    @property
    def now(self) -> int:
        """When it arrived."""
    @property
    def rtt(self) -> int:
        """Since the packet that it answers was sent."""
    @property
    def receiver_delay(self) -> int:
        """Of that, what the receiving host took."""
    @property
    def newly_acked_bytes(self) -> int:
        """Bytes that it acknowledges for the first time."""
    @property
    def acknowledged_bytes(self) -> int:
        """All bytes acknowledged so far, these included."""
    @property
    def sent_bytes(self) -> int:
        """End of what was sent: the next new byte's position."""
    @property
    def marked(self) -> bool:
        """Whether the packet that it answers carried a CE mark."""
    @property
    def hop_count(self) -> int:
        """Switches that the packet passed, where `uses` names hop_count or telemetry."""
    @property
    def hops(self) -> tuple[Hop, ...]:
        """What they wrote, in the order of the path, where `uses` names telemetry."""

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
        """A row a queue pair; once."""
    @property
    def flow_folder(self) -> Path | None:
        """The folder of the file that rows of flows are in, if they are in one: `next_flows` gives them."""
    @property
    def flow_columns(self) -> Any:
        """The schema of flows."""
    def next_flows(self) -> tuple[Any, Any] | None:
        """Rows of flows that follow each other: columns whose values differ, and those of one value."""
    @property
    def entities(self) -> Any:
        """A row an entity of the series."""
    @property
    def series(self) -> Any:
        """A row a bin, entity and metric."""
    @property
    def signals(self) -> Any:
        """A row a bin in which somebody told somebody to wait."""
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
    def fct(self) -> bytes:
        """That simulator's file: a line a finished message, in the order in which they finished; empty where
        the run has written it.
        """
    @property
    def fct_file(self) -> Path | None:
        """Where, if it has."""
    @property
    def pfc(self) -> Any:
        """A row a PFC frame received."""
    @property
    def qlen(self) -> str:
        """The queue-length file; empty where the plan asks for none."""
    @property
    def origin_ns(self) -> int:
        """When the first flow starts."""
    @property
    def finished(self) -> list[tuple[int, int, int]]:
        """Ranks of the work that have finished, in this order: rank, ns, and how long it computed in ns."""

@final
class Work:
    """What sends the messages of a run, in place of a list of them."""

    @staticmethod
    def astra(plan_json: str, traces: Sequence[str]) -> Work:
        """ASTRA-sim's system layer with the files of the ranks' traces, which must stay.

        ValueError with one line where a plan or a trace is impossible.
        """
    @staticmethod
    def simai(plan_json: str) -> Work:
        """SimAI's front end with a workload. ValueError where a plan is impossible."""

@final
class HpccSimulation:
    """A run of the HPCC profile under way."""

    def __init__(self, plan_json: str, flows: bytes | None = None) -> None:
        """ValueError with one line where the plan is impossible. `flows`: rows of its flows beside those in
        it, see `tailback.rows`.
        """
    @staticmethod
    def with_work(plan_json: str, work: Work) -> HpccSimulation:
        """A run whose messages are sent by the work of a front end, which no other run has taken.

        ValueError with one line where the plan is impossible.
        """
    def layers(self, known: int) -> list[tuple[int, int, int, int, int]]:
        """What the first rank has done of a workload's layers, after the first `known`.

        Each is layer, what of it (0 forward, 1 input gradient, 2 weight gradient), when it was asked for,
        when its layer knew that it was over, and how long the rank waited for it, in ns.
        """
    def keep_in(self, folder: str) -> None:
        """What there is very much of leaves memory for files in this folder."""
    def advance(self, max_events: int) -> Progress:
        """Executes up to `max_events` events, without the interpreter's lock.

        ValueError with one line where the work cannot go on.
        """
    def finish(self) -> HpccRecording:
        """Ends the run where it stands and hands over what was recorded; once."""

@final
class Simulation:
    """A run under way."""

    def __init__(
        self,
        plan_json: str,
        controllers: Sequence[Checked] = (),
        messages: bytes | None = None,
        graphs: Sequence[tuple[bytes, ...]] = (),
    ) -> None:
        """ValueError with one line where the plan is impossible; ControllerError where a controller is.
        `messages`: rows of its list of flows beside those in it, see `tailback.rows`; `graphs`: columns of
        the operations of its empty graphs, in order, see `tailback.workload.operations`.
        """
    @staticmethod
    def with_work(plan_json: str, work: Work) -> Simulation:
        """A run whose messages are sent by the work of a front end, which no other run has taken.

        ValueError with one line where the plan is impossible.
        """
    def layers(self, known: int) -> list[tuple[int, int, int, int, int]]:
        """What the first rank has done of a workload's layers, after the first `known`.

        Each is layer, what of it (0 forward, 1 input gradient, 2 weight gradient), when it was asked for,
        when its layer knew that it was over, and how long the rank waited for it, in ns.
        """
    def ranks_finished(self) -> list[tuple[int, int, int]]:
        """Ranks of the work that have finished, in this order: rank, ns, and how long it computed in ns."""
    def keep_in(self, folder: str) -> None:
        """What there is very much of leaves memory for files in this folder."""
    def advance(self, max_events: int) -> Progress:
        """Executes up to `max_events` events, without the interpreter's lock. OSError: of a capture."""
    def capture(self, path: str, links: Sequence[str], start_ps: int, stop_ps: int, snap_bytes: int) -> None:
        """Writes what links carry from now on to a new file. ValueError: no such link; OSError."""
    def use_threads(self, wanted: int | None) -> tuple[int, str | None]:
        """Has the run on so many cores, before it begins: how many it takes, and why not more. `None`: as
        many as there are, where that is worth it.
        """
    def end_capture(self) -> None:
        """Ends the capture, if there is one. OSError: it could not be written to its end."""
    def finish(self) -> Recording:
        """Ends the run where it stands and hands over what was recorded; once."""

@final
class Analysis:
    """A capture that is being read."""

    def __init__(self, path: str) -> None:
        """ValueError with what was found where it is no capture; OSError."""
    def advance(self, max_frames: int) -> tuple[int, bool]:
        """Reads so many frames: bytes read so far, and whether the file ends. ValueError: it is broken."""
    def finish(self) -> str:
        """What was found, as JSON; once."""

@final
class Point:
    """A congestion point between two interfaces; on Linux alone."""

    def __init__(self, first: str, second: str, settings_json: str) -> None:
        """ValueError where the settings are none; OSError, with the interface as its file name."""
    def lead(self, path: str, followers: int) -> None:
        """Its clock becomes that of so many programs with end points. OSError: the file cannot be made."""
    def run(self, milliseconds: int) -> None:
        """Forwards for so long. OSError: an interface is gone."""
    def mirror(self, path: str) -> None:
        """Writes what comes to a pcap file; before it has run. OSError: it cannot be written."""
    def end_mirror(self) -> None:
        """Ends that. OSError: it could not be written."""
    def told(self) -> str:
        """What it has done, as JSON."""

@final
class Live:
    """Hosts and switches with real packets; on Linux alone."""

    def __init__(self, plan_json: str, controllers: Sequence[Checked] = ...) -> None:
        """ValueError where the plan is none; OSError, with the interface as its file name. `controllers`: as
        of `Simulation`.
        """
    def follow(self, path: str) -> None:
        """Its clock is that of the congestion point that leads by a file. OSError: none does."""
    def run(self, milliseconds: int) -> bool:
        """Runs for so long: whether the run is over. OSError: an interface is gone; ControllerError."""
    def capture(self, path: str, host: int) -> None:
        """Writes the frames of a host to a pcap file from now on."""
    def end_capture(self) -> None:
        """Ends that."""
    def now_ps(self) -> int:
        """Its time."""
    def told(self, series: bool) -> str:
        """What it has done, as JSON. ControllerError."""
    @staticmethod
    def memory(number: int) -> tuple[int, int]:
        """Number of a host's queue pair by its order, which is its memory's key, too, and the address."""

def settings() -> str:
    """All sections of settings, as JSON."""

def recorded() -> str:
    """What is recorded, as JSON: `kinds` of entities, `quantities` with series or counters, `signals` and
    `columns`.
    """

def remove_when_out_of_memory(folders: Sequence[str]) -> None:
    """Folders that go, as far as they are empty, if memory runs out; in place of those before."""

def headroom_bytes(
    rate_bps: int, delay_ps: int, response_delay_ps: int, latency_ps: int, largest_packet_bytes: int
) -> int:
    """Bytes that a lossless priority of a port needs above xoff; packets are counted as on the wire."""
