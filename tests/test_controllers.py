"""Controllers in Python: they hear and answer what the built-in ones do; what is wrong is said clearly."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import tailback
from dcqcn_in_python import Dcqcn
from tailback.errors import InputError
from tailback.results import Result
from tailback.scenario import load

INCAST: dict[str, Any] = {
    "name": "incast",
    "run": {"duration": "3ms"},
    "topology": {"kind": "star", "hosts": 5},
    "traffic": [{"kind": "write", "from": "h0..h3", "to": "h4", "message": "1MiB", "depth": 4}],
}


def run(kind: Any, **more: Any) -> Any:
    return tailback.run({**INCAST, **more}, controllers={"mine": kind})


def test_dcqcn_in_python_is_dcqcn() -> None:
    # Controllers in Python do not say when their rate rises.
    built_in = tailback.run({**INCAST, "host": {"dcqcn": {"wait_follows_rate": False}}})
    mine = run(Dcqcn)
    assert mine.flows.equals(built_in.flows.select(mine.flows.column_names))
    assert mine.series.equals(built_in.series)
    assert mine.counters.equals(built_in.counters)
    cut = built_in.series.filter([name == "alpha" for name in built_in.series.column("metric").to_pylist()])
    assert max(cut.column("value").to_pylist()) > 0.5, "it was cut"


def test_the_same_class_gives_the_same_run() -> None:
    one, two = run(Dcqcn), run(Dcqcn)
    assert one.series.equals(two.series)


class Recorded(tailback.Controller):
    """Notes what it hears."""

    uses = ("each_ack", "telemetry", "cnps", "window", "timer")
    telemetry_bytes = 42
    signals: ClassVar[dict[str, str]] = {"acks_count": "Acknowledgements heard."}
    heard: ClassVar[list[tuple[str, Any]]] = []

    def __init__(self, link: tailback.Link) -> None:
        super().__init__(link)
        self.window = 20_000
        self.next_timeout = 1_000_000
        self.acks_count = 0

    def on_sent(self, now: int, payload: int) -> None:
        self.heard.append(("sent", payload))

    def on_ack(self, ack: Any) -> None:
        self.heard.append(("ack", ack))
        self.acks_count += 1

    def on_cnp(self, now: int) -> None:
        self.heard.append(("cnp", now))

    def on_loss(self, now: int, kind: str) -> None:
        self.heard.append(("loss", kind))

    def on_timeout(self, now: int) -> None:
        self.heard.append(("timeout", now))
        self.next_timeout = now + 1_000_000 if now < 5_000_000 else None


def test_it_hears_what_it_uses() -> None:
    Recorded.heard.clear()
    link = {"rate": "100Gbps", "loss": 0.01}
    topology = {"kind": "star", "hosts": 5, "link": link}
    result = run(Recorded, topology=topology, switch={"ecn": {"k_min": "1KB", "k_max": "2KB", "p_max": 1.0}})
    heard = {kind for kind, _ in Recorded.heard}
    assert heard == {"sent", "ack", "cnp", "loss", "timeout"}
    timeouts = [now for kind, now in Recorded.heard if kind == "timeout"]
    assert sorted(set(timeouts)) == [1_000_000 * n for n in range(1, 6)]
    ack = next(ack for kind, ack in Recorded.heard if kind == "ack" and ack.newly_acked_bytes)
    assert (ack.hop_count, len(ack.hops), ack.hops[0].rate) == (1, 1, 100 * 10**9)
    assert 3_000_000 < ack.rtt < 100_000_000
    assert ack.sent_bytes - ack.acknowledged_bytes <= 21_000
    assert result.bins.values("h0-h4/qp0", "acks_count")[-1] > 100


class Delays(tailback.Controller):
    """Notes what part of each round trip the receiving host took, in ps."""

    uses = ("each_ack",)
    seen: ClassVar[list[tuple[int, int, int]]] = []

    def on_ack(self, ack: Any) -> None:
        self.seen.append((ack.now, ack.receiver_delay, ack.rtt))


def test_the_receiving_hosts_delay_is_told_apart() -> None:
    """The memory of a GPU answers nothing for 485 us from 4.75 ms on: packets wait in its host."""
    Delays.seen.clear()
    tailback.run("gpudirect-pfc", sets=["run.duration=6ms"], controllers={"mine": Delays})
    assert all(delay <= rtt for _, delay, rtt in Delays.seen)
    before = [delay for now, delay, _ in Delays.seen if now < 4_000_000_000]
    after = [delay for now, delay, _ in Delays.seen if now > 5_000_000_000]
    assert max(before) < 100_000_000 < 4 * 100_000_000 < max(after)


class Raises(tailback.Controller):
    uses = ("acks",)

    def on_ack(self, ack: Any) -> None:
        raise ZeroDivisionError("by nothing")


class Nonsense(tailback.Controller):
    uses = ("acks", "window", "timer")

    def __init__(self, link: tailback.Link, name: str, value: Any) -> None:
        super().__init__(link)
        self.name, self.value = name, value

    def on_ack(self, ack: Any) -> None:
        setattr(self, self.name, self.value)


LINE = inspect.getsourcelines(Raises.on_ack)[1] + 1
ROOT = Path(__file__).parent


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (
            Raises,
            f"test_controllers.py:{LINE}: controller mine, class Raises, queue pair 2: on_ack raised "
            "ZeroDivisionError: by nothing",
        ),
        (
            partial(Nonsense, name="rate", value=float("nan")),
            "class Nonsense, queue pair 2: after on_ack, rate: found NaN, expected above 0",
        ),
        (partial(Nonsense, name="rate", value=-1.0), "rate: found -1, expected above 0 and up to the link's"),
        (partial(Nonsense, name="rate", value="fast"), "rate: found 'fast', expected a number"),
        (
            partial(Nonsense, name="window", value=0),
            "window: found 0, expected more, or a next_timeout at which it opens",
        ),
        (partial(Nonsense, name="window", value=1.5), "window: found 1.5, expected None or a whole number"),
        (partial(Nonsense, name="next_timeout", value=5), "next_timeout: found 5, expected later than now"),
        (partial(Nonsense, nam="rate"), "__init__ raised TypeError"),
    ],
)
def test_what_fails_ends_the_run_with_one_line(kind: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        tailback.run(INCAST, controllers={"mine": kind}, out=tmp_path / "out")
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_exception_behind_it_is_its_cause() -> None:
    with pytest.raises(InputError) as caught:
        run(Raises)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("controllers", "line"),
    [
        (
            {"mine": object},
            "controllers.mine: found <class 'object'>, expected a subclass of tailback.Controller",
        ),
        (
            {"swift": Dcqcn},
            'controllers.swift: found the name "swift", expected letters, digits and _, and no',
        ),
        (
            {"one": Dcqcn, "two": Dcqcn},
            "controllers.one: found nothing that runs it, expected one of several",
        ),
        (
            {"mine": type("Odd", (tailback.Controller,), {"uses": ("ack",)})},
            'Odd.uses: found "ack", expected',
        ),
        (
            {"mine": type("Deaf", (tailback.Controller,), {"on_ack": lambda self, ack: None})},
            'Deaf.uses: found no "acks", expected it with on_ack',
        ),
        (
            {"mine": "tests/nothing.py:Mine"},
            'nothing.py", no such file or directory, expected a file that can be read',
        ),
        (
            {"mine": f"{ROOT}/dcqcn_in_python.py:Mine"},
            "dcqcn_in_python.py, expected one of its controllers: Dcqcn",
        ),
        (
            {"mine": f"{ROOT}/dcqcn_in_python.py:US"},
            "found 1000000, expected a subclass of tailback.Controller",
        ),
    ],
)
def test_what_is_no_controller_is_refused(controllers: Any, line: str) -> None:
    with pytest.raises(InputError) as caught:
        load(INCAST, controllers=controllers)
    assert line in str(caught.value)
    assert not caught.value.problems[0].text.count("\n")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("class Mine(:\n", "found invalid syntax in line 1 of"),
        ("import tailback\n\n1 / 0\n", "found ZeroDivisionError: division by zero ("),
        ("import no_such_module\n", "found ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_file_that_does_not_run(source: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(InputError) as caught:
        load(INCAST, controllers={"mine": f"{tmp_path}/mine.py:Mine"})
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_one_that_nothing_names_is_that_of_the_hosts() -> None:
    named = {**INCAST, "host": {"congestion": "hpcc"}}
    assert load(named, controllers={"mine": Dcqcn}).host.congestion == "mine"


def test_it_may_run_beside_others() -> None:
    """A host and a traffic item name their own; then the rest keeps the default."""
    traffic = [
        {"kind": "write", "from": "h0..h1", "to": "h4"},
        {"kind": "write", "from": "h2", "to": "h4", "congestion": "swift"},
    ]
    host = {"congestion_by_host": [{"hosts": "h0", "congestion": "mine"}]}
    result = run(Dcqcn, traffic=traffic, host=host)
    ran = {row["src"]: row["congestion"] for row in result.flows.to_pylist()}
    assert ran == {"h0": "mine", "h1": "dcqcn", "h2": "swift"}
    with pytest.raises(InputError, match=r'found "mine", expected one of dcqcn, hpcc'):
        tailback.run({**INCAST, "host": host})


HALF = """
import tailback


class Half(tailback.Controller):
    def __init__(self, link):
        super().__init__(link)
        self.rate /= 2
"""


@pytest.fixture
def half(tmp_path: Path) -> Path:
    file = tmp_path / "half.py"
    file.write_text(HALF)
    return file


def tailback_tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).parent / "tailback"
    return subprocess.run([str(tool), *map(str, arguments)], capture_output=True, text=True)


def test_the_folder_of_a_run_repeats_it(half: Path, tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    ran = tailback_tool("run", "first-flow", "--quiet", "--out", first, "--controller", f"{half}:Half")
    assert ran.returncode == 0, ran.stderr
    assert (first / "inputs" / "half.py").read_text() == HALF
    half.unlink()
    ran = tailback_tool("run", first / "scenario.yaml", "--quiet", "--out", again)
    assert ran.returncode == 0, ran.stderr
    for name in ("scenario.yaml", "plan.json", "flows.parquet", "series.parquet", "counters.json"):
        assert (again / name).read_bytes() == (first / name).read_bytes(), name
    rate = Result.load(again).flows.column("rate_bps").to_pylist()
    assert rate == [50e9]


def test_a_class_of_a_file_is_an_input_and_another_is_not(tmp_path: Path) -> None:
    run(Recorded).write(tmp_path / "file")
    resolved = (tmp_path / "file" / "scenario.yaml").read_text()
    assert "controllers: {mine: inputs/test_controllers.py:Recorded}" in resolved
    assert (tmp_path / "file" / "inputs" / "test_controllers.py").is_file()
    run(partial(Nonsense, name="other", value=1)).write(tmp_path / "none")
    again = tmp_path / "none" / "scenario.yaml"
    assert "controllers: {mine: null}" in again.read_text()
    with pytest.raises(InputError, match=r"controllers\.mine: found null, a class that was given in Python"):
        load(again)
    assert load(again, controllers={"mine": Dcqcn}).own_controllers["mine"].kind is Dcqcn


def test_seeds_run_it_in_processes_of_their_own(half: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = tailback_tool(
        *("run", "first-flow", "--quiet", "--out", out, "--seeds", "1..2", "--jobs", 2),
        *("--controller", f"{half}:Half"),
    )
    assert ran.returncode == 0, ran.stderr
    for seed in (1, 2):
        assert (out / f"seed-{seed}" / "inputs" / "half.py").is_file()
        assert Result.load(out / f"seed-{seed}").flows.column("rate_bps").to_pylist() == [50e9]
    half.write_text(HALF.replace("self.rate /= 2", "self.rate = -1.0"))
    ran = tailback_tool(
        *("run", "first-flow", "--quiet", "--out", tmp_path / "bad", "--seeds", "1,2"),
        *("--controller", f"{half}:Half"),
    )
    assert ran.returncode != 0
    assert (
        "half.py:6: controller Half, class Half, queue pair 0: after __init__, rate: found -1" in ran.stderr
    )
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x.py", 'found "x.py", expected FILE.py:CLASS'),
        ("{half}:Full", "found no class Full in"),
        ("{half}.py:Half", "expected a file that can be read"),
    ],
)
def test_what_the_command_line_refuses(text: str, line: str, half: Path, tmp_path: Path) -> None:
    given = text.format(half=half)
    refused = tailback_tool("run", "first-flow", "--out", tmp_path / "out", "--controller", given)
    assert refused.returncode == 2
    assert line in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
