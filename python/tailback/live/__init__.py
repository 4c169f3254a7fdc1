"""Runs hosts and switches with real packets on interfaces of this machine; results are as those of any run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tailback import interrupts
from tailback.errors import InputError, Problem
from tailback.files.out_folder import OutFolder
from tailback.live.perftest_peer import perftest_peer
from tailback.live.plan import live_plan
from tailback.live.recording import recording
from tailback.plan import make_plan
from tailback.running import own_controllers
from tailback.scenario import Scenario

if TYPE_CHECKING:
    from tailback._engine import Live
    from tailback.results import Result

CAPTURE_FILE = "capture.pcap"
"""Frames of a host, in the folder of the result."""
POLL_INTERVAL_MS = 100
"""Time between two checks for Ctrl-C and updates of the progress bar."""
EXPECTED_INTERFACE = (
    "expected an interface that may be used (CAP_NET_RAW, and CAP_SYS_ADMIN to make namespaces)"
)

Counts = dict[str, Any]


class InterfaceGone(RuntimeError):  # noqa: N818  it is what happened
    """An interface has vanished. `result` holds the part measured until then."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


def slowdown_for(scenario: Scenario, rate_bps: int) -> float:
    """Factor between real time and scenario time, so that the fastest link carries `rate_bps`."""
    return max(1.0, max((wire.rate for wire in scenario.network.wires), default=0) / rate_bps)


def run(
    scenario: Scenario,
    folder: OutFolder | None,
    *,
    slowdown: float = 1.0,
    interfaces: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
    capture: str | None = None,
    report: bool = True,
    perftest: str | None = None,
    verb: str = "write",
    clock: str | None = None,
) -> Result:
    """Runs a scenario with real packets, and returns its result.

    The network is made of veth pairs that end with this process, or, with `interfaces` by host, of existing
    interfaces; hosts without one run elsewhere. The clock stands still while the process has no CPU. `capture`:
    host whose frames are written to capture.pcap. `perftest`: ADDRESS or ADDRESS:PORT where `ib_write_bw`, the
    other end, listens, or where to listen for it. `verb`: write, send or read, as with `ib_write_bw`,
    `ib_send_bw` and `ib_read_bw`. `clock`: file of a congestion point on this machine that shares its clock. A
    scenario of a veth pair runs on the kernel's own: see `tailback.live.veth`.

    Raises:
        InputError: the scenario has parts that are only simulated, an interface cannot be used, or a controller
            failed.
        InterfaceGone: an interface vanished; it holds the result until then.
    """
    if scenario.veth is not None:
        return _on_kernel(scenario, folder, interfaces, capture, report, progress)
    try:
        from tailback._engine import Live
    except ImportError:
        text = "found another system, expected Linux: packet sockets are its own"
        raise InputError.at("tailback live", text) from None
    plan, live = make_plan(scenario), live_plan(scenario, slowdown, interfaces, verb)
    far_end = perftest_peer(perftest, live, Live.memory) if perftest else nullcontext()
    with far_end as far, own_controllers(scenario):
        try:
            engine = Live(json.dumps(live), list(scenario.own_controllers.values()))
        except OSError as error:
            found = (error.strerror or str(error)).lower()
            problem = Problem(str(error.filename), (), f"found {found}, {EXPECTED_INTERFACE}")
            raise InputError([problem]) from None
        if capture is not None and folder is not None:
            hosts = scenario.network.hosts
            if capture not in hosts or (interfaces is not None and capture not in interfaces):
                text = f"found {capture}, expected a host that is here"
                raise InputError.at("--capture", text)
            engine.capture(str(folder.growing() / CAPTURE_FILE), hosts.index(capture))
        if clock is not None:
            _follow(engine, clock)
        if far:
            far.opened()
        wall, cpu = time.perf_counter(), time.thread_time()
        over, gone = False, ""
        with interrupts.noted() as seen:
            while not over and not seen:
                try:
                    over = engine.run(POLL_INTERVAL_MS) or (far is not None and far.over)
                except OSError as error:
                    gone = f"{error.filename}: {(error.strerror or str(error)).lower()}"
                    break
                if progress is not None:
                    progress(engine.now_ps())
            engine.end_capture()
            counts: Counts = json.loads(engine.told(True))
            took = time.perf_counter() - wall, time.thread_time() - cpu
            result = _result(scenario, plan, live, counts, took, over)
            if folder is not None:
                result.write(folder, report)
            if far and over:
                far.close(result)  # last: the result is written, whatever happens to the other end
    if gone:
        raise InterfaceGone(gone, result)
    return result


def _follow(engine: Live, clock: str) -> None:
    try:
        engine.follow(clock)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        text = f"found {found}, expected the file of a tailback point --clock that runs"
        raise InputError.at(clock, text) from None


def _on_kernel(
    scenario: Scenario,
    folder: OutFolder | None,
    interfaces: Mapping[str, str] | None,
    capture: str | None,
    report: bool,
    progress: Callable[[int], None] | None,
) -> Result:
    if interfaces is not None or capture is not None:
        what = "--capture" if capture is not None else "endpoint"
        raise InputError.at(what, "found a veth pair, expected a scenario with hosts")
    if sys.platform != "linux":
        raise InputError.at("tailback live", "found another system, expected Linux: veth is its own")
    from tailback.live import veth

    return veth.run(scenario, folder, report=report, progress=progress)


def _result(
    scenario: Scenario,
    plan: dict[str, Any],
    live: Mapping[str, Any],
    counts: Counts,
    took: tuple[float, float],
    complete: bool,
) -> Result:
    from tailback.results import Result

    recorded = recording(scenario, plan, live, counts, complete)
    return Result.from_recording(scenario, plan, recorded, *took, not complete)
