"""`reproduce all`: every published experiment, and a front page with every claim."""

from __future__ import annotations

from pathlib import Path

from tailback import library
from tailback.files.out_folder import OutFolder
from tailback.report.reproduction import render_front
from tailback.reproduce.experiments import load_published
from tailback.reproduce.one import Begun, write_pages
from tailback.reproduce.outcome import AllReproductions, Reproduction
from tailback.reproduce.runs import Progress, Runner, Runs
from tailback.running import claimed

ALL_EXPERIMENTS = "all"
"""Stands for every experiment where a name is expected."""


def names(name: str) -> list[str]:
    """The experiments that a name stands for."""
    return list(library.published()) if name == ALL_EXPERIMENTS else [name]


def reproduce_all(
    out: str | Path | OutFolder,
    strict: bool = False,
    quick: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    runner: Runner | None = None,
    on: str | None = None,
) -> AllReproductions:
    """Runs every published experiment, `jobs` runs at a time; or `on` a Ray cluster, as `tailback.sweep`.

    `out`: a folder, new or empty, for the front page reproduce.html, reproduce.json, and a folder for each
    experiment with its own page. InputError when it cannot be used; nothing was run then.
    """
    with claimed(out) as folder:
        done = AllReproductions(quick)
        with Runs(runner, progress, jobs, on) as runs:
            begun = []
            for name in names(ALL_EXPERIMENTS):
                one = Reproduction(name, load_published(name), quick, strict, folder=folder.path / name)
                begun.append(Begun(one, runs, f"{name}: "))
            done.experiments = [one.finish() for one in begun]
            write_pages(folder.path, render_front(done), done.as_json())
    return done
