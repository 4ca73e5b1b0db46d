"""Logs that lost lines: what stands behind a gap is taken as far as it goes (bugs rows 20, 21, 23, 27).

A person sees the tail of such a session; the model must see the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import pytest
from tests.context.histories import BIG, COUNTER
from tests.core.test_reduce import (
    CALL,
    IN_TOOLS,
    answer,
    check_events,
    checkpoint,
    ended,
    entries,
    queued,
    result,
    said,
    started,
    step,
)
from tests.core.walk import walk

from ullage.context.assembly import assemble
from ullage.context.occupancy import occupancy
from ullage.context.profiles.ullage import ULLAGE
from ullage.context.request import build
from ullage.core.checkpoint import checkpoint_problem
from ullage.core.context import Reason
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Entry,
    Event,
    Parent,
    PromptEdited,
    PromptMode,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    ResultReceived,
    SessionConfigured,
    SessionCreated,
    SessionForked,
    SessionRedone,
    SessionRewound,
    SteerEntered,
    Stop,
    TurnEnded,
    TurnStarted,
)
from ullage.core.omission import whole_items
from ullage.core.ports import ModelCard
from ullage.core.reduce import fold, reduce, resume
from ullage.core.rewinding import standing
from ullage.core.state import MessageItem, State, ended_how
from ullage.core.views import ShownAnswer, ShownPrompt, ShownPromptGone, ShownResult, export_view
from ullage.testing import playbook as book
from ullage.testing.validator import problems

# --- one gap at a time ---


@dataclass(frozen=True)
class Gap:
    """A log that lacks something before its last event, and what is there after it.

    `open` is the open turn with its pending calls, `stops` how turns ended, `seen` the ids of messages in view.
    """

    events: list[Event]
    open: tuple[str, tuple[str, ...]] | None = None
    stops: tuple[tuple[str, Stop], ...] = ()
    seen: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


T1 = (("t1", Stop.INTERRUPTED),)
GAPS: dict[str, Gap] = {
    "the end of the turn before": Gap(
        [*started(), step(), answer(), queued("t2"), TurnStarted("t2")], ("t2", ()), T1, ("t1/u", "t1/1/a", "t2/u")
    ),
    "the end of the turn before, and its results": Gap(
        [*IN_TOOLS, queued("t2"), TurnStarted("t2")], ("t2", ()), T1, ("t1/u", "t1/1/a", "t2/u")
    ),
    "the prompt": Gap([TurnStarted("t1")], ("t1", ())),
    "the start": Gap([queued("t1"), step()], ("t1", ()), seen=("t1/u",)),
    "the start, with another turn open": Gap(
        [*started(), queued("t2"), step(1, "t2")], ("t2", ()), T1, ("t1/u", "t2/u")
    ),
    "prompt and start": Gap([step()], ("t1", ())),
    "a step before": Gap([*started(), step(3)], ("t1", ()), seen=("t1/u",)),
    "the result before a step": Gap([*IN_TOOLS, step(2)], ("t1", ()), seen=("t1/u", "t1/1/a")),
    "the step": Gap([*started(), answer(1, CALL)], ("t1", (CALL,)), seen=("t1/u", "t1/1/a")),
    "the step of another turn": Gap([*started(), step(), answer(1, turn_id="t2")], ("t2", ()), T1, ("t1/u", "t2/1/a")),
    "all of a step but its answer": Gap(
        [*IN_TOOLS, answer(2, "t1/2/c0")], ("t1", ("t1/2/c0",)), seen=("t1/u", "t1/1/a", "t1/2/a")
    ),
    "the answer": Gap([*started(), step(), result(CALL)], ("t1", ()), seen=("t1/u", f"{CALL}/r")),
    "step and answer": Gap([*started(), result(CALL)], ("t1", ()), seen=("t1/u", f"{CALL}/r")),
    "everything before a result": Gap([result(CALL)], ("t1", ()), seen=(f"{CALL}/r",)),
    "the call of a result": Gap([*IN_TOOLS, result("t1/1/c7")], ("t1", (CALL,)), seen=("t1/u", "t1/1/a", "t1/1/c7/r")),
    "everything of a step but its result": Gap(
        [*IN_TOOLS, replace(result("t1/2/c0"), step=2)], ("t1", ()), seen=("t1/u", "t1/1/a", "t1/2/c0/r")
    ),
    "results before an end": Gap([*IN_TOOLS, ended()], None, (("t1", Stop.DONE),), ("t1/u", "t1/1/a")),
    "everything before an end": Gap([ended()], None, (("t1", Stop.DONE),)),
    "all of a turn but prompt and end": Gap([queued("t1"), ended()], None, (("t1", Stop.DONE),), ("t1/u",)),
    "a turn and its start": Gap(
        [*started(), queued("t2"), ended("t2")], None, (*T1, ("t2", Stop.DONE)), ("t1/u", "t2/u")
    ),
    "a steer's prompt": Gap([*started(), SteerEntered("t1", "s1")], ("t1", ()), (("s1", Stop.DONE),), ("t1/u",)),
    "the result before a steer": Gap(
        [*IN_TOOLS, queued("s1"), SteerEntered("t1", "s1")],
        ("t1", ()),
        (("s1", Stop.DONE),),
        ("t1/u", "t1/1/a", "s1/u"),
    ),
    "the start before a steer": Gap(
        [queued("t1"), queued("s1"), SteerEntered("t1", "s1")], ("t1", ()), (("s1", Stop.DONE),), ("t1/u", "s1/u")
    ),
    "the prompt of an edit": Gap([PromptEdited(said("t1", "rather this"), 1, "test")], waits=("t1",)),
    "the prompt of a removal": Gap([PromptRemoved("t1")], stops=(("t1", Stop.CANCELLED),)),
}


def ids(state: State) -> tuple[str, ...]:
    """Of all messages that the model knows of: what is left out is known, and can be taken back."""
    return tuple(item.message.message_id for item in whole_items(state.items) if isinstance(item, MessageItem))


@pytest.mark.parametrize("name", GAPS)
def test_an_event_without_its_predecessors_is_taken_and_noted(name: str) -> None:
    gap = GAPS[name]
    *before, last = entries(gap.events)
    after = reduce(fold(before), last)
    facts = after.facts
    assert not fold(before).facts.anomalies and facts.anomalies == (last.seq,)
    assert (facts.open_turn and (facts.open_turn.turn_id, facts.open_turn.pending)) == gap.open
    assert facts.ended_turns == gap.stops
    assert ids(after) == gap.seen
    assert tuple(waiting.turn_id for waiting in facts.queue) == gap.waits


@pytest.mark.parametrize("before", [[], [step()]])
def test_an_answer_without_its_step_is_no_measure(before: list[Event]) -> None:
    """It is not known what its request held."""
    facts = fold(entries([*started(), *before, answer(2)])).facts
    assert facts.baseline is None and facts.sent is None
    assert facts.turn_totals.prompt == 100, "but it was paid for"


def test_a_request_of_the_turn_before_is_no_measure_of_this_one() -> None:
    events = [*started(), step(), queued("t2"), TurnStarted("t2"), answer(1, turn_id="t2")]
    facts = fold(entries(events)).facts
    assert facts.baseline is None and len(facts.anomalies) == 2


def test_a_result_says_that_its_step_was_answered() -> None:
    facts = fold(entries([*started(), step(), result(CALL)])).facts
    assert facts.sent is None and facts.open_turn is not None and facts.open_turn.answered == 1


def test_a_turn_goes_on_behind_a_gap() -> None:
    """Once it is open again, what follows is whole: nothing more is noted."""
    rest = [answer(2, "t1/2/c0"), result("t1/2/c0"), step(3), answer(3), ended()]
    state = fold(entries([*IN_TOOLS, step(2), *rest]))
    assert len(state.facts.anomalies) == 1
    assert ended_how(state.facts, "t1") is Stop.DONE and len(state.items) == 5


def test_a_checkpoint_heals_what_was_lost_before_it() -> None:
    """Its facts are what they were before anything was lost, a model switch and a waiting prompt among them."""
    before = check_events(*started(), step(), answer(), SessionConfigured(model="other"), ended(), queued("t2"))
    log = entries([*started(), step(), answer(), SessionConfigured(model="other"), ended(), queued("t2")])
    log.append(Entry(8, 9, checkpoint(before)))
    whole = fold(log)
    assert whole.facts.epoch == 8
    for lost in range(1, 8):
        assert fold([entry for entry in log if entry.seq != lost]) == whole


def test_a_fork_keeps_its_own_identity_over_the_checkpoints_it_copied() -> None:
    state = check_events(*started())
    child = Entry(0, 9, SessionCreated("child", "/root", 1, 2))
    forked = fold([child, Entry(3, 9, checkpoint(state)), Entry(4, 9, SessionForked(Parent("session", 3)))])
    assert (forked.facts.session_id, forked.facts.created_at) == ("child", 9)
    assert forked.facts.parent == Parent("session", 3) and forked.facts.open_turn is None


# --- any gaps ---


def without_events(rng: random.Random, log: list[Entry]) -> list[Entry]:
    return [entry for entry in log if rng.random() < 0.85]


def without_lines(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """Whole batches are lost, as a log loses them. An answer and its end are one."""
    kept: list[Entry] = []
    for _, batch in groupby(log, lambda entry: entry.seq // 3):
        if rng.random() < 0.85:
            kept += batch
    return kept


def without_a_stretch(rng: random.Random, log: list[Entry]) -> list[Entry]:
    start = rng.randrange(len(log))
    return log[:start] + log[start + rng.randrange(1, 12) :]


Harm = Callable[[random.Random, list[Entry]], list[Entry]]
HARMS: tuple[Harm, ...] = (without_events, without_lines, without_a_stretch)


def harmed(harm: Harm, first: int, n: int = 60) -> Iterator[list[Entry]]:
    for seed in range(first, first + n):
        yield harm(random.Random(seed), walk(seed).entries)


def said_behind(log: Iterable[Entry], seq: int) -> set[str]:
    """Ids of messages that a client sees behind that seq, except prompts that were removed."""
    seen: set[str] = set()
    for shown in standing(export_view(log)):
        match shown.what:
            case ShownPrompt(message) | ShownAnswer(message) | ShownResult(message) if shown.seq > seq:
                seen.add(message.message_id)
            case ShownPromptGone(turn_id):
                seen.discard(f"{turn_id}/u")
            case _:
                pass
    return seen


@pytest.mark.parametrize("harm", HARMS)
def test_the_model_sees_what_a_client_sees_behind_any_gap(harm: Harm) -> None:
    """W-C12: Every message is an item, or waits in the queue; what stands before a checkpoint is in its source.

    A rewind heals the queue as a checkpoint does: a prompt whose start was lost before it waits no longer.
    """
    n_noted = 0
    for log in harmed(harm, 50_000, 150):
        state = fold(log)
        n_noted += bool(state.facts.anomalies)
        there = {*ids(state), *(waiting.message.message_id for waiting in state.facts.queue)}
        healed = max((e.seq for e in log if isinstance(e.event, SessionRewound | SessionRedone)), default=-1)
        assert said_behind(log, max(healed, state.facts.epoch)) <= there
    assert n_noted > 10


@pytest.mark.parametrize("harm", HARMS)
def test_the_law_holds_for_logs_with_gaps(harm: Harm) -> None:
    """R14: from every checkpoint that survived, facts and items are what folding everything gives."""
    n_checkpoints = 0
    for log in harmed(harm, 51_000, 120):
        whole, state = fold(log), State()
        for index, entry in enumerate(log):
            state = reduce(state, entry)
            if isinstance(entry.event, CheckpointCommitted):
                n_checkpoints += 1
                assert state.facts.epoch == entry.seq
                assert resume(entry) == state
                assert fold(log[index + 1 :], resume(entry)) == whole
    assert n_checkpoints > 30


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_asked_behind_any_gap_is_valid_and_can_be_compacted(harm: Harm) -> None:
    """At every prefix: the request is one that a provider takes, and so is that after a compaction."""
    for log in harmed(harm, 52_000, 25):
        state = State()
        for entry in log:
            state = reduce(state, entry)
            if isinstance(entry.event, PromptQueued | AnswerReceived | ResultReceived):
                check_asked(state)
        made = assemble(replace(book.plan(state, Reason.MANUAL), target=4_000), state, COUNTER, ULLAGE, (), "fence")
        event = book.checkpoint(state, book.plan(state), made, book.report(book.plan(state)))
        assert checkpoint_problem(event) is None
        after = reduce(state, Entry(state.facts.last_seq + 1, 0, event))
        assert after.facts.epoch == after.facts.last_seq
        check_asked(after)


def check_asked(state: State) -> None:
    built = build(state, "system", (), ModelCard("model", 200_000, "test"), 1_000, occupancy(state, 10, BIG))
    assert not problems(built.request)


def test_a_session_that_lost_lines_goes_on() -> None:
    """A new process closes what is open, and the next turn is whole: nothing more is noted."""
    for harm in HARMS:
        for log in harmed(harm, 53_000, 30):
            stage = book.Stage(entries=list(log))
            noted = stage.state.facts.anomalies
            for event in closing(stage.state):
                stage.record(event)
            stage.send(book.prompt("next", PromptMode.STEER))
            stage.send(book.proceed())
            stage.send(book.answer())
            assert ended_how(stage.state.facts, "next") is Stop.DONE
            assert stage.state.facts.anomalies == noted


def closing(state: State) -> list[Event]:
    """What a host writes on opening."""
    opened = state.facts.open_turn
    events: list[Event] = [QueueHeld("interrupted")]
    if opened is not None:
        events += [result(call_id) for call_id in opened.pending]
        events.append(TurnEnded(opened.turn_id, Stop.INTERRUPTED))
    return events
