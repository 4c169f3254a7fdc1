"""Parses the output of ethtool, rdma, tc, mpstat and perftest. Other text is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

BITS_PER_MIB = 8 * 2**20


MAX_COUNTER = 2**63 - 1
MAX_FIGURE = 1e12
"""Largest figure of perftest, in its own units; also of iterations and bytes."""
MAX_CORE = 65_535
MAX_RATE_DIFFERENCE = 0.25
"""Relative. Bandwidth and message rate of perftest are rounded in print; its two units differ by a factor of 119."""


class UnexpectedOutput(ValueError):  # noqa: N818  it is what was found
    """The text is not the output of the tool; the message says what was expected.

    `at`: where in the text, in characters, if one place is wrong; or `value`, the number that is wrong. `found`: what
    was found instead, in words, if it is more than a text of another kind.
    """

    def __init__(
        self, expected: str, at: int | None = None, value: float | None = None, found: str | None = None
    ) -> None:
        super().__init__(expected)
        self.at, self.value, self.found = at, value, found

    def line_in(self, text: str) -> int | None:
        """The line of the error in the text, if it is known."""
        at = self.at
        if at is None and self.value is not None:
            for one in re.finditer(r"-?(?:[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?|inf|nan)", text, re.IGNORECASE):
                with suppress(ValueError):
                    if repr(float(one[0])) == repr(self.value):
                        at = one.start()
                        break
        return None if at is None else text.count("\n", 0, at) + 1


def _counter(text: str, at: int) -> int:
    if len(text) > 19 or not 0 <= int(text) <= MAX_COUNTER:
        raise UnexpectedOutput("a counter from 0 to below 2^63", at)
    return int(text)


def ethtool(text: str) -> dict[str, int]:
    """`ethtool -S DEV`, or some lines of it: counters by name, priorities as `rx_prio0_pause`."""
    found = list(re.finditer(r"^[ \t]*([A-Za-z0-9_.]+):[ \t]*(-?[0-9]+)[ \t\r]*$", text, re.MULTILINE))
    other = re.search(
        r"^[ \t]*[A-Za-z0-9_.]+:[ \t]*(?!-?[0-9]+[ \t\r]*$)(-?[0-9]\S*)[ \t\r]*$", text, re.MULTILINE
    )
    if other is not None:
        raise UnexpectedOutput("a counter as a whole number", other.start(1))
    if not found:
        raise UnexpectedOutput("lines of ethtool -S, such as rx_out_of_buffer: 0")
    _once([(one[1], one.start()) for one in found], "the counters of one device, each once")
    return {one[1]: _counter(one[2], one.start(2)) for one in found}


def rdma(text: str) -> dict[str, int]:
    """`rdma -j statistic show link DEV/PORT`, or without `-j`, or lines of it: counters by name."""
    if text.lstrip().startswith(("[", "{")):
        data = _json(text, "rdma -j statistic")
        rows = data if isinstance(data, list) else [data]
        links = [f"{row.get('ifname')}/{row.get('port', 1)}" for row in rows if isinstance(row, dict)]
        _one_link(links)
        found = {name: value for row in rows if isinstance(row, dict) for name, value in _flat(row)}
        if found:
            return found
    elif links := re.findall(r"^[ \t]*link (\S+)", text, re.MULTILINE):
        _one_link(links)
    if pairs := list(re.finditer(r"\b([a-z][a-z0-9_]{3,}) (-?[0-9]+)\b", text)):
        _once([(one[1], one.start()) for one in pairs], "the counters of one link, each once")
        return {one[1]: _counter(one[2], one.start(2)) for one in pairs}
    raise UnexpectedOutput("counters of rdma statistic, such as np_cnp_sent 184")


def _once(names: list[tuple[str, int]], expected: str) -> None:
    """Refuses names that occur twice: there are several devices, and none is chosen silently."""
    seen: set[str] = set()
    for name, at in names:
        if name in seen:
            raise UnexpectedOutput(f"{expected}; {name} comes again", at)
        seen.add(name)


def _one_link(links: list[str]) -> None:
    if len(links) > 1:
        raise UnexpectedOutput(
            f"counters of one link, as rdma statistic show link {links[0]} prints them",
            found=f"{len(links)} links: {', '.join(links[:4])}",
        )


def _flat(row: dict[str, Any]) -> list[tuple[str, int]]:
    """Counters of a row; some versions nest them in a mapping."""
    numbers = [(name, value) for name, value in row.items() if type(value) is int]
    inner = [pair for value in row.values() if isinstance(value, dict) for pair in _flat(value)]
    return [(name, value) for name, value in numbers if name not in ("ifindex", "port")] + inner


@dataclass(frozen=True)
class QdiscCounters:
    """Counters of a device's queueing discipline."""

    kind: str
    counters: dict[str, int]
    """By the simulator's names: `qdisc_sent_packets`, `red_marked` and so on."""
    backlog_bytes: int
    """Bytes waiting at that moment."""


_TC_COUNTERS = {
    "bytes": "qdisc_sent_bytes",
    "packets": "qdisc_sent_packets",
    "drops": "qdisc_drops",
    "overlimits": "qdisc_overlimits",
    "requeues": "qdisc_requeues",
    "marked": "red_marked",
    "early": "red_early",
    "pdrop": "red_pdrop",
    "other": "red_other",
}


_TC_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
"""tc prints bytes as b, Kb and Mb of 1024 (iproute2, tc_util.c: print_size)."""


def tc(text: str) -> QdiscCounters:
    """`tc -s -j qdisc show dev DEV`, or without `-j`. Of several disciplines the RED, else the root."""
    found = _tc_json(text) if text.lstrip().startswith("[") else _tc_text(text)
    if not found:
        raise UnexpectedOutput("what tc -s qdisc show prints")
    devices = sorted({one.device for one in found if one.device})
    if len(devices) > 1:
        raise UnexpectedOutput(
            f"one device, as tc -s qdisc show dev {devices[0]} prints it",
            found=f"{len(devices)} devices: {', '.join(devices[:4])}",
        )
    for what, chosen in (
        ("RED", [one for one in found if one.counters.kind == "red"]),
        ("root", [one for one in found if one.is_root]),
        ("discipline", found),
    ):
        if len(chosen) > 1:
            raise UnexpectedOutput(
                f"one {what}, as tc -s qdisc show dev DEV prints it", found=str(len(chosen))
            )
        if chosen:
            return chosen[0].counters
    raise AssertionError("one of the three is there")


class _TcRow(NamedTuple):
    counters: QdiscCounters
    device: str
    """Empty if tc was called with a device, which it then does not print."""
    is_root: bool


def _tc_json(text: str) -> list[_TcRow]:
    data = _json(text, "tc -s -j qdisc")
    rows = [row for row in data if isinstance(row, dict) and isinstance(row.get("kind"), str)]
    return [
        _TcRow(
            QdiscCounters(
                str(row["kind"]),
                {name: row[key] for key, name in _TC_COUNTERS.items() if type(row.get(key)) is int},
                row["backlog"] if type(row.get("backlog")) is int else 0,
            ),
            str(row.get("dev", "")),
            bool(row.get("root")),
        )
        for row in rows
    ]


def _tc_text(text: str) -> list[_TcRow]:
    found = []
    for part in re.split(r"^(?=qdisc )", text, flags=re.MULTILINE):
        head = re.match(r"qdisc (\S+) \S+(?: dev (\S+))?(?: \[offloaded\])?(?: (root))?", part)
        sent = re.search(
            r"Sent ([0-9]+) bytes ([0-9]+) pkt \(dropped ([0-9]+), overlimits ([0-9]+) requeues ([0-9]+)",
            part,
        )
        if head is None or sent is None:
            continue
        names = ("bytes", "packets", "drops", "overlimits", "requeues")
        begin = text.index(part)
        values = {
            name: _counter(sent[number], begin + sent.start(number)) for number, name in enumerate(names, 1)
        }
        values |= {
            one[1]: _counter(one[2], begin + one.start(2))
            for one in re.finditer(r"\b(marked|early|pdrop|other) ([0-9]+)", part)
        }
        waits = re.search(r"backlog ([0-9.]+)([KMG]?)b ", part)
        counters = {_TC_COUNTERS[key]: value for key, value in values.items()}
        waiting = 0
        if waits is not None:
            try:
                waiting = round(float(waits[1]) * _TC_UNITS[waits[2]])
            except ValueError:
                raise UnexpectedOutput("a backlog such as 64Kb", begin + waits.start(1)) from None
            _counter(str(waiting), begin + waits.start(1))
        found.append(_TcRow(QdiscCounters(head[1], counters, waiting), head[2] or "", head[3] is not None))
    return found


def mpstat(text: str) -> dict[int, dict[str, float]]:
    """`mpstat -P ALL -o JSON 1 N`, or its table: shares of each core, means: softirq, irq, guest."""
    rows = _mpstat_json(text) if text.lstrip().startswith("{") else _mpstat_text(text)
    if not rows:
        raise UnexpectedOutput("what mpstat -P ALL prints")
    cores: dict[int, list[dict[str, float]]] = {}
    for core, shares in rows:
        cores.setdefault(core, []).append(shares)
    return {
        core: {name: sum(one[name] for one in seen) / len(seen) / 100 for name in ("softirq", "irq", "guest")}
        for core, seen in sorted(cores.items())
    }


_Shares = tuple[int, dict[str, float]]
_MPSTAT_FIELDS = {"softirq": "soft", "irq": "irq", "guest": "guest"}


def _core(text: str) -> int:
    if len(text) > 5 or int(text) > MAX_CORE:
        raise UnexpectedOutput(f"a core up to {MAX_CORE:,}")
    return int(text)


def _share(value: Any) -> float:
    share = float(value)
    if not 0 <= share <= 101:  # mpstat rounds, and may slightly exceed 100
        raise UnexpectedOutput("shares of mpstat from 0 to 100 %", value=share)
    return share


def _mpstat_json(text: str) -> list[_Shares]:
    data = _json(text, "mpstat -o JSON")
    try:
        hosts = data["sysstat"]["hosts"]
        _one_machine([str(host.get("nodename")) for host in hosts])
        steps = [step for host in hosts for step in host["statistics"]]
        return [
            (
                _core(str(row["cpu"])),
                {key: _share(row[name]) for key, name in _MPSTAT_FIELDS.items()},
            )
            for step in steps
            for row in step["cpu-load"]
            if str(row["cpu"]).isdigit()
        ]
    except UnexpectedOutput:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnexpectedOutput(
            "sysstat, hosts, statistics and cpu-load, as mpstat -o JSON writes them"
        ) from None


def _one_machine(names: list[str]) -> None:
    if len(names) > 1:
        raise UnexpectedOutput(
            "one run of mpstat on one machine", found=f"{len(names)} machines: {', '.join(names[:4])}"
        )


def _mpstat_text(text: str) -> list[_Shares]:
    _one_machine(re.findall(r"^Linux \S+ \((.*?)\)", text, re.MULTILINE))
    names: list[str] = []
    found = []
    for line in text.splitlines():
        words = line.lstrip("# ").split()
        if "CPU" in words and "%soft" in words:
            names = words[words.index("CPU") :]
        elif names and len(words) >= len(names) and (row := words[-len(names) :])[0].isdigit():
            at = {name: row[names.index(f"%{name}")] for name in ("soft", "irq", "guest")}
            found.append((_core(row[0]), {key: _share(at[name]) for key, name in _MPSTAT_FIELDS.items()}))
    return found


@dataclass(frozen=True)
class Perftest:
    """The result of perftest: bandwidth or latency."""

    message_bytes: int
    iterations: int
    bandwidth_bps: float | None = None
    """Average payload in bit/s; of both directions together in a bidirectional test. 0: printed as 0.00, so below
    `resolution_bps`, or nothing was measured."""
    resolution_bps: float = 0.0
    """How far the true bandwidth may be from what was printed, which has two decimals."""
    latency_us: tuple[float, float, float, float] | None = None
    """One way: minimum, typical (the median), 99th percentile, maximum."""


def perftest(text: str) -> Perftest:
    """Parses the file of `--out_json`, or the printed table."""
    return _perftest_json(text) if text.lstrip().startswith("{") else _perftest_text(text)


def _one_size(sizes: Sequence[object]) -> None:
    """Refuses several message sizes: none is chosen silently."""
    if len(sizes) > 1:
        shown = ", ".join(f"{size} B" for size in sizes[:4])
        raise UnexpectedOutput(
            "results of one message size, as -s has them", found=f"{len(sizes)} sizes: {shown}"
        )


def _perftest_json(text: str) -> Perftest:
    _one_size(re.findall(r'"MsgSize"\s*:\s*([0-9.]+)', text))
    try:
        results = _json(text, "perftest").get("results")
    except UnexpectedOutput as error:  # perftest 4.5 does not quote names, and has a comma after the last one
        if error.at is not None:
            raise
        found = re.findall(r'^\s*"?([^":{}\n]+?)"?\s*:\s*([0-9.]+),?\s*$', text, re.MULTILINE)
        _one_size([value for name, value in found if name == "MsgSize"])
        results = dict(found) if "results" in text else None
    if isinstance(results, list) and all(isinstance(one, dict) for one in results):
        _one_size([one.get("MsgSize") for one in results])
        results = results[0] if results else None
    if not isinstance(results, dict):
        raise UnexpectedOutput("results, as perftest --out_json writes them")

    def number(*names: str) -> float | None:
        """The value of the first key with one of these prefixes; some versions append units."""
        for name in names:
            for key, value in results.items():
                if key.startswith(name) and isinstance(value, (int, float, str)):
                    return float(value)
        return None

    message, iterations = number("MsgSize", "#bytes"), number("n_iterations", "#iterations")
    bandwidth, typical = number("BW_average"), number("t_typical")
    if message is None or (bandwidth is None and typical is None):
        raise UnexpectedOutput("MsgSize, and BW_average or t_typical, in results")
    printed = None
    if bandwidth is not None:
        unit = next((key for key in results if key.startswith("BW_average[")), "")
        printed = _in_mib(bandwidth, unit.partition("[")[2].rstrip("]"), message, number("MsgRate"))
    return _made(message, iterations or 0, printed, typical, number("t_min"), number("99%"), number("t_max"))


class _Printed(NamedTuple):
    """A bandwidth as perftest printed it, in MiB/s, and how far the true one may be from it."""

    mib_s: float
    resolution_mib_s: float


_RESOLUTION = 0.005
"""Half of the last of the two decimals that perftest prints of a bandwidth: perftest_parameters.h, REPORT_FMT."""


def _printed(average: float, to_mib: float, message_bytes: float, rate_mpps: float | None) -> _Printed:
    """A bandwidth of 0.00 is taken from the rate of messages, which has six decimals."""
    if not average and rate_mpps:
        by_messages = rate_mpps * 1e6 * message_bytes / 2**20
        return _Printed(by_messages, 0.5 * message_bytes / 2**20)
    if rate_mpps and not _agree(average, to_mib, message_bytes, rate_mpps):
        raise UnexpectedOutput("BW average that is MsgRate times #bytes", value=average)
    return _Printed(average * to_mib, _RESOLUTION * to_mib)


def _agree(average: float, to_mib: float, message_bytes: float, rate_mpps: float) -> bool:
    """Whether a bandwidth is the rate of messages times their size, but for what print rounds off."""
    by_messages = rate_mpps * 1e6 * message_bytes / 2**20
    rounded = _RESOLUTION * to_mib + 0.5 * message_bytes / 2**20
    return abs(average * to_mib - by_messages) <= MAX_RATE_DIFFERENCE * by_messages + rounded


def _in_mib(average: float, unit: str, message_bytes: float, rate_mpps: float | None) -> _Printed:
    """perftest's JSON says no unit, and --report_gbits changes it: the rate of messages tells which it is."""
    if unit:
        if unit not in _MIB_PER_UNIT:
            raise UnexpectedOutput(f"BW_average in one of {', '.join(_MIB_PER_UNIT)}", value=average)
        return _printed(average, _MIB_PER_UNIT[unit], message_bytes, rate_mpps)
    if not average:
        return _printed(average, _MIB_PER_UNIT["Gb/sec"], message_bytes, rate_mpps)
    if not rate_mpps:
        raise UnexpectedOutput("MsgRate beside BW_average, which tells MB/s from Gbit/s", value=average)
    by_messages = rate_mpps * 1e6 * message_bytes / 2**20
    for to_mib in (1.0, _MIB_PER_UNIT["Gb/sec"]):
        if _agree(average, to_mib, message_bytes, rate_mpps):
            return _printed(average, to_mib, message_bytes, rate_mpps)
    raise UnexpectedOutput(
        f"BW_average that is MsgRate times MsgSize: {by_messages:.2f} MB/s, or "
        f"{by_messages * 2**20 * 8e-9:.2f} Gbit/s",
        value=average,
    )


def _made(
    message: float,
    iterations: float,
    printed: _Printed | None,
    typical: float | None,
    least: float | None,
    p99: float | None,
    most: float | None,
) -> Perftest:
    mib_s = None if printed is None else printed.mib_s
    figures = (message, iterations, mib_s, typical, least, p99, most)
    for one in figures:
        if one is not None and not 0 <= one <= MAX_FIGURE:
            raise UnexpectedOutput(f"figures of perftest from 0 to {MAX_FIGURE:g}", value=float(one))
    if message < 1:
        raise UnexpectedOutput("messages of 1 B or more", value=float(message))
    if typical is None:
        assert printed is not None, "either is there"
        bandwidth, resolution = (one * BITS_PER_MIB for one in printed)
        return Perftest(int(message), int(iterations), bandwidth, resolution)
    if not typical:
        raise UnexpectedOutput("a typical latency above 0.00 us: perftest measured nothing", value=typical)
    given = [one for one in (least, typical, p99, most) if one is not None]
    if given != sorted(given):
        raise UnexpectedOutput(
            "t_min, t_typical, the 99th percentile and t_max, each at least the one before"
        )
    latency = (typical if least is None else least, typical, typical if p99 is None else p99)
    whole = (*latency, max(latency) if most is None else most)
    return Perftest(int(message), int(iterations), latency_us=whole)


_MIB_PER_UNIT = {"MiB/sec": 1.0, "MB/sec": 1.0, "Gb/sec": 1e9 / BITS_PER_MIB}
"""perftest's MB has 2^20 bytes: perftest_parameters.h, MEGA is 0x100000, also in older versions."""


_HEADING_PATTERN = re.compile(r"BW \S+|[0-9.]+% percentile\S*|\S+")


def _perftest_text(text: str) -> Perftest:
    """Finds columns by their headings: options such as --raw_qos add columns."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if "bytes" not in line or "iterations" not in line:
            continue
        names = [name.partition("[") for name in _HEADING_PATTERN.findall(line.lstrip("# "))]
        rows = [row.lstrip("# ").split() for row in lines[at + 1 :]]
        rows = [row for row in rows if row and row[0].isdigit()]
        if not rows:
            break
        _one_size([row[0] for row in rows])
        if len(rows[0]) != len(names):
            break
        columns = {
            name.lstrip("#"): (float(value), unit.rstrip("]"))
            for (name, _, unit), value in zip(names, rows[0], strict=True)
        }

        def column(name: str, columns: dict[str, tuple[float, str]] = columns) -> float | None:
            return columns[name][0] if name in columns else None

        message, iterations = column("bytes"), column("iterations")
        if message is None or iterations is None:
            break
        if "BW average" in columns:
            average, unit = columns["BW average"]
            if unit not in _MIB_PER_UNIT:
                break
            printed = _printed(average, _MIB_PER_UNIT[unit], message, column("MsgRate"))
            return _made(message, iterations, printed, None, None, None, None)
        if "t_typical" in columns:
            return _made(
                message,
                iterations,
                None,
                column("t_typical"),
                column("t_min"),
                column("99% percentile"),
                column("t_max"),
            )
    raise UnexpectedOutput("the table of ib_write_bw or ib_write_lat: #bytes #iterations and so on")


def _json(text: str, what: str) -> Any:
    """Parses the JSON of a tool; refuses numbers that a result cannot hold."""

    def whole(digits: str) -> int:
        if len(digits) > 19 or not 0 <= int(digits) <= MAX_COUNTER:
            raise UnexpectedOutput("a number from 0 to below 2^63", text.index(digits))
        return int(digits)

    def finite(written: str) -> float:
        if not math.isfinite(value := float(written)):
            raise UnexpectedOutput("a finite number", text.index(written))
        return value

    try:
        return json.loads(text, parse_int=whole, parse_float=finite, parse_constant=finite)
    except UnexpectedOutput:
        raise
    except (ValueError, RecursionError) as error:
        raise UnexpectedOutput(f"the JSON of {what} ({str(error).split(':')[0].lower()})") from None
