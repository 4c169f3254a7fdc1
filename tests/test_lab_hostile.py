"""Labs, states of machines and recorded outputs as somebody hostile, or an accident, would have them."""

from __future__ import annotations

import copy
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import COMMAND
from tailback import cli
from tailback.cli.basics import MAX_LINE_CHARS, visible
from tailback.lab.apply import UNDO_FILE
from tailback.lab.model import read
from tailback.lab.steps import plan
from tailback.point import kernel
from test_lab import _Unsafe
from test_point import needs_namespaces, needs_root

RIG = Path(__file__).parent / "lab_hostile.py"
OUTPUTS = Path(__file__).parent / "lab_outputs"
HOSTILE = [";touch {c}", "$(touch {c})", "`touch {c}`", "a b", "a\nb", "'", '"', "{{{{ 1 }}}}", "{{% raw %}}"]
STEERING = "\x1b[2K\x1b]0;t\x07\x9b1m\r\b\u202e\u2066\x85"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LAB: dict[str, Any] = {
    "name": "one",
    "scenario": "poor-mans-cp",
    "hosts": {"hv": {"at": "local", "model": "br0"}, "h": {"at": "local", "model": "h0"}},
    "commands": [{"host": "hv", "about": "it", "do": "true", "undo": "true"}],
    "rebind": [{"host": "hv", "pci": "0000:61:00.0", "from": "a", "to": "b"}],
    "bridges": [
        {
            "host": "hv",
            "name": "br-cp",
            "ports": [
                {"interface": "p0", "irq_cores": [2], "qdisc": {"kind": "pfifo", "limit": 5}},
                {"interface": "p1", "towards": "h1", "coalesce": {"usecs": "1us"}, "rx_ring": 64},
            ],
        }
    ],
    "nics": [{"host": "h", "interface": "e0", "device": "d", "address": "10.9.0.1/24", "ecn": [0]}],
}


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else None
    if items is None:
        yield path
        return
    for key, value in items:
        yield from leaves(value, (*path, key))


def put(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(data)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


def written(folder: Path, data: Any) -> str:
    file = folder / "lab.yaml"
    file.write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))
    return str(file)


@needs_root
@needs_namespaces
@pytest.mark.parametrize("seed", range(16))
def test_what_is_taken_back_is_as_it_was_or_is_named(tmp_path: Path, seed: int) -> None:
    """Aliases with shell lines, other masters and disciplines, and steps that fail."""
    command = ["unshare", "-rn", sys.executable, str(RIG), str(tmp_path), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert not {"canary", "made", "left"} & set(told["files"])
    assert set(told["before"]) == set(told["after"])
    status, said = told["undone"]
    for name, before in told["before"].items():
        for key, value in before.items():
            if told["after"][name][key] != value:
                assert (status or told["done"][0]) != 0, told
                assert name in said, told


@needs_namespaces
def test_the_alias_of_a_bridge_is_no_command(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    script = 'ip link add tailback-cp type bridge; ip link set tailback-cp alias "$1"; shift; exec "$@"'
    for text in HOSTILE:
        alias = f"{kernel._COMMAND_NAME}, process 1 begun 1; x{text.format(c=canary)} mtu 1 up"
        command = ["unshare", "-rn", "sh", "-c", script, "sh", alias, *COMMAND, "point", "a", "b", "--clean"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "left alone, as its alias does not say" in done.stdout, done
        assert not canary.exists()


def test_texts_of_a_lab_reach_no_shell_and_no_template(tmp_path: Path) -> None:
    """Each text of the file but commands, with each hostile sign: refused, or inert in the playbook."""
    canary, taken = tmp_path / "canary", 0
    remote = put(put(LAB, ("hosts", "hv", "at"), "root@192.0.2.1"), ("hosts", "h", "at"), "root@192.0.2.2")
    for path in leaves(remote):
        for text in (one.format(c=canary) for one in HOSTILE):
            file = written(tmp_path, put(remote, path, text))
            out = tmp_path / "out"
            status = cli.main(["lab", "apply", file, "--only-write", "--out", str(out)])
            assert status in (0, 2)
            if status:
                assert not out.exists()
                continue
            taken += 1
            for play in yaml.load((out / "apply.yaml").read_text(), _Unsafe):
                assert re.fullmatch(r"host_\d+", play["hosts"])
                for task in (play, *play["tasks"]):
                    assert task["name"][0] == "unsafe"
                    assert "{{" not in task["name"][1]
                templates = [play["tasks"][at[0]] for at in leaves(play["tasks"]) if at]
                assert not any(text in str(one.get("when", "")) for one in templates)
            for at in _plain_texts((out / "apply.yaml").read_text()):
                assert text not in at or "touch" not in at
            shutil.rmtree(out)
    assert taken
    assert not canary.exists()


def _plain_texts(text: str) -> list[str]:
    """Texts of a playbook in which Ansible looks for templates."""
    found = yaml.load(text, _Unsafe)
    kept = []
    for path in leaves(found):
        value: Any = found
        for key in path:
            value = value[key]
        if isinstance(value, str):
            kept.append(value)
    return kept


@pytest.mark.parametrize("name", ["all", "localhost", "a:b", "ungrouped"])
def test_a_host_with_the_name_of_a_pattern_is_one_host_to_ansible(tmp_path: Path, name: str) -> None:
    data = copy.deepcopy(LAB)
    data["hosts"] = {name: {"at": "root@192.0.2.1", "model": "br0"}, "h": {"at": "root@b", "model": "h0"}}
    data["commands"][0]["host"] = data["rebind"][0]["host"] = data["bridges"][0]["host"] = name
    file, out = written(tmp_path, data), tmp_path / "out"
    assert cli.main(["lab", "apply", file, "--only-write", "--out", str(out)]) == 0
    assert {one["hosts"] for one in yaml.load((out / "apply.yaml").read_text(), _Unsafe)} == {
        "host_0",
        "host_1",
    }


@pytest.mark.parametrize("name", ["*", "!x", "~a", "../../x", "{{ 1 }}", "a b", "a\nb"])
def test_a_host_with_another_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = written(tmp_path, put(LAB, ("hosts", name), {"at": "local"}))
    assert cli.main(["lab", "plan", file]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{file}:"), err
    assert len(err.splitlines()) == 1


def test_interrupts_are_those_that_the_kernel_lists_for_the_device(tmp_path: Path) -> None:
    """And no others whose name has that of the interface in it."""
    folder, irq = tmp_path / "device/msi_irqs", tmp_path / "irq"
    folder.mkdir(parents=True)
    for number in (45, 46, 47, 48):
        (irq / str(number)).mkdir(parents=True)
        (irq / str(number) / "smp_affinity_list").write_text("0-7\n")
    for number in (45, 48, 99):  # 99 is not in use
        (folder / str(number)).touch()
    data = put(LAB, ("bridges", 0, "ports", 0), {"interface": "eth1", "irq_cores": [2, 3]})
    (step,) = [one for one in plan(read(written(tmp_path, data))[0]) if "cores" in one.about]
    assert step.back is not None

    def ran(line: str) -> str:
        here = line.replace("/sys/class/net/eth1/device", str(tmp_path / "device"))
        here = here.replace("/proc/irq", str(irq))
        return subprocess.run(["sh", "-c", here], capture_output=True, text=True, check=True).stdout

    def cores() -> list[str]:
        return [(irq / str(one) / "smp_affinity_list").read_text().strip() for one in (45, 46, 47, 48)]

    printed = ran(step.back.read)
    assert printed == "45 0-7\n48 0-7\n"
    ran(step.do)
    assert cores() == ["2", "0-7", "0-7", "3"]
    for line in step.back.lines(printed):
        ran(line)
    assert cores() == ["0-7"] * 4


APPLIED = """
import subprocess, sys
from tailback import cli
for n in "01":
    subprocess.run(["ip", "link", "add", f"p{n}", "type", "veth", "peer", "name", f"e{n}"], check=True)
sys.exit(cli.main(["lab", "apply", sys.argv[1], "--out", sys.argv[2], "-q"]))
"""
ONLY_BRIDGE = {key: LAB[key] for key in ("name", "scenario", "hosts", "commands")} | {
    "bridges": [{"host": "hv", "name": "br-cp", "ports": [{"interface": "p0"}, {"interface": "p1"}]}]
}
UNDONE = """
import sys
from pathlib import Path
from tailback import cli
folder, journals = Path(sys.argv[2]), Path(sys.argv[3]).read_text().split("\\0")
for one in journals:
    (folder / "undo.jsonl").write_text(one)
    status = cli.main(["lab", "undo", sys.argv[1], str(folder), "-q"])
    assert status in (0, 1, 2), status
"""


@needs_namespaces
def test_no_line_of_a_changed_journal_is_run(tmp_path: Path) -> None:
    """Each leaf of undo.jsonl as something else: never a traceback, never a command."""
    file, out, canary = written(tmp_path, ONLY_BRIDGE), tmp_path / "out", tmp_path / "canary"
    done = subprocess.run(["unshare", "-rn", sys.executable, "-c", APPLIED, file, str(out)], check=False)
    assert done.returncode == 0
    lines = [json.loads(line) for line in (out / UNDO_FILE).read_text().splitlines()]
    shell = f"x; touch {canary}"
    others: list[Any] = [None, -1, 1e300, shell, [shell], {"a": shell}, True, "br-own"]
    journals = []
    for path in leaves(lines):
        for other in others:
            journals.append("".join(json.dumps(one) + "\n" for one in put(lines, path, other)))
    for path in leaves(lines):
        if path[-1] == "printed":
            text = lines[path[0]]["printed"]
            for at in leaves(json.loads(text or "[]")):
                if at[-1] in ("ifname", "mtu", "flags", "handle", "master"):
                    changed = json.dumps(put(json.loads(text), at, shell))
                    journals.append("".join(json.dumps(one) + "\n" for one in put(lines, path, changed)))
    # A line of the form that had a command in it.
    journals.append(json.dumps({"step": 1, "host": "hv", "undo": f"touch {canary}"}) + "\n")
    entry = {"step": 1, "host": "hv", "kind": "command", "of": f"touch {canary}", "printed": ""}
    journals += [json.dumps(entry) + "\n", "[" * 100_000 + "\n", "\xff\n", "1\n", "half a line"]
    (tmp_path / "journals").write_text("\0".join(journals))
    command = ["unshare", "-rn", sys.executable, "-c", UNDONE, file, str(out), str(tmp_path / "journals")]
    done_all = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done_all.returncode == 0, done_all.stderr[-2000:]
    assert "Traceback" not in done_all.stderr
    assert not canary.exists()


def test_each_leaf_of_a_lab_file_as_something_else_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = [{"name": "t", "tool": "ib_write_bw", "server": "h", "client": "hv", "seconds": 2}]
    nics = [*LAB["nics"], {"host": "hv", "interface": "e1"}]
    data = {**LAB, "tests": tests, "nics": nics}
    assert cli.main(["lab", "plan", written(tmp_path, data)]) == 0
    for path in leaves(data):
        for other in (None, -1, 1e300, "zz", [], {}, float("nan"), 10**400, True):
            capsys.readouterr()
            file = written(tmp_path, put(data, path, other))
            status = cli.main(["lab", "plan", file])
            err = capsys.readouterr().err
            assert status in (0, 2), (path, other)
            assert not status or all(len(line) <= MAX_LINE_CHARS for line in err.splitlines())


COLLECTED = {
    "perftest.json": {"results": {"MsgSize": 65536, "n_iterations": 100, "BW_average": 100.0}},
    "after/vm00/rdma-mlx5_0.json": [{"ifname": "mlx5_0", "port": 1, "np_cnp_sent": 184}],
    "after/hv/tc-enp97s0f0np0.json": [{"kind": "red", "bytes": 5, "packets": 4, "marked": 3, "backlog": 2}],
    "during/hv/mpstat.json": {
        "sysstat": {
            "hosts": [{"statistics": [{"cpu-load": [{"cpu": "3", "soft": 1.0, "irq": 0.0, "guest": 0.0}]}]}]
        }
    },
    "during-1/at": 1.0,
}
NUMBERS = ["1" + "0" * 30, "1e30", "-5", "NaN", "Infinity", "-Infinity", "1e999", "9223372036854775807"]


@pytest.mark.parametrize("name", list(COLLECTED))
def test_each_leaf_of_a_recorded_output_as_something_else_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    given = tmp_path / "given"
    shutil.copytree(OUTPUTS / "poor-mans-cp", given)
    file = given / "bandwidth" / name
    file.with_suffix(".txt").unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    others = [*NUMBERS, "null", '"x"', "[]", "{}", "true", "[" * 100_000]
    mark, refused = "@here@", 0
    for path in leaves(COLLECTED[name]):
        text = json.dumps(put(COLLECTED[name], path, mark), indent=1) if path else f'"{mark}"'
        for other in others:
            file.write_text(text.replace(f'"{mark}"', other))
            out = tmp_path / "out"
            status = cli.main(["lab", "collect", "poor-mans-cp", str(given), "--out", str(out), "-q"])
            err = capsys.readouterr().err
            assert status in (0, 2), (path, other, err)
            if status:
                refused += 1
                assert err.startswith(f"{file}"), err
                assert len(err.splitlines()) == 1
                assert not out.exists()
            else:
                shutil.rmtree(out)
    assert refused


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("after/vm00/rdma-mlx5_0.txt", r"(np_cnp_sent) \d+"),
        ("after/hv/tc-enp97s0f0np0.txt", r"(marked) \d+"),
    ],
)
def test_a_counter_that_is_none_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, old: str
) -> None:
    given = tmp_path / "given"
    shutil.copytree(OUTPUTS / "poor-mans-cp", given)
    file = given / "bandwidth" / name
    text = file.read_text()
    found = re.search(old, text)
    assert found is not None
    wanted = text.count("\n", 0, found.start()) + 1
    file.write_text(re.sub(old, rf"\1 1{'0' * 30}", text, count=1))
    assert cli.main(["lab", "collect", "poor-mans-cp", str(given), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"{file}:{wanted}: found another number")


def test_an_apply_or_run_that_fails_leaves_no_empty_folder(tmp_path: Path) -> None:
    data = {**ONLY_BRIDGE, "commands": [], "bridges": []}
    data["nics"] = [{"host": host, "interface": "missing0", "address": "10.9.0.1/24"} for host in ("h", "hv")]
    data["tests"] = [{"name": "t", "tool": "ib_write_bw", "server": "h", "client": "hv", "iterations": 5}]
    file = written(tmp_path, data)
    for command in ("apply", "run"):
        assert cli.main(["lab", command, file, "--out", str(tmp_path / "out"), "-q"]) == 1
        assert not (tmp_path / "out").exists()


def under_pty(arguments: list[str], folder: Path) -> bytes:
    """What a terminal gets."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen([*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder)
    os.close(theirs)
    got = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        got += part
    os.close(ours)
    done.wait()
    return got


def shown(got: bytes) -> list[str]:
    """Lines as a terminal gets them, without the colours of tables and what bars draw over themselves."""
    bars = r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\r?\x1b\[2K(?!\x1b\])|\x1b\[1A|\r(?!\x08)"
    return re.sub(bars, "", got.decode().replace("\r\n", "\n")).split("\n")


def test_no_sign_that_steers_a_terminal_comes_out(tmp_path: Path) -> None:
    """File names, texts of labs and scenarios, options: at a terminal, for each command that takes them."""
    data = put(LAB, ("commands", 0, "do"), f"touch HIDDEN #{STEERING} ip link show".replace("\r", ""))
    data = put(data, ("commands", 0, "about"), f"it {STEERING}".replace("\r", ""))
    (tmp_path / "lab.yaml").write_text(json.dumps(data))
    hostile = f"x{STEERING}.yaml"
    (tmp_path / hostile).write_text(json.dumps({"name": STEERING, "hosts": {STEERING: STEERING}}))
    commands = [["lab", "plan", "lab.yaml"], ["lab", "plan", hostile], ["lab", STEERING], [STEERING]]
    commands += [["lab", "collect", "lab.yaml", hostile], ["lab", "undo", "lab.yaml", hostile]]
    commands += [
        [one, hostile] for one in ("run", "show", "report", "explain", "signals", "counters", "trace")
    ]
    commands += [["compare", hostile, hostile], ["analyze", hostile], ["import", "sonic", hostile]]
    commands += [["point", f"a{STEERING}", "b"], ["point", f"a{STEERING}", "b", "--kernel"]]
    commands += [["show", "first-flow", "--set", f"{STEERING}=1"], ["run", "first-flow", "--out", hostile]]
    commands += [
        ["sweep", hostile, "--over", STEERING],
        ["tune", hostile],
        ["fit", hostile],
        ["live", hostile],
    ]
    commands += [["show", "first-flow", "--set", f"name={'x' * 5000}"], ["run", "y" * 5000]]
    for command in commands:
        lines = shown(under_pty(command, tmp_path))
        for line in lines:
            assert CONTROLS.search(line) is None, (command, line)
            assert len(line) <= MAX_LINE_CHARS, command
        assert any(lines), command


def test_a_command_of_a_lab_is_shown_whole(tmp_path: Path) -> None:
    data = put(LAB, ("commands", 0, "do"), "\u202e" * 999 + "!")
    got = "\n".join(shown(under_pty(["lab", "plan", written(tmp_path, data)], tmp_path)))
    assert visible("\u202e") * 999 + "!" in re.sub(r"\\\n +", "", got)


ANSIBLE = """
import subprocess, sys
from pathlib import Path
from tailback.lab import apply
from tailback.lab.model import read
for words in (["p0", "type", "veth", "peer", "name", "e0"], ["p1", "type", "veth", "peer", "name", "e1"],
              ["br-own", "type", "bridge"]):
    subprocess.run(["ip", "link", "add", *words], check=True)
def state():
    return subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
def qdiscs():
    told = subprocess.run(["tc", "qdisc"], capture_output=True, text=True, check=True).stdout
    return [line for line in told.splitlines() if " 0: " not in line]
tc = ["tc", "qdisc", "add", "dev", "p1", "root", "tbf", "rate", "1gbit", "burst", "20kb", "limit", "2mb"]
others = {"master": ["ip", "link", "set", "p1", "master", "br-own"], "qdisc": tc,
          "bridge": ["ip", "link", "add", "br-cp", "type", "bridge"],
          "address": ["ip", "addr", "add", "10.9.0.1/24", "dev", "e0"]}
if sys.argv[3] in others:
    subprocess.run(others[sys.argv[3]], check=True)
before = state(), qdiscs()
lab, folder = read(sys.argv[1])[0], Path(sys.argv[2])
apply._here = lambda lab: False
apply.prepare(lab, folder)
try:
    apply.apply(lab, folder, lambda line: None)
    print("APPLIED")
except apply.StepFailed as error:
    print("FAILED", error)
if (folder / "undo.jsonl").exists():
    print(apply.undo(lab, folder, lambda line: None))
print("SAME" if (state(), qdiscs()) == before else ("OTHER", before, state(), qdiscs()))
"""


@needs_namespaces
@pytest.mark.parametrize("there", ["nothing", "bridge", "master", "qdisc", "address"])
def test_ansible_refuses_what_it_could_not_give_back_and_runs_no_template(tmp_path: Path, there: str) -> None:
    pytest.importorskip("ansible_runner", reason="pip install 'tailback[lab]'")
    canary = tmp_path / "canary"
    text = "{{ lookup('pipe', 'touch " + str(canary) + "') }}"
    data = put(ONLY_BRIDGE, ("hosts",), {"all": {"at": "local", "model": "br0"}})
    data["commands"] = [{"host": "all", "about": text, "do": f": {text!r}", "undo": f": {text!r}"}]
    data["bridges"][0]["host"] = "all"
    data["bridges"][0]["ports"][1]["qdisc"] = {"kind": "pfifo", "limit": 5}
    data["nics"] = [{"host": "all", "interface": "e0", "address": "10.9.0.1/24"}]
    file, out = written(tmp_path, data), tmp_path / "out"
    command = ["unshare", "-rn", sys.executable, "-c", ANSIBLE, file, str(out), there]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("APPLIED" if there == "nothing" else "FAILED step "), done.stdout
    assert done.stdout.endswith("Undone(failed=[], differences=[])\nSAME\n"), done.stdout
    assert not canary.exists()


def test_the_command_line_prints_through_one_place() -> None:
    """What else prints has coloured tables of our own console, or JSON, whose signs are escaped in it."""
    folder = Path(cli.__file__).parent
    found = [
        f"{file.name}: {line.strip()}"
        for file in sorted(folder.glob("*.py"))
        if file.name != "basics.py"
        for line in file.read_text().splitlines()
        if re.search(r"typer\.echo\(|\bprint\(|import Console\b|std(out|err)\.write\(", line)
    ]
    assert [line for line in found if "drawn.print" not in line] == [
        "common.py: typer.echo(text)  # has colours and escaped control characters",
        "common.py: typer.echo(in_json(json.dumps(data, indent=2, ensure_ascii=False)))",
    ]
