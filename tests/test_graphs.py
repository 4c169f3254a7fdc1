"""Graphs of operations from files: tables of one's own, and GOAL."""

from __future__ import annotations

import json
import pickle
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import tailback
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tailback.errors import InputError
from tailback.recorded.rank_spans import spans
from tailback.scenario import load
from tailback.scenario.checks.jobs import queue_pairs_of
from tailback.workload import graph_tables
from tailback.workload.goal import from_goal
from tailback.workload.graphs import with_graphs
from tailback.workload.lists import ListError
from tailback.workload.operations import COMPUTE, RECEIVE, SEND, OperationsBuilder
from test_collectives import ACK_PS, one_way_ps, scenario

PING_PONG = """operation,rank,what,time,bytes,to,channel,after
think,0,compute,10us,,,,
there,0,send,,100KB,1,,think
got,1,receive,,,,,there
sum,1,reduce,,100KB,,,got
back,1,send,,100KB,0,,sum
end,0,receive,,,,,back
"""
SCHEDULE = """num_ranks 2
rank 0 {
l1: calc 10000
l2: send 100000b to 1 tag 7 cpu 0 nic 0
l3: recv 100000b from 1 tag 8
l2 requires l1
}
// the other side
rank 1 {
l1: recv 100000b from 0 tag 7
l2: send 100000b to 0 tag 8
l2 requires l1
}
"""


def job(file: str, **more: Any) -> dict[str, Any]:
    return {"kind": "job", "steps": [{"graph": file}], **more}


def run(folder: Path, name: str, content: str) -> tailback.Result:
    (folder / name).write_text(content)
    return tailback.run(write(folder, scenario(job(name), hosts=2)), out=folder / "run")


@pytest.mark.parametrize(("name", "content"), [("ping.csv", PING_PONG), ("ping.goal", SCHEDULE)])
def test_a_ping_pong_takes_what_the_closed_form_says(tmp_path: Path, name: str, content: str) -> None:
    result = run(tmp_path, name, content)
    (only,) = result.meta["jobs"]
    assert only["iterations_ps"] == [10_000_000 + 2 * one_way_ps(100_000) + ACK_PS]
    assert {span.name for span in spans(result)} == {"graph"}
    assert not result.faults
    (told,) = result.summary["training_jobs"]
    assert (told["graphs"], told["computed_s"]) == (1, pytest.approx(10e-6))
    # The folder repeats the run by itself.
    again = tailback.run(tmp_path / "run" / "scenario.yaml")
    assert again.meta["jobs"] == result.meta["jobs"]


MATRIX = """Nodes 4
Connections 5
Triggers 2
0->1 id 1 start 0 size 100000 send_done_trigger 7
1->2 id 2 start 5000000 size 100000 send_done_trigger 7
2->3 id 3 trigger 7 size 100000 recv_done_trigger 8
3->0 id 4 trigger 8 size 100000
1->3 id 5 start 90000000 size 1000
trigger id 7 barrier count 2
trigger id 8 oneshot
"""


def test_a_connection_matrix_starts_flows_by_time_and_by_triggers(tmp_path: Path) -> None:
    (tmp_path / "m.cm").write_text(MATRIX)
    document = scenario(job("m.cm", queue_pairs="message"), hosts=4)
    result = tailback.run(write(tmp_path, document))
    flows = sorted(result.flows.to_pylist(), key=lambda row: row["start_ps"])
    one = one_way_ps(100_000)
    assert [(row["src"], row["start_ps"]) for row in flows] == [
        ("h0", 0),
        ("h1", 5_000_000),
        ("h2", 5_000_000 + one),
        ("h3", pytest.approx(5_000_000 + 2 * one, abs=ACK_PS)),
        ("h1", 90_000_000),
    ]


@pytest.mark.parametrize("msg", ["msg 1", "msg"])
def test_starts_are_in_us_where_flows_have_msg(msg: str, tmp_path: Path) -> None:
    rows = f"0->1 id 1 {msg} start 0 size 4086\n0->1 id 2 start 7.9 size 4086 msg 2\n"
    (tmp_path / "m.cm").write_text(f"Nodes 2\nConnections 2\n{rows}")
    result = tailback.run(write(tmp_path, scenario(job("m.cm", queue_pairs="message"), hosts=2)))
    assert sorted(result.flows.column("start_ps").to_pylist()) == [0, 7_000_000]


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    first = run(tmp_path, "ping.csv", PING_PONG)
    table = pyarrow.csv.read_csv(tmp_path / "ping.csv")
    pyarrow.parquet.write_table(table, tmp_path / "ping.parquet")
    second = tailback.run(write(tmp_path, scenario(job("ping.parquet"), hosts=2)))
    assert second.meta["jobs"] == first.meta["jobs"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (pa.array([b"\xff"]).view(pa.string()), "found bytes that are not UTF-8, expected text"),
        (pa.array([2**40]).cast(pa.timestamp("s")), "not readable: "),
    ],
)
def test_values_of_parquet_that_are_no_text_are_one_line(
    tmp_path: Path, values: pa.Array, problem: str
) -> None:
    table = pa.table({"rank": pa.array([0]), "what": values})
    pyarrow.parquet.write_table(table, tmp_path / "ping.parquet")
    with pytest.raises(InputError) as refused:
        load(write(tmp_path, scenario(job("ping.parquet"), hosts=2)))
    assert f"ping.parquet: {problem}" in str(refused.value)
    assert "\n" not in str(refused.value)


ROWS = "rank,what,bytes,to,after\n"
GOAL_SIZES = "rank 0 {\nl1: send 10b to 1\n}\nrank 1 {\nl1: recv 20b from 0\n}\n"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("g.csv", ROWS + "2,receive,,,\n", 'g.csv:2: rank: found "2", expected a rank below 2'),
        ("g.csv", ROWS + "0,sent,1KB,1,\n", 'g.csv:2: what: found "sent", expected one of compute'),
        ("g.csv", ROWS + "0,send,1KB,0,\n", "g.csv:2: to: found 0, expected another rank"),
        ("g.csv", ROWS + "0,send,,1,\n", "g.csv:2: bytes: "),
        ("g.csv", ROWS + "0,receive,1KB,,\n", 'g.csv:2: bytes: found "1KB", expected nothing'),
        ("g.csv", ROWS + "0,receive,,,7\n", 'g.csv:2: after: found "7", expected an operation of the file'),
        ("g.csv", ROWS + "0,receive,,,1\n1,receive,,,\n", "g.csv:2: after: found an operation of rank 1"),
        ("g.csv", ROWS + "0,receive,,,1\n0,receive,,,0\n", "g.csv: operations 0, 1 wait for each other"),
        ("g.csv", "rank,kind\n", 'g.csv: found the columns "rank", "kind", expected rank, what'),
        ("g.csv", "rank,what,rank\n", 'g.csv: found the columns "rank", "what", "rank", expected rank, what'),
        ("g.csv", ROWS, "g.csv: found no operation"),
        ("g.goal", "num_ranks 3\n", "g.goal:1: found 3 ranks, expected 2"),
        ("g.goal", "rank 0 {\nl1: send 5b to 1\n}\n", "found 1 sends and 0 receives from rank 0 to 1"),
        ("g.goal", "rank 0 {\nl1: calc 5\n", "g.goal:2: found the end of the file, expected the } of rank 0"),
        ("g.goal", GOAL_SIZES, "found 10 B that are sent and 20 B that are received from rank 0 to 1"),
        ("g.cm", "Connections 2\n0->1 start 0 size 5\n", "g.cm:1: found 1 connections, expected 2"),
        (
            "g.cm",
            "trigger id 1 barrier\n",
            "expected SRC->DST, or trigger id N with oneshot or barrier count M",
        ),
        ("g.goal", "rank 0 {\nl1: calc 5\nl1 irequires l1\n", "g.goal:3: found"),
        ("g.goal", "rank 0 {\nl1: calc 5\nl2: calc 5\nl1 requires l2\nl2 requires l1\n}", "l1 of rank 0"),
        ("g.cm", "Nodes 3\n", "g.cm:1: found 3 nodes, expected 2"),
        ("g.cm", "0->2 start 0 size 5\n", "g.cm:1: found 0->2, expected two nodes below 2"),
        ("g.cm", "0->1 start 0\n", "g.cm:1: found no size"),
        ("g.cm", "0->1 start 0 size 5 prio 1\n", "g.cm:1: found prio, expected one of id, start"),
        ("g.cm", "0->1 start 0 size 5\n0->1 start 10 size 5\n", "g.cm:2: start: found 10 as the latest"),
        ("g.cm", "0->1 start 36000000001 size 5 msg 1\n", "g.cm:1: start: found 36000000001000000 ps"),
        ("g.cm", "0->1 start 0 size 5.5\n", "g.cm:1: size: found 5.5, expected a whole number"),
        ("g.cm", "0->1 trigger 3 size 5\n", "g.cm:1: trigger: found 3, expected a trigger of the file"),
        ("g.cm", "trigger id 3 oneshot\n0->1 trigger 3 size 5\n", "found 0 flows that end in trigger 3"),
        ("g.parquet", "no", "g.parquet: not readable"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as refused:
        load(write(tmp_path, scenario(job(name), hosts=2)))
    assert len(refused.value.problems) == 1
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def write(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_step_is_one_thing() -> None:
    step = {"graph": "g.csv", "compute": "1us"}
    with pytest.raises(InputError, match="found compute and graph, expected one of"):
        load(scenario({"kind": "job", "steps": [step]}))
    with pytest.raises(InputError, match="no such file"):
        load(scenario(job("nowhere.csv")))


def test_columns_say_what_rows_say() -> None:
    made = OperationsBuilder()
    made.add(3, COMPUTE, 7)
    made.add(0, SEND, 9, 1, 2)
    made.add(1, RECEIVE)
    made.add(0, SEND, 9, 1, 2)
    made.wait(2, 1)
    made.wait(1, 0)
    made.wait(2, 3)
    operations = made.made()
    send = {"send": {"to": 1, "bytes": 9, "channel": 2}}
    listed = [[3, {"compute": 7}, []], [0, send, [0]], [1, "receive", [1, 3]], [0, send, []]]
    assert list(operations) == listed
    assert operations[1:3] == listed[1:3]
    assert (operations.queue_pairs(True), operations.queue_pairs(False), operations.computed_ps()) == (
        2,
        1,
        7,
    )
    assert list(pickle.loads(pickle.dumps(operations))) == listed


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), named=st.booleans())
def test_blocks_of_a_table_are_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject, named: bool
) -> None:
    """However few rows are looked at together, and whether rows wait for those above them or below."""
    count = data.draw(st.integers(1, 60))
    order = data.draw(st.permutations(range(count)))
    label = {number: f"op{number}" if named else str(place) for place, number in enumerate(order)}
    lines = [",".join(graph_tables.GRAPH_COLUMNS[not named :])]
    for number in order:
        before = data.draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        own = number % 4
        after = " ".join(label[one] for one in before)
        lines.append((f"{label[number]}," if named else "") + f"{own},barrier,,,,,{after}")
    content = ("\n".join(lines) + "\n").encode()
    whole, called = graph_tables.from_table("g.csv", lambda: BytesIO(content), 4)
    assert [called(at) for at in range(count)] == [label[number] for number in order]
    listed = list(whole.made())
    with monkeypatch.context() as patch:
        patch.setattr(graph_tables, "_CSV_BLOCK_BYTES", 100)
        blocks, _ = graph_tables.from_table("g.csv", lambda: BytesIO(content), 4)
    assert list(blocks.made()) == listed
    table = pyarrow.csv.read_csv(pyarrow.BufferReader(content))
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(graph_tables, "_PARQUET_BLOCK_ROWS", 7)
        blocks, _ = graph_tables.from_table("g.parquet", partial((tmp_path / "g.parquet").open, "rb"), 4)
    assert list(blocks.made()) == listed


def test_queue_pairs_are_those_of_two_ranks_and_not_of_each_message(tmp_path: Path) -> None:
    """A graph has more messages than there may be queue pairs."""
    rows = "".join(f"{at % 2},send,100B,{1 - at % 2},{at - 1 if at else ''}\n" for at in range(300))
    (tmp_path / "g.csv").write_text(ROWS + rows)
    checked = load(write(tmp_path, scenario(job("g.csv"), hosts=2)))
    assert queue_pairs_of(checked, 0) == 2
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "g.csv").write_text(ROWS + rows)
    checked = load(write(tmp_path / "own", scenario(job("g.csv", queue_pairs="message"), hosts=2)))
    assert queue_pairs_of(checked, 0) == 300


def test_computing_for_longer_than_64_bits_of_picoseconds_is_added_up() -> None:
    made = OperationsBuilder()
    for _ in range(600):
        made.add(1, COMPUTE, 36_000 * 10**12)
    made.add(0, COMPUTE, 1)
    assert made.made().computed_ps() == 600 * 36_000 * 10**12


def test_the_folder_has_the_graph_as_it_was_and_the_plan_names_it(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "g.csv").write_text(
        "rank,what,time,bytes,to,after\n0,send,,1KB,1,\n1,receive,,,,0\n"
    )
    data = {
        "name": "g",
        "run": {"duration": "1ms"},
        "topology": {"kind": "star", "hosts": 2},
        "traffic": [{"kind": "job", "steps": [{"compute": "1us"}, {"graph": "deep/g.csv"}]}],
    }
    (tmp_path / "in" / "s.yaml").write_text(yaml.safe_dump(data))
    result = tailback.run(tmp_path / "in" / "s.yaml", out=tmp_path / "out")
    copy = tmp_path / "out" / "inputs" / "g.csv"
    assert copy.read_bytes() == (tmp_path / "in" / "deep" / "g.csv").read_bytes()
    steps = json.loads((tmp_path / "out" / "plan.json").read_text())["jobs"][0]["steps"]
    named = {"file": "inputs/g.csv", "operations": 2, "computed_ps": 0}
    assert steps == [{"compute": 1_000_000}, {"graph": named}]
    again = tailback.run(tmp_path / "out" / "scenario.yaml", out=tmp_path / "again")
    assert again.summary == result.summary
    loaded = tailback.Result.load(tmp_path / "out")
    assert loaded.summary == result.summary
    whole = with_graphs(dict(loaded.plan), loaded.setup.long_files)
    assert list(whole["jobs"][0]["steps"][1]["graph"]) == [
        [0, {"send": {"to": 1, "bytes": 1000, "channel": 0}}, []],
        [1, "receive", [0]],
    ]
    copy.unlink()
    with pytest.raises(InputError, match=r"inputs/g\.csv: found none, expected a graph of the plan"):
        with_graphs(dict(loaded.plan), loaded.setup.long_files)


def test_a_graph_that_is_changed_after_it_was_read_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("rank,what\n0,barrier\n")
    data = {
        "name": "g",
        "run": {"duration": "1ms"},
        "topology": {"kind": "star", "hosts": 2},
        "traffic": [{"kind": "job", "steps": [{"graph": "g.csv"}]}],
    }
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(data))

    def change(_: object) -> None:
        (tmp_path / "g.csv").write_text("rank,what\n1,barrier\n0,barrier\n")

    with pytest.raises(OSError, match="changed while it was in use") as caught:
        tailback.run(tmp_path / "s.yaml", out=tmp_path / "out", progress=change)
    assert caught.value.filename == str(tmp_path / "g.csv")
    assert not (tmp_path / "out").exists()


def test_a_row_may_wait_for_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a row has room for; a longer one is named."""
    monkeypatch.setattr(graph_tables, "_CSV_BLOCK_BYTES", 1000)
    rows = [
        "0,barrier,",
        *["1,barrier,0"] * 2000,
        f"2,barrier,{' '.join(map(str, range(2001)))}",
        "3,barrier,2001",
    ]
    content = "\n".join(["rank,what,after", *rows]).encode()
    made, _ = graph_tables.from_table("g.csv", lambda: BytesIO(content), 4)
    found = made.made()
    assert (len(found), found[2001][2], found[2002]) == (2003, list(range(2001)), [3, "barrier", [2001]])
    monkeypatch.setattr(graph_tables, "_MAX_ROW_BYTES", 5000)
    with pytest.raises(ListError, match=r"^g\.csv:2003: found a row of more than 5KB, expected a "):
        graph_tables.from_table("g.csv", lambda: BytesIO(content), 4)


def _goal(text: str) -> tuple[OperationsBuilder, Any]:
    return from_goal("g.goal", lambda: BytesIO(text.encode()), 2)


def test_labels_of_a_schedule_are_looked_up_in_the_file() -> None:
    """The n-th receive of a tag takes the n-th send, in whatever order ranks and tags come."""
    made, called = _goal(
        "num_ranks 2\nrank 1 {\na: recv 5b from 0 tag 9\nb: recv 6b from 0 tag 9\nc: recv 7b from 0\n}\n"
        "rank 0 {\na: send 7b to 1 // first\n\nb: send 5b to 1 tag 9\nc: send 6b to 1 tag 9\n"
        "b requires a\n}\n"
    )
    assert [called(at) for at in range(6)] == [
        f"{label} of rank {rank}" for rank in (1, 0) for label in "abc"
    ]
    after = [one[2] for one in made.made()]
    assert after == [[4], [5], [3], [], [3], []]


def test_a_rank_of_a_schedule_comes_once() -> None:
    with pytest.raises(ListError, match=r"^g\.goal:4: found rank 0 a second time$"):
        _goal("rank 0 {\na: calc 1\n}\nrank 0 {\n}\n")
    twice = "a: recv 1b from 0 tag 3\nb: recv 1b from 0 tag 3\n"
    with pytest.raises(ListError, match="found 1 sends and 2 receives from rank 0 to 1 with tag 3"):
        _goal(f"rank 0 {{\na: send 1b to 1 tag 3\n}}\nrank 1 {{\n{twice}}}\n")
