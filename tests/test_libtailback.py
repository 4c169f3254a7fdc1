"""libtailback under ASTRA-sim's own system layer: finish cycles and fct.txt of the cases that were recorded.

Its sources are not here: TAILBACK_ASTRA_SIM names their folder, with the submodules Chakra and remote memory.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from astra_files import CASES

ROOT = Path(__file__).resolve().parent.parent
SOURCES = os.environ.get("TAILBACK_ASTRA_SIM", "")


def test_the_plan_of_a_network_is_printed_for_it() -> None:
    case = sorted(CASES.iterdir())[0]
    command = [sys.executable, "-m", "tailback.astra.network", "config.txt"]
    done = subprocess.run(command, cwd=case, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["variant"] == "astra-sim"
    missing = subprocess.run([*command[:-1], "none.txt"], capture_output=True, check=False, text=True)
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def astra_sim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ASTRA-sim's system layer with libtailback."""
    if not SOURCES:
        pytest.skip("TAILBACK_ASTRA_SIM: expected the folder of ASTRA-sim's sources, it is not set")
    build = tmp_path_factory.mktemp("astra-sim")
    subprocess.run(["cargo", "build", "--locked", "--release", "-p", "tailback-capi"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    given = [f"-DASTRA_SIM={SOURCES}", f"-DTAILBACK_LIB={target / 'release' / 'libtailback.so'}"]
    source = str(ROOT / "crates" / "capi" / "astra-sim")
    subprocess.run(["cmake", "-S", source, "-B", str(build), *given], check=True)
    subprocess.run(["cmake", "--build", str(build), "--parallel", "2"], check=True)
    return build / "astra-sim-tailback"


CASE_NAMES = sorted(case.name for case in CASES.iterdir() if (case / "fct.txt").is_file())


@pytest.mark.parametrize("case", CASE_NAMES)
def test_astra_sim_on_libtailback_is_equal(astra_sim: Path, case: str, tmp_path: Path) -> None:
    folder = CASES / case
    (tmp_path / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    groups = "groups.json" if (folder / "groups.json").is_file() else "empty"
    flags = [
        "--workload-configuration=et/w",
        "--system-configuration=system.json",
        "--network-configuration=config.txt",
        "--logical-topology-configuration=logical.json",
        f"--comm-group-configuration={groups}",
        f"--remote-memory-configuration={tmp_path / 'memory.json'}",
        f"--fct={tmp_path / 'fct.txt'}",
    ]
    run = subprocess.run(
        [str(astra_sim), *flags],
        cwd=folder,
        env={**os.environ, "TAILBACK_PYTHON": sys.executable},
        capture_output=True,
        check=True,
        text=True,
    )
    assert (tmp_path / "fct.txt").read_bytes() == (folder / "fct.txt").read_bytes()
    finished = re.findall(r"sys\[(\d+)\] finished, (\d+) cycles", run.stdout)
    assert finished == re.findall(r"sys\[(\d+)\] finished, (\d+) cycles", (folder / "cycles.txt").read_text())
