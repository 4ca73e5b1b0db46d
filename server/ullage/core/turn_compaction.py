"""Compaction as a state of the turn: plan, sample, gate, commit, then the step is planned again.

A plan is good for one revision. When model or profile were switched meanwhile, nothing failed: it is planned again,
once for each switch.
"""

from __future__ import annotations

from dataclasses import replace

from ullage.core.breaker import BREAKER_OPEN
from ullage.core.commands import (
    Append,
    Assemble,
    Command,
    CommitCheckpoint,
    CompactionEnded,
    CompactionOutcome,
    PlanCompaction,
    Summarise,
)
from ullage.core.context import CompactionPlan, Reason, Strategy
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    CompactionFailed,
    Purpose,
    Stop,
    UsageBooked,
)
from ullage.core.inputs import (
    CheckpointDone,
    CheckpointFailed,
    CompactAsked,
    CompactionPlanned,
    CompactionRefused,
    GatePassed,
    GateRejected,
    SampleFailed,
    SampleFinished,
    SampleProblem,
)
from ullage.core.limits import Limits
from ullage.core.state import State
from ullage.core.turn_flow import (
    begin_compaction,
    begin_manual,
    end_turn,
    go_on,
)
from ullage.core.turn_state import Compacting, Step, Turn


def compact_idle(turn: Turn, state: State, event: CompactAsked) -> Step:
    return begin_manual(replace(turn, wanted=(event,)))


def compact_later(turn: Turn, state: State, event: CompactAsked) -> Step:
    return Step(replace(turn, wanted=(*turn.wanted, event)), ())


def compaction_planned(turn: Turn, state: State, event: CompactionPlanned) -> Step:
    match event.plan.strategy:
        case Strategy.MODEL:
            return _sample(turn, _running(turn), event.plan)
        case Strategy.FALLBACK:
            return _without_model(turn, event.plan, BREAKER_OPEN)
        case Strategy.DETERMINISTIC:
            return Step(turn, (Assemble(event.plan, None, 0),))


def _sample(turn: Turn, running: Compacting, plan: CompactionPlan, pause_ms: int = 0) -> Step:
    """Take the next sample, within what is left of the budget."""
    limits = turn.limits
    running = replace(running, samples=running.samples + 1, spent_ms=running.spent_ms + pause_ms)
    left_ms, left_tokens = limits.summary_ms - running.spent_ms, limits.summary_tokens - running.spent_tokens
    sample = Summarise(plan, running.samples, running.shrinks, pause_ms, left_ms, left_tokens)
    return Step(replace(turn, compacting=running), (sample,))


def _without_model(turn: Turn, plan: CompactionPlan, failure: str) -> Step:
    """The same compaction goes on without the model."""
    running = replace(_running(turn), failure=failure)
    return Step(replace(turn, compacting=running), (Assemble(plan, None, running.samples, failure),))


def sampled(turn: Turn, state: State, event: SampleFinished) -> Step:
    booked = Append((UsageBooked(Purpose.SUMMARY, event.usage, event.model),))
    if _stale(event.plan, state):
        return _plan_again(turn, state, event.plan, (booked,))
    return Step(turn, (booked, Assemble(event.plan, event.text, _running(turn).samples)))


def sample_failed(turn: Turn, state: State, event: SampleFailed) -> Step:
    """Book it, then take another sample where one may help and samples, time and output are left."""
    running = _running(turn)
    overflow = event.problem is SampleProblem.OVERFLOW
    spent = replace(
        running,
        samples=running.samples if event.asked else running.samples - 1,
        shrinks=running.shrinks + overflow,
        spent_ms=running.spent_ms + event.spent_ms,
        spent_tokens=running.spent_tokens + event.spent_tokens,
    )
    booked = (Append((UsageBooked(Purpose.SUMMARY, event.usage, event.model),)),) if event.asked else ()
    if _stale(event.plan, state):
        return _plan_again(turn, state, event.plan, booked)
    pause = 0 if overflow else turn.limits.summary_pause_ms << max(0, spent.samples - 1)
    if event.problem is not SampleProblem.FINAL and _may_sample(spent, pause, turn.limits):
        after = _sample(turn, spent, event.plan, pause)
    else:
        after = _without_model(replace(turn, compacting=spent), event.plan, event.error.code)
    return Step(after.turn, (*booked, *after.commands))


def _may_sample(spent: Compacting, pause: int, limits: Limits) -> bool:
    left = spent.spent_ms + pause < limits.summary_ms and spent.spent_tokens < limits.summary_tokens
    return left and spent.samples < limits.summary_samples


def gate_passed(turn: Turn, state: State, event: GatePassed) -> Step:
    if _stale(event.plan, state):
        return _plan_again(turn, state, event.plan)
    return Step(turn, (CommitCheckpoint(event.plan, event.replacement, event.report),))


def gate_rejected(turn: Turn, state: State, event: GateRejected) -> Step:
    """A rejected model summary is made without the model; a rejected fallback is a failed compaction."""
    if _stale(event.plan, state):
        return _plan_again(turn, state, event.plan)
    if event.from_model:
        return _without_model(turn, event.plan, event.error.code)
    return _compaction_failed(turn, state, event.error)


def compaction_refused(turn: Turn, state: State, event: CompactionRefused) -> Step:
    if _running(turn).reason is Reason.MANUAL:
        return _compaction_over(turn, state, CompactionOutcome.REFUSED, error=event.error)
    return _compaction_failed(turn, state, event.error)


def checkpoint_done(turn: Turn, state: State, event: CheckpointDone) -> Step:
    ended = CompactionEnded(_running(turn).asks, CompactionOutcome.COMMITTED, event.report.reason, event.report)
    return go_on(replace(turn, compacting=None), state, (ended,))


def checkpoint_failed(turn: Turn, state: State, event: CheckpointFailed) -> Step:
    return _compaction_failed(turn, state, event.error)


def _stale(plan: CompactionPlan, state: State) -> bool:
    """What the plan was made for is not what is sent any more."""
    return plan.revision != state.facts.revision


def _plan_again(turn: Turn, state: State, plan: CompactionPlan, before: tuple[Command, ...] = ()) -> Step:
    """A manual compaction starts over; an automatic one may not be needed any more, so the step is planned again."""
    running = _running(turn)
    if running.reason is Reason.MANUAL:
        manual = PlanCompaction(Reason.MANUAL, None, plan.instructions)
        after = begin_compaction(turn, Compacting(Reason.MANUAL, running.asks), manual)
        return Step(after.turn, (*before, *after.commands))
    ended = CompactionEnded((), CompactionOutcome.CANCELLED, running.reason)
    return go_on(replace(turn, compacting=None), state, (*before, ended))


def _compaction_failed(turn: Turn, state: State, error: ErrorReport) -> Step:
    """One event and nothing else changes; an automatic one ends its turn, since the request would not fit."""
    running = _running(turn)
    failed = CompactionFailed(running.reason, error, running.failure)
    ended = CompactionEnded(running.asks, CompactionOutcome.FAILED, running.reason, error=error)
    turn = replace(turn, compacting=None)
    if running.reason is Reason.MANUAL or state.facts.open_turn is None:
        # Who asked is told first: a batch that the disk refuses drops every command after it.
        return go_on(turn, state, (ended, Append((failed,))))
    after = end_turn(turn, state, Stop.FAILED, running.cause or error, before=(failed,))
    return Step(after.turn, (*after.commands[:1], ended, *after.commands[1:]))


def _compaction_over(turn: Turn, state: State, outcome: CompactionOutcome, error: ErrorReport | None) -> Step:
    running = _running(turn)
    ended = CompactionEnded(running.asks, outcome, running.reason, error=error)
    return go_on(replace(turn, compacting=None), state, (ended,))


def _running(turn: Turn) -> Compacting:
    assert turn.compacting is not None, "only a compacting turn gets here"
    return turn.compacting
