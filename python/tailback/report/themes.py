"""Colours of the dark theme: what takes the place of each colour of a figure.

Figures are made for a light page. On a dark one the page's script puts in the place of each colour here the
other one. Of two that are text or a line, each has a contrast of 3:1 or more to its background (WCAG 2.2,
1.4.11), text 4.5:1 (1.4.3).
"""

from __future__ import annotations

from tailback.report import figures as light
from tailback.report.tailback_chart import QUEUE_COLORS, SEND_QUEUE_COLORS

DARK_PAPER = "#15191e"
_DARK_COLORS = ("#2a2f45", "#413a68", "#5c4590", "#7a55b5", "#9a74cf", "#b699df", "#d4c2ec", "#f6effb")
_DARK_GREYS = ("#252b31", "#2f363d", "#39414a", "#444d57", "#505a64", "#5d6873", "#6b7682", "#7a8591")
DARK = {
    light.INK: "#e6e9ed",
    light.MUTED: "#a3adb8",
    light.GREY: "#5d6873",
    light.FAINT: "#56616c",
    light.GRID: "#2a3138",
    light.BAND: "#1d2329",
    light.PAPER: DARK_PAPER,
    light.BLUE: "#4aa8e0",
    light.VERMILLION: "#f2793a",
    light.GREEN: "#22b58c",
    light.ORANGE: "#d9a23c",
    light.SKY: "#7cc8f2",
    light.PINK: "#d994b8",
    light.PALE_BLUE: "#1d3446",
    light.MID_BLUE: "#2a5170",
    light.PALE_VERMILLION: "#3d2a20",
    "#3b3f45": "#8d96a0",
    "rgba(59,63,69,0.75)": "rgba(141,150,160,0.6)",
    # Few bytes are near the page's colour there, too: the scales begin dark.
    **dict(zip(QUEUE_COLORS, _DARK_COLORS, strict=True)),
    **dict(zip(SEND_QUEUE_COLORS, _DARK_GREYS, strict=True)),
}
