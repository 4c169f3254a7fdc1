"""The frame of every page: templates, plotly.js, and figures as data for its script."""

from __future__ import annotations

import base64
import gzip
import hashlib
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
    env.globals["frame"] = lambda: _frame(env)
    env.filters["units"] = keep_units
    env.filters["in_script"] = in_script
    env.filters["capitalised"] = lambda words: words[:1].upper() + words[1:]
    return env


@cache
def _plotly() -> dict[str, str]:
    """plotly.js, gzipped, as base64, the licence at its head, which stays readable, and its hash."""
    packed = (resources.files("tailback.report") / "vendor" / "plotly-cartesian.min.js.gz").read_bytes()
    text = gzip.decompress(packed).decode()
    return {
        "licence": text[: text.index("*/") + 2],
        "packed": base64.b64encode(packed).decode("ascii"),
        "hash": _hash(text),
    }


_frames: dict[str, str] = {}


def _frame(env: Environment) -> dict[str, str]:
    """The style and the script of every page, and the policy that lets a browser take these and no others:
    whatever of a scenario or a capture got into a page, none of it runs, and nothing is sent.
    """
    if not _frames:
        style = env.get_template("style.css").render()
        script = f"{_plotly()['licence']}\n{env.get_template('page.js').render()}"
        # plotly.js adds a style element without text, and sets the attributes of what it draws.
        policy = {
            "default-src": "'none'",
            "script-src": f"{_hash(script)} {_plotly()['hash']}",
            "style-src-elem": f"{_hash(style)} {_hash('')}",
            "style-src-attr": "'unsafe-inline'",
            "img-src": "data: blob:",
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        words = "; ".join(f"{name} {sources}" for name, sources in policy.items())
        _frames.update(style=style, script=script, policy=words)
    return _frames


def _hash(text: str) -> str:
    """As a policy names an element by what is in it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
