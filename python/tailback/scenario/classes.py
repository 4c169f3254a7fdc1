"""Traffic classes: classification of packets, weights, and buffer pools."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from tailback.errors import found
from tailback.scenario import declared
from tailback.scenario.fields import Priority, Section, setting

AS_DATA = "data"
"""CNPs have the code point of the packets that they answer."""


def _refusal(expected: str, **context: Any) -> PydanticCustomError:
    return PydanticCustomError("found_expected", "{expected}", {"expected": expected, **context})


def _whole(value: Any, most: int, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


class NumberMapping(NamedTuple):
    """Validation of a mapping from numbers to numbers, for pydantic. Keys are text in YAML."""

    key: str
    last_key: int
    value: str
    least: int
    most: int
    total: int | None = None
    """Required sum of the values."""

    @property
    def expected(self) -> str:
        """Description for messages."""
        return f"a mapping of {self.key} (0 to {self.last_key}) to {self.value} ({self.least} to {self.most})"

    def _validate(self, given: Any) -> dict[int, int]:
        if not isinstance(given, dict):
            raise _refusal(self.expected)
        values: dict[int, int] = {}
        for key, value in given.items():
            number = int(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key
            if not _whole(number, self.last_key):
                raise _refusal(f"a {self.key} of 0 to {self.last_key}", found=key)
            if number in values:
                raise _refusal(f"each {self.key} once", at=key, found=found(value))
            if not _whole(value, self.most, self.least):
                expected = f"{self.value} of {self.least} to {self.most}"
                raise _refusal(expected, at=key, found=found(value))
            values[number] = value
        if self.total is not None and sum(values.values()) != self.total:
            raise _refusal(f"{self.value} that add up to {self.total}", found=sum(values.values()))
        return dict(sorted(values.items()))

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Keys become numbers; they are text in files."""
        return core_schema.no_info_plain_validator_function(
            self._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda values: {str(key): value for key, value in values.items()}
            ),
        )

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        one = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return {"type": "object", "patternProperties": {"^[0-9]+$": one}, "additionalProperties": False}


class _CnpRule:
    """Validation of `CnpPriority`, for pydantic."""

    @staticmethod
    def _validate(value: Any) -> Any:
        if value != AS_DATA and not _whole(value, 7):
            raise _refusal("a priority of 0 to 7, or data")
        return value

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 7}, {"const": AS_DATA}]}


def _each_once(value: list[int]) -> list[int]:
    if len(set(value)) < len(value):
        raise _refusal("every priority once", found=str(value))
    return value


Priorities = Annotated[list[Priority], AfterValidator(_each_once)]
"""A field that holds several priorities."""
CnpPriority = Annotated[int | Literal["data"], _CnpRule()]
"""A field that holds a priority, or `data`."""
DscpMap = Annotated[dict[int, int], NumberMapping("DSCP", 63, "a priority", 0, 7)]
PcpMap = Annotated[dict[int, int], NumberMapping("PCP", 7, "a priority", 0, 7)]
Weights = Annotated[dict[int, int], NumberMapping("priority", 7, "shares in %", 1, 100, total=100)]
"""Shares of the bandwidth in per cent, by priority."""


class Classification(Section):
    """Classification of packets: their class is a priority."""

    trust: Literal["dscp", "pcp", "port"] = setting(
        "dscp",
        "Which code point of a packet is trusted: its DSCP, its PCP, or none (port): then all packets are "
        "in default_priority.",
        'NVIDIA "RoCE Configuration" guides: trust L3 (mlnx_qos --trust dscp); "RoCE Rocks without PFC", '
        "section 2.2",
    )
    default_priority: Priority = setting(
        0, "Priority of all packets, where nothing is trusted.", "IEEE 802.1Q, 6.9.4: default priority 0"
    )
    dscp: DscpMap = setting(
        {},
        "Priorities of single DSCPs, such as {26: 4}; of all others: the DSCP divided by 8.",
        "Linux mlx5 en_dcbnl.c: the default of dscp2prio is dscp >> 3",
    )
    pcp: PcpMap = setting(
        {}, "Priorities of single PCPs; of all others: the PCP.", "IEEE 802.1Q, table 6-3 (8P0D)"
    )

    def class_of(self, dscp: int, pcp: int) -> int:
        """The class of a packet with this code point."""
        if self.trust == "dscp":
            return self.dscp.get(dscp, dscp >> 3)
        if self.trust == "pcp":
            return self.pcp.get(pcp, pcp)
        return self.default_priority


class Pools(declared.Pools):
    """Divides the shared buffer into a pool for lossless priorities and one for all others."""

    def split(self, shared: int) -> tuple[int, int]:
        """Bytes of the two pools of a buffer with `shared` bytes; may be less than 1."""
        return self.lossless, shared - self.lossless if isinstance(self.lossy, str) else self.lossy
