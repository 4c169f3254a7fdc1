"""What all parts of a scenario's model share: how a field is declared, and the base class."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tailback.units import DURATION

LONGEST = "36000s"
"""Ten hours: half of what the engine's event queue can schedule."""
RunTime = Annotated[int, DURATION.between("1ps", LONGEST)]
Start = Annotated[int, DURATION.between(maximum=LONGEST)]
Delay = Annotated[int, DURATION.between(maximum="1s")]
Priority = Annotated[int, Field(ge=0, le=7)]
Dscp = Annotated[int, Field(ge=0, le=63)]


class Part(BaseModel):
    """A mapping of a scenario: only declared fields, no guessing of types, not to be changed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def setting(default: Any, about: str, source: str, **rules: Any) -> Any:
    """A field with a default, and the source of that default: a document and section, or an assumption."""
    return Field(default, description=about, json_schema_extra={"source": source}, **rules)


def refuse(field: str, found: str, expected: str) -> PydanticCustomError:
    """The error of a mapping in which `field` does not go with another one."""
    return PydanticCustomError(
        "found_expected", "{expected}", {"at": field, "found": found, "expected": expected}
    )
