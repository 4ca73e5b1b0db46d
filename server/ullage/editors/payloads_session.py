"""Payloads of requests about sessions and their queues."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ullage.core.commands import CompactionOutcome
from ullage.core.context import Strategy
from ullage.core.events import Stop
from ullage.core.passages import PassageKind
from ullage.editors.payloads import (
    CleanText,
    ErrorPayload,
    ParentPayload,
    Payload,
    ReportPayload,
    SessionId,
    TotalsPayload,
    TurnId,
)

Root = Annotated[
    CleanText | None,
    Field(description="The workspace: a file URI or an absolute path. May be left out while only one is open."),
]
Title = Annotated[CleanText, Field(max_length=200, description="Title of the session; may be empty.")]
Mention = Annotated[CleanText, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]


class SessionParams(Payload):
    """Names an open session."""

    session_id: SessionId


class ConfigPayload(Payload):
    """Settings of a session as they are; null means the server's setting, or the provider's word."""

    model: CleanText | None = Field(description="Model that answers.")
    profile: CleanText | None = Field(description="Way of keeping inside the window.")
    permission_mode: CleanText | None = Field(description="What the agent may do without being asked.")
    window: int | None = Field(description="Whole context, in tokens.")
    output_cap: int | None = Field(description="Output reserve, in tokens.")
    auto_compaction: bool | None = Field(description="Whether it compacts by itself at the compaction line.")
    handoff: bool | None = Field(description="Whether the model is reminded once, before the compaction line.")


class ConfigChange(Payload):
    """Settings to change; null leaves one as it is."""

    model: CleanText | None = Field(default=None, min_length=1, max_length=200, description="Model that answers.")
    profile: str | None = Field(
        default=None, pattern=r"^[a-z][a-z0-9_-]{0,39}$", description="Way of keeping inside the window."
    )
    permission_mode: Literal["plan", "ask", "edits", "auto"] | None = Field(
        default=None, description="What the agent may do without being asked."
    )
    window: int | None = Field(default=None, ge=1_000, le=100_000_000, description="Whole context, in tokens.")
    output_cap: int | None = Field(default=None, ge=1, le=100_000_000, description="Output reserve, in tokens.")
    auto_compaction: bool | None = Field(default=None, description="Compact by itself at the compaction line.")
    handoff: bool | None = Field(default=None, description="Remind the model once, before the compaction line.")


class NewParams(Payload):
    """Begin a session in a workspace."""

    root: Root = None
    title: Title = ""
    config: ConfigChange | None = Field(default=None, description="Settings to begin with.")


class ListParams(Payload):
    """Ask for the sessions of a workspace."""

    root: Root = None


class OpenParams(SessionParams):
    """Open a session, or ask again for what was missed of it."""

    root: Root = None
    from_seq: int = Field(
        default=0, ge=0, description="First seq wanted: one more than the newest that the client has."
    )
    read_only: bool = Field(default=False, description="Open to read, even while another process writes.")


class ResumePayload(Payload):
    """What going on with a session begins with: nothing of it may be in the provider's cache any more."""

    tokens: int = Field(description="Tokens of the next request.")
    cost: int | None = Field(description="Most micro-dollars of these; null where no price is known.")
    idle_ms: int | None = Field(description="Milliseconds since a model was last called; null where none ever was.")
    large_and_idle: bool = Field(
        description="Whether to ask first, or offer a compaction: by `limits.context.resume_tokens` and "
        "`limits.context.resume_minutes`."
    )


class SessionPayload(Payload):
    """A session as it was when its updates had been sent."""

    session_id: SessionId
    root: CleanText = Field(description="Real path of its workspace.")
    title: CleanText = Field(description="Its title; may be empty.")
    parent: ParentPayload | None = Field(description="Where it was forked from.")
    seq: int = Field(description="Newest durable seq; updates up to it have been sent. -1 when there is none.")
    running_turn: str | None = Field(description="The turn in progress.")
    waiting_turns: tuple[str, ...] = Field(description="Turn ids of waiting prompts, in order.")
    held: CleanText | None = Field(description="Why the queue waits for a person; null when it does not.")
    read_only: CleanText | None = Field(description="Why nothing can be written; null when it can.")
    config: ConfigPayload = Field(description="Settings of this session.")
    resume: ResumePayload = Field(description="What its next prompt begins with.")


class SummaryPayload(Payload):
    """A session in a list."""

    session_id: SessionId
    title: CleanText = Field(description="Its title; may be empty.")
    parent: ParentPayload | None = Field(description="Where it was forked from.")
    created_at: int = Field(description="When it began, UTC milliseconds.")
    updated_at: int = Field(description="When it was last written to, UTC milliseconds.")
    last_seq: int = Field(description="Newest seq; -1 when none can be read.")
    size: int = Field(description="Bytes of its log.")
    damaged: bool = Field(description="Whether unreadable bytes were seen.")
    open_turn: bool = Field(description="Whether a turn has no end: it runs, or its process was ended.")


class ListResult(Payload):
    """The sessions of a workspace, newest first."""

    sessions: tuple[SummaryPayload, ...] = Field(description="Newest first.")


class SearchParams(Payload):
    """Search what was said in all sessions of a workspace."""

    root: Root = None
    query: CleanText = Field(min_length=1, max_length=2_000, description='Words; a phrase in "double quotes".')
    limit: int = Field(default=20, ge=1, le=100, description="Most sessions to answer with.")


class HitPayload(Payload):
    """A passage in which words of the query stand. Only what clients may see is searched."""

    seq: int = Field(description="The update that it is a part of.")
    at: int = Field(description="When that was, UTC milliseconds.")
    message_id: str = Field(description="The message; empty for a title.")
    kind: PassageKind = Field(description="What of the message it is.")
    label: CleanText = Field(description="Tool, paths and command of a call or result; else empty.")
    snippet: CleanText = Field(description="Text around what was found.")


class FoundPayload(Payload):
    """A session in which something was found."""

    session: SummaryPayload
    hits: tuple[HitPayload, ...] = Field(description="At most three, the best first.")


class SearchResult(Payload):
    """What was found."""

    sessions: tuple[FoundPayload, ...] = Field(description="The best first.")
    complete: bool = Field(description="False when time was up before everything was looked at.")


class ImageInput(Payload):
    """An image in a prompt. Not supported yet: refused with `images_unsupported`."""

    media_type: str = Field(description="Such as image/png.")
    data: str = Field(description="The bytes, base64.")


class PromptContent(SessionParams):
    """What a person says."""

    text: CleanText = Field(description="The text; may be empty when something is mentioned.")
    images: list[ImageInput] = Field(default=[], description="Images; see `capabilities.experimental.ullage.images`.")
    mentions: list[Mention] = Field(
        default=[], max_length=100, description="Paths the text is about; they follow it as plain lines."
    )


class PromptParams(PromptContent):
    """Prompt a session. Answered when the prompt's own turn has ended."""

    turn_id: TurnId | None = Field(default=None, description="Made by the server when left out.")
    mode: Literal["queue", "steer"] = Field(
        default="queue", description="While a turn runs: wait for its end, or enter at its next step."
    )


class TimingPayload(Payload):
    """Where a turn's time went."""

    steps: int = Field(description="Model calls of the turn.")
    wall_ms: int = Field(description="Milliseconds from the turn's start to its end.")
    model_ms: int = Field(description="Of these, milliseconds spent waiting for the model.")


class PromptResult(Payload):
    """How a prompt ended."""

    turn_id: TurnId
    stop: Stop | None = Field(description="How the turn ended; null for steering that entered a running turn.")
    error: ErrorPayload | None = Field(description="What went wrong, where something did.")
    totals: TotalsPayload = Field(description="Paid for turns of this session so far.")
    timing: TimingPayload


class CancelParams(SessionParams):
    """Cancel a turn, a waiting prompt, or whatever runs. A late cancel is harmless."""

    turn_id: TurnId | None = Field(default=None, description="Left out: whatever runs.")


class QueueEditParams(PromptContent):
    """Replace a waiting prompt."""

    turn_id: TurnId


class QueueRemoveParams(SessionParams):
    """Take a waiting prompt out of the queue."""

    turn_id: TurnId


class CompactParams(SessionParams):
    """Compact a session now, or before the next step of its running turn."""

    instructions: CleanText = Field(default="", max_length=10_000, description="What to take care of.")
    dry_run: bool = Field(default=False, description="Only say what would stay, go and cost; nothing is written.")


class PreviewPayload(Payload):
    """What a compaction would do."""

    before: int = Field(description="Tokens of the next request now.")
    after: int = Field(description="Most tokens of the next request afterwards.")
    strategy: Strategy | None = Field(description="Who would write the replacement; null when it would be refused.")
    messages: int = Field(description="Messages that the replacement would stand for.")
    error: ErrorPayload | None = Field(description="Why it would be refused.")


class CompactResult(Payload):
    """How a compaction ended, or what it would do: a dry run has only `preview`."""

    outcome: CompactionOutcome | None = Field(description="How it ended.")
    report: ReportPayload | None = Field(description="What was done, when it was committed.")
    error: ErrorPayload | None = Field(description="Why it was not.")
    preview: PreviewPayload | None = Field(description="The dry run.")


class RewindParams(SessionParams):
    """Go back to just before a turn. One of `turnId` and `messageId` names it."""

    turn_id: TurnId | None = Field(default=None, description="The first turn to take back.")
    message_id: CleanText | None = Field(
        default=None, min_length=1, max_length=200, description="The user message that began it."
    )
    dry_run: bool = Field(default=False, description="Only say what would go; nothing is written.")


class RewindResult(Payload):
    """What a rewind took back, what a redo brought back, or what a rewind would take back."""

    seq: int | None = Field(description="Seq of the rewind or the redo; null for a dry run.")
    turns: tuple[str, ...] = Field(description="Turn ids of the turns and the steering, oldest first.")
    before: int = Field(description="Tokens of the next request before.")
    after: int = Field(description="Tokens of the next request after.")
    written_files: tuple[CleanText, ...] = Field(
        description="Files that tools wrote in turns that go, relative to the root. They stay as they are now."
    )


class ForkParams(SessionParams):
    """Begin a new session with a copy of this one. The answer and updates are those of the fork."""

    at_seq: int | None = Field(default=None, ge=0, description="Last seq to copy; left out: everything.")


class PinParams(SessionParams):
    """Pin a message of the session, or a text: one of them, not both."""

    message_id: CleanText | None = Field(default=None, min_length=1, max_length=300, description="The message to pin.")
    text: CleanText | None = Field(default=None, max_length=100_000, description="What to pin that nobody said yet.")


class PinResult(Payload):
    """The pin; what was pinned already keeps the pin it has."""

    pin_id: str = Field(description="Names the pin.")


class UnpinParams(SessionParams):
    """Take a pin back. One that is not there is no error."""

    pin_id: CleanText = Field(min_length=1, max_length=300, description="The pin.")


class LeaveOutParams(SessionParams):
    """Name messages of the session: by id, or by the seq of the update with which they entered it."""

    message_ids: list[CleanText] = Field(default=[], max_length=1_000, description="Their ids.")
    seqs: list[int] = Field(default=[], max_length=1_000, description="Their seqs.")
    back: bool = Field(default=False, description="Take them back: the model sees them again.")


class LeaveOutResult(Payload):
    """What was left out or taken back: a call and its results go together."""

    message_ids: tuple[str, ...] = Field(description="Every message of it.")
    tokens: int = Field(description="What these messages take in a request, by our estimate.")


class RenameParams(SessionParams):
    """Give a session a title."""

    title: Title


class ExportParams(SessionParams):
    """Ask for a transcript: what clients may see, nothing else."""

    format: Literal["markdown", "jsonl"] = Field(default="markdown", description="For people, or for programs.")


class ExportResult(Payload):
    """A transcript."""

    text: CleanText = Field(description="The whole transcript.")


class ConfigureParams(ConfigChange):
    """Change settings of a session; null leaves one as it is."""

    session_id: SessionId
