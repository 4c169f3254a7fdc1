"""A run as the engine recorded it: tables and set-up."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from tailback.files import Outputs
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
Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class Recording(Protocol):
    """The engine's recording; its tables have the Arrow PyCapsule interface."""

    @property
    def flows(self) -> Any:
        """A row for each queue pair."""

    @property
    def series(self) -> Any:
        """A row for each (bin, entity, metric)."""

    @property
    def entities(self) -> Any:
        """A row for each entity of the series."""

    @property
    def signals(self) -> Any:
        """See `SIGNALS_SCHEMA`."""

    @property
    def counters(self) -> Any:
        """A row for each counter."""

    @property
    def meta_json(self) -> str:
        """Facts of the whole run."""


class Recorded:
    """One run. `flows` has a row for each queue pair, `series` for each (bin, entity, metric), `entities` for
    each entity, `signals` for each signal (see `SIGNALS_SCHEMA`), `counters` for each counter that is not zero;
    `counter_names` has the names of all counters.

    `meta` holds facts of the whole run, `setup` its input. `complete` is False for an interrupted run: the
    tables then cover the simulated part. `outputs` are additional files of results, by name.
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
        """`from_recording`, `of` and `load` are the usual constructors."""
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
        """Intervals that were skipped, that is not simulated packet by packet."""
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
        """Makes a run from the engine's recording of a scenario. `plan` is a dictionary or JSON."""
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
        """Makes a run from the engine's recording."""
        meta = json.loads(recording.meta_json)
        meta["complete"] = bool(meta["complete"]) and not interrupted
        recorded = str(meta.get("recorded", "everything"))
        if recorded != "everything":  # leave out tens of thousands of queues without time series
            kept = {"receive", "send", *(("egress",) if "egress queues" in recorded else ())}
            meta["queues"] = [queue for queue in meta["queues"] if queue["kind"] in kept]
        everything = pa.table(recording.counters)
        # In a large fabric nearly all counters are zero.
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
        """The engine's input."""
        return self.setup.plan

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """Settings at a default without a source: each has `setting`, `value` and `why`."""
        return self.setup.assumptions

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.meta["name"])

    @property
    def complete(self) -> bool:
        """True if the run reached its planned end."""
        return bool(self.meta["complete"])

    @cached_property
    def faults(self) -> list[dict[str, Any]]:
        """Faults such as a standstill, a lossless drop or a deadlock: each has `kind`, `where` and a line of
        `text`.
        """
        return [*standing_still(self), *self.meta["faults"]]

    @property
    def recorded(self) -> str:
        """Description of the time series: in a large fabric queues have none."""
        return str(self.meta.get("recorded", "everything"))

    @property
    def records_all(self) -> bool:
        """True if every queue and signal has a time series."""
        return self.recorded == "everything"

    @property
    def records_queues(self) -> bool:
        """True if egress queues have time series."""
        return self.records_all or any(queue["kind"] == "egress" for queue in self.meta["queues"])

    @property
    def chooses_queues(self) -> bool:
        """True if the scenario chooses the queues with time series: other queues may then be fuller."""
        return self.plan.get("record", {}).get("queues") is not None

    @cached_property
    def bins(self) -> Bins:
        """The series as arrays."""
        # bin_ps is 0 in a run that ends before its first flow starts.
        return Bins(self.series, self.entities, max(1, int(self.meta["bin_ps"])), int(self.meta["end_ps"]))

    @cached_property
    def signal_log(self) -> SignalLog:
        """The signals by bin."""
        return SignalLog(self.signals, self.bins)

    @cached_property
    def counters_at(self) -> dict[str, dict[str, int]]:
        """Counters that are not zero, by name, for each host or port of a switch."""
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
        """Flows that are not latency tests; all flows if there are no others."""
        if not self.latency_tests:
            return self.flows
        tests = pa.array(sorted(self.latency_tests))
        others = pc.filter(self.flows, pc.invert(pc.is_in(self.flows.column("item"), tests)))
        return others if others.num_rows else self.flows

    @cached_property
    def senders(self) -> list[str]:
        """Hosts that have begun to send messages, in natural order."""
        begun = pc.filter(self.bulk.column("src"), pc.is_valid(self.bulk.column("start_ps")))
        return sorted(pc.unique(begun).to_pylist(), key=natural)

    @cached_property
    def receivers(self) -> list[str]:
        """Destinations of messages, in natural order."""
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
        """Packet-hops per CPU-second. A packet-hop is one transmission of a packet over a link; those of skipped
        intervals do not count.
        """
        hops = self.meta["packet_hops"] - sum(span["packet_hops"] for span in self.skipped)
        return float(hops) / self.cpu_s if self.cpu_s > 0 else float("nan")


class _SetupInMemory(ScenarioSetup):
    """Set-up of a scenario in memory. Its YAML is made on demand: that takes longer than a short run."""

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
    def _plan_for_file(self) -> dict[str, Any]:
        """The plan with names of files in place of graphs."""
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
    """Settings of this run at an assumed default, without those of protocols and controllers that it does not use."""
    unused: tuple[str, ...] = () if scenario.has_tcp else ("host.tcp.", "host.cpu.")
    if scenario.has_tcp and not scenario.has_roce:
        unused = ("host.mtu", "host.transport.", *(f"host.{name}." for name in Controllers.model_fields))
    used = kinds(scenario)
    unused += tuple(f"host.{name}." for name in Controllers.model_fields if name not in used)
    if not scenario.network.hosts:
        unused = ("record.qps", "qos", "failures", "memory_load")
    return [one for one in assumptions(shown) if not one["setting"].startswith(unused)]


def cached_by_result(
    function: Callable[Concatenate[Recorded, Arguments], Value],
) -> Callable[Concatenate[Recorded, Arguments], Value]:
    """Caches the return values of a function for as long as the result, its first argument, lives. The other
    arguments must be hashable; callers must not change the values.
    """
    values: WeakKeyDictionary[Recorded, dict[Hashable, Any]] = WeakKeyDictionary()

    @wraps(function)
    def cached(result: Recorded, /, *args: Arguments.args, **more: Arguments.kwargs) -> Value:
        known = values.setdefault(result, {})
        key = (args, *more.items())
        if key not in known:
            known[key] = function(result, *args, **more)
        value: Value = known[key]
        return value

    return cached
