"""The log of signals says what counters and series say, and who told whom."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import tailback
from commands import COMMAND
from drawn import draw
from tailback._engine import Simulation, recorded
from tailback.live.recording import SIGNAL_OF_METRIC, signals_of
from tailback.metrics import findings
from tailback.plan import make_plan, plan_json
from tailback.recorded import signals
from tailback.recorded.signals import (
    CE_MARK,
    CNP,
    DELAY_PROBE,
    DROP,
    NAK,
    PFC_PAUSE,
    SIGNALS_SCHEMA,
    SIGNALS_WITH_DURATION,
)

INCAST = [
    "run.duration=3ms",
    "topology.hosts=5",
    "traffic.0.from=h0..h3",
    "traffic.0.to=h4",
    "traffic.0.start_interval=0s",
]


@pytest.fixture(scope="module")
def incast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short incast with marks, CNPs and pauses."""
    folder = tmp_path_factory.mktemp("signals") / "run"
    tailback.run("roce-incast-lossless", sets=INCAST, out=folder, report=False)
    return folder


def _rows(table: pa.Table) -> list[dict[str, object]]:
    """In any order."""
    return sorted(table.to_pylist(), key=lambda row: json.dumps(row))


def test_names_are_those_of_the_engine() -> None:
    declared = json.loads(recorded())
    names = {name for name, _, _ in declared["signals"]}
    ours = {value for name, value in vars(signals).items() if name.isupper() and isinstance(value, str)}
    assert ours == names
    assert set(SIGNALS_WITH_DURATION) == {name for name, lasts, _ in declared["signals"] if lasts}
    told = {one["metric"]: one["signal"] for one in declared["quantities"] if one["signal"]}
    assert told == SIGNAL_OF_METRIC


def test_who_told_whom_adds_up_to_the_counters(incast: Path) -> None:
    result = tailback.Result.load(incast)
    types = [
        [(field.name, field.type) for field in schema] for schema in (result.signals.schema, SIGNALS_SCHEMA)
    ]
    assert types[0] == types[1]
    at = result.counters_at
    for counter, signal, ends in (("np_cnp_sent", CNP, {"from_": "h4"}), ("ecn_marked_tc_3", CE_MARK, {})):
        counted = sum(counters.get(counter, 0) for counters in at.values())
        assert result.signal_log.count(signal, **ends) == counted > 0
    # Each sender is told by the receiver as often as its queue pairs were.
    flows = result.flows.group_by("src").aggregate([("np_cnp_sent", "sum")]).to_pylist()
    for row in flows:
        assert result.signal_log.count(CNP, from_="h4", to=row["src"]) == row["np_cnp_sent_sum"]
    pauses = result.signals.filter(pc.equal(result.signals.column("signal").cast(pa.string()), PFC_PAUSE))
    told = {
        (row["queue"], row["from"], row["to"]): row["duration_ps_sum"]
        for row in pauses.group_by(["queue", "from", "to"]).aggregate([("duration_ps", "sum")]).to_pylist()
    }
    assert told == {
        (f"{one['port'].split(':')[0]}/sq{one['priority']}", "sw0", one["port"].split(":")[0]): one[
            "paused_ps"
        ]
        for one in result.meta["pauses"]
        if one["paused_ps"]
    }
    assert told


def test_bins_are_those_of_the_series(incast: Path) -> None:
    result = tailback.Result.load(incast)
    for queue in result.signal_log.queues(PFC_PAUSE):
        assert result.signal_log.values(queue, PFC_PAUSE) == pytest.approx(
            result.bins.values(queue, "paused_share")
        )
    assert np.array_equal(result.signal_log.total(CNP), result.bins.total("np_cnp_sent"))
    assert np.array_equal(result.signal_log.total(CE_MARK), result.bins.total("ecn_marked"))


@pytest.mark.parametrize("number", range(12))
def test_what_is_made_of_series_is_the_same(number: int) -> None:
    """But for pairs of hosts, and for what no series knows."""
    simulation = Simulation(plan_json(make_plan(draw(3, number).load())))
    simulation.advance(20_000)
    recording = simulation.finish()
    meta, series = json.loads(recording.meta_json), pa.table(recording.series)
    bin_ps, end_ps = max(1, meta["bin_ps"]), meta["end_ps"]
    ours, entities = pa.table(recording.signals).cast(SIGNALS_SCHEMA), pa.table(recording.entities)
    theirs = signals_of(series, entities, bin_ps, end_ps)
    known = pc.is_in(
        ours.column("queue").cast(pa.string()), pa.array(entities.column("entity").to_pylist(), pa.string())
    )
    binned = pc.is_in(ours.column("signal").cast(pa.string()), pa.array(SIGNAL_OF_METRIC.values()))
    kept = ours.filter(pc.and_(known.fill_null(False), binned))
    # What no series knows is told of the whole run.
    kept = kept.filter(pc.less_equal(pc.subtract(kept["end_ps"], kept["start_ps"]), bin_ps))
    of_queues = theirs.filter(pc.is_valid(theirs.column("queue")))
    plain = ["queue", "signal", "from", "start_ps", "end_ps", "count", "duration_ps"]
    assert _rows(kept.select(plain)) == _rows(of_queues.select(plain))
    for signal in (CNP, NAK, DELAY_PROBE):
        sums = [
            pc.sum(table.filter(pc.equal(table.column("signal").cast(pa.string()), signal))["count"]).as_py()
            for table in (ours, theirs)
        ]
        assert sums[0] == sums[1]


@pytest.mark.parametrize("control", ["timely", "swift"])
def test_a_delay_that_a_controller_acts_on_is_a_probe(control: str) -> None:
    result = tailback.run("roce-incast-lossless", sets=[*INCAST, f"host.congestion={control}"])
    probes = result.signal_log.count(DELAY_PROBE)
    # Each answer is one, but for those on their way at the end.
    answers = result.meta["packets"]["ack"] + result.meta["packets"]["nak"]
    assert 0 < probes <= answers / 2  # of two links
    assert probes == pytest.approx(answers / 2, abs=64)
    assert probes == sum(result.signal_log.count(DELAY_PROBE, from_="h4", to=f"h{host}") for host in range(4))
    assert np.array_equal(result.signal_log.total(DELAY_PROBE), result.bins.total("delay_probes"))
    assert result.summary["signals"]["delay_probes"] == probes
    assert [one.figure for one in findings(result) if one.what == "Delay probes"]


def test_controllers_that_act_on_something_else_have_no_probes(incast: Path) -> None:
    result = tailback.Result.load(incast)
    assert result.signal_log.count(DELAY_PROBE) == 0
    assert "delay_probes" not in set(result.series.column("metric").to_pylist())


def test_an_answer_to_a_probe_of_rhcc_is_a_delay_probe() -> None:
    result = tailback.run("roce-incast-lossless", sets=[*INCAST, "host.rhcc.sender=true"])
    answers = sum(counters.get("rhcc_probe_answers", 0) for counters in result.counters_at.values())
    assert result.signal_log.count(DELAY_PROBE) == answers > 0


@pytest.mark.parametrize("number", [12, 17, 38, 57, 61, 92])
def test_the_log_has_each_drop_of_the_tally(number: int) -> None:
    """Of those draws, in which links lose packets of hosts; and more than it, those between namespaces."""
    simulation = Simulation(plan_json(make_plan(draw(1, number).load())))
    simulation.advance(60_000)
    recording = simulation.finish()
    told = pa.table(recording.signals).cast(SIGNALS_SCHEMA).to_pylist()
    dropped = sum(row["count"] for row in told if row["signal"] == DROP)
    meta = json.loads(recording.meta_json)
    tally = sum(drop["packets"] for drop in meta["drops"])
    assert dropped > 0
    assert dropped == tally or (meta["veth"] and tally == 0)
    paused = sum(row["duration_ps"] for row in told if row["signal"] == PFC_PAUSE)
    assert paused == sum(pause["paused_ps"] for pause in meta["pauses"])


def test_of_many_hosts_one_end_is_known() -> None:
    result = tailback.run("roce-fat-tree-incast", sets=["run.duration=200us", "traffic.0.start_interval=0s"])
    rows = result.signal_log.summed()
    assert {(row["from"], row["to"]) for row in rows if row["signal"] == CNP} == {("h0", None)}


def test_queues_without_series_have_a_row_for_the_run() -> None:
    sets = [*INCAST, "record.queues=[sw0:h0]"]
    some, all_ = (
        tailback.run("roce-incast-lossless", sets=sets),
        tailback.run("roce-incast-lossless", sets=INCAST),
    )
    assert some.signal_log.count(CE_MARK) == all_.signal_log.count(CE_MARK) > 0
    [row] = [row for row in some.signals.to_pylist() if row["signal"] == CE_MARK]
    assert (row["queue"], row["start_ps"], row["end_ps"]) == ("sw0:h4/tc3", 0, some.meta["end_ps"])
    assert not some.signal_log.total(CE_MARK).any()


def test_several_cores_log_the_same() -> None:
    sets = ["run.duration=100us", "traffic.0.start_interval=0s"]
    one, two = (
        tailback.run("roce-fat-tree-all-to-all", sets=sets, threads=threads).signals for threads in (1, 2)
    )
    assert one.num_rows
    assert one.equals(two)


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_the_command_prints_who_told_whom(incast: Path) -> None:
    done = run_command("signals", str(incast))
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["cnp", "h4", "h0"] in [line[:3] for line in lines]
    assert ["ce-mark", "sw0:h4/tc3", "sw0", "h4"] in [line[:4] for line in lines]
    found = json.loads(run_command("signals", str(incast), "--json").stdout)
    assert sum(row["count"] for row in found if row["signal"] == CNP) == sum(
        pa.table(tailback.Result.load(incast).flows).column("np_cnp_sent").to_pylist()
    )
    assert run_command("signals", str(incast.parent)).returncode == 2
