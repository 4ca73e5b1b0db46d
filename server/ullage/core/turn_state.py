"""What runs right now in one session: the part of a turn that a crash ends anyway."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ullage.core.commands import (
    Command,
)
from ullage.core.context import Occupancy, Reason
from ullage.core.errors import ErrorReport
from ullage.core.inputs import (
    CompactAsked,
)
from ullage.core.limits import LIMITS, Limits
from ullage.core.messages import ToolCall


class TurnState(StrEnum):
    IDLE = "idle"
    CALLING = "calling"
    RUNNING_TOOLS = "running_tools"
    AWAITING_APPROVAL = "awaiting_approval"
    COMPACTING = "compacting"
    CANCELLING = "cancelling"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Compacting:
    """The compaction under way. `failure` is why the model's summary was given up; `cause` what a recovery is for."""

    reason: Reason
    asks: tuple[str, ...] = ()
    samples: int = 0
    shrinks: int = 0
    spent_ms: int = 0
    spent_tokens: int = 0
    failure: str | None = None
    cause: ErrorReport | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What runs right now. Turn id, step and open calls are the state's (`facts.open_turn`)."""

    state: TurnState = TurnState.IDLE
    delivered: bool = False
    """The provider boundary of the call under way was passed."""
    planned: Occupancy | None = None
    calls: tuple[ToolCall, ...] = ()
    """Calls of this step that may run once all are decided."""
    waiting: frozenset[str] = frozenset()
    """Call ids that wait for a person."""
    running: frozenset[str] = frozenset()
    compacting: Compacting | None = None
    only_compaction: bool = False
    """What is being cancelled is a manual compaction inside a turn; the turn goes on."""
    wanted: tuple[CompactAsked, ...] = ()
    """Manual compactions asked for while a turn ran; done before its next step or after its end."""
    closing: bool = False
    limits: Limits = LIMITS
    """The same for a session's whole life."""


class Step(NamedTuple):
    turn: Turn
    commands: tuple[Command, ...]
