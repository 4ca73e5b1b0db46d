"""What a session tells those who listen. Durable updates carry a seq; everything else is about right now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ullage.core.commands import CompactionOutcome
from ullage.core.context import CompactionReport, Occupancy, Reason, Strategy
from ullage.core.errors import ErrorReport
from ullage.core.events import Stop
from ullage.core.state import Facts, Totals
from ullage.core.views import Shown


@dataclass(frozen=True, slots=True)
class Updated:
    """A durable update, synced before it is told."""

    shown: Shown


class DeltaKind(StrEnum):
    TEXT = "text"
    REASONING = "reasoning"
    OUTPUT = "output"
    """What a running call prints."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of what is being streamed, an answer or the output of one of its calls; never logged.

    `offset` counts code points of the same stream before this piece, `after_seq` is the newest durable seq. Where an
    output runs faster than it is told, pieces are missing.
    """

    after_seq: int
    message_id: str
    kind: DeltaKind
    offset: int
    text: str
    call_id: str | None = None
    """The call that printed it."""

    @property
    def stream(self) -> tuple[str, DeltaKind, str | None]:
        """What it is a piece of."""
        return self.message_id, self.kind, self.call_id


@dataclass(frozen=True, slots=True)
class Retried:
    """The model was called in vain and is called again after `wait_ms`: try `attempt` of `most`. Never logged."""

    after_seq: int
    message_id: str
    attempt: int
    most: int
    wait_ms: int
    error: ErrorReport


@dataclass(frozen=True, slots=True)
class Occupied:
    """The one number, whenever it changed, and what was paid so far: for turns, and for summaries."""

    occupancy: Occupancy
    turns: Totals
    summaries: Totals


def occupied(occupancy: Occupancy, facts: Facts) -> Occupied:
    """The number with the bill as it is now."""
    return Occupied(occupancy, facts.turn_totals, facts.summary_totals)


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a person should know, which stops nothing. Never logged."""

    report: ErrorReport


class CompactionStatus(StrEnum):
    STARTED = "started"
    SUMMARISING = "summarising"
    RETRYING = "retrying"
    GATED = "gated"
    COMMITTED = "committed"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


STATUS_OF = {
    CompactionOutcome.COMMITTED: CompactionStatus.COMMITTED,
    CompactionOutcome.FAILED: CompactionStatus.FAILED,
    CompactionOutcome.REFUSED: CompactionStatus.SKIPPED,
    CompactionOutcome.CANCELLED: CompactionStatus.CANCELLED,
}
"""Where a compaction stands that ended so."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Where a compaction stands. `report` comes with `committed`, `error` with `failed` and `skipped`."""

    status: CompactionStatus
    reason: Reason
    profile: str
    strategy: Strategy | None = None
    report: CompactionReport | None = None
    error: ErrorReport | None = None


Notice = Updated | Delta | Retried | Occupied | Compacted | Warned
Listener = Callable[[str, Notice], None]
"""Called on the loop with the session id; must not block."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Where a turn's time went, in milliseconds: `model_ms` is waiting for the model, the rest ours and the tools'."""

    steps: int = 0
    wall_ms: int = 0
    model_ms: int = 0


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a prompt ended: a turn's stop, or None for steering that entered a running turn."""

    stop: Stop | None
    error: ErrorReport | None
    totals: Totals
    timing: Timing = Timing()


@dataclass(frozen=True, slots=True)
class RewindAnswer:
    """What a rewind or a redo did, or would do. `before` and `after` are occupancies in tokens.

    `turns` went or came back, oldest first; `written` are files that tools wrote in them, which stay as they are. `seq`
    is that of the event, None where nothing was written.
    """

    turns: tuple[str, ...]
    written: tuple[str, ...]
    before: int
    after: int
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class CompactionAnswer:
    """How a manual compaction ended."""

    outcome: CompactionOutcome
    report: CompactionReport | None
    error: ErrorReport | None
