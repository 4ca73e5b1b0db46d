"""Leaving items out and taking them back: the reducer's half, and what the turn machine records with a step."""

from __future__ import annotations

import pytest
from tests.context.histories import COUNTER, Log

from ullage.context.leaving import Left, Named, leave_out, take_back
from ullage.core.commands import Append, CallProvider, Command
from ullage.core.context import Omission, OmissionReason
from ullage.core.errors import BadInput
from ullage.core.events import ItemsOmitted, ItemsRestored, PinAdded, StepStarted, TokensRecounted
from ullage.core.messages import Text, ToolCall
from ullage.core.omission import message_units, omission, whole_items
from ullage.core.pins import message_pin, typed_pin
from ullage.core.reduce import fold
from ullage.core.state import HandoffItem, MessageItem, OmissionItem
from ullage.testing import playbook as book

GONE = Omission(((4, 5),), OmissionReason.SNIP, 20, 3)


def history() -> Log:
    """Two turns of two tool calls each; the tool turns are (4, 5), (7, 8), (14, 15), (17, 18)."""
    log = Log()
    for turn in range(2):
        log.prompt(f"do {turn}").read("a.py").read("b.py").answer(Text("done")).end()
    return log


def out(log: Log, *units: tuple[int, ...], reason: OmissionReason = OmissionReason.SNIP) -> Log:
    tokens = sum(item.tokens for item in said(log) if any(item.seq in unit for unit in units))
    return log.add(ItemsOmitted(Omission(units, reason, tokens, 7)))


def said(log: Log) -> list[MessageItem]:
    return [item for item in log.state.items if isinstance(item, MessageItem)]


def shape(log: Log) -> list[object]:
    return ["…" if isinstance(item, OmissionItem) else item.seq for item in log.state.items]


def test_there_is_one_item_at_the_first_place() -> None:
    """W-B2: it moves only where an earlier unit goes."""
    log, all_of_it = history(), history().state.tokens
    assert shape(log) == [2, 4, 5, 7, 8, 10, 13, 15, 16, 18, 19, 21]
    assert shape(out(log, (15, 16))) == [2, 4, 5, 7, 8, 10, 13, "…", 18, 19, 21]
    assert shape(out(log, (18, 19))) == [2, 4, 5, 7, 8, 10, 13, "…", 21]
    assert shape(out(log, (4, 5))) == [2, "…", 7, 8, 10, 13, 21]
    left = omission(log.state.items)
    assert left is not None and [each.item.seq for each in left.left_out] == [4, 5, 15, 16, 18, 19]
    assert log.state.tokens == all_of_it + 7 - sum(each.item.tokens for each in left.left_out)
    log.add(ItemsRestored(((15, 16), (4, 5))))
    assert shape(log) == [2, 4, 5, 7, 8, 10, 13, 15, 16, "…", 21]
    log.add(ItemsRestored(((18, 19),)))
    assert log.state.items == history().state.items and log.state.tokens == all_of_it


def test_it_is_a_revision_and_drops_the_measure() -> None:
    log = history()
    for event in (ItemsOmitted(GONE), ItemsRestored(GONE.units)):
        log.add(event)
        assert (log.state.facts.revision, log.state.facts.baseline) == (log.state.facts.last_seq, None)


def test_a_recount_reaches_what_is_left_out() -> None:
    log = out(history(), (4, 5))
    [first, *_] = omission(log.state.items).left_out  # type: ignore[union-attr]
    log.add(TokensRecounted("other", ((first.item.message.message_id, 99),)))
    log.add(ItemsRestored(((4, 5),)))
    [again] = [item for item in said(log) if item.seq == 4]
    assert (again.tokens, again.encoding) == (99, "other")


def test_a_note_that_tells_a_pin_stays() -> None:
    """It has the seq of what let it in, here of a result that goes."""
    log = Log().prompt("do").answer(ToolCall("c", "read", "{}"))
    log.add(PinAdded(typed_pin("a rule", len(log.entries)), 9, "x")).result("c")
    result = log.state.facts.last_seq
    log.answer(Text("done")).end()
    before = list(log.state.items)
    [unit] = [unit for unit in message_units(log.state.items) if unit[0].message.calls]
    assert [item.seq for item in log.state.items].count(result) == 2
    out(log, tuple(item.seq for item in unit))
    assert "a rule" in repr(log.state.items[2]) and shape(log)[1] == "…"
    assert [item.seq for item in whole_items(log.state.items)] == [item.seq for item in before]
    log.add(ItemsRestored((tuple(item.seq for item in unit),)))
    assert list(log.state.items) == before


@pytest.mark.parametrize("kept", [True, False], ids=["with the handoff", "without it, as a rewind leaves it"])
def test_a_handoff_between_changes_no_order(kept: bool) -> None:
    log = Log().prompt("do").read("a.py").handoff("{}").read("b.py").read("c.py")
    before = log.state.items
    first, second, _ = [tuple(i.seq for i in unit) for unit in message_units(before) if unit[0].message.calls]
    for units in ((first,), (second,), (first, second)):
        trial = Log()
        trial.entries, trial.state = list(log.entries), log.state
        out(trial, *units)
        items = [item for item in trial.state.items if kept or not isinstance(item, HandoffItem)]
        expected = [item.seq for item in before if kept or not isinstance(item, HandoffItem)]
        assert [item.seq for item in whole_items(items)] == expected


# --- the machine ---


def records(commands: tuple[Command, ...]) -> list[type]:
    return [type(event) for command in commands if isinstance(command, Append) for event in command.events]


def test_what_a_step_leaves_out_stands_in_its_batch() -> None:
    """W-B8: together with the step, or not at all."""
    stage = book.Stage()
    stage.send(book.prompt("t1"))
    commands = stage.send(book.proceed(GONE))
    assert records(commands) == [ItemsOmitted, StepStarted] and len(commands) == 2
    assert isinstance(commands[1], CallProvider)


# --- asked ---


def leave(log: Log, *ids: str, seqs: tuple[int, ...] = ()) -> Left:
    left = leave_out(log.state, Named(ids, seqs), COUNTER)
    if left.event:
        log.add(left.event)
    return left


def test_a_whole_unit_goes_and_comes_back() -> None:
    log = history()
    before = log.state
    left = leave(log, "t1/1/a")
    assert left.message_ids == ("t1/1/a", "t1/1/rc3") and shape(log)[1] == "…"
    assert left.tokens == before.tokens + omission(log.state.items).tokens - log.state.tokens  # type: ignore[union-attr]
    assert leave(log, seqs=(5,)) == left and leave(log, "t1/1/rc3").event is None
    back = take_back(log.state, Named(["t1/1/rc3"]))
    assert back == left and back.event is not None
    log.add(back.event)
    assert log.state.items == before.items
    assert take_back(log.state, Named(["t1/1/rc3"])).event is None


def test_what_was_pruned_is_asked_from_then_on() -> None:
    """A person's will counts: no summary tells it."""
    log = out(history(), (4, 5))
    tokens = log.state.tokens
    left = leave(log, "t1/1/a")
    assert isinstance(left.event, ItemsOmitted) and left.event.omission.tokens == 0 and log.state.tokens == tokens
    found = omission(log.state.items)
    assert found is not None and {each.reason for each in found.left_out} == {OmissionReason.ASKED}
    assert [item.seq for item in whole_items(log.state.items, asked=False)] == [2, 7, 8, 10, 13, 15, 16, 18, 19, 21]


REFUSED = {
    "nobody said it": (("t9/u",), "not_in_view"),
    "one of them": (("t1/1/a", "t9/u"), "not_in_view"),
    "nothing": ((), "not_in_view"),
    "the request of the open turn": (("t23/u",), "active_task"),
    "its work": (("t23/1/a",), "active_task"),
    "what was steered into it": (("t28/u",), "active_task"),
    "a pinned one": (("t1/1/a",), "pinned"),
}


@pytest.mark.parametrize(("ids", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_can_not_be_left_out(ids: tuple[str, ...], code: str) -> None:
    log = history().prompt("now").read("c.py").steer("rather this")
    if code == "pinned":
        log.add(PinAdded(message_pin(said(log)[2].message, 5)))
    with pytest.raises(BadInput) as caught:
        leave(log, *ids)
    assert (caught.value.report.code, bool(caught.value.report.hint)) == (code, True)


def test_the_fold_is_the_state() -> None:
    log = out(history(), (4, 5), (15, 16))
    assert fold(log.entries) == log.state
