"""Steps as a playbook for Ansible, and running it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from tailback.lab.model import LOCAL, Lab
from tailback.lab.steps import Step
from tailback.scenario import Problem, ScenarioError

SHELL = "ansible.builtin.raw"
"""Runs a line as it is, and needs no Python on the host."""
INVENTORY, PLAYBOOK, UNDO_PLAYBOOK = "inventory.yaml", "apply.yaml", "undo.yaml"


class _Plain(str):
    """A text in which Ansible looks for no templates."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(_Plain, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text)))


def write(lab: Lab, steps: list[tuple[int, Step]], folder: Path, undo: str | None) -> Path:
    """Writes the inventory and a playbook, and gives its file. `undo`: the file that steps add to first."""
    hosts = {
        name: {"ansible_connection": "local"} if host.at == LOCAL else _ssh(host.at)
        for name, host in lab.hosts.items()
    }
    _dump(folder / INVENTORY, {"all": {"hosts": hosts}}, f"The hosts of {lab.name}.")
    plays = [
        {
            "name": f"{lab.name}, {host}",
            "hosts": host,
            "gather_facts": False,
            "tasks": [task for number, step in group for task in _tasks(number, step, undo)],
        }
        for host, group in groupby(steps, key=lambda one: one[1].host)
    ]
    file = folder / (UNDO_PLAYBOOK if undo is None else PLAYBOOK)
    _dump(file, plays, f"What `tailback lab {'undo' if undo is None else 'plan'}` prints for {lab.name}.")
    return file


def _ssh(at: str) -> dict[str, str]:
    user, _, host = at.rpartition("@")
    return {"ansible_host": host, **({"ansible_user": user} if user else {})}


def _tasks(number: int, step: Step, undo: str | None) -> list[dict[str, Any]]:
    name = f"{number} {step.about}"
    tasks: list[dict[str, Any]] = []
    if step.remember:
        tasks.append({"name": f"{name}: how it is now", SHELL: _Plain(step.remember), "register": "now"})
    if undo is not None and (step.remember or step.undo):
        tasks.append(
            {
                "name": f"{name}: what takes it back",
                "ansible.builtin.lineinfile": {
                    "path": "{{ playbook_dir }}/" + undo,
                    "create": True,
                    "line": "{{ {'step': number, 'host': host, 'undo': takes_back} | to_json }}",
                },
                "vars": {
                    "number": number,
                    "host": step.host,
                    "takes_back": "{{ now.stdout | trim }}" if step.remember else _Plain(step.undo),
                },
                "delegate_to": "localhost",
                **({"when": "now.stdout | trim != ''"} if step.remember else {}),
            }
        )
    tasks.append({"name": name, SHELL: _Plain(step.do)})
    return tasks


def _dump(file: Path, data: Any, about: str) -> None:
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True)
    file.write_text(f"# {about}\n{text}")


def run(folder: Path, playbook: str, show: Callable[[str], None]) -> str:
    """Runs a playbook of the folder; gives a line on the task that failed, or nothing.

    Raises:
        ScenarioError: ansible-runner or Ansible is not installed.
    """
    where = folder.resolve()
    try:
        import ansible_runner  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        text = (
            "found no ansible-runner, expected it for hosts that are not local: pip install 'tailback[lab]', "
            f"or run ansible-playbook -i {where / INVENTORY} {where / playbook} oneself"
        )
        raise ScenarioError([Problem("tailback lab", (), text)]) from None
    failed: list[str] = []

    def handle(event: dict[str, Any]) -> bool:
        kind, data = event.get("event", ""), event.get("event_data", {})
        task = f"{data.get('task', '')} on {data.get('host', '')}"
        if kind in ("runner_on_failed", "runner_on_unreachable"):
            result = data.get("res", {})
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
        inventory=str(where / INVENTORY),
        event_handler=handle,
        quiet=True,
    )
    if failed:
        return f"step {failed[0]}"
    return "" if done.status == "successful" else f"{where / playbook}: Ansible said {done.status}"
