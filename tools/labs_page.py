"""Writes docs/labs.md and docs/img/labs.svg from the frozen predictions in docs/measured/ and the labs' tables.

The predictions are files of their own: `tailback reproduce LAB --out DIR` makes predictions.csv and
predictions.json, which are copied to docs/measured/LAB.csv and LAB.json and committed before anybody compares
them. What is compared here are those files and nothing newer. `--check` fails where the page is not current.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import sys
from pathlib import Path

from tailback.measured import LABS, lab
from tailback.measured.cells import Lab
from tailback.measured.predict import (
    BLOCKED,
    MET,
    MISSED,
    VOID,
    Compared,
    Outcome,
    Predicted,
    compare_cell,
    summed_up,
)
from tailback.measured.tables import table_of

ROOT = Path(__file__).parent.parent
FROZEN = ROOT / "docs" / "measured"
PAGE, PLOT = ROOT / "docs" / "labs.md", ROOT / "docs" / "img" / "labs.svg"
BEGIN, END = "<!-- made by tools/labs_page.py -->", "<!-- end of what is made -->"
COLOURS = {"L1": "#b3541e", "L2": "#1f5fa8", "L3": "#2b7a3d"}
SIZE, LEFT, BOTTOM, TOP, RIGHT = 560, 70, 56, 20, 20


def outcomes(one: Lab, frozen: bytes) -> list[Outcome]:
    """The shown cells with what was predicted of them: the rows are in the same order."""
    _, cells, _ = table_of(one, None)
    rows = list(csv.DictReader(io.StringIO(frozen.decode())))
    if len(rows) != len(cells):
        sys.exit(f"docs/measured/{one.name}.csv has {len(rows)} rows, expected the {len(cells)} of the table")
    found = []
    for cell, row in zip(cells, rows, strict=True):
        for column in one.keys:
            value = cell.values[column.name]
            if row[column.name] != ("" if value is None else str(value)):
                sys.exit(f"docs/measured/{one.name}.csv: {column.name} of line {cell.line} is another cell's")
        predicted = {
            quantity.name: Predicted(float(row[quantity.name]), float(row[f"{quantity.name}_spread"]))
            for quantity in one.quantities
            if row[quantity.name]
        }
        found.append(Outcome(cell, why=row["why"] if row["status"] == BLOCKED else "", predicted=predicted))
    return found


def plot(compared: dict[str, list[Compared]]) -> str:
    """Predicted over measured, as a ratio, over what was measured; one column of dots a quantity would hide how
    many there are, so every dot is a measured value of a cell.
    """
    points = [
        (name, one.measured, one.predicted.mean)
        for name, rows in compared.items()
        for one in rows
        if one.predicted and one.measured > 0 and one.predicted.mean > 0 and one.verdict in (MET, MISSED)
    ]
    low = math.floor(min(math.log10(min(x, y)) for _, x, y in points))
    high = math.ceil(max(math.log10(max(x, y)) for _, x, y in points))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / (high - low)
        up = (math.log10(y) - low) / (high - low)
        return LEFT + across * (SIZE - LEFT - RIGHT), SIZE - BOTTOM - up * (SIZE - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{SIZE}" height="{SIZE}" fill="#ffffff"/>',
    ]
    for power in range(low, high + 1):
        x, y = at(10.0**power, 10.0**power)
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{SIZE - RIGHT}M{x:.1f} {SIZE - BOTTOM}V{TOP}" stroke="#e4e4e4"/>'
        )
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>')
        if (power - low) % 2 == 0:
            parts.append(f'<text x="{x:.1f}" y="{SIZE - BOTTOM + 18}" text-anchor="middle">1e{power}</text>')
    for factor, colour in ((1.0, "#666666"), (2.0, "#bbbbbb"), (0.5, "#bbbbbb")):
        begin, end = 10.0**low * max(1, 1 / factor), 10.0**high / max(1, factor)
        (x1, y1), (x2, y2) = at(begin, begin * factor), at(end, end * factor)
        parts.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}"/>')
    for name, x, y in points:
        across, up = at(x, y)
        parts.append(
            f'<circle cx="{across:.1f}" cy="{up:.1f}" r="2.5" fill="{COLOURS[name]}" fill-opacity="0.6"/>'
        )
    for number, (name, colour) in enumerate(COLOURS.items()):
        y = TOP + 18 + 18 * number
        parts.append(f'<circle cx="{LEFT + 14}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 24}" y="{y}">{name}</text>')
    parts.append(
        f'<text x="{SIZE / 2}" y="{SIZE - 12}" text-anchor="middle">measured, each in its unit</text>'
    )
    parts.append(
        f'<text x="16" y="{SIZE / 2}" text-anchor="middle" transform="rotate(-90 16 {SIZE / 2})">predicted</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def section(one: Lab, compared: list[Compared], frozen: bytes, about: dict[str, object]) -> str:
    digest = hashlib.sha256(frozen).hexdigest()
    if digest != about["predictions_sha256"]:
        sys.exit(f"docs/measured/{one.name}.csv is not what {one.name}.json says: {digest}")
    seeds = ", ".join(map(str, about["seeds"]))  # type: ignore[call-overload]
    lines = [
        f"## {one.name}: {one.title}",
        "",
        f"[Frozen predictions](measured/{one.name}.csv) of version {about['version']}, seeds {seeds}, "
        f"sha256 `{digest[:16]}`.",
        "",
    ]
    if one.fitted_to:
        lines += ["| Cell | Fitted to it |", "| --- | --- |"]
        lines += [f"| `{cell}` | {what} |" for cell, what in one.fitted_to.items()]
        lines.append("")
    lines += [
        "| Quantity | Cells are | Within | Met | Within 15 % | Median of abs(ln(predicted/measured)) | BLOCKED |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in summed_up(compared):
        met = f"{row.met} of {row.predicted}" if row.quantity.tolerance else "not judged"
        median = "" if row.median is None else f"{row.median:.3f}"
        kind = "calibrated" if row.calibrated else "predicted"
        lines.append(
            f"| `{row.quantity.name}` | {kind} | {row.quantity.tolerance} | {met} | "
            f"{row.within_15} of {row.predicted} | {median} | {row.blocked or ''} |"
        )
    for verdict in (VOID, BLOCKED):
        reasons: dict[str, set[str]] = {}
        for cell in compared:
            if cell.verdict == verdict:
                reasons.setdefault(cell.why, set()).add(cell.quantity.name)
        if reasons:
            lines += ["", f"{verdict}:", ""]
            lines += [
                f"- {why}: {', '.join(f'`{name}`' for name in sorted(names))}"
                for why, names in reasons.items()
            ]
    return "\n".join([*lines, ""])


def main() -> None:
    compared: dict[str, list[Compared]] = {}
    sections = []
    for name in LABS:
        one = lab(name)
        frozen = (FROZEN / f"{name}.csv").read_bytes()
        about = json.loads((FROZEN / f"{name}.json").read_text())
        compared[name] = [row for outcome in outcomes(one, frozen) for row in compare_cell(one, outcome)]
        sections.append(section(one, compared[name], frozen, about))
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = {
        PAGE: before + BEGIN + "\n\n" + "\n".join(sections) + "\n" + END + after,
        PLOT: plot(compared),
    }
    if "--check" in sys.argv[1:]:
        stale = [str(file.relative_to(ROOT)) for file, content in made.items() if file.read_text() != content]
        if stale:
            sys.exit(f"not current: {', '.join(stale)}; python tools/labs_page.py writes them")
        return
    for file, content in made.items():
        file.write_text(content)


if __name__ == "__main__":
    main()
