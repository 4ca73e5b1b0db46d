"""The body of a call, step after step: what was said before is mapped and written once, and caches can be used.

Invariant: but for its breakpoints, which are no part of what caches go by, a body begins with the bytes of the one
before it, as long as the requests do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.core.messages import clean_text
from ullage.core.requests import Request, RequestMessage, RequestTool
from ullage.providers.anthropic_shape import anthropic_messages, to_anthropic
from ullage.providers.shapes import LoadImage

JSON = dict[str, Any]

BREAKPOINT: Final = {"cache_control": {"type": "ephemeral"}}
SIGNED: Final = ("thinking", "redacted_thinking")
LEAST_THINKING: Final = 1_024
"""Fewest tokens of thinking that the API takes."""


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A message as JSON, and its bytes without a breakpoint."""

    message: RequestMessage
    json: JSON
    plain: bytes


@dataclass(slots=True)
class Bodies:
    """Makes bodies. What is remembered are the messages of the last request; it changes nothing but the time."""

    load: LoadImage
    thinking: int = 0
    """Tokens of thinking that are asked for; fewer than the API takes: none."""
    _head: tuple[object, dict[str, bytes]] | None = None
    _mapped: dict[int, _Mapped] = field(default_factory=dict)

    def make(self, request: Request) -> dict[str, bytes]:
        """The fields of a body, each as JSON. Breakpoints: after system and tools, at the last message, and where the
        last request ended, since caches look back only 20 blocks for themselves."""
        mapped = [self._message(each) for each in request.messages]
        self._mapped = {id(each.message): each for each in mapped}
        messages = [each.plain for each in mapped]
        for place in (-1, -3):
            if len(messages) >= -place:
                messages[place] = encoded(_marked_message(mapped[place].json))
        fresh = {"model": encoded(request.model), "max_tokens": encoded(request.max_output)}
        thinking = self._thinking(mapped, request.max_output)
        return self._head_of(request.system, request.tools) | fresh | thinking | {"messages": _list(messages)}

    def _thinking(self, mapped: Sequence[_Mapped], most: int) -> dict[str, bytes]:
        """How much the model thinks. The API wants an open tool loop to begin with what it signed: where that is lost
        (another model began, or a compaction took it), this request goes without, and the next turn's does not."""
        tokens = min(self.thinking, most // 2)
        if tokens < LEAST_THINKING or not _loop_is_signed(mapped):
            return {}
        return {"thinking": encoded({"type": "enabled", "budget_tokens": tokens})}

    def _message(self, message: RequestMessage) -> _Mapped:
        known = self._mapped.get(id(message))
        if known is not None and known.message is message:
            return known
        [made] = anthropic_messages([message], self.load)
        made = _encodable(made)
        return _Mapped(message, made, encoded(made))

    def _head_of(self, system: str, tools: Sequence[RequestTool]) -> dict[str, bytes]:
        key = (system, tuple(tools))
        if self._head is None or self._head[0] != key:
            self._head = (key, {name: encoded(value) for name, value in _head(system, tuple(tools)).items()})
        return self._head[1]


def encoded(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def joined(fields: Mapping[str, bytes]) -> bytes:
    """An object of fields that are JSON each."""
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), value) for name, value in fields.items())


def _list(cells: Sequence[bytes]) -> bytes:
    return b"[%b]" % b",".join(cells)


def _loop_is_signed(mapped: Sequence[_Mapped]) -> bool:
    """Whether each answer since a person last spoke begins with signed reasoning."""
    for message in (each.json for each in reversed(mapped)):
        first = message["content"][0]["type"]
        if message["role"] == "user" and first != "tool_result":
            break
        if message["role"] == "assistant" and first not in SIGNED:
            return False
    return True


def with_room(fields: Mapping[str, bytes], room: int) -> dict[str, bytes]:
    """The fields for an answer of at most `room` tokens, without thinking where that would take all of it."""
    made = {**fields, "max_tokens": encoded(room)}
    if "thinking" in made and json.loads(made["thinking"])["budget_tokens"] >= room:
        del made["thinking"]
    return made


def _head(system: str, tools: tuple[RequestTool, ...]) -> JSON:
    """What every body of a session begins with."""
    head = to_anthropic(Request("", system, tools, (), 1, 0))
    if system:
        head["system"] = [{"type": "text", "text": system} | BREAKPOINT]
    elif tools:
        head["tools"][-1] |= BREAKPOINT
    return {name: head[name] for name in ("tools", "system") if name in head}


def _marked_message(message: JSON) -> JSON:
    """The message with a breakpoint at its last block; signed blocks can't bear one."""
    *before, last = message["content"]
    if last["type"] in SIGNED:
        return message
    return message | {"content": [*before, last | BREAKPOINT]}


def _encodable(message: JSON) -> JSON:
    """Escapes may stand for lone surrogates, which no body can hold. What is signed is left out then, never changed."""
    if _has_bytes(message):
        return message
    content = [block for block in message["content"] if block["type"] not in SIGNED or _has_bytes(block)]
    cleaned: JSON = _cleaned(message | {"content": content})
    return cleaned


def _has_bytes(value: JSON) -> bool:
    try:
        encoded(value)
    except UnicodeEncodeError:
        return False
    return True


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(name): _cleaned(each) for name, each in value.items()}
        case list():
            return [_cleaned(each) for each in value]
        case _:
            return value
