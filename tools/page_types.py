"""Write the TypeScript types of the API's documents from OpenAPI: `make page-types`. A test compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neve.api.openapi import OPERATIONS, build_description

FILE = Path(__file__).parents[1] / "page" / "src" / "lib" / "documents.ts"
HEAD = "/** Documents of the API. Written by `make page-types` from OpenAPI: do not edit. */\n"
STREAMED = {"AnswerDocument", "ColumnsDocument"}  # a result that failed has an error in the place of statistics
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def write_types() -> str:
    """Return an interface for each schema of an object, and a type for each other one."""
    schemas = build_description()["components"]["schemas"]
    bodies = {one.body.__name__ for one in OPERATIONS if one.body} | STREAMED
    declared = (write_schema(name, schemas[name], may_lack=name in bodies) for name in sorted(schemas))
    return "\n".join([HEAD, *declared])


def write_schema(name: str, schema: dict[str, Any], *, may_lack: bool) -> str:
    """Return the declaration of one schema. A request may lack keys that have a default, a response has all of them."""
    if "properties" not in schema:
        return f"export type {name} = {write_type(schema)};\n"
    optional = set(schema["properties"]) - set(schema.get("required", ())) if may_lack else set()
    lines = [
        f"  {key}{'?' if key in optional else ''}: {write_type(value)};" for key, value in schema["properties"].items()
    ]
    return "\n".join([f"export interface {name} {{", *lines, "}\n"])


def write_type(schema: Any) -> str:
    """Return the type of a value.

    >>> write_type({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]})
    'number[] | null'
    >>> write_type({"type": "object", "additionalProperties": {"type": "string"}})
    'Record<string, string>'
    """
    if not isinstance(schema, dict):
        return "unknown"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(map(write_type, choices)))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(f'"{one}"' if isinstance(one, str) else str(one).lower() for one in values)
    return _write_kind(schema)


def _write_kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(map(write_type, schema['prefixItems']))}]"
        item = write_type(schema.get("items"))
        return f"({item})[]" if " | " in item else f"{item}[]"
    if kind == "object":
        return f"Record<string, {write_type(schema.get('additionalProperties'))}>"
    return PLAIN.get(str(kind), "unknown")


if __name__ == "__main__":
    FILE.write_text(write_types())
