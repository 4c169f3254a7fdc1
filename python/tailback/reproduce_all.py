"""`reproduce all`: every published experiment, and a front page with every claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tailback import text
from tailback.experiments import list_published, load_published
from tailback.out_folder import OutFolder
from tailback.reproduce import Begun, Reproduction, engine, write_pages
from tailback.run import claimed
from tailback.runs import Progress, Runner, Runs

ALL = "all"
"""What stands for every experiment where a name is asked for."""


def names(name: str) -> list[str]:
    """The experiments that a name stands for."""
    return list(list_published()) if name == ALL else [name]


@dataclass
class AllReproductions:
    """What `reproduce all` gives: each experiment's claims, in the order of their names."""

    quick: bool
    experiments: list[Reproduction] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        """Whether some of the runs did not come to their end."""
        return any(one.interrupted for one in self.experiments)

    @property
    def exit_status(self) -> int:
        """130 when interrupted; 1 when `strict` and a claim was missed; else 0."""
        return max((one.exit_status for one in self.experiments), default=0)

    @property
    def headline(self) -> str:
        """'61 of 72 claims of 5 documents met, 11 missed'."""
        rows = [row for one in self.experiments for row in one.rows]
        met, missed = (sum(row.verdict == verdict for row in rows) for verdict in ("met", "missed"))
        claims, documents = text.plural(len(rows), "claim"), text.plural(len(self.experiments), "document")
        if self.quick:
            return f"A quick look: {met} of {claims} of {documents} hold in short runs"
        return f"{met} of {claims} of {documents} met, {missed} missed"

    def tables(self) -> list[Table]:
        """One table: a row a claim."""
        table = Table(title=self.headline, title_justify="left")
        for head, width in (("", None), ("What is said", 4), ("Verdict", None), ("Kind", None)):
            table.add_column(head, ratio=width, no_wrap=width is None)
        for one in self.experiments:
            table.add_section()
            table.add_row("", Text(one.experiment.title, style="bold"), "", "")
            for row in one.rows:
                style = {"met": "green", "missed": "red"}.get(row.verdict, "yellow")
                table.add_row(row.claim.id, row.claim.says, Text(row.verdict, style=style), row.claim.kind)
        return [table]

    def as_json(self) -> dict[str, Any]:
        """What reproduce.json holds; the same seed gives the same text."""
        return {
            "quick": self.quick,
            "interrupted": self.interrupted,
            "headline": self.headline,
            "experiments": [one.as_json() for one in self.experiments],
        }


def reproduce_all(
    out: str | Path | OutFolder,
    strict: bool = False,
    quick: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    runner: Runner | None = None,
) -> AllReproductions:
    """Runs every published experiment, `jobs` runs at a time.

    `out`: a folder, new or empty, for the front page reproduce.html, reproduce.json, and a folder for each
    experiment with its own page. ScenarioError when it cannot be used; nothing was run then.
    """
    from tailback.report.reproduction import render_front

    with claimed(out) as folder:
        done = AllReproductions(quick)
        with Runs(runner or engine, progress, jobs) as runs:
            begun = []
            for name in names(ALL):
                one = Reproduction(name, load_published(name), quick, strict, folder=folder.path / name)
                begun.append(Begun(one, runs, f"{name}: "))
            done.experiments = [one.finish() for one in begun]
            write_pages(folder.path, render_front(done), done.as_json())
    return done
