"""Pinning, as a person asks for it: whether it is pinned already, may be, and whether the model has to be told.

Invariant: a pin whose message is in view costs nothing; whatever else is pinned is told to the model once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ullage.context.occupancy import count_message
from ullage.core.context import Pin
from ullage.core.errors import BadInput
from ullage.core.events import (
    AnswerReceived,
    Entry,
    PinAdded,
    PromptEdited,
    PromptQueued,
    ResultReceived,
    SessionRedone,
    SessionRewound,
    SteerEntered,
    TurnStarted,
)
from ullage.core.messages import Message
from ullage.core.pins import known_pin, pin_note, refusal, text_of
from ullage.core.ports import TokenCounter
from ullage.core.reduce import reduce
from ullage.core.rewinding import TakenBack
from ullage.core.state import MessageItem, ReplacementItem, State, changed
from ullage.core.views import client_view


def pinning(state: State, pin: Pin, counter: TokenCounter) -> tuple[Pin, PinAdded | None]:
    """The pin that holds this from now on, and the event that adds it; None where the same is pinned already.

    Raises:
        BadInput: `too_many_pins` or `pins_too_long`; nothing is taken away to make room.
    """
    known = known_pin(state.facts, pin)
    if known is not None:
        return known, None
    if problem := refusal(state.facts, pin):
        raise problem
    if _in_view(state, pin):
        return pin, PinAdded(pin)
    return pin, _told(pin, counter)


Going = SessionRewound | SessionRedone


def tell_pins(state: State, event: Going, counter: TokenCounter) -> Going:
    """The event, telling the pins that stay and whose text it takes out of view; `state` is the one just before it.

    One that a compaction shortened to its share stays as that left it: it would stand twice.
    """
    after = reduce(state, Entry(state.facts.last_seq + 1, state.facts.last_at, event))
    shortened = {
        pin.pin_id for item in after.items if isinstance(item, ReplacementItem) for pin in item.replacement.pins
    }
    out = (pin for pin in after.facts.pins if pin.pin_id not in shortened and not _in_view(after, pin))
    gone = tuple(_told(pin, counter) for pin in out)
    return replace(event, facts=changed(event.facts, pins_untold=gone))


def _told(pin: Pin, counter: TokenCounter) -> PinAdded:
    return PinAdded(pin, count_message(pin_note(pin), counter), counter.encoding)


def _in_view(state: State, pin: Pin) -> bool:
    """Whether the model sees the pinned text, whole: among the items, or in the head of a replacement."""
    note = pin_note(pin)
    for item in state.items:
        if isinstance(item, MessageItem) and item.message == note:
            return True
        if (
            isinstance(item, MessageItem)
            and item.message.message_id == pin.pin_id
            and text_of(item.message) == pin.text
        ):
            return True
        if isinstance(item, ReplacementItem):
            words = (*item.replacement.task, *item.replacement.words)
            if pin in item.replacement.pins:
                return True
            if any(word.message_id == pin.pin_id and word.text == pin.text for word in words):
                return True
    return False


def find_message(state: State, message_id: str) -> tuple[Message, int] | None:
    """A message among the items, and its seq; what a compaction kept may be shortened."""
    found = (item for item in state.items if isinstance(item, MessageItem) and item.message.message_id == message_id)
    return next(((item.message, item.seq) for item in found), None)


def search_message(entries: Iterable[Entry], message_id: str) -> tuple[Message, int] | None:
    """A message that was said in a session's log and not taken back, and its seq.

    A prompt was said once its turn took it.
    """
    waiting: Message | None = None
    found: tuple[Message, int] | None = None
    taken = TakenBack()
    for entry in entries:
        if shown := client_view(entry):
            taken.note(shown)
        match entry.event:
            case PromptQueued(message) | PromptEdited(message) if message.message_id == message_id:
                waiting = message
            case TurnStarted(turn_id) | SteerEntered(_, turn_id) if waiting and waiting.turn_id == turn_id:
                found = waiting, entry.seq
            case AnswerReceived(message=message) | ResultReceived(message=message) if message.message_id == message_id:
                found = message, entry.seq
            case _:
                pass
    return None if found is None or taken.holds_message(found[1], message_id) else found


def unknown_message() -> BadInput:
    return BadInput(
        "Nothing of that id was said in this session.",
        hint="A prompt that still waits can be pinned once its turn began.",
        code="unknown_message",
    )
