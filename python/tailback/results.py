"""What a run gives: tables, figures, and the folder that keeps them.

The folder of a run: `report.html` (opens offline), `summary.json`, `flows.parquet`, `series.parquet`,
`counters.json` and `timing.json`, and what repeats the run: `scenario.yaml` (resolved) and `plan.json`, with
the files that the scenario names under `inputs`; or the files of another simulator, with its outputs. The
same seed gives the same bytes in every file but `timing.json`, which alone holds wall-clock figures and the
tool's version.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.table import Table

from tailback.assumptions import assumptions
from tailback.bins import Bins
from tailback.closing import closing_table
from tailback.files import read_file
from tailback.limits import RESULT_BYTES, RESULT_VALUES
from tailback.lines import in_lines, read_json
from tailback.out_folder import LAST, Occupied, OutFolder, claim, sync, write_file
from tailback.parquet import read_parquet
from tailback.scenario import Scenario, show
from tailback.scenario.congestion import kinds
from tailback.scenario.controllers import Controllers
from tailback.scenario.show import INPUTS, input_names
from tailback.setup import ScenarioSetup, Setup, read_setup
from tailback.summary import summarise
from tailback.text import natural

FILES = ("report.html", "summary.json", "flows.parquet", "series.parquet", "counters.json", "timing.json")
"""What every folder has, however the run was set up."""


HALF = "a result that was not written to its end"
"""What is said of a folder without the file that is written last."""


class Recording(Protocol):
    """What the engine hands over; the three tables are anything that speaks the Arrow PyCapsule interface."""

    @property
    def flows(self) -> Any:
        """A row a queue pair."""

    @property
    def series(self) -> Any:
        """A row a (bin, entity, metric)."""

    @property
    def counters(self) -> Any:
        """A row a counter."""

    @property
    def meta_json(self) -> str:
        """The run as a whole."""


class ResolvedScenario(Protocol):
    """A scenario that can write itself down with every default filled in."""

    def resolved_yaml(self) -> str:
        """The whole scenario, no default left out."""


class Result:
    """One run. `flows` has a row a queue pair, `series` a row a (bin, entity, metric), `counters` a row a
    counter that is not zero; `counter_names` has the names of all.

    `meta` is what the engine says of the run as a whole, `setup` what it was given, `summary` the figures of
    `tailback.summary`. `complete` is False for a run that was interrupted: everything then covers the part
    that ran. `outputs` are further files of results, by name.
    """

    def __init__(
        self,
        *,
        flows: pa.Table,
        series: pa.Table,
        counters: pa.Table,
        counter_names: list[str],
        meta: dict[str, Any],
        setup: Setup,
        wall_s: float,
        cpu_s: float,
        outputs: Mapping[str, bytes] | None = None,
    ) -> None:
        """From its parts; `from_recording`, `of` and `load` are the usual ways."""
        self.flows = flows
        self.series = series
        self.counters = counters
        self.counter_names = counter_names
        self.meta = meta
        self.setup = setup
        self.wall_s = wall_s
        self.cpu_s = cpu_s
        self.outputs = dict(outputs or {})

    @classmethod
    def from_recording(
        cls,
        scenario: ResolvedScenario,
        plan: Mapping[str, Any] | str,
        recording: Recording,
        wall_s: float,
        cpu_s: float,
        interrupted: bool,
    ) -> Result:
        """Take over what the engine recorded of a scenario. `plan` is the dictionary that it was given, or
        the same as JSON.
        """
        setup = ScenarioSetup(
            scenario.resolved_yaml(),
            json.loads(plan) if isinstance(plan, str) else dict(plan),
            _assumed(scenario) if isinstance(scenario, Scenario) else [],
            _inputs(scenario) if isinstance(scenario, Scenario) else {},
        )
        return cls.of(setup, recording, wall_s, cpu_s, interrupted)

    @classmethod
    def of(
        cls,
        setup: Setup,
        recording: Recording,
        wall_s: float,
        cpu_s: float,
        interrupted: bool,
        outputs: Mapping[str, bytes] | None = None,
    ) -> Result:
        """Take over what the engine recorded."""
        meta = json.loads(recording.meta_json)
        meta["complete"] = bool(meta["complete"]) and not interrupted
        recorded = str(meta.get("recorded", "everything"))
        if recorded != "everything":  # tens of thousands of queues without a curve say nothing
            kept = {"receive", "send", *(("egress",) if "egress queues" in recorded else ())}
            meta["queues"] = [queue for queue in meta["queues"] if queue["kind"] in kept]
        everything = pa.table(recording.counters)
        # In a large fabric nearly all are zero.
        counters = everything.filter(pc.not_equal(everything.column("value"), 0))
        order: list[tuple[str, Any]] = [
            ("node", "ascending"),
            ("port", "ascending"),
            ("counter", "ascending"),
        ]
        return cls(
            flows=pa.table(recording.flows),
            series=pa.table(recording.series),
            # Table.sort_by would start threads.
            counters=counters.take(pc.sort_indices(counters, sort_keys=order)),
            counter_names=sorted(everything.column("counter").unique().to_pylist()),
            meta=meta,
            setup=setup,
            wall_s=wall_s,
            cpu_s=cpu_s,
            outputs=outputs,
        )

    @property
    def plan(self) -> Mapping[str, Any]:
        """What the engine was given."""
        return self.setup.plan

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """The settings at a default that no document gives: `setting`, `value` and `why` each."""
        return self.setup.assumptions

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.meta["name"])

    @property
    def complete(self) -> bool:
        """Whether the run reached its planned end."""
        return bool(self.meta["complete"])

    @property
    def faults(self) -> list[dict[str, Any]]:
        """What must not happen and did: `kind`, `where` and a line of `text` each (a lossless drop, a
        deadlock).
        """
        return list(self.meta["faults"])

    @property
    def recorded(self) -> str:
        """What the time series cover, in words: of a large fabric they leave out queues."""
        return str(self.meta.get("recorded", "everything"))

    @property
    def records_all(self) -> bool:
        """Whether every queue and signal has a time series."""
        return self.recorded == "everything"

    @property
    def records_queues(self) -> bool:
        """Whether egress queues have time series."""
        return self.records_all or "egress queues" in self.recorded

    @cached_property
    def bins(self) -> Bins:
        """The series as arrays."""
        # A run that ends before its first flow starts has no time to divide.
        return Bins(self.series, max(1, int(self.meta["bin_ps"])), int(self.meta["end_ps"]))

    @cached_property
    def latency_tests(self) -> set[str]:
        """The traffic items that are latency tests."""
        return {writer["name"] for writer in self.plan.get("writers", []) if writer.get("partner")}

    @cached_property
    def bulk(self) -> pa.Table:
        """The flows that are no latency tests; all of them where there are no others."""
        if not self.latency_tests:
            return self.flows
        tests = pa.array(sorted(self.latency_tests))
        others = self.flows.filter(pc.invert(pc.is_in(self.flows.column("writer"), tests)))
        return others if others.num_rows else self.flows

    @cached_property
    def senders(self) -> list[str]:
        """Hosts that have begun to post messages, in natural order."""
        begun = self.bulk.filter(pc.is_valid(self.bulk.column("start_ps")))
        return sorted(begun.column("src").unique().to_pylist(), key=natural)

    @cached_property
    def receivers(self) -> list[str]:
        """Hosts that messages go to, in natural order."""
        return sorted(self.bulk.column("dst").unique().to_pylist(), key=natural)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures of the run, see `tailback.summary.summarise`."""
        return summarise(self)

    @property
    def hops_per_cpu_s(self) -> float:
        """Packet-hops per CPU-second: one hop is one transmission of a packet over a link."""
        return float(self.meta["packet_hops"]) / self.cpu_s if self.cpu_s > 0 else float("nan")

    def closing_table(self) -> Table:
        """What the terminal shows at the end of a run."""
        return closing_table(self)

    def write(self, out_dir: str | Path | OutFolder) -> Path:
        """Write the folder of the run and give its path. The folder appears whole or not at all.

        An older result in its place is replaced.

        Raises:
            FileExistsError: something else is there, or another run writes there.
            OSError: it cannot be written; nothing of it is there, and an older result still is.
        """
        if isinstance(out_dir, OutFolder):
            out_dir.fill(self._write_files)
            return out_dir.path
        out = Path(out_dir)
        try:
            folder = claim(out, "result")
        except Occupied as error:
            raise FileExistsError(f"{out}: found {error}; name another folder") from None
        with folder:
            folder.fill(self._write_files)
        return folder.path

    def _write_files(self, folder: Path) -> None:
        from tailback.report import render  # plotly takes a while to load, and not every run is written

        for name, data in {**self.setup.files, **self.outputs}.items():
            if not _is_own(name):
                raise ValueError(f"{name!r} is no name for a file of a result")
            (folder / name).parent.mkdir(exist_ok=True)
            write_file(folder / name, data)
        if (folder / INPUTS).is_dir():
            sync(folder / INPUTS)
        counters = {"names": self.counter_names, "nodes": _nested(self.counters)}
        write_file(folder / "counters.json", in_lines(counters).encode())
        write_file(folder / "timing.json", in_lines(self._timing()).encode())
        write_file(folder / "flows.parquet", _as_parquet(self.flows))
        write_file(folder / "series.parquet", _as_parquet(self.series))
        write_file(folder / "report.html", render(self).encode())
        summary = {
            **self.summary,
            "assumptions": self.assumptions,
            "not_honoured": self.setup.not_honoured,
            "outputs": sorted(self.outputs),
            "meta": self.meta,
        }
        write_file(folder / LAST, in_lines(summary).encode())

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read the folder of a run.

        Raises:
            FileNotFoundError: it names the file that is missing. A folder without summary.json, which is
                written last, has no whole result.
            ValueError: a file holds something else.
        """
        path = Path(folder)
        # The report is made from the rest; nobody should miss it here.
        needed = [LAST, *(name for name in FILES if name not in (LAST, "report.html"))]
        for name in needed:
            if not (path / name).is_file():
                half = name == LAST and any((path / other).is_file() for other in FILES)
                why = HALF if half else "not the folder of a run"
                raise FileNotFoundError(f"{path / name}: missing; {path} is {why}")
        timing, summary = read_json(path / "timing.json"), read_json(path / LAST)
        outputs = summary["outputs"]
        if not all(isinstance(name, str) and _is_own(name) and "/" not in name for name in outputs):
            raise ValueError(f"{LAST}: outputs has a name that is none of a file in the folder")
        setup = read_setup(path, summary)
        counters = read_json(path / "counters.json")
        return cls(
            flows=_read_parquet(path / "flows.parquet"),
            series=_read_parquet(path / "series.parquet"),
            counters=_flat(counters["nodes"]),
            counter_names=counters["names"],
            meta=summary["meta"],
            setup=setup,
            wall_s=timing["wall_s"],
            cpu_s=timing["cpu_s"],
            outputs={name: read_file(path / name, RESULT_BYTES) for name in outputs},
        )

    def _timing(self) -> dict[str, Any]:
        speed = self.hops_per_cpu_s
        return {
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "packet_hops_per_cpu_s": speed if speed == speed else None,
            "tailback_version": tool_version(),
        }


def tool_version() -> str:
    """Version of the installed package; 'unknown' when run from a source tree."""
    try:
        return metadata.version("tailback")
    except metadata.PackageNotFoundError:
        return "unknown"


def _is_own(name: str) -> bool:
    """Whether it is the name of a file of the folder or of its inputs, and none that every folder has."""
    first, *rest = name.split("/")
    return (
        (not rest or (first == INPUTS and len(rest) == 1))
        and not any(part in ("", ".", "..") or "\0" in part for part in (first, *rest))
        and name not in (*FILES, INPUTS)
    )


def _assumed(scenario: Scenario) -> list[dict[str, str]]:
    """The settings at an assumed default that this run rests on: of RoCE and of TCP only where it is used."""
    unused: tuple[str, ...] = () if scenario.has_tcp else ("host.tcp.", "host.cpu.")
    if scenario.has_tcp and not scenario.has_roce:
        unused = ("host.mtu", "host.transport.", *(f"host.{name}." for name in Controllers.model_fields))
    used = kinds(scenario)
    unused += tuple(f"host.{name}." for name in Controllers.model_fields if name not in used)
    if not scenario.network.hosts:
        unused = ("record.qps", "qos", "failures", "memory_load")
    return [one for one in assumptions(show(scenario)) if not one["setting"].startswith(unused)]


def _inputs(scenario: Scenario) -> dict[str, bytes]:
    """The files that a scenario names, by their names in the folder."""
    return {new: scenario.inputs[old] for old, new in input_names(scenario).items()}


def _as_parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    # Every setting that shapes the bytes is named, so that a new default of the library changes nothing.
    pq.write_table(
        table.combine_chunks(),
        buffer,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_statistics=True,
        row_group_size=1 << 20,
    )
    return buffer.getvalue()


def _read_parquet(path: Path) -> pa.Table:
    try:
        return read_parquet(read_file(path, RESULT_BYTES), RESULT_VALUES, RESULT_VALUES, RESULT_BYTES)
    except (ValueError, OSError) as error:  # which do not say which file it is
        raise ValueError(f"{path.name}: {error}") from None


def _nested(counters: pa.Table) -> dict[str, dict[str, dict[str, int]]]:
    nodes: dict[str, dict[str, dict[str, int]]] = {}
    columns = (counters.column(name).to_pylist() for name in ("node", "port", "counter", "value"))
    for node, port, counter, value in zip(*columns, strict=True):
        nodes.setdefault(node, {}).setdefault(port, {})[counter] = value
    return nodes


def _flat(nodes: dict[str, dict[str, dict[str, int]]]) -> pa.Table:
    rows = [
        (node, port, counter, value)
        for node, ports in sorted(nodes.items())
        for port, counters in sorted(ports.items())
        for counter, value in sorted(counters.items())
    ]
    names = ("node", "port", "counter", "value")
    kinds = (pa.string(), pa.string(), pa.string(), pa.int64())
    return pa.table(
        {
            name: pa.array([row[i] for row in rows], kind)
            for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
        }
    )
