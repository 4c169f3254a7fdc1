"""What every page has: templates, plotly.js, and figures as data for its script."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tailback.report.themes import DARK

if TYPE_CHECKING:
    from tailback.report.figures import Figure


def environment() -> Environment:
    """Templates of the reports; everything put into them is escaped."""
    env = Environment(
        loader=PackageLoader("tailback.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.globals["plotly"] = _plotly
    env.filters["units"] = keep_units
    env.filters["in_script"] = in_script
    env.filters["capitalised"] = lambda words: words[:1].upper() + words[1:]
    return env


@cache
def _plotly() -> dict[str, str]:
    """plotly.js, gzipped, as base64, and the licence at its head, which stays readable."""
    packed = (resources.files("tailback.report") / "vendor" / "plotly-cartesian.min.js.gz").read_bytes()
    head = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(1000).decode()
    return {"licence": head[: head.index("*/") + 2], "packed": base64.b64encode(packed).decode("ascii")}


def keep_units(words: str) -> str:
    """No line break between a number and its unit."""
    return re.sub(r"(?<=\d) (?=(?:%|[kKMGT]?B|[kMGT]?bit/s|s|ms|µs|ns)(?!\w))", "\u00a0", words)


def for_script(figures: list[Figure]) -> str:
    """Figures as JSON that may stand inside a script element: no `<` in it can end the element."""
    plain = [{key: getattr(figure, key) for key in ("id", "axis", "data", "layout")} for figure in figures]
    return in_script({"figures": plain, "dark": DARK})


def in_script(data: Any) -> str:
    """Data as JSON that may stand inside a script element."""
    return json.dumps(data, sort_keys=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
