"""What a compaction keeps of its source: the questions one can ask without a model, and their answers.

Five: files edited, files only read, a person's messages to the letter, the newest of these, the newest error's line.
What is asked comes from the source of that very compaction, what was pruned from it before included, never from what an
earlier one replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.context.replacement import head_blocks
from ullage.core.context import Replacement
from ullage.core.events import CheckpointCommitted, Entry
from ullage.core.messages import Message, Op, Part, Role, Text, ToolCall, ToolResult
from ullage.core.reduce import reduce
from ullage.core.state import MessageItem, State

QUESTIONS: Final = ("edited files", "read files", "words verbatim", "newest word", "newest error")


@dataclass(frozen=True, slots=True)
class Held:
    """How many of what was asked for are there, and how many are not."""

    kept: int
    lost: tuple[str, ...]

    @property
    def asked(self) -> int:
        return self.kept + len(self.lost)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction: the state it met, all that was said since the one before it, and what it left."""

    state: State
    source: tuple[Message, ...]
    replacement: Replacement


def survival(source: Sequence[Message], replacement: Replacement) -> tuple[Held, ...]:
    """The answers to `QUESTIONS` for a compaction of these messages."""
    text = shown(replacement)
    return tuple(_held(wanted, text) for wanted in _wanted(source))


def compactions(entries: Iterable[Entry]) -> Iterator[Compaction]:
    """Each compaction of a session."""
    state, source = State(), dict[str, Message]()
    for entry in entries:
        if isinstance(entry.event, CheckpointCommitted):
            yield Compaction(state, tuple(source.values()), entry.event.replacement)
            source = {}
        before, state = len(state.items), reduce(state, entry)
        new = state.items[min(before, len(state.items) - 1) :] if source and state.items else state.items
        source |= {item.message.message_id: item.message for item in new if isinstance(item, MessageItem)}


def messages_of(state: State) -> tuple[Message, ...]:
    """What a state shows as messages."""
    return tuple(item.message for item in state.items if isinstance(item, MessageItem))


def shown(replacement: Replacement) -> str:
    """All text that a model sees of a replacement."""
    tail = (part for kept in replacement.tail for part in kept.message.parts)
    return "\n".join([*(block.text for block in head_blocks(replacement)), *map(_text, tail)])


def _text(part: Part) -> str:
    match part:
        case Text(text) | ToolResult(_, text):
            return text
        case ToolCall():
            return part.arguments
        case _:
            return ""


def _held(wanted: tuple[str, ...], text: str) -> Held:
    lost = tuple(one for one in wanted if one not in text)
    return Held(len(wanted) - len(lost), lost)


def _wanted(messages: Sequence[Message]) -> Iterator[tuple[str, ...]]:
    results = [result for message in messages for result in message.results]
    done = [result.facts for result in results if not result.is_error]
    edited = dict.fromkeys(path for facts in done if facts.op is Op.WRITE for path in facts.paths)
    read = dict.fromkeys(path for facts in done if facts.op is Op.READ for path in facts.paths)
    said = [m.text.strip() for m in messages if m.role is Role.USER and m.origin is None and m.text.strip()]
    wrong = [r.facts.detail for r in results if (r.is_error or r.facts.exit_code) and r.facts.detail]
    yield from (tuple(edited), tuple(path for path in read if path not in edited))
    yield from (tuple(said), tuple(said[-1:]), tuple(wrong[-1:]))
