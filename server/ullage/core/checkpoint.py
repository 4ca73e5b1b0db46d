"""What a checkpoint must be, checked on write and on restore alike (blade 0.2.2, 1.7).

Invariant: a checkpoint that `checkpoint_problem` accepts when it is written is accepted by every later reader of
the same version, and one that it refuses never becomes the model's view.
"""

from __future__ import annotations

from typing import assert_never

from ullage.core.context import Replacement
from ullage.core.events import CheckpointCommitted, Entry, SessionRedone, SessionRewound
from ullage.core.limits import BOUNDS
from ullage.core.messages import Image, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

VERSION = 1
"""Version of checkpoints that this program writes and the only one it restores."""


def checkpoint_problem(event: CheckpointCommitted) -> str | None:
    """Why this checkpoint must not be written or restored, in words; None when it is acceptable."""
    if event.version != VERSION:
        return f"checkpoint version {event.version} is not {VERSION}"
    messages = 1 + len(event.replacement.instructions) + len(event.replacement.tail)
    if messages > BOUNDS.checkpoint_messages:
        return f"{messages} messages are more than {BOUNDS.checkpoint_messages}"
    size = replacement_bytes(event.replacement)
    if size > BOUNDS.checkpoint_bytes:
        return f"{size} bytes are more than {BOUNDS.checkpoint_bytes}"
    return pairing_problem([kept.message for kept in event.replacement.tail])


def unwritable(entry: Entry) -> str | None:
    """Why an event that carries the state must not be written: nobody would restore it, or to another state."""
    event = entry.event
    if not isinstance(event, CheckpointCommitted | SessionRewound | SessionRedone):
        return None
    if isinstance(event, CheckpointCommitted):
        problem = checkpoint_problem(event)
        if problem is not None:
            return problem
        if event.facts.revision != event.revision:
            return f"it was planned against revision {event.revision}, not {event.facts.revision}"
    if event.facts.last_seq != entry.seq - 1:
        return f"its facts are of event {event.facts.last_seq}, not of {entry.seq - 1}"
    return None


def replacement_bytes(replacement: Replacement) -> int:
    """Bytes of unescaped UTF-8 that a replacement's texts take; the JSON around them is small and bounded."""
    head = [replacement.ledger, *(word.text for word in (*replacement.task, *replacement.words))]
    head += [file.text for file in replacement.files] + [record.payload for record in replacement.records]
    head += [pin.text for pin in replacement.pins]
    messages = [given.instructions.message for given in replacement.instructions]
    messages += [kept.message for kept in replacement.tail]
    tail = [text for message in messages for part in message.parts for text in _part_texts(part)]
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in (*head, *tail))


def _part_texts(part: Part) -> tuple[str, ...]:
    match part:
        case Text(text) | ToolResult(_, text):
            return (text,)
        case Reasoning(text, opaque):
            return (text, opaque.raw) if opaque else (text,)
        case ToolCall():
            return (part.arguments,)
        case Opaque(raw=raw):
            return (raw,)
        case Image():
            return ()  # its bytes lie beside the log
        case _:
            assert_never(part)


def pairing_problem(messages: list[Message]) -> str | None:
    """Why these messages break call and result pairing: a result without its call, or a second one.

    A call without a result is no problem here: the request builder closes it.
    """
    open_calls: set[str] = set()
    for message in messages:
        if message.role is Role.ASSISTANT:
            open_calls.update(call.call_id for call in message.calls)
        for result in message.results:
            if result.call_id not in open_calls:
                return f"result {result.call_id} has no call before it"
            open_calls.discard(result.call_id)
    return None
