"""What is done outside of the simulator: full disks, mounts, two writers, signals, closed streams, no memory.

Every failure point is tried by `failure_points/enumerate.py`; these are the real things.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tailback
from commands import COMMAND, start, wait_until_it_simulates
from tailback import cli
from tailback.errors import InputError
from tailback.files.out_folder import SUMMARY_FILE, Occupied, claim
from tailback.results import Result
from tailback.run_folder import COMMON_FILES

TINY = {
    "name": "tiny",
    "run": {"duration": "20us"},
    "topology": {"kind": "star", "hosts": 2},
    "traffic": [{"kind": "write", "from": "h0", "to": "h1"}],
}
LINES = textwrap.dedent(
    """\
    name: tiny
    run: {duration: 20us}
    topology: {kind: star, hosts: 2}
    traffic: [{kind: write, from: h0, to: h1}]
    """
)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "in" / "tiny.yaml"
    file.parent.mkdir()
    file.write_text(LINES)
    return file


def command(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, words)], capture_output=True, text=True, check=False, timeout=120, **more
    )


def is_whole(folder: Path) -> bool:
    return Result.load(folder).complete and all((folder / name).is_file() for name in COMMON_FILES)


# Places


@pytest.fixture
def mount(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of its own, as large as the test says."""
    place = tmp_path / "mount"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "none", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("no permission to mount a tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("mount", ["64m"], indirect=True)
def test_a_mount_point_takes_a_result(mount: Path) -> None:
    tailback.run(TINY, out=mount)
    assert is_whole(mount)
    assert sorted(path.name for path in mount.parent.iterdir()) == ["mount"]
    assert not [path.name for path in mount.iterdir() if path.name.startswith(".")]
    again = tailback.run(TINY, seed=2)
    again.write(mount)  # in the place of the older one
    assert Result.load(mount).meta["seed"] == 2


@pytest.mark.parametrize("mount", ["512k"], indirect=True)
@pytest.mark.parametrize("below", ["", "deep/down"])
def test_a_full_disk_is_a_line_a_status_and_no_file(
    below: str, mount: Path, tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = mount / below
    assert cli.main(["run", str(tiny), "--out", str(out), "-q"]) == 3
    assert capfd.readouterr() == ("", f"tailback: {out}: No space left on device\n")
    assert list(mount.iterdir()) == []


def test_a_second_run_into_a_folder_is_refused_and_the_first_loses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "x"
    found = "found another run that writes there, expected a new or empty folder that can be written"

    def second(state: Any) -> None:
        if not refused:
            with pytest.raises(InputError) as error:
                tailback.run(TINY, out=out)
            refused.append(str(error.value))

    refused: list[str] = []
    tailback.run(TINY, out=out, progress=second)
    assert refused == [f"--out {out}: {found}"]
    assert is_whole(out)
    with pytest.raises(InputError, match="found a folder that is not empty"):
        tailback.run(TINY, out=out)
    with claim(tmp_path / "y"), pytest.raises(FileExistsError, match="another run that writes there"):
        tailback.run(TINY).write(tmp_path / "y")


def test_two_processes_and_one_folder(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    both = [start("run", tiny, "--out", out, "-q") for _ in range(2)]
    told = [process.communicate(timeout=120) for process in both]
    assert sorted(process.returncode for process in both) == [0, 2]
    assert sum(err.count("\n") for _, err in told) == 1
    assert is_whole(out)


def test_what_others_put_into_the_folder_during_a_run_stays(tmp_path: Path) -> None:
    """Where a file system has no locks, a second run does that; the result is then beside."""
    out = tmp_path / "x"
    with pytest.raises(OSError, match="not empty; the whole result is in ") as error:
        tailback.run(TINY, out=out, progress=lambda _: (out / "mine.txt").write_text("precious") and None)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert is_whole(Path(str(error.value).partition(" is in ")[2].partition(": ")[0]))


def test_a_kill_between_an_older_result_and_a_newer_one_leaves_a_place_for_the_next(tmp_path: Path) -> None:
    """Whichever of the renames it comes at: the older result was to go anyway."""

    def write(text: str, renames: int | None) -> int:
        """Writes a result in a process that ends at a rename; gives its status."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        status, rename, done = 9, Path.rename, 0

        def files(work: Path) -> None:
            for name in ("a", SUMMARY_FILE):
                (work / name).write_text(text)

        def until(path: Path, target: Path) -> Path:
            nonlocal done
            done += 1
            if done == renames:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(path, target)

        try:
            Path.rename = until  # type: ignore[method-assign, assignment]
            with claim(tmp_path, "result") as folder:
                folder.fill(files)
            status = 0
        except Occupied:
            status = 2
        finally:
            os._exit(status)

    for renames in range(1, 5):
        assert write("old", None) == 0
        assert write("new", renames) == -signal.SIGKILL
        assert write("newer", None) == 0, renames
        # What was whole and not yet begun to be put in place is kept.
        found = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix != ".writing"}
        assert found == {"a": "newer", SUMMARY_FILE: "newer"}
    assert write("new", 5) == 0, "there are four"


def test_a_half_result_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x"
    tailback.run(TINY, out=out)
    (out / "summary.json").unlink()
    with pytest.raises(FileNotFoundError, match="is a result that was not written to its end"):
        Result.load(out)
    assert cli.main(["explain", str(out)]) == 2
    words = "found a result that was not written to its end (no summary.json), expected the folder of a run"
    assert capsys.readouterr().err == f"{out}: {words}\n"


@pytest.mark.parametrize(
    "name", ["../..", "/etc/passwd", "..", ".", "", "a/b", "inputs/../x", "summary.json", "inputs"]
)
def test_a_result_names_no_file_outside_of_its_folder(name: str, tmp_path: Path) -> None:
    out = tmp_path / "x"
    result = tailback.run(TINY, out=out)
    summary = json.loads((out / "summary.json").read_text())
    (out / "summary.json").write_text(json.dumps({**summary, "outputs": [name]}))
    with pytest.raises(ValueError, match="none of a file in the folder"):
        Result.load(out)
    result.outputs = {name: b"mine"}
    with pytest.raises(ValueError, match="is no name for a file of a result"):
        result.write(tmp_path / "y")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_inputs_of_one_name_stay_apart(tmp_path: Path) -> None:
    """Whatever they are called: the third copy of a name may not be that of another file."""
    names = ["a/x.csv", "b/2-x.csv", "c/x.csv", "d/X.csv", "e/x.csv"]
    for size, name in enumerate(names, 1):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"src,dst,bytes,start\nh0,h1,{size}KB,0us\n")
    traffic = [{"kind": "flows", "file": str(tmp_path / name)} for name in names]
    first = tailback.run({**TINY, "traffic": traffic}, out=tmp_path / "x")
    assert len(list((tmp_path / "x" / "inputs").iterdir())) == len(names)
    assert tailback.run(tmp_path / "x" / "scenario.yaml").flows.equals(first.flows)


def test_a_path_need_not_be_utf_8(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    file = odd / os.fsdecode(b"tiny\xe9.yaml")
    file.write_text(LINES.replace("write, from: h0, to: h1", "flows, file: ../plain.csv"))
    (tmp_path / "plain.csv").write_text("src,dst,bytes,start\nh0,h1,64KB,0us\n")
    for place in (odd / "x", tmp_path / "x"):
        assert cli.main(["run", str(file), "--out", str(place), "-q"]) == 0
        assert is_whole(place)
    capfd.readouterr()


# Streams


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, tiny: Path, tmp_path: Path) -> None:
    """The first files that are opened must not get their numbers."""
    words = " ".join([*COMMAND, "run", str(tiny), "--out", str(tmp_path / "x"), closed])
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert is_whole(tmp_path / "x")


@pytest.mark.parametrize("words", [["list"], ["schema"], ["run", "TINY"], ["run", "TINY", "--seeds", "1"]])
def test_full_standard_output(words: list[str], tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    words = [str(tiny) if word == "TINY" else word for word in words]
    more = ["--out", str(out)] if words[0] == "run" else []
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *words, *more], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (3, "tailback: No space left on device\n")
    if more:
        assert is_whole(out / "seed-1" if "--seeds" in words else out)


def test_the_status_is_told_though_nobody_reads(tmp_path: Path) -> None:
    sets = ["run.duration=1ms", "traffic.0.start_interval=0", "traffic.0.qps=16", "switch.pfc.headroom=2KB"]
    more = [part for one in sets for part in ("--set", one)]
    words = " ".join(
        [*COMMAND, "run", "roce-incast-lossless", *more, "--seeds", "1", "--out", str(tmp_path / "x")]
    )
    done = subprocess.run(
        ["bash", "-c", f"{words} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("fault: seed 1: lossless_drop")


# Signals

# Ends the process with a signal when the n-th module is imported, as a person could.
AT_IMPORT = """\
import os, signal, sys
left, number = int(sys.argv[1]), int(sys.argv[2])
def count(event, _):
    global left
    if event == "import":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), number)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.addaudithook(count)
sys.argv = ["tailback", *sys.argv[3:]]
from tailback.cli import main
status = main()
if left > 0:
    print("left", left, file=sys.stderr)
sys.exit(status)
"""


def test_a_signal_while_loading_is_a_line(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "x"
    arguments = ["run", str(tiny), "--out", str(out), "-q"]

    def at(number: int, what: signal.Signals) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", AT_IMPORT, str(number), str(int(what)), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    whole = at(10**6, signal.SIGINT)
    assert whole.returncode == 0
    number = 10**6 - int(whole.stderr.split()[1])
    assert number > 500
    shutil.rmtree(out)
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # The first few are those of the package itself, before anything of it has run.
    for step, one in enumerate(range(12, number, number // 12)):
        done = at(one, kinds[step % 3])
        if done.returncode == 0:  # while the result was written, or after
            assert is_whole(out)
            shutil.rmtree(out)
            continue
        assert done.returncode == 128 + kinds[step % 3], done.stderr
        assert done.stderr == "tailback: interrupted before there was a result; nothing was written\n"
        assert not out.exists()


def test_ctrl_c_in_python_has_the_partial_result(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(tailback.Interrupted) as interrupted:
            tailback.run(
                "roce-incast-lossless",
                out=tmp_path / "x",
                progress=lambda _: signal.raise_signal(signal.SIGINT),
            )
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(interrupted.value, KeyboardInterrupt)
    result = interrupted.value.result
    assert not result.complete
    assert 0 < result.meta["end_ps"] < 2 * 10**12
    assert Result.load(tmp_path / "x").flows.equals(result.flows)


def test_a_signal_that_was_ignored_stays_ignored(tiny: Path, tmp_path: Path) -> None:
    """As with nohup."""
    out = tmp_path / "x"
    begin = ["bash", "-c", 'trap "" HUP TERM INT; exec "$@"', "-", *COMMAND]
    words = ["run", "first-flow", "--set", "run.duration=200ms", "--out", str(out), "-q"]
    with subprocess.Popen(
        [*begin, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until_it_simulates(process, 0.05)
        for one in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            process.send_signal(one)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert is_whole(out)


def children(parent: int) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == parent:
            found.add(int(stat.parent.name))
    return found


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_runs_of_seeds_end_with_their_parent(what: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "x"
    words = ["run", "roce-incast-lossless", "--seeds", "1..4", "--jobs", "2", "--out", str(out), "-q"]
    with start(*words) as process:
        deadline = time.monotonic() + 120
        workers: set[int] = set()
        while len(workers) < 2 and time.monotonic() < deadline:
            workers = {
                one for one in children(process.pid) if "/_engine" in Path(f"/proc/{one}/maps").read_text()
            }
        everyone = children(process.pid)
        process.send_signal(what)
        _, err = process.communicate(timeout=60)
    assert len(workers) == 2
    while any(lives(one) for one in everyone) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [one for one in everyone if lives(one)]
    if what == signal.SIGKILL:
        assert process.returncode == -what
    else:
        assert process.returncode == 128 + what
        assert err == "tailback: interrupted; 0 of 4 runs are complete\n"
        assert not out.exists()


# Memory


@pytest.mark.parametrize("megabytes", [100, 200, 300])
def test_too_little_memory_to_load(megabytes: int, tiny: Path, tmp_path: Path) -> None:
    limit = megabytes << 20
    done = command(
        "run",
        tiny,
        "--out",
        tmp_path / "x",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 4
    assert done.stderr.startswith("tailback: out of memory: ulimit -v is ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("megabytes", [400, 440])
def test_a_run_that_needs_more_memory_leaves_no_folder(megabytes: int, tmp_path: Path) -> None:
    limit = megabytes << 20
    done = command(
        "run",
        "fat-tree-permutation",
        *("--set", "topology.k=16", "--no-report", "--out", tmp_path / "a" / "b"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode in (0, 4)  # machines differ in what loading takes
    if done.returncode == 4:
        assert done.stderr.startswith("tailback: out of memory")
        assert list(tmp_path.iterdir()) == []


def test_arrow_starts_no_threads(tiny: Path, tmp_path: Path) -> None:
    """Where it gets no memory for them, it waits for them for ever. (A list of flows as CSV has one.)"""
    code = """\
import os, sys, pathlib
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from tailback import cli
explain = ["explain", sys.argv[2], "--no-try"]
assert cli.main(["run", sys.argv[1], "-q", "--out", sys.argv[2]]) == cli.main(explain) == 0
names = [file.read_text().strip() for file in pathlib.Path("/proc/self/task").glob("*/comm")]
print("threads", [name for name in names if name != "jemalloc_bg_thd"])
"""
    words = [sys.executable, "-c", code, str(tiny), str(tmp_path / "x")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    *_, last = done.stdout.splitlines() or [done.stderr]
    assert last.startswith("threads ['")
    assert last.count("'") == 2, last


def test_memory_that_runs_out_in_the_engine(tmp_path: Path) -> None:
    """What a run needs is more than what it is given, on top of what loading took."""
    code = """\
import resource, sys
from tailback._engine import Simulation
from tailback.plan import make_plan, plan_json
from tailback.scenario import load
plan = plan_json(make_plan(load("roce-incast-lossless", sets=["traffic.0.qps=4096"])))
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size, size))
Simulation(plan)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, "tailback: out of memory\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "tailback: out of memory\n"),
        (MemoryError("Unable to allocate 6.6 GiB"), "tailback: out of memory: Unable to allocate 6.6 GiB\n"),
    ],
)
def test_memory_that_runs_out_in_python(
    error: MemoryError,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(import_module("tailback.running"), "packed_plan", fail)
    assert cli.main(["run", "first-flow", "--out", str(tmp_path / "x"), "-q"]) == 4
    assert capsys.readouterr() == ("", line)
    assert not (tmp_path / "x").exists()


def test_a_mistake_is_no_fault_of_the_run(tiny: Path, tmp_path: Path) -> None:
    """Status 1 says that a run has found something."""
    code = """\
import sys
sys.argv = ["tailback", "run", sys.argv[1], "-q", "--out", sys.argv[2]]
from tailback import cli, run_folder
run_folder.summarise = None
sys.exit(cli.main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny), str(tmp_path / "x")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert done.stderr.endswith("tailback: this is a mistake in tailback; please report the lines above\n")
    assert not (tmp_path / "x").exists()
