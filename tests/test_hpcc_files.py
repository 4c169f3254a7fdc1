"""The HPCC simulator's files: what is read of them, what is refused and in which words."""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from fractions import Fraction
from pathlib import Path

import pytest
from hpcc_files import CONFIG, FLOW, TOPOLOGY, TRACE, refusal, without, write
from tailback.hpcc.config import read_config
from tailback.hpcc.flows import read_flows, read_trace
from tailback.hpcc.inputs import load_inputs
from tailback.hpcc.keys import CONFIG_KEYS
from tailback.hpcc.plan import make_plan, warnings
from tailback.hpcc.quantities import nanoseconds, rate_bps, time_ns
from tailback.hpcc.topology import Link, read_topology

CASES = Path(__file__).parent.parent / "crates" / "compat" / "tests" / "data" / "hpcc"


# Rates and times


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("100Gbps", 100 * 10**9),
        ("25Gb/s", 25 * 10**9),
        ("0.5Mb/s", 500_000),
        ("1GB/s", 8 * 10**9),
        ("1KiB/s", 8192),
        ("40kbps", 40_000),
        ("1000", 1000),
        (".5Kb/s", 500),
        ("1.0000000000000002Gb/s", 10**9),
        ("0Gbps", None),
        ("-1Gbps", None),
        ("100gbps", None),
        ("100", 100),
        ("1e3Mb/s", None),
        ("Gbps", None),
        (".", None),
        ("", None),
        ("99999999999999Gbps", None),
        ("1_0Gbps", None),
    ],
)
def test_rates(text: str, bps: int | None) -> None:
    assert rate_bps(text.encode()) == bps


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1000ns", 1000),
        ("0.001ms", 1000),
        ("1us", 1000),
        ("1500ps", 1),
        ("2", 2 * 10**9),
        ("0ns", 0),
        ("+3ns", 3),
        ("-3ns", None),
        ("3 ns", None),
        ("3min", None),
        ("1e3ns", None),
        ("99999999999s", None),
    ],
)
def test_times(text: str, ns: int | None) -> None:
    assert time_ns(text.encode()) == ns


def test_a_start_is_the_exact_double_rounded_down() -> None:
    assert nanoseconds(2.000000577) == 2_000_000_576
    assert nanoseconds(2.000007873) == 2_000_007_872
    draw = random.Random(7)
    for _ in range(2000):
        value = draw.uniform(0, 4)
        assert nanoseconds(value) == int(Fraction(value) * 10**9)


def test_line_breaks_and_trailing_text_do_not_matter() -> None:
    topology = read_topology("t", TOPOLOGY.replace("\n", " ").replace(" ", " \v\n\t\r\f ").encode())
    assert topology.switches == [2]
    assert topology.links == [Link(0, 2, 10**11, 1000, 0.0), Link(1, 2, 10**11, 1000, 0.0)]
    assert topology.is_host == [True, True, False]
    flows = read_flows("f", b"1 0 1 3\n100\n10000 2.0 ----- first column: source \xff\x00", topology)
    assert flows == [[0, 1, 3, 100, 10000, 2_000_000_000]]
    assert read_trace("x", b"2 0 77 the nodes") == [0, 77]


def test_the_last_of_two_keys_wins_and_defaults_are_that_simulators() -> None:
    config = read_config("c", b"CC_MODE 3 CC_MODE\n8 HAS_WIN 2 RP_TIMER 900.7")
    assert config["CC_MODE"] == 8
    assert config["HAS_WIN"] == 1
    assert config["RP_TIMER"] == 900
    assert config["MIN_RATE"] == 100_000_000
    assert config["SIMULATOR_STOP_TIME"] == 3.01
    assert config["BUFFER_SIZE"] == 16


def test_every_known_key_is_read() -> None:
    samples = {
        "rate": "1Gb/s",
        "link": "0 0 0",
        "map": "1 5 6",
        "shares": "1 5 0.5",
        "path": "x",
        "word": "x",
    }
    text = "\n".join(f"{name} {samples.get(key.kind, max(1, key.low))}" for name, key in CONFIG_KEYS.items())
    config = read_config("c", text.encode())
    assert set(config.values) == set(CONFIG_KEYS)
    assert config.warnings == []
    assert config["PMAX_MAP"] == {5: 0.5}


def test_unknown_keys_are_a_warning_each() -> None:
    config = read_config("c", b"FOO 3 4\ncc_mode 1 CC_MODE 3\n# note\n")
    assert config.warnings == [
        "c:1: warning: unknown key 'FOO', skipped",
        "c:2: warning: unknown key 'cc_mode', skipped, did you mean CC_MODE?",
        "c:3: warning: unknown key '#', skipped",
    ]
    assert config["CC_MODE"] == 3
    assert len(read_config("c", b"x\n" * 1000).warnings) == 21


def test_what_is_not_honoured_is_told_only_where_it_matters() -> None:
    quiet = read_config("c", b"ENABLE_TRACE 0 TRACE_FILE t FCT_OUTPUT_FILE fct.txt FAST_REACT 0 PINT_PROB 1")
    assert quiet.not_honoured() == {}
    loud = read_config("c", b"TRACE_FILE t FCT_OUTPUT_FILE out/f.txt FAST_REACT 0 CC_MODE 3 QLEN_MON_FILE q")
    assert set(loud.not_honoured()) == {"TRACE_FILE", "FCT_OUTPUT_FILE", "QLEN_MON_FILE"}


def test_names_are_looked_up_here_first_and_then_beside_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write(tmp_path / "a")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert len(load_inputs(config).flows) == 2
    (here / "flow.txt").write_text("0\n")
    inputs = load_inputs(config)
    assert inputs.flows == []
    (warning,) = inputs.warnings
    assert warning.endswith("flow.txt is in the working directory and, different, beside config.txt: "
                            "the first is taken")  # fmt: skip
    (here / "flow.txt").write_text(FLOW)
    assert load_inputs(config).warnings == []


def test_the_copies_repeat_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIG.replace("TOPOLOGY_FILE topology.txt", "TOPOLOGY_FILE\tmix/fat tree FLOW_FILE nowhere")
    text = text.replace("flow.txt", str(tmp_path / "abs.txt"))
    config = write(tmp_path / "a", config=text, topology=None, flow=None)
    (tmp_path / "a" / "mix").mkdir()
    (tmp_path / "a" / "mix" / "fat").write_text(TOPOLOGY)
    (tmp_path / "abs.txt").write_text(FLOW)
    inputs = load_inputs(config)
    assert inputs.name == "a"
    copy = tmp_path / "b"
    copy.mkdir()
    for name, data in inputs.files.items():
        (copy / name).write_bytes(data)
    assert "TOPOLOGY_FILE\ttopology.txt tree" in (copy / "config.txt").read_text()
    monkeypatch.chdir(copy)
    again = load_inputs("config.txt")
    assert make_plan(again) | {"name": ""} == make_plan(inputs) | {"name": ""}
    assert again.files == inputs.files


def test_hosts_pass_nothing_on() -> None:
    text = "4 1 3\n3\n0 1 1Gbps 1ns 0\n1 3 1Gbps 1ns 0\n2 3 1Gbps 1ns 0\n"
    topology = read_topology("t", text.encode())
    assert topology.connected(0, 1)
    assert topology.connected(1, 2)
    assert not topology.connected(0, 2)


def test_warnings_of_a_plan(tmp_path: Path) -> None:
    def told(config: str) -> list[str]:
        write(tmp_path, config=config)
        return [text.replace(f"{tmp_path}/", "") for text in warnings(load_inputs(tmp_path / "config.txt"))]

    assert told(CONFIG) == []
    (early,) = told(CONFIG + "SIMULATOR_STOP_TIME 2")
    assert early == "config.txt: warning: no flow starts before SIMULATOR_STOP_TIME"
    assert told(CONFIG + "HAS_WIN 1 CC_MODE 3") == []
    (divided,) = told(CONFIG + "CC_MODE 3")
    assert divided == (
        "config.txt:13: warning: CC_MODE 3 divides by the window, and HAS_WIN 0 has none: the result "
        "depends on the processor in that simulator"
    )
    (none,) = told(CONFIG + "CC_MODE 2")
    assert none == (
        "config.txt:18: warning: CC_MODE 2 is no congestion control in that simulator: "
        "hosts send at line rate"
    )
    assert told(CONFIG + "CC_MODE 0") == []
    write(
        tmp_path,
        config=CONFIG.replace("100000000000", "40000000000") + "HAS_WIN 1 CC_MODE 3",
        topology=TOPOLOGY.replace("100Gbps", "40Gbps"),
    )
    (unknown,) = warnings(load_inputs(tmp_path / "config.txt"))
    assert unknown.replace(f"{tmp_path}/", "") == (
        "config.txt: warning: HPCC's telemetry has no code for links of 40000000000 bit/s: "
        "as in that simulator, they count as 25 Gbit/s"
    )
    write(tmp_path, topology=TOPOLOGY.replace("1us", "1ms"))
    (short,) = warnings(load_inputs(tmp_path / "config.txt"))
    assert "the headroom of switch 2 is above BUFFER_SIZE" in short


def big(hosts: int, flows: int) -> tuple[str, str]:
    """Hosts at 600 switches in a ring with chords, and flows among them."""
    draw, switches = random.Random(1), 600
    links = [(host, hosts + host % switches) for host in range(hosts)]
    links += [(hosts + i, hosts + (i + 1 + j) % switches) for i in range(switches) for j in range(8)]
    topology = [
        f"{hosts + switches} {switches} {len(links)}",
        " ".join(map(str, range(hosts, hosts + switches))),
    ]
    topology += [f"{a} {b} 100Gbps 1000ns 0.000000" for a, b in links]
    lines = [str(flows)]
    for start in sorted(2 + draw.random() for _ in range(flows)):
        src = draw.randrange(hosts)
        dst = (src + 1 + draw.randrange(hosts - 1)) % hosts
        lines.append(f"{src} {dst} 3 100 {draw.randrange(1, 10**7)} {start:.9f}")
    return "\n".join(topology), "\n".join(lines)


@pytest.mark.parametrize("first", [0.0, 2.0, 1e6])
def test_starts_are_what_that_simulator_makes_of_them(first: float) -> None:
    topology, draw = read_topology("t", TOPOLOGY.encode()), random.Random(1)
    starts = sorted(first + draw.choice([draw.random(), 0.5, 3 * draw.random()]) for _ in range(500))
    lines = [f"{i % 2} {1 - i % 2} 3 {i} {i + 1} {at!r}" for i, at in enumerate(starts)]
    flows = read_flows("f", "\n".join(["500", *lines]).encode(), topology)
    assert flows == [[i % 2, 1 - i % 2, 3, i, i + 1, nanoseconds(at)] for i, at in enumerate(starts)]


def test_large_files_are_read_fast_and_in_little_memory() -> None:
    topology_text, flow_text = big(8192, 100_000)
    begin = time.process_time()
    topology = read_topology("t", topology_text.encode())
    flows = read_flows("f", flow_text.encode(), topology)
    took = time.process_time() - begin
    assert len(flows) == 100_000
    assert took < 3  # a third of a second on an idle machine
    tracemalloc.start()
    read_flows("f", flow_text.encode(), topology)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * len(flow_text)


def test_a_fifo_is_refused(tmp_path: Path) -> None:
    write(tmp_path, flow=None)
    os.mkfifo(tmp_path / "flow.txt")
    assert "expected a regular file of at most 128MiB, found a pipe" in refusal(tmp_path)


def test_trace_is_optional(tmp_path: Path) -> None:
    write(tmp_path, config=without("TRACE_FILE"), trace=None)
    assert set(load_inputs(tmp_path / "config.txt").files) == {"config.txt", "topology.txt", "flow.txt"}
    assert read_trace("x", TRACE.encode()) == [0]
