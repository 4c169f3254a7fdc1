"""`tailback fit` as a person has it: options, files, JSON, and a line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tailback import cli
from tailback.executors import Threads
from tailback.study.fit_design import read_fit

SCENARIO = """\
name: lab
run: {duration: 50us}
topology: {kind: star, hosts: 2}
traffic: [{kind: poisson, load: 0.4, sizes: fb_hadoop}]
"""
CSV = """\
metric,value,unit,tolerance,runs,held_out,traffic.0.load
fct.all.fct_s.p50,6,us,1,4,,
goodput.whole_run_bps,60,Gbit/s,60,,yes,0.8
"""
FREE = "topology.link.delay=200ns..20us:log"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the lab, and runs in this process, which saves the start of others."""
    (tmp_path / "lab.yaml").write_text(SCENARIO)
    (tmp_path / "measured.csv").write_text(CSV)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tailback.executors.calls.Processes", Threads)
    return tmp_path


def test_a_file_of_all_of_it_and_a_csv_with_options_are_the_same_fit(lab: Path) -> None:
    (lab / "fit.yaml").write_text("""\
scenario: lab.yaml
free:
  topology.link.delay: {low: 200ns, high: 20us, scale: log}
observations:
  - {metric: fct.all.fct_s.p50, value: 6, unit: us, tolerance: 1, runs: 4}
  - metric: goodput.whole_run_bps
    value: 60
    unit: Gbit/s
    tolerance: 60
    held_out: true
    set: {traffic.0.load: "0.8"}
""")
    path, _, span = FREE.partition("=")
    options = read_fit("measured.csv", {"scenario": str(lab / "lab.yaml"), "free": {path: span}})
    assert read_fit("fit.yaml", {}) == options
    again = read_fit(json.loads(options.model_dump_json()), {})
    assert again == options
    (lab / "list.yaml").write_text("- {metric: jain_index, value: 1, tolerance: 0.1}\n")
    listed = read_fit("list.yaml", {"scenario": "lab.yaml", "free": {path: span}})
    assert [one.metric for one in listed.observations] == ["jain_index"]


def test_it_prints_words_first_and_json_for_programs(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["measured.csv", "lab.yaml", "--free", FREE, "--points", "5", "--refine", "0", "--seeds", "1,2"]
    assert cli.main(["fit", *words, "--out", "a"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.splitlines()[0].endswith("unknown identified by 1 observation.")
    assert told.out.endswith("\na/fit.html\n")
    far = CSV.replace("60,Gbit/s,60", "900,Gbit/s,1")
    (lab / "far.csv").write_text(far)
    assert cli.main(["fit", "far.csv", *words[1:], "--out", "b", "--quiet", "--strict"]) == 1
    capsys.readouterr()
    assert cli.main(["fit", "--resume", "a", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["folder"] == "a"
    assert [one["role"] for one in data["observations"]] == ["calibrated", "predicted"]
    assert data["observations"][0]["runs"] == 4
    assert json.loads((lab / "a" / "fit.json").read_text()).items() <= data.items()


def test_force_replaces_a_fit_and_one_that_failed(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["measured.csv", "lab.yaml", "--free", FREE, "--points", "5", "--refine", "2", "--seeds", "1,2"]
    assert cli.main(["fit", *words, "--out", "a", "-q"]) == 0
    assert cli.main(["fit", *words, "--out", "a", "-q", "--force"]) == 0
    # A measure that no run of this length has: the runs are done, and there is no answer.
    (lab / "none.csv").write_text("metric,value,unit,tolerance\ntotal_goodput,1,Gbit/s,1\n")
    assert cli.main(["fit", "none.csv", *words[1:], "--out", "b", "-q"]) == 2
    capsys.readouterr()
    assert cli.main(["fit", *words, "--out", "b", "-q", "--force"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("total_goodput:item=write9", 'found "write9" for item of total_goodput, expected poisson0'),
        ("counter:name=np_cnp_sent:host=h99", 'found "h99" for host of counter, expected'),
    ],
)
def test_an_item_or_a_host_that_the_lab_has_not_is_refused_before_the_first_run(
    measure: str, said: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = "Gbit/s" if "goodput" in measure else ""
    (lab / "m.csv").write_text(f"metric,value,unit,tolerance\n{measure},1,{unit},1\n")
    assert cli.main(["fit", "m.csv", "lab.yaml", "--free", FREE, "--out", "a"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"m.csv:2: observations.0.metric: {said}")
    assert not (lab / "a").exists()


LABS = sorted((Path(__file__).parent.parent / "docs" / "fits").glob("*.yaml"))


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_fits_of_published_labs_hold_something_out_and_are_in_the_book(path: Path) -> None:
    asked = read_fit(path, {})
    assert {one.held_out for one in asked.observed} == {False, True}
    assert len(asked.free) == (1 if path.stem.endswith("-one") else 2)
    assert f"`{path.name}`" in (path.parent.parent / "fitting.md").read_text()


def one(**fields: Any) -> list[dict[str, Any]]:
    return [{"metric": "jain_index", "value": 0.9, "tolerance": 0.1, **fields}]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"free": {"topology.link.dela": "1us..2us"}}, "free.topology.link.dela: found an unknown field, "),
        ({"free": {}}, "free: found "),
        (
            {"free": {"topology.link.delay": "1us..1us"}},
            "free.topology.link.delay: found 1us to 1us, expected ",
        ),
        ({"free": {"topology.link.delay": "1us..2GB"}}, "free.topology.link.delay: found 1us and 2GB, "),
        (
            {"free": {"topology.link.delay": "1us"}},
            'free.topology.link.delay: found "1us", expected LOW..HIGH, LOW..HIGH:log, or values such as ',
        ),
        (
            {"free": {"host.dcqcn.clamp_tgt_rate": "true,maybe"}},
            'free.host.dcqcn.clamp_tgt_rate: found "maybe", expected true or false',
        ),
        ({"free": {"host.mtu": [1024]}}, "free.host.mtu: found 1 value, expected two or more, or a range"),
        ({"free": {"host.mtu": "1KiB,1KiB"}}, "free.host.mtu: found 1KiB again, expected each value once"),
        ({"free": {"host.mtu": {"values": [], "low": 1}}}, "free.host.mtu: found both values and a range, "),
        (
            {"free": {"topology.link.loss": "0..1:log"}},
            "free.topology.link.loss: found 0, expected more than 0",
        ),
        ({"free": {"host.mtu": "7B..4096B"}}, "free.host.mtu: found "),
        ({"observations": []}, "observations: found an empty list, "),
        (
            {"observations": one(metric="jane_index")},
            "observations.0.metric: found jane_index, expected a ",
        ),
        (
            {"observations": one(at_most=1)},
            "observations.0: found value and at_most, expected one of value, ",
        ),
        ({"observations": one(value=None)}, "observations.0: found no value, expected one of value, "),
        ({"observations": one(tolerance=0)}, "observations.0.tolerance: found 0, expected greater than 0"),
        ({"observations": one(unit="Gbit/s")}, 'observations.0.unit: found "Gbit/s", expected one of index '),
        (
            {"observations": one(metric="total_goodput")},
            "observations.0.unit: found no unit, expected one of ",
        ),
        ({"observations": one(value="fast")}, 'observations.0.value: found "fast", expected '),
        (
            {"observations": one(tolerances=1)},
            "observations.0.tolerances: found an unknown field, expected toler",
        ),
        ({"observations": one(held_out=True)}, "observations: found only what is held out, expected "),
        ({"observations": [*one(), *one(held_out=True)]}, "observations.1: found Jain index again "),
        (
            {"observations": one(set={"host.mtuu": 1})},
            "observations.0.set: host.mtuu: found an unknown field, ",
        ),
        (
            {"observations": one(set={"topology.link.delay": "1us"})},
            "free.topology.link.delay: found a setting that observations.0.set has, ",
        ),
        ({"candidates": ["nothing"]}, "candidates.0: found nothing, expected a metric"),
        ({"seeds": "3"}, "seeds: found one seed, expected two or more"),
        ({"points": 2}, "points: found 2, expected greater than or equal to 4"),
        ({"scenario": "nowhere.yaml"}, "nowhere.yaml: found no such file"),
    ],
)
def test_bad_input_is_a_line(
    fields: dict[str, Any], line: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {"scenario": "lab.yaml", "free": {"topology.link.delay": "1us..2us"}, "observations": one()}
    (lab / "fit.yaml").write_text(json.dumps({**whole, **fields}))
    assert cli.main(["fit", "fit.yaml"]) == 2
    err = capsys.readouterr().err
    assert err.removeprefix("fit.yaml:1: ").startswith(line)
    assert err.count("\n") == 1
    assert not (lab / "runs").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "tailback: "),
        (["nothing.yaml"], "nothing.yaml: found no such file, expected observations"),
        (["measured.csv", "lab.yaml"], "free: found nothing, expected a value"),
        (["measured.csv", "--free", FREE], "scenario: found nothing, expected a value"),
        (["measured.csv", "lab.yaml", "--free", "x"], '--free: found "x", expected PATH=LOW..HIGH, or PATH='),
        (
            ["bad.csv", "lab.yaml", "--free", FREE],
            "bad.csv:1: found the column tolerence, expected metric, ",
        ),
        (
            ["long.csv", "lab.yaml", "--free", FREE],
            "long.csv:3: found more values than columns, expected one",
        ),
        (
            ["bare.csv", "lab.yaml", "--free", FREE],
            "bare.csv: found no row below a header, expected metric, ",
        ),
        (["--resume", "nothing"], "nothing: found no asked.json, expected the folder of a fit"),
    ],
)
def test_wrong_words_are_a_line(
    words: list[str], line: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lab / "bad.csv").write_text("metric,value,tolerence\njain_index,1,2\n")
    (lab / "long.csv").write_text("metric,value,tolerance\njain_index,1,2\njain_index,1,2,3\n")
    (lab / "bare.csv").write_text("jain_index,1,2\n")
    assert cli.main(["fit", *words]) == 2
    err = capsys.readouterr().err
    assert err.removeprefix("measured.csv: ").startswith(line)
    assert err.count("\n") == 1


def test_an_interrupt_says_how_to_go_on(
    lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*design: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tailback.study.posterior_rounds.sweep", interrupted)
        for words in (["measured.csv", "lab.yaml", "--free", FREE, "--out", "a"], ["--resume", "a"]):
            assert cli.main(["fit", *words]) == 130
            assert capsys.readouterr().err == "tailback: interrupted; tailback fit --resume a continues it\n"


def test_without_scikit_learn_it_says_what_to_install(
    lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["fit", "measured.csv", "lab.yaml", "--free", FREE]) == 2
    assert capsys.readouterr().err == "fit: found no scikit-learn, expected it: pip install 'tailback[fit]'\n"
