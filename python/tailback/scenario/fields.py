"""Base class of all parts of a scenario's model, and functions that declare fields."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, core_schema

from tailback.units import DURATION, format_duration, format_rate

Delay = Annotated[int, DURATION.between(maximum="1s")]
Priority = Annotated[int, Field(ge=0, le=7)]
Dscp = Annotated[int, Field(ge=0, le=63)]


def _flag(value: Any) -> Any:
    """Accepts 0 and 1, as drivers write flags."""
    return bool(value) if type(value) is int and value in (0, 1) else value


Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({"enum": [False, True, 0, 1]})]
"""A parameter of a controller that is on or off."""


class Section(BaseModel):
    """A mapping of a scenario: unknown fields are refused, types are not converted, values do not change.

    The validator of a nested mapping is built when such a mapping is first checked: most files have few of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """A nested part is a function that validates it, built on demand."""
        if handler.field_name is None:
            return handler(source)
        name = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"  # the form of pydantic's own names
        return core_schema.with_info_plain_validator_function(cls._check_part, ref=name)

    @classmethod
    def _check_part(cls, value: Any, info: core_schema.ValidationInfo) -> Any:
        return cls.model_validate(value, context=info.context)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema of the fields, also for a nested part."""
        return handler(cls.__pydantic_core_schema__ if schema["type"] == "function-plain" else schema)


class ByKind:
    """Marks a union of mappings that are distinguished by `kind`."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        parts = {kind_of(part): handler.generate_schema(part) for part in get_args(source)}
        return core_schema.tagged_union_schema(parts, discriminator="kind")


def kind_of(part: type[BaseModel]) -> str:
    """The value of the field `kind` of a mapping."""
    return str(get_args(part.model_fields["kind"].annotation)[0])


def setting(default: Any, about: str, source: str, **rules: Any) -> Any:
    """A field with a default, and the source of that default: a document and section, or an assumption."""
    return Field(default, description=about, json_schema_extra={"source": source}, **rules)


class Declared(Section):
    """Settings that the engine declares, see `tailback.scenario.declared`."""

    def plan(self, of: type[Declared] | None = None, **worked_out: Any) -> dict[str, Any]:
        """The settings for the engine, in base units; `of` chooses the section if the class has several."""
        of = of or next(kind for kind in type(self).__mro__ if Declared in kind.__bases__)
        return {name: getattr(self, name) for name in of.__annotations__ if name != "kind"} | worked_out


def like(section: type[Section], name: str, about: str | None = None) -> Any:
    """A field with the bounds, default and source of a declared one; `about` replaces its description."""
    field = copy(section.model_fields[name])
    if about is not None:
        field.description = about
    return field


def falling(longest: int) -> AfterValidator:
    """Validates a list of strictly decreasing rates."""

    def check(rates: list[int]) -> list[int]:
        if not 1 <= len(rates) <= longest or any(low >= high for high, low in pairwise(rates)):
            found = "[" + ", ".join(map(format_rate, rates)) + "]"
            expected = f"1 to {longest} rates, each below the one before"
            raise PydanticCustomError("found_expected", "{expected}", {"found": found, "expected": expected})
        return rates

    return AfterValidator(check)


def stop_after_start(start: int, stop: int | None) -> None:
    """Refuses a `stop` before `start`.

    Raises:
        PydanticCustomError: `stop` is not later than `start`.
    """
    if stop is not None and stop <= start:
        raise refuse("stop", format_duration(stop), f"later than start, {format_duration(start)}")


def refuse(field: str, found: str, expected: str) -> PydanticCustomError:
    """An error about `field` of a mapping, for validators that compare fields."""
    return PydanticCustomError(
        "found_expected", "{expected}", {"at": field, "found": found, "expected": expected}
    )
