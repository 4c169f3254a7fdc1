"""`tailback astra`: equal to ASTRA-sim with ns-3 where that was run, to arithmetic by hand elsewhere."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tailback
from astra_files import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    CASES,
    COLLECTIVE,
    COMPUTE,
    GROUPS,
    INVALID,
    LOAD,
    METADATA,
    RECEIVE,
    REDUCE_SCATTER,
    SEND,
    collective,
    node,
    options,
    trace,
    varint,
    write,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tailback._engine import HpccSimulation, Progress, Work
from tailback.astra.inputs import AstraOptions, load_inputs
from tailback.astra.setup import AstraSetup
from tailback.cli import main
from tailback.errors import InputError
from tailback.plan import plan_json

CASE_NAMES = sorted(case.name for case in CASES.iterdir() if (case / "fct.txt").is_file())
RTT = 2 * (21 + 500) + 2 * (1 + 500)
"""ns of a message of 1000 B: 1036 B take 21 ns at 400 Gbit/s, an ACK of 48 B one; a link is 500 ns long."""


OK = trace(node(1, COMPUTE, micros=1))
FLAGS = (
    "--workload-configuration=et/w",
    "--system-configuration=system.json",
    "--network-configuration=config.txt",
    "--logical-topology-configuration=logical.json",
    "--comm-group-configuration=empty",
)


def cycles(options: AstraOptions) -> dict[int, int]:
    """When each rank has finished."""
    lines = tailback.run_astra(options).outputs["cycles.txt"].decode().splitlines()
    words = [line.replace("[", " ").replace("]", " ").split() for line in lines]
    return {int(rank): int(count) for _, rank, _, count, *_ in words}


@pytest.mark.parametrize("name", CASE_NAMES)
def test_equal_to_the_byte(name: str) -> None:
    case = CASES / name
    result = tailback.run_astra(options(case))
    assert (
        result.outputs["cycles.txt"].decode().splitlines() == (case / "cycles.txt").read_text().splitlines()
    )
    assert result.outputs["fct.txt"] == (case / "fct.txt").read_bytes()
    pfc = case / "pfc.txt"
    assert result.outputs["pfc.txt"] == (pfc.read_bytes() if pfc.is_file() else b"")
    assert not result.faults


def test_sixty_four_ranks(tmp_path: Path) -> None:
    """32,256 messages under DCQCN."""
    case = CASES / "ar64_ring_16MB_cc1"
    (tmp_path / "et").mkdir()
    for rank in range(64):
        (tmp_path / "et" / f"w.{rank}.et").write_bytes(trace(collective(rank, ALL_REDUCE, 16 << 20)))
    for file in ("config.txt", "topology.txt", "system.json", "logical.json"):
        (tmp_path / file).write_bytes((case / file).read_bytes())
    result = tailback.run_astra(options(tmp_path))
    assert (
        result.outputs["cycles.txt"].decode().splitlines() == (case / "cycles.txt").read_text().splitlines()
    )
    assert hashlib.md5(result.outputs["fct.txt"]).hexdigest() == (case / "fct.md5").read_text().split()[0]


def test_sends_receives_and_computes(tmp_path: Path) -> None:
    first = trace(node(1, COMPUTE, micros=2), node(2, SEND, (1,), comm_dst=1, comm_size=1000, comm_tag=7))
    second = trace(node(1, RECEIVE, comm_src=0, comm_size=1000, comm_tag=7), node(2, COMPUTE, (1,), micros=3))
    assert cycles(write(tmp_path, [first, second])) == {0: 2000 + RTT, 1: 2000 + RTT + 3000}


def test_what_computes_does_not_communicate(tmp_path: Path) -> None:
    """A CPU, a GPU and a place for messages; of each one at a time."""
    both = trace(
        node(1, COMPUTE, micros=5),
        node(2, COMPUTE, micros=7, is_cpu_op=True),
        node(3, COMPUTE, micros=4),
        node(4, SEND, comm_dst=1, comm_size=1000, comm_tag=1),
        node(5, SEND, comm_dst=1, comm_size=1000, comm_tag=2),
    )
    options = write(tmp_path, [both, trace(node(1, COMPUTE))])
    assert cycles(options) == {0: 9000, 1: 1}
    sent = [line.split() for line in tailback.run_astra(options).outputs["fct.txt"].decode().splitlines()]
    assert [int(words[5]) for words in sent] == [0, RTT]


def test_what_comes_early_is_kept(tmp_path: Path) -> None:
    """A message of 3000 B is received in three parts, the first of them asked for after it has come."""
    first = trace(node(1, SEND, comm_dst=1, comm_size=3000, comm_tag=7))
    parts = [
        node(2 + part, RECEIVE, (1 + part,), comm_src=0, comm_size=1000, comm_tag=7) for part in range(3)
    ]
    second = trace(node(1, COMPUTE, micros=50), *parts)
    assert cycles(write(tmp_path, [first, second]))[1] == 50_000


@settings(max_examples=20, deadline=None)
@given(ranks=st.integers(2, 12), packet=st.integers(1, 1000))
def test_a_ring_takes_what_the_closed_form_says(
    tmp_path_factory: pytest.TempPathFactory, ranks: int, packet: int
) -> None:
    """2 (n - 1) steps, in half of which the memory reduces; a wait before each message and at the end."""
    size = max(packet, ranks) * ranks  # a chunk has a byte a rank at least
    share = size // ranks
    one = trace(collective(0, ALL_REDUCE, size))
    found = cycles(
        write(tmp_path_factory.mktemp("ring"), [one] * ranks, preferred_dataset_splits=1, local_mem_bw=1)
    )
    # To the nearest ns, and a half goes down: seconds are cut to a multiple of 2^-64 there.
    step = 2 * (math.ceil((share + 36) * 8 / 400 - 0.5) + 500) + 2 * (1 + 500)
    expected = 2 * (ranks - 1) * (10 + step) + (ranks - 1) * 3 * int(share / 1e9 * 1e9) + 10
    assert set(found.values()) == {expected}


@settings(max_examples=12, deadline=None)
@given(ranks=st.integers(2, 32), packet=st.integers(1, 1024))
def test_the_same_under_own_models(tmp_path_factory: pytest.TempPathFactory, ranks: int, packet: int) -> None:
    """To the picosecond: a WRITE of a packet is filled up to words and has 98 B around it, its ACK is 86 B;
    a byte takes 20 ps.
    """
    share = min(max(packet, ranks), 1024)
    one = trace(collective(0, ALL_REDUCE, share * ranks))
    changes = {"preferred_dataset_splits": 1, "local_mem_bw": 1}
    inputs = write(tmp_path_factory.mktemp("ring"), [one] * ranks, **changes)
    result = tailback.run_astra(replace(inputs, native=True))
    message = 2 * ((-(-share // 4) * 4 + 98) * 20 + 500_000) + 2 * (86 * 20 + 500_000)
    assert set(result.flows["fct_ps"].to_pylist()) == {message}
    memory = 3 * int(share / 1e9 * 1e9) * 1000
    expected = 2 * (ranks - 1) * (10_000 + message) + (ranks - 1) * memory + 10_000
    lines = result.outputs["cycles.txt"].decode().splitlines()
    assert {int(line.split()[2]) for line in lines} == {expected // 1000}
    assert len(lines) == ranks


def test_own_models_from_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder is read like any other; a rank that waits for ever is a fault here, too."""
    sender = trace(
        node(1, SEND, comm_dst=1, comm_size=5000, comm_tag=7),
        node(2, RECEIVE, comm_src=1, comm_size=9, comm_tag=8),
    )
    write(tmp_path, [sender, OK])
    monkeypatch.chdir(tmp_path)
    assert main(["astra", *FLAGS, "--native", "--out", "out"]) == 1
    assert "rank 0 waits at node 2 (receive from 1, tag 8)" in capsys.readouterr().err
    assert not (tmp_path / "out" / "fct.txt").exists()
    for command in (["explain", "out"], ["report", "out"]):
        assert main(command) == 0


KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def sizes_sent(options: AstraOptions) -> list[tuple[int, int, int]]:
    """Sender, receiver and size of each message, sorted."""
    lines = tailback.run_astra(options).outputs["fct.txt"].decode().splitlines()
    rank = lambda word: (int(word, 16) - 0x0B000001) // 256  # noqa: E731
    return sorted((rank(src), rank(dst), int(size)) for src, dst, _, _, size, *_ in map(str.split, lines))


@pytest.mark.parametrize(
    ("algorithm", "kind", "expected"),
    [
        ("ring", ALL_GATHER, [(rank, (rank + 1) % 4, 2000) for rank in range(4) for _ in range(3)]),
        ("oneRing", REDUCE_SCATTER, [(rank, (rank + 1) % 4, 500) for rank in range(4) for _ in range(3)]),
        ("ring", ALL_TO_ALL, [(rank, (rank + 1) % 4, 500) for rank in range(4) for _ in range(6)]),
        ("direct", ALL_TO_ALL, [(a, b, 500) for a in range(4) for b in range(4) if a != b]),
        ("direct1", ALL_TO_ALL, [(a, b, 500) for a in range(4) for b in range(4) if a != b]),
        (
            "halvingDoubling",
            ALL_REDUCE,
            [(a, a ^ b, size) for a in range(4) for b, size in ((1, 1000), (2, 500)) * 2],
        ),
        (
            "halvingDoubling",
            ALL_GATHER,
            [(a, a ^ b, size) for a in range(4) for b, size in ((2, 2000), (1, 4000))],
        ),
        (
            "doubleBinaryTree",
            ALL_REDUCE,
            [(a, b, 2000) for x, y in ((0, 1), (1, 3), (2, 1)) for a, b in ((x, y), (y, x))],
        ),
    ],
)
def test_who_sends_what_to_whom(
    tmp_path: Path, algorithm: str, kind: int, expected: list[tuple[int, int, int]]
) -> None:
    lists = {f"{name}_implementation": [algorithm] for name in KINDS}
    options = write(tmp_path, [trace(collective(0, kind, 2000))] * 4, preferred_dataset_splits=1, **lists)
    assert sizes_sent(options) == sorted(expected)


def test_dimensions_that_take_part(tmp_path: Path) -> None:
    """Of 2 x 2 ranks only those of the second dimension, two apart."""
    one = trace(collective(0, ALL_REDUCE, 2000, involved_dim=[False, True]))
    lists = {"all_reduce_implementation": ["ring", "ring"]}
    options = write(tmp_path, [one] * 4, (2, 2), preferred_dataset_splits=1, **lists)
    assert sizes_sent(options) == sorted((rank, rank ^ 2, 1000) for rank in range(4) for _ in range(2))


def test_a_group_of_a_trace(tmp_path: Path) -> None:
    """PyTorch's traces define groups in metadata; whatever comes after it waits for something that ends."""
    values = f"['{json.dumps([{'pg_name': '3', 'ranks': [2, 0]}])}']"
    inside = trace(
        node(1, GROUPS, values=values),
        node(2, COMPUTE, micros=1),
        collective(3, ALL_REDUCE, 2000, (1, 2), pg_name="3"),
    )
    options = write(tmp_path, [inside, trace(node(1, COMPUTE)), inside], preferred_dataset_splits=1)
    assert sizes_sent(options) == [(0, 2, 1000)] * 2 + [(2, 0, 1000)] * 2


def test_time_by_the_roofline(tmp_path: Path) -> None:
    """As much arithmetic as the memory feeds, and no more than there is."""
    one = trace(
        node(1, COMPUTE, num_ops=3_000_000, tensor_size=1_000_000),
        node(2, COMPUTE, (1,), num_ops=1_000_000, tensor_size=2_000_000),
    )
    options = write(tmp_path, [one, trace()], roofline_enabled=1, peak_perf=2, local_mem_bw=1000)
    assert cycles(options) == {0: 1500 + 2000, 1: 0}


def test_what_the_roofline_leaves_without_a_time_is_refused(tmp_path: Path) -> None:
    for operations, expected in ((0, "found 0"), (2**62, "found 4611686018427387904")):
        one = trace(node(7, COMPUTE, num_ops=operations, tensor_size=1))
        options = write(tmp_path, [one, trace()], roofline_enabled=1, peak_perf=1e-9)
        with pytest.raises(InputError, match=rf"w\.0\.et: node 7: num_ops: expected 1 or more .*{expected}"):
            tailback.run_astra(options)


def test_nothing_that_is_asked_for_is_left_out_silently(tmp_path: Path) -> None:
    """Lists that are too short, groups that take a ring, reductions without an end, keys without effect."""
    lists = {"all_reduce_implementation": ["direct", "ring"], "all_gather_implementation": ["oneRing"]}
    lists |= {"reduce_scatter_implementation": ["ring"], "all_to_all_implementation": ["ring", "ring"]}
    more = {"local_mem_bw": None, "endpoint_dealy": 5, "boost_mode": 0, "L": 3, "trace_enabled": 1}
    inputs = load_inputs(write(tmp_path, [OK] * 4, (2, 2), {"1": [0, 1]}, **lists, **more))
    said = [one.partition("warning: ")[2] for one in inputs.warnings if "system.json" in one]
    assert said == [
        "local-mem-bw is not given: reductions never end, as in ASTRA-sim",
        "reduce-scatter-implementation has 1 of 2 dimensions: its collectives leave out the others, "
        "as in ASTRA-sim",
        "all-reduce-implementation has more than one algorithm: groups of some ranks take a ring, "
        "as in ASTRA-sim",
    ]
    told = AstraSetup.of(inputs).not_honoured
    assert {"endpoint-dealy", "L", "trace-enabled"} <= set(told)
    assert "boost-mode" not in told
    assert told["endpoint-dealy"] == "it has no effect in ASTRA-sim either"


def test_a_replay_sends_nothing(tmp_path: Path) -> None:
    one = trace(collective(1, ALL_REDUCE, 2000), node(2, COMPUTE, (1,), micros=4))
    result = tailback.run_astra(write(tmp_path, [one, one], replay_only=1))
    assert result.outputs["fct.txt"] == b""
    assert b"sys[1] finished, 4001 cycles, exposed communication 0 cycles." in result.outputs["cycles.txt"]


def test_a_broadcast_is_only_its_time(tmp_path: Path) -> None:
    one = trace(node(1, COLLECTIVE, comm_type=BROADCAST, comm_size=5, micros=6))
    assert cycles(write(tmp_path, [one, one])) == {0: 6000, 1: 6000}


def test_ranks_that_wait_for_ever_are_a_fault(tmp_path: Path) -> None:
    first = trace(node(4, RECEIVE, comm_src=1, comm_size=10, comm_tag=3))
    result = tailback.run_astra(write(tmp_path, [first, trace(node(1, COMPUTE, micros=1))]))
    assert [fault["text"].partition(": ")[2] for fault in result.faults] == [
        "rank 0 waits at node 4 (receive from 1, tag 3)"
    ]
    assert b"sys[1] finished, 1000 cycles" in result.outputs["cycles.txt"]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int | None, int]]]:
    """Ranks, and in an order that is possible who computes (none) or sends how much to whom."""
    ranks = draw(st.integers(2, 5))
    rank = st.integers(0, ranks - 1)
    step = st.tuples(rank, st.none() | rank, st.integers(1, 4000)).filter(lambda one: one[0] != one[1])
    return ranks, draw(st.lists(step, max_size=25))


@settings(max_examples=25, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_every_operation_ends_once(
    tmp_path_factory: pytest.TempPathFactory,
    graph: tuple[int, list[tuple[int, int | None, int]]],
    random: Any,
) -> None:
    """Whatever waits for what, if it can be done at all; and in whichever order a file lists it."""
    ranks, steps = graph
    nodes: list[list[bytes]] = [[] for _ in range(ranks)]
    for number, (rank, to, size) in enumerate(steps, start=1):
        own = range(1, len(nodes[rank]) + 1)
        after = tuple(sorted(random.sample(own, min(len(own), 2))))
        if to is None:
            nodes[rank].append(node(len(own) + 1, COMPUTE, after, micros=size % 7))
            continue
        message = {"comm_size": size, "comm_tag": number}
        nodes[rank].append(node(len(own) + 1, SEND, after, comm_dst=to, **message))
        there = range(1, len(nodes[to]) + 1)
        after = tuple(sorted(random.sample(there, min(len(there), 2))))
        nodes[to].append(node(len(there) + 1, RECEIVE, after, comm_src=rank, **message))
    listed = write(tmp_path_factory.mktemp("graph"), [trace(*own) for own in nodes])
    shuffled = [trace(*random.sample(own, len(own))) for own in nodes]
    other = write(tmp_path_factory.mktemp("graph"), shuffled)
    result, again = tailback.run_astra(listed), tailback.run_astra(other)
    assert not result.faults
    assert sizes_sent(listed) == sorted((rank, to, size) for rank, to, size in steps if to is not None)
    assert result.outputs["cycles.txt"].count(b"finished") == ranks
    assert result.outputs == again.outputs


def _message(**more: Any) -> bytes:
    return trace(node(5, SEND, **({"comm_dst": 1, "comm_size": 10, "comm_tag": 1} | more)))


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (b"", "w.0.et: byte 0: expected the length of the metadata"),
        (
            METADATA + varint(10**9) + b"ab",
            "w.0.et: byte 8: node number 1 declares 1000000000 B, and 2 follow",
        ),
        (METADATA + b"\xff" * 12, "w.0.et: byte 8: expected the length of node number 1"),
        (METADATA + b"\x03\x08\x01\x18", "w.0.et: node number 1: not readable"),
        (OK[:-1], "w.0.et: byte 8: node number 1 declares 6 B, and 5 follow"),
        (trace(node(3, COMPUTE, (9,))), "w.0.et: node 3: depends on node 9, which is not in the file"),
        (
            trace(node(3, COMPUTE), node(3, COMPUTE)),
            "w.0.et: node 3: expected one node of this id, found more",
        ),
        (
            trace(
                node(1, COMPUTE, (2,)), node(2, COMPUTE, (3,)), node(3, COMPUTE, (1,)), node(4, COMPUTE, (3,))
            ),
            "wait for each other in a circle",
        ),
        (trace(node(4, COMPUTE, (4,))), "w.0.et: node 4: depends on itself"),
        (_message(comm_size=-5), "w.0.et: node 5: comm_size: expected 0 B or more, found -5"),
        (
            _message(comm_size=0),
            "w.0.et: node 5: comm_size: expected 1 to 2147483647 B in a message, found 0",
        ),
        (
            trace(collective(3, ALL_GATHER, 10**18)),
            "w.0.et: node 3: comm_size: expected messages of at most 2147483647 B, found 1000000000000000000",
        ),
        (trace(collective(3, ALL_GATHER, 0)), "w.0.et: node 3: comm_size: expected 1 B or more"),
        (
            trace(collective(3, ALL_REDUCE, 9, involved_dim=[False])),
            "w.0.et: node 3: involved_dim: expected two ranks or more to take part",
        ),
        (
            trace(collective(3, ALL_REDUCE, 9, pg_name="2")),
            "w.0.et: node 3: pg_name: expected two ranks or more to take part",
        ),
        (
            trace(node(1, COMPUTE, micros=2**62)),
            "w.0.et: node 1: duration_micros: expected at most 18446744073709, found 4611686018427387904",
        ),
        (trace(node(1, LOAD)), "w.0.et: node 1: expected no node of remote memory"),
        (trace(node(1, 12)), "w.0.et: node 1: type: expected 0 to 7, found 12"),
        (_message(comm_dst=9), "w.0.et: node 5: comm_dst: expected another rank, below 2, found 9"),
        (_message(comm_dst=0), "w.0.et: node 5: comm_dst: expected another rank, below 2, found 0"),
        (_message(comm_src=1), "w.0.et: node 5: comm_src: expected 0, the trace's own rank, found 1"),
        (_message(comm_size="10"), "w.0.et: node 5: comm_size: expected a whole number"),
        (_message(is_cpu_op=True), "w.0.et: node 5: is_cpu_op: expected false"),
        (trace(node(5, SEND, comm_dst=1, comm_size=10)), "w.0.et: node 5: expected the attribute comm_tag"),
        (trace(collective(2, 3, 100)), "w.0.et: node 2: comm_type: expected 0 all-reduce"),
        (
            trace(collective(2, ALL_GATHER, 3)),
            "node 2: comm_size: expected at least preferred-dataset-splits (4)",
        ),
        (
            trace(collective(2, ALL_REDUCE, 9, pg_name="7")),
            "w.0.et: node 2: pg_name: expected a group of the group file, found 7",
        ),
        (
            trace(collective(2, ALL_REDUCE, 9, pg_name="1")),
            "w.0.et: node 2: pg_name: expected a group of rank 0",
        ),
        (
            trace(collective(2, ALL_REDUCE, 9, pg_name="x")),
            'w.0.et: node 2: pg_name: expected a number, found "x"',
        ),
        (
            _message(comm_size=2**31),
            "w.0.et: node 5: comm_size: expected 1 to 2147483647 B in a message, found 2147483648",
        ),
    ],
)
def test_a_bad_trace_is_refused_in_a_line(tmp_path: Path, first: bytes, expected: str) -> None:
    options = write(tmp_path, [first, OK], groups={"1": [1], "2": [0]})
    with pytest.raises(InputError) as caught:
        tailback.run_astra(options)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"scheduling_policy": "RANDOM"}, "system.json: scheduling-policy: expected 'LIFO', 'FIFO'"),
        ({"active_chunks_per_dimension": 0}, "system.json: active-chunks-per-dimension: expected"),
        (
            {"all_reduce_implementation": ["rink"]},
            "system.json: all-reduce-implementation.0: expected ring, direct",
        ),
        (
            {"all_reduce_implementation": ["direct0"]},
            "system.json: all-reduce-implementation.0: expected ring",
        ),
        (
            {"all_reduce_implementation": ["Ring"]},
            "system.json: all-reduce-implementation.0: expected ring",
        ),
        ({"endpoint_delay": "12"}, 'system.json: endpoint-delay: expected a number, found "12"'),
        ({"replay_only": "no"}, 'system.json: replay-only: expected a number, found "no"'),
        ({"roofline_enabled": 1}, "system.json: roofline-enabled: expected peak-perf and local-mem-bw"),
        ({"all_reduce_implementation_custom": ["x"]}, "custom collectives are not carried out"),
        (
            {"all_reduce_implementation": None},
            "comm_type: expected all-reduce-implementation in the system file",
        ),
        ({"all_reduce_implementation": ["ring", "ring"]}, "expected 1 to 1 algorithms, one a dimension"),
        ({"all_reduce_implementation": ["doubleBinaryTree"]}, "expected a power of two"),
        ({"all_reduce_implementation": ["halvingDoubling"]}, "expected a power of two"),
        (
            {"preferred_dataset_splits": 10**9},
            "preferred-dataset-splits: expected less than or equal to 65536",
        ),
        ({"preferred_dataset_splits": None}, "node 1: comm_size: expected preferred-dataset-splits"),
        ({"dims": (2, 2)}, "logical-dims: expected a host for each of 4 ranks: node 3 of the physical"),
        ({"dims": (2,), "groups": {"1": [0, 2]}}, "groups.json: 1: expected ranks below 2, found 2"),
        ({"groups": {"0": [0]}}, "groups.json: 0: expected a group's number from 1 to 2146"),
    ],
)
def test_bad_files_are_refused_in_a_line(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    options = write(tmp_path, [trace(collective(1, ALL_REDUCE, 999))] * 3, **changes)
    with pytest.raises(InputError) as caught:
        tailback.run_astra(options)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_files_are_refused_in_a_line(tmp_path: Path) -> None:
    options = write(tmp_path, [OK, OK])
    (tmp_path / "et" / "w.1.et").unlink()
    with pytest.raises(
        InputError, match=r"w\.1\.et: expected the trace of rank 1 of 2 \(PREFIX\.RANK\.et\), found none"
    ):
        tailback.run_astra(options)
    (tmp_path / "logical.json").write_text('{"logical-dims": ["1000000000", "9"]}')
    with pytest.raises(InputError, match=r"logical\.json: logical-dims: expected sizes"):
        tailback.run_astra(options)
    (tmp_path / "system.json").write_text("{\n,")
    with pytest.raises(InputError, match=r"system\.json:2: expected JSON"):
        tailback.run_astra(options)


def test_the_command_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under that simulator's own flags; and the folder repeats the run."""
    sender = trace(node(1, SEND, comm_dst=1, comm_size=1000, comm_tag=7))
    write(tmp_path, [sender, trace(node(1, COMPUTE))], model_shared_bus=1)
    (tmp_path / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    monkeypatch.chdir(tmp_path)
    assert main(["astra", *FLAGS, "--remote-memory-configuration=memory.json", "--out", "out"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[:2] == [
        "sys[1] finished, 1 cycles, exposed communication 0 cycles.",
        f"sys[0] finished, {RTT} cycles, exposed communication {RTT} cycles.",
    ]
    assert "model-shared-bus" in shown
    fct = f"0b000001 0b000101 10000 100 1000 0 {RTT} {2 * 1000 + 2 * 20 + 1048 * 8 // 400}\n"
    assert (tmp_path / "out" / "fct.txt").read_text() == fct
    monkeypatch.chdir(tmp_path / "out")
    again = ["--workload-configuration=inputs/w", *FLAGS[1:]]
    assert main(["astra", *again, "--out", "../again", "--no-report"]) == 0
    assert (tmp_path / "again" / "fct.txt").read_text() == fct
    for command in (["explain", "."], ["report", "."], ["compare", ".", "../again"]):
        assert main(command) == 0


def test_a_command_with_bad_input_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [_message(comm_size=2**31), OK])
    monkeypatch.chdir(tmp_path)
    assert main(["astra", *FLAGS, "--out", "out"]) == 2
    assert "node 5: comm_size: expected 1 to 2147483647 B" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_numbers_of_the_command_are_refused_in_a_line(tmp_path: Path) -> None:
    options = write(tmp_path, [OK, OK])
    with pytest.raises(InputError, match="--num-queues-per-dim: expected 1 to 1024, found 1000000000"):
        tailback.run_astra(replace(options, num_queues_per_dim=10**9))
    with pytest.raises(InputError, match="--injection-scale: expected 0 to 1000, found inf"):
        tailback.run_astra(replace(options, injection_scale=math.inf))


def test_a_trace_that_is_cut_anywhere_is_refused_or_whole(tmp_path: Path) -> None:
    """And one with any byte another: a line, or a run."""
    whole = trace(
        node(1, COMPUTE, micros=1),
        node(2, SEND, (1,), comm_dst=1, comm_size=10, comm_tag=7),
        collective(3, ALL_REDUCE, 99, (2,), involved_dim=[True]),
    )
    setup = AstraSetup.of(load_inputs(write(tmp_path, [whole, OK])))
    network, system = plan_json(setup.plan), json.dumps(setup.astra.plan())
    paths = [str(tmp_path / "et" / f"w.{rank}.et") for rank in range(2)]
    other = [
        whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]
        for at in range(len(whole))
        for flip in (1, 128, 255)
    ]
    refused = []
    for data in [whole[:at] for at in range(len(whole))] + other:
        try:
            (tmp_path / "et" / "w.0.et").write_bytes(data)
            HpccSimulation.with_work(network, Work.astra(system, paths))
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > len(whole)
    assert all(line.startswith(str(tmp_path)) and "\n" not in line for line in refused)


def test_messages_that_follow_each_other_share_nothing(tmp_path: Path) -> None:
    """Each has a queue pair of its own: source ports count up, and starts follow ends."""
    sends = [
        node(n, SEND, (n - 1,) if n > 1 else (), comm_dst=1, comm_size=500, comm_tag=n) for n in range(1, 5)
    ]
    result = tailback.run_astra(write(tmp_path, [trace(*sends), OK]))
    rows = [list(map(int, line.split()[2:])) for line in result.outputs["fct.txt"].decode().splitlines()]
    assert [row[0] for row in rows] == [10_000, 10_001, 10_002, 10_003]
    assert all(before[3] + before[4] == after[3] for before, after in pairwise(rows))


def test_nothing_and_metadata_end_at_once(tmp_path: Path) -> None:
    """Their children wait for the next operation that ends."""
    one = trace(node(1, INVALID), node(2, COMPUTE, micros=3), node(3, COMPUTE, (1,), micros=2))
    assert cycles(write(tmp_path, [one, OK]))[0] == 5000


def test_delays_are_rounded_to_the_nearest_nanosecond(tmp_path: Path) -> None:
    found = write(tmp_path, [OK, OK])
    text = (tmp_path / "topology.txt").read_text()
    (tmp_path / "topology.txt").write_text(text.replace("0.0005ms", "0.000025ms"))
    assert [link.delay_ns for link in load_inputs(found).network.topology.links] == [25, 25]


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32), st.integers(1, 700))
def test_a_trace_in_whatever_order_of_its_file(
    tmp_path_factory: pytest.TempPathFactory, seed: int, back: int
) -> None:
    """In order it is read a block at a time, with its nodes mixed up as one; and the run is the same."""
    random, count, ranks = Random(seed), 900, 3
    files: list[list[bytes]] = [[], []]
    for rank in range(ranks):
        nodes = []
        for number in range(count):
            after = {random.randrange(max(0, number - back), number) for _ in range(2)} if number else set()
            if number % 9 < 7:
                nodes.append(node(number, COMPUTE, tuple(after), micros=1 + random.randrange(3)))
            else:
                sends, one = number % 9 == 7, (rank + 1) % ranks if number % 9 == 7 else (rank - 1) % ranks
                peer = {"comm_dst": one} if sends else {"comm_src": one}
                kind = SEND if sends else RECEIVE
                nodes.append(node(number, kind, tuple(after), comm_size=700, comm_tag=number // 9, **peer))
        files[0].append(trace(*nodes))
        random.shuffle(nodes)
        files[1].append(trace(*nodes))
    outputs = [
        tailback.run_astra(write(tmp_path_factory.mktemp("traces"), traces)).outputs for traces in files
    ]
    assert outputs[0]["cycles.txt"].count(b"finished") == ranks
    assert {name: outputs[0][name] for name in outputs[0]} == {name: outputs[1][name] for name in outputs[1]}


def test_a_trace_that_is_changed_during_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is read further on, or is only copied, nothing is written."""
    monkeypatch.setattr("tailback.running.EVENTS_PER_STEP", 100)
    chain = [node(n, COMPUTE, (n - 1,) if n else (), micros=1) for n in range(5000)]
    for at_the_end, kind in ((False, InputError), (True, OSError)):
        found = write(tmp_path, [trace(*chain), OK])

        def change(state: Progress, at_the_end: bool = at_the_end) -> None:
            if state.done or not at_the_end:
                (tmp_path / "et" / "w.0.et").write_bytes(trace(*chain[:4999]))

        with pytest.raises(kind, match="changed"):
            tailback.run_astra(found, out=tmp_path / "out", progress=change)
        assert not (tmp_path / "out").exists()


def test_very_many_nodes_that_may_begin(tmp_path: Path) -> None:
    """They are begun in the order of ids; looking at each again whenever one ends would take minutes."""
    count = 20_000
    sends = [node(n, SEND, comm_dst=1, comm_size=1000, comm_tag=n) for n in range(count)]
    receives = [node(n, RECEIVE, comm_src=0, comm_size=1000, comm_tag=n) for n in range(count)]
    result = tailback.run_astra(write(tmp_path, [trace(*sends), trace(*receives)]))
    rows = [list(map(int, line.split()[2:])) for line in result.outputs["fct.txt"].decode().splitlines()]
    assert len(rows) == count
    assert [row[3] for row in rows] == [number * RTT for number in range(count)]


RING = "".join(f"{node} {(node + 1) % 4} 400Gbps 0.0005ms 0\n" for node in range(4))


def ring(folder: Path, kind: int, **system: Any) -> None:
    """Four ranks on direct links from each to the next, and no switch."""
    write(folder, [trace(collective(1, kind, 4000))] * 4, **system)
    (folder / "topology.txt").write_text(f"4 0 4\n{RING}")


def test_neighbours_of_a_ring_without_a_switch_send_over_their_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring(tmp_path, ALL_REDUCE, preferred_dataset_splits=1)
    monkeypatch.chdir(tmp_path)
    assert main(["astra", *FLAGS, "-q", "--out", "x"]) == 0
    rows = [row.split() for row in (tmp_path / "x" / "fct.txt").read_text().splitlines()]
    assert len(rows) == 4 * 6
    assert {(row[4], row[6]) for row in rows} == {("1000", str(RTT // 2))}, "one link there and back"
    nodes = {(int(row[0], 16) >> 8 & 0xFFFF, int(row[1], 16) >> 8 & 0xFFFF) for row in rows}
    assert nodes == {(node, (node + 1) % 4) for node in range(4)}


def test_hosts_do_not_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ring(tmp_path, ALL_TO_ALL, all_to_all_implementation=["direct"])
    monkeypatch.chdir(tmp_path)
    assert main(["astra", *FLAGS, "-q", "--out", "x"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("topology.txt: found no route from node 0 to node 2")
    assert not (tmp_path / "x").exists()


def test_a_key_of_a_fork_refuses_unless_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [OK])
    with (tmp_path / "config.txt").open("a") as config:
        config.write("\nLB_MODE 9\n")
    monkeypatch.chdir(tmp_path)
    assert main(["astra", *FLAGS, "-q", "--out", "x"]) == 2
    assert "LB_MODE: found 9, a key of ConWeave's fork" in capsys.readouterr().err
    assert main(["astra", *FLAGS, "-q", "--out", "x", "--ignore", "LB_MODE"]) == 0
    assert "LB_MODE" in tailback.Result.load("x").setup.not_honoured
