"""Pins and compaction: kept to the letter within their share, mandatory for the gate, and never standing twice."""

from __future__ import annotations

import random

import pytest
from tests.context.histories import COUNTER, Log, hard_messages, kept
from tests.context.test_compaction import (
    FIXED,
    check_code,
    check_compacts,
    compact,
    plan_of,
    planned,
    tail_text,
)

from ullage.context import Conversation, conversation_of
from ullage.context.compaction import Accepted, gate
from ullage.context.ledger import HEADINGS
from ullage.context.limits import BOUNDS
from ullage.context.occupancy import budget
from ullage.context.pinning import find_message, pinning, search_message
from ullage.context.profiles.ullage import ULLAGE
from ullage.context.replacement import fitted_pins, head_blocks, pins_tokens, read_head
from ullage.context.request import render
from ullage.core.context import Omission, OmissionReason, Pin, Reason, Replacement
from ullage.core.errors import BadInput, ErrorReport
from ullage.core.events import ItemsOmitted, PinRemoved
from ullage.core.exact import RECORD_MARK
from ullage.core.messages import Message, Role, Text, ToolCall, ToolResult
from ullage.core.omission import message_units
from ullage.core.pins import ORIGIN, message_pin, typed_pin
from ullage.core.reduce import replacement_items
from ullage.core.requests import Request
from ullage.core.state import MessageItem
from ullage.testing.rewinding import going
from ullage.testing.validator import problems

RULE = "Never touch   the `prod` database.\n• Not even\n    to look."


def pin_text(log: Log, text: str) -> Pin:
    return pin(log, typed_pin(text, len(log.entries)))


def pin_newest(log: Log) -> Pin:
    """A pin of the newest message."""
    item = log.state.items[-1]
    assert isinstance(item, MessageItem)
    return pin(log, message_pin(item.message, item.seq))


def pin(log: Log, wanted: Pin) -> Pin:
    made, event = pinning(log.state, wanted, COUNTER)
    if event is not None:
        log.add(event)
    return made


def long(window: int = 64_000, turns: int = 12) -> Log:
    """So many turns, each of about 2,400 tokens."""
    log = Log(budget(window, "test"))
    for number in range(turns):
        work(log, number)
    return log


def work(log: Log, number: int) -> None:
    log.prompt(f"(wish {number})").read(f"a{number}.py", 9_000).answer(Text(f"(done {number})")).end()


def shown(log: Log) -> str:
    """Everything that the next request says."""
    messages, _ = render(log.state.items, "m")
    return "\n".join(block.text for message in messages for block in message.blocks if hasattr(block, "text"))


# --- asking for a pin ---


def test_what_is_in_view_costs_nothing() -> None:
    log = long(turns=2)
    before = log.state.tokens
    pin_newest(log)
    assert log.state.tokens == before and len(log.state.facts.pins) == 1
    pin_text(log, RULE)
    assert log.state.tokens > before and shown(log).count(RULE) == 1
    n_events, [message, typed] = len(log.entries), log.state.facts.pins
    assert (pin_text(log, RULE), pin(log, message)) == (typed, message) and len(log.entries) == n_events


def test_a_message_that_is_no_longer_in_view_is_told() -> None:
    log = long()
    log.prompt("now").read("b.py", 40_000)
    first = search_message(log.entries, "t9/u")
    check_compacts(log, Reason.MANUAL)
    answer = search_message(log.entries, "t1/2/a")
    assert first is not None and answer is not None and answer[1] < first[1]
    assert find_message(log.state, answer[0].message_id) is None
    pin(log, message_pin(*answer))
    assert "The person pinned this, to be kept in view, from an answer:\n(done 0)" in shown(log)
    tokens = log.state.tokens
    pin(log, message_pin(*first))  # it stands among the words, verbatim
    assert log.state.tokens == tokens and shown(log).count("(wish 1)") == 1


def test_what_is_left_out_is_not_in_view() -> None:
    """A message that was pruned before it is pinned is told; one that is pinned before is not pruned."""
    log = long(turns=2)
    [unit, *_] = [unit for unit in message_units(log.state.items) if unit[0].message.calls]
    log.add(ItemsOmitted(Omission((tuple(item.seq for item in unit),), OmissionReason.MICRO, 100, 20)))
    assert "a0.py" not in shown(log)
    pin(log, message_pin(unit[-1].message, unit[-1].seq))
    assert shown(log).count("The person pinned this, to be kept in view, from a tool's output:\na0.py") == 1


def test_a_prompt_is_said_once_its_turn_took_it() -> None:
    log = Log()
    log._queue("t9", "queue", (Text("waits"),))  # type: ignore[arg-type]
    assert search_message(log.entries, "t9/u") is None and search_message(log.entries, "nobody") is None


def test_what_was_taken_back_is_not_pinned_until_it_is_redone() -> None:
    """Else a rewind or a redo after it would take the pin away, which only the person may."""
    log = Log().prompt("first").answer(Text("one")).end()
    second = len(log.entries)
    log.prompt("second").answer(Text("two")).end()
    said = {"t1/u": True, "t1/1/a": True, f"t{second}/u": False, f"t{second}/1/a": False}
    log.add(going(log.entries, f"t{second}"))
    assert {name: search_message(log.entries, name) is not None for name in said} == said
    log.add(going(log.entries, None))
    assert all(search_message(log.entries, name) for name in said)


# --- rewinds ---


def test_a_pin_that_a_compaction_shortened_is_not_told_again() -> None:
    """It stands in the head that comes back, as the compaction left it."""
    log = Log(budget(16_000, "test")).prompt("hello").answer(Text("x" * 20_000)).end()
    pin_newest(log)
    for number in range(8):
        log.prompt(f"(wish {number})").answer(Text("(done) " * 200)).end()
    [old] = check_compacts(log, Reason.MANUAL).pins
    assert len(old.text) < 20_000
    later = f"t{len(log.entries)}"
    log.prompt("later").answer(Text("on")).end()
    check_compacts(log, Reason.MANUAL)
    log.add(going(log.entries, later))
    assert not [item for item in log.state.items if isinstance(item, MessageItem) and item.message.origin == ORIGIN]


def test_a_note_behind_what_is_shortened_is_in_view() -> None:
    """A pinned message that the tail has a part of is told by its note alone, however often the session goes back."""
    log = Log(budget(16_000, "test")).prompt("look").tool("grep", "{}", "x = 1\n" * 5_000)
    whole = log.state.items[-1]
    assert isinstance(whole, MessageItem)
    log.answer(Text("On.")).end()
    replacement = check_compacts(log, Reason.MANUAL)
    [piece] = [piece for piece in replacement.tail if piece.message.message_id == whole.message.message_id]
    assert piece.message != whole.message
    pin(log, message_pin(whole.message, whole.seq))
    later = f"t{len(log.entries)}"
    log.prompt("later").answer(Text("on")).end()
    log.add(going(log.entries, later))
    notes = [item for item in log.state.items if isinstance(item, MessageItem) and item.message.origin == ORIGIN]
    assert len(notes) == 1


# --- what a compaction keeps ---


def test_pins_are_kept_to_the_letter_and_stand_once() -> None:
    """T075, W-A12 for pins: a text, a word, an answer and an output, over five compactions, wherever they stand."""
    log = long(turns=3)
    second = log.state.items[4]
    assert isinstance(second, MessageItem)
    pin(log, message_pin(second.message, second.seq))
    pin_newest(log)
    log.prompt("look").tool("grep", "{}", "port = 54329\n" + "x" * 80)
    pin_newest(log)
    log.answer(Text("seen")).end()
    pin_text(log, RULE)
    for number in range(5):
        for turn in range(12):
            work(log, 100 * number + turn + 10)
        replacement = check_compacts(log, Reason.MANUAL)
        said = shown(log)
        moved = RULE.replace("\n•", "\n •")
        assert [said.count(text) for text in ("(wish 1)", "(done 2)", "port = 54329", moved)] == [1] * 4
        roles = [one.role for one in replacement.pins]
        assert number == 0 or roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]


def test_a_pin_whose_message_the_tail_keeps_is_in_view_there() -> None:
    log = long()
    pin_newest(log)
    replacement = check_compacts(log, Reason.MANUAL)
    assert "(done 11)" in tail_text(replacement) and not replacement.pins
    for number in range(20, 40):
        work(log, number)
    assert [one.text for one in check_compacts(log, Reason.MANUAL).pins] == ["(done 11)"]


def test_what_the_tail_holds_a_part_of_points_to_its_pin() -> None:
    """What is pinned of a huge newest unit stands in its block and nowhere else; the unit keeps its calls."""
    log = long()
    log.prompt("look").tool("grep", "{}", "x = 1\n" * 10_000)
    one = pin_newest(log)
    log.answer(Text("On.")).end()
    replacement = check_compacts(log, Reason.MANUAL)
    assert [each.pin_id for each in replacement.pins] == [one.pin_id]
    [piece] = [piece for piece in replacement.tail if piece.message.message_id == one.pin_id]
    assert piece.message.results[0].text == "(Pinned: it stands above.)" and "x = 1" not in tail_text(replacement)


def test_a_pin_of_the_active_task_stands_there() -> None:
    log = long()
    log.prompt("the task.")
    pin_newest(log)
    log.read("b.py", 40_000)
    replacement = check_compacts(log, Reason.MANUAL)
    assert [word.text for word in replacement.task] == ["the task."] and not replacement.pins
    assert shown(log).count("the task.") == 1


def test_what_tells_a_pin_is_carried_over_or_goes() -> None:
    """Pinned while a compaction is under way, it stands in what is carried over; later in its block alone."""
    log = long()
    made = planned(log, Reason.MANUAL)
    pin_text(log, RULE)
    replacement = compact(log, made)
    assert not replacement.pins and [piece.message.origin for piece in replacement.tail].count(ORIGIN) == 1
    log.checkpoint(replacement, made.source_seq)
    for number in range(20, 32):
        work(log, number)
    after = check_compacts(log, Reason.MANUAL)
    assert [one.text for one in after.pins] == [RULE]
    assert ORIGIN not in [piece.message.origin for piece in after.tail]


@pytest.mark.parametrize("typed", [True, False])
def test_what_is_unpinned_goes_with_the_next_compaction(typed: bool) -> None:
    """A text they only typed goes; what they said is a word of theirs again."""
    log = Log(budget(64_000, "test")).prompt(RULE if not typed else "hello")
    made = pin_text(log, RULE) if typed else pin_newest(log)
    log.answer(Text("yes")).end()
    for number in range(12):
        work(log, number)
    assert check_compacts(log, Reason.MANUAL).pins == (made,)
    log.add(PinRemoved(made.pin_id))
    for number in range(12, 24):
        work(log, number)
    replacement = check_compacts(log, Reason.MANUAL)
    assert not replacement.pins
    assert (RULE in [word.text for word in replacement.words]) is not typed
    assert ("Not even" in shown(log)) is not typed


def test_a_models_copy_of_a_pin_goes() -> None:
    log = long()
    pin_text(log, "Never touch prod.")
    for number in range(20, 32):
        work(log, number)
    summary = "\n".join(f"## {heading}\n- Never  touch prod.\n- other {heading}" for heading in HEADINGS)
    made = planned(log, Reason.MANUAL)
    replacement = compact(log, made, summary=summary)
    assert "other" in replacement.ledger and "touch" not in replacement.ledger
    assert [one.text for one in replacement.pins] == ["Never touch prod."]


# --- their share, and the gate ---


def pinned(*texts: str) -> tuple[Pin, ...]:
    return tuple(typed_pin(text, number) for number, text in enumerate(texts))


def test_the_longest_are_shortened_first() -> None:
    """Design 6.9: what exceeds the share becomes head, tail and a reference; none goes, and the short ones stay."""
    pins = pinned("short rule", "A" + "a" * 9_000 + "Z", "B" + "b" * 20_000 + "Y")
    assert fitted_pins(pins, pins_tokens(pins, COUNTER), COUNTER) == pins
    fitted = fitted_pins(pins, 1_500, COUNTER)
    assert pins_tokens(fitted, COUNTER) <= 1_500 and [one.pin_id for one in fitted] == [one.pin_id for one in pins]
    assert fitted[0] == pins[0]
    for one, (head, tail) in zip(fitted[1:], ("AZ", "BY"), strict=True):
        assert (one.text[0], one.text[-1]) == (head, tail)
        assert f"characters left out; `recall` finds them; {one.pin_id}" in one.text
    least = fitted_pins(pins, 0, COUNTER)
    assert all(
        min(len(old.text), BOUNDS.pin_least) <= len(one.text) < 400 for old, one in zip(pins, least, strict=True)
    )


def test_pins_larger_than_their_share() -> None:
    log = long(turns=24)
    pin_text(log, "P" + "p" * 60_000 + "Q")
    for number in range(24, 30):
        work(log, number)
    made = planned(log, Reason.MANUAL)
    replacement = check_compacts(log, Reason.MANUAL)
    [one] = replacement.pins
    share = made.target * ULLAGE.shares.pins // 100
    assert share // 2 < pins_tokens([one], COUNTER) <= share
    assert (one.text[0], one.text[-1]) == ("P", "Q") and one.pin_id in one.text


def test_pins_raise_the_target_like_records() -> None:
    """Design 6.10: the result may be as large as what is mandatory, pins within their share included."""
    log = Log(budget(200_000, "test")).prompt("task " + "t" * 80_000)
    for number in range(12):
        log.read(f"a{number}.py", 9_000)
    without = planned(log).target
    pin_text(log, "p" * 6_000)
    for _ in range(2):
        log.read("b.py", 9_000)
    raised = planned(log).target
    assert raised - without >= pins_tokens(log.state.facts.pins, COUNTER)
    made = planned(log)
    replacement = compact(log, made)
    assert isinstance(gate(made, log.state, replacement, FIXED.tokens, log.budget), Accepted)
    assert [one.text for one in replacement.pins] == ["p" * 6_000]


def test_pins_that_leave_no_room() -> None:
    """Design 6.10: cut to the least they still take more than there is, and the error names them in tokens."""
    log = long(8_192, 4)
    for number in range(60):
        pin_text(log, f"{number} " + "r" * 900)
    for number in range(10, 14):
        work(log, number)
    made = plan_of(log, Reason.MANUAL)
    check_code(made, "mandatory_too_large")
    assert isinstance(made, ErrorReport) and "pinned" in made.message and "pins" in made.hint
    figures = dict(made.data)
    assert 0 < int(figures["pins"]) < int(figures["mandatory"])


def test_hard_histories_with_pins() -> None:
    """Whatever the history, the request after a compaction with pins is valid, and each pin stands in it."""
    for seed in range(150):
        rng = random.Random(seed)
        log = Log().prompt("go")
        messages = hard_messages(rng, sound=True)
        tail = kept(messages)
        log.checkpoint(Replacement("ledger", (), (), (), "fence", tail, 10))
        for message in messages:
            text = message.text if message.role is not Role.TOOL else message.results[0].text
            if text.strip() and rng.random() < 0.5:
                pin(log, message_pin(message, 0))
        pin_text(log, RULE)
        made = plan_of(log, Reason.MANUAL, most=400)
        if isinstance(made, ErrorReport):
            continue
        replacement = compact(log, made)
        items = replacement_items(0, replacement)
        blocks, _ = render(items, "m")
        log.checkpoint(replacement)
        held = {one.pin_id for one in replacement.pins} | {piece.message.message_id for piece in replacement.tail}
        assert {one.pin_id for one in log.state.facts.pins} <= held
        assert problems(Request("m", "", (), tuple(blocks), 100, 100)) == []


# --- read back from messages ---


def test_pins_are_read_back_from_a_head() -> None:
    pins = (*pinned(RULE, "Note: one", "Note: two"), Pin("t1/r", "port = 54329", Role.TOOL, 3))
    head = read_head([block.text for block in head_blocks(Replacement("", (), (), (), "", (), 0, pins=pins))])
    assert head is not None and head[1] == 2
    assert [(one.text, one.role, one.typed) for one in head[0].pins] == [
        *((one.text, Role.USER, True) for one in pins[:3]),
        ("port = 54329", Role.ASSISTANT, True),
    ]


# --- without a server ---


def talked(talk: Conversation, turns: int) -> Conversation:
    for number in range(turns):
        talk.say(f"wish {number}")
        talk.add(Message("", Role.ASSISTANT, (Text(f"look {number} " + "x" * 4_000),), ""))
    return talk


def test_a_conversation_pins() -> None:
    talk = talked(Conversation(COUNTER, window=64_000), 2)
    rule = talk.pin(RULE)
    assert talk.pin(RULE) == rule and talk.pin_message("t1/u") == "t1/u"
    assert str(talk.request().messages).count("Not even") == 1
    talked(talk, 12)
    assert [one.pin_id for one in talk.compact().replacement.pins] == [rule, "t1/u"]
    talk.unpin(rule)
    talk.unpin("nobody")
    assert [one.pin_id for one in talk.state.facts.pins] == ["t1/u"] and not talk.state.facts.anomalies
    with pytest.raises(BadInput) as caught:
        talk.pin_message("nobody")
    assert caught.value.report.code == "unknown_message"


def test_a_pin_ends_no_turn_and_opens_none() -> None:
    """A rule pinned between two turns is not what the next prompt steers."""
    talk = talked(Conversation(COUNTER), 1)
    talk.pin(RULE)
    talk.say("next")
    assert talk.state.facts.open_turn is not None
    assert [message.text for message in talk.state.facts.open_turn.task] == ["next"]


def test_pinned_while_a_call_is_open() -> None:
    talk = Conversation(COUNTER)
    talk.say("go")
    before = talk.request()
    talk.add(Message("", Role.ASSISTANT, (ToolCall("a", "read", "{}"),), ""))
    talk.pin(RULE)
    talk.add(Message("", Role.TOOL, (ToolResult("a", "out"),), ""))
    after = talk.request()
    assert after.messages[: len(before.messages)] == before.messages
    assert str(after.messages[-1]).count("Not even") == 1 and problems(after) == []


def test_what_an_earlier_compaction_left_is_exact_again() -> None:
    """Records and pins of given messages are facts: any number of further compactions keeps them to the letter."""
    talk = talked(Conversation(COUNTER, window=64_000), 3)
    talk.say(f"{RECORD_MARK} [{HEADINGS[0]}] :: make  deploy")
    talk.pin(RULE)
    for number in range(3):
        talked(talk, 14)
        compacted = talk.compact()
        assert [one.payload for one in compacted.replacement.records] == ["make  deploy"], number
        assert [one.text for one in compacted.replacement.pins] == [RULE], number
        request = talk.request()
        said = [Message("", message.role, message.blocks, "") for message in request.messages]
        talk = conversation_of(said, COUNTER, window=64_000)
        assert [one.payload for one in talk.state.facts.records] == ["make  deploy"]
        assert [one.text for one in talk.state.facts.pins] == [RULE]
