"""The JSON Schema of scenario files, for editors and for the reference."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaSerializer, core_schema

from tailback.scenario.model import Scenario


class _Untitled(GenerateJsonSchema):
    """Leaves out titles: they repeat the names, and editors show them before the descriptions."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        """Writes defaults as in files: quantities with units."""
        result = super().default_schema(schema)
        if "default" in result and schema["default"] not in (None, []):
            result["default"] = SchemaSerializer(schema["schema"]).to_python(schema["default"], mode="json")
        return result

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        return {key: value for key, value in super().model_schema(schema).items() if key != "title"}


def json_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. Every default has its `source`, an annotation that validators ignore."""
    schema = Scenario.model_json_schema(by_alias=True, schema_generator=_Untitled)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tailback scenario",
        **schema,
    }
