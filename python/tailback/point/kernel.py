"""The kernel's own congestion point: a bridge with RED behind a rate at both ports, and what `tc` counts.

The bridge is set up as that of a lab (`tailback.lab.steps`), and taken back at the end. Its alias says whose
it is and how its ports were, so that `clean` can take it back where the program was killed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tailback import interrupts
from tailback.errors import InputError, Problem
from tailback.lab.back import (
    NotGivenBack,
    addresses,
    addresses_line,
    disciplines,
    disciplines_line,
    is_up,
    link,
    lost_addresses,
)
from tailback.lab.model import LOCAL, LabBridge, LabHost
from tailback.lab.reach import ask, last_line
from tailback.lab.readers import QdiscCounters, Unread, tc
from tailback.lab.steps import Step, bridge_steps, words
from tailback.point.settings import PointSettings

BRIDGE = "tailback-cp"
STEP_PS = 200_000_000_000
"""Time between two looks at the counters."""
AVERAGE_PACKET_BYTES = 1000
"""RED's `avpkt`, as in the example of tc-red(8)."""
BURST_BYTES = 20_000
"""What the rate lets through at once: an assumption. Two packets of 9 KB, so that each MTU passes."""
_HERE = LabHost(at=LOCAL, model=None)

_OF_RED = {"min": "ecn.k_min", "max": "ecn.k_max", "probability": "ecn.p_max", "limit": "buffer"}
"""RED's words for what is set."""

_NAME = "tailback point --kernel"
"""What problems are told of, and what the alias of a bridge begins with."""
_OF_PORT = r"; ([A-Za-z0-9][A-Za-z0-9_.@-]{0,14}) mtu ([0-9]{1,10}) (up|down)"
_MADE = re.compile(rf"{_NAME}, process ([0-9]{{1,10}}) begun ([0-9]{{1,20}})((?:{_OF_PORT})*)", re.ASCII)
_PORT = re.compile(_OF_PORT, re.ASCII)
"""The alias of a bridge that this has made, and a port in it."""

Counters = dict[str, Any]


def run(
    first: str,
    second: str,
    settings: PointSettings,
    duration_ps: int | None = None,
    show: Callable[[Counters], None] | None = None,
) -> Counters:
    """Has the kernel forward between two interfaces of a namespace, until the time is over or a signal comes.

    Raises:
        InputError: it cannot be set up, or has what only the program's point has; nothing of it is left.
    """
    namespace, names = _place(first, second)
    with interrupts.noted() as seen, _set_up(namespace, names, settings) as left:
        counts, begin = _Counts(), time.monotonic()
        end = float("inf") if duration_ps is None else begin + duration_ps / 1e12
        told: Counters = {"interfaces": [first, second], "happened": [], "bin_ps": STEP_PS}
        told |= {"ended_by": None, "bins": counts.bins}
        over = False
        while not over:
            until = min(end, begin + (counts.looks() + 1) * STEP_PS / 1e12)
            time.sleep(max(0.0, until - time.monotonic()))
            elapsed_ps = int(1e12 * (time.monotonic() - begin))
            over = bool(seen) or time.monotonic() >= end
            try:
                for number, name in enumerate(names[::-1]):  # what goes from A to B waits at B
                    counts.look(number, _counters(namespace, name), elapsed_ps)
            except Unread as error:
                told["ended_by"], over = str(error), True
            told = {**told, "elapsed_ps": elapsed_ps, **counts.told()}
            if show is not None:
                show(told)
    if left:
        told["ended_by"] = "; ".join([*filter(None, [told["ended_by"]]), *left])
    return told


class _Counts:
    """What was counted so far, by direction."""

    def __init__(self) -> None:
        self.bins: list[list[dict[str, int]]] = [[], []]
        self._directions = [dict.fromkeys(("tx_frames", "tx_bytes", "marked"), 0) for _ in range(2)]
        self._queued, self._most = [0, 0], [0, 0]

    def looks(self) -> int:
        """How many there were in both directions."""
        return len(self.bins[1])

    def look(self, number: int, found: QdiscCounters, elapsed_ps: int) -> None:
        """Takes what a direction's discipline has counted in the time since the begin."""
        counted, before = found.counters, self._directions[number]
        dropped = {f"dropped_{name}": counted.get(f"red_{name}", 0) for name in ("early", "pdrop", "other")}
        now = {
            "tx_frames": counted["qdisc_sent_packets"],
            "tx_bytes": counted["qdisc_sent_bytes"],
            "marked": counted.get("red_marked", 0),
            **dropped,
        }
        since = {key: value - before.get(key, 0) for key, value in now.items()}
        self._directions[number], self._queued[number] = now, found.backlog_bytes
        self._most[number] = max(self._most[number], found.backlog_bytes)
        length_ps = min(STEP_PS, max(elapsed_ps - len(self.bins[number]) * STEP_PS, 1))
        row = {
            "dropped": sum(since[key] for key in dropped),
            "most_queued_bytes": found.backlog_bytes,
            "queued_byte_ps": found.backlog_bytes * length_ps,
        }
        self.bins[number].append({"tx_bytes": since["tx_bytes"], "marked": since["marked"], **row})

    def told(self) -> Counters:
        """As the program's own point tells it."""
        most = [{"most_queued_bytes": most} for most in self._most]
        directions = [{**one, **of} for one, of in zip(self._directions, most, strict=True)]
        return {"directions": directions, "queued_bytes": list(self._queued)}


def _place(first: str, second: str) -> tuple[str, list[str]]:
    """Namespace, empty for this one, and the names there."""
    parted = [name.rpartition("/") for name in (first, second)]
    if parted[0][0] != parted[1][0]:
        raise InputError.at(
            _NAME, f"found {first} and {second}, expected interfaces of one namespace: a bridge joins these"
        )
    return parted[0][0], [name for _, _, name in parted]


def _ask(namespace: str, command: Sequence[str] | str) -> tuple[int, str, str]:
    """Runs words, or a line of a lab's step for a shell, in a namespace."""
    if not namespace:
        return ask(_HERE, command)
    told = ["sh", "-c", command] if isinstance(command, str) else command
    return ask(_HERE, ["ip", "netns", "exec", namespace, *told])


def _counters(namespace: str, name: str) -> QdiscCounters:
    status, out, said = _ask(namespace, ["tc", "-s", "-j", "qdisc", "show", "dev", name])
    if status:
        raise Unread(f"{name}: {last_line(said)}")
    return tc(out)


def _steps(namespace: str, names: list[str], settings: PointSettings) -> list[Step]:
    only_ours = {
        "delay": settings.delay,
        "pfc": settings.pfc,
        "loss": settings.loss,
        "events": settings.events,
    }
    for key, value in only_ours.items():
        if value:
            raise InputError.at(
                _NAME, f"found {key}, expected rate, buffer and ecn: the kernel's bridge has no more"
            )
    if settings.ecn is None:
        raise InputError.at(
            _NAME, "found no ecn, expected k_min, k_max and p_max, which are RED's min, max and probability"
        )
    ports_were = [_link(namespace, name) for name in names]
    mtus = [port["mtu"] for port in ports_were]
    rate, limit = f"{settings.rate}bps", f"{settings.buffer}B"
    red = {
        "kind": "red",
        "limit": limit,
        "min": f"{settings.ecn.k_min}B",
        "max": f"{settings.ecn.k_max}B",
        "avpkt": f"{AVERAGE_PACKET_BYTES}B",
        "bandwidth": rate,
        "probability": settings.ecn.p_max,
        "ecn": True,
    }
    tbf = {"kind": "tbf", "rate": rate, "burst": f"{BURST_BYTES}B", "child": red}
    ports = [{"interface": name, "qdisc": tbf} for name in names]
    try:
        bridge = LabBridge.model_validate({"host": "here", "name": BRIDGE, "mtu": min(mtus), "ports": ports})
    except ValidationError as error:
        one = error.errors(include_url=False)[0]
        key, expected = str(one["loc"][-1]), one["msg"].removeprefix("Input should be ")
        raise InputError.at(_NAME, f"{_OF_RED.get(key, key)}: expected {expected}") from None
    made, *rest = bridge_steps(bridge)
    begun = _begun(os.getpid())
    was = [f"{name} mtu {port['mtu']} {_state(port)}" for name, port in zip(names, ports_were, strict=True)]
    alias = "; ".join([f"{_NAME}, process {os.getpid()} begun {begun}", *was])
    return [made, Named("here", "whose it is", alias), *rest]


class Named(Step):
    """The step that gives the bridge its alias."""

    @property
    def command(self) -> list[str]:
        """Its words: the alias is one, whatever is in it."""
        return ["ip", "link", "set", "dev", BRIDGE, "alias", self.do]


def _link(namespace: str, name: str) -> dict[str, Any]:
    """What `ip` tells of a device."""
    status, out, said = _ask(namespace, ["ip", "-j", "-d", "link", "show", "dev", name])
    if status:
        raise InputError.at(
            _NAME, f"found {last_line(said)!r}, expected an interface that may join a bridge: {name}"
        )
    try:
        return link(out, name)
    except NotGivenBack as error:
        raise InputError.at(_NAME, f"{error}: {name}") from None


def _state(found: dict[str, Any]) -> str:
    return "up" if is_up(found) else "down"


def _begun(process: int) -> int:
    """When a process began, in ticks since the machine did; 0: there is none (proc_pid_stat(5), field 22)."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def clean() -> list[str]:
    """Takes back what killed programs have left in this namespace and those of `ip netns`: a line each."""
    _, out, _ = ask(_HERE, ["ip", "-j", "netns", "list"])
    try:
        named = [str(one["name"]) for one in json.loads(out or "[]")]
    except (ValueError, TypeError, KeyError):
        return ["the namespaces of ip netns: not looked into, as ip lists them in another form"]
    return [line for namespace in ["", *named] for line in _cleaned(namespace)]


def _cleaned(namespace: str) -> Iterator[str]:
    name = f"{namespace}/{BRIDGE}" if namespace else BRIDGE
    try:
        bridge = _link(namespace, BRIDGE)
    except InputError:
        return
    made = _MADE.fullmatch(bridge.get("ifalias", ""))
    if made is None or bridge.get("linkinfo", {}).get("info_kind") != "bridge":
        yield f"{name}: left alone, as its alias does not say that it was made by {_NAME}"
        return
    process, begun, ports = int(made[1]), int(made[2]), _PORT.findall(made[3])
    if _begun(process) == begun:
        yield f"{name}: left alone, as process {process}, which made it, still runs"
        return
    back: list[str] = []
    failed: list[str] = []
    for port, mtu, state in ports:
        try:
            if _link(namespace, port).get("master") != BRIDGE:
                continue  # somebody else's by now
        except InputError:
            continue  # gone
        commands = [["ip", "link", "set", "dev", port, "nomaster", "mtu", mtu, state]]
        _, out, _ = _ask(namespace, ["tc", "-j", "qdisc", "show", "dev", port, "root"])
        if any(one.startswith("tbf ") for one in disciplines(out)):
            commands.insert(0, ["tc", "qdisc", "del", "dev", port, "root"])
        said = [last_line(words) for status, _, words in (_ask(namespace, one) for one in commands) if status]
        (failed if said else back).append(f"{port}: {said[0]}" if said else port)
    status, _, said_last = _ask(namespace, ["ip", "link", "del", "dev", BRIDGE])
    if status:
        yield f"{name}: {last_line(said_last)}"
        return
    of_ports = f"{' and '.join(back)} as before" if back else "no port was in it any more"
    yield f"{name}: removed; {'; '.join([of_ports, *failed])}"


@contextmanager
def _set_up(namespace: str, names: list[str], settings: PointSettings) -> Iterator[list[str]]:
    """The bridge, for as long as it is used. Afterwards the list tells what could not be given back.

    Raises:
        InputError: it cannot be set up, or what was there could not be given back afterwards.
    """
    steps = _steps(namespace, names, settings)
    was = {name: _found(namespace, name) for name in names}
    undo: list[str] = []
    left: list[str] = []
    problem: InputError | None = None
    try:
        # What could not be given back is refused before anything is touched.
        for step in steps:
            _way_back(namespace, step)
        for step in steps:
            back = _way_back(namespace, step)
            status, _, said = _ask(namespace, step.command)
            if status:
                missing = ", and a kernel with sch_red and sch_tbf" if "unknown" in said else ""
                raise InputError.at(
                    _NAME, f"found {last_line(said)!r}, expected that this works{missing}: {step.do}"
                )
            undo += back[::-1]
        yield left
    except InputError as error:
        problem = error
    finally:
        for line in undo[::-1]:
            status, _, said = _ask(namespace, words(line))
            left += [f"{line}: {last_line(said)}"] if status else []
        for name, before in was.items():
            if not _gone(namespace, name):
                left += _differences(namespace, name, before)
    if problem is not None:
        not_back = [Problem(_NAME, (), f"not as before: {one}") for one in left]
        raise InputError([*problem.problems, *not_back])


def _differences(namespace: str, name: str, was: dict[str, Any]) -> Iterator[str]:
    """What is not as it was, after addresses are given back that the kernel has removed."""
    for command in lost_addresses(name, was["addresses"], _found(namespace, name)["addresses"]):
        _ask(namespace, command)
    for key, value in _found(namespace, name).items():
        if value != was[key]:
            yield f"{name}: {key} was {was[key] or 'none'}, is {value or 'none'}"


def _way_back(namespace: str, step: Step) -> list[str]:
    """What takes a step back."""
    if step.back is None:
        return []
    status, printed, said = _ask(namespace, words(step.back.read))
    if status:
        raise InputError.at(_NAME, f"found {last_line(said)!r}, expected that this works: {step.back.read}")
    try:
        return step.back.lines(printed)
    except NotGivenBack as error:
        raise InputError.at(_NAME, str(error)) from None


def _gone(namespace: str, name: str) -> bool:
    return _ask(namespace, ["ip", "link", "show", "dev", name])[0] != 0


def _found(namespace: str, name: str) -> dict[str, Any]:
    """How an interface is."""
    found = _link(namespace, name)
    own = addresses(_ask(namespace, words(addresses_line(name)))[1], name)
    disciplined = disciplines(_ask(namespace, words(disciplines_line(name)))[1])
    link_is = {"MTU": found["mtu"], "state": _state(found), "master": found.get("master")}
    return {**link_is, "addresses": own, "disciplines": disciplined}
