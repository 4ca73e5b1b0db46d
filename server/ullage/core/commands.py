"""Commands: what the turn machine orders. It decides and never acts; `sessions.actor` acts and never decides.

Events inside `Append` carry no token counts yet: the actor counts before it appends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ullage.core.context import (
    CompactionPlan,
    CompactionReport,
    HandoffFirst,
    Occupancy,
    Reason,
    Replacement,
)
from ullage.core.errors import ErrorReport
from ullage.core.events import Event, Stop
from ullage.core.messages import ToolCall


@dataclass(frozen=True, slots=True)
class Append:
    """Write these events as one batch. With `barrier` it is synced before the next command runs.

    A failed append drops the commands after it and feeds `CommitFailed`.
    """

    events: tuple[Event, ...]
    barrier: bool = False


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Project occupancy of the next request and decide; feeds `StepPlanned`."""


@dataclass(frozen=True, slots=True)
class RecordHandoff:
    """Append the handoff record of this epoch (it needs a clock and an id)."""

    plan: HandoffFirst


@dataclass(frozen=True, slots=True)
class CallProvider:
    """Send the planned request; feeds `OutputStarted`, then `AnswerArrived` or `ProviderFailed`."""

    turn_id: str
    step: int
    occupancy: Occupancy


@dataclass(frozen=True, slots=True)
class DecideCalls:
    """Ask the permissions; feeds `CallsDecided`."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class AskPermission:
    """Ask the person; feeds `PermissionAnswered`."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls at the same time, after what they rest on is synced; each feeds `ToolFinished`."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class PlanCompaction:
    """Feeds `CompactionPlanned` or `CompactionRefused`. `limit` is a window that the provider named, in tokens."""

    reason: Reason
    limit: int | None = None
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class Summarise:
    """Take one sample; feeds `SampleFinished` or `SampleFailed`. `sample` counts from 1.

    `shrinks` says how many times its input was made smaller; `pause_ms` comes before it, and the call itself may take
    `most_ms` and `most_tokens` of output.
    """

    plan: CompactionPlan
    sample: int
    shrinks: int = 0
    pause_ms: int = 0
    most_ms: int = 0
    most_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Assemble:
    """Make the replacement and gate it; feeds `GatePassed` or `GateRejected`.

    Without `summary` it is made without a model; `failure` then says why the model's was not used.
    """

    plan: CompactionPlan
    summary: str | None
    samples: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class CommitCheckpoint:
    """Write and sync the checkpoint, then swap; feeds `CheckpointDone` or `CheckpointFailed`."""

    plan: CompactionPlan
    replacement: Replacement
    report: CompactionReport


@dataclass(frozen=True, slots=True)
class Rewind:
    """Find the turn, write and sync the rewind, then swap, and answer who asked; `name` None: redo instead."""

    ask_id: str
    name: str | None


@dataclass(frozen=True, slots=True)
class RefuseRewind:
    """Answer who asked for a rewind or a redo that can't be."""

    ask_id: str
    error: ErrorReport


@dataclass(frozen=True, slots=True)
class StopEffects:
    """Stop whatever runs and wait for its end; feeds `Stopped`."""


@dataclass(frozen=True, slots=True)
class ReplyTurn:
    """Answer whoever waits for this turn, once everything before is synced. A steer is answered with None."""

    turn_id: str
    stop: Stop | None
    error: ErrorReport | None = None


class CompactionOutcome(StrEnum):
    COMMITTED = "committed"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class CompactionEnded:
    """Tell the client how a compaction ended, and answer those who asked for it."""

    ask_ids: tuple[str, ...]
    outcome: CompactionOutcome
    reason: Reason
    report: CompactionReport | None = None
    error: ErrorReport | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The session is closed: let go of lock and log."""


Command = (
    Append
    | PlanStep
    | RecordHandoff
    | CallProvider
    | DecideCalls
    | AskPermission
    | RunTools
    | PlanCompaction
    | Summarise
    | Assemble
    | CommitCheckpoint
    | Rewind
    | RefuseRewind
    | StopEffects
    | ReplyTurn
    | CompactionEnded
    | Finish
)
