"""Tasks on a Ray cluster of two nodes on this machine, one of which is lost in the middle of a sweep."""

from __future__ import annotations

import math
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from tailback.errors import InputError

ray = pytest.importorskip(
    "ray", reason="Ray is not installed: pip install 'tailback[ray]', where Ray has a wheel"
)

from tailback import cli, library  # noqa: E402
from tailback.executors import Threads, WorkerLost  # noqa: E402
from tailback.executors.ray import RayTasks  # noqa: E402
from tailback.study.claims import reproduce  # noqa: E402
from tailback.study.grid import SweepProgress, sweep  # noqa: E402
from tailback.study.posterior_rounds import fit  # noqa: E402
from test_sweep import ASKED, TINY, files  # noqa: E402


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    one = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
    one.add_node(num_cpus=1, object_store_memory=100 << 20)
    one.wait_for_nodes()
    yield one
    if ray.is_initialized():
        ray.shutdown()
    one.shutdown()


@pytest.mark.parametrize("form", ["ray://127.0.0.1:{}", "127.0.0.1:{}", "ray"])
@pytest.mark.parametrize("command", ["sweep", "reproduce"])
def test_nothing_at_an_address_is_one_line(
    form: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ray is not even asked: it would try again and again."""
    with socket.socket() as held:  # bound, but it does not listen
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        on = form.format(port)
        if form == "ray":
            monkeypatch.setenv("RAY_ADDRESS", f"ray://127.0.0.1:{port}")
        monkeypatch.setattr(ray, "init", lambda *a, **more: pytest.fail("Ray was asked"))
        with pytest.raises(InputError, match="found nothing that listens at ") as refused:
            RayTasks(on)
        assert str(refused.value).startswith(f"--on {on}: ")
        assert "\n" not in str(refused.value)
        if command == "sweep":
            words = ["sweep", "--scenario", "first-flow", "--vary", "host.mtu=1024B", "--on", on]
            assert cli.main([*words, "--out", str(tmp_path / "x")]) == 2
        else:
            name = next(iter(library.published()))
            assert cli.main(["reproduce", name, "--on", on, "--out", str(tmp_path / "x")]) == 2
        assert "found nothing that listens at" in capsys.readouterr().err
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "address", ["ray://", "ray://x:port", "ray://[::1", "ray://x:99999999", "a b:1", ":"]
)
def test_what_is_no_address_is_one_line(address: str) -> None:
    with pytest.raises(InputError, match="found nothing that listens at ") as refused:
        RayTasks(address)
    assert "\n" not in str(refused.value)


def test_a_sweep_with_a_node_lost_gives_the_same_tables(cluster: Any, tmp_path: Path) -> None:
    asked = {**ASKED, "seeds": "1..12"}
    sweep(asked, out=tmp_path / "here", executor=Threads(1))
    doomed = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    ended = 0

    class Losing(SweepProgress):
        def ended(self, row: dict[str, Any]) -> None:
            nonlocal ended
            ended += 1
            if ended == 10:
                cluster.remove_node(doomed, allow_graceful=False)

    executor = RayTasks(cluster.address)
    assert executor.jobs == 3
    done = sweep(asked, out=tmp_path / "there", executor=executor, progress=Losing())
    assert not done.failed
    assert files(tmp_path / "here") == files(tmp_path / "there")


def test_a_published_experiment_and_a_fit_are_the_same_there(cluster: Any, tmp_path: Path) -> None:
    pages = []
    for on in (None, cluster.address):
        out = tmp_path / f"experiment-{on is not None}"
        reproduce("veth-bql", out, quick=True, only=["K1"], on=on)
        names = [path for path in out.rglob("*") if path.is_file() and path.name != "timing.json"]
        pages.append({path.relative_to(out): path.read_bytes() for path in names})
    assert pages[0] == pages[1]

    found = []
    for executor in (Threads(1), RayTasks(cluster.address)):
        asked = {"scenario": TINY, "free": {"topology.link.delay": "1us..9us"}, "points": 4, "refine": 0}
        seen = {"metric": "ideal_payload_share", "value": 90, "unit": "%", "tolerance": 5}
        found.append(fit([seen], **asked, executor=executor).data())
    assert found[0] == found[1]


def test_errors_come_as_they_were_raised_and_what_runs_can_be_ended(cluster: Any) -> None:
    executor = RayTasks(cluster.address)
    assert executor.submit(math.sqrt, 9).result(60) == 3
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        executor.submit(math.sqrt, -1).result(60)
    asleep = executor.submit(time.sleep, 1000)
    executor.kill()
    with pytest.raises((CancelledError, WorkerLost, RuntimeError)):
        asleep.result(60)


def test_a_node_with_another_version_is_named(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailback.executors.ray.build", lambda: "another")
    with pytest.raises(InputError, match=r"found tailback .*, build \w{16}, on node .*, expected .* another"):
        RayTasks(cluster.address)


def test_a_cluster_that_is_not_there_is_a_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^--on ray://127\.0\.0\.1:1: found nothing") as refused:
        sweep(ASKED, out=tmp_path / "x", on="ray://127.0.0.1:1")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "x").exists()


def test_where_ray_is_not_installed_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"^--on: found no Ray, expected it to be installed: pip install"):
        RayTasks("ray")
