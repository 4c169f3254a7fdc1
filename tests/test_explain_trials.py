"""Verdicts that are tried: what may hold the traffic doubled, and the run again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tailback
from explain_work import Work, groups
from tailback.cli import main
from tailback.explain import as_data, as_text, explain, page, trials
from tailback.explain.outcome import Delivered
from tailback.explain.triable import why_not
from tailback.explain.verdict import Verdict
from tailback.results import Result

INCAST: dict[str, Any] = {
    "name": "incast",
    "run": {"duration": "400us"},
    "host": {"congestion": "none"},
    "topology": {"kind": "star", "hosts": 5, "link": {"rate": "100Gbps", "delay": "500ns"}},
    "traffic": [{"kind": "write", "from": "h0..h3", "to": "h4", "message": "64KiB", "depth": 4}],
}
CROSSED: dict[str, Any] = {
    "name": "crossed",
    "run": {"duration": "1ms"},
    "host": {"congestion": "none"},
    "topology": {
        "kind": "leaf-spine",
        "leaves": 2,
        "spines": 1,
        "hosts_per_leaf": 4,
        "link": {"rate": "100Gbps"},
        "fabric": {"rate": "100Gbps"},
    },
    "traffic": [{"kind": "write", "from": f"h{n}", "to": f"h{n + 4}"} for n in range(4)],
}


def tried(scenario: dict[str, Any] | str, *sets: str) -> tuple[Result, Verdict]:
    result = tailback.run(scenario, sets=list(sets))
    assert why_not(result) is None
    return result, trials.tried(result, explain(result))


def test_gains_are_those_of_runs_with_the_stage_doubled() -> None:
    result, verdict = tried(CROSSED)
    assert verdict.key == ("link", "leaf-spine")
    plan = dict(result.plan)
    base = Work.of(plan)
    size = 0.95 * base.total
    doubled = {group: Work.of(double(plan)).time(size) for group, double in groups(plan).items()}
    by_hand = base.time(size) / doubled["tier", "1-2"] - 1
    assert verdict.candidates[0].gain == pytest.approx(by_hand, abs=0.02)
    assert by_hand > 0.5
    said = page(verdict)
    assert result.explain() == said
    assert result.explain(tries=False) == page(explain(result))
    assert said.sure.startswith("Sure: it was tried")
    assert "throughput was" in said.reasons[-1]
    assert any(figure.name.startswith("tried: ") for figure in said.evidence)


def test_what_counters_point_to_stays_the_answer_if_it_gives_as_much() -> None:
    result, verdict = tried(INCAST)
    assert verdict.key == explain(result).key == ("link", "sw0:h4")
    data = as_data(page(verdict), verdict)
    assert {"link", "window"} <= {one["kind"] for one in data["tried"]}
    assert data["tried"] == sorted(data["tried"], key=lambda one: -one["gain"])
    assert as_text(page(verdict)) == as_text(page(trials.tried(result, explain(result))))


def test_nothing_is_said_to_be_nothing_after_it_was_tried() -> None:
    _, verdict = tried({**INCAST, "traffic": [{"kind": "poisson", "sizes": "alistorage", "load": 0.02}]})
    said = page(verdict)
    assert verdict.key == ("none", "")
    assert said.sure.startswith("Sure: none of ")
    assert any(figure.name.startswith("tried: ") for figure in said.evidence)


def test_a_failed_link_is_taken_away() -> None:
    _, verdict = tried("link-failure")
    gains = {one.stage.kind: one.gain for one in verdict.tried}
    assert gains["failed link"] > 0.4
    assert verdict.key == ("link", "leaf-spine")


def test_what_cannot_be_tried_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tailback.run("veth-xdp", sets=["run.duration=2ms"], out=tmp_path / "veth", report=False)
    assert main(["explain", str(tmp_path / "veth"), "--try"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "two namespaces" in said
    assert main(["explain", str(tmp_path / "veth")]) == 0


def test_a_short_run_is_tried_unasked_and_a_long_one_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "run")
    tailback.run(INCAST, out=folder, report=False)
    answers = {}
    for option in ("", "--try", "--no-try"):
        assert main(["explain", folder, "--json", *([option] if option else [])]) == 0
        answers[option] = json.loads(capsys.readouterr().out)
    assert answers[""] == answers["--try"]
    assert answers[""]["tried"]
    assert not answers["--no-try"]["tried"]
    monkeypatch.setattr(trials, "SHORT_HOPS", 1)
    assert main(["explain", folder, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == answers["--no-try"]
    assert "--try" in err


def test_ctrl_c_ends_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    result = tailback.run(INCAST)

    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trials.tried(result, explain(result), interrupt)


def test_a_run_of_another_version_is_not_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tailback.run(INCAST)
    result.plan["links"][0]["delay"] *= 2
    with pytest.raises(trials.CannotTry, match="another version"):
        result.explain(tries=True)
    assert result.explain() == page(explain(result))
    folder = str(result.write(tmp_path / "run", report=False))
    assert main(["explain", folder, "--try"]) == 2
    assert "another version" in capsys.readouterr().err
    assert main(["explain", folder]) == 0
    assert "it was tried" not in capsys.readouterr().out


def test_real_packets_are_not_tried() -> None:
    result = tailback.run(INCAST)
    result.meta["live"] = {}
    with pytest.raises(ValueError, match="real"):
        result.explain(tries=True)
    assert "it was tried" not in result.explain().sure


def test_what_is_named_is_among_what_was_tried() -> None:
    _, verdict = tried("gpudirect-pfc", "run.duration=3ms")
    assert any(one is verdict.candidates[0] for one in verdict.tried)


def test_reordering_that_is_taken_for_loss_is_tried_and_named() -> None:
    sprayed = {
        **CROSSED,
        "topology": {"kind": "leaf-spine", "leaves": 2, "spines": 4, "hosts_per_leaf": 4},
        "switch": {"load_balancing": "spray"},
        "traffic": [{"kind": "write", "from": "h0..h1", "to": "h4..h5", "message": "256KiB", "depth": 4}],
    }
    result, verdict = tried(sprayed)
    assert not result.meta["drops"]
    assert verdict.key == ("reordering", "all")
    text = as_text(page(verdict))
    assert "The bottleneck is reordering that is taken for loss." in text
    assert "tried: unlimited buffers" in text
    assert "end to the losses" not in text
    # Receivers that place it get nothing of the kind tried.
    selective = {"transport": {"loss_recovery": "selective-repeat", "reordering": 100, "window_packets": 100}}
    _, verdict = tried({**sprayed, "host": {"congestion": "none", **selective}})
    assert {one.stage.kind for one in verdict.tried} == {"link", "window", "buffer", "mtu"}


def test_timers_that_fire_while_a_pause_holds_packets_are_tried_and_named() -> None:
    timers = {
        "loss_recovery": "selective-repeat",
        "window_packets": 300,
        "rto_high": "20us",
        "rto_low": "20us",
    }
    _, verdict = tried(
        {
            **INCAST,
            "name": "hasty",
            "run": {"duration": "1ms"},
            "host": {"congestion": "none", "mtu": "4096B", "transport": timers},
            "topology": {"kind": "star", "hosts": 9},
            "traffic": [{"kind": "write", "from": "h0..h7", "to": "h8", "message": "256KiB", "depth": 4}],
        }
    )
    assert verdict.key == ("timer", "all")
    said = page(verdict)
    assert said.next.startswith("Try longer timers (host.transport.rto_high")
    assert [figure.name for figure in said.evidence][:2] == ["local_ack_timeout_err", "packets retransmitted"]


def test_what_was_never_delivered_counts_where_messages_are_left() -> None:
    # Nine tenths in one of ten bins, and then nothing; the other run does all of it in two.
    edges = np.arange(11.0)
    base = Delivered(edges, np.array([0.0, *[90.0] * 10]))
    other = Delivered(edges, np.array([0.0, 90.0, *[100.0] * 9]))
    assert base.gain(other) == pytest.approx(0.0)
    # 95 of 100 take 10 * 95 / 90 here, and 1.5 there.
    assert replace(base, whole=100.0).gain(other) == pytest.approx(95 / 9 / 1.5 - 1)


def test_the_next_best_is_worth_something() -> None:
    # With packets this large no larger ones are left to gain 5 %.
    result, verdict = tried(INCAST, "host.mtu=4096B", "run.duration=1ms")
    assert max(one.gain for one in verdict.candidates[1:]) < 0.05
    assert page(verdict).second == "Nothing else that was tried gains 5 %."
    estimate = explain(result)
    assert "that was tried" not in page(estimate).second
