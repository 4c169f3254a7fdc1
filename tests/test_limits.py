"""Little that asks for much is refused before anything is made of it, in one line that names the limit."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import limited
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tailback
from hpcc_files import CONFIG, TOPOLOGY, refusal, write
from tailback import cli, limits
from tailback.errors import InputError
from tailback.files import FileRefusedError, read_file
from tailback.scenario import load, loads

HEAD = "name: x\nrun: {duration: 100us}\n"
WRITE = "traffic: [{kind: write, from: h0, to: h1}]\n"
STAR = "topology: {kind: star, hosts: 2}\n"
LARGEST = "topology: {kind: fat-tree, k: 62}\n"
"""59,582 hosts, which take 1.2 CPU-seconds and 160 MiB."""


def refused(text: str, folder: Path | None = None) -> str:
    """The one line that a scenario is refused with."""
    if folder is not None:
        (folder / "s.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        _ = loads(text) if folder is None else load(folder / "s.yaml")
    (problem,) = caught.value.problems
    return str(problem)


# What is no file that can be meant


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    # A socket's name has 108 bytes at most, and a temporary folder may have more.
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)


@contextmanager
def chdir(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(20 << 30)


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "directory": (_directory, "a directory"),
    "pipe": (_pipe, "a pipe"),
    "socket": (_socket, "a socket"),
    "device": (_device, "a device"),
    "hole": (_hole, "20GiB"),
}
SCENARIOS = {
    "flows.csv": f"{HEAD}{STAR}traffic: [{{kind: flows, file: flows.csv}}]\n",
    "flows.parquet": f"{HEAD}{STAR}traffic: [{{kind: flows, file: flows.parquet}}]\n",
    "flow.txt": f"{HEAD}{STAR}traffic: [{{kind: flows, file: flow.txt}}]\n",
    "sizes.txt": f"{HEAD}{STAR}traffic: [{{kind: poisson, load: 0.1, sizes: sizes.txt}}]\n",
    "net.yaml": f"{HEAD}topology: {{kind: file, path: net.yaml}}\n{WRITE}",
    "topology.txt": f"{HEAD}topology: {{kind: file, path: topology.txt}}\n{WRITE}",
}


@pytest.fixture(scope="module")
def folder_of_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    tailback.run("first-flow", sets=["run.duration=100us"], out=folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_no_reader_takes_what_is_no_file(
    kind: str, tmp_path: Path, folder_of_a_run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make, words = KINDS[kind]
    commands: list[tuple[str, list[str]]] = []
    make(tmp_path / "scenario.yaml")
    commands.append(("scenario", ["run", str(tmp_path / "scenario.yaml")]))
    for name, text in SCENARIOS.items():
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / "s.yaml").write_text(text)
        make(folder / name)
        commands.append((name, ["show", str(folder / "s.yaml")]))
    for name in ("config", "topology", "flow", "trace"):
        folder = tmp_path / f"hpcc-{name}"
        write(folder, **{name: None})
        make(folder / f"{name}.txt")
        commands.append((name, ["hpcc", str(folder / "config.txt")]))
    for file in sorted(folder_of_a_run.iterdir()):
        if file.name != "report.html":
            folder = tmp_path / f"run-{file.name}"
            shutil.copytree(folder_of_a_run, folder)
            (folder / file.name).unlink()
            make(folder / file.name)
            commands.append((file.name, ["explain", str(folder)]))
    for what, command in commands:
        assert cli.main(command) == cli.BAD_INPUT, what
        out, err = capfd.readouterr()
        assert out == "", what
        assert err.count("\n") == 1, (what, err)
        if command[0] == "explain":
            assert "expected the folder of a run" in err, (what, err)
            assert kind != "hole" or f"found {words}, expected a regular file of at most" in err, (what, err)
        else:
            assert re.search(rf"\b{words}\b", err), (what, err)
            assert "a regular file of at most" in err, (what, err)


def test_a_file_that_knows_no_size_is_read_to_its_limit(tmp_path: Path) -> None:
    with pytest.raises(FileRefusedError, match="found more than 10B, expected a regular file of at most 10B"):
        read_file("/proc/self/status", 10)
    (tmp_path / "ten").write_bytes(b"0123456789")
    assert read_file(tmp_path / "ten", 10) == b"0123456789"
    with pytest.raises(FileRefusedError, match="found 10B, expected a regular file of at most 9B"):
        read_file(tmp_path / "ten", 9)


# What a few words ask for

ranges = ", ".join(f"p{i}x0..p{i}x60000 a" for i in range(1000))
many = "".join(
    f"  - {{kind: write, from: [h0..h{29_998 - i}, h30000..h{59_998 - i}], to: h0}}\n" for i in range(900)
)
EXPANDED = {
    "ranges of links": (
        f"{HEAD}topology: {{kind: graph, switches: [a], links: [{ranges}]}}\n{WRITE}",
        "more than 262144 links",
    ),
    "ranges of senders": (f"{HEAD}{LARGEST}traffic:\n{many}", "at most 2097152 hosts named in all"),
    "all": (
        f"{HEAD}{LARGEST}traffic:\n" + "  - {kind: write, from: all, to: all}\n" * 900,
        "at most 2097152 hosts named in all",
    ),
    "rails": (
        f"{HEAD}topology: {{kind: rail-optimised, servers: 1023, nics: 64, units: 1023, spines: 1000}}\n"
        "traffic: [{kind: write, from: s0n0, to: s0n1}]\n",
        "found 65537472 links in all, expected at most 262144",
    ),
    "leaves and spines": (
        f"{HEAD}topology: {{kind: leaf-spine, leaves: 1024, spines: 1023, hosts_per_leaf: 1}}\n{WRITE}",
        "found 1048576 links in all, expected at most 262144",
    ),
    "two levels": (
        f"{HEAD}topology: {{kind: fat-tree-2level, hosts: 1024, leaves: 1024, oversubscription: 0.001}}\n"
        f"{WRITE}",
        "found 1025024 links in all, expected at most 262144",
    ),
}
LOAD = """
import json, sys
from tailback.errors import InputError
from tailback.scenario import loads
from tailback.plan import make_plan
try:
    scenario = loads(sys.argv[1])
    said = [str(len(make_plan(scenario)["flows"]["list"]))]
except InputError as error:
    said = [str(problem) for problem in error.problems]
"""


@pytest.mark.parametrize("case", EXPANDED)
def test_what_is_written_short_is_counted_before_it_is_expanded(case: str) -> None:
    text, words = EXPANDED[case]
    took = limited.run(LOAD, text)
    assert any(words in line for line in took.said), took.said[:3]
    assert took.peak_mib < 500  # the largest network there may be takes 160 MiB; this was 4.2 GB
    assert took.cpu_s < 30


def test_misspelt_links_are_not_each_compared_with_all() -> None:
    failures = "".join(f"  - {{link: leef{i}-spine1, at: 1us}}\n" for i in range(1000))
    fabric = "topology: {kind: leaf-spine, leaves: 100, spines: 100, hosts_per_leaf: 10}\n"
    took = limited.run(LOAD, f"{HEAD}{fabric}failures:\n{failures}{WRITE}")
    assert len(took.said) == limits.MAX_PROBLEMS + 1
    assert took.said[0].endswith('found "leef0-spine1", expected a link of the network, such as leaf0-spine1')
    assert took.said[-1] == "found more problems than these 100, expected none"
    assert took.cpu_s < 20  # was 166


def test_messages_on_very_unequal_links() -> None:
    text = (
        "name: x\nrun: {duration: 10ms}\nswitch: {buffer: 1GB, shared: 1MB}\n"
        "topology: {kind: graph, switches: [a], links: [h0..h1999 a 1Gbps, g0 a 10Tbps]}\n"
        "traffic: [{kind: poisson, load: 0.1, sizes: fb_hadoop}]\n"
    )
    took = limited.run(LOAD, text)
    assert int(took.said[0]) > 10_000
    assert took.peak_mib < 500  # one array was 6.6 GB


# What ended in a traceback


def test_a_long_text() -> None:
    line = refused(f"{HEAD}about: {'x' * 2001}\n{STAR}{WRITE}")
    assert line == "<text>:3: about: found 2001, expected text of at most 2000"


@pytest.mark.parametrize("points", ["0 100\n1 100\n", "0 0\n1e-300 100\n1 100\n", "0 0\n0 99.9999\n1 100\n"])
def test_sizes_without_a_byte(points: str, tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text(points)
    line = refused(SCENARIOS["sizes.txt"], tmp_path)
    assert "sizes.txt: found a mean of" in line
    assert line.endswith("expected 1 or more")


@pytest.mark.parametrize("share", ["1e-320", "1e-300", "0.0009"])
def test_an_oversubscription_that_nobody_can_build(share: str) -> None:
    tree = f"topology: {{kind: fat-tree-2level, hosts: 4, leaves: 2, oversubscription: {share}}}\n"
    assert refused(f"{HEAD}{tree}{WRITE}").endswith("expected at least 0.001")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ('{"wall_s": 1, "wall_s": 2}', "'wall_s' twice in one mapping"),
        ('{"wall_s": NaN}', "NaN, which is no number"),
        ('{"wall_s": -Infinity}', "-Infinity, which is no number"),
        ('{"wall_s": %s}' % ("9" * 5000), "Exceeds the limit"),
        ('{"wall_s": "\0"}', "Invalid control character"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["timing.json", "summary.json", "plan.json", "counters.json"])
def test_json_that_nobody_wrote(
    name: str, text: str, words: str, folder_of_a_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folder_of_a_run, folder)
    (folder / name).write_text(text, encoding="utf-8")
    assert cli.main(["explain", str(folder)]) == cli.BAD_INPUT
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{name}: " in err
    assert words in err


def _laughs() -> str:
    lines = ["about: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize("text", ["[" * 100_000, _laughs(), "a: b: c", "about: {x: 1", "\ta: 1", "a: \x00"])
def test_a_scenario_in_a_result_that_nobody_wrote(
    text: str, folder_of_a_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folder_of_a_run, folder)
    (folder / "scenario.yaml").write_text(text)
    assert cli.main(["counters", str(folder), "--as", "mlnx_qos"]) == cli.BAD_INPUT
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)


# Tables that unpack


def parquet(**columns: list[object] | pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def bombs() -> dict[str, tuple[bytes, str]]:
    rows = 3_000_000
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["h" * 4_000])
    return {
        "rows": (parquet(src=pa.array([0] * rows)), "found 3000000 rows, expected at most 1000000"),
        "columns": (
            parquet(**{f"c{i}": pa.array([0] * 300_000) for i in range(30)}),
            "found 9000000 values, expected at most 8000000",
        ),
        "one text many times": (parquet(src=same), "bytes of texts, expected at most 7"),
        "one long text": (
            parquet(src=["h" * 20_000_000]),
            "bytes of a few rows, expected at most",
        ),
        "a text that is no name": (
            parquet(src=["h" * 10_000]),
            "found a text of 10000 bytes in the column 'src', expected at most 4096",
        ),
        "zeros": (
            parquet(src=pa.array([bytes(10_000_000) + bytes([i]) for i in range(14)])),
            "bytes unpacked, expected at most ",
        ),
        "lists": (parquet(src=pa.array([[0] * 1_000_000])), "found lists in the column 'src'"),
    }


def test_parquet_files_that_unpack_to_far_more(tmp_path: Path) -> None:
    for name, (content, words) in bombs().items():
        assert len(content) < 100_000, name
        (tmp_path / "flows.parquet").write_bytes(content)
        line = refused(SCENARIOS["flows.parquet"], tmp_path)
        assert words in line, (name, line)


def test_lines_and_columns_of_a_csv(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("src,dst,bytes,start_ns\n" + "0,1,1,1\n" * 1_000_001)
    line = refused(SCENARIOS["flows.csv"], tmp_path)
    assert "found 1000002 lines, expected at most 1000000 messages" in line
    (tmp_path / "flows.csv").write_text("," * 500_000 + "\n1\n")
    assert "found 500001 columns, expected at most 8" in refused(SCENARIOS["flows.csv"], tmp_path)


def test_hosts_with_large_numbers_take_no_table_of_them(tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text("1\n7 9 3 100 1000 0.0\n")
    graph = "topology: {kind: graph, switches: [a], links: [a h7, a h9, a h99999999999]}\n"
    (tmp_path / "s.yaml").write_text(f"{HEAD}{graph}traffic: [{{kind: flows, file: flow.txt}}]\n")
    assert load(tmp_path / "s.yaml").network.hosts == ["h7", "h9", "h99999999999"]


def test_rates_of_hpcc_links(tmp_path: Path) -> None:
    links = "".join(f"0 2 {1000 + i}bps 1us 0\n" for i in range(257))
    write(tmp_path, topology=f"3 1 {257 + 2}\n2\n{links}{TOPOLOGY.split(chr(10), 2)[2]}", config=CONFIG)
    assert refusal(tmp_path) == (
        "topology.txt:259: token '1256bps': expected one of the rates above: "
        "there are 256 different ones, the most there may be"
    )


def test_bins_of_a_result(folder_of_a_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folder_of_a_run, folder)
    summary = json.loads((folder / "summary.json").read_text())
    summary["meta"]["end_ps"], summary["meta"]["bin_ps"] = 10**15, 1
    (folder / "summary.json").write_text(json.dumps(summary))
    assert cli.main(["explain", str(folder)]) == cli.BAD_INPUT
    assert "found 1000000000000000 bins, expected at most 1000000" in capfd.readouterr().err


def test_settings_on_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    for words in ("a." * 100_000 + "a=1", "a=" + "[" * 1000, f"a={'9' * 5000}"):
        assert cli.main(["show", "first-flow", "--set", words]) == cli.BAD_INPUT
        assert capfd.readouterr().err.count("\n") <= 3
    assert cli.main(["run", "first-flow", "--seeds", ",".join(["0..999"] * 5000)]) == cli.BAD_INPUT
    assert "at most 1000 seeds" in capfd.readouterr().err
