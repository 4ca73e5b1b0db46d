"""Rewind and redo: where they may go, what goes and what stays, and that folding needs nothing but the events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.core.walk import walk

from ullage.core.context import ExactRecord, Kept, Omission, OmissionReason, Reason
from ullage.core.errors import BadInput
from ullage.core.events import (
    CheckpointCommitted,
    Entry,
    Event,
    HandoffRecorded,
    ItemsOmitted,
    PinAdded,
    SessionConfigured,
    SessionRedone,
    SessionRenamed,
    SessionRewound,
)
from ullage.core.inputs import CancelAsked, CompactAsked, RedoAsked, RewindAsked
from ullage.core.messages import Op, Opaque, Reasoning, Text, ToolFacts
from ullage.core.omission import message_units, whole_items
from ullage.core.pins import ORIGIN, message_pin, typed_pin
from ullage.core.reduce import fold, reduce, resume
from ullage.core.rewinding import goal, rewound, standing
from ullage.core.state import Breaker, HandoffItem, Item, MessageItem, ReplacementItem, State, changed
from ullage.core.turn_state import TurnState
from ullage.core.views import ShownAnswer, ShownPrompt, ShownResult, ShownTurnStart, export_view
from ullage.testing import playbook as book


def session(*turns: str) -> book.Stage:
    """A session in which these turns were had: each asks for a tool once."""
    stage = book.Stage()
    for turn in turns:
        take(stage, turn)
    return stage


def take(stage: book.Stage, turn: str, op: Op = Op.READ) -> None:
    """A whole turn with a tool call that touches `<turn>.py` and runs `make <turn>`."""
    stage.send(book.prompt(turn))
    stage.send(book.proceed())
    stage.send(book.asks("bash"))
    call = f"{turn}/1/c0"
    stage.send(book.allowed(call))
    stage.send(book.finished(call, facts=ToolFacts(op, (f"{turn}.py",), f"make {turn}", 1, f"{turn} failed")))
    stage.send(book.proceed())
    stage.send(book.answer(Text(f"EXACT CONTINUATION RECORD [Exact next action] :: after {turn}")))


def compact(stage: book.Stage, tail: int = 0) -> None:
    """A checkpoint that keeps so many messages."""
    said = [item for item in stage.state.items if isinstance(item, MessageItem)]
    kept = said[len(said) - tail :]
    made = replace(book.replacement(), tail=tuple(Kept(i.seq, i.message, i.tokens) for i in kept))
    of = book.plan(stage.state, Reason.MANUAL)
    stage.record(book.checkpoint(stage.state, of, made, book.report(of)))


def leave_out(stage: book.Stage) -> None:
    """The first message, by a person's will."""
    unit = next(message_units(stage.state.items))
    stage.record(ItemsOmitted(Omission((tuple(item.seq for item in unit),), OmissionReason.ASKED, 1, 1)))


def rewind(stage: book.Stage, name: str) -> None:
    assert book.describe(stage.send(RewindAsked("r", name))[0]) == f"rewind r {name}"
    assert isinstance(stage.entries[-1].event, SessionRewound)


def redo(stage: book.Stage) -> None:
    stage.send(RedoAsked("r"))
    assert isinstance(stage.entries[-1].event, SessionRedone)


def turns_in(state: State) -> list[str]:
    return list(dict.fromkeys(item.message.turn_id for item in state.items if isinstance(item, MessageItem)))


def bare(items: Iterator[Item] | list[Item]) -> list[Item]:
    """Items without sums, handoffs and what tells pins."""
    told = (item for item in items if not isinstance(item, MessageItem) or item.message.origin != ORIGIN)
    return [replace(item, upto=0) for item in told if not isinstance(item, HandoffItem)]


# --- what goes ---


def test_a_rewind_takes_back_the_turn_and_all_behind_it() -> None:
    stage = session("t1", "t2", "t3")
    before = fold(entry for entry in stage.entries if entry.seq < start_of(stage, "t2"))
    rewind(stage, "t2")
    assert turns_in(stage.state) == ["t1"]
    assert list(stage.state.items) == list(before.items)
    take(stage, "t4")
    assert turns_in(stage.state) == ["t1", "t4"]
    assert not stage.state.facts.anomalies


def start_of(stage: book.Stage, turn: str) -> int:
    [seq] = [shown.seq for shown in export_view(stage.entries) if shown.what == ShownTurnStart(turn)]
    return seq


def test_facts_of_what_was_said_go_and_facts_of_what_happened_stay() -> None:
    """T037 and the design's last word on rewinds: records, commands, errors and outputs go; files and money stay."""
    stage = session("t1")
    then = stage.state.facts
    take(stage, "t2")
    stage.record(SessionConfigured(permission_mode="auto"))
    was = stage.state.facts
    rewind(stage, "t2")
    facts = stage.state.facts
    for name in ("records", "commands", "newest_error", "outputs", "epoch"):
        assert getattr(facts, name) == getattr(then, name), name
    assert facts.records == (ExactRecord("Exact next action", "after t1"),)
    stays = "files ended_turns turn_totals summary_totals ratios config queue held title turns steps last_call_at"
    for name in stays.split():
        assert getattr(facts, name) == getattr(was, name), name
    assert (facts.revision, facts.redoable) == (facts.last_seq, facts.last_seq)
    assert (facts.baseline, facts.sent, facts.open_turn) == (None, None, None)


def test_the_guards_are_released_and_the_breaker_counts_no_growth() -> None:
    """A person's rewind is no loop; what it removes is no growth, or a shorter context would open the breaker late."""
    stage = session("t1", "t2")
    failing = changed(stage.state.facts, attempts=2, attempt_size=9, overflow_spent=True, breaker=Breaker(3, 7, 500))
    to = goal(export_view(stage.entries), "t2")
    now, then = State(failing, stage.state.items), fold(entry for entry in stage.entries if entry.seq < to.before)
    after = reduce(now, Entry(99, 0, rewound(now, then, to))).facts
    assert (after.attempts, after.attempt_size, after.overflow_spent) == (0, 0, False)
    assert after.breaker == Breaker(3, 7, 500 - (now.tokens - then.tokens))


@pytest.mark.parametrize(
    ("events", "target", "title"),
    [
        ([], "t1", ""),
        ([SessionRenamed("mine")], "t1", "mine"),
        ([SessionRenamed("")], "t2", ""),
        ([], "t2", "do it"),
    ],
)
def test_a_title_made_from_a_prompt_goes_with_it(events: list[Event], target: str, title: str) -> None:
    stage = session("t1", "t2")
    for event in events:
        stage.record(event)
    named = stage.state.facts.title
    rewind(stage, target)
    assert stage.state.facts.title == title
    redo(stage)
    assert stage.state.facts.title == named


def test_a_rewind_removes_the_handoff_of_what_it_took_and_keeps_an_earlier_one() -> None:
    """T037."""
    stage = session("t1")
    stage.record(HandoffRecorded("{}", 7))
    take(stage, "t2")
    rewind(stage, "t2")
    assert stage.state.facts.handoffs == 1
    rewind(stage, "t1")
    assert stage.state.facts.handoffs == 0


def test_no_rewind_holds_a_handoff() -> None:
    """A fork copies rewinds and no handoffs: text of one would get out with the other."""
    stage = session("t1")
    stage.record(HandoffRecorded("{}", 7))
    take(stage, "t2")
    compact(stage)
    rewind(stage, "t2")
    redo(stage)
    rewind(stage, "t2")
    events = [entry.event for entry in stage.entries if isinstance(entry.event, SessionRewound | SessionRedone)]
    assert not any(isinstance(item, HandoffItem) for event in events for item in event.items)
    assert stage.state.facts.handoffs == 0
    assert turns_in(stage.state) == ["t1"]


# --- over compactions ---


@pytest.mark.parametrize("tail", [0, 3])
def test_before_a_compaction_the_context_of_then_is_back(tail: int) -> None:
    """W-C2, design section 4: the checkpoint in force at the target is in force again, or none is."""
    stage = session("t1", "t2")
    whole = list(stage.state.items)
    compact(stage, tail)
    first = stage.state
    take(stage, "t3")
    compact(stage, tail)
    take(stage, "t4")
    rewind(stage, "t3")
    assert bare(list(stage.state.items)) == bare(list(first.items))
    assert stage.state.facts.epoch == first.facts.epoch
    rewind(stage, "t2")
    assert bare(list(stage.state.items)) == bare([item for item in whole if item.seq < start_of(stage, "t2")])
    assert stage.state.facts.epoch == -1
    redo(stage)
    assert bare(list(stage.state.items)) == bare(list(first.items))
    assert not stage.state.facts.anomalies


def test_a_compaction_after_a_rewind_opens_an_epoch_behind_the_one_in_force() -> None:
    stage = session("t1")
    compact(stage)
    epoch = stage.state.facts.epoch
    take(stage, "t2")
    compact(stage)
    rewind(stage, "t2")
    take(stage, "t3")
    compact(stage)
    newest = stage.entries[-1].event
    assert isinstance(newest, CheckpointCommitted) and newest.previous_epoch == epoch
    assert isinstance(stage.state.items[0], ReplacementItem)


@pytest.mark.parametrize("compacted", [True, False])
def test_what_another_model_signed_does_not_come_back(compacted: bool) -> None:
    """The session got another model before it came back: it would not be sent, so it must not count."""
    stage = session("t1")
    stage.record(SessionConfigured(model="m1"))
    signed = Reasoning("I think.", Opaque("anthropic", "m1", '"' + "s" * 400 + '"'))
    stage.send(book.prompt("t2"))
    stage.send(book.proceed())
    stage.send(book.answer(signed, Text("so")))
    was = stage.state.tokens
    if compacted:
        compact(stage)
        take(stage, "t3")
    rewind(stage, "t3" if compacted else "t2")
    stage.record(SessionConfigured(model="m2"))
    if compacted:
        rewind(stage, "t2")
    redo(stage)
    if compacted:
        redo(stage)
    assert not any(item.message.portable("m2")[1] for item in stage.state.items if isinstance(item, MessageItem))
    assert compacted or stage.state.tokens == was - signed.tokens
    assert not stage.state.facts.anomalies


# --- redo ---


def test_a_redo_brings_back_what_was_there() -> None:
    stage = session("t1", "t2", "t3")
    was = stage.state
    rewind(stage, "t2")
    redo(stage)
    assert list(stage.state.items) == list(was.items)
    for name in ("records", "commands", "newest_error", "outputs", "epoch", "title", "redoable"):
        assert getattr(stage.state.facts, name) == getattr(was.facts, name), name
    take(stage, "t4")
    assert turns_in(stage.state) == ["t1", "t2", "t3", "t4"]


def test_rewinds_are_redone_one_after_the_other() -> None:
    stage = session("t1", "t2", "t3")
    rewind(stage, "t3")
    rewind(stage, "t2")
    rewind(stage, "t1")
    for back in (["t1"], ["t1", "t2"], ["t1", "t2", "t3"]):
        redo(stage)
        assert turns_in(stage.state) == back
    assert stage.send(RedoAsked("r"))[0] == stage.ordered[-1]
    assert book.describe(stage.ordered[-1]) == "refuse_rewind r nothing_to_redo"


@pytest.mark.parametrize(
    ("since", "possible"),
    [
        (lambda stage: stage.record(SessionRenamed("x")), True),
        (lambda stage: stage.record(SessionConfigured(model="other")), True),
        (lambda stage: take(stage, "t9"), False),
        (compact, False),
        (lambda stage: leave_out(stage), False),
    ],
)
def test_nothing_is_redone_once_something_was_said(since: Callable[[book.Stage], None], possible: bool) -> None:
    stage = session("t1", "t2")
    rewind(stage, "t2")
    since(stage)
    stage.send(RedoAsked("r"))
    assert isinstance(stage.entries[-1].event, SessionRedone) is possible
    assert ("t2" in turns_in(stage.state)) is possible


# --- where it may go ---


def steered() -> book.Stage:
    stage = session("t1")
    stage.send(book.prompt("t2"))
    stage.send(book.steer("s1"))
    stage.send(book.proceed())
    stage.send(book.asks("read"))
    stage.send(book.allowed("t2/1/c0"))
    stage.send(book.finished("t2/1/c0"))
    stage.send(book.proceed())
    stage.send(book.answer())
    return stage


@pytest.mark.parametrize(
    ("name", "code"),
    [("nobody", "unknown_turn"), ("t1/1/a", "unknown_turn"), ("s1", "inside_turn"), ("s1/u", "inside_turn")],
)
def test_what_is_no_place_to_go_back_to(name: str, code: str) -> None:
    """T128: an unknown target is a typed error."""
    with pytest.raises(BadInput) as refused:
        goal(export_view(steered().entries), name)
    assert refused.value.report.code == code
    assert refused.value.report.hint


def test_a_message_names_its_turn_and_steering_goes_along() -> None:
    stage = steered()
    to = goal(export_view(stage.entries), "t2/u")
    assert (to.turn_id, to.turns) == ("t2", ("t2", "s1"))
    rewind(stage, "t2/u")
    assert turns_in(stage.state) == ["t1"]


def test_what_was_taken_back_is_no_place_to_go_back_to() -> None:
    stage = session("t1", "t2")
    rewind(stage, "t2")
    with pytest.raises(BadInput) as refused:
        goal(export_view(stage.entries), "t2")
    assert refused.value.report.code == "already_rewound"
    take(stage, "t3")
    assert goal(export_view(stage.entries), "t1").turns == ("t1", "t3")


def test_files_written_since_are_named() -> None:
    stage = session("t1")
    for turn, op in (("t2", Op.READ), ("t3", Op.WRITE), ("t4", Op.WRITE)):
        take(stage, turn, op)
    assert goal(export_view(stage.entries), "t2").written == ("t3.py", "t4.py")
    assert goal(export_view(stage.entries), "t4").written == ("t4.py",)
    rewind(stage, "t4")
    assert goal(export_view(stage.entries), "t2").written == ("t3.py",), "what was taken back is told no second time"


def test_pins_of_messages_go_and_come_with_them_and_typed_ones_stay() -> None:
    stage = session("t1")
    for turn in ("t1", "t2"):
        if turn == "t2":
            take(stage, turn)
        newest = stage.state.items[-1]
        assert isinstance(newest, MessageItem)
        stage.record(PinAdded(message_pin(newest.message, newest.seq)))
    stage.record(PinAdded(typed_pin("a rule", len(stage.entries)), 7, "test"))
    first, second, typed = stage.state.facts.pins
    rewind(stage, "t2")
    assert stage.state.facts.pins == (first, typed)
    redo(stage)
    assert set(stage.state.facts.pins) == {first, second, typed}


def test_a_prompt_that_waits_stays() -> None:
    stage = session("t1")
    stage.send(book.prompt("t2"))
    stage.send(book.prompt("w1"))
    stage.send(CancelAsked("t2"))
    stage.send(book.Stopped())
    assert stage.turn.state is TurnState.IDLE
    rewind(stage, "t2")
    assert [waiting.turn_id for waiting in stage.state.facts.queue] == ["w1"]
    assert stage.state.facts.held


def test_while_something_runs_it_is_refused() -> None:
    stage = session("t1")
    stage.send(CompactAsked("k"))
    for ask in (RewindAsked("r", "t1"), RedoAsked("r")):
        assert [book.describe(command) for command in stage.send(ask)] == ["refuse_rewind r turn_running"]


def test_a_turn_id_that_was_taken_back_is_still_that_turn() -> None:
    """A late repetition of its request runs nothing."""
    stage = session("t1", "t2")
    rewind(stage, "t2")
    assert [book.describe(command) for command in stage.send(book.prompt("t2"))] == ["reply_turn t2 done"]


# --- random sessions ---


def test_random_sessions_have_what_the_transcript_shows() -> None:
    """The model sees every message that a client shows since the checkpoint in force, and no other one; every prefix
    with a rewind folds from any checkpoint to the same."""
    n_rewinds = n_over = n_redone = 0
    for seed in range(300):
        log = walk(70_000 + seed, n_steps=80).entries
        whole = fold(log)
        for index, entry in enumerate(log):
            if isinstance(entry.event, CheckpointCommitted):
                assert fold(log[index + 1 :], resume(entry)) == whole
            if isinstance(entry.event, SessionRewound | SessionRedone):
                n_rewinds += 1
                n_over += bool(entry.event.items) and not entry.event.cut
                n_redone += isinstance(entry.event, SessionRedone)
                check_view(log[: index + 1])
        check_view(log)
    assert n_rewinds > 80
    assert n_over > 20
    assert n_redone > 10


def check_view(log: list[Entry]) -> None:
    state, shown = fold(log), list(standing(export_view(log)))
    waiting = {queued.turn_id for queued in state.facts.queue}
    started = {each.what.turn_id for each in shown if isinstance(each.what, ShownTurnStart)}
    said = {
        each.what.message.message_id
        for each in shown
        if isinstance(each.what, ShownAnswer | ShownResult) and each.seq > state.facts.epoch
    }
    prompts = {
        each.what.message.message_id
        for each in shown
        if isinstance(each.what, ShownPrompt) and each.what.message.turn_id in started
    }
    items = [item for item in bare(whole_items(state.items)) if isinstance(item, MessageItem)]
    items = [item for item in items if item.seq > state.facts.epoch]
    ids = {item.message.message_id for item in items}
    assert {each for each in ids if not each.endswith("/u")} == said
    shown_prompts = {each for each in ids if each.endswith("/u")}
    assert {each for each in shown_prompts if each.removesuffix("/u") in started} <= prompts
    assert not {each.removesuffix("/u") for each in shown_prompts} & waiting
    assert [item.seq for item in items] == sorted(item.seq for item in items)


def test_a_rewind_goes_to_the_state_of_then() -> None:
    """Items and facts of the conversation are what they were, whatever was compacted, rewound and redone before."""
    n_checked = 0
    for seed in range(150):
        log = walk(71_000 + seed, n_steps=80).entries
        for index, entry in enumerate(log):
            event = entry.event
            if isinstance(event, SessionRewound):
                before = event.before
            elif isinstance(event, SessionRedone):
                before = event.rewind
            else:
                continue
            n_checked += 1
            now, then = fold(log[: index + 1]), fold(each for each in log if each.seq < before)
            assert bare(list(now.items)) == bare(list(then.items))
            assert now.facts.epoch == then.facts.epoch
            assert now.facts.records == then.facts.records
            assert now.facts.outputs == then.facts.outputs
    assert n_checked > 50
