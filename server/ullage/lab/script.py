"""What happened in a session, without how it was kept inside a window: the moves that a walk plays again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ullage.core.events import AnswerReceived, Entry, PromptQueued, ResultReceived, SteerEntered, TurnStarted
from ullage.core.messages import Message, ToolResult, Usage


@dataclass(frozen=True, slots=True)
class Prompted:
    """A turn begins."""

    message: Message


@dataclass(frozen=True, slots=True)
class Steered:
    """Something was put into the running turn."""

    message: Message


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and what its calls gave back, in the order they did."""

    message: Message
    usage: Usage
    stop: str
    model: str
    results: tuple[ToolResult, ...]


Move = Prompted | Steered | Answered


def script(entries: Iterable[Entry]) -> list[Move]:
    """The moves of a session, in order. Compactions and handoffs are no moves: they were somebody's policy."""
    return list(_moves(list(entries)))


def _moves(entries: list[Entry]) -> Iterator[Move]:
    waiting: dict[str, Message] = {}
    results: dict[str, list[ToolResult]] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, ResultReceived):
            results.setdefault(f"{event.turn_id}/{event.step}", []).extend(event.message.results)
    for entry in entries:
        match entry.event:
            case PromptQueued(message):
                waiting[message.turn_id] = message
            case TurnStarted(turn_id) if turn_id in waiting:
                yield Prompted(waiting.pop(turn_id))
            case SteerEntered(_, steer_id) if steer_id in waiting:
                yield Steered(waiting.pop(steer_id))
            case AnswerReceived() as event:
                given = tuple(results.get(f"{event.turn_id}/{event.step}", ()))
                yield Answered(event.message, event.usage, event.stop, event.model, given)
            case _:
                pass
