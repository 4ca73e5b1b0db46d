"""Between neutral messages and the JSON of OpenAI's chat completions. Pure: no call is made here.

Invariant: what is written passes the API's rules for any valid request, and reading accepts any history.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ullage.core.messages import Image, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from ullage.core.requests import Block, Request, RequestMessage
from ullage.providers.shapes import (
    ImageStore,
    LoadImage,
    arguments_text,
    message,
    string,
    unknown_note,
    wire_id,
)

IMAGE_GONE: Final = "[image no longer stored]"
FAILED: Final = "[failed]\n"
"""Begins a result that is an error: this shape has no flag for it."""
_SYSTEM: Final = ("system", "developer")

# --- out ---


def to_openai(request: Request, load_image: LoadImage = lambda image: None) -> dict[str, Any]:
    """The body of a request. Images become data URLs; reasoning is not sent, since this shape has no place for it."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    body: dict[str, Any] = {
        "model": request.model,
        "max_completion_tokens": request.max_output,
        "messages": [*system, *openai_messages(request.messages, load_image)],
    }
    if request.tools:
        tools = sorted(request.tools, key=lambda tool: tool.name)
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": json.loads(tool.schema),
                },
            }
            for tool in tools
        ]
    return body


def openai_messages(
    messages: Iterable[RequestMessage], load_image: LoadImage = lambda image: None
) -> list[dict[str, Any]]:
    """Messages alone. Results are messages of their own; their images follow them in a user message."""
    made: list[dict[str, Any]] = []
    for each in messages:
        made += _answer(each) if each.role is Role.ASSISTANT else _said(each, load_image)
    return made


def _answer(each: RequestMessage) -> Iterator[dict[str, Any]]:
    text = "\n\n".join(block.text for block in each.blocks if isinstance(block, Text))
    calls = [_call(block) for block in each.blocks if isinstance(block, ToolCall)]
    if text or calls:
        yield {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": wire_id(call.call_id), "type": "function", "function": function}


def _said(each: RequestMessage, load_image: LoadImage) -> Iterator[dict[str, Any]]:
    results = [block for block in each.blocks if isinstance(block, ToolResult)]
    for result in results:
        text = FAILED + result.text if result.is_error and not result.text.startswith(FAILED) else result.text
        said = text if text.strip() else "(see the image)"
        yield {"role": "tool", "tool_call_id": wire_id(result.call_id), "content": said}
    shown: list[Block] = [image for result in results for image in result.images]
    shown += [block for block in each.blocks if isinstance(block, Text | Image)]
    content = [_content(block, load_image) for block in shown]
    if len(content) == 1 and content[0]["type"] == "text":
        yield {"role": "user", "content": content[0]["text"]}
    elif content:
        yield {"role": "user", "content": content}


def _content(block: Block, load_image: LoadImage) -> dict[str, Any]:
    if isinstance(block, Image):
        data = load_image(block)
        if data is not None:
            url = f"data:{block.media_type};base64,{b64encode(data).decode('ascii')}"
            return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": block.text if isinstance(block, Text) else IMAGE_GONE}


# --- in ---


def system_of_openai(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """The system and developer messages of a history, as they are."""
    return [each for each in messages if isinstance(each, dict) and each.get("role") in _SYSTEM]


def messages_from_openai(
    messages: Iterable[Any], images: ImageStore | None = None, *, system: bool = False
) -> list[Message]:
    """Neutral messages of any history in this shape, without system messages; `settled` puts them in order.

    `images` keeps pictures. With `system`, those messages are read as what the user says, to count them.
    """
    images, found = images or ImageStore(), list[Message]()
    for place, each in enumerate(messages):
        if not isinstance(each, dict):
            if said := string(each):
                found.append(message(place, Role.USER, [Text(said)]))
        elif system or each.get("role") not in _SYSTEM:
            found += _read(place, each, images)
    return found


def _read(place: int, each: dict[str, Any], images: ImageStore) -> Iterator[Message]:
    parts: list[Part] = list(_texts(each.get("content"), images))
    match each.get("role"):
        case "assistant" | "model":
            if isinstance(thought := each.get("reasoning_content"), str) and thought:
                parts.insert(0, Reasoning(thought))
            parts += _calls(each)
        case "tool" | "function":
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            failed = text.startswith(FAILED)
            call_id = string(each.get("tool_call_id") or each.get("name"))
            result = ToolResult(call_id, text.removeprefix(FAILED), is_error=failed)
            yield message(place, Role.TOOL, [result])
            return
        case _:
            pass
    if parts:
        said = any(isinstance(part, ToolCall) for part in parts) or each.get("role") in ("assistant", "model")
        yield message(place, Role.ASSISTANT if said else Role.USER, parts)


def _texts(content: Any, images: ImageStore) -> Iterator[Part]:
    for block in content if isinstance(content, list) else [content]:
        if not isinstance(block, dict):
            if said := string(block):
                yield Text(said)
            continue
        match block.get("type"):
            case "text" | "input_text" | "output_text" | None:
                yield Text(string(block.get("text")))
            case "refusal":
                yield Text(string(block.get("refusal")))
            case "image_url":
                yield _picture(block, images)
            case kind:
                yield unknown_note(kind, {key: value for key, value in block.items() if key != "type"})


def _picture(block: dict[str, Any], images: ImageStore) -> Part:
    source = block.get("image_url")
    url = source.get("url") if isinstance(source, dict) else source
    if isinstance(url, str) and url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        return images.keep(kind, data)
    return unknown_note("image_url", url)


def _calls(each: dict[str, Any]) -> Iterator[ToolCall]:
    calls = each.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            call_id = string(call.get("id"))
            yield _called(call_id, call.get("function") or call.get("custom"), call_id or None)
    if old := each.get("function_call"):
        yield _called(string(old.get("name")) if isinstance(old, dict) else "", old, None)


def _called(call_id: str, function: Any, given: str | None) -> ToolCall:
    function = function if isinstance(function, dict) else {}
    arguments = arguments_text(function.get("arguments", function.get("input")))
    return ToolCall(call_id, string(function.get("name")), arguments, given)
