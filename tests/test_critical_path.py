"""What the last rank waited for, of ASTRA-sim's and SimAI's inputs: parts add up, and are right by hand."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import simai_files
import tailback
from astra_files import (
    ALL_TO_ALL,
    BROADCAST,
    CASES,
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    collective,
    node,
    options,
    trace,
    write,
)
from tailback.cli import main
from tailback.metrics import findings
from tailback.metrics.critical_path import CriticalPath, critical_paths
from tailback.recorded.rank_spans import spans
from tailback.simai.run import run_simai
from tailback.trace import trace as perfetto

PARTS = ("compute_s", "delay_s", "reduce_s", "inside_s", "network_s", "behind_s", "paused_s", "queued_s")
NAMES = sorted(case.name for case in CASES.iterdir() if (case / "fct.txt").is_file())
RTT = 2 * (21 + 500) + 2 * (1 + 500)
"""ns of a message of 1000 B, until its sender knows: see test_astra.py."""


def path(result: tailback.Result) -> CriticalPath:
    """The chain of a run, which is whole: from the beginning to the end of the last rank without a gap."""
    [found] = critical_paths(result)
    [job] = result.meta["jobs"]
    chain = job["inputs"]["chain"]
    assert sum(round(getattr(found, part) * 1e12) for part in PARTS) == chain["end_ps"]
    assert chain["end_ps"] == max(job["finished_ps"]) == job["iterations_ps"][0]
    assert job["finished_ps"][chain["rank"]] == chain["end_ps"]
    steps = chain["steps"]
    assert len(steps) == chain["events"] <= 10_000
    assert [steps[0][3], steps[-1][4]] == [0, chain["end_ps"]]
    for (what, rank, to, begin, end), (_, after, _, next_begin, _) in pairwise(steps):
        assert begin <= end == next_begin
        # What happens next it does, or who it is sent to.
        assert after in (rank, to), (what, rank, to)
    return found


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_every_case_are_its_time(name: str, native: bool) -> None:
    found = path(tailback.run_astra(options(CASES / name, native=native)))
    assert found.first_s <= found.end_s
    assert (found.compute_s > 0) == (name in ("pipe4", "groups_unequal"))


def test_a_pipeline_by_hand(tmp_path: Path) -> None:
    """Rank 0 computes and sends, rank 1 computes longer, but what it waits for is later than that."""
    message = {"comm_size": 1000, "comm_tag": 1}
    first = trace(node(1, COMPUTE, micros=10), node(2, SEND, (1,), comm_dst=1, **message))
    second = trace(
        node(1, RECEIVE, comm_src=0, **message),
        node(2, COMPUTE, micros=9),
        node(3, COMPUTE, (1, 2), micros=5),
    )
    result = tailback.run_astra(write(tmp_path, [first, second]))
    found = path(result)
    assert found.end_s == pytest.approx((15_000 + RTT) / 1e9)
    assert (found.compute_s, found.network_s) == pytest.approx((15e-6, RTT / 1e9))
    assert (found.job, found.last, found.last_rank, found.events) == ("w", "h1", 1, 3)
    assert [(span.host, span.name, span.lane, round(span.end_s * 1e9)) for span in spans(result)] == [
        ("h1", "compute", 0, 9000),
        ("h0", "compute", 0, 10000),
        ("h0", "send 1 KB", 1, 10000 + RTT),
        ("h1", "compute", 0, 15000 + RTT),
    ]
    assert "Rank 1 (h1) was done last" in str(result.explain())
    said = [one.words for one in findings(result) if one.what == "Last rank"]
    assert [one.startswith("until rank 1 (h1) was done, the last of 2 ranks of w;") for one in said] == [True]


def test_two_senders_to_one_wait_at_its_port(tmp_path: Path) -> None:
    """The receiver's link is taken twice as long: the chain's message waits as long as the other takes."""
    size = 1_000_000
    ends = [trace(node(1, SEND, comm_dst=2, comm_size=size, comm_tag=rank)) for rank in range(2)]
    last = trace(
        *(node(1 + rank, RECEIVE, comm_src=rank, comm_size=size, comm_tag=rank) for rank in range(2))
    )
    found = path(tailback.run_astra(write(tmp_path, [*ends, last])))
    link_s = 1000 * 21e-9
    assert found.queued_s == pytest.approx(link_s, rel=0.05)
    assert found.network_s == pytest.approx(link_s, rel=0.1)
    assert found.behind_s == found.paused_s == 0
    assert found.worst is not None
    assert (found.worst["dst"], found.worst["waited_at"]) == ("h2", "s3:h2/tc3")


def test_messages_of_one_sender_wait_for_each_other(tmp_path: Path) -> None:
    """Of three messages that a rank sends at a time to three others, each has a third of its link."""
    each = trace(collective(1, ALL_TO_ALL, 4_000_000))
    lists = {"all_to_all_implementation": ["direct"], "preferred_dataset_splits": 1}
    found = path(tailback.run_astra(write(tmp_path, [each] * 4, **lists)))
    assert found.behind_s == pytest.approx(2 * found.network_s, rel=0.05)
    assert found.queued_s < 0.05 * found.network_s


def test_a_broadcast_is_a_delay(tmp_path: Path) -> None:
    one = trace(node(1, COLLECTIVE, comm_type=BROADCAST, comm_size=5, micros=6))
    found = path(tailback.run_astra(write(tmp_path, [one, one])))
    assert (found.delay_s, found.compute_s) == (pytest.approx(6e-6), 0)


def test_ranks_that_wait_for_ever_have_no_chain(tmp_path: Path) -> None:
    first = trace(node(4, RECEIVE, comm_src=1, comm_size=10, comm_tag=3))
    result = tailback.run_astra(write(tmp_path, [first, trace(node(1, COMPUTE, micros=1))]))
    assert critical_paths(result) == []
    [job] = result.summary["training_jobs"]
    assert (job["done"], job["iteration_s"]) == (0, None)
    assert "done last" not in str(result.explain())


def test_of_simai_delays_and_computing_are_apart(tmp_path: Path) -> None:
    found = path(run_simai(simai_files.write(tmp_path)))
    assert found.end_s == pytest.approx(281.973e-6)
    # 55.6 + 5.56 us forward, 1.2 + 1 us of input gradients and 2 ns of weight gradients: each rank the same.
    assert found.compute_s == pytest.approx(63.362e-6)
    # AS_SEND_LAT: 6 us before each of 14 + 7 + 7 messages one behind the other, and of those between servers.
    assert found.delay_s > 28 * 6e-6
    own = path(run_simai(simai_files.write(tmp_path / "own", native=True)))
    assert own.compute_s == pytest.approx(found.compute_s)
    assert min(own.inside_s, own.network_s) > 0
    assert own.job == "w.txt"


def test_its_folder_report_and_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    result = tailback.run_astra(options(CASES / "pipe4"), out=out)
    again = tailback.Result.load(out)
    assert critical_paths(again) == critical_paths(result)
    page = (out / "report.html").read_text()
    assert "Ranks over time" in page
    assert "Last rank" in page
    assert main(["trace", str(out)]) == 0
    events = json.loads((out / "trace.json").read_text())["traceEvents"]
    threads = {
        (one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"
    }
    [at] = [key for key, name in threads.items() if name == "what the last rank waited for"]
    chain = [one for one in events if one["ph"] == "X" and (one["pid"], one["tid"]) == at]
    assert sum(one["dur"] for one in chain) == pytest.approx(548.59)
    assert any(one["name"] == "message, h1 to h2" for one in chain)
    capsys.readouterr()
    assert main(["explain", str(out)]) == 0
    said = capsys.readouterr().out
    assert "waited for computing" in said
    assert perfetto(again) == (out / "trace.json").read_text()
