"""Pins: what a person wants the model to have before it, to the letter, however often a session is compacted.

Invariants. A pin is a person's word, so none goes by itself: one that would pass a bound is refused, and the error says
so. A pin is a fact from the moment it is added; where what it holds is not in view, a message of the host's brings it
there, which never stands between a request and its answer, nor between a call and its result: so what was sent once
stays the beginning of all that is sent later.
"""

from __future__ import annotations

from dataclasses import replace

from ullage.core.context import Pin
from ullage.core.errors import BadInput, UllageError
from ullage.core.events import Entry, PinAdded, PinRemoved
from ullage.core.limits import BOUNDS
from ullage.core.messages import Message, Role, Text
from ullage.core.state import Facts, MessageItem, State, changed

ORIGIN = "pin"
"""Origin of the host's messages that tell the model a pin."""
_TOLD = "The person pinned this, to be kept in view"


def message_pin(message: Message, seq: int) -> Pin:
    """A pin of a message that was said at a seq.

    Raises:
        BadInput: `nothing_to_pin`, there is no text in it.
    """
    said = text_of(message)
    if not said.strip():
        raise BadInput("There is no text in this message to pin.", hint="Pin another one.", code="nothing_to_pin")
    return Pin(message.message_id, said, message.role, seq)


def text_of(message: Message) -> str:
    """What a pin of this message holds."""
    return "\n".join(result.text for result in message.results) if message.role is Role.TOOL else message.text


def typed_pin(text: str, seq: int) -> Pin:
    """A pin of what a person typed, whose event will have that seq.

    Raises:
        BadInput: `nothing_to_pin`, the text is blank.
    """
    if not text.strip():
        raise BadInput("There is no text to pin.", hint="Type what to keep in view.", code="nothing_to_pin")
    return Pin(f"pin{seq}", text, Role.USER, seq, typed=True)


def known_pin(facts: Facts, pin: Pin) -> Pin | None:
    """The pin that holds this already: of the same message, or the same text typed."""
    found = (
        old for old in facts.pins if old.pin_id == pin.pin_id or (old.typed and pin.typed and old.text == pin.text)
    )
    return next(found, None)


def refusal(facts: Facts, pin: Pin) -> UllageError | None:
    """Why one more pin can't be added; None when it can."""
    chars = sum(len(old.text) for old in facts.pins)
    if len(facts.pins) >= BOUNDS.pins_remembered:
        return BadInput(
            f"This session has {BOUNDS.pins_remembered} pins, which is the most there may be.",
            hint="Take a pin back first.",
            code="too_many_pins",
            most=BOUNDS.pins_remembered,
        )
    if chars + len(pin.text) > BOUNDS.pins_chars:
        return BadInput(
            f"With this pin, pinned texts would have {chars + len(pin.text):,} characters, and at most "
            f"{BOUNDS.pins_chars:,} can be kept in view.",
            hint="Take a pin back, or pin the few lines that matter.",
            code="pins_too_long",
            chars=chars + len(pin.text),
            most=BOUNDS.pins_chars,
        )
    return None


def pin_note(pin: Pin) -> Message:
    """The message of the host's that tells the model a pin. It names who said what the person did not."""
    whose = {Role.USER: "", Role.ASSISTANT: ", from an answer", Role.TOOL: ", from a tool's output"}[pin.role]
    return Message(f"{pin.pin_id}/p", Role.USER, (Text(f"{_TOLD}{whose}:\n{pin.text}"),), "", origin=ORIGIN)


# --- events ---


def pin_added(state: State, event: PinAdded) -> State | None:
    facts = state.facts
    if known_pin(facts, event.pin) or refusal(facts, event.pin):
        return None
    untold = (*facts.pins_untold, event) if event.tokens else facts.pins_untold
    return replace(state, facts=changed(facts, pins=(*facts.pins, event.pin), pins_untold=untold))


def pin_removed(state: State, event: PinRemoved) -> State | None:
    facts = state.facts
    left = tuple(pin for pin in facts.pins if pin.pin_id != event.pin_id)
    if len(left) == len(facts.pins):
        return None
    untold = tuple(each for each in facts.pins_untold if each.pin.pin_id != event.pin_id)
    return replace(state, facts=changed(facts, pins=left, pins_untold=untold))


def pins_told(state: State, entry: Entry) -> State:
    """The state with what waits to be told among the items, as soon as no request and no call is open."""
    facts, items = state.facts, state.items
    if facts.sent is not None or (facts.open_turn is not None and facts.open_turn.pending):
        return state
    upto = state.tokens
    for each in facts.pins_untold:
        upto += each.tokens
        items = items.append(MessageItem(entry.seq, pin_note(each.pin), each.tokens, each.encoding, upto))
    return State(changed(facts, pins_untold=()), items)
