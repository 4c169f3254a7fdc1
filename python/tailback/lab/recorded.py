"""Reads outputs of tools from a folder of `tailback lab run`, or as somebody typed them in.

    TEST/perftest.json or perftest.txt       output of the test's client
    TEST/before/HOST/FILE, TEST/after/...    counters
    TEST/during-1/HOST/FILE, during-2 ...    the same during the test, with seconds since its start in `at`
    TEST/during/HOST/mpstat.json or .txt     cores during the test

FILE is `ethtool-IFACE.txt`, `rdma-DEVICE.json` or `.txt`, `tc-IFACE.json` or `.txt`. Missing files are
reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from tailback.errors import InputError, plain
from tailback.lab import readers
from tailback.lab.model import Lab, LabTest
from tailback.lab.readers import Perftest, QdiscCounters, UnexpectedOutput
from tailback.text import rate

GAUGES = ("outbound_pci_stalled_wr", "outbound_pci_stalled_rd")
"""Shares of the last second in %, no counts (mlx5)."""
MAX_OUTPUT_BYTES = 16 << 20
MAX_TEST_S = 1e6
"""Longest duration of a test."""
_Read = TypeVar("_Read")


@dataclass
class Snapshot:
    """Counters at one time, by host and interface or device."""

    at_s: float
    ethtool: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    rdma: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    tc: dict[tuple[str, str], QdiscCounters] = field(default_factory=dict)


@dataclass
class RecordedTest:
    """A test and its records."""

    test: LabTest
    result: Perftest
    snapshots: list[Snapshot]
    """The first is from before the test, the last from after it."""
    cores: dict[str, dict[int, dict[str, float]]]
    missing: list[str]
    """Parts of the lab without records, a line each."""


def read(lab: Lab, folder: Path, test: LabTest) -> RecordedTest:
    """Reads the records of a test.

    Raises:
        InputError: there are no records, or a file is not the output that its name says.
    """
    where, missing = folder / test.name, list[str]()
    result = _one(where, "perftest", readers.perftest)
    if result is None:
        text = f"found no perftest.json or perftest.txt, expected what {test.tool} of {test.name} printed"
        raise InputError.at(str(where), text)
    latency = test.tool == "ib_write_lat"
    if (result.latency_us is not None) != latency:
        text = f"found no {'latency' if latency else 'bandwidth'}, expected what {test.tool} prints"
        raise InputError.at(str(where), text)
    length_s = duration_s(test, result)
    if not 0 < length_s <= MAX_TEST_S:
        text = f"found a test of {length_s:g} s by its figures, expected more than 0 and at most {MAX_TEST_S:g} s"
        raise InputError.at(str(where), text)
    between = sorted(where.glob("during-*"), key=lambda one: _at(one) or 0.0)
    steps = [
        (where / "before", 0.0),
        *((one, _at(one) or 0.0) for one in between),
        (where / "after", length_s),
    ]
    snapshots = [_snapshot(lab, path, at) for path, at in steps]
    first, last = snapshots[0], snapshots[-1]
    for what, kind, keys in _wanted(lab):
        for key in keys:
            name = f"{what} of {key[1]} at {key[0]}"
            there = [shot for shot in snapshots if key in getattr(shot, kind)]
            if not there:
                missing.append(f"{name}: not recorded")
            elif there == [first]:
                missing.append(f"{name}: recorded only before the test, which tells nothing of it")
                del getattr(first, kind)[key]
                continue
            elif there[0] is not first:
                missing.append(f"{name}: not recorded before the test, taken as counted from 0")
            elif there[-1] is not last:
                missing.append(f"{name}: not recorded after the test, counted up to the last look during it")
            missing += [f"{name}: {text}" for text in _fallen([getattr(shot, kind)[key] for shot in there])]
    missing += _strangers(lab, where)
    if result.bandwidth_bps == 0:
        missing.append(
            f"perftest: its bandwidth is printed as 0.00, which is below {rate(result.resolution_bps)}, or "
            "nothing was measured; it is shown as 0"
        )
    cores = {}
    for bridge in lab.bridges:
        found = _one(where / "during" / bridge.host, "mpstat", readers.mpstat)
        if found is None:
            missing.append(f"mpstat at {bridge.host}: not recorded")
        else:
            cores[bridge.host] = found
    return RecordedTest(test, result, snapshots, cores, missing)


def _fallen(values: list[dict[str, int]] | list[QdiscCounters]) -> list[str]:
    """Counters that became smaller."""
    counters = [one if isinstance(one, dict) else one.counters for one in values]
    return [
        f"{name} fell from {then[name]:,} to {now[name]:,}: it was reset, and counts from 0 there"
        for then, now in pairwise(counters)
        for name in sorted(then.keys() & now.keys())
        if now[name] < then[name] and name not in GAUGES
    ]


def _strangers(lab: Lab, where: Path) -> list[str]:
    """Files of a test that have counters of a host, an interface or a device that the lab does not have."""
    wanted = {(host, f"{kind}-{name}") for _, kind, keys in _wanted(lab) for host, name in keys}
    wanted |= {(bridge.host, f"tc-{port.interface}") for bridge in lab.bridges for port in bridge.ports}
    wanted |= {(bridge.host, "mpstat") for bridge in lab.bridges}
    found = sorted(
        (path.parent.name, path.stem)
        for path in where.glob("*/*/*")
        if path.name.startswith(("ethtool-", "rdma-", "tc-", "mpstat."))
        and path.suffix in (".json", ".txt")
        and (path.parent.name, path.stem) not in wanted
    )
    return [
        f"{name} of {host}: recorded and not read, for {lab.name} has no such host, interface or device"
        for host, name in dict.fromkeys(found)
    ]


def duration_s(test: LabTest, result: Perftest) -> float:
    """Duration of a test: as configured, or computed from its iterations."""
    if test.seconds is not None:
        return float(test.seconds)
    if result.bandwidth_bps is not None:
        if not result.bandwidth_bps:
            return 0.0
        return result.iterations * result.message_bytes * 8 / result.bandwidth_bps
    assert result.latency_us is not None
    return result.iterations * 2 * result.latency_us[1] / 1e6


def _wanted(lab: Lab) -> list[tuple[str, str, list[tuple[str, str]]]]:
    ports = [(bridge.host, port) for bridge in lab.bridges for port in bridge.ports]
    nics = [(nic.host, nic.interface) for nic in lab.nics]
    return [
        ("ethtool -S", "ethtool", nics + [(host, port.interface) for host, port in ports]),
        ("rdma statistic", "rdma", [(nic.host, nic.device) for nic in lab.nics]),
        ("tc -s qdisc", "tc", [(host, port.interface) for host, port in ports if port.qdisc is not None]),
    ]


def _snapshot(lab: Lab, folder: Path, at_s: float) -> Snapshot:
    found = Snapshot(at_s)
    for nic in lab.nics:
        _put(found.rdma, nic.host, nic.device, folder, "rdma", readers.rdma)
        _put(found.ethtool, nic.host, nic.interface, folder, "ethtool", readers.ethtool)
    for bridge in lab.bridges:
        for port in bridge.ports:
            _put(found.ethtool, bridge.host, port.interface, folder, "ethtool", readers.ethtool)
            _put(found.tc, bridge.host, port.interface, folder, "tc", readers.tc)
    return found


def _put(
    into: dict[tuple[str, str], _Read],
    host: str,
    name: str,
    folder: Path,
    tool: str,
    reader: Callable[[str], _Read],
) -> None:
    value = _one(folder / host, f"{tool}-{name}", reader)
    if value is not None:
        into[host, name] = value


def _at(folder: Path) -> float | None:
    try:
        found = float((folder / "at").read_text())
        if not 0 <= found <= MAX_TEST_S:
            raise ValueError
        return found
    except (OSError, ValueError):
        raise InputError.at(
            str(folder / "at"), "found no number, expected seconds since the start of the test"
        ) from None


def _one(folder: Path, name: str, reader: Callable[[str], _Read]) -> _Read | None:
    """Reads the file of this name (.json or .txt); refuses two files that differ."""
    found = [
        (file, value)
        for file in (folder / f"{name}.{ending}" for ending in ("json", "txt"))
        if (value := _of_file(file, reader)) is not None
    ]
    if len(found) > 1 and found[0][1] != found[1][1]:
        text = f"found other figures than in {found[0][0].name}, expected one of the two files"
        raise InputError.at(str(found[1][0]), text)
    return found[0][1] if found else None


def _of_file(file: Path, reader: Callable[[str], _Read]) -> _Read | None:
    try:
        with file.open(errors="replace") as opened:
            text = opened.read(MAX_OUTPUT_BYTES + 1)
    except OSError:
        return None
    if len(text) > MAX_OUTPUT_BYTES:
        raise InputError.at(str(file), f"found more than {MAX_OUTPUT_BYTES >> 20} MiB, expected less")
    try:
        return reader(text)
    except UnexpectedOutput as error:
        line = error.line_in(text)
        place, wrong = (file, _begin(text)) if line is None else (f"{file}:{line}", "another number")
        raise InputError.at(str(place), f"found {error.found or wrong}, expected {error}") from None
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError):
        text = f"found {_begin(text)}, expected what the tool of its name prints"
        raise InputError.at(str(file), text) from None


def _begin(text: str) -> str:
    """The first words of a text, in a message."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{plain(line[:60])!r}" if line else "an empty file"
