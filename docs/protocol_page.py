"""docs/protocol.md and docs/protocol.schema.json, from the table of methods and the payload models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from ullage.editors import payloads
from ullage.editors.limits import Limits
from ullage.editors.methods import COMMANDS, METHODS, NOTIFICATIONS, REQUESTS_TO_CLIENT, Method
from ullage.wire import rpc

Schema = dict[str, Any]

PAGE: Final = """# Protocol

{note}

JSON-RPC 2.0 with the Language Server Protocol's framing and life cycle over stdin and stdout, and the methods below.
Every type stands in [protocol.schema.json](protocol.schema.json) as well. Version: {version}.

## Rules

- Names are camelCase, ids and seqs are opaque but for their order. Fields that the server does not know are ignored; a
  wrong type is refused with -32602. A field without a value is null, never absent, in what the server sends.
- Every request is answered exactly once. `$/cancelRequest` cancels a turn or a compaction that a request waits for;
  the answer, -32800, comes once it has really ended, and a second cancel does nothing. What ended by itself in the
  meantime is answered as usual.
- The server's version and abilities stand in `capabilities.experimental.ullage` of its `initialize` result (Abilities).
- A client hears of the sessions that it began, opened or forked, and of no others. Durable updates carry a `seq` and
  arrive in its order; gaps are normal, since not everything in a log is for clients. To resume, open with `fromSeq`
  one above the newest seq that you have.
- Deltas are not durable. Pieces may arrive merged, or be dropped while the client does not read; `offset` tells. The
  `answer` update takes the place of its deltas.
- The text of tools (arguments, results) takes {update_bytes:,} bytes of an update at most. `argumentsBytes` and
  `textBytes` say how long it was; a result's `full` names the whole output, which the tool `read_output` pages through.
- Occupancy is one number: what is shown is what decides. What is hidden from clients (the handoff) is a figure in it.
- Images in prompts are refused with `images_unsupported`.

## Initialize

`workspaceFolders` (else `rootUri`, else `rootPath`) are the workspaces; `workspace/didChangeWorkspaceFolders` changes
them. `initializationOptions` may hold an object `ullage` (OurOptions): the folders that a person trusts, and settings
(EditorSettings). A workspace nobody said is trusted has no tools. A setting that is unknown or wrong is left out and
reported by `window/logMessage`.

Compactions show as `$/progress` where the client supports `window/workDoneProgress/create`; cancelling the bar cancels
what compacts.

## Errors

| code | when |
| --- | --- |
| {errors} |

The `data` of {our_error} is an ErrorPayload: a stable `code`, a sentence, what to do next, figures.

## Client to server

{methods}

## Server to client

{notifications}

{requests}

## Commands

By `workspace/executeCommand`, for editors without code of ours. The argument, a session id, may be left out. The
answer names the session.

{commands}

## Types

{types}
"""

ERRORS: Final = {
    rpc.PARSE_ERROR: "the message is not JSON",
    rpc.INVALID_REQUEST: "it is no request, or it is too long, or its id is in use",
    rpc.METHOD_NOT_FOUND: "there is no such method",
    rpc.INVALID_PARAMS: "the params are not of the types below; `data` says where",
    rpc.INTERNAL_ERROR: "the server is at fault; its log says how",
    rpc.NOT_INITIALIZED: "a request came before `initialize` was answered",
    rpc.CANCELLED: "the request was cancelled",
    rpc.OUR_ERROR: "something a person can mend",
}


class _Generator(GenerateJsonSchema):
    """No titles on fields: they only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def definitions() -> dict[str, Schema]:
    """Every type by its name: what clients send as they may send it, what the server sends as it does."""
    mode: dict[type[payloads.Payload], Literal["validation", "serialization"]] = {
        payloads.Options: "validation",
        payloads.EditorSettings: "validation",
        payloads.Abilities: "serialization",
        payloads.ErrorPayload: "serialization",
    }
    for method in METHODS:
        mode |= {method.params: "validation", method.result: "serialization"}
    for notification in NOTIFICATIONS:
        mode |= {notification.params: "serialization"}
    for method in REQUESTS_TO_CLIENT:
        mode |= {method.params: "serialization", method.result: "validation"}
    _, found = models_json_schema(list(mode.items()), by_alias=True, schema_generator=_Generator)
    return dict(sorted(found["$defs"].items()))


def schema_file() -> str:
    """docs/protocol.schema.json: types, and which method takes and gives which."""

    def methods(several: tuple[Method, ...]) -> Schema:
        return {each.name: {"params": _ref(each.params), "result": _ref(each.result)} for each in several}

    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ullage protocol",
        "version": payloads.PROTOCOL_VERSION,
        "methods": methods(METHODS),
        "notifications": {each.name: {"params": _ref(each.params)} for each in NOTIFICATIONS},
        "requestsToClient": methods(REQUESTS_TO_CLIENT),
        "commands": [command.name for command in COMMANDS],
        "$defs": definitions(),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _ref(model: type[payloads.Payload]) -> Schema:
    return {"$ref": f"#/$defs/{model.__name__}"}


def protocol_page(note: str) -> str:
    """docs/protocol.md; `note` says that it is generated."""
    return PAGE.format(
        note=note,
        version=payloads.PROTOCOL_VERSION,
        update_bytes=Limits().update_bytes,
        errors=" |\n| ".join(f"{code} | {when}" for code, when in ERRORS.items()),
        our_error=rpc.OUR_ERROR,
        methods="\n".join(_method_rows(METHODS)),
        notifications="\n".join(_notification_rows()),
        requests="\n".join(_method_rows(REQUESTS_TO_CLIENT)),
        commands="\n".join(f"- `{command.name}`: {command.does}" for command in COMMANDS),
        types="\n".join(line for name, schema in definitions().items() for line in _type_lines(name, schema)).strip(),
    )


def _method_rows(methods: tuple[Method, ...]) -> Iterator[str]:
    yield "| request | params | result | what it does |"
    yield "| --- | --- | --- | --- |"
    for method in methods:
        params, result = _link(method.params.__name__), _link(method.result.__name__)
        yield f"| `{method.name}` | {params} | {result} | {method.does} |"


def _notification_rows() -> Iterator[str]:
    yield "| notification | params | what it says |"
    yield "| --- | --- | --- |"
    for each in NOTIFICATIONS:
        yield f"| `{each.name}` | {_link(each.params.__name__)} | {each.does} |"


def _type_lines(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield " ".join(schema.get("description", "").split())
    yield ""
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
        yield ""
    elif schema.get("properties"):
        yield "| field | type | what it is |"
        yield "| --- | --- | --- |"
        for field, about in schema["properties"].items():
            optional = "" if field in schema.get("required", ()) else "?"
            yield f"| `{field}`{optional} | {_type(about)} | {_cell(about.get('description', ''))} |"
        yield ""


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": ref}:
            return _link(ref.rsplit("/", 1)[-1])
        case {"anyOf": several} | {"oneOf": several}:
            return " or ".join(_type(each) for each in several)
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"enum": values}:
            return ", ".join(f"`{json.dumps(value)}`" for value in values)
        case {"type": "array", "prefixItems": items}:
            return "[" + ", ".join(_type(item) for item in items) + "]"
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {_type(values)}"
        case {"type": kind}:
            return str(kind)
        case _:
            return "any"


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
