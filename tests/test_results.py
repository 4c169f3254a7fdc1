"""The folder of a run: whole or not there, the same bytes for the same run, and readable again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from synthetic import incast, plan, result_of
from tailback import scenario, text
from tailback.results import Result
from tailback.run_folder import COMMON_FILES, write_report
from tailback.running import run
from tailback.scenario import assumptions

FILES = (*COMMON_FILES, "scenario.yaml", "plan.json")


def small(wall_s: float = 1.0, interrupted: bool = False, **more: Any) -> Result:
    recording = incast(**{"senders": 4, "bins": 200, "qps": 4, **more})
    return result_of(plan(4), recording, wall_s, 2.0, interrupted)


def printed(result: Result) -> str:
    console = Console(width=120, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(result.closing_table())
    return capture.get()


def test_the_folder_has_its_files(tmp_path: Path) -> None:
    out = small().write(tmp_path / "run")
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]  # nothing temporary is left beside it


def test_the_same_run_gives_the_same_bytes_but_for_timing(tmp_path: Path) -> None:
    first, second = small(wall_s=1.0).write(tmp_path / "a"), small(wall_s=9.0).write(tmp_path / "b")
    different = [name for name in FILES if (first / name).read_bytes() != (second / name).read_bytes()]
    assert different == ["timing.json"]


def test_only_timing_knows_the_clock(tmp_path: Path) -> None:
    out = small().write(tmp_path / "run")
    timing = json.loads((out / "timing.json").read_text())
    assert set(timing) == {"wall_s", "cpu_s", "packet_hops_per_cpu_s", "tailback_version"}
    hops = json.loads((out / "summary.json").read_text())["packet_hops"]
    assert timing["packet_hops_per_cpu_s"] == hops / 2.0


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    result = small()
    loaded = Result.load(result.write(tmp_path / "run"))
    assert loaded.summary == result.summary
    assert loaded.meta == result.meta
    assert loaded.plan == result.plan
    assert loaded.flows.equals(result.flows)
    assert loaded.counters.equals(result.counters)
    assert loaded.series.num_rows == result.series.num_rows
    assert loaded.setup == result.setup
    again = loaded.write(tmp_path / "again")
    for name in FILES:
        assert (again / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), name


def test_other_libraries_read_the_tables(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    result = small()
    out = result.write(tmp_path / "run")
    assert isinstance(result.flows, pa.Table)
    assert polars.from_arrow(result.flows).shape == (16, len(result.flows.column_names))
    assert polars.read_parquet(out / "series.parquet").columns == ["time_ps", "entity", "metric", "value"]


def test_a_run_may_replace_a_run_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    small().write(out)  # empty: nothing is lost
    small(interrupted=True).write(out)
    assert json.loads((out / "summary.json").read_text())["complete"] is False
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("x")
    with pytest.raises(FileExistsError, match="found a folder that is not that of a run"):
        small().write(other)
    assert (other / "chapter1.tex").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "thesis"]


def test_a_report_may_be_written_later(tmp_path: Path) -> None:
    small().write(tmp_path / "with")
    out = small().write(tmp_path / "without", report=False)
    assert not (out / "report.html").exists()
    before = {path.name for path in out.iterdir()}
    assert write_report(out) == out / "report.html"
    assert {path.name for path in out.iterdir()} == before | {"report.html"}
    assert (out / "report.html").read_bytes() == (tmp_path / "with" / "report.html").read_bytes()
    write_report(out)  # in place of an older one


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(result: Result) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("tailback.report.render", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small().write(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    out = small().write(tmp_path / "run")
    (out / "flows.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"flows\.parquet: missing"):
        Result.load(out)


def test_a_partial_run_says_so_everywhere(tmp_path: Path) -> None:
    result = small(interrupted=True)
    assert not result.complete
    assert "Partial run" in printed(result)
    out = result.write(tmp_path / "run")
    assert json.loads((out / "summary.json").read_text())["complete"] is False
    html = (out / "report.html").read_text()
    assert "(partial)" in html.split("</title>")[0]
    assert 'class="badge">partial' in html
    assert not Result.load(out).complete


def test_the_closing_table_has_the_findings() -> None:
    words = printed(small())
    for what in ("Throughput", "Fairness", "Drops", "Pauses", "ECN marks", "Standing queue", "Speed"):
        assert what in words
    assert "Partial" not in words


def test_of_equal_senders_none_is_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    equal = {"jain": 1.0, "senders": 4, "min_max_ratio": 1.0} | {
        which: {"host": "h0", "bps": 1e9} for which in ("slowest", "fastest")
    }
    summary = small().summary | {"fairness": equal}
    monkeypatch.setattr("tailback.metrics.fairness.summarise", lambda _result: summary)
    since = text.duration(summary["convergence_s"])
    assert f"Jain's index over 4 senders, since {since}. Each got 1 Gbit/s." in printed(small())


def test_faults_are_named_first() -> None:
    fault = {"kind": "lossless_drop", "where": "sw0:h3/pg3", "text": "3 packets did not fit"}
    result = small(faults=[fault])
    assert result.faults == [fault]
    assert printed(result).splitlines()[0].startswith("Faults")
    assert "3 packets did not fit" in printed(result)


def test_summary_has_no_figure_that_json_has_not() -> None:
    json.dumps(small(bins=1).summary, allow_nan=False)


def test_assumptions_are_the_defaults_without_a_source() -> None:
    found = {
        one["setting"]: one
        for one in assumptions.assumptions(scenario.show(scenario.load("roce-incast-lossy")))
    }
    assert found["host.transport.ack_every"]["value"] == "16"
    assert found["host.transport.ack_every"]["why"]
    assert "traffic.0.start" in found
    assert "host.mtu" not in found  # given
    assert "host.transport.retry_count" not in found  # perftest gives it


def test_every_series_belongs_to_an_entity_of_a_kind() -> None:
    result = run("roce-tcp-isolated", sets=["run.duration=2ms"])
    rows = {row["entity"]: row for row in result.entities.to_pylist()}
    assert set(rows) == set(result.series.column("entity").unique().to_pylist())
    for queue in result.meta["queues"]:
        if queue["queue"] in rows:
            row = rows[queue["queue"]]
            assert (row["kind"], row["node"]) == (queue["kind"], queue["node"])
    items = {row["item"]: row for row in rows.values() if row["kind"] == "item"}
    assert set(items) == set(result.flows.column("item").unique().to_pylist())
    pairs = {(row["node"], row["peer"]) for row in rows.values() if row["kind"] == "queue-pair"}
    assert pairs <= set(zip(*(result.flows.column(end).to_pylist() for end in ("src", "dst")), strict=True))
    assert pairs
    egress = next(row for row in rows.values() if row["kind"] == "egress")
    assert egress["entity"].startswith(f"{egress['node']}:{egress['peer']}/")
