"""Bodies to JSON-RPC messages, and the ids of what is running.

Invariant: `parse` raises nothing and answers for everything: a body becomes messages, or a `Refused` carrying the
error to send and the id where it can be known. What stands inside params or results is never looked at: a payload
that looks like protocol stays a payload.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_INITIALIZED: Final = -32002
OUR_ERROR: Final = -32001
"""A typed error of ours; its `data` carries code, message, hint and figures."""
CANCELLED: Final = -32800

RequestId = int | str

# The id of a request whose body is broken or cut: only members that come before any nested value are believed.
EARLY_ID: Final = re.compile(
    rb'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,)*\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{0,128}")\s*[,}]'
)


@dataclass(frozen=True, slots=True)
class Call:
    """A request: is answered exactly once."""

    id: RequestId
    method: str
    params: Any = None


@dataclass(frozen=True, slots=True)
class Note:
    """A notification: is never answered."""

    method: str
    params: Any = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a request of ours; the error counts, where there is one.

    Without an id, the other side could not tell which request it failed to read.
    """

    id: RequestId | None
    result: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that cannot be handled, with the error that answers it."""

    id: RequestId | float | None
    code: int
    message: str


Message = Call | Note | Reply | Refused


def encode(message: dict[str, Any], default: Any = None) -> bytes:
    """A message as bytes: ASCII, so that lone surrogates pass and bytes equal characters.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have.
        TypeError: a value that `default` does not know either.
    """
    text = json.dumps(message, default=default, allow_nan=False, separators=(",", ":"))
    return text.encode("ascii")


def error_message(request_id: RequestId | float | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    """The answer that says that a request failed."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def early_id(start: bytes) -> RequestId | None:
    """The request id at the start of a body that cannot be parsed."""
    found = EARLY_ID.match(start[:1024])
    if found is None:
        return None
    try:
        value: RequestId = json.loads(found.group(1))
    except ValueError:  # bad UTF-8, or a number such as 007
        return None
    return value


def parse(body: bytes) -> list[Message]:
    """Every message in a body; never raises."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return [Refused(early_id(body), PARSE_ERROR, f"The message is not valid JSON: {_why(error)}.")]
    return classify(value)


def classify(value: Any) -> list[Message]:
    """Every message in a decoded body; never raises."""
    if isinstance(value, dict):
        return [_message(value)]
    if not isinstance(value, list) or not value:
        return [Refused(None, INVALID_REQUEST, "A message is a JSON object.")]
    # LSP has no batches. Each member is refused on its own, so that no request waits for ever.
    ids = [_any_id(member) for member in value if isinstance(member, dict) and "id" in member]
    return [Refused(i, INVALID_REQUEST, "Batches are not supported; send each message alone.") for i in ids or [None]]


def _message(value: dict[str, Any]) -> Message:
    if value.get("jsonrpc") != "2.0":
        return Refused(_any_id(value), INVALID_REQUEST, 'A message has "jsonrpc": "2.0".')
    if "method" not in value and ("result" in value or "error" in value):
        return _reply(value)
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str) or not method:
        return Refused(_any_id(value), INVALID_REQUEST, "A request has a method, which is a string.")
    if not isinstance(params, dict | list | None):
        return Refused(_any_id(value), INVALID_REQUEST, "params is an object or an array.")
    if "id" not in value:
        return Note(method, params)
    if not is_id(value["id"]):
        return Refused(_any_id(value), INVALID_REQUEST, "An id is a string or a whole number.")
    return Call(value["id"], method, params)


def _reply(value: dict[str, Any]) -> Message:
    request_id, error = value.get("id"), value.get("error")
    if error is not None and not isinstance(error, dict):
        error = {"code": INTERNAL_ERROR, "message": "malformed error"}
    return Reply(request_id if is_id(request_id) else None, value.get("result"), error)


def is_id(value: Any) -> bool:
    """Whether a value may be a request's id. `True` and `1.0` equal 1 as keys, so the type is compared exactly."""
    return type(value) in (int, str)


def _any_id(value: dict[str, Any]) -> RequestId | float | None:
    found = value.get("id")
    if is_id(found) or (type(found) is float and found - found == 0):
        return found
    return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _why(error: Exception) -> str:
    """A sentence without any of the body in it."""
    match error:
        case UnicodeDecodeError():
            return f"byte {error.start} is not UTF-8"
        case json.JSONDecodeError():
            return f"{error.msg} at character {error.pos}"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return "a number or constant cannot be read"
