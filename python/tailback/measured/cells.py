"""Tables of cells: CSV files with the settings that vary, and what was measured."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tailback.errors import InputError, Problem, found, one_of
from tailback.files import FileRefusedError, read_file
from tailback.limits import CELLS, CELLS_BYTES
from tailback.text import plural

TEXT, WHOLE, NUMBER = "text", "a whole number", "a number"


class Column(NamedTuple):
    name: str
    kind: str = NUMBER
    required: bool = False
    least: float = 0
    most: float = 1e15


class Quantity(NamedTuple):
    """A measured column, and when a prediction of it is met."""

    name: str
    within: float | None = None
    """Largest relative distance; None: it is shown and not judged."""
    factor: float | None = None
    """Largest ratio either way, where `within` does not hold."""

    def holds(self, predicted: float, measured: float) -> bool | None:
        if self.within is not None:
            return abs(predicted - measured) <= self.within * abs(measured)
        if self.factor is not None:
            if measured == 0 or predicted == 0:
                return measured == predicted
            return 1 / self.factor <= predicted / measured <= self.factor
        return None

    @property
    def most(self) -> float:
        """The most that it can be, by the ending of its name."""
        return (
            100.0
            if self.name.endswith("_pct")
            else 1.0
            if self.name.endswith("_frac") or self.name.startswith("jain_")
            else 1e15
        )

    @property
    def tolerance(self) -> str:
        if self.within is not None:
            return f"{100 * self.within:g} %"
        return "" if self.factor is None else f"a factor of {self.factor:g}"


@dataclass(frozen=True)
class Cell:
    """A row of a table."""

    line: int
    values: Mapping[str, Any]
    """Text, int, float or None of each column of settings."""
    measured: Mapping[str, float]
    """Those that are there."""

    @property
    def name(self) -> str:
        """Its own, with its recovery where it has one; or what makes a row of L3 what it is."""
        values = self.values
        if values.get("cell"):
            return " ".join(str(values[key]) for key in ("cell", "recovery") if values.get(key))
        if "nrules" in values:
            tx = "" if values["tx_usecs"] is None else f", tx-usecs {values['tx_usecs']:g}"
            return f"{values['group']}{tx}, {values['nrules']} rules"
        return f"line {self.line}"


@dataclass(frozen=True)
class Plan:
    """A cell as a scenario, and how each measured column is read from its result."""

    scenario: Mapping[str, Any]
    duration_s: float
    measure: Callable[[Any, Mapping[str, Any]], dict[str, float]]
    blocked: Mapping[str, str] = field(default_factory=dict)
    """Columns that cannot be predicted, and why."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files beside the scenario that it names, with their texts."""
    whole: bool = False
    """A quick prediction simulates all of it: its traffic begins and ends at times of its own."""


@dataclass(frozen=True)
class Blocked:
    """A cell that no scenario expresses."""

    why: str


@dataclass(frozen=True)
class Lab:
    name: str
    title: str
    keys: Sequence[Column]
    quantities: Sequence[Quantity]
    ignored: Sequence[str]
    """Columns that a table may have, and that say nothing about a run."""
    express: Callable[[Mapping[str, Any]], Plan | Blocked]
    misread: Mapping[str, str] = field(default_factory=dict)
    """Cells (by name) whose settings were read wrongly, and how: their comparison is void."""
    fitted_to: Mapping[str, str] = field(default_factory=dict)
    """Cells (by name) that constants of the lab were fitted to, and the constants."""
    seeds: Sequence[int] = (1,)
    quick: Sequence[str] = ()
    """The shown cells that a quick prediction without a table of its own takes."""


def read_cells(path: str | os.PathLike[str], lab: Lab) -> list[Cell]:
    """The cells of a CSV file.

    Raises:
        InputError: with all that is wrong in it, one line each: file, line, column, found, expected.
    """
    return parse_cells(read_table(path), os.fspath(path), lab)


def read_table(path: str | os.PathLike[str]) -> bytes:
    """InputError where there is no such file."""
    place = os.fspath(path)
    try:
        return read_file(path, CELLS_BYTES)
    except FileRefusedError as error:
        raise InputError.at(place, str(error)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError.at(place, f"found no file to read ({why}), expected a CSV file") from None


def parse_cells(table: bytes, place: str, lab: Lab) -> list[Cell]:
    """As `read_cells`, of what was read from `place`."""
    try:
        text = table.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError.at(place, "found bytes that are not UTF-8, expected a CSV file") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            if any(part.strip() for part in row):
                rows.append((reader.line_num, row))
            if len(rows) > CELLS + 1:
                raise InputError.at(place, f"found more than {CELLS} cells, expected at most {CELLS}")
    except csv.Error as error:
        raise InputError.at(f"{place}:{reader.line_num}", f"found {error}, expected CSV") from None
    if not rows:
        raise InputError.at(place, "found nothing, expected a line of column names and a line for each cell")
    header = _header(place, rows[0][0], [name.strip() for name in rows[0][1]], lab)
    if len(rows) == 1:
        raise InputError.at(place, "found no cell below the column names, expected at least one")
    problems: list[Problem] = []
    cells = [_cell(place, line, header, row, lab, problems) for line, row in rows[1:]]
    if problems:
        raise InputError(problems)
    return cells


def _header(place: str, line: int, names: list[str], lab: Lab) -> list[str]:
    known = [column.name for column in lab.keys] + [one.name for one in lab.quantities] + [*lab.ignored]
    at = f"{place}:{line}"
    problems = [
        Problem(at, (), f"found the column {found(name)}, expected {one_of(name, known)}")
        for name in names
        if name not in known
    ]
    problems += [
        Problem(at, (), f"found the column {name} twice, expected it once")
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    problems += [
        Problem(at, (), f"found no column {column.name}, expected the columns of settings of {lab.name}")
        for column in lab.keys
        if column.name not in names
    ]
    if problems:
        raise InputError(problems)
    return names


def _cell(
    place: str, line: int, header: list[str], row: list[str], lab: Lab, problems: list[Problem]
) -> Cell:
    at = f"{place}:{line}"
    if len(row) != len(header):
        text = f"found {plural(len(row), 'value')}, expected {len(header)}, one for each column"
        problems.append(Problem(at, (), text))
        return Cell(line, {}, {})
    written = {name: value.strip() for name, value in zip(header, row, strict=True)}
    values: dict[str, Any] = {}
    for column in lab.keys:
        text = written[column.name]
        if not text and column.required:
            problems.append(Problem(at, (column.name,), f"found nothing, expected {column.kind}"))
        values[column.name] = _value(at, column, text, problems) if text else None
    measured = {}
    for quantity in lab.quantities:
        if text := written.get(quantity.name, ""):
            measured[quantity.name] = _value(at, Column(quantity.name, most=quantity.most), text, problems)
    return Cell(line, values, measured)


def _value(at: str, column: Column, text: str, problems: list[Problem]) -> Any:
    if column.kind == TEXT:
        return text
    try:
        number = int(text) if column.kind == WHOLE else float(text)
    except ValueError:
        number = math.nan
    if column.least <= number <= column.most:
        return number
    expected = f"{column.kind}, {column.least:g} to {column.most:g}"
    problems.append(Problem(at, (column.name,), f"found {found(text)}, expected {expected}"))
    return column.least
