"""`config.txt`: `KEY value` pairs in any order; unknown tokens are skipped and the last of two keys wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from tailback.errors import InputError, nearest, plain
from tailback.hpcc.forks import FORK_KEYS, ForeignKey, foreign_keys, missing_features
from tailback.hpcc.keys import ASTRA_SIM, CONFIG_KEYS, SIMAI, Key
from tailback.hpcc.quantities import RATE_IN_WORDS, rate_bps
from tailback.hpcc.tokens import U32_MAX, U64_MAX, Tokens

_NO_QLEN_REASONS = {
    ASTRA_SIM: "no qlen.txt is written for astra-sim, whose samples never end",
    SIMAI: "no qlen.txt is written: SimAI takes no samples",
}
MAX_WARNINGS = 20
MIN_TYPO_SIMILARITY = 0.85
"""Similarity of an unknown key to a known one from which a hint is printed."""
DCQCN, HPCC, TIMELY, DCTCP, PINT = CONTROLLERS = (1, 3, 7, 8, 10)
"""Values of CC_MODE."""


@dataclass
class Config:
    """The contents of config.txt. `config["KEY"]` is the value or the default: int, float, bit/s, bytes (a path),
    a dictionary (a map) or a tuple (LINK_DOWN).
    """

    file: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    spans: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    foreign: list[ForeignKey] = field(default_factory=list)
    """Keys of forks, with values that change results there."""

    def __getitem__(self, name: str) -> Any:
        """The value or the default.

        Raises:
            InputError: the key is missing and has no usable default.
        """
        if name in self.values:
            return self.values[name]
        key = CONFIG_KEYS[name]
        if key.default is None:
            raise InputError.at(self.file, f"expected {name} ({key.note}): it has no usable default")
        return rate_bps(key.default) if key.kind == "rate" else key.default

    def __contains__(self, name: str) -> bool:
        """True if the file has this key."""
        return name in self.values

    def refuse(self, name: str, text: str) -> InputError:
        """An error about the value of this key."""
        return InputError.at(self.places.get(name, self.file), f"{name}: {text}")

    def not_honoured(self) -> dict[str, str]:
        """Keys whose values have no effect in this run although they should, and why."""
        found = {key.name: key.why for key in self.foreign}
        for name, value in self.values.items():
            key = CONFIG_KEYS[name]
            idle = value == key.off or (key.only_if and self[key.only_if[0]] != key.only_if[1])
            if key.effect == "not honoured" and not idle:
                found[name] = key.note
        if "QLEN_MON_FILE" in self and (why := _NO_QLEN_REASONS.get(self["TAILBACK_VARIANT"])):
            found["QLEN_MON_FILE"] = why
        return found


def read_config(file: str, data: bytes) -> Config:
    """Reads `config.txt`.

    Raises:
        InputError: the value of a key is not valid.
    """
    tokens = Tokens(file, data)
    config = Config(file)
    found: dict[str, int] = {}
    unknown: list[int] = []
    while tokens.at < len(tokens.words):
        word = tokens.take("a key")
        key = CONFIG_KEYS.get(word.decode("latin-1"))
        if key is None:
            unknown.append(tokens.at - 1)
            continue
        found[key.name] = tokens.at
        config.values[key.name] = _value(tokens, key)
    lines = list(tokens.lines())
    config.spans = found
    config.places = {name: f"{file}:{lines[index]}" for name, index in found.items()}
    of_unknown = {index: f"{file}:{lines[index]}" for index in unknown}
    config.foreign = foreign_keys(tokens.words, of_unknown)
    config.warnings = [*_warnings(file, tokens, unknown, lines), *missing_features(tokens.words, of_unknown)]
    return config


def _value(tokens: Tokens, key: Key) -> Any:
    what = f"the value of {key.name}"
    low, high = int(key.low), int(key.high)
    if key.kind == "flag":
        return int(tokens.integer(what, 0, U32_MAX) != 0)
    if key.kind in ("count", "count64"):
        return tokens.integer(what, low, high)
    if key.kind == "us":
        return int(tokens.real(what, key.low, key.high))
    if key.kind == "number":
        return tokens.real(what, key.low, key.high)
    if key.kind == "rate":
        rate = rate_bps(tokens.take(what))
        if rate is None:
            raise tokens.refuse(tokens.at - 1, f"{what}, {RATE_IN_WORDS}")
        return rate
    if key.kind == "link":
        time = tokens.integer(f"{what}: microseconds after 2 s", 0, 10**12)
        return time, *(tokens.integer(f"{what}: a node id", 0, U32_MAX) for _ in range(2))
    if key.kind in ("map", "shares"):
        count = tokens.integer(f"{what}: the number of pairs", 0, U32_MAX)
        values: dict[int, float] = {}
        for _ in range(count):  # a count that is too large ends at the last token of the file
            rate = tokens.integer(f"{what}: a rate in bit/s", 0, U64_MAX)
            read = tokens.integer if key.kind == "map" else tokens.real
            values[rate] = read(f"{what}: the value for {rate} bit/s", low, high)
        return values
    return tokens.take(what)


def _warnings(file: str, tokens: Tokens, unknown: list[int], lines: list[int]) -> Iterator[str]:
    """A warning for each unknown key. Unknown tokens after it on the same line count as its value."""
    keys = [
        index
        for number, index in enumerate(unknown)
        if not (number and unknown[number - 1] == index - 1 and lines[index - 1] == lines[index])
    ]
    for index in keys[:MAX_WARNINGS]:
        word = tokens.words[index].decode("utf-8", "backslashreplace")
        if word in FORK_KEYS:
            continue
        likely = nearest(word, CONFIG_KEYS)
        if likely and SequenceMatcher(None, word.upper(), likely).ratio() < MIN_TYPO_SIMILARITY:
            likely = None
        hint = f", did you mean {likely}?" if likely else ""
        yield f"{file}:{lines[index]}: warning: unknown key '{plain(word)}', skipped{hint}"
    if len(keys) > MAX_WARNINGS:
        yield f"{file}: warning: {len(keys) - MAX_WARNINGS} more unknown keys, skipped"
