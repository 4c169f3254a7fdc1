"""Wheels: what `make wheel` and the release workflow refer to is there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def test_the_workflow_builds_every_platform_and_tries_each_wheel() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    wheel = workflow["jobs"]["wheel"]
    targets = {one["target"] for one in wheel["strategy"]["matrix"]["include"]}
    assert targets == {
        f"{machine}-{system}"
        for machine in ("x86_64", "aarch64")
        for system in ("unknown-linux-gnu", "apple-darwin")
    }
    commands = [step["run"] for step in wheel["steps"] if "run" in step]
    assert commands == ["sh tools/try-wheel python3 dist/*.whl"]
    assert "make wheel" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_a_wheel_for_one_python_or_too_large_is_refused(tmp_path: Path) -> None:
    for name, size, why in (
        ("tailback-0.1.0-cp312-cp312-linux_x86_64.whl", 1, "expected cp310-abi3"),
        ("tailback-0.1.0-cp310-abi3-linux_x86_64.whl", 9_000_000, "expected at most"),
    ):
        (tmp_path / name).write_bytes(bytes(size))
        done = subprocess.run(
            ["sh", "tools/try-wheel", "python3", str(tmp_path / name)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert why in done.stderr
