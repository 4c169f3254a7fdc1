"""A run as the engine recorded it: tables, and what they were made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tailback.files.outputs import Outputs
from tailback.recorded.bins import Bins
from tailback.recorded.flows import flows_of
from tailback.recorded.setup import ScenarioSetup, Setup
from tailback.recorded.signals import SignalLog
from tailback.recorded.standstill import standing_still
from tailback.scenario import Scenario
from tailback.scenario.assumptions import assumptions
from tailback.scenario.congestion import kinds
from tailback.scenario.controllers import Controllers
from tailback.scenario.show import input_names, shown, with_defaults
from tailback.text import natural

Run = TypeVar("Run", bound="Recorded")


class Recording(Protocol):
    """What the engine hands over; the tables are anything that speaks the Arrow PyCapsule interface."""

    @property
    def flows(self) -> Any:
        """A row a queue pair."""

    @property
    def series(self) -> Any:
        """A row a (bin, entity, metric)."""

    @property
    def entities(self) -> Any:
        """A row an entity of the series."""

    @property
    def signals(self) -> Any:
        """A row for each bin with a signal to wait."""

    @property
    def counters(self) -> Any:
        """A row a counter."""

    @property
    def meta_json(self) -> str:
        """The run as a whole."""


class Recorded:
    """One run. `flows` has a row a queue pair, `series` a row a (bin, entity, metric), `entities` a row an
    entity of them, `signals` a row a bin in which somebody told somebody to wait, `counters` a row a counter
    that is not zero; `counter_names` has the names of all.

    `meta` is what the engine says of the run as a whole, `setup` what it was given. `complete` is False for
    a run that was interrupted: everything then covers the part that ran. `outputs` are further files of
    results, by name.
    """

    def __init__(
        self,
        *,
        flows: pa.Table,
        series: pa.Table,
        entities: pa.Table,
        signals: pa.Table,
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
        self.entities = entities
        self.signals = signals
        self.counters = counters
        self.counter_names = counter_names
        self.meta = meta
        self.setup = setup
        self.wall_s = wall_s
        self.cpu_s = cpu_s
        self.outputs = outputs if isinstance(outputs, Outputs) else Outputs(outputs or {})

    @property
    def skipped(self) -> list[dict[str, Any]]:
        """Spans that were not simulated by packets, as the engine tells of them."""
        return list(self.meta.get("skipped", []))

    @classmethod
    def from_recording(
        cls: type[Run],
        scenario: Scenario,
        plan: Mapping[str, Any] | str,
        recording: Recording,
        wall_s: float,
        cpu_s: float,
        interrupted: bool,
    ) -> Run:
        """Take over what the engine recorded of a scenario. `plan` is the dictionary that it was given, or
        the same as JSON.
        """
        setup = _SetupInMemory(scenario, json.loads(plan) if isinstance(plan, str) else dict(plan))
        return cls.of(setup, recording, wall_s, cpu_s, interrupted)

    @classmethod
    def of(
        cls: type[Run],
        setup: Setup,
        recording: Recording,
        wall_s: float,
        cpu_s: float,
        interrupted: bool,
        outputs: Mapping[str, bytes] | None = None,
    ) -> Run:
        """Take over what the engine recorded."""
        meta = json.loads(recording.meta_json)
        meta["complete"] = bool(meta["complete"]) and not interrupted
        recorded = str(meta.get("recorded", "everything"))
        if recorded != "everything":  # tens of thousands of queues without a curve say nothing
            kept = {"receive", "send", *(("egress",) if "egress queues" in recorded else ())}
            meta["queues"] = [queue for queue in meta["queues"] if queue["kind"] in kept]
        everything = pa.table(recording.counters)
        # In a large fabric nearly all are zero.
        counters = pc.filter(everything, pc.not_equal(everything.column("value"), 0))
        return cls(
            flows=flows_of(recording),
            series=pa.table(recording.series),
            entities=pa.table(recording.entities),
            signals=pa.table(recording.signals),
            # Table.sort_by would start threads.
            counters=pc.take(
                counters,
                pc.sort_indices(counters, [(name, "ascending") for name in ("node", "port", "counter")]),
            ),
            counter_names=sorted(pc.unique(everything.column("counter")).to_pylist()),
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

    @cached_property
    def faults(self) -> list[dict[str, Any]]:
        """What must not happen and did: `kind`, `where` and a line of `text` each (traffic that stood still,
        a lossless drop, a deadlock).
        """
        return [*standing_still(self), *self.meta["faults"]]

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
        return self.records_all or any(queue["kind"] == "egress" for queue in self.meta["queues"])

    @property
    def chooses_queues(self) -> bool:
        """Whether the scenario says which queues have time series, so that others may hold more."""
        return self.plan.get("record", {}).get("queues") is not None

    @cached_property
    def bins(self) -> Bins:
        """The series as arrays."""
        # A run that ends before its first flow starts has no time to divide.
        return Bins(self.series, self.entities, max(1, int(self.meta["bin_ps"])), int(self.meta["end_ps"]))

    @cached_property
    def signal_log(self) -> SignalLog:
        """The signals by bin."""
        return SignalLog(self.signals, self.bins)

    @cached_property
    def counters_at(self) -> dict[str, dict[str, int]]:
        """Counters that are not 0, by host, or port of a switch, and by name."""
        found: dict[str, dict[str, int]] = {}
        columns = (self.counters.column(name).to_pylist() for name in ("node", "port", "counter", "value"))
        for node, port, name, value in zip(*columns, strict=True):
            found.setdefault(port or node, {})[name] = value
        return found

    @cached_property
    def latency_tests(self) -> set[str]:
        """The traffic items that are latency tests."""
        return {writer["item"] for writer in self.plan.get("writers", []) if writer.get("partner")}

    @cached_property
    def bulk(self) -> pa.Table:
        """The flows that are no latency tests; all of them where there are no others."""
        if not self.latency_tests:
            return self.flows
        tests = pa.array(sorted(self.latency_tests))
        others = pc.filter(self.flows, pc.invert(pc.is_in(self.flows.column("item"), tests)))
        return others if others.num_rows else self.flows

    @cached_property
    def senders(self) -> list[str]:
        """Hosts that have begun to post messages, in natural order."""
        begun = pc.filter(self.bulk.column("src"), pc.is_valid(self.bulk.column("start_ps")))
        return sorted(pc.unique(begun).to_pylist(), key=natural)

    @cached_property
    def receivers(self) -> list[str]:
        """Hosts that messages go to, in natural order."""
        return sorted(pc.unique(self.bulk.column("dst")).to_pylist(), key=natural)

    @property
    def counters_by_node(self) -> dict[str, dict[str, dict[str, int]]]:
        """The counters by node, port and name."""
        nodes: dict[str, dict[str, dict[str, int]]] = {}
        columns = (self.counters.column(name).to_pylist() for name in ("node", "port", "counter", "value"))
        for node, port, counter, value in zip(*columns, strict=True):
            nodes.setdefault(node, {}).setdefault(port, {})[counter] = value
        return nodes

    @property
    def hops_per_cpu_s(self) -> float:
        """Packet-hops per CPU-second: one hop is one transmission of a packet over a link. What was skipped
        counts for nothing.
        """
        hops = self.meta["packet_hops"] - sum(span["packet_hops"] for span in self.skipped)
        return float(hops) / self.cpu_s if self.cpu_s > 0 else float("nan")


class _SetupInMemory(ScenarioSetup):
    """Of a scenario at hand. Its texts take longer than a short run, and not everybody asks for them."""

    def __init__(self, scenario: Scenario, plan: dict[str, Any]) -> None:
        names = input_names(scenario)
        self.__dict__.update(
            _checked=scenario,
            plan=plan,
            inputs={names[name]: data for name, data in scenario.inputs.items()},
            long_inputs={names[name]: file for name, file in scenario.long_inputs.items()},
        )

    @property
    def about(self) -> str:
        return self._checked.about

    @property
    def _plan_of_files(self) -> dict[str, Any]:
        """With the files of graphs in their place."""
        names = input_names(self._checked)

        def step(of: dict[str, Any]) -> dict[str, Any]:
            graph: Any = of.get("graph")
            if not hasattr(graph, "file"):
                return of
            about = {"operations": len(graph), "computed_ps": graph.computed_ps()}
            return {"graph": {"file": names[graph.file], **about}}

        jobs = [{**job, "steps": [step(one) for one in job["steps"]]} for job in self.plan.get("jobs", ())]
        return {**self.plan, **({"jobs": jobs} if jobs else {})}

    @cached_property
    def _shown(self) -> tuple[str, str]:
        return shown(self._checked, input_names(self._checked))

    @cached_property
    def scenario_yaml(self) -> str:
        return self._shown[0]

    @cached_property
    def assumptions(self) -> list[dict[str, str]]:
        return _assumed(self._checked, with_defaults(self._checked, input_names(self._checked)))

    if TYPE_CHECKING:
        _checked: Scenario


def _assumed(scenario: Scenario, shown: str) -> list[dict[str, str]]:
    """The settings at an assumed default that this run rests on: of RoCE and of TCP only where it is used."""
    unused: tuple[str, ...] = () if scenario.has_tcp else ("host.tcp.", "host.cpu.")
    if scenario.has_tcp and not scenario.has_roce:
        unused = ("host.mtu", "host.transport.", *(f"host.{name}." for name in Controllers.model_fields))
    used = kinds(scenario)
    unused += tuple(f"host.{name}." for name in Controllers.model_fields if name not in used)
    if not scenario.network.hosts:
        unused = ("record.qps", "qos", "failures", "memory_load")
    return [one for one in assumptions(shown) if not one["setting"].startswith(unused)]
