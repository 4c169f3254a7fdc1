"""Settings of a scenario at an assumed default, for which no document gives a value."""

from __future__ import annotations

import re

from tailback.scenario.presets import QOS_SETUPS

_SETTING_PATTERN = re.compile(r"(?P<indent> *(?:- )?)(?P<key>[\w-]+):(?P<rest>.*)")
_ASSUMPTION_PATTERN = re.compile(
    rf"(?P<value>.*?) +# (?:default: (?:\w+: )?|(?:{'|'.join(QOS_SETUPS)}): .*?)assumption: (?P<why>.*)"
)


def assumptions(shown: str) -> list[dict[str, str]]:
    """The assumed settings in the output of `tailback.scenario.show`: `setting` (its path), `value`, `why`.

    Only the comments of that output have the sources of all defaults.
    """
    found = []
    path: list[tuple[int, str]] = []
    items: dict[int, int] = {}
    for text in shown.splitlines():
        setting = _SETTING_PATTERN.match(text)
        if setting is None:
            continue
        depth = len(setting["indent"])
        path = [(at, key) for at, key in path if at < depth]
        items = {at: number for at, number in items.items() if at <= depth}
        if setting["indent"].endswith("- "):
            items[depth] = items.get(depth, -1) + 1
        parts = [key for _, key in path]
        if depth in items:
            parts.append(str(items[depth]))
        path.append((depth, setting["key"]))
        assumed = _ASSUMPTION_PATTERN.fullmatch(setting["rest"].strip())
        if assumed is not None:
            name = ".".join([*parts, setting["key"]])
            found.append({"setting": name, "value": assumed["value"], "why": assumed["why"]})
    return found
