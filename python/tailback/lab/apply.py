"""Applies the plan of a lab, and undoes it.

If all hosts are this machine, steps run one by one; else Ansible runs them from a playbook, which is written
first. Only commands that the plan prints are run. The state before a step is written to `undo.jsonl` before the
step: as data, because commands are made from the lab file only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback.errors import InputError
from tailback.lab import ansible, undo_steps
from tailback.lab.model import LOCAL_HOST, Lab
from tailback.lab.remote_shell import ask, last_line
from tailback.lab.steps import Step, plan, words
from tailback.lab.undo_steps import MAX_PRINTED_CHARS, CannotUndo

UNDO_FILE, UNDONE_FILE = "undo.jsonl", "undone.jsonl"
"""A line for each step: number, host, kind of undo, its object, and the printed state."""
STATE_LINE_KIND = "interface"
"""Kind of lines with the state of an interface before the first step."""
ADDRESSES_KEY, DISCIPLINES_KEY, LINK_KEY = "addresses", "disciplines", "link"


class StepFailed(RuntimeError):  # noqa: N818  it is what happened
    """A step failed; the text is one line."""


@dataclass(frozen=True)
class UndoOutcome:
    """A line for each step that could not be undone, and for each remaining difference."""

    failed: list[str]
    differences: list[str]


def prepare(lab: Lab, folder: Path) -> Path | None:
    """Writes the playbook of a lab, for review; None if all hosts are this machine.

    Raises:
        InputError: the folder has an undo file of an earlier apply.
    """
    if (folder / UNDO_FILE).exists():
        text = f"found {UNDO_FILE} of an earlier apply, expected none: tailback lab undo takes it back"
        raise InputError.at(str(folder), text)
    if _here(lab):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    return ansible.write(
        lab, [ansible.step(number, step) for number, step in _numbered(lab)], folder, UNDO_FILE
    )


def apply(lab: Lab, folder: Path, show: Callable[[str], None]) -> None:
    """Carries out the plan, after `prepare`.

    Raises:
        StepFailed: a step has failed; those before it are in the undo file, if there are any.
        InputError: Ansible is needed, and not installed.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / UNDO_FILE
    try:
        states = [
            {"kind": STATE_LINE_KIND, "host": host, "of": name, "was": was}
            for host, name, was in _states(lab)
        ]
        if not _here(lab):
            file.write_text("".join(json.dumps(one) + "\n" for one in states))
            failed = ansible.run(folder, ansible.PLAYBOOK_FILE, show)
            if failed:
                raise StepFailed(failed)
            return
        with file.open("a") as kept:

            def keep(entry: dict[str, Any]) -> None:
                kept.write(json.dumps(entry) + "\n")
                kept.flush()

            for one in states:
                keep(one)
            for number, step in _numbered(lab):
                _carry_out(lab, number, step, keep, show)
    finally:
        if file.exists() and not any('"step"' in line for line in file.read_text().splitlines()):
            file.unlink()  # no step was carried out
            if made and not any(folder.iterdir()):
                folder.rmdir()


def _carry_out(
    lab: Lab, number: int, step: Step, keep: Callable[[dict[str, Any]], None], show: Callable[[str], None]
) -> None:
    host, undo_step = lab.hosts[step.host], step.back
    if undo_step is not None:
        printed = ""
        if undo_step.read:
            status, printed, said = ask(host, words(undo_step.read))
            if status or len(printed) > MAX_PRINTED_CHARS:
                raise StepFailed(_line(number, step, undo_step.read, said))
        try:
            undo_step.lines(printed)
        except CannotUndo as error:
            raise StepFailed(f"step {number} on {step.host}: {step.do}: {error}; it was not done") from None
        keep(
            {
                "step": number,
                "host": step.host,
                "kind": undo_step.kind,
                "of": undo_step.of,
                "printed": printed,
            }
        )
    show(f"{number} {step.host}: {step.do}")
    status, _, said = ask(host, step.command)
    if status:
        keep({"step": number, "host": step.host, "failed": True})
        raise StepFailed(_line(number, step, step.do, said))


def undo(lab: Lab, folder: Path, show: Callable[[str], None]) -> UndoOutcome:
    """Undoes the applied steps in reverse order, and compares the state with that before.

    Raises:
        InputError: there is nothing to undo, or Ansible is needed and not installed.
    """
    entries, states = _journal(lab, folder)
    failed: list[str] = []
    if _here(lab):
        for number, step, line in entries:
            command = line if step.own else words(line)
            show(f"{number} {step.host}: {line}")
            status, _, said = ask(lab.hosts[step.host], command)
            if status:
                failed.append(_line(number, step, line, said))
    else:
        ansible.write(lab, [ansible.undo_step(*one) for one in entries], folder, None)
        wrong = ansible.run(folder, ansible.UNDO_PLAYBOOK_FILE, show)
        failed = [wrong] if wrong else []
    for host, name, was in states:
        now = _state(lab, host, name)
        if was is None or now is None:
            continue
        for command in undo_steps.lost_addresses(name, _texts(was.get(ADDRESSES_KEY)), now[ADDRESSES_KEY]):
            show(f"{host}: {' '.join(command)}")
            ask(lab.hosts[host], command)  # a failure shows as a difference below
    differences = [line for one in states for line in _differences(lab, *one)]
    if not failed:
        (folder / UNDO_FILE).replace(folder / UNDONE_FILE)
    return UndoOutcome(failed, differences)


def _here(lab: Lab) -> bool:
    return all(host.at == LOCAL_HOST for host in lab.hosts.values())


def _numbered(lab: Lab) -> list[tuple[int, Step]]:
    return list(enumerate(plan(lab), 1))


def _line(number: int, step: Step, line: str, said: str) -> str:
    return f"step {number} on {step.host}: {line}: {last_line(said)}"


# State of interfaces


def _interfaces(lab: Lab) -> list[tuple[str, str]]:
    """Hosts and interfaces that the lab changes, including bridges that it creates."""
    found = [(nic.host, nic.interface) for nic in lab.nics]
    for one in lab.bridges:
        found += [(one.host, port.interface) for port in one.ports] + [(one.host, one.name)]
    return list(dict.fromkeys(found))


def _states(lab: Lab) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    for host, name in _interfaces(lab):
        yield host, name, _state(lab, host, name)


def _state(lab: Lab, host: str, interface: str) -> dict[str, Any] | None:
    """MTU, addresses and so on of an interface; None if it does not exist or its state cannot be read."""
    lines = {
        LINK_KEY: undo_steps.link_line(interface),
        ADDRESSES_KEY: undo_steps.addresses_line(interface),
        DISCIPLINES_KEY: undo_steps.disciplines_line(interface),
    }
    answers = {key: ask(lab.hosts[host], words(line)) for key, line in lines.items()}
    if answers[LINK_KEY][0]:
        return None
    try:
        link = undo_steps.link(answers[LINK_KEY][1], interface)
        return {
            "MTU": link.get("mtu"),
            "state": "up" if undo_steps.is_up(link) else "down",
            "master": link.get("master", "none"),
            ADDRESSES_KEY: undo_steps.addresses(answers[ADDRESSES_KEY][1], interface),
            DISCIPLINES_KEY: undo_steps.disciplines(answers[DISCIPLINES_KEY][1]),
        }
    except CannotUndo:
        return None


def _differences(lab: Lab, host: str, interface: str, was: dict[str, Any] | None) -> Iterator[str]:
    now = _state(lab, host, interface)
    if now is None or was is None:
        if now != was:
            there = ["there" if one else "not there" for one in (was, now)]
            yield f"{interface} on {host}: was {there[0]}, is {there[1]}"
        return
    for key, value in now.items():
        if was.get(key) != value:
            yield f"{key} of {interface} on {host}: was {_value_text(was.get(key))}, is {_value_text(value)}"


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _value_text(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


# The journal


def _journal(
    lab: Lab, folder: Path
) -> tuple[list[tuple[int, Step, str]], list[tuple[str, str, dict[str, Any] | None]]]:
    """Commands that undo the steps, last step first, and the states of interfaces before."""
    file = folder / UNDO_FILE
    try:
        text = file.read_bytes().decode(errors="replace")
    except OSError:
        missing = f"found no {UNDO_FILE}, expected the folder of tailback lab apply"
        raise InputError.at(str(folder), missing) from None
    steps_by_key = {(s.host, s.back.kind, s.back.of): s for s in plan(lab) if s.back is not None}
    steps: list[tuple[int, Step, list[str]]] = []
    states: list[tuple[str, str, dict[str, Any] | None]] = []
    # If apply was killed while it wrote, the last line is incomplete, and its step was not begun.
    for at, line in enumerate(text.split("\n")[:-1], 1):
        try:
            entry = _entry(line)
            host, kind, of = str(entry["host"]), str(entry.get("kind")), str(entry.get("of"))
            if kind == STATE_LINE_KIND:
                if (host, of) in _interfaces(lab):
                    states.append((host, of, entry["was"]))
                    continue
            elif entry.get("failed") is True:
                # The effect of a failed command of the lab file is unknown: it is not undone.
                steps = [one for one in steps if one[0] != entry["step"] or not one[1].own]
                continue
            elif (step := steps_by_key.get((host, kind, of))) is not None and step.back is not None:
                steps.append((entry["step"], step, step.back.lines(entry["printed"])))
                continue
        except CannotUndo as error:
            raise InputError.at(f"{file}:{at}", str(error)) from None
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            pass
        expected = "expected a step of this lab (step, host, kind, of, printed), as apply writes them"
        raise InputError.at(f"{file}:{at}", f"found another line, {expected}")
    return [(number, step, line) for number, step, lines in steps[::-1] for line in lines], states


def _entry(line: str) -> dict[str, Any]:
    entry = json.loads(line)
    texts = [entry[key] for key in ("host", "kind", "of", "printed") if key in entry]
    was = entry.get("was")
    if not all(isinstance(one, str) for one in texts) or not (was is None or isinstance(was, dict)):
        raise ValueError
    if entry.get("kind") != STATE_LINE_KIND and type(entry["step"]) is not int:
        raise ValueError
    return dict(entry)
