"""The turn machine: one table of states and inputs, and the small functions it names.

Rules. Every transition stands in `TABLE`, and every cell of it is decided: a function, `IGNORED` (a late input that is
harmless) or `REFUSED` (whoever asked gets a typed error). The machine is pure: it reads the session's state, returns
its next value and commands, and acts on nothing. What must survive a crash is an event; only what a crash ends
anyway (what runs right now) is a field of `Turn`.

How a turn goes: a prompt passes the queue, `PlanStep` projects the next request and says proceed, handoff, compact or
impossible; the answer's calls are all decided before any runs; results lead to the next step; an answer without calls
ends the turn. A compaction is a state of the turn: plan, sample, gate, commit, then the step is planned again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ullage.core.commands import (
    Command,
    CompactionEnded,
    CompactionOutcome,
    RefuseRewind,
    ReplyTurn,
)
from ullage.core.context import Reason
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    Stop,
)
from ullage.core.inputs import (
    AnswerArrived,
    CallsDecided,
    CancelAsked,
    CheckpointDone,
    CheckpointFailed,
    CloseAsked,
    CommitFailed,
    CompactAsked,
    CompactionPlanned,
    CompactionRefused,
    GatePassed,
    GateRejected,
    Input,
    OutputStarted,
    PermissionAnswered,
    PromptArrived,
    PromptEditAsked,
    PromptRemoveAsked,
    ProviderFailed,
    QueueResumeAsked,
    RedoAsked,
    RewindAsked,
    SampleFailed,
    SampleFinished,
    StepPlanned,
    Stopped,
    ToolFinished,
)
from ullage.core.state import State
from ullage.core.turn_compaction import (
    checkpoint_done,
    checkpoint_failed,
    compact_idle,
    compact_later,
    compaction_planned,
    compaction_refused,
    gate_passed,
    gate_rejected,
    sample_failed,
    sampled,
)
from ullage.core.turn_state import Step, Turn, TurnState
from ullage.core.turn_steps import (
    answered,
    cancel,
    cancel_idle,
    cancel_more,
    close_busy,
    close_cancelling,
    close_idle,
    commit_failed,
    commit_failed_closed,
    decided,
    edit,
    finish,
    output_started,
    permitted,
    planned,
    prompt_busy,
    prompt_idle,
    provider_failed,
    redo_idle,
    remove,
    resume_busy,
    resume_idle,
    rewind_idle,
    stopped,
    tool_finished,
    tool_finished_late,
)


class Verdict(Enum):
    IGNORED = "ignored"
    REFUSED = "refused"


def advance(turn: Turn, state: State, event: Input) -> Step:
    """One input. Never raises; an input whose cell says REFUSED answers its sender."""
    cell = TABLE[type(event)][turn.state]
    if cell is Verdict.IGNORED:
        return Step(turn, ())
    if cell is Verdict.REFUSED:
        return Step(turn, _refusal(turn, event))
    assert not isinstance(cell, Verdict)
    return cell(turn, state, event)


def _refusal(turn: Turn, event: Input) -> tuple[Command, ...]:
    error = ErrorReport(
        "session_closed", "This session is closed or read-only.", "Open it again, or fork it, and send once more."
    )
    match event:
        case PromptArrived(message):
            return (ReplyTurn(message.turn_id, Stop.FAILED, error),)
        case CompactAsked(ask_id):
            return (CompactionEnded((ask_id,), CompactionOutcome.REFUSED, Reason.MANUAL, error=error),)
        case RewindAsked(ask_id) | RedoAsked(ask_id):
            return (RefuseRewind(ask_id, error if turn.state is TurnState.CLOSED else _RUNNING),)
        case _:
            return ()


_RUNNING = ErrorReport(
    "turn_running", "The session is at work, so it can't go back now.", "Cancel what runs, or wait for its end."
)


# --- the table ---

Handler = Callable[[Turn, State, Any], Step]
Cell = Handler | Verdict

_ = Verdict.IGNORED
_R = Verdict.REFUSED

_COLUMNS = (
    TurnState.IDLE,
    TurnState.CALLING,
    TurnState.RUNNING_TOOLS,
    TurnState.AWAITING_APPROVAL,
    TurnState.COMPACTING,
    TurnState.CANCELLING,
    TurnState.CLOSED,
)

# fmt: off
_ROWS: dict[type[Any], tuple[Cell, ...]] = {
    #                     idle            calling           running tools   awaiting approval   compacting           cancelling           closed
    PromptArrived:       (prompt_idle,    prompt_busy,      prompt_busy,    prompt_busy,        prompt_busy,         prompt_busy,         _R),
    PromptEditAsked:     (edit,           edit,             edit,           edit,               edit,                edit,                _R),
    PromptRemoveAsked:   (remove,         remove,           remove,         remove,             remove,              remove,              _R),
    QueueResumeAsked:    (resume_idle,    resume_busy,      resume_busy,    resume_busy,        resume_busy,         resume_busy,         _R),
    CompactAsked:        (compact_idle,   compact_later,    compact_later,  compact_later,      compact_later,       compact_later,       _R),
    RewindAsked:         (rewind_idle,    _R,               _R,             _R,                 _R,                  _R,                  _R),
    RedoAsked:           (redo_idle,      _R,               _R,             _R,                 _R,                  _R,                  _R),
    CancelAsked:         (cancel_idle,    cancel,           cancel,         cancel,             cancel,              cancel_more,         _),
    CloseAsked:          (close_idle,     close_busy,       close_busy,     close_busy,         close_busy,          close_cancelling,    finish),
    StepPlanned:         (_,              planned,          _,              _,                  _,                   _,                   _),
    OutputStarted:       (_,              output_started,   _,              _,                  _,                   _,                   _),
    AnswerArrived:       (_,              answered,         _,              _,                  _,                   _,                   _),
    ProviderFailed:      (_,              provider_failed,  _,              _,                  _,                   _,                   _),
    CallsDecided:        (_,              _,                decided,        _,                  _,                   _,                   _),
    PermissionAnswered:  (_,              _,                _,              permitted,          _,                   _,                   _),
    ToolFinished:        (_,              _,                tool_finished,  _,                  _,                   tool_finished_late,  _),
    CompactionPlanned:   (_,              _,                _,              _,                  compaction_planned,  _,                   _),
    CompactionRefused:   (_,              _,                _,              _,                  compaction_refused,  _,                   _),
    SampleFinished:      (_,              _,                _,              _,                  sampled,             _,                   _),
    SampleFailed:        (_,              _,                _,              _,                  sample_failed,       _,                   _),
    GatePassed:          (_,              _,                _,              _,                  gate_passed,         _,                   _),
    GateRejected:        (_,              _,                _,              _,                  gate_rejected,       _,                   _),
    CheckpointDone:      (_,              _,                _,              _,                  checkpoint_done,     _,                   _),
    CheckpointFailed:    (_,              _,                _,              _,                  checkpoint_failed,   _,                   _),
    Stopped:             (_,              _,                _,              _,                  _,                   stopped,             _),
    CommitFailed:        (commit_failed,  commit_failed,    commit_failed,  commit_failed,      commit_failed,       commit_failed,       commit_failed_closed),
}
# fmt: on

TABLE: dict[type[Any], dict[TurnState, Cell]] = {
    event: dict(zip(_COLUMNS, cells, strict=True)) for event, cells in _ROWS.items()
}
