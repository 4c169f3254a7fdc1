"""Files of other simulators that look like the HPCC simulator's are named, and not run as something else."""

from __future__ import annotations

from pathlib import Path

import hpcc_files
import pytest
import tailback
import tailback.cli as cli
from tailback.errors import InputError
from tailback.hpcc.inputs import load_inputs
from tailback.results import Result

CASE = Path(__file__).parent.parent / "crates" / "compat" / "tests" / "data" / "hpcc" / "single_flow"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a case of the HPCC simulator, as the working directory."""
    for name in ("config.txt", "topology.txt", "flow.txt", "trace.txt"):
        (tmp_path / name).write_bytes((CASE / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*more: str) -> int:
    return cli.main(["hpcc", "config.txt", "-q", "--no-report", "--out", "x", "--force", *more])


@pytest.mark.parametrize(
    ("key", "other", "same"),
    [
        ("LB_MODE", "9", "0"),
        ("ENABLE_IRN", "1", "0"),
        ("ENABLE_PFC", "0", "1"),
        ("PACKET_LEVEL_ECMP", "1", "0"),
    ],
)
def test_keys_of_forks_refuse_unless_ignored(
    key: str, other: str, same: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = (files / "config.txt").read_text()
    (files / "config.txt").write_text(f"{config}\n{key} {same}\n")
    assert run() == 0
    assert key not in capsys.readouterr().err
    (files / "config.txt").write_text(f"{config}\n{key} {other}\n")
    assert run() == 2
    told = capsys.readouterr().err
    assert f"{key}: found {other}, a key of" in told
    assert "did you mean" not in told
    assert run("--ignore", key) == 0
    assert cli.main(["report", "x"]) == 0, "what was ignored is no fault of the folder"
    with pytest.raises(tailback.InputError, match=key):
        tailback.run_hpcc("config.txt", report=False)
    assert tailback.run_hpcc("config.txt", ignore=[key], report=False).flows.num_rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("1\n0 1 3 1000 2 9\n", "as ns3-rdma, DCQCN's simulator, has it"),
        ("2\n0 1 3 5000 2.0\n1 0 3 5000 2.0\n", "as ConWeave's fork has flows"),
        # Files end in words about themselves, which are not read.
        (
            "1\n0 1 3 1000 2 9\n\nFirst line: flow #\nsrc dst pg maxPacketCount start_time end_time\n",
            "as ns3-rdma, DCQCN's simulator, has it",
        ),
        ("1\n0 1 3 5000 2.0\n\nsrc0 dst0 3 size0 start_time0 and so on\n", "as ConWeave's fork has flows"),
    ],
)
def test_rows_of_another_form_are_named(
    rows: str, words: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "flow.txt").write_text(rows)
    assert run() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("flow.txt:2: ")
    assert words in line


def test_a_header_of_four_numbers_is_named(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, rest = (files / "topology.txt").read_text().partition("\n")
    nodes, switches, links = first.split()
    (files / "topology.txt").write_text(f"{nodes} {switches} {switches} {links}\n{rest}")
    assert run() == 2
    assert "topology.txt:1: found four numbers, as PowerTCP's fork has them" in capsys.readouterr().err


def test_a_trace_that_nobody_reads_may_be_missing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    first = (files / "x" / "fct.txt").read_bytes()
    (files / "trace.txt").unlink()
    assert run() == 0
    assert "nothing here reads it" in capsys.readouterr().err
    assert (files / "x" / "fct.txt").read_bytes() == first
    assert cli.main(["report", "x"]) == 0


def test_rows_of_another_form_are_named_in_a_scenario(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "flow.txt").write_text("1\n0 1 3 1000 2 9\n")
    (files / "s.yaml").write_text(
        "name: s\nrun: {duration: 1ms}\ntopology: {kind: star, hosts: 2}\n"
        "traffic:\n  - {kind: flows, file: flow.txt}\n"
    )
    assert cli.main(["run", "s.yaml", "-q", "--no-report", "--out", "x"]) == 2
    told = capsys.readouterr().err
    assert "flow.txt:2: found a row as ns3-rdma, DCQCN's simulator, has it" in told
    assert "--ignore" not in told
    assert not (files / "x").exists()


def test_line_breaks_of_a_topology_do_not_matter(files: Path) -> None:
    assert run() == 0
    first = (files / "x" / "fct.txt").read_bytes()
    one, two, rest = (files / "topology.txt").read_text().split("\n", 2)
    (files / "topology.txt").write_text(f"{one} {two}\n{rest}")
    assert len(f"{one} {two}".split()) == 4
    assert run() == 0
    assert (files / "x" / "fct.txt").read_bytes() == first


@pytest.mark.parametrize("comment", ["", "# a tree\n"])
def test_a_topology_of_htsim_is_named(comment: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "topology.txt").write_text(f"{comment}Nodes 4\nTiers 2\nPodsize 4\nTier 0\n")
    assert run() == 2
    assert "topology.txt:1: found a topology of htsim" in capsys.readouterr().err


def test_what_a_fork_has_without_a_key_is_said(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = (files / "config.txt").read_text()
    same = (
        "LB_MODE 0\nENABLE_PFC 1\nENABLE_IRN 0\nCONWEAVE_TX_EXPIRY_TIME 1000\nSW_MONITORING_INTERVAL 10000\n"
    )
    (files / "config.txt").write_text(f"{config}\n{same}")
    assert run() == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "ConWeave" in line]
    assert len(told) == 1
    assert "retransmission timer" in told[0]


def test_a_key_that_no_fork_has_cannot_be_ignored(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--ignore", "LB_MODE") == 0, "another file of the same user may have it"
    capsys.readouterr()
    assert run("--ignore", "LB_MOD") == 2
    assert capsys.readouterr().err.startswith("--ignore LB_MOD: expected FLOW_FILE, or a key of a fork")


def test_rows_beyond_the_count_are_said_to_be_unread(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow, topology = (files / "flow.txt").read_text(), (files / "topology.txt").read_text()
    assert run() == 0
    assert "not read" not in capsys.readouterr().err
    words = flow.split()
    count, row = int(words[0]), " ".join(words[1:7])
    rows = "".join(" ".join(words[at : at + 6]) + "\n" for at in range(1, 1 + 6 * count, 6))
    (files / "flow.txt").write_text(f"{count}\n{rows}\n{row}\n{row}\n")
    assert run() == 0
    said = f"flow.txt:{count + 3}: warning: this row and what follows is not read: the file says that it has"
    assert said in capsys.readouterr().err
    (files / "flow.txt").write_text(f"{count}\n{rows}\nFirst line: flow #\nsrc dst pg dport bytes start\n")
    assert run() == 0
    assert "not read" not in capsys.readouterr().err
    link = topology.strip().splitlines()[-1]
    (files / "topology.txt").write_text(f"{topology.rstrip()}\n{link}\n")
    assert run() == 0
    assert "topology.txt:" in (errors := capsys.readouterr().err)
    assert "this row and what follows is not read: the file says that it has" in errors


def test_a_node_without_a_link_is_no_host_of_the_run(files: Path) -> None:
    topology = (files / "topology.txt").read_text().split(maxsplit=1)
    (files / "topology.txt").write_text(f"{int(topology[0]) + 1} {topology[1]}")
    assert run() == 0
    assert cli.main(["report", "x"]) == 0


def test_a_host_with_several_links_has_the_rate_of_all(files: Path) -> None:
    """Flows of different hosts come to one host over both of its links."""
    (files / "topology.txt").write_text(
        "6 2 6\n4 5\n0 4 100Gbps 1us 0\n1 5 100Gbps 1us 0\n2 4 100Gbps 1us 0\n2 5 100Gbps 1us 0\n"
        "3 4 100Gbps 1us 0\n4 5 100Gbps 1us 0\n"
    )
    (files / "flow.txt").write_text("2\n0 2 3 100 10000000 2.0\n1 2 3 100 10000000 2.0\n")
    assert run() == 0
    result = Result.load(files / "x")
    assert result.meta["line_rate_bps"]["h2"] == 200_000_000_000
    assert result.summary["goodput"]["of_line_rate"] <= 1


@pytest.mark.parametrize("start", ["0", "2", "2.0", "2.000000577"])
@pytest.mark.parametrize("size", ["0", "1", "63"])
@pytest.mark.parametrize("rows", [1, 3])
def test_small_flows_are_told_of_as_what_they_may_be(
    size: str, start: str, rows: int, tmp_path: Path
) -> None:
    row = f"0 1 3 100 {size} {start}\n"
    flow = f"{rows}\n" + row * rows
    hpcc_files.write(tmp_path, flow=flow)
    if float(size) > float(start):
        if size != "0":
            assert load_inputs(tmp_path / "config.txt").flows
        return
    with pytest.raises(InputError) as caught:
        load_inputs(tmp_path / "config.txt")
    (problem,) = caught.value.problems
    assert f"s), or a flow of {size} B at {start} s; expected" in problem.text
    assert "expected src dst pg dport bytes start, with at least 1 byte" in problem.text
