"""Payloads of `ullage/session/update`: one model for each thing a client may be shown, and no model for anything else.

Rule: there is no field here that a hidden event could be put into; `core.views` decides what is shown, by type.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ullage.core.context import OmissionReason, Reason
from ullage.core.events import PromptMode, Stop
from ullage.core.messages import Op, Role
from ullage.editors.payloads import (
    CleanText,
    ErrorPayload,
    ParentPayload,
    Payload,
    ReportPayload,
    Seq,
    SessionId,
    UsagePayload,
)
from ullage.editors.payloads_session import ConfigPayload
from ullage.sessions.notices import DeltaKind


class BlobPayload(Payload):
    """Content kept beside the log. The tool `read_output` pages through it by this name."""

    sha256: str = Field(description="Hash of the content, hex.")
    size: int = Field(description="Bytes.")


class ImagePayload(Payload):
    """A picture, by reference."""

    blob: BlobPayload
    media_type: CleanText = Field(description="Such as image/png.")
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")


class PromptUpdate(Payload):
    """A prompt waits, or was edited while it waited. An idle session starts its turn at once."""

    kind: Literal["prompt"] = "prompt"
    turn_id: CleanText = Field(description="The turn it will be.")
    message_id: CleanText = Field(description="Its message.")
    text: CleanText = Field(description="What was said.")
    images: tuple[ImagePayload, ...] = Field(description="What was shown.")
    mode: PromptMode | None = Field(description="How it enters a running turn; null when it was edited.")


class PromptRemovedUpdate(Payload):
    """A waiting prompt was taken out of the queue."""

    kind: Literal["promptRemoved"] = "promptRemoved"
    turn_id: CleanText = Field(description="The turn it would have been.")


class QueueUpdate(Payload):
    """The queue waits for a person, or runs again."""

    kind: Literal["queue"] = "queue"
    held: CleanText | None = Field(description="Why it waits; null when it runs.")


class TurnStartedUpdate(Payload):
    """A waiting prompt became the running turn."""

    kind: Literal["turnStarted"] = "turnStarted"
    turn_id: CleanText = Field(description="The turn.")


class SteerEnteredUpdate(Payload):
    """A waiting prompt became part of the running turn."""

    kind: Literal["steerEntered"] = "steerEntered"
    turn_id: CleanText = Field(description="The running turn.")
    steer_id: CleanText = Field(description="Turn id of the prompt that entered.")


class ToolCallPayload(Payload):
    """A tool the model asked for."""

    call_id: CleanText = Field(description="Names the call in results.")
    name: CleanText = Field(description="The tool.")
    arguments: CleanText = Field(description="Raw JSON text as the model wrote it, valid or not; may be cut.")
    arguments_bytes: int = Field(description="Bytes of the arguments before cutting.")


class AnswerUpdate(Payload):
    """The model's answer; takes the place of its deltas."""

    kind: Literal["answer"] = "answer"
    turn_id: CleanText = Field(description="The turn.")
    message_id: CleanText = Field(description="Its message.")
    text: CleanText = Field(description="What it said.")
    reasoning: CleanText = Field(description="Its readable thinking; may be empty.")
    calls: tuple[ToolCallPayload, ...] = Field(description="What it asked for.")
    usage: UsagePayload
    stop: CleanText = Field(description="Why it stopped, in its provider's words; `cancelled` and `failed` are ours.")
    model: CleanText = Field(description="Who answered.")


class ToolResultPayload(Payload):
    """What a call gave back."""

    call_id: CleanText = Field(description="The call.")
    text: CleanText = Field(description="The text as the model saw it; may be cut.")
    text_bytes: int = Field(description="Bytes of that text before cutting.")
    full: BlobPayload | None = Field(description="The whole output, when the model saw a part of it.")
    is_error: bool = Field(description="Whether the call failed.")
    op: Op = Field(description="What kind of act it was.")
    paths: tuple[CleanText, ...] = Field(description="Files it was about, relative to the root.")
    command: CleanText | None = Field(description="The command that ran.")
    exit_code: int | None = Field(description="How the command ended.")
    detail: CleanText | None = Field(description="One line about the outcome.")
    images: tuple[ImagePayload, ...] = Field(description="Pictures it gave back.")


class ToolResultUpdate(Payload):
    """Tool calls have ended."""

    kind: Literal["toolResult"] = "toolResult"
    turn_id: CleanText = Field(description="The turn.")
    message_id: CleanText = Field(description="Its message.")
    results: tuple[ToolResultPayload, ...] = Field(description="One, as things are.")


class TurnEndedUpdate(Payload):
    """A turn has ended."""

    kind: Literal["turnEnded"] = "turnEnded"
    turn_id: CleanText = Field(description="The turn.")
    stop: Stop = Field(description="How it ended.")
    error: ErrorPayload | None = Field(description="What went wrong, where something did.")


class CompactedUpdate(Payload):
    """A boundary in the transcript: what came before, the model knows by this ledger."""

    kind: Literal["compacted"] = "compacted"
    reason: Reason = Field(description="Why it was done.")
    report: ReportPayload
    ledger: CleanText = Field(description="What the model is told of the past.")


class CompactionFailedUpdate(Payload):
    """A compaction changed nothing."""

    kind: Literal["compactionFailed"] = "compactionFailed"
    reason: Reason = Field(description="Why it was tried.")
    error: ErrorPayload


class PinnedUpdate(Payload):
    """The person pinned something: the model has it in view, through every compaction, until they take it back."""

    kind: Literal["pinned"] = "pinned"
    pin_id: CleanText = Field(description="Names the pin.")
    message_id: CleanText | None = Field(description="The pinned message; null for a text they typed.")
    role: Role = Field(description="Who said it.")
    text: CleanText = Field(description="What is pinned, whole.")


class UnpinnedUpdate(Payload):
    """The person took a pin back."""

    kind: Literal["unpinned"] = "unpinned"
    pin_id: CleanText = Field(description="The pin.")


class OmissionUpdate(Payload):
    """Messages that the model does not see from here on, or sees again. The transcript stays whole."""

    kind: Literal["omission"] = "omission"
    seqs: tuple[int, ...] = Field(description="Of the updates with which the messages entered the session.")
    reason: OmissionReason | None = Field(
        description="`micro`: the provider's cache had expired; `snip`: the window was filling up; `asked`: a person "
        "named them; null: they are seen again."
    )
    tokens: int | None = Field(description="What they took; null where they are seen again.")


class InstructionsUpdate(Payload):
    """The model was told of an instruction file of the workspace (such as AGENTS.md)."""

    kind: Literal["instructions"] = "instructions"
    path: CleanText = Field(description="The file, relative to the root.")
    tokens: int = Field(description="What the model was told takes so many tokens.")
    note: CleanText | None = Field(
        description="What is missing: `cut` (its beginning is there), `gone` or `untrusted` (it holds no longer), or "
        "why it was not read, such as `symlink` or `secret`; null when it is whole."
    )


class RewoundUpdate(Payload):
    """The conversation went back: show these turns no more, nor what else was told of it from `beforeSeq` on.

    Prompts that still wait, settings and titles stay. Keep what is taken back until the next turn starts: a redo may
    bring it back.
    """

    kind: Literal["rewound"] = "rewound"
    turn_id: CleanText = Field(description="The first of the turns, in front of which the session is now.")
    before_seq: int = Field(description="The seq that it started at.")
    turns: tuple[CleanText, ...] = Field(
        description="Turn ids of turns and steering that are taken back, oldest first."
    )


class RedoneUpdate(Payload):
    """A rewind was undone: what it took back is a part of the transcript again."""

    kind: Literal["redone"] = "redone"
    rewind_seq: int = Field(description="Seq of the rewind.")
    turns: tuple[CleanText, ...] = Field(description="Turn ids of turns and steering that are back, oldest first.")


class CreatedUpdate(Payload):
    """The session began."""

    kind: Literal["created"] = "created"
    root: CleanText = Field(description="Real path of its workspace.")
    parent: ParentPayload | None = Field(description="Where it was forked from.")


class ForkedUpdate(Payload):
    """Here ends what was copied from the parent. Its queue and open turn stayed behind."""

    kind: Literal["forked"] = "forked"
    parent: ParentPayload


class RenamedUpdate(Payload):
    """The session got a title."""

    kind: Literal["renamed"] = "renamed"
    title: CleanText = Field(description="The title; may be empty.")


class ConfiguredUpdate(Payload):
    """Settings of the session were changed."""

    kind: Literal["configured"] = "configured"
    change: ConfigPayload = Field(description="What was changed; null in it means that it stays.")


class RepairedUpdate(Payload):
    """The end of the log was damaged (a crash while writing): it was copied aside and cut."""

    kind: Literal["repaired"] = "repaired"
    offset: int = Field(description="Where the damage began, in bytes of the file.")
    size: int = Field(description="How much was cut, in bytes.")
    kept_as: CleanText = Field(description="Name of the copy.")


class DamageAcceptedUpdate(Payload):
    """A person agreed to go on after damage that stays in the log."""

    kind: Literal["damageAccepted"] = "damageAccepted"
    ranges: tuple[tuple[int, int], ...] = Field(description="Byte ranges, start and end, end excluded.")


class DeltaUpdate(Payload):
    """A piece of an answer that is being streamed, or of what one of its calls prints while it runs. Not durable; may
    be dropped when the client does not read."""

    kind: Literal["delta"] = "delta"
    of: DeltaKind = Field(description="What it is a piece of; `output` is a call's.")
    message_id: CleanText = Field(description="The answer's message.")
    call_id: CleanText | None = Field(description="The call that prints; null for the answer itself.")
    after_seq: int = Field(description="Newest durable seq when it was streamed.")
    offset: int = Field(
        description="Code points of the same before this piece; 0 begins anew. A gap in an `output` means that it ran "
        "faster than it is told; the call's result has it."
    )
    text: CleanText = Field(description="The piece.")


class RetryingUpdate(Payload):
    """The model was called in vain and is called again by itself. Not durable; whatever follows ends it."""

    kind: Literal["retrying"] = "retrying"
    message_id: CleanText = Field(description="The answer's message.")
    after_seq: int = Field(description="Newest durable seq at that time.")
    attempt: int = Field(description="Number of the coming try.")
    most: int = Field(description="Tries there may be.")
    wait_ms: int = Field(description="Milliseconds until then.")
    error: ErrorPayload


DurableUpdate = (
    PromptUpdate
    | PromptRemovedUpdate
    | QueueUpdate
    | TurnStartedUpdate
    | SteerEnteredUpdate
    | AnswerUpdate
    | ToolResultUpdate
    | TurnEndedUpdate
    | CompactedUpdate
    | CompactionFailedUpdate
    | PinnedUpdate
    | UnpinnedUpdate
    | OmissionUpdate
    | InstructionsUpdate
    | RewoundUpdate
    | RedoneUpdate
    | CreatedUpdate
    | ForkedUpdate
    | RenamedUpdate
    | ConfiguredUpdate
    | RepairedUpdate
    | DamageAcceptedUpdate
)


class SessionUpdate(Payload):
    """One thing that happened in a session. Durable ones have a seq, ascending with gaps; the others have none."""

    session_id: SessionId
    seq: Seq | None = Field(description="Its place in the log; null for deltas and retries.")
    at: int | None = Field(description="When it was written, UTC milliseconds; null for deltas and retries.")
    update: Annotated[
        DurableUpdate | DeltaUpdate | RetryingUpdate, Field(discriminator="kind", description="What happened.")
    ]
