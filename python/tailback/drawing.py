"""Draws a network as text and as SVG: tiers of nodes, hosts at the bottom.

The nodes of a tier are equally far from the nearest host. Where they do not all fit, the first and last ones are
drawn, and the number of those between.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from html import escape

from tailback import text
from tailback.scenario.network import Network, Wire


def kind_of(name: str) -> str:
    """A name without its numbers: leaf12 gives `leaf`, s0n3 gives `s*n*`."""
    stem = re.sub(r"\d+$", "", name)
    return re.sub(r"\d+", "*", name) if re.search(r"\d", stem) else stem or name


def span_of(names: list[str]) -> str:
    """`leaf0..leaf7`; all names where they are few or form no range."""
    if len(names) == 1:
        return names[0]
    if len(names) > 3 or kind_of(names[0]) == kind_of(names[-1]):
        return f"{names[0]}..{names[-1]}"
    return ", ".join(names)


def _kinds(names: list[str]) -> dict[str, list[str]]:
    """Nodes of a tier by kind; one group where there are more than four kinds."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(kind_of(name), []).append(name)
    return groups if len(groups) <= 4 else {"": names}


def link_words(wires: list[Wire]) -> str:
    """`64 links, 100 Gbit/s, 500 ns`; the range where they differ."""
    parts = [text.plural(len(wires), "link")]
    for values, words in (
        ([wire.rate for wire in wires], text.rate),
        ([wire.delay / 1e12 for wire in wires], text.duration),
    ):
        low, high = min(values), max(values)
        parts.append(words(low) if low == high else f"{words(low)} to {words(high)}")
    losses = max(wire.loss for wire in wires)
    if losses:
        parts.append(f"loss up to {losses:g}")
    return ", ".join(parts)


def _wires_by_tiers(network: Network) -> dict[tuple[int, int], list[Wire]]:
    """Links by the tiers at their ends, lower tier first."""
    tier = network.tier_of
    found: dict[tuple[int, int], list[Wire]] = {}
    for wire in network.wires:
        low, high = sorted((tier[wire.a], tier[wire.b]))
        found.setdefault((low, high), []).append(wire)
    return found


def ratio_words(ratio: float) -> str:
    """`2:1 oversubscribed`, `1:1`, or `1:2 (more up than down)`."""
    if abs(ratio - 1) < 1e-9:
        return "1:1, full bisection"
    if ratio > 1:
        return f"{text.significant(ratio)}:1 oversubscribed"
    return f"1:{text.significant(1 / ratio)}, more up than down"


def as_text(network: Network, title: str) -> str:
    """A line for each tier, hosts last, with the links of two tiers on a line between them."""
    lines = [title, *network.notes]
    if not network.wires:
        return "\n".join(lines)
    between, tiers = _wires_by_tiers(network), network.tiers
    if not network.switches and not network.bridges:  # a cable
        wire = network.wires[0]
        return f"{title}\n  {wire.a} ---- {wire.b}   {link_words([wire])}\n"
    for number in range(len(tiers) - 1, -1, -1):
        if not tiers[number]:
            continue
        names = [
            f"{text.count(len(group))} {'x ' + kind if kind else 'nodes'}  {span_of(group)}"
            if len(group) > 1
            else group[0]
            for kind, group in _kinds(tiers[number]).items()
        ]
        ports = Counter(len(network.wires_of[name]) for name in tiers[number])
        low, high = min(ports), max(ports)
        words = "   ".join(names)
        if number:
            each = " each" if len(tiers[number]) > 1 else ""
            words += f"   ({low if low == high else f'{low} to {high}'} port{'s' if high > 1 else ''}{each})"
        ratio = network.oversubscription(number) if number else None
        lines.append(f"  {words}" + (f"   {ratio_words(ratio)}" if ratio is not None else ""))
        same = between.get((number, number))
        if same:
            lines.append(f"    --  {link_words(same)} within")
        for below in range(number - 1, -1, -1):
            wires = between.get((below, number))
            if wires:
                jump = "" if below == number - 1 else f" (to tier {below})"
                lines.append(f"    |   {link_words(wires)}{jump}")
    return "\n".join(lines) + "\n"


# SVG

_WIDTH_PX, _ROW_PX, _TOP_PX, _LEFT_PX = 1000.0, 130.0, 10.0, 150.0
_MAX_SWITCHES = 40
"""Per tier."""
_MAX_HOSTS = 160
_TIER_COLORS = ("#5b6570", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#B87B00")
_TEXT_COLOR, _MUTED_COLOR, _LINK_COLOR = "#1c2127", "#5b6570", "#a9b2bb"


@dataclass(frozen=True)
class _Spot:
    x: float
    y: float
    label: str


def _drawn(names: list[str], limit: int) -> list[str | int]:
    """The names of a tier that are drawn; an integer counts those that are left out."""
    if len(names) <= limit:
        return list(names)
    first = limit // 2
    last = limit - first - 1
    return [*names[:first], len(names) - first - last, *names[-last:]]


def as_svg(network: Network, title: str) -> str:
    """A picture of some 1000 x 400 points. Links of nodes that are left out are not drawn; the title says how many
    nodes that are."""
    tiers = [names for names in network.tiers if names]
    height = _TOP_PX + _ROW_PX * len(tiers) + 10
    spots: dict[str, _Spot] = {}
    nodes: list[str] = []
    labels: list[str] = []
    level = {number: row for row, number in enumerate(n for n, names in enumerate(network.tiers) if names)}
    hidden = 0
    for number, names in enumerate(network.tiers):
        if not names:
            continue
        y = height - 60 - level[number] * _ROW_PX
        shown = _drawn(names, _MAX_HOSTS if number == 0 else _MAX_SWITCHES)
        step = (_WIDTH_PX - _LEFT_PX - 20) / len(shown)
        color = _TIER_COLORS[min(number, len(_TIER_COLORS) - 1)]
        # Where nodes are close, there is room for every n-th label only.
        widest = max(len(str(one)) for one in shown) * 6.2 + 4
        every = max(1, int(-(-widest // step)))
        for place, name in enumerate(shown):
            x = _LEFT_PX + step * (place + 0.5)
            if isinstance(name, int):
                hidden += name
                nodes.append(
                    _text(
                        x, y + 4, f"… {text.count(name)} …" if step > 40 else "…", 11, _MUTED_COLOR, "middle"
                    )
                )
                continue
            spots[name] = _Spot(x, y, name)
            nodes.append(_node(x, y, min(step * 0.72, 26.0 if number else 12.0), number == 0, color, name))
            if place % every == 0:
                below = y + (20 if number == 0 else -14)
                nodes.append(_text(x, below, name, 10, _TEXT_COLOR, "middle"))
        heading = text.plural(len(names), "host") if number == 0 else _tier_words(names, network)
        labels.append(_text(8, y - 4, heading, 13, color, "start", bold=True))
        ratio = network.oversubscription(number) if number else None
        if ratio is not None:
            labels.append(_text(8, y + 12, ratio_words(ratio), 10.5, _MUTED_COLOR, "start"))
    for (low, high), wires in _wires_by_tiers(network).items():
        y = height - 60 - (level[low] + level[high]) / 2 * _ROW_PX
        words = link_words(wires).split(", ")
        if low == high:  # above the tier, in one line: the links down are below it
            about = "within: " if network.switches else ""
            labels.append(_text(8, y - 38, f"{about}{', '.join(words)}", 10.5, _MUTED_COLOR, "start"))
            continue
        for line, word in enumerate(words):
            labels.append(_text(8, y - 14 + 13 * line, word, 10.5, _MUTED_COLOR, "start"))
    lines = [
        _wire(spots[wire.a], spots[wire.b], network)
        for wire in network.wires
        if wire.a in spots and wire.b in spots
    ]
    note = f"; {text.plural(hidden, 'node')} not drawn" if hidden else ""
    drawing = "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH_PX:.0f} {height:.0f}" role="img" '
            f'aria-label="{escape(title)}" font-family="system-ui, sans-serif">',
            f"<title>{escape(title)}</title>",
            _text(8, 20, f"{title}{note}", 14, _TEXT_COLOR, "start", bold=True),
            *lines,
            *nodes,
            *labels,
            "</svg>",
        ]
    )
    return drawing + "\n"


def _tier_words(names: list[str], network: Network) -> str:
    """`4 spine`; `4 switches` where names are short: "4 s" would be read as seconds."""
    number, kinds = len(names), list(_kinds(names))
    if set(names) <= set(network.bridges):
        return text.plural(number, "Linux bridge")
    if len(kinds) == 1 and len(kinds[0]) > 2:
        return f"{text.count(number)} {kinds[0]}"
    return text.plural(number, "switch")


def _wire(a: _Spot, b: _Spot, network: Network) -> str:
    tier = network.tier_of
    faint = 0.9 if len(network.wires) < 80 else 0.55 if len(network.wires) < 600 else 0.3
    if tier[a.label] == tier[b.label]:  # within a tier: an arc, so that the link crosses no other node
        lift = 20 + abs(a.x - b.x) * 0.08 if network.switches else 0.0  # a cable has no other node beside it
        path = f"M{a.x:.1f} {a.y:.1f} Q{(a.x + b.x) / 2:.1f} {a.y - lift:.1f} {b.x:.1f} {b.y:.1f}"
        return f'<path d="{path}" fill="none" stroke="{_LINK_COLOR}" stroke-width="1.4"/>'
    return (
        f'<path d="M{a.x:.1f} {a.y:.1f}L{b.x:.1f} {b.y:.1f}" stroke="{_LINK_COLOR}" stroke-width="1" '
        f'stroke-opacity="{faint}"/>'
    )


def _node(x: float, y: float, width: float, is_host: bool, color: str, name: str) -> str:
    title = f"<title>{escape(name)}</title>"
    if is_host:
        radius = max(1.5, width / 2)
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{color}">{title}</circle>'
    width = max(width, 4.0)
    left, top = x - width / 2, y - 8
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="16" rx="3" fill="{color}">'
        f"{title}</rect>"
    )


def _text(x: float, y: float, words: str, size: float, color: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight} '
        'stroke="#fff" stroke-width="3" paint-order="stroke">'
        f"{escape(words)}</text>"
    )


def title_of(name: str, kind: str, network: Network) -> str:
    """`leaf-spine-websearch: leaf-spine, 32 hosts, 12 switches, 96 links`; `kind` may be empty."""
    forwarding = text.plural(len(network.switches), "switch")
    if network.bridges:
        forwarding = text.plural(len(network.bridges), "Linux bridge")
    counts = (
        *([kind] if kind else []),
        text.plural(len(network.hosts), "host"),
        forwarding,
        text.plural(len(network.wires), "link"),
    )
    return f"{name}: {', '.join(counts)}"
