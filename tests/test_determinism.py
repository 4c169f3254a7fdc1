"""The same bytes whatever surrounds a run: hash seed, locale, time zone, folder, processors, processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from digests import of_files

HERE = Path(__file__).parent
NAMES = ("drawn:34:0:5", "first-flow")
"""Some of each kind: see that they stay so when what is drawn changes."""


def digests(folder: Path, processors: set[int] | None = None, **more: str) -> list[str]:
    """Digests of results in an environment of their own, made in a folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    before: Callable[[], None] | None = None
    if processors is not None:
        before = lambda: os.sched_setaffinity(0, processors)  # noqa: E731
    done = subprocess.run(
        [sys.executable, str(HERE / "digests.py"), "--folders", *NAMES],
        env={**environment, **more},
        cwd=folder,
        preexec_fn=before,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return digests(tmp_path_factory.mktemp("usual"), PYTHONHASHSEED="0", LC_ALL="C.UTF-8", TZ="UTC")


def test_all_kinds_of_scenarios_are_among_them(usual: list[str]) -> None:
    from drawn import draw

    kinds = [draw(34, number).data["topology"]["kind"] for number in range(5)]
    assert {"bridge", "veth"} <= set(kinds), kinds
    assert len(usual) >= 7 * (len(kinds) + 1)


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with locales, as far as they can be made here."""
    folder = tmp_path_factory.mktemp("locales")
    for name in ("de_DE", "tr_TR"):
        command = ["localedef", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")]
        if (
            not Path("/usr/share/i18n/locales", name).exists()
            or subprocess.run(command, check=False).returncode
        ):
            pytest.skip(f"{name} cannot be made here")
    return folder


@pytest.mark.parametrize("name", ["de_DE.UTF-8", "tr_TR.UTF-8"])
def test_locale(usual: list[str], locales: Path, name: str, tmp_path: Path) -> None:
    assert digests(tmp_path, LOCPATH=str(locales), LC_ALL=name, PYTHONHASHSEED="1") == usual


def test_plain_c_locale_and_another_hash_seed(usual: list[str], tmp_path: Path) -> None:
    assert (
        digests(tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONHASHSEED="4242") == usual
    )


def test_time_zone_and_a_folder_with_a_name_of_its_own(usual: list[str], tmp_path: Path) -> None:
    odd = tmp_path / "größe & {name}\n"
    odd.mkdir()
    assert digests(odd, TZ="Asia/Kathmandu", PYTHONHASHSEED="7") == usual


def test_one_processor_and_two(usual: list[str], tmp_path: Path) -> None:
    ours = sorted(os.sched_getaffinity(0))
    if len(ours) < 2:
        pytest.skip("one processor")
    assert digests(tmp_path, set(ours[:1])) == digests(tmp_path, set(ours[:2])) == usual


@pytest.mark.parametrize("command", [["run", "first-flow", "--seeds", "1..3"]])
def test_one_at_a_time_and_two(command: list[str], tmp_path: Path) -> None:
    found = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        program = [
            sys.executable,
            "-m",
            "tailback.cli",
            *command,
            "--quiet",
            "--jobs",
            jobs,
            "--out",
            str(out),
        ]
        subprocess.run(program, check=True, capture_output=True)
        found.append(list(of_files("seeds", out)))
    assert found[0] == found[1]
    assert len(found[0]) > 3 * 7


@pytest.mark.parametrize("name", ["leaf-spine-websearch", "pfc-deadlock"])
def test_one_core_and_several(name: str, tmp_path: Path) -> None:
    """Where traffic goes on to its end, and where parts find a deadlock that lies across them."""

    def found(threads: str) -> list[str]:
        out = tmp_path / threads
        command = [sys.executable, "-m", "tailback.cli", "run", name, "--no-report", "--quiet"]
        command += ["--out", str(out), "--threads", threads]
        if name == "leaf-spine-websearch":
            command += ["--set", "run.duration=500us"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "stays on one core" not in done.stderr
        return list(of_files(name, out))

    assert found("1") == found("2") == found("3")
