"""client-vscode/src/protocol.ts, from the JSON Schema of the protocol: the client can not drift from the server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from protocol_page import schema_file

Schema = dict[str, Any]

HEAD: Final = "// Made by `make docs` from the server's payloads; change those instead."


def typescript_page() -> str:
    """Every type of the protocol, and which method takes and gives which."""
    whole = json.loads(schema_file())
    return "\n".join((HEAD, "", *_types(whole["$defs"]), *_tables(whole))) + "\n"


def _types(definitions: Mapping[str, Schema]) -> Iterator[str]:
    for name, schema in definitions.items():
        yield from _comment(schema, "")
        if schema.get("properties"):
            yield f"export interface {name} {{"
            yield from _fields(schema)
            yield "}"
        else:
            yield f"export type {name} = {_type(schema)};"
        yield ""


def _fields(schema: Schema) -> Iterator[str]:
    for field, about in schema["properties"].items():
        yield from _comment(about, "  ")
        optional = "" if field in schema.get("required", ()) else "?"
        yield f"  {field}{optional}: {_type(about)};"


def _tables(whole: Schema) -> Iterator[str]:
    for table, entries in (
        ("Requests", whole["methods"]),
        ("Notifications", whole["notifications"]),
        ("RequestsToClient", whole["requestsToClient"]),
    ):
        yield f"export interface {table} {{"
        for name, about in entries.items():
            parts = "; ".join(f"{role}: {_type(schema)}" for role, schema in about.items())
            yield f'  "{name}": {{ {parts} }};'
        yield "}"
        yield ""
    yield f"export const PROTOCOL_VERSION = {whole['version']};"


def _comment(schema: Schema, indent: str) -> Iterator[str]:
    words = " ".join(schema.get("description", "").split()).replace("*/", "* /")
    if words:
        yield f"{indent}/** {words} */"


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": ref}:
            return str(ref).rsplit("/", 1)[-1]
        case {"anyOf": several} | {"oneOf": several}:
            return " | ".join(dict.fromkeys(_type(each) for each in several))
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(json.dumps(value) for value in values)
        case {"type": "array", "prefixItems": items}:
            return f"[{', '.join(_type(each) for each in items)}]"
        case {"type": "array", "items": item}:
            return f"Array<{_type(item)}>"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"Record<string, {_type(values)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": "integer" | "number"}:
            return "number"
        case {"type": "string" | "boolean" | "null" as kind}:
            return str(kind)
    raise ValueError(f"no TypeScript for {schema}")
