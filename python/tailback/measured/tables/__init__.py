"""The cells of each lab that are known, with what was measured."""

from __future__ import annotations

from pathlib import Path

from tailback.measured.cells import Cell, Lab, parse_cells, read_table

_FOLDER = Path(__file__).parent


def table_of(lab: Lab, path: Path | None, quick: bool = False) -> tuple[bytes, list[Cell], str]:
    """A table as it was read, its cells, and its name: that of a file, or the lab's own, of which a quick prediction
    takes a few cells.
    """
    place = path or _FOLDER / f"{lab.name}.csv"
    source = read_table(place)
    cells = parse_cells(source, str(place), lab)
    if path is None and quick:
        cells = [cell for cell in cells if cell.name in lab.quick]
    return source, cells, str(place)
