"""Compaction as a state of the turn: plan, sample, gate, commit, then the step is planned again."""

from __future__ import annotations

from dataclasses import replace

from ullage.core.commands import (
    Append,
    Assemble,
    CommitCheckpoint,
    CompactionEnded,
    CompactionOutcome,
    Summarise,
)
from ullage.core.context import Reason, Strategy
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
)
from ullage.core.state import State
from ullage.core.turn_flow import (
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
    if event.plan.strategy is Strategy.MODEL:
        running = replace(_running(turn), samples=1)
        return Step(replace(turn, compacting=running), (Summarise(event.plan, 1),))
    return Step(turn, (Assemble(event.plan, None, 0),))


def sampled(turn: Turn, state: State, event: SampleFinished) -> Step:
    booked = Append((UsageBooked(Purpose.SUMMARY, event.usage, event.model),))
    return Step(turn, (booked, Assemble(event.plan, event.text, _running(turn).samples)))


def sample_failed(turn: Turn, state: State, event: SampleFailed) -> Step:
    running = _running(turn)
    booked = Append((UsageBooked(Purpose.SUMMARY, event.usage, event.model),))
    if running.samples < turn.limits.summary_samples:
        again = replace(running, samples=running.samples + 1)
        return Step(replace(turn, compacting=again), (booked, Summarise(event.plan, again.samples)))
    return Step(turn, (booked, Assemble(event.plan, None, running.samples, event.error.code)))


def gate_passed(turn: Turn, state: State, event: GatePassed) -> Step:
    return Step(turn, (CommitCheckpoint(event.plan, event.replacement, event.report),))


def gate_rejected(turn: Turn, state: State, event: GateRejected) -> Step:
    """A rejected model summary is made without the model; a rejected fallback is a failed compaction."""
    if event.from_model:
        return Step(turn, (Assemble(event.plan, None, _running(turn).samples, event.error.code),))
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


def _compaction_failed(turn: Turn, state: State, error: ErrorReport) -> Step:
    """One event and nothing else changes; an automatic one ends its turn, since the request would not fit."""
    running = _running(turn)
    failed = CompactionFailed(running.reason, error)
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
