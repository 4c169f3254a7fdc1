"""What is known of a controller besides its settings, and profiles that set many parameters together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from tailback.errors import one_of

if TYPE_CHECKING:
    from tailback.scenario.fields import Part

Value = int | bool | str


class Signal(NamedTuple):
    """A time series that a controller shows."""

    name: str
    unit: str
    about: str


class ControllerNames(NamedTuple):
    """The rules of a field that names a controller, for pydantic: a built-in one, or one of the context."""

    built_in: tuple[str, ...]

    def _validate(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        names = (*self.built_in, *getattr(info.context, "controllers", ()))
        if value not in names:
            raise PydanticCustomError("found_expected", "{expected}", {"expected": one_of(value, names)})
        return value

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """A text, one of the names."""
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The built-in names, and any of the section `controllers`."""
        return {"anyOf": [{"enum": list(self.built_in)}, {"type": "string"}]}


class ControllerFacts(NamedTuple):
    """What a controller is."""

    about: str
    each_ack: bool = False
    """It takes an ACK of each packet."""
    reads_switches: bool = False
    """It needs switches that write their load into packets."""
    counts_hops: bool = False
    """It needs switches that count themselves into packets."""
    marks: bool = False
    """It lives on CNPs."""
    signals: tuple[Signal, ...] = ()


class Profile(NamedTuple):
    """A setting of all parameters.

    `source` is that of every value without one of its own in `sources`. The rates in `per_25_gbps` hold for a
    link of 25 Gbit/s and grow with the link.
    """

    about: str
    source: str
    values: Mapping[str, Value]
    sources: Mapping[str, str] = {}
    per_25_gbps: frozenset[str] = frozenset()


class Resolved(NamedTuple):
    """A parameter's value, and where it came from unless the scenario sets it."""

    value: Value
    source: str


def profiles_of(section: Part | type[Part]) -> dict[str, Profile]:
    """The profiles of a section; none where it has none."""
    found: dict[str, Profile] = getattr(section, "PROFILES", {})
    return found


def parameters(section: Part | type[Part]) -> tuple[str, ...]:
    """All parameters of a section with profiles, in the order in which they are shown."""
    kind = section if isinstance(section, type) else type(section)
    return tuple(name for name in kind.model_fields if name != "profile")


def resolve(section: Part, rate_bps: int) -> dict[str, Resolved]:
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
