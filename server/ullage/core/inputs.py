"""Inputs: what is fed to the turn machine. What people ask, and what effects gave back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ullage.core.context import (
    CompactionPlan,
    CompactionReport,
    Replacement,
    StepPlan,
)
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    PromptMode,
)
from ullage.core.grants import PermissionGranted
from ullage.core.messages import Message, Part, ToolResult, Usage

# --- inputs: what people ask ---


@dataclass(frozen=True, slots=True)
class PromptArrived:
    """A prompt; its message carries the turn id. A repeated turn id is the same turn."""

    message: Message
    mode: PromptMode


@dataclass(frozen=True, slots=True)
class PromptEditAsked:
    message: Message


@dataclass(frozen=True, slots=True)
class PromptRemoveAsked:
    turn_id: str


@dataclass(frozen=True, slots=True)
class QueueResumeAsked:
    pass


@dataclass(frozen=True, slots=True)
class CompactAsked:
    """A manual compaction; `ask_id` names who waits for its outcome."""

    ask_id: str
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class RewindAsked:
    """Go back to just before a turn, named by its id or by that of the message that began it."""

    ask_id: str
    name: str


@dataclass(frozen=True, slots=True)
class RedoAsked:
    """Undo the newest rewind."""

    ask_id: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Cancel a turn, a waiting prompt or a manual compaction; None means whatever runs. A late one is harmless."""

    target: str | None = None


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """The session ends (shutdown, lost client): what runs is cancelled, then nothing is accepted any more."""


# --- inputs: what effects gave back ---


@dataclass(frozen=True, slots=True)
class StepPlanned:
    plan: StepPlan


@dataclass(frozen=True, slots=True)
class OutputStarted:
    """The provider boundary was passed: nothing is replayed from here on."""


@dataclass(frozen=True, slots=True)
class AnswerArrived:
    """A whole answer."""

    parts: tuple[Part, ...]
    usage: Usage
    stop: str
    model: str


@dataclass(frozen=True, slots=True)
class ProviderFailed:
    """A call failed. `partial` is what was streamed before; `limit` the window that the provider named."""

    error: ErrorReport
    overflow: bool = False
    limit: int | None = None
    partial: tuple[Part, ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True)
class Allowed:
    """`grant`: what the person allows from now on beside this call."""

    call_id: str
    grant: PermissionGranted | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    call_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A person must answer for this call."""

    call_id: str


Decision = Allowed | Denied | Waiting


@dataclass(frozen=True, slots=True)
class CallsDecided:
    """All calls of a step are decided before any runs."""

    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class PermissionAnswered:
    decision: Allowed | Denied


@dataclass(frozen=True, slots=True)
class ToolFinished:
    result: ToolResult


@dataclass(frozen=True, slots=True)
class CompactionPlanned:
    plan: CompactionPlan


@dataclass(frozen=True, slots=True)
class CompactionRefused:
    """No plan would help; nothing was called."""

    error: ErrorReport


@dataclass(frozen=True, slots=True)
class SampleFinished:
    """One sample of the model's summary: a ledger."""

    plan: CompactionPlan
    text: str
    usage: Usage
    model: str


class SampleProblem(StrEnum):
    """What a failed sample asks for."""

    TRANSIENT = "transient"
    """Another one may be better: after a while, the same again."""
    OVERFLOW = "overflow"
    """It did not fit: at once, with a smaller input."""
    FINAL = "final"
    """No other sample would be better."""


@dataclass(frozen=True, slots=True)
class SampleFailed:
    """One sample gave nothing. `spent_ms` and `spent_tokens` are what it took of the budget that samples share.

    `asked` is False where no call was made, so that there is nothing to book.
    """

    plan: CompactionPlan
    error: ErrorReport
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    problem: SampleProblem = SampleProblem.TRANSIENT
    spent_ms: int = 0
    spent_tokens: int = 0
    asked: bool = True


@dataclass(frozen=True, slots=True)
class GatePassed:
    plan: CompactionPlan
    replacement: Replacement
    report: CompactionReport


@dataclass(frozen=True, slots=True)
class GateRejected:
    """The replacement must not be used. `from_model` says whether a model wrote it; if so it is made without one."""

    plan: CompactionPlan
    error: ErrorReport
    from_model: bool


@dataclass(frozen=True, slots=True)
class CheckpointDone:
    report: CompactionReport


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """The checkpoint was not accepted (limits, revision); the old context stays."""

    error: ErrorReport


@dataclass(frozen=True, slots=True)
class Stopped:
    """Every running effect has ended after `StopEffects`; `partial` is what the model had said."""

    partial: tuple[Part, ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """The disk refused: the session is read-only from here on."""

    error: ErrorReport


Input = (
    PromptArrived
    | PromptEditAsked
    | PromptRemoveAsked
    | QueueResumeAsked
    | CompactAsked
    | RewindAsked
    | RedoAsked
    | CancelAsked
    | CloseAsked
    | StepPlanned
    | OutputStarted
    | AnswerArrived
    | ProviderFailed
    | CallsDecided
    | PermissionAnswered
    | ToolFinished
    | CompactionPlanned
    | CompactionRefused
    | SampleFinished
    | SampleFailed
    | GatePassed
    | GateRejected
    | CheckpointDone
    | CheckpointFailed
    | Stopped
    | CommitFailed
)

FROM_EFFECTS = (
    OutputStarted,
    AnswerArrived,
    ProviderFailed,
    PermissionAnswered,
    ToolFinished,
    SampleFinished,
    SampleFailed,
    GatePassed,
    GateRejected,
)
"""Inputs that come from effects."""
