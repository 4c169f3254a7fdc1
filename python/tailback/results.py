"""What a run gives: tables, figures, and the folder that keeps them.

The folder of a run: `report.html` (opens offline), `summary.json`, `flows.parquet`, `series.parquet`,
`counters.json` and `timing.json`, and what repeats the run: `scenario.yaml` (resolved) and `plan.json`, with
the files that the scenario names under `inputs`; or the files of another simulator, with its outputs. The
same seed gives the same bytes in every file but `timing.json`, which alone holds wall-clock figures and the
tool's version.
"""

from __future__ import annotations

import json
import shutil
import tempfile
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
from tailback.parquet import read_parquet
from tailback.scenario import Scenario, show
from tailback.scenario.controllers import Controllers
from tailback.scenario.show import input_names
from tailback.setup import ScenarioSetup, Setup, read_setup
from tailback.summary import summarise
from tailback.text import natural

FILES = ("report.html", "summary.json", "flows.parquet", "series.parquet", "counters.json", "timing.json")
"""What every folder has, however the run was set up."""


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
        counters = pa.table(recording.counters)
        order: list[tuple[str, Any]] = [
            ("node", "ascending"),
            ("port", "ascending"),
            ("counter", "ascending"),
        ]
        return cls(
            flows=pa.table(recording.flows),
            series=pa.table(recording.series),
            # In a large fabric nearly all are zero.
            counters=counters.filter(pc.not_equal(counters.column("value"), 0)).sort_by(order),
            counter_names=sorted(counters.column("counter").unique().to_pylist()),
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
    def bulk(self) -> pa.Table:
        """The flows that are no latency tests; all of them where there are no others."""
        tests = {writer["name"] for writer in self.plan.get("writers", []) if writer.get("partner")}
        if not tests:
            return self.flows
        others = self.flows.filter(pc.invert(pc.is_in(self.flows.column("writer"), pa.array(sorted(tests)))))
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

    def write(self, out_dir: str | Path) -> Path:
        """Write the folder of the run and give its path.

        The folder appears whole or not at all. An older run in its place is replaced; FileExistsError when
        something else is there.
        """
        from tailback.report import render  # plotly takes a while to load, and not every run is written

        out = Path(out_dir).resolve()  # "." has a parent too
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists() and not _replaceable(out):
            raise FileExistsError(f"{out} exists and is not the folder of a run; name another with --out")
        fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            fresh.chmod(0o755)
            _write_json(
                fresh / "summary.json",
                {
                    **self.summary,
                    "assumptions": self.assumptions,
                    "not_honoured": self.setup.not_honoured,
                    "outputs": sorted(self.outputs),
                    "meta": self.meta,
                },
            )
            _write_json(
                fresh / "counters.json", {"names": self.counter_names, "nodes": _nested(self.counters)}
            )
            _write_json(fresh / "timing.json", self._timing())
            for name, data in {**self.setup.files, **self.outputs}.items():
                (fresh / name).parent.mkdir(exist_ok=True)
                (fresh / name).write_bytes(data)
            _write_parquet(fresh / "flows.parquet", self.flows)
            _write_parquet(fresh / "series.parquet", self.series)
            (fresh / "report.html").write_text(render(self), encoding="utf-8")
            _put_in_place(fresh, out)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return out

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read the folder of a run. FileNotFoundError names the file that is missing."""
        path = Path(folder)
        for name in FILES:
            # The report is made from the rest; nobody should miss it here.
            if name != "report.html" and not (path / name).is_file():
                raise FileNotFoundError(f"{path / name}: missing; {path} is not the folder of a run")
        timing, summary = read_json(path / "timing.json"), read_json(path / "summary.json")
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
            outputs={name: read_file(path / name, RESULT_BYTES) for name in summary["outputs"]},
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


def _replaceable(out: Path) -> bool:
    return out.is_dir() and ((out / "summary.json").is_file() or not any(out.iterdir()))


def _put_in_place(fresh: Path, out: Path) -> None:
    if not out.exists():
        fresh.rename(out)
        return
    if not any(out.iterdir()):
        # An empty folder may be where somebody stands, or a mount point: it stays, and is filled.
        for file in sorted(fresh.iterdir()):
            file.rename(out / file.name)
        return
    # A folder cannot be renamed onto a full one: the old one steps aside first.
    aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    try:
        out.rename(aside / "old")
        fresh.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(in_lines(value), encoding="utf-8")


def _assumed(scenario: Scenario) -> list[dict[str, str]]:
    """The settings at an assumed default that this run rests on: of RoCE and of TCP only where it is used."""
    unused: tuple[str, ...] = () if scenario.has_tcp else ("host.tcp.", "host.cpu.")
    if scenario.has_tcp and not scenario.has_roce:
        unused = ("host.mtu", "host.transport.", *(f"host.{name}." for name in Controllers.model_fields))
    if not scenario.network.hosts:
        unused = ("record.qps", "qos", "failures", "memory_load")
    return [one for one in assumptions(show(scenario)) if not one["setting"].startswith(unused)]


def _inputs(scenario: Scenario) -> dict[str, bytes]:
    """The files that a scenario names, by their names in the folder."""
    return {new: scenario.inputs[old] for old, new in input_names(scenario).items()}


def _write_parquet(path: Path, table: pa.Table) -> None:
    # Every setting that shapes the bytes is named, so that a new default of the library changes nothing.
    pq.write_table(
        table.combine_chunks(),
        path,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_statistics=True,
        row_group_size=1 << 20,
    )


def _read_parquet(path: Path) -> pa.Table:
    try:
        return read_parquet(read_file(path, RESULT_BYTES), RESULT_VALUES, RESULT_VALUES, RESULT_BYTES)
    except (pa.ArrowException, ValueError, OSError) as error:  # which do not say which file it is
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
