"""The body of a call, step after step: what was said before is mapped once, and caches can be used.

Invariant: but for its breakpoints, which are no part of what caches go by, a body begins with the bytes of the one
before it, as long as the requests do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.core.messages import clean_text
from ullage.core.requests import Request, RequestMessage, RequestTool
from ullage.providers.anthropic_shape import anthropic_messages, to_anthropic
from ullage.providers.shapes import LoadImage

JSON = dict[str, Any]

BREAKPOINT: Final = {"cache_control": {"type": "ephemeral"}}


@dataclass(slots=True)
class Bodies:
    """Makes bodies. What is remembered are the messages of the last request; it changes nothing but the time."""

    load: LoadImage
    _head: tuple[object, JSON] | None = None
    _mapped: dict[int, tuple[RequestMessage, JSON]] = field(default_factory=dict)

    def make(self, request: Request) -> JSON:
        """The body, without `stream`. Breakpoints: after system and tools, at the last message, and where the last
        request ended, since caches look back only 20 blocks for themselves."""
        messages = [self._message(each) for each in request.messages]
        self._mapped = {id(each): (each, made) for each, made in zip(request.messages, messages, strict=True)}
        for place in (-1, -3):
            if len(messages) >= -place:
                messages[place] = _marked_message(messages[place])
        fresh = {"model": request.model, "max_tokens": request.max_output}
        return self._head_of(request.system, request.tools) | fresh | {"messages": messages}

    def _message(self, message: RequestMessage) -> JSON:
        known = self._mapped.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        [made] = anthropic_messages([message], self.load)
        return _encodable(made)

    def _head_of(self, system: str, tools: Sequence[RequestTool]) -> JSON:
        key = (system, tuple(tools))
        if self._head is None or self._head[0] != key:
            self._head = (key, _head(system, tuple(tools)))
        return self._head[1]


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
    if last["type"] in ("thinking", "redacted_thinking"):
        return message
    return message | {"content": [*before, last | BREAKPOINT]}


def _encodable(message: JSON) -> JSON:
    """Escapes in a call's arguments may stand for lone surrogates, which no body can hold."""
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        cleaned: JSON = _cleaned(message)
        return cleaned
    return message


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
