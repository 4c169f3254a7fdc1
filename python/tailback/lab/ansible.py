"""Writes steps as a playbook for Ansible, and runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from tailback.errors import InputError
from tailback.lab.model import LOCAL_HOST, Lab
from tailback.lab.steps import Step

RAW_MODULE = "ansible.builtin.raw"
"""The raw module needs no Python on the host."""
INVENTORY_FILE, PLAYBOOK_FILE, UNDO_PLAYBOOK_FILE = "inventory.yaml", "apply.yaml", "undo.yaml"


class _Plain(str):
    """A text that Ansible must not expand as a template."""


def _name(text: str) -> _Plain:
    """The name of a play or task; also readers must not take it for a template."""
    return _Plain(text.replace("{{", "{ {").replace("{%", "{ %").replace("{#", "{ #"))


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(_Plain, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text)))


@dataclass(frozen=True)
class Tasks:
    """The tasks of a step on a host."""

    host: str
    tasks: list[dict[str, Any]]


def write(lab: Lab, steps: list[Tasks], folder: Path, undo: str | None) -> Path:
    """Writes the inventory and a playbook, and returns its path. Steps first append their state to `undo`."""
    # Hosts get other names: a name such as all is a pattern to Ansible.
    names = {name: f"host_{number}" for number, name in enumerate(lab.hosts)}
    hosts = {
        names[name]: {"ansible_connection": "local"} if host.at == LOCAL_HOST else _ssh(host.at)
        for name, host in lab.hosts.items()
    }
    _dump(folder / INVENTORY_FILE, {"all": {"hosts": hosts}}, f"The hosts of {lab.name}.")
    plays = [
        {
            "name": _name(f"{lab.name}, {host}"),
            "hosts": names[host],
            "gather_facts": False,
            "vars": {"undo_file": "{{ playbook_dir }}/" + undo} if undo else {},
            "tasks": [task for one in group for task in one.tasks],
        }
        for host, group in groupby(steps, key=lambda one: one.host)
    ]
    file = folder / (UNDO_PLAYBOOK_FILE if undo is None else PLAYBOOK_FILE)
    _dump(file, plays, f"What `tailback lab {'undo' if undo is None else 'plan'}` prints for {lab.name}.")
    return file


def _ssh(at: str) -> dict[str, str]:
    user, _, host = at.rpartition("@")
    return {"ansible_host": host, **({"ansible_user": user} if user else {})}


def step(number: int, one: Step) -> Tasks:
    """Tasks that read the state, keep it, and carry out the step."""
    name, way = f"{number} {one.about}", one.back
    do = {"name": _name(name), RAW_MODULE: _Plain(one.do)}
    if way is None:
        return Tasks(one.host, [do])
    tasks: list[dict[str, Any]] = []
    if way.read:
        read = {"name": _name(f"{name}: how it is now"), RAW_MODULE: _Plain(way.read), "register": "now"}
        refused = {"failed_when": f"now.rc != 0 or ({way.refused_if})"} if way.refused_if else {}
        tasks.append({**read, **refused})
    entry = "{'step': number, 'host': host, 'kind': kind, 'of': of, 'printed': printed}"
    keep = {
        "name": _name(f"{name}: what takes it back"),
        "ansible.builtin.lineinfile": {
            "path": "{{ undo_file }}",
            "create": True,
            "line": "{{ " + entry + " | to_json }}",
        },
        "vars": {
            "number": number,
            "host": _Plain(one.host),
            "kind": _Plain(way.kind),
            "of": _Plain(way.of),
            "printed": "{{ now.stdout }}" if way.read else "",
        },
        "delegate_to": "localhost",
    }
    # A failed command of the lab file is not undone; all other steps restore the state before.
    return Tasks(one.host, [*tasks, do, keep] if one.own else [*tasks, keep, do])


def undo_step(number: int, one: Step, line: str) -> Tasks:
    """The task that undoes a step."""
    return Tasks(one.host, [{"name": _name(f"{number} take back: {one.about}"), RAW_MODULE: _Plain(line)}])


def _dump(file: Path, data: Any, about: str) -> None:
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True)
    file.write_text(f"# {about}\n{text}")


def run(folder: Path, playbook: str, show: Callable[[str], None]) -> str:
    """Runs a playbook of the folder; gives a line on the task that failed, or nothing.

    Raises:
        InputError: ansible-runner or Ansible is not installed.
    """
    where = folder.resolve()
    try:
        import ansible_runner  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        text = (
            "found no ansible-runner, expected it for hosts that are not local: pip install 'tailback[lab]', "
            f"or run ansible-playbook -i {where / INVENTORY_FILE} {where / playbook} yourself"
        )
        raise InputError.at("tailback lab", text) from None
    failed: list[str] = []

    def handle(event: dict[str, Any]) -> bool:
        kind, data = event.get("event", ""), event.get("event_data", {})
        task = f"{data.get('task', '')} on {data.get('host', '')}"
        if kind in ("runner_on_failed", "runner_on_unreachable"):
            result = data.get("res", {})
            if result.get("failed_when_result") and result.get("rc") == 0:
                result = {"msg": "undo could not give back what is there; the step was not done"}
            said = str(result.get("stderr") or result.get("msg") or "").strip().splitlines()
            failed.append(f"{task}: {said[-1] if said else 'it said nothing'}")
        elif kind == "runner_on_ok":
            show(task)
        return False

    own = where / ".ansible"
    own.mkdir(exist_ok=True)
    done = ansible_runner.run(
        private_data_dir=str(own),
        # ansible-playbook lies beside the Python that it was installed for.
        envvars={"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"},
        playbook=str(where / playbook),
        inventory=str(where / INVENTORY_FILE),
        event_handler=handle,
        quiet=True,
    )
    if failed:
        return f"step {failed[0]}"
    return "" if done.status == "successful" else f"{where / playbook}: Ansible said {done.status}"
