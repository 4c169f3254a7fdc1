"""Every failure point: the n-th call that writes fails, or the process ends there; for every n.

    python tests/failure_points/enumerate.py [--every N] [--case NAME]

What is below a folder is watched by `shim.c`, which is preloaded. A process that has everything loaded forks
for each point, so that one costs a fifth of a second. Afterwards there is the whole result, a part that says
so, or nothing; the exit status is true, and what is told is one line. With --every N only each N-th point of
a kind is tried.
"""

from __future__ import annotations

import argparse
import errno
import gc
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
HPCC = HERE.parent.parent / "crates" / "compat" / "tests" / "data" / "hpcc" / "single_flow"
SCENARIO = """\
name: tiny
run: {duration: 20us}
topology: {kind: star, hosts: 2}
traffic:
  - {kind: flows, file: flows.csv}
"""
FLOWS = "src,dst,bytes,start\nh0,h1,64KB,0us\n"
ONCE = (errno.EIO, errno.ENOSPC, errno.EXDEV)
"""One call fails, and the next ones work."""
LASTING = (errno.ENOSPC, errno.EIO)
"""The disk is full, or gone: all fail from then on."""
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
SAID = "tailback: "


@dataclass
class Case:
    """A command, and what its folder may look like."""

    name: str
    run: Callable[[Path], int]
    before: Callable[[Path], None] = lambda out: None
    last: str = "summary.json"
    """The file that tells a whole folder."""
    costs: int = 1
    """How many times the usual a point costs: as many times fewer are tried of a sample."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Those of the folder when nothing fails; by path."""
    old: dict[str, bytes] = field(default_factory=dict)
    calls: int = 0


def command(*arguments: str | Path) -> int:
    from tailback import cli

    quiet = [] if arguments[0] == "explain" else ["--quiet"]
    return cli.main([*map(str, arguments), *quiet])


def cases(inputs: Path) -> list[Case]:
    tiny, older = inputs / "tiny.yaml", inputs / "older"

    def there(out: Path) -> None:
        out.mkdir(parents=True)

    def result_there(out: Path) -> None:
        shutil.copytree(older, out)

    def write_again(out: Path) -> int:
        from tailback import interrupts, run, start_up

        with interrupts.interrupting():
            try:
                run(str(tiny)).write(out)
            except OSError as error:
                print(f"{SAID}{error.filename}: {error.strerror or error}", file=sys.stderr)
                return 3
            except KeyboardInterrupt:
                return interrupts.status()
        return 0 if start_up else 1

    return [
        Case("run", lambda out: command("run", tiny, "--out", out)),
        Case("run into a folder that is there", lambda out: command("run", tiny, "--out", out), there),
        Case("write over an older result", write_again, result_there),
        Case("hpcc", lambda out: command("hpcc", HPCC / "config.txt", "--out", out), costs=2),
        Case(
            "reproduce",
            lambda out: command(
                "reproduce", "veth-bql", "--quick", "--only", "K1", "--jobs", "1", "--out", out
            ),
            last="reproduce.json",
            costs=4,
        ),
        Case(
            "seeds",
            lambda out: command("run", tiny, "--seeds", "1..2", "--jobs", "1", "--out", out),
            last="seeds.json",
            costs=12,
        ),
    ]


class Faults:
    """The page that is shared with the shim."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as open_file:
            self._page = mmap.mmap(open_file.fileno(), mmap.PAGESIZE)

    def arm(self, number: int, what: int, lasting: bool) -> None:
        self._page[:96] = struct.pack("4q64s", 0, number, what, lasting, b"")

    @property
    def count(self) -> int:
        return int(struct.unpack("4q", self._page[:32])[0])

    @property
    def call(self) -> str:
        return self._page[32:96].rstrip(b"\0").decode()


@dataclass
class Outcome:
    """What became of one point."""

    status: int
    err: list[str]
    state: str = ""
    litter: list[str] = field(default_factory=list)
    call: str = ""
    calls: int = 0


def forked(work: Callable[[], int], told: Path) -> Outcome:
    """Runs something in a process of its own, as the command would be."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            out = os.open(told / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            err = os.open(told / "err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(err, 2)
            signal.alarm(120)
            status = work()
            gc.collect()  # as at the end of an interpreter
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)
    _, code = os.waitpid(child, 0)
    return Outcome(os.waitstatus_to_exitcode(code), (told / "err").read_text().splitlines())


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def same(found: dict[str, bytes], wanted: dict[str, bytes]) -> bool:
    def timeless(files: dict[str, bytes]) -> dict[str, bytes]:
        return {name: data for name, data in files.items() if not name.endswith("timing.json")}

    times = [json.loads(data) for name, data in found.items() if name.endswith("timing.json")]
    return timeless(found) == timeless(wanted) and found.keys() == wanted.keys() and all(times)


def partial(found: dict[str, bytes], last: str) -> bool:
    """Whether it says itself that it is a part: the run was interrupted."""
    said = json.loads(found.get(last, b"{}"))
    return said.get("complete") is False or said.get("interrupted") is True


def state(case: Case, out: Path) -> str:
    """`nothing`, `whole`, `old` (an older result), `part` or `half` (files of a result, and that it is none
    is told); anything else is a mistake.
    """
    found = files_in(out) if out.is_dir() else {}
    if not found:
        return "nothing"
    if same(found, case.files):
        return "whole"
    if partial(found, case.last):
        return "part"
    if case.old and same(found, case.old):
        return "old"
    if case.last in found:
        return f"{case.last}, but not the whole: {sorted(found)}"
    if case.last == "summary.json":
        return "half"
    # Of several runs, each is whole, or not there.
    runs = {str(Path(name).parent) for name in case.files if Path(name).name == "summary.json"}
    for run in runs:
        inside = {name: data for name, data in found.items() if name.startswith(f"{run}/")}
        if (
            inside
            and not partial(inside, f"{run}/summary.json")
            and not same(inside, {n: data for n, data in case.files.items() if n.startswith(f"{run}/")})
        ):
            return f"{run} is not whole: {sorted(inside)}"
    return "part"


MANY = ("reproduce", "seeds")
"""Cases whose runs are in processes of their own."""


def wrong(case: Case, what: int, lasting: bool, call: str, got: Outcome) -> str:
    """What of an outcome is not as promised; or nothing."""
    killed, asked = what == 1000 + signal.SIGKILL, what > 1000
    whole, none = got.state in ("whole",), got.state in ("nothing", "old", "part")
    line = len(got.err) == 1 and got.err[0].startswith((SAID, "--out "))
    tidy = not got.litter or lasting or killed or call.startswith(("unlink", "rmdir", "open"))
    if got.state not in ("whole", "nothing", "old", "part", "half"):
        return got.state
    if got.state == "half" and not (killed or lasting):
        return "half a result"
    if killed:
        # One of several runs is ended: the parent says so.
        ended = got.status == -signal.SIGKILL or (case.name in MANY and got.status == 5 and line)
        return "" if ended else f"status {got.status}"
    if got.status == 0:
        return "" if whole and not got.err and tidy else f"status 0, {got.state}, {got.litter}"
    if asked and got.status == what - 1000 + 128:
        return "" if none or whole else "interrupted, and neither"
    if asked and case.name in MANY and got.status == 5:
        return "" if none and line else "a run was ended"
    if got.status == 3 and line:
        kept = "the whole result is in" in got.err[0]
        return (
            "" if (none or (got.state == "half" and lasting)) and (tidy or kept) else f"litter: {got.litter}"
        )
    if got.status == 2 and line:
        return "" if got.state in ("nothing", "old") and tidy else "refused, but not nothing"
    return f"status {got.status}"


def points(case: Case, every: int) -> Iterator[tuple[int, int, bool]]:
    """Number of the call, what happens, and whether it lasts."""
    kinds = [(one, False) for one in ONCE] + [(one, True) for one in LASTING]
    kinds += [(1000 + one, False) for one in SIGNALS]
    for shift, (what, lasting) in enumerate(kinds):
        step = every * case.costs if every > 1 else 1
        for number in range(1 + (3 * shift) % step, case.calls + 1, step):
            yield number, what, lasting


def named(what: int, lasting: bool) -> str:
    name = signal.Signals(what - 1000).name if what > 1000 else errno.errorcode[what]
    return f"{name}{' from there on' if lasting else ''}"


class Trials:
    """Where they take place."""

    def __init__(self) -> None:
        """Loads what a run loads, once."""
        import tailback.hpcc.outputs
        import tailback.report
        import tailback.results
        import tailback.study.claims
        import tailback.study.seeds  # noqa: F401

        self.root = Path(os.environ["FAULT_ROOT"])
        self.inputs, self.told = self.root.parent / "inputs", self.root.parent / "told"
        self.faults = Faults(Path(os.environ["FAULT_FILE"]))
        for folder in (self.inputs, self.told):
            folder.mkdir()
        (self.inputs / "tiny.yaml").write_text(SCENARIO)
        (self.inputs / "flows.csv").write_text(FLOWS)
        self.out = self.root / "deep" / "out"
        older = ["run", self.inputs / "tiny.yaml", "--seed", "7", "--out", self.inputs / "older"]
        assert forked(lambda: command(*older), self.told).status == 0

    def attempt(self, case: Case, number: int, what: int, lasting: bool) -> Outcome:
        """A point, and what is there afterwards. Number 0 is none."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        case.before(self.out)
        self.faults.arm(number, what, lasting)
        got = forked(lambda: case.run(self.out), self.told)
        got.call, got.calls = self.faults.call, self.faults.count
        self.faults.arm(0, 0, False)  # or what follows would be tried, too
        got.state = state(case, self.out)
        paths = sorted(self.root.rglob("*"))
        got.litter = [str(path) for path in paths if path.name.startswith(".")]
        if got.state == "nothing":
            empty = [path for path in paths if path.is_dir() and not any(path.iterdir())]
            got.litter += [str(path) for path in empty if path != self.out]
        return got

    def clean(self, case: Case) -> None:
        """How a case is when nothing fails."""
        got = self.attempt(case, 0, 0, False)
        case.calls, case.files = got.calls, files_in(self.out)
        case.old = files_in(self.inputs / "older") if case.name.startswith("write") else {}
        good = got.status == 0 and case.last in case.files and not got.litter
        assert good, (case.name, got)

    def fault(self, case: Case, what: int, lasting: bool, got: Outcome) -> str:
        """What is not as promised; or nothing."""
        found = wrong(case, what, lasting, got.call, got)
        if not found and got.state == "half":
            # Whoever reads it is told, in one line.
            read = forked(lambda: command("explain", self.out), self.told)
            good = read.status == 2 and len(read.err) == 1 and "not written to its end" in read.err[0]
            found = "" if good else f"half a result, read with {read.status}, {read.err}"
        if not found and got.state in ("nothing", "half") and what == 1000 + signal.SIGKILL:
            # The next run takes the place, and clears up. A result that is whole is kept; and of several runs
            # their folders are. What takes the place of an older result takes that of a half one.
            again = forked(lambda: case.run(self.out), self.told)
            rests = [path for path in self.root.rglob(".*") if not (path / "summary.json").is_file()]
            taken = again.status == 0 and same(files_in(self.out), case.files) and not rests
            kept = case.last != "summary.json" or any(self.out.glob(".*/summary.json"))
            return "" if taken or (again.status == 2 and kept) else f"not to be had again: {again}, {rests}"
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--case")
    chosen = parser.parse_args()
    trials = Trials()
    tried, bad, states = 0, 0, Counter[str]()
    for case in cases(trials.inputs):
        if chosen.case not in (None, case.name):
            continue
        trials.clean(case)
        number = 0
        for call, what, lasting in points(case, chosen.every):
            got = trials.attempt(case, call, what, lasting)
            number += 1
            states[got.state] += 1
            if fault := trials.fault(case, what, lasting, got):
                bad += 1
                print(
                    f"{case.name}: call {call} ({got.call}), {named(what, lasting)}: {fault}; {got}",
                    flush=True,
                )
        tried += number
        print(f"{case.name}: {case.calls} calls, {number} points", flush=True)
    print(f"{tried} points tried, {bad} broke a promise; {dict(states)}")
    return 1 if bad else 0


def preloaded() -> int:
    """Builds the shim, and starts this again with it."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        shim = base / "shim.so"
        build = ["cc", "-shared", "-fPIC", "-O1", "-o", str(shim), str(HERE / "shim.c"), "-ldl"]
        subprocess.run(build, check=True)
        (base / "faults").touch()
        environment = {
            **os.environ,
            "LD_PRELOAD": str(shim),
            "FAULT_ROOT": str(base / "root"),
            "FAULT_FILE": str(base / "faults"),
        }
        return subprocess.run(
            [sys.executable, __file__, *sys.argv[1:]], env=environment, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main() if "FAULT_ROOT" in os.environ else preloaded())
