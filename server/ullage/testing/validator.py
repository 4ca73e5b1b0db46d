"""What a provider would refuse in a request: the rules of Anthropic's Messages API, and nothing of ours.

Every request that any test builds must have no problem. So this module must not import the builder: it would agree
with its mistakes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

from ullage.core.messages import Image, Opaque, Reasoning, Role, Text, ToolCall, ToolResult
from ullage.core.requests import Block, Request, RequestMessage

REQUEST_BYTES = 32_000_000
"""Largest body the API takes."""
IMAGE_BYTES = 5 * 1024 * 1024
IMAGE_SIDE = 8_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def problems(request: Request, window: int | None = None) -> list[str]:
    """Everything the API would refuse, in words; empty when the request is valid. `window` in tokens, if known."""
    return [
        *_order(request.messages),
        *_pairs(request.messages),
        *_blocks(request),
        *_sizes(request, window),
    ]


def _order(messages: tuple[RequestMessage, ...]) -> Iterator[str]:
    if not messages:
        yield "no messages"
        return
    if messages[0].role is not Role.USER:
        yield "the first message is not user"
    for number, (one, other) in enumerate(pairwise(messages), 1):
        if one.role is other.role:
            yield f"messages {number - 1} and {number} are both {one.role}"


def _pairs(messages: tuple[RequestMessage, ...]) -> Iterator[str]:
    """Each call answered in the very next message, each result to a call in the message right before, once."""
    ids: set[str] = set()
    expected: list[str] = []
    for number, message in enumerate(messages):
        results = [block.call_id for block in message.blocks if isinstance(block, ToolResult)]
        for call_id in expected:
            if call_id not in results:
                yield f"message {number} has no result for {call_id}"
        for place, call_id in enumerate(results):
            if call_id not in expected:
                yield f"message {number} has an orphan result for {call_id}"
            if call_id in results[:place]:
                yield f"message {number} has two results for {call_id}"
        if any(not isinstance(block, ToolResult) for block in message.blocks[: len(results)]):
            yield f"message {number} has something before its results"
        expected = [block.call_id for block in message.blocks if isinstance(block, ToolCall)]
        for call_id in expected:
            if call_id in ids or not call_id:
                yield f"message {number} uses call id {call_id!r} again"
            ids.add(call_id)
    for call_id in expected:
        yield f"the last message leaves {call_id} unanswered"


def _blocks(request: Request) -> Iterator[str]:
    for number, message in enumerate(request.messages):
        if not message.blocks:
            yield f"message {number} is empty"
        if message.role is Role.TOOL:
            yield f"message {number} has a role the API does not know"
        for block in message.blocks:
            for problem in _block(block, message.role):
                yield f"message {number}: {problem}"
    texts = [request.system, *(text for tool in request.tools for text in (tool.name, tool.description, tool.schema))]
    yield from (problem for text in texts for problem in _surrogates(text))
    names = [tool.name for tool in request.tools]
    if len(set(names)) != len(names):
        yield "two tools have one name"


def _block(block: Block, role: Role) -> Iterator[str]:
    assistant = role is Role.ASSISTANT
    match block:
        case Text(text):
            yield from _surrogates(text)
            if not text.strip():
                yield "blank text"
        case ToolCall():
            yield from _surrogates(block.arguments)
            if not assistant:
                yield "a call by the user"
            if _NAME.fullmatch(block.name) is None:
                yield f"tool name {block.name!r}"
        case ToolResult():
            yield from _surrogates(block.text)
            yield from (problem for image in block.images for problem in _image(image))
            if assistant:
                yield "a result by the assistant"
            if not block.text.strip() and not block.images:
                yield "a result without content"
        case Image():
            yield from _image(block)
            if assistant:
                yield "an image by the assistant"
        case Reasoning(_, opaque):
            if opaque is None:
                yield "reasoning without a signature"
            if not assistant:
                yield "reasoning by the user"
        case Opaque():
            if not assistant:
                yield "an opaque part by the user"


def _image(image: Image) -> Iterator[str]:
    if image.blob.size > IMAGE_BYTES:
        yield f"an image of {image.blob.size} bytes"
    if max(image.width, image.height) > IMAGE_SIDE or min(image.width, image.height) < 1:
        yield f"an image of {image.width} x {image.height}"


def _surrogates(text: str) -> Iterator[str]:
    if _SURROGATE.search(text):
        yield "a lone surrogate"


def _sizes(request: Request, window: int | None) -> Iterator[str]:
    size = _bytes(request)
    if size > REQUEST_BYTES:
        yield f"{size} bytes"
    if request.max_output < 1:
        yield f"an output limit of {request.max_output}"
    if window is not None and request.tokens + request.max_output > window:
        yield f"{request.tokens} + {request.max_output} tokens in a window of {window}"


def _bytes(request: Request) -> int:
    texts: list[str] = [request.system]
    texts += [text for tool in request.tools for text in (tool.name, tool.description, tool.schema)]
    images: list[Image] = []
    for message in request.messages:
        for block in message.blocks:
            match block:
                case Text(text):
                    texts.append(text)
                case ToolCall():
                    texts += [block.name, block.arguments]
                case ToolResult():
                    texts.append(block.text)
                    images += block.images
                case Image():
                    images.append(block)
                case Reasoning(text, opaque):
                    texts += [text, opaque.raw if opaque else ""]
                case Opaque():
                    texts.append(block.raw)
    said = len(json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return said + sum(-(-image.blob.size // 3) * 4 for image in images)
