"""Lines over two logarithmic axes, as SVG: how the book shows what costs grow with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

COLOURS = ("#b3541e", "#1f5fa8", "#2b7a3d")
FEW, CLOSE = 8, 3
"""Sizes that all have their number; powers of ten with others between."""
WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 720, 400, 64, 48, 110, 16


def chart(lines: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> str:
    """Lines over two logarithmic axes, as SVG."""
    every = [point for line in lines.values() for point in line]
    low_x, high_x = (math.log10(end([x for x, _ in every])) for end in (min, max))
    ticks = _ticks(max(0.01, min(y for _, y in every)), max(y for _, y in every))
    low_y, high_y = math.log10(ticks[0]), math.log10(ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        along = (math.log10(x) - low_x) / (high_x - low_x)
        above = (math.log10(max(y, ticks[0])) - low_y) / (high_y - low_y)
        return LEFT + along * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - above * (HEIGHT - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for tick in ticks:
        x, y = place(10**low_x, tick)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke="#d8d8d8"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    sizes = sorted({x for x, _ in every})
    for size in sizes:
        if len(sizes) <= FEW or f"{size:.0f}"[0] in "15":
            x, y = place(size, ticks[0])
            parts.append(f'<path d="M{x:.1f} {y:.1f}V{TOP}" stroke="#eeeeee"/>')
            parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{size:,.0f}</text>')
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = place(*line[-1])
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{name}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(
        f'<text x="{(WIDTH - RIGHT + LEFT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{across}</text>'
    )
    turned = f'transform="rotate(-90 16 {middle})"'
    parts.append(f'<text x="16" y="{middle}" text-anchor="middle" {turned}>{up}</text></svg>')
    return "\n".join(parts) + "\n"


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten around all values; where these are few, with 2 and 5 times them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if last - first > CLOSE:
        return [10.0**power for power in range(first, last + 1)]
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    return [max(tick for tick in ticks if tick <= low)] + [
        tick for tick in ticks if low < tick <= min(one for one in ticks if one >= high)
    ]
