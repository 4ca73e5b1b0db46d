"""Between neutral messages and the JSON of Anthropic's Messages API. Pure: no call is made here.

Invariant: what is written passes the API's rules for any valid request, and reading accepts any history.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ullage.core.messages import Image, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from ullage.core.requests import Block, Request, RequestMessage
from ullage.providers.shapes import (
    ImageStore,
    LoadImage,
    arguments_object,
    arguments_text,
    message,
    string,
    unknown_note,
    wire_id,
)

PROVIDER: Final = "anthropic"
IMAGE_GONE: Final = "[image no longer stored]"

# --- out ---


def to_anthropic(request: Request, load_image: LoadImage = lambda image: None) -> dict[str, Any]:
    """The body of a request. Images become base64; one whose bytes are gone becomes a note."""
    body: dict[str, Any] = {"model": request.model, "max_tokens": request.max_output}
    if request.system:
        body["system"] = request.system
    if request.tools:
        tools = sorted(request.tools, key=lambda tool: tool.name)
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": json.loads(tool.schema)}
            for tool in tools
        ]
    body["messages"] = anthropic_messages(request.messages, load_image)
    return body


def anthropic_messages(
    messages: Iterable[RequestMessage], load_image: LoadImage = lambda image: None
) -> list[dict[str, Any]]:
    """Messages alone, for who keeps system and tools elsewhere."""
    return [
        {
            "role": "assistant" if each.role is Role.ASSISTANT else "user",
            "content": [block for part in each.blocks for block in _block(part, load_image)],
        }
        for each in messages
    ]


def _block(block: Block, load_image: LoadImage) -> Iterator[dict[str, Any]]:
    match block:
        case Text(text):
            yield {"type": "text", "text": text}
        case Reasoning(opaque=Opaque() as signed) | (Opaque() as signed):
            # The builder looks at the model; a gateway may give two providers' models one name.
            if signed.provider == PROVIDER:
                yield json.loads(signed.raw)
        case Reasoning():
            pass
        case Image():
            yield _image(block, load_image)
        case ToolCall():
            arguments = arguments_object(block.arguments)
            yield {"type": "tool_use", "id": wire_id(block.call_id), "name": block.name, "input": arguments}
        case ToolResult():
            said = [{"type": "text", "text": block.text}] if block.text.strip() else []
            content = [*said, *(_image(image, load_image) for image in block.images)]
            result: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": wire_id(block.call_id),
                "content": block.text if content == said else content,
            }
            yield result | ({"is_error": True} if block.is_error else {})


def _image(image: Image, load_image: LoadImage) -> dict[str, Any]:
    content = load_image(image)
    if content is None:
        return {"type": "text", "text": IMAGE_GONE}
    source = {"type": "base64", "media_type": image.media_type, "data": b64encode(content).decode("ascii")}
    return {"type": "image", "source": source}


# --- in ---


def messages_from_anthropic(
    messages: Iterable[Any], model: str = "", images: ImageStore | None = None
) -> list[Message]:
    """Neutral messages of any history in this shape; `context.settle.settled` puts them in order.

    Results stand in tool messages of their own. `model` is the one that signed its reasoning; `images` keeps pictures.
    """
    reader, found = _Reader(model, images or ImageStore()), list[Message]()
    for place, each in enumerate(messages):
        if isinstance(each, dict):
            found += reader.read(place, each)
        elif said := string(each):
            found.append(message(place, Role.USER, [Text(said)]))
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    model: str
    images: ImageStore

    def read(self, place: int, each: dict[str, Any]) -> Iterator[Message]:
        role = Role.ASSISTANT if each.get("role") in ("assistant", "model") else Role.USER
        parts = list(self._all(each.get("content")))
        results = [part for part in parts if isinstance(part, ToolResult)]
        rest = [part for part in parts if not isinstance(part, ToolResult)]
        if results and role is Role.USER:
            yield message(place, Role.TOOL, results)
        if rest:
            calls = any(isinstance(part, ToolCall) for part in rest)
            yield message(place, Role.ASSISTANT if calls else role, rest)
        if results and role is Role.ASSISTANT:
            yield message(place, Role.TOOL, results)

    def _all(self, content: Any) -> Iterator[Part]:
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, dict):
                yield self._part(block)
            elif said := string(block):
                yield Text(said)

    def _part(self, block: dict[str, Any]) -> Part:
        match block.get("type"):
            case "text":
                return Text(string(block.get("text")))
            case "thinking" | "redacted_thinking":
                return self._reasoning(block)
            case "tool_use":
                given = string(block.get("id"))
                return ToolCall(given, string(block.get("name")), arguments_text(block.get("input")), given or None)
            case "tool_result":
                return self._result(block)
            case "image" if isinstance(source := block.get("source"), dict) and source.get("type") == "base64":
                return self.images.keep(source.get("media_type"), source.get("data"))
            case "compaction":
                return Opaque(PROVIDER, self.model, json.dumps(block))
            case kind:
                return unknown_note(kind, {key: value for key, value in block.items() if key != "type"})

    def _reasoning(self, block: dict[str, Any]) -> Reasoning:
        signed = block.get("signature") or block.get("data")
        opaque = Opaque(PROVIDER, self.model, json.dumps(block)) if isinstance(signed, str) else None
        return Reasoning(string(block.get("thinking")), opaque)

    def _result(self, block: dict[str, Any]) -> ToolResult:
        parts = list(self._all(block.get("content")))
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        images = tuple(part for part in parts if isinstance(part, Image))
        call_id = string(block.get("tool_use_id"))
        return ToolResult(call_id, text, is_error=block.get("is_error") is True, images=images)
