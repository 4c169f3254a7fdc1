"""Runs the tests of a lab, and records the output of tools before, during and after."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from errno import EEXIST
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread

from tailback.lab.model import Lab, LabTest
from tailback.lab.remote_shell import ask, last_line, started

COUNTER_INTERVAL_S = 1.0
"""Between two readings of the counters during a test."""
TEST_TIMEOUT_MARGIN_S = 60.0
"""Allowed time beyond the duration of a test."""
_SERVER_START_S = 1.0
"""Time for a server to start."""


class TestFailed(RuntimeError):  # noqa: N818  it is what happened
    """A test failed; the text is one line."""

    __test__ = False  # pytest must not collect it


def perftest_line(lab: Lab, test: LabTest, role: str) -> str:
    """The line that runs perftest at the server or the client."""
    host = getattr(test, role)
    nic = lab.nic_of(host)
    words = [f"{test.folder or ''}{test.tool}", f"-d {nic.device}", f"-x {nic.gid}"]
    words += [f"-s {test.message}"] if test.message is not None else []
    words += [f"-D {test.seconds}"] if test.seconds is not None else [f"-n {test.iterations}"]
    words += [f"-q {test.qps}"] if test.qps > 1 else []
    words += ["-b"] if test.bidirectional else []
    words += [f"--use_cuda={test.gpu}"] if test.gpu is not None else []
    words += [f"--tclass={test.tclass}"] if test.tclass is not None else []
    if role == "server":
        return " ".join(words)
    address = lab.nic_of(test.server).address
    words.append(test.connect or (address or "").split("/")[0])
    return " ".join(words)


def client_line(lab: Lab, test: LabTest) -> str:
    """The client's command: JSON to stdout, the table to stderr."""
    words = perftest_line(lab, test, "client").split(" ")
    words[-1:-1] = ["--out_json", "--out_json_file=$json"]
    return f"json=$(mktemp) && {' '.join(words)} >&2 && cat $json; status=$?; rm -f $json; exit $status"


def counter_lines(lab: Lab) -> list[tuple[str, str, str]]:
    """Commands that are run before, during and after a test: host, file and line."""
    found = []
    for nic in lab.nics:
        name = nic.interface
        found.append((nic.host, f"ethtool-{name}.txt", f"ethtool -S {name}"))
        found.append((nic.host, f"rdma-{nic.device}.json", f"rdma -j statistic show link {nic.device}/1"))
        ecn = (
            f"grep -H . /sys/class/net/{name}/ecn/roce_np/enable/* /sys/class/net/{name}/ecn/roce_rp/enable/*"
        )
        found.append((nic.host, f"ecn-{name}.txt", ecn))
        if nic.pfc is not None:
            found.append((nic.host, f"qos-{name}.txt", f"grep -H . /sys/class/net/{name}/qos/*"))
    for bridge in lab.bridges:
        for port in bridge.ports:
            name = port.interface
            found.append((bridge.host, f"ethtool-{name}.txt", f"ethtool -S {name}"))
            if port.qdisc is not None:
                found.append((bridge.host, f"tc-{name}.json", f"tc -s -j qdisc show dev {name}"))
    return found


def cores_line(test: LabTest) -> str:
    """The command that measures the cores of a bridge's host during a test."""
    return f"mpstat -P ALL -o JSON 1 {max(1, (test.seconds or 3) - 1)}"


def run(lab: Lab, test: LabTest, folder: Path, show: Callable[[str], None]) -> None:
    """Runs a test, and writes the output of tools to `folder/TEST`, for `tailback.lab.recorded`.

    Raises:
        TestFailed: the server or the client failed, or a host does not answer.
        FileExistsError: the folder already has this test.
    """
    made = not folder.exists()
    whole, where = folder / test.name, folder / f".{test.name}-running"
    if whole.exists():
        raise FileExistsError(EEXIST, "there is a test of its name", str(whole))
    where.mkdir(parents=True)
    try:
        _run(lab, test, where, show)
        where.replace(whole)
    except BaseException:
        rmtree(where, ignore_errors=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise


def _run(lab: Lab, test: LabTest, where: Path, show: Callable[[str], None]) -> None:
    show(f"{test.name}: counters before")
    _record_counters(lab, where / "before")
    server = perftest_line(lab, test, "server")
    with ExitStack() as open_ones:
        show(f"{test.name}: {test.server}: {server}")
        waits = open_ones.enter_context(started(lab.hosts[test.server], server))
        cores = {
            bridge.host: open_ones.enter_context(started(lab.hosts[bridge.host], cores_line(test)))
            for bridge in lab.bridges
        }
        time.sleep(_SERVER_START_S)
        if waits.poll() is not None:
            said = waits.stdout.read() if waits.stdout is not None else ""
            raise TestFailed(f"{test.name}: {test.server}: {server}: {last_line(said)}")
        show(f"{test.name}: {test.client}: {perftest_line(lab, test, 'client')}")
        with _CounterSampler(lab, where):
            patience = (test.seconds or 0) + TEST_TIMEOUT_MARGIN_S
            status, printed, table = ask(lab.hosts[test.client], client_line(lab, test), patience)
        if status:
            raise TestFailed(
                f"{test.name}: {test.client}: {perftest_line(lab, test, 'client')}: {last_line(table)}"
            )
        for host, process in cores.items():
            try:
                measured, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:  # mpstat is still running: its JSON is incomplete
                continue
            if process.returncode == 0:
                _write(where / "during" / host / "mpstat.json", measured)
    show(f"{test.name}: counters after")
    _record_counters(lab, where / "after")
    _write(
        where / ("perftest.json" if printed.lstrip().startswith("{") else "perftest.txt"), printed or table
    )


def _record_counters(lab: Lab, folder: Path) -> None:
    for host, file, line in counter_lines(lab):
        status, printed, _ = ask(lab.hosts[host], line)
        if status == 0 and printed.strip():  # without a tool: the reader reports what is missing
            _write(folder / host / file, printed)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


class _CounterSampler:
    """Records the counters at intervals in a thread, inside its context."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab, self._folder, self._over = lab, folder, Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        begun, number = time.monotonic(), 0
        while not self._over.wait(COUNTER_INTERVAL_S):
            number += 1
            where, at_s = self._folder / f"during-{number}", time.monotonic() - begun
            _record_counters(self._lab, where)
            if where.is_dir():
                _write(where / "at", f"{at_s:.3f}\n")
