"""A link between two nodes."""

from __future__ import annotations

from collections.abc import Callable

from tailback.scenario import declared

Read = Callable[[str, int], bytes]
"""Gives the content of a file that a scenario names; the number is the most bytes that it may have."""


Link = declared.Link
"""A full-duplex link."""
