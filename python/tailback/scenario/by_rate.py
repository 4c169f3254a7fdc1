"""Settings that may depend on the rate of a link: one value, or a mapping of rates to values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import PydanticCustomError, core_schema

from tailback.errors import found
from tailback.units import RATE, SIZE, Quantity, UnitError, format_rate


class ByRate(NamedTuple):
    """Validation of such a field, for pydantic."""

    expected: str
    """Description of a value, for messages."""
    parse: Callable[[Any], Any]
    """Raises ValueError if the argument is not a value."""
    format: Callable[[Any], Any]
    schema: Any
    """The type of one value, for the JSON Schema."""

    def _validate(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return self._one(value, {})
        values: dict[int, Any] = {}
        for key, one in value.items():
            at = {"at": key, "found": found(one)}
            try:
                rate = RATE.parse(key)
            except UnitError as error:
                raise self._error(error.expected, {"found": key}) from None
            if rate in values:
                raise self._error("every rate once", at)
            values[rate] = self._one(one, at)
        if not values:
            raise self._error("at least one rate", {})
        return dict(sorted(values.items()))

    def _one(self, value: Any, at: dict[str, Any]) -> Any:
        try:
            return self.parse(value)
        except UnitError as error:
            raise self._error(error.expected, at) from None
        except ValueError:
            raise self._error(self.expected, at) from None

    def _error(self, expected: str, context: dict[str, Any]) -> PydanticCustomError:
        return PydanticCustomError("found_expected", "{expected}", {"expected": expected, **context})

    def _serialize(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {format_rate(rate): self.format(one) for rate, one in value.items()}
        return self.format(value)

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._validate, serialization=core_schema.plain_serializer_function_ser_schema(self._serialize)
        )

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        one = TypeAdapter(self.schema).json_schema()
        rates = TypeAdapter(Annotated[int, RATE]).json_schema()["pattern"]
        mapping = {
            "type": "object",
            "patternProperties": {rates: one},
            "additionalProperties": False,
            "minProperties": 1,
        }
        return {"anyOf": [one, mapping]}


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise ValueError(value)
    return float(value)


def _of_quantity(quantity: Quantity) -> ByRate:
    return ByRate(f"a {quantity.noun}", quantity.parse, quantity.format, Annotated[int, quantity])


SIZE_BY_RATE = _of_quantity(SIZE)
SHARE_BY_RATE = ByRate("a number, 0 to 1", _share, lambda value: value, float)

SizeByRate = Annotated[int | dict[int, int], SIZE_BY_RATE]
"""A field that holds bytes, or bytes by bit/s."""
ShareByRate = Annotated[float | dict[int, float], SHARE_BY_RATE]
"""A field that holds a number from 0 to 1, or one by bit/s."""


def at_rate(value: float | dict[int, Any], rate: int) -> Any:
    """The value for links of this rate; KeyError if a mapping lacks the rate."""
    return value[rate] if isinstance(value, dict) else value


def rates_of(values: Iterable[float | dict[int, Any]]) -> list[int]:
    """Sorted rates that all mappings among the values have; empty without mappings."""
    mappings = [set(value) for value in values if isinstance(value, dict)]
    return sorted(set.intersection(*mappings)) if mappings else []
