"""What happened: the closed union of events. The log holds nothing else, and state is their fold.

An event is named in the past tense and changes nothing by itself. Events of one effect stand in one batch, which is one
line of the log. Token counts stand beside the text they count, with the name of the encoding, so that resuming
never tokenises again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ullage.core.context import CompactionReport, Instructions, Occupancy, Omission, Pin, Reason, Replacement
from ullage.core.errors import ErrorReport
from ullage.core.grants import PermissionGranted
from ullage.core.messages import BlobRef, Message, Usage

if TYPE_CHECKING:
    from ullage.core.state import Carried, Facts


class PromptMode(StrEnum):
    """How a prompt enters while a turn runs: after it, or at its next step."""

    QUEUE = "queue"
    STEER = "steer"


class Stop(StrEnum):
    """How a turn ended."""

    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The process ended in the middle of the turn."""
    LENGTH = "length"
    """The answer reached its output limit."""


class Purpose(StrEnum):
    """What a model call is for. Usage is booked per purpose; only TURN feeds the projection."""

    TURN = "turn"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a fork comes from."""

    session_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class SessionCreated:
    """First event of every log: identity. `root` is the workspace's real path."""

    session_id: str
    root: str
    device: int
    inode: int
    parent: Parent | None = None


@dataclass(frozen=True, slots=True)
class SessionForked:
    """Last event of a fork's copied part: clears grants, queue, handoff state and open turn."""

    parent: Parent


@dataclass(frozen=True, slots=True)
class SessionRenamed:
    title: str


@dataclass(frozen=True, slots=True)
class SessionConfigured:
    """Settings of the session; None leaves a field as it is. Tokens for `window` and `output_cap`."""

    model: str | None = None
    profile: str | None = None
    permission_mode: str | None = None
    window: int | None = None
    output_cap: int | None = None
    auto_compaction: bool | None = None
    handoff: bool | None = None


@dataclass(frozen=True, slots=True)
class PromptQueued:
    """A prompt was accepted. `message` waits in the queue until its turn starts or it enters as steering; one to an
    idle session passes the queue as well, so that each is stored once."""

    message: Message
    mode: PromptMode
    tokens: int
    encoding: str


@dataclass(frozen=True, slots=True)
class PromptEdited:
    """A waiting prompt was replaced; the turn id stays."""

    message: Message
    tokens: int
    encoding: str


@dataclass(frozen=True, slots=True)
class PromptRemoved:
    turn_id: str


@dataclass(frozen=True, slots=True)
class QueueHeld:
    """The queue waits for a person: after a cancel, a crash, or a lost client."""

    reason: str


@dataclass(frozen=True, slots=True)
class QueueReleased:
    pass


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The named prompt leaves the queue and becomes the turn's user message."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class SteerEntered:
    """The named waiting prompt joins the running turn as a further user message of it."""

    turn_id: str
    steer_id: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A provider call is about to be made, with the occupancy it was decided with."""

    turn_id: str
    step: int
    occupancy: Occupancy


@dataclass(frozen=True, slots=True)
class ImagesLeftOut:
    """Images that the coming request goes without, because it would be larger than a provider takes."""

    turn_id: str
    step: int
    images: tuple[BlobRef, ...]


@dataclass(frozen=True, slots=True)
class ImagesMissing:
    """Images whose bytes the blob store does not hold any more: from here on requests hold a placeholder instead."""

    images: tuple[BlobRef, ...]


@dataclass(frozen=True, slots=True)
class AnswerReceived:
    """The model's answer, with its tool intents. `stop` is the provider's word."""

    turn_id: str
    step: int
    message: Message
    tokens: int
    encoding: str
    usage: Usage
    stop: str
    model: str
    cost: int | None = None
    """Micro-dollars, at the price of when it was booked; None where that is not known."""

    @property
    def complete(self) -> bool:
        """False for text that was kept when its turn was cancelled or its call failed."""
        return self.stop not in ("cancelled", "failed")


@dataclass(frozen=True, slots=True)
class ResultReceived:
    """One tool call's result, as the model will see it; `message` is a tool message with that one result."""

    turn_id: str
    step: int
    message: Message
    tokens: int
    encoding: str


@dataclass(frozen=True, slots=True)
class UsageBooked:
    """Tokens paid for outside a turn's answers (summaries, failed samples); `cost` as of `AnswerReceived`."""

    purpose: Purpose
    usage: Usage
    model: str
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    turn_id: str
    stop: Stop
    error: ErrorReport | None = None


@dataclass(frozen=True, slots=True)
class TokensRecounted:
    """Counts of messages made before the rank table was loaded, made once more. Pairs of message id and tokens."""

    encoding: str
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class HandoffRecorded:
    """The hidden reminder of this epoch. `record` is raw JSON text: it is known by this type, however malformed."""

    record: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ItemsOmitted:
    """Messages left the model's view; a client's stays whole. It changes what was sent, so it is a new revision."""

    omission: Omission


@dataclass(frozen=True, slots=True)
class ItemsRestored:
    """Messages that were left out are in the model's view again: whole units, each as the seqs of its messages."""

    units: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class InstructionsAdded:
    """An instruction file of the workspace entered the context, is another one now, or holds no longer."""

    instructions: Instructions
    tokens: int
    encoding: str


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """A compaction. `facts` is the state's bounded half just before this event.

    Messages that came after the source stand at the end of the replacement's tail. `version` is checked on write and
    on restore. `revision` is the one the plan was made against.
    """

    version: int
    source_seq: int
    revision: int
    previous_epoch: int
    replacement: Replacement
    report: CompactionReport
    facts: Facts


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """A compaction changed nothing, and why. `failure` is why a model's summary was not used, where one was asked."""

    reason: Reason
    error: ErrorReport
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class PinAdded:
    """A person pinned a message, or a text of their own.

    Where that is not in view, a message of the host's tells it to the model, of so many `tokens`; 0 where it is. It
    enters as steering does: never between a request and its answer, nor between a call and its result.
    """

    pin: Pin
    tokens: int = 0
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class PinRemoved:
    """A person took a pin back. What is in view stays there until the next compaction."""

    pin_id: str


@dataclass(frozen=True, slots=True)
class SessionRewound:
    """The conversation went back to just before a turn: `turns`, from seq `before` on, are taken back, oldest first.

    `facts` is the state's bounded half just before this event, without what was taken back; its `epoch` names the
    checkpoint in force there. What the model sees of before `cut` stays, and `items` follow (`core.rewinding`).
    """

    turn_id: str
    before: int
    turns: tuple[str, ...]
    cut: int
    facts: Facts
    items: tuple[Carried, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionRedone:
    """The rewind of seq `rewind` was undone: its `turns` are back. `cut`, `facts` and `items` as there."""

    rewind: int
    turns: tuple[str, ...]
    cut: int
    facts: Facts
    items: tuple[Carried, ...] = ()


@dataclass(frozen=True, slots=True)
class LogRepaired:
    """A torn tail was copied aside and cut. `offset` and `size` in bytes of the file as it was."""

    offset: int
    size: int
    kept_as: str


@dataclass(frozen=True, slots=True)
class DamageAccepted:
    """A person agreed to go on writing after damage that stays in the file; byte ranges [start, end)."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not known to this version: hidden from every view. `raw` is JSON text; `critical` opens the session read-only."""

    kind: str
    critical: bool
    raw: str


Event = (
    SessionCreated
    | SessionForked
    | SessionRenamed
    | SessionConfigured
    | PromptQueued
    | PromptEdited
    | PromptRemoved
    | QueueHeld
    | QueueReleased
    | TurnStarted
    | SteerEntered
    | StepStarted
    | ImagesLeftOut
    | ImagesMissing
    | AnswerReceived
    | ResultReceived
    | UsageBooked
    | TurnEnded
    | TokensRecounted
    | HandoffRecorded
    | ItemsOmitted
    | ItemsRestored
    | InstructionsAdded
    | CheckpointCommitted
    | CompactionFailed
    | PinAdded
    | PinRemoved
    | PermissionGranted
    | SessionRewound
    | SessionRedone
    | LogRepaired
    | DamageAccepted
    | Unknown
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An event with its place in the log: `seq` numbers events from 0, `at` is UTC milliseconds of its batch."""

    seq: int
    at: int
    event: Event
