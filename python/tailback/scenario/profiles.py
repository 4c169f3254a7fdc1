"""Facts about congestion controllers besides their settings, and profiles of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from tailback.errors import one_of

if TYPE_CHECKING:
    from tailback.scenario.fields import Section

Value = int | bool | str


class Signal(NamedTuple):
    """A time series of a controller."""

    name: str
    unit: str
    about: str


class ControllerNames(NamedTuple):
    """Validation of a controller's name for pydantic: a built-in one, or one of the context."""

    built_in: tuple[str, ...]

    def _validate(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        names = (*self.built_in, *getattr(info.context, "controllers", ()))
        if value not in names:
            raise PydanticCustomError("found_expected", "{expected}", {"expected": one_of(value, names)})
        return value

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(self.built_in)}, {"type": "string"}]}


class ControllerFacts(NamedTuple):
    """Facts about a controller."""

    about: str
    each_ack: bool = False
    """It needs an ACK of each packet."""
    reads_switches: bool = False
    """It needs switches that write their load into packets."""
    counts_hops: bool = False
    """It needs switches that count hops in packets."""
    marks: bool = False
    """It depends on CNPs."""
    signals: tuple[Signal, ...] = ()


class Profile(NamedTuple):
    """Values of all parameters.

    `source` applies to every value without an entry in `sources`. The rates in `per_25_gbps` are those of a link
    of 25 Gbit/s, and scale with the link rate.
    """

    about: str
    source: str
    values: Mapping[str, Value]
    sources: Mapping[str, str] = {}
    per_25_gbps: frozenset[str] = frozenset()


class Resolved(NamedTuple):
    """The value of a parameter, and the source of its profile's value."""

    value: Value
    source: str


def profiles_of(section: Section | type[Section]) -> dict[str, Profile]:
    """The profiles of a section; may be empty."""
    found: dict[str, Profile] = getattr(section, "PROFILES", {})
    return found


def parameters(section: Section | type[Section]) -> tuple[str, ...]:
    """All parameters of a section with profiles, in the order in which they are shown."""
    kind = section if isinstance(section, type) else type(section)
    return tuple(name for name in kind.model_fields if name != "profile")


def resolve(section: Section, rate_bps: int) -> dict[str, Resolved]:
    """All parameters of a section with profiles, for a NIC on a link of `rate_bps`.

    A rate that a profile gives per 25 Gbit/s is multiplied by the link's rate over 25 Gbit/s, rounded to the
    nearest Mb/s (halves up), and at least 1. Overrides are taken as they are.
    """
    chosen = str(section.__dict__["profile"])
    profile = profiles_of(section)[chosen]
    resolved = {}
    for name in parameters(section):
        value = profile.values[name]
        source = f"{chosen}: {profile.sources.get(name, profile.source)}"
        if name in profile.per_25_gbps:
            source += f", {value} Mb/s for each 25 Gbit/s of the link"
            value = max(1, (int(value) * rate_bps * 2 + 25 * 10**9) // (50 * 10**9))
        given = getattr(section, name)
        resolved[name] = Resolved(value if given is None else given, source)
    return resolved
