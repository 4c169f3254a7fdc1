"""Collectives in scenarios: closed forms, bandwidths as nccl-tests define them, and what cannot be."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import tailback
from tailback import text
from tailback.cli import main
from tailback.errors import InputError
from tailback.metrics import METRICS, collectives, findings
from tailback.recorded.rank_spans import COMPUTE, spans
from tailback.run_folder import read_run
from tailback.scenario import load, loads

BYTE_PS = 20
"""At 400 Gbit/s."""
HOP_PS = 500_000 + 300_000
ACK_PS = 86 * BYTE_PS
IDEAL = {"congestion": "none", "mtu": "4096B", "transport": {"ack_every": 65_536}}
"""Hosts at line rate, whose messages ask for one ACK each."""


def scenario(*traffic: dict[str, Any], hosts: int = 8, **more: Any) -> dict[str, Any]:
    link = {"rate": "400Gbps"}
    return {
        "name": "collective",
        "run": {"duration": "1s", "clock_ppm": 0},
        "topology": {"kind": "star", "hosts": hosts, "link": link},
        "host": IDEAL,
        "switch": {"buffer": "64MB"},
        "traffic": list(traffic),
        **more,
    }


def one_way_ps(size: int) -> int:
    """A packet has 82 B around its payload, the first 16 more, and is received whole before it goes on."""
    sent = forwarded = 0
    for at in range(0, size, 4096):
        payload = -(-min(size - at, 4096) // 4) * 4
        takes = (payload + 82 + (16 if at == 0 else 0)) * BYTE_PS
        sent += takes
        forwarded = max(sent + HOP_PS, forwarded) + takes
    return forwarded + HOP_PS


@pytest.mark.parametrize("ranks", [2, 3, 16, 64])
@pytest.mark.parametrize("size", [1, 3_000_001])
def test_a_ring_takes_what_the_closed_form_says(ranks: int, size: int) -> None:
    item = {"kind": "all-reduce", "size": f"{size}B"}
    result = tailback.run(scenario(item, hosts=ranks))
    steps, share = 2 * (ranks - 1), -(-size // ranks)
    expected = steps * one_way_ps(share) + (steps - 1) * ACK_PS
    part = result.meta["jobs"][0]["parts"][0]
    assert part["end_ps"] - part["begin_ps"] == expected
    (one,) = result.summary["collectives"]
    assert one["algorithm_bps"] == pytest.approx(size * 8e12 / expected)
    assert one["bus_bps"] == pytest.approx(size * 8e12 / expected * 2 * (ranks - 1) / ranks)
    assert not result.faults


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("all-gather", 7 / 8), ("reduce-scatter", 7 / 8), ("all-to-all", 7 / 8), ("broadcast", 1)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(kind: str, factor: float) -> None:
    result = tailback.run(scenario({"kind": kind, "size": "1MB"}))
    (one,) = result.summary["collectives"]
    assert one["bus_bps"] == pytest.approx(one["algorithm_bps"] * factor)
    assert one["algorithm_bps"] == pytest.approx(8e6 / one["mean_s"])


def test_a_job_and_its_folder(tmp_path: Path) -> None:
    """Two steps to compute and two collectives, one of them overlapped, in servers of four."""
    steps = [
        {"compute": "50us"},
        {"collective": "all-reduce", "size": "1MB", "algorithm": "hierarchical", "overlap": True},
        {"compute": "100us"},
        {"collective": "all-to-all", "size": "80KB"},
    ]
    job = {"kind": "job", "steps": steps, "repeat": 3, "servers": {"gpus": 4}}
    result = tailback.run(scenario(job), out=tmp_path / "run")
    summary = result.summary
    assert [one["kind"] for one in summary["collectives"]] == ["all-reduce", "all-to-all"]
    (told,) = summary["training_jobs"]
    assert (told["done"], told["ranks"], told["computed_s"]) == (3, 8, pytest.approx(150e-6))
    assert told["iteration_s"] > 150e-6
    for one in summary["collectives"]:
        parts = ("late", "compute", "reduce", "inside", "network", "behind", "congestion")
        assert sum(one[f"{name}_s"] for name in parts) == pytest.approx(one["mean_s"])
    assert read_run(tmp_path / "run").meta["jobs"] == result.meta["jobs"]
    again = tailback.run(tmp_path / "run" / "scenario.yaml")
    assert again.meta["jobs"] == result.meta["jobs"]


def test_who_held_the_last_rank_up_is_named() -> None:
    """A ring over two leaves, whose one way between them a writer fills."""
    leaf_spine = {"kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 3}
    ring = {"kind": "all-reduce", "size": "1MB", "hosts": ["h0", "h1", "h3", "h4"]}
    other = {"kind": "write", "from": "h2", "to": "h5", "messages": 1, "message": "1MB"}
    told = []
    for traffic in ([ring], [ring, other]):
        result = tailback.run(scenario(*traffic, topology=leaf_spine))
        told += result.summary["collectives"]
    alone, beside = told
    assert beside["congestion_s"] > alone["congestion_s"] + 1e-6
    assert beside["worst"]["waited_at"] == "leaf0:spine0/tc3"
    assert beside["mean_s"] - alone["mean_s"] == pytest.approx(
        beside["congestion_s"] - alone["congestion_s"], rel=0.05
    )
    assert any("leaf0:spine0/tc3 held most on its way" in one.words for one in findings(result))


def test_jobs_share_no_host_and_can_be_placed() -> None:
    leaf_spine = {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4}
    items = [
        {"kind": "all-reduce", "size": "8KB", "ranks": 4, "placement": "spread"},
        {"kind": "all-reduce", "size": "8KB", "ranks": 2, "placement": "random"},
        {"kind": "all-gather", "size": "8KB", "ranks": 2},
    ]
    jobs = tailback.run(scenario(*items, topology=leaf_spine)).meta["jobs"]
    assert jobs[0]["hosts"] == ["h0", "h4", "h1", "h5"]
    assert sorted(host for job in jobs for host in job["hosts"]) == [f"h{host}" for host in range(8)]


def test_groups_run_side_by_side() -> None:
    item = {"kind": "all-reduce", "size": "8KB", "groups": 4, "interleaved": True}
    jobs = tailback.run(scenario(item)).meta["jobs"]
    assert [job["hosts"] for job in jobs] == [[f"h{at}", f"h{at + 4}"] for at in range(4)]
    assert {job["name"] for job in jobs} == {f"all-reduce0/{group}" for group in range(4)}


def test_no_message_is_longer_than_a_chunk_however_groups_lie_in_servers() -> None:
    item = {"kind": "all-reduce", "size": "4MB", "algorithm": "hierarchical", "chunk": "100KB"}
    more = {"servers": {"gpus": 4, "rate": None}, "groups": 2, "interleaved": True}
    result = tailback.run(scenario({**item, **more}))
    assert len(result.summary["collectives"]) == 2
    assert pc.max(result.flows["message_bytes"]).as_py() <= 100_000


def test_measures_are_those_of_the_summary() -> None:
    item = {"kind": "all-reduce", "size": "1MB", "repeat": 2, "compute": "10us"}
    result = tailback.run(scenario(item, {**item, "kind": "all-gather"}))
    first, second = result.summary["collectives"]
    assert first["mean_s"] > second["mean_s"]
    time, bandwidth, iteration = (
        METRICS[name] for name in ("collective_time", "bus_bandwidth", "iteration_time")
    )
    assert time(result, item=second["item"]) == second["mean_s"]
    assert bandwidth(result, item=first["item"]) == first["bus_bps"]
    assert time(result) == first["mean_s"]
    assert bandwidth(result) == min(first["bus_bps"], second["bus_bps"])
    jobs = result.summary["training_jobs"]
    assert iteration(result) == max(job["iteration_s"] for job in jobs)
    assert iteration(result, item=jobs[1]["item"]) == jobs[1]["iteration_s"]


def test_who_was_last_by_chance_is_not_named() -> None:
    """In a ring without congestion all ranks end at once."""
    (one,) = tailback.run(scenario({"kind": "all-reduce", "size": "1MB"})).summary["collectives"]
    assert one["slowest_share"] == 0


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"algorithm": "rings"}, 'traffic.0.algorithm: found "rings", expected'),
        ({"ranks": 9}, "traffic.0.ranks: found 9, expected at most 8, the hosts that are left"),
        ({"groups": 3}, "traffic.0.groups: found 3, expected a divisor of the 8 ranks"),
        ({"algorithm": "hierarchical"}, 'traffic.0.algorithm: found "hierarchical", expected servers'),
        (
            {"algorithm": "halving-doubling", "ranks": 6},
            'traffic.0.algorithm: found "halving-doubling" for 6 ranks, expected 2, 4, 8',
        ),
        ({"size": "100GB"}, "traffic.0.size: found messages of 12.5GB, expected messages of at most"),
        ({"chunk": "1B"}, "traffic.0.chunk: found about"),
        (
            {"size": "1TB", "chunk": "1MB"},
            "traffic.0.size: found 125GB on a queue pair at once, expected at most",
        ),
        ({"overlap": True}, "traffic.0.overlap: found true, expected compute with it"),
        ({"interleaved": True}, "traffic.0.interleaved: found true, expected groups with it"),
        ({"placement": "random"}, 'traffic.0.placement: found "random", expected ranks with it'),
        ({"hosts": ["h0", "h9"]}, 'traffic.0.hosts: found "h9", expected hosts'),
    ],
)
def test_what_cannot_be_is_told_in_a_line(item: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as refused:
        load(scenario({"kind": "all-reduce", "size": "64MB", **item}))
    assert len(refused.value.problems) == 1
    assert problem in str(refused.value)


STEPS = [
    {"compute": "50us"},
    {"collective": "all-reduce", "size": "1MB", "overlap": True},
    {"compute": "100us"},
    {"collective": "all-to-all", "size": "80KB"},
]


def test_what_ranks_did_is_a_trace_and_a_plot(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = tailback.run(scenario({"kind": "job", "steps": STEPS, "repeat": 3}), out=folder)
    every = spans(result)
    assert len(every) == 8 * 4 * 3
    computed = [span.end_s - span.begin_s for span in every if span.name == COMPUTE]
    assert sum(computed) == pytest.approx(8 * 3 * 150e-6)
    (last,) = result.summary["training_jobs"]
    assert max(span.end_s for span in every) == pytest.approx(3 * last["iteration_s"])
    assert "Ranks over time" in (folder / "report.html").read_text()

    assert main(["trace", str(folder)]) == 0
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    steps = [event for event in events if event["ph"] == "X" and "step" in event["args"]]
    assert len(steps) == len(every)
    # A thread does one thing at a time.
    by_thread: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in steps:
        by_thread.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    assert len(by_thread) == 16
    for mine in by_thread.values():
        mine.sort()
        assert all(a + took <= b + 1e-6 for (a, took), (b, _) in itertools.pairwise(mine))
    names = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert set(by_thread) <= names
    assert any(event["ph"] == "C" and event["args"]["bytes"] > 0 for event in events)
    # The folder is still that of a run, which another may replace.
    result.write(folder, report=False)
    assert not (folder / "trace.json").exists()


def test_a_run_without_jobs_has_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tailback.run("first-flow", sets=["run.duration=1ms"], out=tmp_path / "run", report=False)
    assert main(["trace", str(tmp_path / "run")]) == 2
    assert "found no job, expected a run with ranks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("all-reduce", "ring"),
        ("all-reduce", "direct"),
        ("all-reduce", "halving-doubling"),
        ("all-reduce", "double-binary-tree"),
        ("all-gather", "ring"),
        ("reduce-scatter", "direct"),
        ("all-to-all", "direct"),
        ("broadcast", "ring"),
    ],
)
@pytest.mark.parametrize("size", ["64B", "4MB"])
def test_no_collective_is_faster_than_its_bound(kind: str, algorithm: str, size: str) -> None:
    item = {"kind": kind, "algorithm": algorithm, "size": size, "channels": 2, "chunk": "100KB"}
    (one,) = tailback.run(scenario(item)).summary["collectives"]
    assert 0 < one["bound_s"] <= one["min_s"]


def test_a_long_ring_reaches_the_bound_of_its_links() -> None:
    item = {"kind": "all-reduce", "size": "64MB"}
    (one,) = tailback.run(scenario(item)).summary["collectives"]
    assert one["bound_at"] == "the links of hosts"
    assert one["bound_s"] == pytest.approx(2 * 7 / 8 * 64e6 * 8 / 400e9, rel=0.03)
    assert one["mean_s"] < 1.05 * one["bound_s"]


def test_an_oversubscribed_bisection_bounds_an_all_to_all() -> None:
    leaf_spine = {"kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4}
    fabric = {"link": {"rate": "400Gbps"}, "fabric": {"rate": "400Gbps"}}
    item = {"kind": "all-to-all", "size": "8MB"}
    (one,) = tailback.run(scenario(item, topology={**leaf_spine, **fabric})).summary["collectives"]
    # Half of what four ranks give crosses: 16 MB each way.
    assert one["bound_at"] == "the links above leaf0 and 1 other like it"
    assert one["bound_s"] == pytest.approx(16e6 * 8 / 400e9, rel=0.03)
    assert one["bound_s"] <= one["mean_s"]


def test_links_that_are_never_up_carry_nothing() -> None:
    leaf_spine = {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4}
    fabric = {"link": {"rate": "400Gbps"}, "fabric": {"rate": "400Gbps"}}
    item = {"kind": "all-to-all", "size": "8MB"}

    def bound(*failures: dict[str, str]) -> float:
        made = scenario(item, topology={**leaf_spine, **fabric}, failures=list(failures))
        (one,) = tailback.run(made).summary["collectives"]
        assert one["bound_s"] <= one["mean_s"]
        return float(one["bound_s"])

    # Half of what four ranks give, 16 MB, crosses two links of a leaf each way, or the one that is left.
    down = {"link": "leaf0-spine1", "at": "0us"}
    assert bound(down) == pytest.approx(16e6 * 8 / 400e9, rel=0.03)
    assert bound() == bound({**down, "at": "1us"}) == bound({**down, "repair": "10us"})
    assert bound() == pytest.approx(16e6 * 8 / 800e9, rel=0.03)


def test_links_inside_of_servers_take_part_of_the_load() -> None:
    rails = {"kind": "rail-optimised", "servers": 4, "nics": 4, "spines": 2, "link": {"rate": "400Gbps"}}
    item = {"kind": "all-reduce", "size": "16MB", "algorithm": "hierarchical", "servers": {"gpus": 4}}
    (one,) = tailback.run(scenario(item, topology=rails)).summary["collectives"]
    # Each of four servers sends 2 x 3/4 of it over its four links.
    assert one["bound_s"] == pytest.approx(2 * 3 / 4 * 16e6 * 8 / 1600e9, rel=0.03)
    assert one["bound_s"] <= one["mean_s"]


def test_ranks_of_one_server_are_bound_by_its_links() -> None:
    item = {"kind": "all-reduce", "size": "64MB", "servers": {"gpus": 8}}
    result = tailback.run(scenario(item))
    (one,) = result.summary["collectives"]
    # 2 x 7/8 of it leave each rank, by a NIC of 400 Gbit/s or a link of 3,600.
    assert one["bound_at"] == "the links inside servers, and the links of hosts"
    assert one["bound_s"] == pytest.approx(2 * 7 / 8 * 64e6 * 8 / 4000e9, rel=0.03)
    assert one["bound_s"] <= one["min_s"] < 1.3 * one["bound_s"]
    said = result.explain()
    assert said.headline == "Nothing is the bottleneck: nothing crosses the network."
    assert said.next.startswith("Try a faster link inside servers")


@pytest.mark.parametrize(
    ("item", "size"),
    [
        ({"algorithm": "ring", "ranks": 4, "servers": {"gpus": 4}}, "1KB"),
        ({"algorithm": "ring", "servers": {"gpus": 4}}, "16KB"),
        ({"algorithm": "hierarchical", "servers": {"gpus": 4}}, "1KB"),
        ({"algorithm": "double-binary-tree"}, "1KB"),
        ({"kind": "broadcast", "algorithm": "hierarchical", "servers": {"gpus": 2}}, "1KB"),
        ({"kind": "all-to-all", "algorithm": "hierarchical", "servers": {"gpus": 4}}, "1KB"),
    ],
)
def test_latency_bounds_hold_inside_of_servers_too(item: dict[str, Any], size: str) -> None:
    (one,) = tailback.run(scenario({"kind": "all-reduce", "size": size, **item})).summary["collectives"]
    assert one["bound_at"] == "latency of its steps"
    assert 0.3 * one["min_s"] < one["bound_s"] <= one["min_s"]


def test_a_step_that_had_not_ended_lasts_to_the_end() -> None:
    item = {"kind": "all-reduce", "size": "1MB", "compute": "50us"}
    result = tailback.run(scenario(item, run={"duration": "60us", "clock_ppm": 0}))
    open_ = [span for span in spans(result) if span.name != COMPUTE]
    assert len(open_) == 8
    assert {(span.begin_s, span.end_s) for span in open_} == {(50e-6, 60e-6)}


def test_ranks_that_compute_are_not_stuck_in_the_network() -> None:
    result = tailback.run(scenario({"kind": "all-reduce", "size": "1MB", "repeat": 4, "compute": "2ms"}))
    for tries in (False, True):
        said = result.explain(tries=tries)
        assert said.headline == "Nothing is the bottleneck: ranks compute."
        assert "Ranks compute 97" in " ".join(said.reasons)


ALIKE = {
    "job": "j",
    "kind": "all-reduce",
    "algorithm": "ring",
    "ranks": 4,
    "size_bytes": 10**6,
    "done": 1,
    "algorithm_bps": 1e9,
    "bus_bps": 1e9,
    "bound_s": 0.0,
    "slowest": "h0",
    "slowest_share": 0.0,
    "worst": None,
    **dict.fromkeys(collectives._PART_NAMES, 0.0),
}


@pytest.mark.parametrize("count", [2, 3, 4, 17])
@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e-4, 0.01, 0.5, 10.0])
def test_collectives_are_said_to_take_as_long_only_if_their_times_print_alike(
    count: int, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1e-3 * (1 + spread * number / (count - 1)) for number in range(count)]
    made = [{**ALIKE, "mean_s": time, "min_s": time, "max_s": time, "network_s": time} for time in times]
    monkeypatch.setattr(collectives, "summarise", lambda _: {"collectives": made})
    (said,) = collectives.collective_findings(None)  # type: ignore[arg-type]
    shortest, longest = text.duration(times[0]), text.duration(times[-1])
    assert said.figure == longest
    assert said.words.startswith(f"{'each' if shortest == longest else 'the slowest'} of {count} of the same")
    assert (f"fastest {shortest}, median" in said.words) == (shortest != longest)


OUTCOMES = {
    "inside": ("[{kind: all-reduce, size: 1MB, hosts: h0..h3, servers: {gpus: 4}}]", "20ms"),
    "done": ("[{kind: all-reduce, size: 1MB, hosts: h0..h3}]", "20ms"),
    "cut off inside": (
        "[{kind: all-reduce, size: 1GB, hosts: h0..h3, servers: {gpus: 4}, repeat: 9}]",
        "1ms",
    ),
    "not begun": ("[{kind: flows, list: [h0 h1 1MB 30us]}]", "20us"),
}


@pytest.mark.parametrize("which", OUTCOMES)
def test_what_ran_is_said_where_no_message_went_over_the_network(which: str) -> None:
    traffic, duration = OUTCOMES[which]
    result = tailback.run(
        loads(
            f"name: n\nrun: {{duration: {duration}}}\ntopology: {{kind: star, hosts: 4}}\ntraffic: {traffic}\n"
        )
    )
    (said,) = [one for one in findings(result) if one.what == "Throughput"]
    if which == "inside":
        assert said.figure == "none"
        assert "all that ranks sent stayed inside servers (NVLink). All ranks were done after " in said.words
    elif which == "cut off inside":
        assert said.figure == "none"
        assert "4 ranks were not done at the end of the run" in said.words
    elif which == "not begun":
        assert "No flow started before the end of the run" in said.words
    else:
        assert said.figure.endswith("bit/s")
