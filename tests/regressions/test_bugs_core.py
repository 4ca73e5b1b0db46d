"""Public bugs that the turn machine and the reducer alone can show not to be ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ullage.core.checkpoint import pairing_problem
from ullage.core.commands import AskPermission, CallProvider, DecideCalls, PlanStep, RunTools, Summarise
from ullage.core.context import Kept, Reason, Strategy
from ullage.core.events import (
    CheckpointCommitted,
    CompactionFailed,
    Entry,
    HandoffRecorded,
    Parent,
    ResultReceived,
    SessionConfigured,
    SessionCreated,
    SessionForked,
    TurnEnded,
)
from ullage.core.inputs import (
    CancelAsked,
    CheckpointDone,
    CompactAsked,
    CompactionRefused,
    GateRejected,
    QueueResumeAsked,
    SampleFailed,
    Stopped,
)
from ullage.core.messages import Role, ToolResult, Usage
from ullage.core.reduce import fold, reduce, resume
from ullage.core.state import HandoffItem, MessageItem, State
from ullage.core.turn_state import TurnState
from ullage.testing import playbook as book
from ullage.testing.playbook import Stage, check_turn

START = "append prompt_queued turn_started; plan_step"
CALL = "append step_started; call_provider"


def a_turn(turn_id: str, stage: Stage, usage: Usage | None = None) -> None:
    """A whole turn with one tool call."""
    for event in (book.prompt(turn_id), book.proceed(), book.asks("bash")):
        stage.send(event)
    call = f"{turn_id}/1/c0"
    for event in (book.allowed(call), book.finished(call), book.proceed(), book.answer(usage=usage)):
        stage.send(event)


def compact(stage: Stage, *tail: Kept) -> None:
    """A manual compaction that is committed."""
    stage.send(CompactAsked("k"))
    of = book.plan(stage.state, Reason.MANUAL)
    stage.send(book.planned(of))
    stage.send(book.gated(of, replace(book.replacement(), tail=tail)))
    stage.send(CheckpointDone(book.report(of)))


def restarted(stage: Stage) -> State:
    """The state that a new process has: from the newest checkpoint where there is one, else from the start."""
    places = [i for i, entry in enumerate(stage.entries) if isinstance(entry.event, CheckpointCommitted)]
    if not places:
        return fold(stage.entries)
    return fold(stage.entries[places[-1] + 1 :], resume(stage.entries[places[-1]]))


def messages(state: State) -> list[MessageItem]:
    return [item for item in state.items if isinstance(item, MessageItem)]


def test_automatic_compaction_that_is_off_stays_off() -> None:
    """Row 6: an overflow ends the turn with its typed error; the next one goes on with the bigger model."""
    stage = Stage()
    stage.record(SessionConfigured(auto_compaction=False))
    check_turn(
        (book.prompt("t1"), START),
        (book.proceed(), f"{CALL} 1"),
        (book.overflow(9_000), "append turn_ended; reply_turn t1 failed overflow"),
        stage=stage,
    )
    stage.record(SessionConfigured(model="bigger"))
    check_turn(
        (book.prompt("t2"), START),
        (book.proceed(), f"{CALL} 1"),
        (book.answer(), "append answer_received turn_ended; reply_turn t2 done"),
        stage=stage,
    )
    assert stage.state.facts.attempts == 0


def test_a_manual_compaction_starts_no_work() -> None:
    """Row 8: one summary, no step and no tool; and nothing is put into the user's mouth."""
    stage = Stage()
    a_turn("t1", stage)
    said = [m for m in messages(stage.state) if m.message.role is Role.USER]
    before = len(stage.ordered)
    stage.send(CompactAsked("k1"))
    of = book.plan(stage.state, Reason.MANUAL, Strategy.MODEL)
    check_turn(
        (book.planned(of), "summarise 1"),
        (book.sampled(of), "append usage_booked; assemble with_model"),
        (book.gated(of), "commit_checkpoint"),
        (CheckpointDone(book.report(of)), "compaction_ended committed k1"),
        stage=stage,
    )
    ordered = stage.ordered[before:]
    assert sum(isinstance(command, Summarise) for command in ordered) == 1
    assert not any(isinstance(c, PlanStep | CallProvider | RunTools | DecideCalls | AskPermission) for c in ordered)
    assert stage.turn.state is TurnState.IDLE
    assert len(said) == 1 and not messages(stage.state), "no new message of a person"


def test_a_failed_compaction_changes_nothing() -> None:
    """Row 13: the log gains one `compaction_failed`; what the model sees is what it was."""
    stage = Stage()
    a_turn("t1", stage)
    before, n_events = stage.state.items, len(stage.entries)
    of = book.plan(stage.state, Reason.MANUAL, Strategy.MODEL)
    for event in (
        CompactAsked("k1"),
        book.planned(of),
        *[SampleFailed(of, book.error("server_error"))] * 3,
        GateRejected(of, book.error("gate"), False),
    ):
        stage.send(event)
    gained = [type(entry.event).__name__ for entry in stage.entries[n_events:]]
    assert gained == ["UsageBooked", "UsageBooked", "UsageBooked", "CompactionFailed"]
    assert stage.state.items == before and restarted(stage).items == before
    assert stage.turn.state is TurnState.IDLE


def test_after_a_restart_the_count_is_that_of_the_last_call() -> None:
    """Row 17: one checkpoint, five turns, and the same figures after as before, baseline included."""
    stage = Stage()
    a_turn("t0", stage)
    compact(stage)
    for number in range(1, 6):
        a_turn(f"t{number}", stage, Usage(1_000 * number, 20))
    after = restarted(stage)
    assert after.tokens == stage.state.tokens > 0
    assert after.facts.baseline == stage.state.facts.baseline
    assert after.facts.baseline is not None and after.facts.baseline.total == 5_020


def test_after_a_restart_there_is_an_estimate_before_any_call() -> None:
    """Row 18: the estimate is a function of the log, so a compaction can start at once."""
    stage = Stage(count=lambda message: 1_000)
    a_turn("t1", stage, Usage())
    again = Stage(entries=list(stage.entries))
    assert again.state.facts.baseline is None
    assert again.state.tokens == stage.state.tokens == 4_000
    check_turn((CompactAsked("k1"), "plan_compaction manual"), stage=again)


def test_an_interrupted_tool_is_closed_before_its_turn_ends() -> None:
    """Row 29: every call has its result in the log, so the next request is valid."""
    stage = check_turn(
        (book.prompt("t1"), START),
        (book.proceed(), f"{CALL} 1"),
        (book.asks("bash", "read"), "append answer_received; decide_calls bash read"),
        (book.allowed("t1/1/c0", "t1/1/c1"), "run_tools bash read"),
        (book.finished("t1/1/c1"), "append result_received"),
        (CancelAsked("t1"), "stop_effects"),
        (Stopped(), "append result_received turn_ended; reply_turn t1 cancelled"),
        (book.prompt("t2"), START),
    )
    kinds = [type(entry.event) for entry in stage.entries]
    assert max(i for i, kind in enumerate(kinds) if kind is ResultReceived) < kinds.index(TurnEnded)
    history = [item.message for item in messages(stage.state)]
    results = {result.call_id: result.text for message in history for result in message.results}
    assert pairing_problem(history) is None
    assert set(results) == {call.call_id for message in history for call in message.calls}
    assert "ancelled" in results["t1/1/c0"] and results["t1/1/c1"] == "ok"


def test_a_finished_call_is_never_run_again() -> None:
    """Row 44: cancel during the next step, restart, go on: the command ran once, and has its one result."""
    stage = Stage()
    for event in (book.prompt("t1"), book.proceed(), book.asks("bash"), book.allowed("t1/1/c0")):
        stage.send(event)
    for event in (book.finished("t1/1/c0"), book.proceed(), CancelAsked(), Stopped()):
        stage.send(event)
    again = Stage(entries=list(stage.entries))
    for event in (book.prompt("t2"), book.proceed(), book.allowed("t1/1/c0"), book.finished("t1/1/c0")):
        again.send(event)
    ran = [call.call_id for c in (*stage.ordered, *again.ordered) if isinstance(c, RunTools) for call in c.calls]
    assert ran == ["t1/1/c0"]
    results = [result for item in messages(again.state) for result in item.message.results]
    assert [(result.call_id, result.text) for result in results] == [("t1/1/c0", "ok")]
    assert again.state.facts.open_turn is not None and not again.state.facts.anomalies


def test_every_state_has_a_way_out() -> None:
    """Row 44: a command that fails is a result like any other, and a cancel works in every state."""
    failed = replace(book.finished("t1/1/c0"), result=ToolResult("t1/1/c0", "not found", is_error=True))
    running = (book.prompt("t1"), book.proceed(), book.asks("bash"), book.allowed("t1/1/c0"))
    waiting = (*running[:3], book.decided(book.waits("t1/1/c0")))
    compacting = (book.prompt("t1"), book.compact_first())
    for so_far in (running[:1], running[:2], running[:3], running, (*running, failed), waiting, compacting):
        stage = Stage()
        for event in (*so_far, CancelAsked("t1"), Stopped()):
            stage.send(event)
        assert stage.turn.state is TurnState.IDLE and stage.state.facts.open_turn is None
        assert not stage.state.facts.anomalies


def test_the_root_comes_from_the_log_alone() -> None:
    """Row 45: nothing after the first event names another folder, a second creation least of all."""
    stage = Stage()
    a_turn("t1", stage)
    compact(stage)
    assert restarted(stage).facts.root == "/root"
    other = Entry(99, 0, SessionCreated("session", "/elsewhere", 8, 9))
    after = reduce(restarted(stage), other).facts
    assert (after.root, after.device, after.inode, after.anomalies) == ("/root", 1, 2, (99,))


@pytest.mark.parametrize("mode", ["ask", "plan"])
def test_permission_survives_everything(mode: str) -> None:
    """Row 51: who must be asked is replayed from events; compaction, restart, fork and model switch keep it."""
    stage = Stage()
    stage.record(SessionConfigured(permission_mode="auto"))
    stage.record(SessionConfigured(permission_mode=mode))
    a_turn("t1", stage)
    compact(stage)
    stage.record(SessionConfigured(model="other"))
    assert restarted(stage).facts.config.permission_mode == mode
    fork = Entry(stage.state.facts.last_seq + 1, 0, SessionForked(Parent("session", 1)))
    assert reduce(restarted(stage), fork).facts.config.permission_mode == mode


def test_hidden_reminders_are_there_after_a_restart() -> None:
    """Row 64: what the model sees is the same before and after, handoff included, before and after a checkpoint."""
    stage = Stage()
    a_turn("t1", stage)
    stage.record(HandoffRecorded("{}", 20))
    a_turn("t2", stage)
    assert restarted(stage).items == stage.state.items
    assert [item.tokens for item in stage.state.items if isinstance(item, HandoffItem)] == [20]
    kept = messages(stage.state)[-1]
    compact(stage, Kept(kept.seq, kept.message, kept.tokens))
    stage.record(HandoffRecorded("{}", 20))
    a_turn("t3", stage)
    assert restarted(stage) == stage.state
    assert stage.state.facts.handoffs == 1


@pytest.mark.parametrize("end", ["well", "badly", "refused", "cancelled"])
def test_prompts_during_a_compaction_run_after_it(end: str) -> None:
    """Row 67: three sends are durable at once and run in order, however the compaction ends."""
    stage = Stage()
    a_turn("t0", stage)
    stage.send(CompactAsked("k1"))
    of = book.plan(stage.state, Reason.MANUAL)
    for turn_id in ("t1", "t2", "t3"):
        check_turn((book.prompt(turn_id), "append prompt_queued"), stage=stage)
    ends = {
        "well": (book.planned(of), book.gated(of), CheckpointDone(book.report(of))),
        "badly": (book.planned(of), GateRejected(of, book.error("gate"), False)),
        "refused": (CompactionRefused(book.error("nothing_to_gain")),),
        "cancelled": (CancelAsked("k1"), Stopped()),
    }
    assert restarted(stage).facts.queue == stage.state.facts.queue
    for event in ends[end]:
        stage.send(event)
    assert any(isinstance(entry.event, CompactionFailed) for entry in stage.entries) == (end == "badly")
    next_one = "append answer_received turn_ended; reply_turn {} done; append turn_started; plan_step"
    for turn_id in ("t1", "t2"):
        check_turn((book.proceed(), f"{CALL} 1"), (book.answer(), next_one.format(turn_id)), stage=stage)
    check_turn(
        (book.proceed(), f"{CALL} 1"),
        (book.answer(), "append answer_received turn_ended; reply_turn t3 done"),
        (QueueResumeAsked(), "append queue_released"),
        stage=stage,
    )
