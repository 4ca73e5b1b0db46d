"""What the explorer sees: a request, and nothing else.

Notes are taken from the newest answer that has some, else from the first user text that quotes some (a digest).
Tool results are never searched for notes: a file may contain anything, this one included. Nor are project instructions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.context.instructions import TITLE
from ullage.context.ledger import HEADINGS
from ullage.core.messages import Role, Text, ToolCall, ToolResult
from ullage.core.requests import Request, RequestMessage
from ullage.providers.exploring.notes import Notes, parse


@dataclass(frozen=True, slots=True)
class Seen:
    """A tool call that came back."""

    tool: str
    arguments: Mapping[str, Any]
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class View:
    """`results` came after the notes; `said` are the user's texts after them, oldest first."""

    tools: frozenset[str]
    notes: Notes | None
    results: tuple[Seen, ...]
    said: tuple[str, ...]
    listing: Seen | None
    """The newest listing in sight, older than the notes or not."""
    summarised: bool
    """The notes, if any, come from a summary; what followed them is gone."""


def look(request: Request) -> View:
    """Read a request."""
    tools = frozenset(tool.name for tool in request.tools)
    everything = _results(request.messages)
    listing = next((seen for seen in reversed(everything) if seen.tool in ("list", "glob") and not seen.is_error), None)
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if message.role is Role.ASSISTANT and (notes := _notes_in(message)):
            newer = request.messages[index:]
            return View(tools, notes, _results(newer), _texts(newer[1:]), listing, False)
    texts = _texts(request.messages)
    for index, text in enumerate(texts):
        if notes := parse(text):
            return View(tools, notes, everything, _asked(texts[index + 1 :]), listing, True)
    summarised = any(all(heading in text for heading in HEADINGS) for text in texts)
    return View(tools, None, (), texts, listing, summarised)


def _asked(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Behind a summary: the task, which comes first, and what was said since; not what the host titles as restored."""
    return texts[:1] + tuple(text for text in texts[1:] if not text.startswith("# "))


def _notes_in(message: RequestMessage) -> Notes | None:
    return parse("\n".join(block.text for block in message.blocks if isinstance(block, Text)))


def _texts(messages: Sequence[RequestMessage]) -> tuple[str, ...]:
    users = (message for message in messages if message.role is Role.USER)
    texts = (block.text for message in users for block in message.blocks if isinstance(block, Text))
    return tuple(text for text in texts if not text.startswith(TITLE))


def _results(messages: Sequence[RequestMessage]) -> tuple[Seen, ...]:
    """Results with the calls they answer, in order. A call id belongs to the newest call before its result."""
    calls: dict[str, ToolCall] = {}
    seen: list[Seen] = []
    for block in (block for message in messages for block in message.blocks):
        if isinstance(block, ToolCall):
            calls[block.call_id] = block
        elif isinstance(block, ToolResult) and (call := calls.get(block.call_id)):
            seen.append(Seen(call.name, _arguments(call), block.text, block.is_error))
    return tuple(seen)


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
