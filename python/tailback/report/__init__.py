"""The report of a run: one HTML file that carries all it needs and opens offline."""

from tailback.report.page import render

__all__ = ["render"]
