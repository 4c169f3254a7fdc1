"""Labs that others measured: their tables, and what is predicted of them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tailback import cli
from tailback.errors import InputError
from tailback.measured import LABS, lab
from tailback.measured.cells import Blocked, Cell, Lab, Quantity, parse_cells
from tailback.measured.predict import (
    BLOCKED,
    MET,
    MISSED,
    VOID,
    Outcome,
    Predicted,
    compare_cell,
    predict,
    summed_up,
)
from tailback.measured.tables import table_of
from tailback.scenario import load

HEADER = ",".join(column.name for column in lab("L1").keys) + ",goodput_gbps"
ROW = "msgsize,a,,RC WRITE,1,1,1,8192,1,4096,,,,13.2"


def table(*rows: str, header: str = HEADER) -> bytes:
    return "\n".join([header, *rows, ""]).encode()


@pytest.mark.parametrize("name", LABS)
def test_every_cell_of_a_table_is_a_scenario_or_says_why_not(name: str) -> None:
    one = lab(name)
    _, cells, _ = table_of(one, None)
    seen = set()
    for cell in cells:
        plan = one.express(cell.values)
        if isinstance(plan, Blocked):
            assert plan.why
        elif not plan.files and (key := json.dumps(plan.scenario, sort_keys=True)) not in seen:
            seen.add(key)
            load({**plan.scenario, "run": {"duration": f"{plan.duration_s * 1e6:.0f}us"}})
    assert len(seen) >= 15
    assert {*one.misread, *one.fitted_to} <= {cell.name for cell in cells}


@pytest.mark.parametrize("name", LABS)
def test_a_plan_knows_nothing_of_what_was_measured(name: str) -> None:
    """Cells by their settings alone: neither notes nor measured values reach a run."""
    one = lab(name)
    _, cells, _ = table_of(one, None)
    keys = {column.name for column in one.keys}
    assert keys.isdisjoint({quantity.name for quantity in one.quantities})
    assert all(set(cell.values) == keys for cell in cells)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "t.csv: found nothing, expected a line of column names and a line for each cell"),
        (b"\xff\xfe", "t.csv: found bytes that are not UTF-8, expected a CSV file"),
        (table(), "t.csv: found no cell below the column names, expected at least one"),
        (table(ROW, header=HEADER + ",x"), 't.csv:1: found the column "x", expected one of'),
        (table(ROW, header=HEADER + ",goodput_gbps"), "t.csv:1: found the column goodput_gbps twice"),
        (table(ROW, header=HEADER.replace("depth,", "")), "t.csv:1: found no column depth, expected the"),
        (table(ROW + ",1"), "t.csv:2: found 15 values, expected 14, one for each column"),
        (table(ROW.replace("13.2", "fast")), 't.csv:2: goodput_gbps: found "fast", expected a number'),
        (table(ROW.replace("13.2", "nan")), 't.csv:2: goodput_gbps: found "nan", expected a number'),
        (table(ROW.replace("8192", "8 KiB")), 't.csv:2: msg_bytes: found "8 KiB", expected a whole number'),
        (table(ROW.replace("E,1,1,1", "E,0,1,1")), 't.csv:2: senders: found "0", expected a whole number, 1'),
        (table(ROW.replace("E,1,1,1", "E,,1,1")), "t.csv:2: senders: found nothing, expected a whole number"),
        (table(ROW.replace("8192", "9" * 30)), "t.csv:2: msg_bytes: found"),
        (table('msgsize,"a'), "t.csv:2: found"),
    ],
)
def test_a_bad_table_is_one_line(content: bytes, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_cells(content, "t.csv", lab("L1"))
    assert len(caught.value.problems) == 1
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["L1", "--cells", "none.csv"], "none.csv: found no file to read"),
        (["L9", "--cells", "t.csv"], "L9: found no such lab, expected one of L1, L2, L3"),
        (["L1", "--only", "C1"], "--only: found with the cells of a lab, expected no --only"),
        (["L1", "--cells", "t.csv"], 't.csv:2: the cell\'s scenario cannot be: host.mtu: found "3000B"'),
    ],
)
def test_bad_input_of_the_command_is_one_line_and_leaves_nothing(
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(table(ROW.replace("4096", "3000")))
    assert cli.main(["reproduce", *arguments, "--out", "out"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(problem)
    assert len(told.err.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def predicted(arguments: list[str], folder: Path) -> tuple[list[dict[str, str]], dict[str, Any]]:
    assert cli.main(["reproduce", *arguments, "--quick", "--quiet", "--out", str(folder)]) == 0
    rows = list(csv.DictReader(io.StringIO((folder / "predictions.csv").read_text())))
    return rows, json.loads((folder / "predictions.json").read_text())


def test_cells_are_predicted_alike_with_and_without_measured_values(tmp_path: Path) -> None:
    (tmp_path / "with.csv").write_bytes(table(ROW, ROW.replace("RC WRITE", "RC READ")))
    (tmp_path / "without.csv").write_bytes(
        table(*(row.replace("13.2", "") for row in (ROW, ROW.replace("RC WRITE", "RC READ"))))
    )
    told = predicted(["L1", "--cells", str(tmp_path / "with.csv")], tmp_path / "a")
    blind = predicted(["L1", "--cells", str(tmp_path / "without.csv")], tmp_path / "b")
    assert told[0] == blind[0]
    assert told[1]["predictions_sha256"] == blind[1]["predictions_sha256"]
    written, read = told[0]
    assert (written["cell"], written["msg_bytes"], written["status"]) == ("a", "8192", "predicted")
    assert float(written["goodput_gbps"]) == pytest.approx(13.2, rel=0.25)
    assert written["goodput_gbps_spread"] == "0"
    assert (read["status"], read["goodput_gbps"]) == (BLOCKED, "")
    assert "READ" in read["why"]
    assert (tmp_path / "a" / "comparison.csv").exists()
    assert not (tmp_path / "b" / "comparison.csv").exists()


@pytest.mark.parametrize("name", ["L2", "L3"])
def test_the_quick_form_of_a_lab_is_short_and_compares(name: str, tmp_path: Path) -> None:
    rows, figures = predicted([name], tmp_path / "out")
    assert 3 <= len(rows) <= 6
    assert figures["quick"]
    assert any(row["met"] for row in figures["quantities"])


def outcome(measured: float, mean: float | None, name: str = "a") -> Outcome:
    found = {} if mean is None else {"goodput_gbps": Predicted(mean, 0.0)}
    return Outcome(Cell(2, {"cell": name}, {"goodput_gbps": measured}), predicted=found)


def test_a_verdict_is_void_before_it_is_anything_else_and_blocked_without_a_prediction() -> None:
    quantity = Quantity("goodput_gbps", within=0.15)
    one = Lab("T", "a lab", [], [quantity], [], lambda values: Blocked(""), {"v": "read wrongly"}, {"f": "a"})
    cases = [(outcome(100, 114), MET), (outcome(100, 116), MISSED), (outcome(100, None), BLOCKED)]
    cases += [(outcome(100, 100, "v"), VOID), (outcome(100, None, "v"), VOID)]
    compared = [compare_cell(one, given) for given, _ in cases]
    assert [row[0].verdict for row in compared] == [verdict for _, verdict in cases]
    fitted = compare_cell(one, outcome(100, 100, "f"))
    rows = summed_up([row for rows in [*compared, fitted] for row in rows])
    assert [(row.calibrated, row.predicted, row.met, row.blocked, row.void) for row in rows] == [
        (False, 2, 1, 1, 2),
        (True, 1, 1, 0, 0),
    ]


def test_a_factor_holds_both_ways_and_nothing_is_only_like_nothing() -> None:
    quantity = Quantity("x", factor=2)
    held = [quantity.holds(*pair) for pair in ((2, 1), (1, 2), (2.1, 1), (1, 2.1), (0, 0), (0, 1), (1, 0))]
    assert held == [True, True, False, False, True, False, False]


FROZEN = Path(__file__).parent.parent / "docs" / "measured"
AGAIN = {
    "L1": ["engine_depth1_8192"],
    "L2": ["E3 gbn"],
    "L3": [
        "sweep_v7, tx-usecs 0, 1000 rules",
        "v6_other_machine, tx-usecs 20000, 1000 rules",
        "v6_ping_only, tx-usecs 0, 100 rules",
    ],
}
"""Cells of each lab that take little time."""


@pytest.mark.parametrize("name", LABS)
def test_the_book_has_what_the_labs_predict_now(name: str, tmp_path: Path) -> None:
    """Frozen predictions are those of this code: whatever changes them has to freeze new ones."""
    one = lab(name)
    frozen = (FROZEN / f"{name}.csv").read_bytes()
    about = json.loads((FROZEN / f"{name}.json").read_text())
    assert hashlib.sha256(frozen).hexdigest() == about["predictions_sha256"]
    assert about["calibrated"] == dict(one.fitted_to)
    source, cells, place = table_of(one, None)
    assert about["cells_sha256"] == hashlib.sha256(source).hexdigest()
    rows = list(csv.DictReader(io.StringIO(frozen.decode())))
    assert len(rows) == len(cells)
    asked = [(cell, row) for cell, row in zip(cells, rows, strict=True) if cell.name in AGAIN[name]]
    done = predict(one, [cell for cell, _ in asked], source, place, tmp_path / "out", seeds=about["seeds"])
    again = list(csv.DictReader(io.StringIO(done.csv().decode())))
    assert again == [row for _, row in asked]


def test_the_page_of_the_labs_is_current() -> None:
    tool = FROZEN.parent.parent / "tools" / "labs_page.py"
    made = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
