"""The kernel's own congestion point: a bridge with RED behind a rate at both ports, and what `tc` counts.

The bridge is set up as that of a lab (`tailback.lab.steps`), and removed at the end. Its alias holds the process
and the earlier state of its ports, so that `clean` can restore them after the program was killed.
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
from tailback.lab.model import LOCAL_HOST, LabBridge, LabHost
from tailback.lab.readers import QdiscCounters, UnexpectedOutput, tc
from tailback.lab.remote_shell import ask, last_line
from tailback.lab.steps import Step, bridge_steps, words
from tailback.lab.undo_steps import (
    CannotUndo,
    addresses,
    addresses_line,
    disciplines,
    disciplines_line,
    is_up,
    link,
    lost_addresses,
)
from tailback.point.settings import PointSettings

BRIDGE_NAME = "tailback-cp"
POLL_INTERVAL_PS = 200_000_000_000
"""Time between two readings of the counters."""
AVERAGE_PACKET_BYTES = 1000
"""RED's `avpkt`, as in the example of tc-red(8)."""
BURST_BYTES = 20_000
"""Burst of the rate limit; assumption: two packets of 9 KB, so that every MTU passes."""
_THIS_HOST = LabHost(at=LOCAL_HOST, model=None)

_SETTING_OF_RED_KEY = {"min": "ecn.k_min", "max": "ecn.k_max", "probability": "ecn.p_max", "limit": "buffer"}
"""Setting of each of RED's parameters, for messages."""

_COMMAND_NAME = "tailback point --kernel"
"""Place of problems in messages, and first words of the alias of a bridge."""
_PORT_IN_ALIAS = r"; ([A-Za-z0-9][A-Za-z0-9_.@-]{0,14}) mtu ([0-9]{1,10}) (up|down)"
_ALIAS_PATTERN = re.compile(
    rf"{_COMMAND_NAME}, process ([0-9]{{1,10}}) begun ([0-9]{{1,20}})((?:{_PORT_IN_ALIAS})*)", re.ASCII
)
_PORT_PATTERN = re.compile(_PORT_IN_ALIAS, re.ASCII)
"""The alias of a bridge that this module has made, and a port in it."""

Counters = dict[str, Any]


def run(
    first: str,
    second: str,
    settings: PointSettings,
    duration_ps: int | None = None,
    show: Callable[[Counters], None] | None = None,
) -> Counters:
    """Lets the kernel forward between two interfaces of a namespace until `duration_ps` is over or a signal arrives.

    Raises:
        InputError: the bridge cannot be set up, or a setting needs Tailback's own point; nothing is left behind.
    """
    namespace, names = _place(first, second)
    with interrupts.noted() as seen, _set_up(namespace, names, settings) as left:
        counts, begin = _KernelCounters(), time.monotonic()
        end = float("inf") if duration_ps is None else begin + duration_ps / 1e12
        counters: Counters = {"interfaces": [first, second], "happened": [], "bin_ps": POLL_INTERVAL_PS}
        counters |= {"ended_by": None, "bins": counts.bins}
        over = False
        while not over:
            until = min(end, begin + (counts.looks() + 1) * POLL_INTERVAL_PS / 1e12)
            time.sleep(max(0.0, until - time.monotonic()))
            elapsed_ps = int(1e12 * (time.monotonic() - begin))
            over = bool(seen) or time.monotonic() >= end
            try:
                for number, name in enumerate(names[::-1]):  # frames from A to B wait at B
                    counts.look(number, _counters(namespace, name), elapsed_ps)
            except UnexpectedOutput as error:
                counters["ended_by"], over = str(error), True
            counters = {**counters, "elapsed_ps": elapsed_ps, **counts.counters()}
            if show is not None:
                show(counters)
    if left:
        counters["ended_by"] = "; ".join([*filter(None, [counters["ended_by"]]), *left])
    return counters


class _KernelCounters:
    """Counters so far, by direction."""

    def __init__(self) -> None:
        self.bins: list[list[dict[str, int]]] = [[], []]
        self._directions = [dict.fromkeys(("tx_frames", "tx_bytes", "marked"), 0) for _ in range(2)]
        self._queued, self._most = [0, 0], [0, 0]

    def looks(self) -> int:
        """Number of readings of both directions."""
        return len(self.bins[1])

    def look(self, number: int, found: QdiscCounters, elapsed_ps: int) -> None:
        """Adds a reading of a direction's queueing discipline, `elapsed_ps` after the begin."""
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
        length_ps = min(POLL_INTERVAL_PS, max(elapsed_ps - len(self.bins[number]) * POLL_INTERVAL_PS, 1))
        row = {
            "dropped": sum(since[key] for key in dropped),
            "most_queued_bytes": found.backlog_bytes,
            "queued_byte_ps": found.backlog_bytes * length_ps,
        }
        self.bins[number].append({"tx_bytes": since["tx_bytes"], "marked": since["marked"], **row})

    def counters(self) -> Counters:
        """The counters in the form of Tailback's own point."""
        most = [{"most_queued_bytes": most} for most in self._most]
        directions = [{**one, **of} for one, of in zip(self._directions, most, strict=True)]
        return {"directions": directions, "queued_bytes": list(self._queued)}


def _place(first: str, second: str) -> tuple[str, list[str]]:
    """The namespace ("" for this one), and the names of the interfaces in it."""
    parted = [name.rpartition("/") for name in (first, second)]
    if parted[0][0] != parted[1][0]:
        raise InputError.at(
            _COMMAND_NAME,
            f"found {first} and {second}, expected interfaces of one namespace: a bridge joins these",
        )
    return parted[0][0], [name for _, _, name in parted]


def _ask(namespace: str, command: Sequence[str] | str) -> tuple[int, str, str]:
    """Runs a command (words, or a line for a shell) in a namespace."""
    if not namespace:
        return ask(_THIS_HOST, command)
    words_there = ["sh", "-c", command] if isinstance(command, str) else command
    return ask(_THIS_HOST, ["ip", "netns", "exec", namespace, *words_there])


def _counters(namespace: str, name: str) -> QdiscCounters:
    status, out, said = _ask(namespace, ["tc", "-s", "-j", "qdisc", "show", "dev", name])
    if status:
        raise UnexpectedOutput(f"{name}: {last_line(said)}")
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
                _COMMAND_NAME, f"found {key}, expected rate, buffer and ecn: the kernel's bridge has no more"
            )
    if settings.ecn is None:
        raise InputError.at(
            _COMMAND_NAME,
            "found no ecn, expected k_min, k_max and p_max, which are RED's min, max and probability",
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
        bridge = LabBridge.model_validate(
            {"host": "here", "name": BRIDGE_NAME, "mtu": min(mtus), "ports": ports}
        )
    except ValidationError as error:
        one = error.errors(include_url=False)[0]
        key, expected = str(one["loc"][-1]), one["msg"].removeprefix("Input should be ")
        raise InputError.at(
            _COMMAND_NAME, f"{_SETTING_OF_RED_KEY.get(key, key)}: expected {expected}"
        ) from None
    made, *rest = bridge_steps(bridge)
    begun = _begun(os.getpid())
    was = [f"{name} mtu {port['mtu']} {_state(port)}" for name, port in zip(names, ports_were, strict=True)]
    alias = "; ".join([f"{_COMMAND_NAME}, process {os.getpid()} begun {begun}", *was])
    return [made, SetAlias("here", "the owner, as alias", alias), *rest]


class SetAlias(Step):
    """The step that gives the bridge its alias."""

    @property
    def command(self) -> list[str]:
        """The alias is one word, whatever it contains."""
        return ["ip", "link", "set", "dev", BRIDGE_NAME, "alias", self.do]


def _link(namespace: str, name: str) -> dict[str, Any]:
    """A device as `ip` describes it."""
    status, out, said = _ask(namespace, ["ip", "-j", "-d", "link", "show", "dev", name])
    if status:
        raise InputError.at(
            _COMMAND_NAME, f"found {last_line(said)!r}, expected an interface that may join a bridge: {name}"
        )
    try:
        return link(out, name)
    except CannotUndo as error:
        raise InputError.at(_COMMAND_NAME, f"{error}: {name}") from None


def _state(found: dict[str, Any]) -> str:
    return "up" if is_up(found) else "down"


def _begun(process: int) -> int:
    """Start time of a process in ticks since boot; 0 if there is none (proc_pid_stat(5), field 22)."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def clean() -> list[str]:
    """Removes what killed programs have left in this namespace and those of `ip netns`; returns a line for each."""
    _, out, _ = ask(_THIS_HOST, ["ip", "-j", "netns", "list"])
    try:
        named = [str(one["name"]) for one in json.loads(out or "[]")]
    except (ValueError, TypeError, KeyError):
        return ["the namespaces of ip netns: not looked into, as ip lists them in another form"]
    return [line for namespace in ["", *named] for line in _cleaned(namespace)]


def _cleaned(namespace: str) -> Iterator[str]:
    name = f"{namespace}/{BRIDGE_NAME}" if namespace else BRIDGE_NAME
    try:
        bridge = _link(namespace, BRIDGE_NAME)
    except InputError:
        return
    made = _ALIAS_PATTERN.fullmatch(bridge.get("ifalias", ""))
    if made is None or bridge.get("linkinfo", {}).get("info_kind") != "bridge":
        yield f"{name}: left alone, as its alias does not say that it was made by {_COMMAND_NAME}"
        return
    process, begun, ports = int(made[1]), int(made[2]), _PORT_PATTERN.findall(made[3])
    if _begun(process) == begun:
        yield f"{name}: left alone, as process {process}, which made it, still runs"
        return
    back: list[str] = []
    failed: list[str] = []
    for port, mtu, state in ports:
        try:
            if _link(namespace, port).get("master") != BRIDGE_NAME:
                continue  # the port has joined another bridge
        except InputError:
            continue  # gone
        commands = [["ip", "link", "set", "dev", port, "nomaster", "mtu", mtu, state]]
        _, out, _ = _ask(namespace, ["tc", "-j", "qdisc", "show", "dev", port, "root"])
        if any(one.startswith("tbf ") for one in disciplines(out)):
            commands.insert(0, ["tc", "qdisc", "del", "dev", port, "root"])
        said = [last_line(words) for status, _, words in (_ask(namespace, one) for one in commands) if status]
        (failed if said else back).append(f"{port}: {said[0]}" if said else port)
    status, _, said_last = _ask(namespace, ["ip", "link", "del", "dev", BRIDGE_NAME])
    if status:
        yield f"{name}: {last_line(said_last)}"
        return
    of_ports = f"{' and '.join(back)} as before" if back else "no port was in it any more"
    yield f"{name}: removed; {'; '.join([of_ports, *failed])}"


@contextmanager
def _set_up(namespace: str, names: list[str], settings: PointSettings) -> Iterator[list[str]]:
    """Sets up the bridge for the block, and undoes it afterwards. The list then says what could not be restored.

    Raises:
        InputError: the bridge cannot be set up, or the state before could not be restored.
    """
    steps = _steps(namespace, names, settings)
    was = {name: _found(namespace, name) for name in names}
    undo: list[str] = []
    left: list[str] = []
    problem: InputError | None = None
    try:
        # A state that undo could not restore is refused before any change.
        for step in steps:
            _undo_commands(namespace, step)
        for step in steps:
            back = _undo_commands(namespace, step)
            status, _, said = _ask(namespace, step.command)
            if status:
                missing = ", and a kernel with sch_red and sch_tbf" if "unknown" in said else ""
                raise InputError.at(
                    _COMMAND_NAME, f"found {last_line(said)!r}, expected that this works{missing}: {step.do}"
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
        not_back = [Problem(_COMMAND_NAME, (), f"not as before: {one}") for one in left]
        raise InputError([*problem.problems, *not_back])


def _differences(namespace: str, name: str, was: dict[str, Any]) -> Iterator[str]:
    """Restores addresses that the kernel has removed, and yields the remaining differences."""
    for command in lost_addresses(name, was["addresses"], _found(namespace, name)["addresses"]):
        _ask(namespace, command)
    for key, value in _found(namespace, name).items():
        if value != was[key]:
            yield f"{name}: {key} was {was[key] or 'none'}, is {value or 'none'}"


def _undo_commands(namespace: str, step: Step) -> list[str]:
    """Commands that undo a step."""
    if step.back is None:
        return []
    status, printed, said = _ask(namespace, words(step.back.read))
    if status:
        raise InputError.at(
            _COMMAND_NAME, f"found {last_line(said)!r}, expected that this works: {step.back.read}"
        )
    try:
        return step.back.lines(printed)
    except CannotUndo as error:
        raise InputError.at(_COMMAND_NAME, str(error)) from None


def _gone(namespace: str, name: str) -> bool:
    return _ask(namespace, ["ip", "link", "show", "dev", name])[0] != 0


def _found(namespace: str, name: str) -> dict[str, Any]:
    """The state of an interface."""
    found = _link(namespace, name)
    own = addresses(_ask(namespace, words(addresses_line(name)))[1], name)
    disciplined = disciplines(_ask(namespace, words(disciplines_line(name)))[1])
    link_is = {"MTU": found["mtu"], "state": _state(found), "master": found.get("master")}
    return {**link_is, "addresses": own, "disciplines": disciplined}
