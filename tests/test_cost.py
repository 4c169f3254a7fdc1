"""What any reader takes is bounded by its input: CPU time and memory of a fixed part and so much a byte.

The fixed part is what the limits allow however short the text is, such as a network of the largest size.
The bounds are several times what was measured, but far below what a reader takes that expands what it is
given, or compares all with all.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tailback
from hpcc_files import READERS, TEXTS, answer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tailback.errors import InputError
from tailback.hpcc.keys import CONFIG_KEYS
from tailback.run_folder import read_run
from tailback.scenario import load, loads
from tailback.workload.sizes import parse

MIB = 1 << 20


class Bound(NamedTuple):
    """At most `cpu_s` and `memory` bytes, and in addition so much for each byte of the input."""

    cpu_s: float
    cpu_s_a_byte: float
    memory: int
    memory_a_byte: int


# Memory is counted as it is allocated, which makes everything about three times slower.
SCENARIO = Bound(20.0, 400e-6, 256 * MIB, 12_000)
HPCC = Bound(6.0, 100e-6, 64 * MIB, 2000)
LIST = Bound(2.0, 100e-6, 16 * MIB, 2000)
RESULT = Bound(10.0, 100e-6, 64 * MIB, 2000)

examples = settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def within(bound: Bound, size: int, read: Callable[[], object]) -> None:
    """Reads, and takes no more than allowed; what is refused is refused as it should be."""
    said = ""
    tracemalloc.reset_peak()
    before, begin = tracemalloc.get_traced_memory()[0], time.process_time()
    try:
        read()
    except InputError as error:
        said = str(error)
    took, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1] - before
    assert len(said) < 200_000
    assert said.replace("\n", "").isprintable(), said
    assert took <= bound.cpu_s + bound.cpu_s_a_byte * size, (took, size)
    assert peak <= bound.memory + bound.memory_a_byte * size, (peak, size)


@pytest.fixture(scope="module", autouse=True)
def counted() -> Iterator[None]:
    """Counts memory from here on, without what modules take that are loaded when they are needed."""
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401
    import tailback.results
    import tailback.workload.lists  # noqa: F401

    tracemalloc.start()
    yield
    tracemalloc.stop()


# Scenarios

counts = st.sampled_from([0, 1, 2, 3, 31, 62, 63, 64, 1023, 1024, 65_535, 65_536, 10**6, 10**9, 10**18])
hosts = st.one_of(
    st.just("all"),
    st.sampled_from(["h0", "h0..h1", "h0..h65534", "s0n0..s999n63", "h0..h999999", "a0b0c0..a99b99c99"]),
    st.builds(lambda a, b: f"h{a}..h{b}", counts, counts),
)
sets = st.one_of(hosts, st.lists(hosts, max_size=3))
times = st.sampled_from(["0", "1ps", "1ns", "1us", "1ms", "1s", "36000s"])
sizes = st.sampled_from(["1B", "1KB", "1MB", "2GiB", "9999TB"])
topologies = st.one_of(
    st.fixed_dictionaries({"kind": st.just("star"), "hosts": counts}),
    st.fixed_dictionaries({"kind": st.just("dumbbell"), "left": counts, "right": counts}),
    st.fixed_dictionaries({"kind": st.just("fat-tree"), "k": counts}),
    st.fixed_dictionaries(
        {"kind": st.just("leaf-spine"), "leaves": counts, "spines": counts, "hosts_per_leaf": counts}
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("fat-tree-2level"),
            "hosts": counts,
            "leaves": counts,
            "oversubscription": st.sampled_from([1e-320, 0.001, 0.5, 1, 1000, 1e300]),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("rail-optimised"),
            "servers": counts,
            "nics": counts,
            "units": counts,
            "spines": counts,
        }
    ),
    st.builds(
        lambda ends, copies: {
            "kind": "graph",
            "switches": ["a", "b"],
            "links": [f"{end} {rest}".replace("N", str(i)) for i in range(copies) for end, rest in ends],
        },
        st.lists(
            st.tuples(
                st.sampled_from(["hN", "a", "hN..h65534", "gN..gN", "pNx0..pNx60000", "hN..h999999"]),
                st.sampled_from(["a", "b", "a 1Gbps", "a NGbps Nns", "a 100Gbps 1us 1e-6", "a x"]),
            ),
            min_size=1,
            max_size=4,
        ),
        st.sampled_from([1, 10, 300]),
    ),
)
items = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["write", "tcp", "write-latency", "churn"]), "from": sets, "to": sets},
        optional={"start": times, "message": sizes, "interval": times, "qps": counts},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("poisson"), "load": st.sampled_from([1e-300, 1e-6, 0.5, 2]), "hosts": sets},
        optional={"sizes": st.sampled_from(["websearch", "fb_hadoop", "nothing"]), "stop": times},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("incast"), "fan_in": counts, "message": sizes, "from": sets, "to": sets},
        optional={"interval": times, "load": st.sampled_from([1e-300, 0.5, 2]), "bursts": counts},
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["permutation", "all-to-all"]), "message": sizes, "hosts": sets},
        optional={"repeat": counts, "interval": times, "stagger": times},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("flows"), "list": st.lists(st.sampled_from(["h0 h1 1KB 1us", "x"]), max_size=3)}
    ),
)
scenarios = st.fixed_dictionaries(
    {
        "name": st.just("x"),
        "run": st.fixed_dictionaries({"duration": times}),
        "topology": topologies,
        "switch": st.sampled_from([{}, {"buffer": "1TB", "shared": "1MB"}]),
        "traffic": st.builds(
            lambda some, copies: some * copies,
            st.lists(items, min_size=1, max_size=3),
            st.sampled_from([1, 3, 300]),
        ),
        "failures": st.builds(
            lambda link, copies: [{"link": link.replace("N", str(i)), "at": "1us"} for i in range(copies)],
            st.sampled_from(["hN-sw0", "leefN-spine1", "h0-x", "N-N-N-N"]),
            st.sampled_from([0, 1, 500]),
        ),
    }
)


@examples
@given(scenarios)
def test_scenarios(data: dict[str, Any]) -> None:
    text = json.dumps(data)
    within(SCENARIO, len(text), lambda: loads(text))


pieces = st.lists(
    st.sampled_from(
        [
            *"{}[]:,-?&*!|>'\"%@`#\n\t\0\ufeff",
            ": ",
            "- ",
            "a: ",
            "a",
            "&a ",
            "*a",
            "? ",
            "|\n ",
            "!!str ",
            "  ",
        ]
    ),
    min_size=1,
    max_size=6,
).map("".join)


@examples
@given(pieces, st.sampled_from([1, 100, 20_000]), pieces)
def test_texts_that_repeat(piece: str, times: int, end: str) -> None:
    text = piece * times + end
    within(SCENARIO, len(text), lambda: loads(text))


# The HPCC simulator's files

words = st.one_of(
    st.sampled_from([*CONFIG_KEYS, "1000Gbps", "1us", "x", "1e300", "0.5"]),
    st.integers(0, 20).map(str),
    counts.map(str),
)


@pytest.mark.parametrize("reader", READERS)
@examples
@given(
    head=st.booleans(),
    some=st.lists(words, min_size=1, max_size=8).map(" ".join),
    times=st.sampled_from([1, 10, 5000]),
)
def test_hpcc_files(reader: str, head: bool, some: str, times: int) -> None:
    data = ((TEXTS[f"{reader}.txt"] if head else "") + f"{some}\n" * times).encode()
    within(HPCC, len(data), lambda: answer(reader, data))


@pytest.mark.parametrize("reader", READERS)
@examples
@given(index=st.integers(0, 20), count=counts)
def test_hpcc_files_that_promise_much(reader: str, index: int, count: int) -> None:
    tokens = TEXTS[f"{reader}.txt"].split()
    tokens[index % len(tokens)] = str(count)
    data = " ".join(tokens).encode()
    within(HPCC, len(data), lambda: answer(reader, data))


# Lists and distributions

lines = st.sampled_from(
    [
        "h0,h1,1KB,1us",
        "0,1,5,5",
        "src,dst,bytes,start",
        ",,,",
        '"',
        "h0,h1,1KB,1us,3",
        "\0",
        "x" * 300,
        "0 1 2",
    ]
)


@pytest.mark.parametrize("name", ["flows.csv", "flows.txt"])
@examples
@given(head=st.booleans(), some=st.lists(lines, min_size=1, max_size=5), times=st.sampled_from([1, 30, 3000]))
def test_flow_lists(
    name: str, head: bool, some: list[str], times: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = ("src,dst,bytes,start\n" if head else "") + "\n".join(some * times)
    folder = tmp_path_factory.mktemp("lists")
    (folder / name).write_text(data)
    scenario = folder / "s.yaml"
    scenario.write_text(
        "name: x\nrun: {duration: 1ms}\ntopology: {kind: star, hosts: 4}\n"
        f"traffic: [{{kind: flows, file: {name}}}]\n"
    )
    within(LIST, len(data), lambda: load(scenario))


@examples
@given(
    some=st.lists(
        st.sampled_from(["0 0", "1 5", "2000 100", "#", "x y", "1e308 1e308", "nan 1"]), min_size=1
    ),
    times=st.sampled_from([1, 30, 10_000]),
)
def test_distributions(some: list[str], times: int) -> None:
    data = "\n".join(some * times).encode()

    def read() -> None:
        try:
            parse(data, "sizes.txt")
        except ValueError as error:
            raise InputError.at("sizes.txt", str(error)) from None

    within(LIST, len(data), read)


# Folders of runs

values = st.one_of(
    st.none(),
    st.booleans(),
    counts,
    counts.map(lambda n: -n),
    st.floats(),
    st.just([]),
    st.just({}),
    st.just("x"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    tailback.run("first-flow", sets=["run.duration=100us"], out=out)
    return out


@pytest.mark.parametrize("name", ["summary.json", "plan.json", "counters.json", "timing.json"])
@examples
@given(seed=st.integers(0, 2**32), value=values, times=st.sampled_from([1, 1000]))
def test_folders_of_runs(name: str, seed: int, value: Any, times: int, folder: Path) -> None:
    """One value of a file is another, or many of them."""
    text = (folder / name).read_text()
    data = json.loads(text)
    dice, holder = random.Random(seed), data
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = dice.choice(list(keys))
        inner = holder[key]
        if not isinstance(inner, (dict, list)) or not inner or dice.random() < 0.2:
            break
        holder = inner
    holder[key] = value if times == 1 else [inner] * times
    changed = json.dumps(data)
    try:
        (folder / name).write_text(changed)
        size = sum(file.stat().st_size for file in folder.iterdir())
        within(RESULT, size, lambda: read_run(folder))
    finally:
        (folder / name).write_text(text)
