"""Scenario files: what they mean, and how they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tailback
import yaml
from jsonschema import Draft202012Validator
from tailback import library
from tailback.errors import InputError
from tailback.scenario import builtin_names, json_schema, load, loads
from tailback.scenario.controllers import BUILT_IN_CONTROLLERS
from tailback.scenario.warnings import warnings

OTHERS = ", ".join(name for name in BUILT_IN_CONTROLLERS if name != "dctcp")
MINIMAL = """\
name: mini
run: {duration: 1ms}
topology: {kind: star, hosts: 2}
traffic:
  - {kind: write, from: h0, to: h1}
"""


def problems(text: str | bytes, *sets: str) -> list[str]:
    """The lines that a scenario is refused with."""
    with pytest.raises(InputError) as error:
        loads(text, label="x.yaml", sets=sets)
    lines = str(error.value).split("\n")
    assert len(lines) == len(error.value.problems)
    return lines


def with_line(line: str) -> str:
    return MINIMAL + line + "\n"


def test_minimal_has_the_documented_defaults() -> None:
    scenario = loads(MINIMAL)
    assert scenario.run.duration == 10**9
    assert scenario.run.seed == 1
    assert scenario.topology.link.rate == 100 * 10**9
    assert scenario.host.mtu == 1024
    assert scenario.host.transport.ack_timeout == 4_096_000 << 14
    assert scenario.switch.buffer == 16_000_000
    assert scenario.switch.lossless == [3]
    assert scenario.switch.ecn is not None
    assert (scenario.switch.ecn.k_min, scenario.switch.ecn.k_max) == (150_000, 1_500_000)
    assert scenario.traffic[0].message == 65536


def test_all_problems_at_once_with_lines_and_names() -> None:
    text = """\
name: in valid
run: {duration: 5}
topology:
  kind: star
  hosts: 1
  lnik: {}
switch:
  buffer: 16XB
  ecn: {k_min: 2MB, k_max: 1MB}
traffic:
  - kind: write
    from: h5..h2
    retries: 3
  - kind: read
    from: h0
    to: h1
"""
    pattern = "letters, digits, '.', '_' and '-', at most 64, a letter or digit first"
    assert problems(text) == [
        f'x.yaml:1: name: found "in valid", expected {pattern}',
        "x.yaml:2: run.duration: found 5, expected a duration with a unit, such as 500ns",
        "x.yaml:5: topology.hosts: found 1, expected at least 2",
        "x.yaml:6: topology.lnik: found an unknown field, expected link (or another of kind, hosts)",
        'x.yaml:8: switch.buffer: found "16XB", expected a size with a unit, such as 150KB '
        "(units: B, KB, KiB, MB, MiB, GB, GiB, TB, TiB)",
        "x.yaml:9: switch.ecn.k_min: found 2MB, expected at most k_max, 1MB",
        'x.yaml:12: traffic.0.from: found "h5..h2", expected a range from the lower number to the higher',
        "x.yaml:11: traffic.0.to: found nothing, "
        "expected a value: receiving hosts: h0, h0..h15, all, or a list of these",
        "x.yaml:13: traffic.0.retries: found an unknown field, expected one of kind, from, to, "
        "start_interval, priority, dscp, congestion, qps, message, depth, messages, start, start_spread, "
        "stop, bidirectional",
        'x.yaml:14: traffic.1.kind: found "read", expected one of write, write-latency, churn, tcp, flows, '
        "poisson, incast, permutation, all-to-all, all-reduce, all-gather, reduce-scatter, broadcast, job, "
        "udp-flood, ping, xdp-frames",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("host: {mtu: 1500B}", 'host.mtu: found "1500B", expected one of 256B, 512B, 1024B, 2048B, 4096B'),
        ("host: {mtu: 1024}", "host.mtu: found 1024, expected a size with a unit, such as 150KB"),
        ("host: {transport: {retry_count: 8}}", "host.transport.retry_count: found 8, expected at most 7"),
        (
            "host: {transport: {ack_timeout: 0}}",
            "host.transport.ack_timeout: found 0, expected more than 0 and at most 549.755813888s",
        ),
        (
            "host: {transport: {ack_timeout: 1ms, nak_reaction: 2ms}}",
            "host.transport.nak_reaction: found 2ms, expected at most ack_timeout, 1ms",
        ),
        (
            "host: {congestion: dctc}",
            f'host.congestion: found "dctc", expected dctcp (or another of {OTHERS})',
        ),
        (
            "host: {dcqcn: {profile: connectx5}}",
            'host.dcqcn.profile: found "connectx5", expected connectx (or another of sigcomm15, alibaba)',
        ),
        (
            "host: {dcqcn: {rpg_hai: 3}}",
            "host.dcqcn.rpg_hai: found an unknown field, expected rpg_hai_rate (or another of",
        ),
        (
            "host: {dcqcn: {byte_reset_unit_bytes: 8}}",
            "host.dcqcn.byte_reset_unit_bytes: found 8, expected one of 1, 64",
        ),
        (
            "host: {dcqcn: {rpg_time_reset: 3.5}}",
            "host.dcqcn.rpg_time_reset: found 3.5, expected a whole number",
        ),
        ("host: {dcqcn: {clamp_tgt_rate: 2}}", "host.dcqcn.clamp_tgt_rate: found 2, expected true or false"),
        (
            "host: {dcqcn: {rpg_min_rate: 100001}}",
            "host.dcqcn.rpg_min_rate: found 100001, expected at most the link's rate, 100000 Mb/s",
        ),
        (
            "host: {dcqcn: {rpg_min_rate: 9, rpg_max_rate: 8}}",
            "host.dcqcn.rpg_min_rate: found 9, expected at most rpg_max_rate, 8 Mb/s",
        ),
        ("switch: {lossless: [8]}", "switch.lossless.0: found 8, expected at most 7"),
        ("switch: {lossless: [3, 3]}", 'switch.lossless: found "[3, 3]", expected every priority once'),
        ("switch: {lossless: 3}", "switch.lossless: found 3, expected a list"),
        ("switch: {ecn: {p_max: 1.5}}", "switch.ecn.p_max: found 1.5, expected a number, 0 to 1"),
        ("switch: {ecn: {p_max: .nan}}", "switch.ecn.p_max: found nan, expected a number, 0 to 1"),
        (
            "switch: {ecn: {k_min: {}}}",
            "switch.ecn.k_min: found an empty mapping, expected at least one rate",
        ),
        (
            "switch: {ecn: {k_min: {fast: 1KB}}}",
            'switch.ecn.k_min: found "fast", expected a rate with a unit, such as 100Gbps',
        ),
        (
            "switch: {ecn: {k_min: {100Gbps: 5}}}",
            "switch.ecn.k_min.100Gbps: found 5, expected a size with a unit, such as 150KB",
        ),
        (
            "switch: {ecn: {k_min: {100Gbps: 1KB, 0.1Tbps: 2KB}}}",
            'switch.ecn.k_min.0.1Tbps: found "2KB", expected every rate once',
        ),
        (
            "switch: {ecn: {k_min: {100Gbps: 2KB}, k_max: {100Gbps: 1KB}}}",
            "switch.ecn.k_min: found 2KB at 100Gbps, expected at most k_max, 1KB",
        ),
        (
            "switch: {ecn: {k_max: {40Gbps: 2MB}}}",
            "switch.ecn.k_max: found nothing for 100Gbps, expected a value for every rate of a link",
        ),
        ("switch: {ingress_alpha: 0}", "switch.ingress_alpha: found 0, expected more than 0.0"),
        ("switch: {ingress_alpha: true}", "switch.ingress_alpha: found true, expected a number"),
        (
            "switch: {pfc: {xoff: 100KB, xon: 100KB}}",
            "switch.pfc.xon: found 100KB, expected less than xoff, 100KB",
        ),
        ("switch: {pfc: {xoff: 2KiB}}", "switch.pfc.xon_offset: found 3KiB, expected at most xoff, 2KiB"),
        (
            "switch: {pfc: {xoff: 15.99MB}}",
            "switch.pfc.xoff: found 15.99MB, expected at most 15.911792MB, what is shared of the buffer",
        ),
        (
            "switch: {pfc: {headroom: lots}}",
            'switch.pfc.headroom: found "lots", expected a size with a unit, such as 150KB, or auto',
        ),
        (
            "switch: {pfc: {headroom: 8MB}}",
            "switch.buffer: found 16MB, expected more than 16MB: "
            "8MB of headroom for each of 2 ports and 1 lossless priority",
        ),
        (
            "switch: {shared: 15.95MB}",
            "switch.shared: found 15.95MB, expected at most 15.911792MB, the buffer without headroom",
        ),
        ("switch: {shared: 0}", "switch.shared: found 0, expected more than 0"),
        (
            "host: {transport: {ack_timeout: 1ms, adaptive_timeout: 2ms}}",
            "host.transport.adaptive_timeout: found 2ms, expected at most ack_timeout, 1ms",
        ),
        ("switch: no", 'switch: found "no", expected a mapping'),
        ("switch:", "switch: found null, expected a mapping"),
        ("record: {max_bins: 0x0F}", "record.max_bins: found 15, expected at least 16"),
        ("name: again", "name: found this field twice (first at x.yaml:1), expected it once"),
        (
            "1: x",
            "1: found an unknown field, expected one of "
            "name, about, run, qos, preset, topology, links, controllers, failures, host, switch, switches, bridge, veth, "
            "traffic, memory_load, record",
        ),
    ],
)
def test_one_problem(line: str, problem: str) -> None:
    found = problems(with_line(line))
    assert len(found) == 1
    # What the file does not have gets the line of what the file has nearest to it.
    assert found[0].startswith((f"x.yaml:6: {problem}", f"x.yaml:1: {problem}"))


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("from: h0, to: h2", 'traffic.0.to: found "h2", expected hosts of h0..h1'),
        ("from: h0..h9, to: h1", 'traffic.0.from: found "h0..h9", expected hosts of h0..h1'),
        ("from: h0, to: h0", 'traffic.0.to: found only the sender, "h0", expected another host'),
        (
            "from: sw0, to: h0",
            'traffic.0.from: found "sw0", expected hosts of h0..h1',
        ),
        ("from: [h0, h0..h1], to: h1", 'traffic.0.from: found "h0..h1", expected every host once'),
        ("from: [], to: h1", "traffic.0.from: found an empty list, expected at least one host"),
        ("from: h0..h99999, to: h1", 'traffic.0.from: found "h0..h99999", expected a range of at most 65535'),
        ("from: h00, to: h1", 'traffic.0.from: found "h00", expected hosts of h0..h1'),
        ("from: 0h, to: h1", 'traffic.0.from: found "0h", expected a host such as h0, a range such as'),
        ("from: h0..x1, to: h1", 'traffic.0.from: found "h0..x1", expected a range of two names that differ'),
        ("from: [all, h0], to: h1", 'traffic.0.from: found "all", expected every host once'),
        (
            "from: h0, to: h1, message: 1GiB, depth: 5",
            "traffic.0.depth: found 5, expected at most 4, with 1048576 packets a message",
        ),
        ("from: h0, to: h1, priority: -1", "traffic.0.priority: found -1, expected at least 0"),
        (
            "from: h0, to: h1, start: 5us, stop: 5us",
            "traffic.0.stop: found 5us, expected later than start, 5us",
        ),
        (
            "from: all, to: h0, start: 2us, start_interval: 2us, stop: 4us",
            "traffic.0.start_interval: found 2us, expected at most 1.999999us, so that every sender starts",
        ),
        ("from: h0, to: h1, start: 1ms", "traffic.0.start: found 1ms, expected less than run.duration, 1ms"),
        (
            "from: h0, to: h1, message: 3GiB",
            'traffic.0.message: found "3GiB", expected more than 0 and at most 2GiB',
        ),
        (
            "from: h0..h1, to: h0..h1, qps: 600000",
            "traffic: found 1200000 queue pairs, expected at most 1000000",
        ),
    ],
)
def test_traffic_problems(item: str, problem: str) -> None:
    text = MINIMAL.replace("from: h0, to: h1", item)
    assert len(found := problems(text)) == 1
    assert problem in found[0]


def test_all_conflicts_at_once() -> None:
    text = MINIMAL.replace("to: h1", "to: h7") + "switch: {buffer: 80KB}\n"
    assert [line.split(":")[1:3] for line in problems(text)] == [
        ["6", " switch.buffer"],
        ["5", " traffic.0.to"],
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "x.yaml:1: found null, expected a mapping"),
        ("- a", "x.yaml:1: found a list, expected a mapping"),
        ("a: [1", "x.yaml:1: not readable as YAML:"),
        ("a: 1\nb: : 2\n", "x.yaml:2: not readable as YAML:"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: not readable as YAML:"),
        (b"a: 1\nb: \xff\n", "x.yaml:2: found bytes that are not UTF-8, expected text"),
        ("a: 1\nb: \x00\n", "x.yaml:2: not readable as YAML: the character"),
        ("a: !!python/object:os.system x", 'x.yaml:1: a: found "x" with the tag'),
        ("a: !!set {x}", "x.yaml:1: a: found the tag"),
        ("a: *b", "x.yaml:1: not readable as YAML: found undefined alias"),
        ("a: &a [*a]", "x.yaml:1: a.0: found an alias inside of what it stands for, expected no recursion"),
        ("? [a]\n: b", "x.yaml:1: found a list or a mapping as a field name, expected text"),
        ("[" * 5000, "x.yaml:1: not readable as YAML: nesting deeper than 32"),
        ("- " * 5000, "x.yaml:1: not readable as YAML: nesting deeper than 32"),
        ("a" * 2_000_000, "x.yaml: found more than 1MiB, expected at most that"),
        ('a: "\\U99999999"', "x.yaml:1: not readable as YAML:"),
    ],
)
def test_not_a_scenario(text: str | bytes, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_billion_laughs() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (found,) = problems("\n".join(lines))
    assert "found more than 100000 values (aliases expanded), expected at most that many" in found


def test_anchors_are_fine() -> None:
    text = MINIMAL.replace("{kind: write, from: h0, to: h1}", "&w {kind: write, from: h0, to: h1}\n  - *w")
    scenario = loads(text)
    assert scenario.traffic[0] == scenario.traffic[1]


def test_yaml_scalars_are_those_of_1_2() -> None:
    assert loads(with_line("about: no")).about == "no"
    assert loads(with_line("about: 2020-01-01")).about == "2020-01-01"
    assert loads(with_line("record: {qps: 010}")).record.qps == 10
    assert loads(with_line("about: !!str 5")).about == "5"
    assert loads(with_line("switch: {ingress_alpha: 5e-1}")).switch.ingress_alpha == 0.5
    assert "found 12:30" not in problems(with_line("record: {qps: 12:30}"))[0]
    assert 'found "12:30", expected a whole number' in problems(with_line("record: {qps: 12:30}"))[0]


def test_set_wins_and_is_named() -> None:
    scenario = loads(
        MINIMAL,
        sets=[
            "traffic.0.qps=8",
            "traffic.0.qps=512",
            "switch.ecn.k_min=10KB",
            "host.dcqcn={profile: alibaba}",
        ],
    )
    assert scenario.traffic[0].qps == 512
    assert scenario.switch.ecn is not None
    assert scenario.switch.ecn.k_min == 10_000
    assert scenario.host.dcqcn.profile == "alibaba"
    assert loads(MINIMAL, sets=["switch.ecn=null"]).switch.ecn is None
    assert loads(MINIMAL, sets=["traffic.0.from=[h0, h1]"]).traffic[0].from_ == ("h0", "h1")


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("traffic.0.qps=no", '--set traffic.0.qps: found "no", expected a whole number'),
        ("traffic.0.qsp=1", "--set traffic.0.qsp: found an unknown field, expected qps (or another of"),
        ("traffic.1.qps=1", "--set traffic.1.qps: found 1 below traffic, expected an index of 0 to 0"),
        ("traffic.x=1", '--set traffic.x: found "x" below traffic, expected an index of 0 to 0'),
        ("name.x=1", '--set name.x: found "mini" at name, expected a mapping or a list'),
        ("run={duration: 1ms", "--set run: not readable as YAML:"),
        (
            "run={duration: 1ms, sed: 1}",
            "--set run.sed: found an unknown field, expected seed (or another of duration, "
            "ecmp_by_seed, clock_ppm, skip, skip_error, until)",
        ),
        ("run.seed", '--set: found "run.seed", expected path=value, such as traffic.0.qps=512'),
        ("=1", '--set: found "=1", expected path=value, such as traffic.0.qps=512'),
        ("..=1", '--set: found "..=1", expected path=value, such as traffic.0.qps=512'),
        ("swich.ecn.k_min=1B", "--set swich: found an unknown field, expected switch (or another of"),
        ("topology.hosts=1", "--set topology.hosts: found 1, expected at least 2"),
        ("switch.pfc.headroom=9MB", "--set switch.buffer: found 16MB, expected more than 18MB"),
        ("traffic=[]", "--set traffic: found 0, expected a list of at least 1"),
    ],
)
def test_set_problems(setting: str, problem: str) -> None:
    found = problems(MINIMAL, setting)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_problems_of_sets_and_file_together() -> None:
    found = problems(MINIMAL.replace("1ms", "1mm"), "name.x=1", "record.qps=-1")
    assert [line.split(" found")[0] for line in found] == [
        "--set name.x:",
        "x.yaml:2: run.duration:",
        "--set record.qps:",
    ]


def test_seed() -> None:
    assert loads(MINIMAL, seed=7).run.seed == 7
    with pytest.raises(InputError, match=r"^--seed run\.seed: found -1, expected at least 0$"):
        loads(MINIMAL, seed=-1)


def test_from_python() -> None:
    data: dict[str, Any] = yaml.safe_load(MINIMAL)
    assert load(data) == loads(MINIMAL)
    data["traffic"] = tuple(data["traffic"])
    assert load(data) == loads(MINIMAL)
    data["run"]["duration"] = 1000
    data["host"] = {"mtu": object(), 3: 4}
    with pytest.raises(InputError) as error:
        load(data)
    assert str(error.value).split("\n") == [
        "host: found the field name 3, expected text",
        "host.mtu: found a Python object, expected text, a number, a list or a mapping",
    ]


def test_a_python_mapping_that_holds_itself() -> None:
    data: dict[str, Any] = {"name": "x"}
    data["run"] = data
    with pytest.raises(InputError, match="levels"):
        load(data)


def test_a_scenario_can_be_changed_again() -> None:
    scenario = load(loads(MINIMAL, label="x.yaml"), sets=["traffic.0.qps=3"], seed=9)
    assert (scenario.traffic[0].qps, scenario.run.seed) == (3, 9)
    assert scenario.origins["run", "duration"] == "x.yaml:2"
    assert scenario.origins["traffic", 0, "qps"] == "--set"


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MINIMAL)
    assert load(file) == load(str(file)) == loads(MINIMAL)
    for source, problem in [
        (tmp_path / "other.yaml", "no such file"),
        (tmp_path, "found a directory, expected a regular file of at most 1MiB"),
        ("a\0b", "a name that no file can have"),
        ("x" * 5000, "file name too long"),
        (3, "found 3, expected a name"),
    ]:
        with pytest.raises(InputError, match=problem) as error:
            load(source)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"perhaps roce-incast-lossy$"):
        load("roce-incast-losy")


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_scenarios(name: str) -> None:
    scenario = load(name)
    assert scenario.name == name
    assert scenario.about
    Draft202012Validator(json_schema()).validate(yaml.safe_load(library.text(name)))


def test_the_incasts_are_those_of_the_paper() -> None:
    lossless, lossy, many = (load(f"roce-incast-{kind}") for kind in ("lossless", "lossy", "lossy-512"))
    assert (lossless.switch.lossless, lossy.switch.lossless, many.switch.lossless) == ([3], [], [])
    assert (lossless.traffic[0].qps, lossy.traffic[0].qps, many.traffic[0].qps) == (64, 64, 512)
    for scenario in (lossless, lossy, many):
        assert scenario.run.duration >= 2 * 10**12
        assert scenario.topology.hosts == 17
        assert scenario.traffic[0].message == 1024
        assert scenario.traffic[0].start_interval == 25 * 10**10


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        # A field that is wrong hides neither another section's conflict nor an order of its own section.
        (["host.mtu=1", "traffic.0.to=h99"], ["host.mtu", "traffic.0.to"]),
        (["switch.ecn.k_min=2MB", "switch.ecn.p_max=3"], ["switch.ecn.p_max", "switch.ecn.k_min"]),
        (
            ["switch.ecn.k_min=2MB", "traffic.0.to=h99", "switch.pfc.headroom=20MB"],
            ["switch.ecn.k_min", "switch.buffer", "traffic.0.to"],
        ),
        # What only follows from the default that takes a refused value's place is not said.
        (["topology.hosts=1"], ["topology.hosts"]),
        (["switch.ecn.k_max=x", "switch.ecn.k_min=2MB"], ["switch.ecn.k_max"]),
    ],
)
def test_one_mistake_hides_no_other(sets: list[str], expected: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        load("roce-incast-lossless", sets=sets)
    assert [".".join(map(str, problem.path)) for problem in refused.value.problems] == expected


TRAFFIC_WITH_ENDS = {
    "write": "",
    "write-latency": "",
    "tcp": "",
    "churn": ", interval: 1ms",
    "incast": ", fan_in: 2, message: 10KB, interval: 100us",
}


@pytest.mark.parametrize("kind", TRAFFIC_WITH_ENDS)
@pytest.mark.parametrize(
    ("ends", "named"),
    [
        ("from: h0..h3, to: h0", "from names h0, the only host in to"),
        ("from: [h1, h2, h0], to: h0", "from names h0, the only host in to"),
        ("from: h0..h3, to: h4", None),
        ("from: h0..h3, to: [h0, h4]", None),
        ("from: all, to: h0", None),
        ("from: all, to: all", None),
    ],
)
def test_a_host_that_could_only_send_to_itself_is_said(kind: str, ends: str, named: str | None) -> None:
    scenario = loads(
        "name: ends\nrun: {duration: 5ms}\ntopology: {kind: star, hosts: 5}\n"
        f"traffic: [{{kind: {kind}, {ends}{TRAFFIC_WITH_ENDS[kind]}}}]\n"
    )
    said = [one for one in warnings(scenario) if "no host sends to itself" in one]
    assert (f"traffic.0.{named}" in said[0]) if named else said == []
    senders = {flow["src"] for flow in tailback.run(scenario).flows.select(["src"]).to_pylist()}
    if named and kind != "write-latency":
        assert "h0" not in senders
    assert senders
