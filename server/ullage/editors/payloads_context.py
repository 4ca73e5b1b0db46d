"""Payloads about the context window, and the one request that goes to a client.

Rule: what is hidden is a figure here, never text.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ullage.context.handoff import HandoffState
from ullage.core.context import Measured, Phase, Reason, Strategy
from ullage.core.messages import Role
from ullage.editors.payloads import (
    CleanText,
    ErrorPayload,
    Payload,
    ReportPayload,
    SessionId,
    TotalsPayload,
)
from ullage.sessions.notices import CompactionStatus


class OccupancyFigures(Payload):
    """The one number and what it is measured against, all in tokens."""

    used: int = Field(description="Tokens the next request will take.")
    estimated: int = Field(description="The part of `used` that no provider measured.")
    source: Measured = Field(description="Which part was measured.")
    fixed: int = Field(description="System prompt and tool schemas.")
    hidden: int = Field(description="The handoff, as a figure.")
    phase: Phase = Field(description="Where `used` stands against the lines.")
    window: int | None = Field(description="The model's whole context; null when nobody said how large it is.")
    window_source: CleanText = Field(description="Who said so.")
    reserve: int = Field(description="Kept free for the answer.")
    input_budget: int = Field(description="Window minus reserve.")
    handoff_line: int = Field(description="70 % of the input budget.")
    compaction_line: int = Field(description="80 % of the input budget.")


class OccupancyPayload(OccupancyFigures):
    """The one number of a session, whenever it changed."""

    session_id: SessionId
    totals: TotalsPayload = Field(description="Paid for turns so far.")
    cost: int | None = Field(
        description="Micro-dollars that turns and summaries cost so far, where prices are known; null where none is."
    )
    unpriced: int = Field(description="Calls whose cost is not known, so that `cost` is less than what was paid.")


class CompactionPayload(Payload):
    """Where a compaction stands."""

    session_id: SessionId
    status: CompactionStatus = Field(description="How far it is.")
    reason: Reason = Field(description="Why it runs.")
    profile: str = Field(description="The profile that compacts.")
    strategy: Strategy | None = Field(description="Who writes the replacement.")
    report: ReportPayload | None = Field(description="What it does; comes with `gated` and `committed`.")
    error: ErrorPayload | None = Field(description="Why not; comes with `failed` and `skipped`.")


class WarningPayload(Payload):
    """Something a person should know, which stops nothing."""

    session_id: SessionId
    warning: ErrorPayload


class CategoryPayload(Payload):
    """A share of the next request."""

    name: CleanText = Field(description="Such as system, tools, user, assistant, `results: read`, summary, hidden.")
    tokens: int = Field(description="Tokens.")


class BiggestPayload(Payload):
    """One of the biggest things in the next request."""

    seq: int = Field(description="Its event.")
    message_id: str = Field(description="Its message.")
    category: CleanText = Field(description="The category it counts in.")
    tokens: int = Field(description="Tokens.")


class CheckpointPayload(Payload):
    """A compaction of this session."""

    seq: int = Field(description="Its event.")
    at: int = Field(description="When, UTC milliseconds.")
    report: ReportPayload


class PinPayload(Payload):
    """What the person keeps in view."""

    pin_id: CleanText = Field(description="Names the pin.")
    message_id: CleanText | None = Field(description="The pinned message; null for a text they typed.")
    role: Role = Field(description="Who said it.")
    text: CleanText = Field(description="What is pinned, whole.")
    tokens: int = Field(description="Tokens it takes where a compaction keeps it; in view already, it costs nothing.")


class LeftOutPayload(Payload):
    """What the model does not see, though no compaction replaced it."""

    message_ids: tuple[str, ...] = Field(description="Its messages, in the order they were said.")
    tokens: int = Field(description="What they would take.")


class InspectResult(Payload):
    """What fills the window."""

    occupancy: OccupancyFigures
    categories: tuple[CategoryPayload, ...] = Field(description="Biggest first; what is hidden is one figure.")
    biggest: tuple[BiggestPayload, ...] = Field(description="Biggest first.")
    checkpoints: tuple[CheckpointPayload, ...] = Field(description="Oldest first.")
    pins: tuple[PinPayload, ...] = Field(description="In the order they were pinned.")
    left_out: LeftOutPayload
    turn_totals: TotalsPayload = Field(description="Paid for turns.")
    summary_totals: TotalsPayload = Field(description="Paid for summaries.")
    handoff: HandoffState = Field(
        description="The handoff since the last compaction: none, valid, or suppressed, which means that its record in "
        "the log is malformed or stands twice, so that the model sees none until the next compaction."
    )


class PermissionParams(Payload):
    """A call that a person must decide on. Reading never asks."""

    session_id: SessionId
    call_id: str = Field(description="The call.")
    name: CleanText = Field(description="The tool.")
    arguments: CleanText = Field(description="Its arguments, raw JSON text, whole.")
    description: CleanText = Field(description="What the tool does.")
    shown: CleanText = Field(
        description="What would be done: the diff of every file, or the command, whole. What is invisible is escaped."
    )
    targets: tuple[CleanText, ...] = Field(
        description="The files that would be changed, as real paths; for a command the folder it runs in."
    )
    sha256: str = Field(
        description="Names all that would be done. When that changes before it is done, nothing is done and another "
        "request follows for the same call."
    )
    careful: CleanText | None = Field(
        description="Why this is asked for in every mode; null where it is not. No grant covers it."
    )
    grant: CleanText | None = Field(
        description="What `scope: session` would allow from now on, in words; null where nothing more than this call."
    )


class PermissionResult(Payload):
    """The person's word. Anything else, and no answer, means deny."""

    decision: Literal["allow", "deny"] = Field(description="Whether this one call may run.")
    reason: CleanText = Field(default="", description="Told to the model when denied.")
    scope: Literal["once", "session"] = Field(
        default="once", description="`session` allows what `grant` says until the permission mode is set."
    )
