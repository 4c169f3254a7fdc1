"""Tuning: a search that is the same wherever it runs, and a judgement on what it has not seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tailback import cli
from tailback.errors import InputError
from tailback.executors import Threads
from tailback.metrics import Metric
from tailback.study.fabric_commands import commands
from tailback.study.tpe import TuneProgress, tune
from tailback.study.tune_data import Trial, front
from tailback.study.tune_design import Constraint, read_tune
from tailback.study.tune_result import TuneResult

pytest.importorskip("optuna")

INCAST: dict[str, Any] = {
    "name": "incast",
    "run": {"duration": "1ms"},
    "topology": {"kind": "star", "hosts": 4},
    "traffic": [{"kind": "write", "from": "h1..h3", "to": "h0", "qps": 2}],
}
TUNE: dict[str, Any] = {
    "workloads": [{"scenario": INCAST, "name": "two"}],
    "held_out": [{"scenario": INCAST, "name": "four", "set": {"traffic.0.qps": 4}}],
    "tune": {
        "switch.ecn.k_min": {"low": "20KB", "high": "1MB", "scale": "log"},
        "switch.ecn.k_max": {"low": "20KB", "high": "2MB", "scale": "log"},
        "host.dcqcn.rpg_ai_rate": [5, 50, 500],
    },
    "where": ["switch.ecn.k_min < switch.ecn.k_max"],
    "objectives": [{"metric": "Fullest queue, mean", "goal": "less"}],
    "constraints": ["losses.dropped_packets <= 0", "goodput.total_bps >= 1e9"],
    "seeds": "1..2",
    "held_out_seeds": "11..13",
    "trials": 20,
}


@pytest.fixture(scope="module")
def done() -> TuneResult:
    return tune(TUNE, executor=Threads(2))


def test_settings_are_found_and_judged_on_what_no_trial_saw(done: TuneResult) -> None:
    assert done.complete
    states = [trial.state for trial in done.trials]
    assert sum(state != "impossible" for state in states) == 20
    assert "pruned" in states
    assert "complete" in states
    assert all(trial.message == "does not meet where" for trial in done.trials if trial.state == "impossible")
    best = done.best
    assert best is not None
    assert best.trial.costs[0] == min(trial.costs[0] for trial in done.trials if trial.feasible) < -0.1
    assert [(gain.workload, gain.tuned_on, gain.difference.seeds) for gain in done.gains] == [
        ("two", True, 3),
        ("four", False, 3),
    ]
    lines = done.lines()
    assert lines[1] == "  other seeds:"
    assert lines[3] == "  other workloads:"
    assert "95 % interval" in lines[2]
    assert "within 1 points of the best: switch.ecn.k_min " in lines[-2]
    assert lines[-1].startswith("What matters to the objective: ")
    assert repr(done) == f"<Tuning of incast: {len(states)} trials>"
    page = done.page()
    assert "The search" in page
    assert f"Trial {best.trial.number}" in page


def test_it_does_not_matter_where_it_runs_nor_how_often_it_is_interrupted(
    done: TuneResult, tmp_path: Path
) -> None:
    class Enough(TuneProgress):
        def tried(self, trial: Trial) -> None:
            if trial.number == 6:
                raise KeyboardInterrupt

    part = tune(TUNE, out=tmp_path / "t", executor=Threads(1), progress=Enough())
    assert not part.complete
    assert not part.judged
    assert json.loads((tmp_path / "t" / "tuned.json").read_text())["complete"] is False
    journal = (tmp_path / "t" / "journal.jsonl").read_text().splitlines()
    whole = tune(out=tmp_path / "t", resume=True, executor=Threads(3))
    assert whole.table.equals(done.table)
    assert whole.gains == done.gains
    after = (tmp_path / "t" / "journal.jsonl").read_text().splitlines()
    assert after[: len(journal)] == journal
    assert len({json.loads(one)["key"] for one in after}) == len(after)
    assert (tmp_path / "t" / "optuna.log").is_file()
    assert {path.name for path in (tmp_path / "t").iterdir()} >= {"tune.html", "trials.parquet", "tune.json"}


def test_a_front_of_two_objectives() -> None:
    objectives = [
        {"metric": "Throughput", "goal": "more"},
        {"metric": "Fullest queue, mean", "goal": "less"},
    ]
    found = tune({**TUNE, "objectives": objectives, "pareto": True, "trials": 8}, executor=Threads(2))
    costs = [one.trial.costs for one in found.front]
    assert costs == sorted(costs)
    assert len(costs) >= 2
    assert "Front" in found.page()
    one, two, three = ([0.0, 1.0], [1.0, 0.0], [1.0, 1.0])
    trials = [Trial(i, {}, "complete", "", costs, [0.0]) for i, costs in enumerate((one, two, three))]
    assert [trial.number for trial in front(trials)] == [0, 1]


def test_a_constraint_that_nothing_keeps_leaves_no_settings(tmp_path: Path) -> None:
    found = tune({**TUNE, "constraints": ["signals.cnps <= -1"], "trials": 4}, out=tmp_path / "t")
    assert found.best is None
    assert not found.judged
    assert found.lines() == [f"No settings of {len(found.trials)} trials keep to all constraints."]
    assert "No trial keeps to all constraints" in found.page()


def test_a_limit_is_exceeded_by_what_is_beyond_it() -> None:
    limit = Constraint(Metric("x", "count", "x.y"), "<=", 2.0)
    assert limit.excess(2.0) == limit.excess(-5.0) == 0.0
    assert limit.excess(5.0) == 3.0
    assert limit.excess(None) == limit.excess(float("nan")) == float("inf")
    assert Constraint(limit.shown, "<", 2.0).excess(2.0) > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tune": {"switch.ecn.k_mim": ["1KB", "2KB"]}, "where": []}, "k_mim"),
        ({"tune": {"switch.ecn.k_min": ["1KB"]}, "where": []}, "tune.switch.ecn.k_min: found fewer than two"),
        ({"tune": {}, "where": []}, "tune: "),
        ({"objectives": [{"metric": "Troughput", "goal": "more"}]}, "objectives.0: found Troughput"),
        ({"objectives": [{"metric": "Throughput", "goal": "most"}]}, "objectives.0.goal: found"),
        ({"objectives": [{"metric": "Packets dropped", "goal": "less"}]}, "objectives.0.metric: found 0"),
        ({"constraints": ["losses.dropped_packets"]}, 'constraints.0: found "losses.dropped_packets"'),
        ({"constraints": ["drops <= 1"]}, "constraints.0: found drops"),
        ({"held_out_seeds": "2..4"}, "held_out_seeds: found seed 2, which is one of seeds"),
        ({"set": {"run.seed": 3}}, "set: found run.seed"),
        ({"trials": 0}, "trials: found 0"),
        ({"storage": "sqlite:////nowhere/at/all.db"}, "storage: found one that cannot be used"),
        ({"workloads": []}, "workloads: "),
        ({"workloads": [{"scenario": "nowhere"}]}, "workloads.0: nowhere: found no such file"),
        ({"held_out": [{"scenario": "first-flow", "set": {"host.mtuu": 1}}]}, "held_out.0: --set host.mtuu"),
    ],
)  # fmt: skip
def test_bad_input_is_a_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        tune({**TUNE, **change, "trials": change.get("trials", 1)}, executor=Threads(1))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    lines = ["workloads: [{scenario: first-flow}]", "tune: {host.mtu: [1KiB, 4KiB]}", "objectives:"]
    (tmp_path / "t.yaml").write_text("\n".join([*lines, "  - {metric: Nothing, goal: less}"]))
    with pytest.raises(InputError, match=r"t\.yaml:4: objectives\.0: found Nothing"):
        read_tune(tmp_path / "t.yaml")


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailback.executors.calls.Processes", Threads)
    (tmp_path / "t.yaml").write_text(json.dumps(TUNE))
    out = tmp_path / "out"
    assert cli.main(["tune", str(tmp_path / "t.yaml"), "--trials", "3", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["complete"]
    assert told["folder"] == str(out)
    assert cli.main(["tune", "--resume", str(out)]) == 0
    words = capsys.readouterr().out
    assert "--set switch.ecn.k_min=" in words
    assert words.rstrip().endswith("tune.html")
    assert cli.main(["tune", str(tmp_path / "t.yaml"), "--trials", "1", "--out", str(out), "-q"]) == 2
    assert (
        cli.main(["tune", str(tmp_path / "t.yaml"), "--trials", "1", "--out", str(out), "-q", "--force"]) == 0
    )
    capsys.readouterr()
    assert cli.main(["tune"]) == 2
    assert cli.main(["tune", "--resume", str(tmp_path)]) == 2
    assert "expected the folder of a tuning" in capsys.readouterr().err


def test_settings_as_commands_of_a_fabric() -> None:
    point = {
        "switch.ecn.k_min": "150KB",
        "switch.ecn.p_max": "0.05",
        "host.dcqcn.rpg_ai_rate": "50",
        "host.dcqcn.clamp_tgt_rate": "true",
        "host.dcqcn.min_time_between_cnps": "4",
        "switch.ingress_alpha": "0.5",
        "traffic.0.qps": "4",
    }
    lines = commands(point)
    sonic = json.loads(lines[0].split("'")[1])
    assert sonic["WRED_PROFILE"]["PROFILE"]["green_min_threshold"] == "150000"
    assert sonic["WRED_PROFILE"]["PROFILE"]["green_drop_probability"] == "5"
    assert sonic["BUFFER_PROFILE"]["PROFILE"] == {"dynamic_th": "-1"}
    assert lines[1:] == [
        "echo 50 > /sys/class/net/$DEV/ecn/roce_rp/rpg_ai_rate",
        "echo 1 > /sys/class/net/$DEV/ecn/roce_rp/clamp_tgt_rate",
        "echo 4 > /sys/class/net/$DEV/ecn/roce_np/min_time_between_cnps",
        "# no command is known: traffic.0.qps=4",
    ]
