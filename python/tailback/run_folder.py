"""The folder of a run: what is in it, writing it, and reading it back.

`report.html` (opens offline), `summary.json`, `flows.parquet`, `series.parquet`, `entities.parquet`,
`signals.parquet`, `counters.json` and `timing.json`, and what repeats the run: `scenario.yaml` (resolved) and
`plan.json`, with the files that the scenario names under `inputs`; or the files of another simulator, with
its outputs. The same seed gives the same bytes in every file but `timing.json`, which alone holds wall-clock
figures and the tool's version.
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
from tailback.files import Copied, inside, read_file
from tailback.files.json import in_lines, read_json
from tailback.files.out_folder import LAST, Occupied, OutFolder, claim, sync, write_file, write_parts
from tailback.files.outputs import Outputs
from tailback.files.parquet import parquet_groups, parquet_rows, read_parquet, write_parquet
from tailback.limits import RESULT_BYTES, RESULT_FLOWS, RESULT_VALUES
from tailback.recorded.flows import read_flows
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ScenarioSetup, Setup
from tailback.scenario.show import INPUTS
from tailback.summary import summarise
from tailback.version import __version__

REPORT = "report.html"
TRACE = "trace.json"
"""The one file of a result that is made of the others, and may be made later."""

FILES = (
    REPORT,
    "summary.json",
    "flows.parquet",
    "series.parquet",
    "entities.parquet",
    "signals.parquet",
    "counters.json",
    "timing.json",
)
"""What every folder has, however the run was set up; of a run without a report all others."""


HALF = "a result that was not written to its end"
"""What is said of a folder without the file that is written last."""


FEW_FLOWS = 1 << 20
"""Rows of flows.parquet that are read at once."""

Run = TypeVar("Run", bound=Recorded)


def write(result: Recorded, out_dir: str | Path | OutFolder, report: bool = True) -> Path:
    """Write the folder of the run and give its path. The folder appears whole or not at all.

    An older result in its place is replaced. Without `report` there is no report.html, see `write_report`.

    Raises:
        FileExistsError: something else is there, or another run writes there.
        OSError: it cannot be written; nothing of it is there, and an older result still is.
    """
    if isinstance(out_dir, OutFolder):
        out_dir.fill(lambda inside: _write_files(result, inside, report, out_dir.grown()))
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
    """Write the report of a run into its folder, in place of an older one, and give its path.

    Raises:
        InputError: it is not the folder of a run, or its files cannot be read.
        OSError: it cannot be written.
    """
    from tailback.report import render  # templates take a while to load, and not every run has a report

    result = read_run(folder)
    with reading(folder):
        page = render(result).encode()
    return _replaced(folder / REPORT, page)


def write_trace(folder: Path) -> Path:
    """Write the trace of a run into its folder, in place of an older one, and give its path: see `trace`.

    Raises:
        InputError: it is not the folder of a run with jobs, or its files cannot be read.
        OSError: it cannot be written.
    """
    from tailback.trace import trace

    result = read_run(folder)
    if not result.meta.get("jobs"):
        expected = "a run with ranks: kind all-reduce (or another collective of a size) or job"
        raise InputError.at(str(folder), f"found no job, expected {expected}")
    with reading(folder):
        events = trace(result).encode()
    return _replaced(folder / TRACE, events)


def _replaced(path: Path, data: bytes) -> Path:
    beside = path.with_name(f".{path.name}.writing")
    try:
        write_file(beside, data)
        return beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _write_files(result: Recorded, folder: Path, report: bool, grown: Collection[str] = ()) -> None:
    """All but what has grown during the run, and is put in place with them."""
    long_files = result.setup.long_files
    for name in (*result.setup.files, *long_files, *result.outputs):
        if not _is_own(name):
            raise ValueError(f"{name!r} is no name for a file of a result")
        if name in grown:
            continue
        (folder / name).parent.mkdir(exist_ok=True)
        if name in long_files:
            write_parts(folder / name, long_files[name]())
        else:
            data = result.outputs[name] if name in result.outputs else result.setup.files[name]
            write_file(folder / name, data)
    if (folder / INPUTS).is_dir():
        sync(folder / INPUTS)
    counters = {"names": result.counter_names, "nodes": result.counters_by_node}
    write_file(folder / "counters.json", in_lines(counters).encode())
    write_file(folder / "timing.json", in_lines(_timing(result)).encode())
    write_parquet(folder / "flows.parquet", result.flows)
    write_parquet(folder / "series.parquet", result.series)
    write_parquet(folder / "entities.parquet", result.entities)
    write_parquet(folder / "signals.parquet", result.signals)
    if report:
        from tailback.report import render

        write_file(folder / REPORT, render(result).encode())
    summary = {
        **summarise(result),
        "assumptions": result.assumptions,
        "not_honoured": result.setup.not_honoured,
        "outputs": sorted(result.outputs),
        "meta": result.meta,
    }
    write_file(folder / LAST, in_lines(summary).encode())


def load(folder: str | Path, kind: type[Run]) -> Run:
    """Reads the folder of a run, as a `kind` of result.

    Raises:
        FileNotFoundError: it names the file that is missing. A folder without summary.json, which is
            written last, has no whole result.
        ValueError: a file holds something else.
    """
    path = Path(folder)
    with inside(path):
        return _loaded(path, kind)


def _loaded(path: Path, kind: type[Run]) -> Run:
    needed = [LAST, *(name for name in FILES if name not in (LAST, REPORT))]
    for name in needed:
        if not (path / name).is_file():
            half = name == LAST and any((path / other).is_file() for other in FILES)
            why = HALF if half else "not the folder of a run"
            raise FileNotFoundError(f"{path / name}: missing; {path} is {why}")
    timing, summary = read_json(path / "timing.json"), read_json(path / LAST)
    outputs = summary["outputs"]
    if not all(isinstance(name, str) and _is_own(name) and "/" not in name for name in outputs):
        raise ValueError(f"{LAST}: outputs has a name that is none of a file in the folder")
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
        outputs=Outputs({name: Copied(path / name, RESULT_BYTES) for name in outputs}),
    )


def _read_setup(folder: Path, summary: Mapping[str, Any]) -> Setup:
    """From the folder of a run, in whichever form it was set up.

    Raises:
        FileNotFoundError: names the file that is missing.
    """
    # Who writes a folder needs none of them, or one.
    from tailback.astra.setup import FILES as ASTRA_FILES
    from tailback.astra.setup import AstraSetup
    from tailback.hpcc.setup import FILES as HPCC_FILES
    from tailback.hpcc.setup import HpccSetup
    from tailback.simai.setup import FILES as SIMAI_FILES
    from tailback.simai.setup import SimaiSetup

    forms: list[tuple[tuple[str, ...], Callable[[Path, Mapping[str, Any]], Setup]]] = [
        (ASTRA_FILES, AstraSetup.read),
        (SIMAI_FILES, SimaiSetup.read),
        (HPCC_FILES, HpccSetup.read),
        (("scenario.yaml", "plan.json"), ScenarioSetup.read),
    ]
    # The first file of a form is the one that tells it.
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


def _is_own(name: str) -> bool:
    """Whether it is the name of a file of the folder or of its inputs, and none that every folder has."""
    first, *rest = name.split("/")
    return (
        (not rest or (first == INPUTS and len(rest) == 1))
        and not any(part in ("", ".", "..") or "\0" in part for part in (first, *rest))
        and name not in (*FILES, INPUTS)
    )


def _read_parquet(path: Path) -> pa.Table:
    try:
        table = read_parquet(read_file(path, RESULT_BYTES), RESULT_VALUES, RESULT_VALUES, RESULT_BYTES)
        return _finite(table)
    except (ValueError, OSError) as error:  # which do not say which file it is
        raise ValueError(f"{path.name}: {error}") from None


def _finite(table: pa.Table) -> pa.Table:
    """A table that has no infinite number and no NaN, which would go on into every sentence."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            finite = pc.fill_null(pc.is_finite(column), True)
            if pc.all(finite).as_py() is False:  # it is None of no row
                row = finite.to_pylist().index(False)
                raise ValueError(f"row {row}, {name}: found {column[row]}, expected a finite number")
    return table


def _read_flows(path: Path) -> pa.Table:
    """As all tables; but one of very many flows stays in a file."""
    try:
        file = Copied(path, RESULT_BYTES)
        with file.open() as held:
            rows = parquet_rows(held)
        if rows <= FEW_FLOWS:
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


_LONGEST_WHY = 300
_UNREADABLE = (
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
"""What files that are cut, or hold something else, give while they are read. Arrow's errors are among them: a
function that is not implemented is one that does not take the type of a column.
"""


def read_run(folder: Path) -> Recorded:
    """The result in a folder, with all of its parts looked at: what is wrong does not wait until it is used.

    Raises:
        InputError: it is not the folder of a run, or its files cannot be read.
    """
    part = "files"
    try:
        result = load(folder, Recorded)
        with np.errstate(invalid="raise"):  # a null in a column of numbers
            for name, look in _PARTS.items():
                part = name
                look(result)
    except FileNotFoundError as error:
        path, _, why = str(error).partition(": missing; ")
        missing = path.rpartition("/")[2]
        if HALF in why:
            raise InputError.at(
                str(folder), f"found {HALF} (no {missing}), expected the folder of a run"
            ) from None
        inside = [*sorted(folder.glob("*/*/summary.json")), *sorted(folder.glob("*/summary.json"))]
        runs = [path.parent for path in inside if not path.parent.name.startswith(".")]
        other = f", perhaps {runs[0]}" if runs else ""
        raise InputError.at(str(folder), f"found no {missing}, expected the folder of a run{other}") from None
    except _UNREADABLE as error:
        raise _cannot_be_read(folder, part, error) from None
    return result


@contextmanager
def reading(folder: Path | str) -> Iterator[None]:
    """Around what makes something of a result that was read: what only that needs may still be damaged.

    Raises:
        InputError: as `read_run`.
    """
    try:
        with np.errstate(invalid="raise"):
            yield
    except InputError:
        raise
    except _UNREADABLE as error:
        raise _cannot_be_read(folder, "a part", error) from None


_PARTS: dict[str, Callable[[Recorded], object]] = {
    "a network": lambda result: result.setup.network,
    "counters": lambda result: sorted(result.counter_names),
    "series": lambda result: result.bins,
    "signals": lambda result: result.told,
    "figures": lambda result: summarise(result),
}
"""What readers of a result make of it, in words; all figures together need every part of it."""


def _cannot_be_read(folder: Path | str, part: str, error: BaseException) -> InputError:
    # The text of a KeyError is the key alone.
    other = f"no {error}; another version may have written it"
    why = other if type(error) is KeyError else " ".join(str(error).split()) or type(error).__name__
    why = why if len(why) <= _LONGEST_WHY else f"{why[:_LONGEST_WHY]}..."
    return InputError.at(
        str(folder), f"found {part} that cannot be read ({why}), expected the folder of a run"
    )
