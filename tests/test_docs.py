"""The book says what the program does: the reference pages, and the figures of the tutorial."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tailback.study.published import Experiment, load_published

ROOT = Path(__file__).resolve().parent.parent
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
FABRICS = (ROOT / "docs" / "fabrics.md").read_text(encoding="utf-8")


def shown_runs() -> Iterator[tuple[str, list[str]]]:
    """Commands of both tutorials with the parts of their output that it shows, cut at lines of dots."""
    for block in re.findall(r"```console\n(.*?)```", TUTORIAL + FABRICS, re.DOTALL):
        for command, output in re.findall(r"^\$ (tailback (?:run|show) .*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            parts = [part.strip() for part in re.split(r"^\.\.\.$", output, flags=re.M) if part.strip()]
            if parts:
                yield command, parts


def test_every_page_of_the_reference_is_made(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "tools" / "make_reference.py"), str(tmp_path)], check=True)
    wanted = set(re.findall(r"reference/([\w-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert {page.name for page in tmp_path.iterdir()} == wanted - {"hpcc-departures.md"}
    assert all(len(page.read_text(encoding="utf-8")) > 1000 for page in tmp_path.iterdir())


@pytest.mark.parametrize(("command", "parts"), list(shown_runs()))
def test_the_tutorials_show_what_comes_out(command: str, parts: list[str], tmp_path: Path) -> None:
    scenario = re.search(r"```yaml\n(# Four.*?)```", TUTORIAL, re.DOTALL)
    assert scenario is not None
    (tmp_path / "four-to-one.yaml").write_text(scenario[1], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tailback.cli", *shlex.split(command)[1:]],
        cwd=tmp_path,
        env={"COLUMNS": "80", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    words = " ".join((done.stdout + done.stderr).split())
    for part in parts:
        assert " ".join(part.split()) in words, done.stdout + done.stderr


@pytest.mark.parametrize("page", ["counters", "results"])
def test_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = 0
    for block in re.findall(r"^```(?:console|sh)\n(.*?)^```", text, re.M | re.S):
        for command, output in re.findall(r"^\$ (tailback .*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env={**os.environ, "PATH": path, "COLUMNS": "120"},
                capture_output=True,
                text=True,
                check=False,
            )
            words = " ".join(done.stdout.split())
            for line in filter(None, map(str.strip, output.splitlines())):
                shown += 1
                assert " ".join(line.split()) in words, done.stdout + done.stderr
    assert shown > 4


PAGES = {
    "fitting": "tailback fit cable.yaml",
    "sweeps": "tailback sweep kmax.yaml --out runs/kmax",
    "tuning": "tailback tune bursts.yaml --out runs/bursts",
}
"""Pages with files and a command, and the figures that it prints with them."""


@pytest.mark.parametrize("page", PAGES)
def test_figures_of_a_page_are_what_its_command_prints(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    scenario = re.search(r"```yaml\n(# Four.*?)```", TUTORIAL, re.DOTALL)
    assert scenario is not None
    (tmp_path / "four-to-one.yaml").write_text(scenario[1], encoding="utf-8")
    for name, content in re.findall(r"```yaml\n(?:# ([\w.-]+\.yaml)\n)(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tailback.cli", *shlex.split(PAGES[page])[1:]],
        cwd=tmp_path,
        env={"COLUMNS": "200", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    shown = re.search(
        r"```text\n((?:\$ .*\n)?(?:1 of 3|switch\.ecn\.k_max  |Trial 24).*?)```", text, re.DOTALL
    )
    assert shown is not None
    lines = [line for line in shown[1].splitlines() if line.strip() and not line.startswith("$ ")]
    assert len(lines) > 3
    for line in re.split(r"(?<=[.:%)])\s*\n", "\n".join(lines)):
        assert " ".join(line.split()) in words, line


@pytest.fixture(scope="module")
def published() -> dict[str, Experiment]:
    files = sorted((ROOT / "python" / "tailback" / "published").glob("*.yaml"))
    return {file.stem: load_published(file.stem) for file in files}


def test_the_page_of_published_experiments_has_as_many_claims_as_their_files(
    published: dict[str, Experiment],
) -> None:
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `([\w-]+)`: .* \| (\d+) \|$", page, re.M)
    assert {name: int(count) for name, count in shown} == {
        name: len(one.claims) for name, one in published.items()
    }
    kinds = Counter(claim.counted_as for one in published.values() for claim in one.claims)
    total = re.search(
        r"(\d+) of (\d+) claims are met: (\d+) of (\d+) predicted, (\d+) of (\d+) predicted by a chosen bound, "
        r"(\d+) of (\d+) calibrated, (\d+) of (\d+) given",
        " ".join(page.split()),
    )
    assert total is not None
    met, claims, *by_kind = map(int, total.groups())
    assert (met, claims) == (sum(by_kind[::2]), kinds.total())
    named = ("predicted", "predicted, bound chosen", "calibrated", "given")
    assert by_kind[1::2] == [kinds[kind] for kind in named]


@pytest.mark.parametrize("name", ["poor-mans-cp", "roce-rocks", "gpudirect-pfc", "rhcc"])
def test_the_tables_of_published_experiments_have_every_claim(
    name: str, published: dict[str, Experiment]
) -> None:
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    part = page.split(f"### {name}\n")[1].split("\n###")[0]
    rows = [row.split("|")[1] for row in part.splitlines() if row.startswith("| ")]
    assert {one for row in rows for one in re.split(r",\s*", row.strip())} >= {
        claim.id for claim in published[name].claims
    }


def test_the_table_of_fits_has_what_the_files_observe() -> None:
    page = (ROOT / "docs" / "fitting.md").read_text(encoding="utf-8")
    table = page.split("## Fits of published labs")[1].split("\n- **A**")[0]
    parts = re.split(r"^\| `([\w-]+\.yaml)` ", table, flags=re.M)
    shown = dict(zip(parts[1::2], parts[2::2], strict=True))
    files = {file.name: file for file in (ROOT / "docs" / "fits").glob("*.yaml")}
    assert set(shown) == set(files)
    for name, file in files.items():
        held_out = [one for one in yaml.safe_load(file.read_text())["observations"] if one.get("held_out")]
        assert len(shown[name].splitlines()) <= len(held_out), name


def test_the_page_of_tunings_names_each_that_ships() -> None:
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    for file in (ROOT / "docs" / "tunings").glob("*.yaml"):
        if "tune" in yaml.safe_load(file.read_text()):
            assert f"`{file.name}`" in page


MADE_BY_READERS = {
    "crates/proto/src/congestion/gentle.rs",
    "python/tailback/published/NAME.yaml",
}


def test_files_of_the_project_that_the_book_names_are_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = r"`((?:crates|tests|tools|docs|fuzz|python|examples)/[\w./-]*\w)/?`"
    gone = {
        f"{page.name}: {path}"
        for page in pages
        for path in re.findall(named, page.read_text(encoding="utf-8"))
        if path not in MADE_BY_READERS and not (ROOT / path).exists()
    }
    assert gone == set()
