"""What the Anthropic and OpenAI APIs would refuse in the JSON of a history, written from their rules alone.

So this module imports nothing that makes such JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def anthropic_problems(messages: Sequence[Any]) -> list[str]:
    """Everything the Messages API would refuse; empty when the messages are valid."""
    return [*_common(messages), *_alternation(messages), *_anthropic_pairs(messages), *_anthropic_blocks(messages)]


def openai_problems(messages: Sequence[Any]) -> list[str]:
    """Everything the chat completions API would refuse; empty when the messages are valid."""
    return [*_common(messages), *_openai_pairs(messages)]


def _common(messages: Sequence[Any]) -> Iterator[str]:
    if not messages:
        yield "no messages"
    if _SURROGATE.search(json.dumps(messages, ensure_ascii=False)):
        yield "a lone surrogate"
    try:
        json.dumps(messages, allow_nan=False)
    except ValueError:
        yield "a number that is no JSON"


def _alternation(messages: Sequence[Any]) -> Iterator[str]:
    if messages and messages[0]["role"] != "user":
        yield "the first message is not user"
    for number, (one, other) in enumerate(pairwise(messages), 1):
        if one["role"] == other["role"]:
            yield f"messages {number - 1} and {number} have one role"


def _blocks_of(message: Any, kind: str) -> list[Any]:
    return [block for block in message["content"] if block["type"] == kind]


def _anthropic_pairs(messages: Sequence[Any]) -> Iterator[str]:
    open_ids: list[str] = []
    known: set[str] = set()
    for number, message in enumerate(messages):
        results = [block["tool_use_id"] for block in _blocks_of(message, "tool_result")]
        if sorted(results) != sorted(open_ids):
            yield f"message {number} answers {results}, asked were {open_ids}"
        if any(block["type"] != "tool_result" for block in message["content"][: len(results)]):
            yield f"message {number} has something before its results"
        open_ids = [block["id"] for block in _blocks_of(message, "tool_use")]
        if known.intersection(open_ids) or len(set(open_ids)) < len(open_ids):
            yield f"message {number} uses an id again"
        known.update(open_ids)
    if open_ids:
        yield f"the last message leaves {open_ids} unanswered"


def _anthropic_blocks(messages: Sequence[Any]) -> Iterator[str]:
    for number, message in enumerate(messages):
        if not message["content"]:
            yield f"message {number} is empty"
        assistant = message["role"] == "assistant"
        for block in message["content"]:
            match block:
                case {"type": "text", "text": str(text)} if text.strip():
                    pass
                case {"type": "tool_use", "id": str(name), "name": str(tool), "input": dict()} if (
                    assistant and _ID.fullmatch(name) and _ID.fullmatch(tool)
                ):
                    pass
                case {"type": "tool_result", "tool_use_id": str(name), "content": content} if (
                    not assistant and _ID.fullmatch(name) and content
                ):
                    pass
                case {"type": "thinking" | "redacted_thinking" | "compaction"} if assistant:
                    pass
                case {"type": "image", "source": {"type": "base64", "data": str(data)}} if data and not assistant:
                    pass
                case _:
                    yield f"message {number} has a bad block: {block}"


def _openai_pairs(messages: Sequence[Any]) -> Iterator[str]:
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        role, content, calls = message["role"], message.get("content"), message.get("tool_calls") or []
        if role == "tool":
            if message["tool_call_id"] not in open_ids:
                yield f"message {number} answers a call that is not open"
            else:
                open_ids.remove(message["tool_call_id"])
        elif open_ids:
            yield f"message {number} leaves {open_ids} unanswered"
            open_ids = []
        if not content and not (role == "assistant" and calls):
            yield f"message {number} is empty"
        for call in calls:
            open_ids.append(call["id"])
            function = call["function"]
            named = _ID.fullmatch(call["id"]) and _ID.fullmatch(function["name"])
            if role != "assistant" or not named or not isinstance(function["arguments"], str):
                yield f"message {number} has a bad call: {call}"
    if open_ids:
        yield f"the last message leaves {open_ids} unanswered"
