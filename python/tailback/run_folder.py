"""The folder of a run: its files, writing and reading.

`report.html` (opens offline), `summary.json`, `flows.parquet`, `series.parquet`, `entities.parquet`,
`signals.parquet`, `counters.json` and `timing.json`. To repeat the run it also has `scenario.yaml` (resolved) and
`plan.json`, with the files that the scenario names under `inputs`; or the files of another simulator, with
its outputs. The same seed gives the same bytes in every file except `timing.json`, which holds wall-clock times
and the version of Tailback.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback.errors import InputError
from tailback.files import Outputs, UnchangedFile, confined_to, read_file
from tailback.files.json import in_lines, read_json
from tailback.files.out_folder import SUMMARY_FILE, Occupied, OutFolder, claim, sync, write_file, write_parts
from tailback.files.parquet import parquet_groups, parquet_rows, read_parquet, write_parquet
from tailback.limits import RESULT_BYTES, RESULT_FLOWS, RESULT_VALUES
from tailback.metrics import summarise
from tailback.recorded.flows import read_flows
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ScenarioSetup, Setup
from tailback.scenario.show import INPUTS_FOLDER
from tailback.version import __version__

REPORT_FILE = "report.html"
TRACE_FILE = "trace.json"
"""Made from the other files, on demand."""

COMMON_FILES = (
    REPORT_FILE,
    SUMMARY_FILE,
    "flows.parquet",
    "series.parquet",
    "entities.parquet",
    "signals.parquet",
    "counters.json",
    "timing.json",
)
"""Files of every run, however it was set up; the report may be missing."""


INCOMPLETE_RESULT = "a result that was not written to its end"
"""How messages name a folder without summary.json, which is written last."""


MAX_FLOWS_IN_MEMORY = 1 << 20
"""Tables of more flows stay in a file."""

Run = TypeVar("Run", bound=Recorded)


def write(result: Recorded, out_dir: str | Path | OutFolder, report: bool = True) -> Path:
    """Writes the folder of the run and returns its path. The folder appears complete or not at all.

    An older result in its place is replaced. Without `report` there is no report.html, see `write_report`.

    Raises:
        FileExistsError: the folder has other files, or another run writes there.
        OSError: the folder cannot be written; an older result stays.
    """
    if isinstance(out_dir, OutFolder):
        out_dir.fill(lambda inside: _write_files(result, inside, report, out_dir.growing_names()))
        return out_dir.path
    out = Path(out_dir)
    try:
        folder = claim(out, "result")
    except Occupied as error:
        raise FileExistsError(f"{out}: found {error}; name another folder") from None
    with folder:
        folder.fill(lambda inside: _write_files(result, inside, report))
    return folder.path


def write_report(folder: Path) -> Path:
    """Writes the report of a run into its folder, replaces an older one, and returns the path.

    Raises:
        InputError: this is not the folder of a run, or its files cannot be read.
        OSError: the report cannot be written.
    """
    from tailback.report import render  # templates take a while to load, and not every run has a report

    result = read_run(folder)
    with reading(folder):
        page = render(result).encode()
    return _replaced(folder / REPORT_FILE, page)


def write_trace(folder: Path) -> Path:
    """Writes the trace of a run (see `trace`) into its folder, replaces an older one, and returns the path.

    Raises:
        InputError: this is not the folder of a run with jobs, or its files cannot be read.
        OSError: the trace cannot be written.
    """
    from tailback.trace import trace

    result = read_run(folder)
    if not result.meta.get("jobs"):
        expected = "a run with ranks: kind all-reduce (or another collective of a size) or job"
        raise InputError.at(str(folder), f"found no job, expected {expected}")
    with reading(folder):
        events = trace(result).encode()
    return _replaced(folder / TRACE_FILE, events)


def _replaced(path: Path, data: bytes) -> Path:
    beside = path.with_name(f".{path.name}.writing")
    try:
        write_file(beside, data)
        return beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _write_files(result: Recorded, folder: Path, report: bool, grown: Collection[str] = ()) -> None:
    """Writes all files except those in `grown`, which were written during the run."""
    long_files = result.setup.long_files
    for name in (*result.setup.files, *long_files, *result.outputs):
        if not _is_extra_file(name):
            raise ValueError(f"{name!r} is no name for a file of a result")
        if name in grown:
            continue
        (folder / name).parent.mkdir(exist_ok=True)
        if name in long_files:
            write_parts(folder / name, long_files[name]())
        else:
            data = result.outputs[name] if name in result.outputs else result.setup.files[name]
            write_file(folder / name, data)
    if (folder / INPUTS_FOLDER).is_dir():
        sync(folder / INPUTS_FOLDER)
    counters = {"names": result.counter_names, "nodes": result.counters_by_node}
    write_file(folder / "counters.json", in_lines(counters).encode())
    write_file(folder / "timing.json", in_lines(_timing(result)).encode())
    write_parquet(folder / "flows.parquet", result.flows)
    write_parquet(folder / "series.parquet", result.series)
    write_parquet(folder / "entities.parquet", result.entities)
    write_parquet(folder / "signals.parquet", result.signals)
    if report:
        from tailback.report import render

        write_file(folder / REPORT_FILE, render(result).encode())
    summary = {
        **summarise(result),
        "assumptions": result.assumptions,
        "not_honoured": result.setup.not_honoured,
        "outputs": sorted(result.outputs),
        "meta": result.meta,
    }
    write_file(folder / SUMMARY_FILE, in_lines(summary).encode())


def load(folder: str | Path, kind: type[Run]) -> Run:
    """Reads the folder of a run as a result of type `kind`.

    Raises:
        FileNotFoundError: a file is missing; the message names it. A folder without summary.json, which is
            written last, is incomplete.
        ValueError: a file has other contents than expected.
    """
    path = Path(folder)
    with confined_to(path):
        return _loaded(path, kind)


def _loaded(path: Path, kind: type[Run]) -> Run:
    needed = [SUMMARY_FILE, *(name for name in COMMON_FILES if name not in (SUMMARY_FILE, REPORT_FILE))]
    for name in needed:
        if not (path / name).is_file():
            half = name == SUMMARY_FILE and any((path / other).is_file() for other in COMMON_FILES)
            why = INCOMPLETE_RESULT if half else "not the folder of a run"
            raise FileNotFoundError(f"{path / name}: missing; {path} is {why}")
    timing, summary = read_json(path / "timing.json"), read_json(path / SUMMARY_FILE)
    outputs = summary["outputs"]
    if not all(isinstance(name, str) and _is_extra_file(name) and "/" not in name for name in outputs):
        raise ValueError(f"{SUMMARY_FILE}: outputs has a name that is none of a file in the folder")
    setup = _read_setup(path, summary)
    counters = read_json(path / "counters.json")
    return kind(
        flows=_read_flows(path / "flows.parquet"),
        series=_read_parquet(path / "series.parquet"),
        entities=_read_parquet(path / "entities.parquet"),
        signals=_read_parquet(path / "signals.parquet"),
        counters=_flat(counters["nodes"]),
        counter_names=counters["names"],
        meta=summary["meta"],
        setup=setup,
        wall_s=timing["wall_s"],
        cpu_s=timing["cpu_s"],
        outputs=Outputs({name: UnchangedFile(path / name, RESULT_BYTES) for name in outputs}),
    )


def _read_setup(folder: Path, summary: Mapping[str, Any]) -> Setup:
    """Reads the set-up of a run: a scenario, or the files of another simulator.

    Raises:
        FileNotFoundError: a file is missing; the message names it.
    """
    # Writing a folder needs at most one of these.
    from tailback.astra.setup import ASTRA_FILES, AstraSetup
    from tailback.hpcc.setup import HPCC_FILES, HpccSetup
    from tailback.simai.setup import SIMAI_FILES, SimaiSetup

    forms: list[tuple[tuple[str, ...], Callable[[Path, Mapping[str, Any]], Setup]]] = [
        (ASTRA_FILES, AstraSetup.read),
        (SIMAI_FILES, SimaiSetup.read),
        (HPCC_FILES, HpccSetup.read),
        (("scenario.yaml", "plan.json"), ScenarioSetup.read),
    ]
    # The first file of each list identifies the kind of set-up.
    needed, read = next((form for form in forms if (folder / form[0][0]).is_file()), forms[-1])
    for name in needed:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder / name}: missing; {folder} is not the folder of a run")
    return read(folder, summary)


def _timing(result: Recorded) -> dict[str, Any]:
    speed = result.hops_per_cpu_s
    return {
        "wall_s": result.wall_s,
        "cpu_s": result.cpu_s,
        "packet_hops_per_cpu_s": speed if speed == speed else None,
        "tailback_version": __version__,
    }


def _is_extra_file(name: str) -> bool:
    """True if `name` may be a file of the folder or of its inputs beside the common files."""
    first, *rest = name.split("/")
    return (
        (not rest or (first == INPUTS_FOLDER and len(rest) == 1))
        and not any(part in ("", ".", "..") or "\0" in part for part in (first, *rest))
        and name not in (*COMMON_FILES, INPUTS_FOLDER)
    )


def _read_parquet(path: Path) -> pa.Table:
    try:
        table = read_parquet(read_file(path, RESULT_BYTES), RESULT_VALUES, RESULT_VALUES, RESULT_BYTES)
        return _finite(table)
    except (ValueError, OSError) as error:  # its text does not name the file
        raise ValueError(f"{path.name}: {error}") from None


def _finite(table: pa.Table) -> pa.Table:
    """The table; raises ValueError if it has an infinite number or NaN, which every figure would inherit."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            finite = pc.fill_null(pc.is_finite(column), True)
            if pc.all(finite).as_py() is False:  # None for an empty table
                row = finite.to_pylist().index(False)
                raise ValueError(f"row {row}, {name}: found {column[row]}, expected a finite number")
    return table


def _read_flows(path: Path) -> pa.Table:
    """Reads flows as any table; a table of more than `MAX_FLOWS_IN_MEMORY` rows stays in the file."""
    try:
        file = UnchangedFile(path, RESULT_BYTES)
        with file.open() as held:
            rows = parquet_rows(held)
        if rows <= MAX_FLOWS_IN_MEMORY:
            return _read_parquet(path)
        groups = parquet_groups(file.open, RESULT_FLOWS, RESULT_FLOWS * 64, RESULT_BYTES)
        return read_flows(path, map(_finite, groups))
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name}: {str(error).removeprefix(f'{path.name}: ')}") from None


def _flat(nodes: dict[str, dict[str, dict[str, int]]]) -> pa.Table:
    rows = [
        (node, port, counter, value)
        for node, ports in sorted(nodes.items())
        for port, counters in sorted(ports.items())
        for counter, value in sorted(counters.items())
    ]
    names = ("node", "port", "counter", "value")
    kinds = (pa.string(), pa.string(), pa.string(), pa.int64())
    return pa.table(
        {
            name: pa.array([row[i] for row in rows], kind)
            for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
        }
    )


_MAX_REASON_CHARS = 300
_READ_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    OSError,
    NotImplementedError,
    RecursionError,
    MemoryError,
)
"""Errors that truncated or wrong files cause while they are read. NotImplementedError is Arrow's, for a function
that does not take the type of a column.
"""


def read_run(folder: Path) -> Recorded:
    """Reads the result in a folder and checks all of its parts at once.

    Raises:
        InputError: this is not the folder of a run, or its files cannot be read.
    """
    part = "files"
    try:
        result = load(folder, Recorded)
        with np.errstate(invalid="raise"):  # a null in a column of numbers
            for name, check in _CHECKS_BY_PART.items():
                part = name
                check(result)
    except FileNotFoundError as error:
        path, _, why = str(error).partition(": missing; ")
        missing = path.rpartition("/")[2]
        if INCOMPLETE_RESULT in why:
            raise InputError.at(
                str(folder), f"found {INCOMPLETE_RESULT} (no {missing}), expected the folder of a run"
            ) from None
        inside = [*sorted(folder.glob("*/*/summary.json")), *sorted(folder.glob("*/summary.json"))]
        runs = [path.parent for path in inside if not path.parent.name.startswith(".")]
        other = f", perhaps {runs[0]}" if runs else ""
        raise InputError.at(str(folder), f"found no {missing}, expected the folder of a run{other}") from None
    except _READ_ERRORS as error:
        raise _cannot_be_read(folder, part, error) from None
    return result


@contextmanager
def reading(folder: Path | str) -> Iterator[None]:
    """Turns errors of damaged data into an InputError, around code that uses a result that was read.

    Raises:
        InputError: as `read_run`.
    """
    try:
        with np.errstate(invalid="raise"):
            yield
    except InputError:
        raise
    except _READ_ERRORS as error:
        raise _cannot_be_read(folder, "a part", error) from None


_CHECKS_BY_PART: dict[str, Callable[[Recorded], object]] = {
    "a network": lambda result: result.setup.network,
    "counters": lambda result: sorted(result.counter_names),
    "series": lambda result: result.bins,
    "signals": lambda result: result.signal_log,
    "figures": lambda result: summarise(result),
}
"""Computations that read each part of a result, by the name of the part in messages."""


def _cannot_be_read(folder: Path | str, part: str, error: BaseException) -> InputError:
    # The text of a KeyError is only the key.
    other = f"no {error}; another version may have written it"
    why = other if type(error) is KeyError else " ".join(str(error).split()) or type(error).__name__
    why = why if len(why) <= _MAX_REASON_CHARS else f"{why[:_MAX_REASON_CHARS]}..."
    return InputError.at(
        str(folder), f"found {part} that cannot be read ({why}), expected the folder of a run"
    )
