"""Carrying out what was planned, and taking it back.

Where all hosts are this machine, steps run one by one; else Ansible runs them from a playbook, which is
written first. Either way nothing runs that the plan has not printed, and what takes a step back is in
`undo.jsonl` before the step is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tailback.lab import ansible
from tailback.lab.model import LOCAL, Lab
from tailback.lab.reach import ask, last_line
from tailback.lab.steps import Step, plan
from tailback.scenario import Problem, ScenarioError

UNDO, UNDONE = "undo.jsonl", "undone.jsonl"
"""A line a step: its number, its host and the line that takes it back."""


class StepFailed(RuntimeError):  # noqa: N818  it is what happened
    """A step did not do what it was to do; the text is one line."""


def prepare(lab: Lab, folder: Path) -> Path | None:
    """Writes the playbook of a lab, to be read before it runs; none where all hosts are this machine.

    Raises:
        ScenarioError: the folder has an undo file: something is applied already.
    """
    if (folder / UNDO).exists():
        text = f"found {UNDO} of an earlier apply, expected none: tailback lab undo takes it back"
        raise ScenarioError([Problem(str(folder), (), text)])
    folder.mkdir(parents=True, exist_ok=True)
    return None if _here(lab) else ansible.write(lab, _numbered(lab), folder, UNDO)


def apply(lab: Lab, folder: Path, show: Callable[[str], None]) -> None:
    """Carries out the plan, after `prepare`.

    Raises:
        StepFailed: a step has failed; those before it are in the undo file.
        ScenarioError: Ansible is needed, and not installed.
    """
    if not _here(lab):
        failed = ansible.run(folder, ansible.PLAYBOOK, show)
        if failed:
            raise StepFailed(failed)
        return
    with (folder / UNDO).open("a") as kept:
        for number, step in _numbered(lab):
            undo = step.undo
            if step.remember:
                status, undo, said = ask(lab.hosts[step.host], step.remember)
                if status:
                    raise StepFailed(_line(number, step, step.remember, said))
            if undo.strip():
                kept.write(json.dumps({"step": number, "host": step.host, "undo": undo.strip()}) + "\n")
                kept.flush()
            show(f"{number} {step.host}: {step.do}")
            status, _, said = ask(lab.hosts[step.host], step.do)
            if status:
                raise StepFailed(_line(number, step, step.do, said))


def undo(lab: Lab, folder: Path, show: Callable[[str], None]) -> list[str]:
    """Takes back what was applied, the last first; gives a line for each step that could not be.

    Raises:
        ScenarioError: there is nothing to take back, or Ansible is needed, and not installed.
    """
    steps = list(_kept(lab, folder))[::-1]
    failed = []
    if _here(lab):
        for number, step in steps:
            show(f"{number} {step.host}: {step.do}")
            status, _, said = ask(lab.hosts[step.host], step.do)
            if status:
                failed.append(_line(number, step, step.do, said))
    else:
        ansible.write(lab, steps, folder, None)
        wrong = ansible.run(folder, ansible.UNDO_PLAYBOOK, show)
        failed = [wrong] if wrong else []
    if not failed:
        (folder / UNDO).replace(folder / UNDONE)
    return failed


def _here(lab: Lab) -> bool:
    return all(host.at == LOCAL for host in lab.hosts.values())


def _numbered(lab: Lab) -> list[tuple[int, Step]]:
    return list(enumerate(plan(lab), 1))


def _line(number: int, step: Step, line: str, said: str) -> str:
    return f"step {number} on {step.host}: {line}: {last_line(said)}"


def _kept(lab: Lab, folder: Path) -> Iterator[tuple[int, Step]]:
    file = folder / UNDO
    try:
        lines = file.read_text().splitlines()
    except OSError:
        text = f"found no {UNDO}, expected the folder of tailback lab apply"
        raise ScenarioError([Problem(str(folder), (), text)]) from None
    for at, line in enumerate(lines, 1):
        try:
            told = json.loads(line)
            number, host, do = int(told["step"]), str(told["host"]), str(told["undo"])
            known = host in lab.hosts
        except (ValueError, TypeError, KeyError):
            known = False
        if not known:
            text = "found another line, expected step, host of this lab and undo, as apply writes them"
            raise ScenarioError([Problem(f"{file}:{at}", (), text)])
        yield number, Step(host, f"take back step {number}", do)
