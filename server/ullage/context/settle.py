"""Putting a history from elsewhere in order: every result right behind its call.

Invariant: whatever comes in, what goes out is a history as the turn machine writes it. An assistant message with
calls is followed by exactly one tool message a call, in call order; no words are lost or become somebody else's. Late
results move up to their call, a missing one is closed, of two for one call the first stays, and one without a call
becomes a note. Call ids are unique. What is in order already stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ullage.context.acts import facts_of
from ullage.context.pairing import Pairing
from ullage.context.request import orphan_note
from ullage.core.messages import UNANSWERED, Message, Part, Role, Text, ToolCall, ToolFacts, ToolResult
from ullage.core.state import MessageItem

ORIGIN = "note"
"""Origin of the notes made here: no person said them."""
_NO_FACTS = ToolResult("", "").facts


def settled(messages: Iterable[Message]) -> list[Message]:
    """The messages in order. Results without facts get those that the call's name and arguments tell."""
    given = [_split(message) for message in messages]
    flat = [message for pieces in given for message in pieces]
    items = [MessageItem(index, message, 0, "", 0) for index, message in enumerate(flat)]
    pairing = Pairing()
    pairing.take(items)
    return [made for index, message in enumerate(flat) for made in _settle(index, message, pairing)]


def _split(message: Message) -> Sequence[Message]:
    """Glued records come apart: results stand in tool messages, calls in assistant messages."""
    results = message.results
    if not results or message.role is Role.TOOL:
        return (message,)
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    tool = Message(f"{message.message_id}/r", Role.TOOL, results, message.turn_id)
    said = replace(message, parts=rest)
    return (said, tool) if message.role is Role.ASSISTANT else (tool, said)


def _settle(index: int, message: Message, pairing: Pairing) -> Iterator[Message]:
    if message.role is Role.ASSISTANT:
        names = pairing.names_of(index)
        yield from _said(message, _renamed(message.parts, names))
        for place, (call, name) in enumerate(zip(message.calls, names, strict=True)):
            result = pairing.results_of(index)[place] or ToolResult(name, UNANSWERED, is_error=True)
            made = replace(result, call_id=name, facts=_facts(call, result))
            yield Message(f"{message.message_id}/r{place}", Role.TOOL, (made,), message.turn_id)
        return
    orphans = [result for result in message.results if pairing.is_orphan(index, result)]
    for result in orphans:
        note = (Text(orphan_note(result)),)
        yield Message(f"{message.message_id}/n", Role.USER, note, message.turn_id, origin=ORIGIN)
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult | ToolCall))
    yield from _said(replace(message, role=Role.USER), rest)


def _renamed(parts: Iterable[Part], names: Sequence[str]) -> tuple[Part, ...]:
    left = iter(names)
    return tuple(replace(part, call_id=next(left)) if isinstance(part, ToolCall) else part for part in parts)


def _said(message: Message, parts: tuple[Part, ...]) -> Iterator[Message]:
    """The message with these parts; nothing where nothing is said in them."""
    if any(not isinstance(part, Text) or part.text.strip() for part in parts):
        yield message if parts == message.parts else replace(message, parts=parts)


def _facts(call: ToolCall, result: ToolResult) -> ToolFacts:
    return facts_of(call, result) if result.facts == _NO_FACTS else result.facts
