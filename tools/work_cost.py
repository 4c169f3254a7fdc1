"""What messages cost that wait for messages, beside the same messages as a list with fixed starts.

    python tools/work_cost.py FOLDER|SCENARIO

FOLDER has the inputs of ASTRA-sim, such as crates/compat/tests/data/astra/ar8_ring_cc1. SCENARIO is a file with
one job, whose messages have queue pairs of their own. Counts instructions with valgrind, of whole runs and
without building the world. Takes some minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tailback
from tailback.astra.inputs import AstraOptions, load_inputs
from tailback.astra.setup import AstraSetup
from tailback.plan import make_plan, plan_json
from tailback.scenario import load

_ROOT = Path(__file__).parents[1]
_PRIORITY = 3
"""Of all messages of that simulator's front end."""


def _node(address: str) -> int:
    """The number in an address of fct.txt."""
    return (int(address, 16) - 0x0B000001) >> 8


def prepare(case: Path, folder: Path) -> None:
    """Writes what the example reads: the plan, and the messages in both forms."""
    files = (case / "system.json", case / "config.txt", case / "logical.json")
    inputs = load_inputs(AstraOptions(case / "et" / "w", *files, "empty"))
    ran = tailback.run_astra(inputs)
    (folder / "plan.json").write_text(plan_json(AstraSetup.of(inputs).plan))
    (folder / "astra.json").write_text(json.dumps(inputs.plan()))
    (folder / "inputs").mkdir()
    for rank, trace in enumerate(inputs.traces):
        (folder / "inputs" / f"w.{rank}.et").write_bytes(b"".join(trace()))
    rows = (line.split() for line in ran.outputs["fct.txt"].decode().splitlines())
    listed = [
        (_node(a), _node(b), _PRIORITY, int(port), int(size), int(start))
        for a, b, _, port, size, start, *_ in rows
    ]
    (folder / "list.json").write_text(json.dumps(sorted(listed, key=lambda row: row[-1])))


def prepare_native(scenario: Path, folder: Path) -> None:
    """The same for a job on the native models."""
    loaded = load(str(scenario))
    plan = make_plan(loaded)
    (job,) = plan["jobs"]
    number = {host["name"]: at for at, host in enumerate(plan["hosts"])}
    flows = tailback.run(loaded).flows.to_pylist()
    of_job = (job["item"], job["code_point"])
    listed = [
        (number[row["src"]], number[row["dst"]], *of_job, row["message_bytes"], row["start_ps"])
        for row in flows
    ]
    (folder / "native.json").write_text(plan_json(plan))
    (folder / "list.json").write_text(json.dumps(listed))


def instructions(program: Path, *arguments: str) -> int:
    """What a run of the example takes."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), *arguments]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", ran.stderr)
    assert found is not None
    print(
        f"{' '.join(arguments[:2])}: {int(found[1]) / 1e6:,.1f} M instructions, {ran.stdout.strip()}",
        flush=True,
    )
    return int(found[1])


def main() -> None:
    """Builds the example, counts, and prints both ratios."""
    built = [
        "cargo",
        "build",
        "--release",
        "-p",
        "tailback-compat",
        "--example",
        "work_cost",
        "--message-format=json",
    ]
    lines = subprocess.run(built, check=True, capture_output=True, text=True, cwd=_ROOT).stdout.splitlines()
    program = next(Path(path) for line in reversed(lines) if (path := json.loads(line).get("executable")))
    with tempfile.TemporaryDirectory() as name:
        given = Path(sys.argv[1])
        (prepare if given.is_dir() else prepare_native)(given, Path(name))
        counts = {
            (way, until): instructions(program, way, until, name)
            for until in ("build", "run")
            for way in ("work", "list")
        }
    whole = counts["work", "run"] / counts["list", "run"]
    running = [counts[way, "run"] - counts[way, "build"] for way in ("work", "list")]
    print(f"whole runs {whole - 1:+.2%}, without building the world {running[0] / running[1] - 1:+.2%}")


if __name__ == "__main__":
    main()
