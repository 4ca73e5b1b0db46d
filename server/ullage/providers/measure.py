"""Tokens of requests and answers as the offline providers report them: every text counted once, and what frames it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from ullage.core.messages import Image, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from ullage.core.requests import Request

MESSAGE_TOKENS = 4
"""What a message costs beside its text; the usual figure for chat formats."""

IMAGE_PIXELS = 750
"""Pixels that cost one token (Anthropic's vision documentation: width x height / 750)."""


def request_tokens(request: Request, count: Callable[[str], int]) -> int:
    """Tokens of everything a request says: system prompt, tools, messages."""
    tools = sum(count(tool.name) + count(tool.description) + count(tool.schema) for tool in request.tools)
    said = sum(MESSAGE_TOKENS + parts_tokens(message.blocks, count) for message in request.messages)
    return count(request.system) + tools + said


def parts_tokens(parts: Iterable[Part], count: Callable[[str], int]) -> int:
    """Tokens of the parts of one message."""
    return sum(_part_tokens(part, count) for part in parts)


def _part_tokens(part: Part, count: Callable[[str], int]) -> int:
    match part:
        case Text(text) | Reasoning(text):
            return count(text)
        case ToolCall():
            return count(part.name) + count(part.arguments)
        case ToolResult():
            return count(part.text) + parts_tokens(part.images, count)
        case Image():
            return -(-part.width * part.height // IMAGE_PIXELS)
        case Opaque():
            return count(part.raw)
        case _:
            assert_never(part)
