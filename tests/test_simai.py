"""`tailback simai`: equal to SimAI with ns-3 where that was run, to arithmetic by hand elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tailback
from simai_files import CONFIG, FIRST, LAYERS, topology, workload, write
from tailback.cli import main
from tailback.errors import InputError
from tailback.simai.inputs import SimaiOptions, load_inputs
from tailback.simai.outputs import END_TO_END_FILE, CollectiveTimes
from tailback.simai.run import run_simai

COLUMNS = (
    "layer_name,test1,fwd compute,wg compute,ig compute,fwd exposed comm,wg exposed comm,ig exposed comm,"
    "fwd total comm,algbw,busbw,wg total comm,algbw,busbw,ig total comm,algbw,busbw,workload finished at"
)
THEIRS = f"""{COLUMNS}
embedding_layer,test1,55.600000,0.001000,1.000000,89.501000,36.624000,0.000000,89.501000,10.911191,19.094584,\
36.625000,25.428602,25.428602,0.000000,-nan,0.000000,281.973000
attention,test1,5.560000,0.001000,1.200000,44.838000,0.000000,47.642000,44.838000,20.770832,18.174479,\
0.000000,-nan,0.000000,47.642000,39.096703,34.209614,281.973000
SUM,test1,61.160000,0.002000,2.200000,134.339000,36.624000,47.642000,134.339000,NONE,NONE,36.625000,NONE,\
NONE,47.642000,NONE,NONE
total exposed comm,218.611000,total comp,63.362000,total time,281.973000
"""
"""What SimAI (b5ff47c) with its ns-3 (c2bfbf4) wrote for the files of `simai_files`, AS_SEND_LAT=6."""


def ended(options: SimaiOptions) -> list[CollectiveTimes]:
    found: list[CollectiveTimes] = []
    run_simai(options, on_layer=found.append)
    return found


def refused(options: SimaiOptions) -> str:
    with pytest.raises(InputError) as caught:
        load_inputs(options)
    (problem,) = caught.value.problems
    return str(problem)


def test_its_table_is_that_of_simai_to_the_byte(tmp_path: Path) -> None:
    result = run_simai(write(tmp_path))
    assert result.outputs[END_TO_END_FILE].decode() == THEIRS
    assert result.complete
    assert result.faults == []
    lines = result.outputs["fct.txt"].decode().splitlines()
    # Two servers with 8 channels: 14, 7 and 7 steps of 8 ranks, and a ring of two ranks in 8 rails.
    assert len(lines) == 2 * 8 * 8 * (14 + 7 + 7) + 16 * 2
    assert sum(int(line.split()[4]) for line in lines) == 87_360_128


def test_groups_of_experts_as_simai_has_them(tmp_path: Path) -> None:
    first = FIRST.replace("group: 8 ep: 1", "group: 4 ep: 2")
    text = workload("moe -1 15560 ALLTOALL_EP 800000 1200 ALLTOALL_EP 800000 1 NONE 0 0", first=first)
    [forward, backward] = ended(write(tmp_path, text))
    # Rank 0 swaps 400,000 B with rank 4 of its server: the memory, the latency, 45 packets at 2,880 Gbit/s.
    assert forward.end_ns - forward.begin_ns == backward.end_ns - backward.begin_ns == 7246


def test_a_ring_takes_its_steps_one_behind_the_other(tmp_path: Path) -> None:
    # One packet of 4,096 B / 8 ranks / 8 channels; 40 ns of memory in odd cycles, 10 in others.
    text = workload("one -1 0 ALLGATHER 4096 0 NONE 0 0 NONE 0 0")
    took = {}
    for latency in (0, 6):
        [one] = ended(write(tmp_path / str(latency), text, send_lat=latency))
        took[latency] = one.end_ns - one.begin_ns
    assert took[6] - took[0] == 7 * 6000
    assert took[0] < 7 * 200


def test_a_larger_send_latency_is_warned_of_with_the_arithmetic(tmp_path: Path) -> None:
    [warning] = [one for one in load_inputs(write(tmp_path, send_lat=6000)).warnings if "SEND_LAT" in one]
    # 14 steps of the all-reduce, 7 of the all-gather and 7 of the reduce-scatter.
    assert "6000 x 1000 ns = 6 ms" in warning
    assert "28 x 6 ms = 168 ms, where 168 us is meant" in warning
    assert warning.endswith("AS_SEND_LAT=6 makes it 6 us")
    assert not any("SEND_LAT" in one for one in load_inputs(write(tmp_path, send_lat=0)).warnings)


def test_weight_gradients_are_not_waited_for_and_the_latest_goes_first(tmp_path: Path) -> None:
    layers = [f"l{number} -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 1000000 100" for number in range(3)]
    found = ended(write(tmp_path, workload(*layers)))
    assert [one.layer for one in found] == [2, 0, 1]
    assert found[0].begin_ns < found[2].begin_ns < found[1].begin_ns
    assert [one.waited_ns > 0 for one in found] == [False, True, False]


def test_what_is_computed_again(tmp_path: Path) -> None:
    first = FIRST.replace("s: 0 checkpoint_initiates: 0", "s: 1 0 checkpoint_initiates: 1 1")
    found = ended(write(tmp_path, workload(*LAYERS, first=first)))
    assert [(one.layer, one.part) for one in found] == [(0, 0), (1, 0), (0, 0), (1, 1), (0, 2)]


def test_pxn_goes_through_the_receivers_rail(tmp_path: Path) -> None:
    first = FIRST.replace("group: 8", "group: 16")
    text = workload("one -1 0 ALLREDUCE 400000 0 NONE 0 0 NONE 0 0", first=first)
    pairs = {}
    for pxn in (False, True):
        fct = run_simai(write(tmp_path / str(pxn), text, pxn=pxn)).outputs["fct.txt"].decode().split("\n")
        ends = [[int(word[4:6], 16) for word in line.split()[:2]] for line in fct if line]
        pairs[pxn] = {(a, b) for a, b in ends if a // 8 != b // 8}
        assert len(ends) == (16 + 2 * pxn) * 8 * 30
    assert all(a % 8 == b % 8 for a, b in pairs[True])
    assert not all(a % 8 == b % 8 for a, b in pairs[False])


def test_under_its_own_models_nothing_inside_of_a_server_is_in_the_fabric(tmp_path: Path) -> None:
    result = run_simai(write(tmp_path, native=True))
    assert result.complete
    assert result.flows.num_rows == 16 * 2
    assert "fct.txt" not in result.outputs
    theirs = run_simai(write(tmp_path))
    last = [float(one.outputs[END_TO_END_FILE].split(b",")[-1]) for one in (result, theirs)]
    assert last[0] == pytest.approx(last[1], rel=0.05)


def test_the_folder_is_a_run_and_repeats_itself(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run_simai(write(tmp_path, pxn=True), out=out)
    read = tailback.Result.load(out)
    assert read.summary == result.summary
    assert read.outputs[END_TO_END_FILE] == result.outputs[END_TO_END_FILE]
    assert (out / "report.html").is_file()
    assert read.explain().headline
    again = run_simai(
        SimaiOptions(out / "workload.txt", out / "topology.txt", out / "config.txt", send_lat=6, pxn=True)
    )
    assert again.outputs == result.outputs
    command = "AS_SEND_LAT=6 AS_PXN_ENABLE=1 tailback simai -w workload.txt -n topology.txt -c config.txt"
    assert command in (out / "report.html").read_text()
    # As it stands there, in a shell; the folder of the program is where this one's is.
    shell = f"PATH={Path(sys.executable).parent}:$PATH; {command} --out again --no-report --quiet"
    subprocess.run(shell.replace("; ", "; export PATH; ", 1), shell=True, check=True, cwd=out)
    assert (out / "again" / "fct.txt").read_bytes() == result.outputs["fct.txt"]


def test_layers_are_told_while_it_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = write(tmp_path)
    flags = ["-t", "1", "-w", str(options.workload), "-n", str(options.topology), "-c", str(options.config)]
    assert main(["simai", *flags, "--send-lat", "6", "--out", str(tmp_path / "o"), "--no-report"]) == 0
    out, err = capfd.readouterr()
    assert out.splitlines()[0] == (
        "0.145101 ms: layer 0 embedding_layer: fwd pass comm, all-reduce of 1048576 B in groups of 8 "
        "(tensor): 89.501 us, busbw 19.09 GB/s"
    )
    assert len([line for line in out.splitlines() if ": layer " in line]) == 4
    last = out.splitlines()[4:]
    assert last[0] == "*" * 25
    words = r"all passes finished at time: (\d+), id of first layer: embedding_layer"
    finished = re.fullmatch(words, last[1])
    table = (tmp_path / "o" / END_TO_END_FILE).read_text().splitlines()[-1].split(",")
    assert finished
    assert int(finished[1]) == round(float(table[-1]) * 1000)
    assert last[2:4] == ["All data sent from node 0 is 5460008", "All data received by node 0 is 5460008"]
    assert last[33].startswith("All data received by node 15 ")
    assert "AS_SEND_LAT" not in err  # below a microsecond it is what is meant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "w.txt:1: end of file: expected HYBRID_TRANSFORMER_FWD_IN_BCKWD and its keys"),
        ("MICRO\n1\n", "w.txt:1: token 'MICRO': expected HYBRID_TRANSFORMER_FWD_IN_BCKWD, the one policy"),
        (f"{FIRST}\n", "w.txt:1: end of file: expected the number of layers"),
        (
            f"{FIRST}\n1000000\na -1\n",
            "w.txt:2: token '1000000': expected the number of layers: 0 of 12 tokens",
        ),
        (
            workload("a -1 1 RING 4 1 NONE 0 1 NONE 0 1"),
            "w.txt:3: token 'RING': expected layer 0 (a): fwd collective, ALLREDUCE, ALLGATHER",
        ),
        (
            workload(*LAYERS, "b -1 1 NONE 0 -5 NONE 0 1 NONE 0 1"),
            "w.txt:5: token '-5': expected layer 2 (b): ig compute time in ns, a whole number from 0",
        ),
        (
            workload(*LAYERS, first=FIRST.replace("group: 8", "group: 5")),
            "expected a divisor of the topology's 16",
        ),
        (workload(*LAYERS, first=FIRST.replace("ep: 1", "ep: 3")), "ep: expected a divisor of 2"),
        (
            workload(*LAYERS, first=FIRST.replace("initiates: 0", "initiates: 1 1")),
            "w.txt:1: checkpoint_initiates: expected a checkpoint before layer 1",
        ),
        (workload(*LAYERS, first=FIRST.replace("ep:", "eq:")), "w.txt:1: token 'eq:': expected one of"),
    ],
)
def test_a_workload_that_is_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    options = write(tmp_path)
    Path(options.workload).write_text(text)
    assert expected in refused(options)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("28 8 2 10", "28 8 2 26", "of 5 tokens each follow the switches"),
        ("28 8 2 10", "28 7 2 10", "net:1: token '7': expected a divisor of the 16 GPUs"),
        (" H100", "", "net:"),
        ("16 17 18", "1 17 18", "net:2: token '1': expected ids of switches from 16 on"),
        ("2880Gbps", "fast", "net:3: token 'fast': expected a rate"),
    ],
)
def test_a_topology_that_is_refused(tmp_path: Path, before: str, after: str, expected: str) -> None:
    net = topology().replace(before, after, 1)
    assert expected in refused(write(tmp_path, net=net))


def test_a_group_of_one_rank_is_refused_with_its_line(tmp_path: Path) -> None:
    text = workload(LAYERS[0], "moe -1 15560 ALLTOALL_EP 800000 1200 NONE 0 1 NONE 0 0")
    assert refused(write(tmp_path, text)).endswith(
        "/w.txt:4: layer 1 (moe), fwd comm: expected a group of two or more ranks, found all-to-all in "
        "expert groups of 1 (model_parallel_NPU_group: 8, ep: 1, 16 GPUs)"
    )


def test_what_is_not_honoured_is_named(tmp_path: Path) -> None:
    text = workload(*LAYERS, first=FIRST.replace("pp: 1", "pp: 2"))
    result = run_simai(write(tmp_path, text, nvls=True, threads=4))
    assert {"--nvls (AS_NVLS_ENABLE)", "pp:", "-t"} <= set(result.setup.not_honoured)


def test_what_never_ends_there_is_warned_of(tmp_path: Path) -> None:
    text = workload(
        "tiny -1 1 BROADCAST 5 1 NONE 0 1 ALLGATHER 1 1",
        first=FIRST.replace(" ep: 1", "").replace(": 16", ": 8"),
    )
    options = write(tmp_path, text)
    found = "\n".join(load_inputs(options).warnings)
    for part in (
        "1 BROADCAST",
        "less than a byte",
        "ep: is not given",
        "all_gpus: is 8: the topology has 16",
    ):
        assert part in found
    assert run_simai(options).complete


def test_compare_sees_what_was_given(tmp_path: Path) -> None:
    folders: dict[str, Any] = {"one": {}, "late": {"send_lat": 60}, "pxn": {"pxn": True}}
    for name, options in folders.items():
        run_simai(write(tmp_path / f"{name}-in", **options), out=tmp_path / name, report=False)
    other = write(tmp_path / "two-in", workload(LAYERS[0].replace("1048576", "1048577"), LAYERS[1]))
    run_simai(other, out=tmp_path / "two", report=False)

    def differ(name: str) -> dict[str, list[str]]:
        result = tailback.compare(tmp_path / "one", tmp_path / name)
        return {one.name: one.values for one in result.settings_that_differ}

    assert differ("late") == {"AS_SEND_LAT": ["6", "60"]}
    assert differ("pxn") == {"AS_PXN_ENABLE": ["false", "true"]}
    assert list(differ("two")) == ["workload.txt"]


def test_explain_names_the_send_latency(tmp_path: Path) -> None:
    said = run_simai(write(tmp_path / "late", send_lat=6000)).explain()
    assert said.headline == "Nothing is the bottleneck: messages wait before they begin."
    assert "waited for the send latency before they began" in " ".join(said.reasons)
    assert "AS_SEND_LAT" in said.next
    assert "send latency" not in " ".join(run_simai(write(tmp_path / "soon", send_lat=0)).explain().reasons)


def test_two_links_to_the_fabric_are_refused_with_the_topology(tmp_path: Path) -> None:
    options = write(tmp_path, native=True)
    text = Path(options.topology).read_text()
    lines = text.splitlines()
    # GPU 0 gets a second link, to the switch of another rail.
    head = lines[0].split()
    head[4] = str(int(head[4]) + 1)
    Path(options.topology).write_text(
        "\n".join([" ".join(head), *lines[1:], "0 19 400Gbps 0.0005ms 0"]) + "\n"
    )
    with pytest.raises(InputError, match=r"/net: expected one link to the fabric for each host; 0 has more"):
        run_simai(options)


def test_a_collective_of_too_large_messages_is_refused_with_its_layer(tmp_path: Path) -> None:
    text = workload(LAYERS[0], "big -1 1 NONE 0 1 ALLREDUCE 1000000000000000000 1 NONE 0 1")
    expected = r"w\.txt: layer 1 \(big\), input gradient: expected messages of at most 4294967295 B, found"
    with pytest.raises(InputError, match=expected):
        run_simai(write(tmp_path, text))


@pytest.mark.parametrize(
    "of_more",
    [
        {"model_parallel_NPU_group: 8": "model_parallel_NPU_group: 32"},
        {"ep: 1": "ep: 64"},
        {"model_parallel_NPU_group: 8": "model_parallel_NPU_group: 1"},
    ],
)
def test_a_workload_for_more_gpus_is_told_as_that(tmp_path: Path, of_more: dict[str, str]) -> None:
    first = FIRST.replace("all_gpus: 16", "all_gpus: 9216")
    for old, new in of_more.items():
        first = first.replace(old, new)
    layer = "mlp -1 1 ALLREDUCE 1048576 1 NONE 0 1 ALLREDUCE_DP_EP 1000000 1"
    options = write(tmp_path, workload(layer, first=first.replace("ep: 1 ", "ep: 16 ")))
    with pytest.raises(InputError) as error:
        load_inputs(options)
    told = str(error.value)
    assert told.startswith(f"{options.workload}:1: all_gpus: found 9,216, but {options.topology} has 16 GPUs")
    assert "mlp" not in told


def test_a_key_of_a_fork_refuses_unless_ignored(tmp_path: Path) -> None:
    options = write(tmp_path, conf=f"{CONFIG}LB_MODE 9\n")
    with pytest.raises(InputError, match="LB_MODE: found 9, a key of ConWeave's fork"):
        load_inputs(options)
    assert "LB_MODE" in load_inputs(options, ignore=["LB_MODE"]).network.config.not_honoured()


@pytest.mark.parametrize("value", ["-5", "2000001", "6.5", "x", ""])
@pytest.mark.parametrize("way", ["option", "variable", "both", "file"])
def test_a_message_names_what_was_given(
    way: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = write(tmp_path)
    files = ["-w", str(options.workload), "-n", str(options.topology), "-c", str(options.config)]
    if way == "file":
        if not value.lstrip("-").isdigit():
            return
        with pytest.raises(InputError) as caught:
            load_inputs(replace(options, send_lat=int(value), given_as={"send_lat": "simai.json: send_lat"}))
        assert str(caught.value).startswith("simai.json: send_lat: expected 0 to 2000000, found ")
        return
    if way != "option":
        monkeypatch.setenv("AS_SEND_LAT", value if way == "variable" else "7")
    if way == "variable" and not value:
        return  # as if it were not set
    given = [f"--send-lat={value}"] if way != "variable" else []
    assert main(["simai", *files, *given, "--out", str(tmp_path / "o"), "-q"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ("--send-lat" in line) == (way != "variable")
    assert ("AS_SEND_LAT" in line) == (way == "variable")


@pytest.mark.parametrize(("option", "variable"), [("--pxn", "AS_PXN_ENABLE"), ("--nvls", "AS_NVLS_ENABLE")])
def test_a_variable_that_is_no_switch_is_named(
    option: str,
    variable: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = write(tmp_path)
    files = ["-w", str(options.workload), "-n", str(options.topology), "-c", str(options.config)]
    monkeypatch.setenv(variable, "banana")
    assert main(["simai", *files, "--out", str(tmp_path / "o"), "-q"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert variable in line
    assert option not in line
    monkeypatch.delenv(variable)
    assert main(["simai", *files, option, "--send-lat=6", "--out", str(tmp_path / "o"), "-q"]) == 0
    honoured = tailback.Result.load(tmp_path / "o").setup.not_honoured
    assert any(variable in key and option in key for key in honoured) == (option == "--nvls")
