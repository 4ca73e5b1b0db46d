"""The turn machine in random sessions: what it promises holds in every order of inputs (habits 4 and 5)."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, get_args

import pytest
from tests.core.walk import Walk, walk

from ullage.core import inputs
from ullage.core.commands import CallProvider, CompactionEnded, Finish, RefuseRewind, ReplyTurn
from ullage.core.events import Stop, TurnEnded, TurnStarted
from ullage.core.inputs import Input
from ullage.core.turn import advance
from ullage.core.turn_state import Turn, TurnState
from ullage.testing import playbook as book

CHUNK = 100


def _chunks(first: int, last: int) -> range:
    return range(first, last, CHUNK)


@pytest.mark.parametrize("first", _chunks(0, 800))
def test_a_random_session_keeps_every_promise(first: int) -> None:
    """`Walk` checks each command as it is carried out; here is what must be true afterwards.

    No anomaly, nothing left running, every accepted prompt and every asked compaction answered exactly once.
    """
    for seed in range(first, first + CHUNK):
        walk(seed, breaks=seed % 4 == 0).check_end()


@pytest.mark.slow
@pytest.mark.parametrize("first", _chunks(1_000, 4_000))
def test_three_thousand_more(first: int) -> None:
    test_a_random_session_keeps_every_promise(first)


def test_the_walks_reach_everything() -> None:
    """Otherwise the promises above would be cheap: every state, every outcome and every end is met."""
    states: Counter[TurnState] = Counter()
    stops: Counter[Stop] = Counter()
    outcomes: Counter[str] = Counter()
    broken = finished = 0
    for seed in range(120):
        session = walk(seed, breaks=seed % 4 == 0, check=lambda walked: states.update([walked.turn.state]))
        stops.update(e.event.stop for e in session.entries if isinstance(e.event, TurnEnded))
        outcomes.update(c.outcome for c in session.ordered if isinstance(c, CompactionEnded))
        broken, finished = broken + session.broken, finished + session.finished
    assert set(states) == set(TurnState)
    assert set(stops) == set(Stop) - {Stop.INTERRUPTED}
    assert len(outcomes) == 4 and broken and finished


def test_at_most_one_turn_is_open_and_a_cancel_holds_the_queue() -> None:
    for seed in range(10_000, 10_100):
        session, open_turn = walk(seed), None
        for entry in session.entries:
            match entry.event:
                case TurnStarted(turn_id):
                    assert open_turn is None
                    open_turn = turn_id
                case TurnEnded(turn_id, stop):
                    assert open_turn == turn_id
                    open_turn = None
                    following = session.entries[entry.seq + 1 : entry.seq + 2]
                    started = any(isinstance(after.event, TurnStarted) for after in following)
                    assert not (stop is Stop.CANCELLED and started), "a cancelled turn runs the queue"
                case _:
                    pass


# --- inputs that no actor would feed ---


def test_the_wild_inputs_are_all_of_them() -> None:
    assert [type(event) for event in book.every_input(random.Random(0), book.Stage())] == list(get_args(Input))


def test_no_input_raises_in_any_state() -> None:
    """Total: every input in every state that a wild session comes through, fitting or not."""
    met: set[tuple[TurnState, type[Any]]] = set()
    for seed in range(120):
        rng, stage = random.Random(seed), book.Stage()
        for _ in range(30):
            wild = book.every_input(rng, stage)
            for event in wild:
                advance(stage.turn, stage.state, event)
                met.add((stage.turn.state, type(event)))
            ends = (inputs.CloseAsked, inputs.CommitFailed)
            stage.send(rng.choice([event for event in wild if not isinstance(event, ends) or rng.random() < 0.05]))
    assert len(met) == len(TurnState) * len(get_args(Input))


def test_a_closed_session_orders_nothing_but_answers() -> None:
    closed, rng = Turn(state=TurnState.CLOSED), random.Random(1)
    for event in book.every_input(rng, book.Stage()):
        turn, commands = advance(closed, book.Stage().state, event)
        assert turn.state is TurnState.CLOSED
        assert all(isinstance(command, ReplyTurn | CompactionEnded | RefuseRewind | Finish) for command in commands)


# --- the walker's own eyes ---


def test_the_walker_sees_a_call_above_the_line() -> None:
    """A guard that can't fail is none."""
    session = Walk(0)
    session.send(book.prompt("t1"))
    session.due = True
    with pytest.raises(AssertionError, match="I3"):
        session.send(book.proceed())


def test_the_walker_sees_a_call_that_runs_twice() -> None:
    session = Walk(0)
    for event in (book.prompt("t1"), book.proceed(), book.asks("read")):
        session.send(event)
    session.verdicts["t1/1/c0"] = True
    session.ran.add("t1/1/c0")
    with pytest.raises(AssertionError, match="twice"):
        session.send(book.allowed("t1/1/c0"))


def test_the_walker_sees_a_prompt_without_an_answer() -> None:
    session = Walk(0)
    session.send(book.prompt("t1"))
    session.send(book.impossible())
    session.replies.clear()
    with pytest.raises(AssertionError, match="answered 0 times"):
        session.check_end()


def test_calls_are_never_made_while_calls_are_open() -> None:
    """The walker's own check, over the log: between an answer's calls and the next step stand all results."""
    for seed in range(60):
        session = walk(20_000 + seed)
        assert sum(isinstance(command, CallProvider) for command in session.ordered) == session.state.facts.steps
