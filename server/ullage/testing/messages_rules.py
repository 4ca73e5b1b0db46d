"""What the Messages API refuses in a request's JSON: its rules, and nothing of ours.

`testing.validator` holds a neutral request to them; this holds the JSON that leaves the process, whatever made it.
It must not import what makes requests: it would agree with its mistakes.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

JSON = dict[str, Any]

REQUEST_BYTES: Final = 32_000_000
"""Largest body that is taken (the API's documentation of its limits)."""
BREAKPOINTS: Final = 4
"""Most cache breakpoints of one request (the API's documentation of prompt caching)."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_TOP = {
    "cache_control", "context_management", "max_tokens", "messages", "metadata", "model", "output_config",
    "service_tier", "stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k",
    "top_p",
}  # fmt: skip
_FIELDS: Mapping[str, set[str]] = {
    "text": {"text", "citations"},
    "image": {"source"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
_SPEAKERS = {
    "text": {"user", "assistant"},
    "image": {"user"},
    "tool_use": {"assistant"},
    "tool_result": {"user"},
    "thinking": {"assistant"},
    "redacted_thinking": {"assistant"},
}

Signed = Callable[[str, str], bool]
"""Whether the API signed this thinking (text, signature)."""


def problems(body: Any, signed: Signed = lambda text, signature: True) -> list[str]:
    """Everything that would be refused, in words, for `/v1/messages`; empty when the request is valid."""
    if not isinstance(body, dict):
        return ["the body is no object"]
    found = [*_top(body), *_system(body.get("system")), *_tools(body.get("tools", []))]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "messages: at least one message is required"]
    found += [problem for number, message in enumerate(messages) for problem in _message(number, message, signed)]
    if not found:
        found += [*_order(messages), *_pairs(messages), *_thinking(body)]
    return [*found, *_breakpoints(body), *_surrogates(body)]


def blocks_of(content: Any) -> list[JSON]:
    """Content as blocks: a plain string is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _top(body: JSON) -> Iterator[str]:
    for name in sorted(body.keys() - _TOP):
        yield f"{name}: Extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    most = body.get("max_tokens")
    if type(most) is not int or most < 1:
        yield "max_tokens: must be greater than or equal to 1"


def _system(system: Any) -> Iterator[str]:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield "system: neither a string nor a list"
        return
    for number, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system.{number}: only text blocks"
        else:
            yield from (f"system.{number}: {problem}" for problem in _block(block, "user", lambda *_: True))


def _tools(tools: Any) -> Iterator[str]:
    if not isinstance(tools, list) or any(not isinstance(tool, dict) for tool in tools):
        yield "tools: not a list of objects"
        return
    for number, tool in enumerate(tools):
        if not _NAME.fullmatch(str(tool.get("name", ""))):
            yield f"tools.{number}.name: {tool.get('name')!r} does not match '^[a-zA-Z0-9_-]{{1,128}}$'"
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"tools.{number}.input_schema.type: Field required"
    names = [tool.get("name") for tool in tools]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."


def _message(number: int, message: Any, signed: Signed) -> Iterator[str]:
    at = f"messages.{number}"
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        yield f"{at}.role: Input should be 'user' or 'assistant'"
        return
    content = message.get("content")
    if not isinstance(content, str | list) or not content:
        yield f"{at}: all messages must have non-empty content"
        return
    for place, block in enumerate(blocks_of(content)):
        if not isinstance(block, dict) or block.get("type") not in _FIELDS:
            yield f"{at}.content.{place}: Input tag {block!r:.80} found"
        else:
            yield from (f"{at}.content.{place}: {problem}" for problem in _block(block, message["role"], signed))


def _block(block: JSON, role: str, signed: Signed) -> Iterator[str]:
    kind = block["type"]
    for name in sorted(block.keys() - _FIELDS[kind] - {"type", "cache_control"}):
        yield f"{name}: Extra inputs are not permitted"
    if role not in _SPEAKERS[kind]:
        yield f"`{kind}` blocks may not be in {role} messages"
    match kind:
        case "text" if not str(block.get("text", "")).strip():
            yield "text content blocks must contain non-whitespace text"
        case "image":
            yield from _image(block.get("source"))
        case "tool_use":
            yield from _use(block)
        case "tool_result":
            yield from _result(block)
        case "thinking":
            if not signed(str(block.get("thinking", "")), str(block.get("signature", ""))):
                yield "Invalid `signature` in `thinking` block"
    if "cache_control" in block and kind in ("thinking", "redacted_thinking"):
        yield "cache_control: Extra inputs are not permitted"


def _image(source: Any) -> Iterator[str]:
    if not isinstance(source, dict) or source.get("type") != "base64":
        yield "source: only base64 here"
        return
    if source.get("media_type") not in _IMAGES:
        yield f"source.media_type: {source.get('media_type')!r}"
    try:
        if not base64.b64decode(source.get("data", ""), validate=True):
            yield "source.data: image cannot be empty"
    except (binascii.Error, ValueError, TypeError):
        yield "source.data: invalid base64 data"


def _use(block: JSON) -> Iterator[str]:
    if not _ID.fullmatch(str(block.get("id", ""))):
        yield f"id: String should match pattern '^[a-zA-Z0-9_-]+$' ({block.get('id')!r})"
    if not _NAME.fullmatch(str(block.get("name", ""))):
        yield f"name: {block.get('name')!r}"
    if not isinstance(block.get("input"), dict):
        yield "input: Input should be a valid dictionary"


def _result(block: JSON) -> Iterator[str]:
    content = block.get("content", "")
    if not isinstance(content, str | list):
        yield "content: neither a string nor a list"
        return
    for inner in blocks_of(content) if content else ():
        if inner.get("type") not in ("text", "image"):
            yield f"content: {inner.get('type')!r} may not be in a result"
        else:
            yield from _block(inner, "user", lambda *_: True)
    if not isinstance(block.get("is_error", False), bool):
        yield "is_error: Input should be a valid boolean"


# --- across messages ---


def _order(messages: list[JSON]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    for number, (one, other) in enumerate(pairwise(messages), 1):
        if one["role"] == other["role"]:
            yield f'messages.{number}: roles must alternate between "user" and "assistant"'


def _pairs(messages: list[JSON]) -> Iterator[str]:
    """Each use answered in the very next message and before anything else there; each id once."""
    used: set[str] = set()
    expected: list[str] = []
    for number, message in enumerate(messages):
        blocks = blocks_of(message["content"])
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if missing := [use for use in expected if use not in results]:
            yield (
                f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}."
            )
        if orphans := [result for result in results if result not in expected]:
            yield f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(orphans)}."
        if len(set(results)) != len(results):
            yield f"messages.{number}: each tool_use must have a single result"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"messages.{number}: `tool_result` blocks must come first"
        expected = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if used.intersection(expected) or len(set(expected)) != len(expected):
            yield f"messages.{number}: `tool_use` ids must be unique"
        used.update(expected)
    if expected:
        yield f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(expected)}."


def _thinking(body: JSON) -> Iterator[str]:
    """With thinking on by hand, the answer an open tool loop began with must begin with its thinking."""
    thinking = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    if not 1_024 <= thinking.get("budget_tokens", 0) < body.get("max_tokens", 0):
        yield "thinking.budget_tokens: at least 1024 and less than max_tokens"
    for number in range(len(body["messages"]) - 1, -1, -1):
        message = body["messages"][number]
        blocks = blocks_of(message["content"])
        if message["role"] == "user" and blocks[0]["type"] != "tool_result":
            return
        if message["role"] == "assistant" and blocks[0]["type"] not in ("thinking", "redacted_thinking"):
            yield f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`"
            return


def _breakpoints(body: JSON) -> Iterator[str]:
    count = json.dumps(body).count('"cache_control": {')
    if count > BREAKPOINTS:
        yield f"A maximum of {BREAKPOINTS} blocks with cache_control may be provided. Found {count}."


def _surrogates(body: JSON) -> Iterator[str]:
    if _SURROGATE.search(json.dumps(body, ensure_ascii=False)):
        yield "The request body is not valid JSON: a lone surrogate"
