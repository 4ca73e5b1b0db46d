"""Pins in the state: bounded without ever losing one, and told at a moment that changes nothing that was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.test_reduce import IN_TOOLS, answer, check_events, check_refused, ended, result, started, step

from ullage.core.context import Pin
from ullage.core.errors import BadInput
from ullage.core.events import Event, Parent, PinAdded, PinRemoved, SessionForked, Stop
from ullage.core.limits import BOUNDS
from ullage.core.messages import BlobRef, Image, Message, Role, Text, ToolResult
from ullage.core.pins import ORIGIN, known_pin, message_pin, pin_note, refusal, typed_pin
from ullage.core.state import Facts, MessageItem, State

TYPED = typed_pin("Never touch prod.", 7)
TOLD = PinAdded(TYPED, 9, "test")
CALL = "t1/1/c0"


def shown(state: State) -> list[str]:
    """Ids of what the model sees, without turn ids."""
    return [item.message.message_id for item in state.items if isinstance(item, MessageItem)]


# --- what a pin holds ---


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Message("t1/u", Role.USER, (Text("a"), Text("b")), "t1"), "a\nb"),
        (Message("t1/1/a", Role.ASSISTANT, (Text("yes"),), "t1"), "yes"),
        (Message("t1/1/r0", Role.TOOL, (ToolResult("c", "out"), ToolResult("d", "more")), "t1"), "out\nmore"),
    ],
)
def test_a_pin_of_a_message_takes_its_text(message: Message, text: str) -> None:
    assert message_pin(message, 4) == Pin(message.message_id, text, message.role, 4)


def test_what_has_no_text_can_not_be_pinned() -> None:
    picture = Message("t1/u", Role.USER, (Image(BlobRef("0" * 64, 1), "image/png", 1, 1),), "t1")
    for make in (lambda: message_pin(picture, 1), lambda: typed_pin(" \n", 1)):
        with pytest.raises(BadInput) as caught:
            make()
        assert caught.value.report.code == "nothing_to_pin" and caught.value.report.hint


def test_the_same_is_pinned_once() -> None:
    """A message by its id, a typed text by what it says; a typed text is not the message that says the same."""
    message = message_pin(Message("t1/u", Role.USER, (Text(TYPED.text),), "t1"), 1)
    facts = Facts(pins=(TYPED, message))
    assert known_pin(facts, replace(TYPED, pin_id="pin99")) == TYPED
    assert known_pin(facts, replace(message, text="edited")) == message
    assert known_pin(Facts(pins=(message,)), TYPED) is None
    assert known_pin(Facts(pins=(TYPED,)), message) is None


# --- bounds ---


@pytest.mark.parametrize(
    ("pins", "code"),
    [
        (tuple(typed_pin(f"rule {n}", n) for n in range(BOUNDS.pins_remembered)), "too_many_pins"),
        ((typed_pin("x" * (BOUNDS.pins_chars - 3), 1),), "pins_too_long"),
    ],
)
def test_at_a_bound_nothing_goes(pins: tuple[Pin, ...], code: str) -> None:
    """A person's pin is never taken away in silence: the next one is refused, in words and by the reducer."""
    before = check_events(*(PinAdded(pin) for pin in pins))
    assert before.facts.pins == pins and not before.facts.anomalies
    problem = refusal(before.facts, TYPED)
    assert problem is not None and (problem.report.code, bool(problem.report.hint)) == (code, True)
    check_refused(before, TOLD)
    assert refusal(check_events(*(PinAdded(pin) for pin in pins), PinRemoved(pins[0].pin_id)).facts, TYPED) is None


# --- when the model is told ---


@pytest.mark.parametrize(
    ("events", "ids"),
    [
        ((TOLD,), ["pin7/p"]),
        ((*started(), TOLD), ["t1/u", "pin7/p"]),
        ((*started(), step(), TOLD), ["t1/u"]),
        ((*started(), step(), TOLD, answer()), ["t1/u", "t1/1/a", "pin7/p"]),
        ((*started(), step(), TOLD, answer(1, CALL)), ["t1/u", "t1/1/a"]),
        ((*IN_TOOLS, TOLD), ["t1/u", "t1/1/a"]),
        ((*IN_TOOLS, TOLD, result(CALL)), ["t1/u", "t1/1/a", f"{CALL}/r", "pin7/p"]),
        ((*started(), step(), TOLD, ended(stop=Stop.FAILED)), ["t1/u", "pin7/p"]),
        ((*started(), step(), TOLD, SessionForked(Parent("s", 3))), ["t1/u", "pin7/p"]),
        ((*started(), step(), TOLD, PinRemoved("pin7"), answer()), ["t1/u", "t1/1/a"]),
        ((*started(), PinAdded(Pin("t1/u", "do it", Role.USER, 1))), ["t1/u"]),
    ],
)
def test_it_is_told_between_a_request_and_the_next(events: tuple[Event, ...], ids: list[str]) -> None:
    """Never between a request and its answer, nor between a call and its result; what is in view is not told."""
    assert shown(check_events(*events)) == ids


def test_telling_breaks_no_measure() -> None:
    """What a provider measured of a request holds although something was pinned meanwhile."""
    facts = check_events(*started(), step(), TOLD, answer()).facts
    assert facts.baseline is not None and (facts.baseline.length, facts.pins_untold) == (2, ())


def test_the_note_says_whose_words_they_are() -> None:
    assert pin_note(TYPED).origin == ORIGIN
    assert pin_note(TYPED).text == "The person pinned this, to be kept in view:\nNever touch prod."
    assert ", from a tool's output:" in pin_note(replace(TYPED, role=Role.TOOL)).text


def test_what_was_pinned_already_and_what_never_was() -> None:
    check_refused(check_events(), PinRemoved("pin7"))
    check_refused(check_events(TOLD), TOLD)
