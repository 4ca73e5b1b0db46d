"""The only ways out of a session: what the model sees, what a client sees, what a fork and an export take along.

Rule: visibility is decided here, by event type, and never by wording. A hidden event has no function to a client
frame: `client_view` answers None for it, and the types that it does answer with have no field that could hold one.
`Unknown` events are hidden from every view, because nobody knows what they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from ullage.core.context import CompactionReport, OmissionReason, Pin, Reason
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    CompactionFailed,
    DamageAccepted,
    Entry,
    Event,
    HandoffRecorded,
    ImagesLeftOut,
    ImagesMissing,
    InstructionsAdded,
    ItemsOmitted,
    ItemsRestored,
    LogRepaired,
    PinAdded,
    PinRemoved,
    PromptEdited,
    PromptMode,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    QueueReleased,
    ResultReceived,
    SessionConfigured,
    SessionCreated,
    SessionForked,
    SessionRedone,
    SessionRenamed,
    SessionRewound,
    SteerEntered,
    StepStarted,
    Stop,
    TokensRecounted,
    TurnEnded,
    TurnStarted,
    Unknown,
    UsageBooked,
)
from ullage.core.grants import PermissionGranted
from ullage.core.messages import Message, Usage
from ullage.core.sequence import AppendOnly
from ullage.core.state import Item, State

# --- what a client may be shown ---


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """A prompt that waits, or was edited while it waited."""

    message: Message
    mode: PromptMode | None


@dataclass(frozen=True, slots=True)
class ShownPromptGone:
    turn_id: str


@dataclass(frozen=True, slots=True)
class ShownQueue:
    """The queue waits for a person (`held` says why) or runs again (None)."""

    held: str | None


@dataclass(frozen=True, slots=True)
class ShownTurnStart:
    turn_id: str


@dataclass(frozen=True, slots=True)
class ShownSteer:
    """The waiting prompt `steer_id` became part of the running turn."""

    turn_id: str
    steer_id: str


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """The model's answer: text, readable reasoning, and the calls it asked for."""

    message: Message
    usage: Usage
    stop: str
    model: str


@dataclass(frozen=True, slots=True)
class ShownResult:
    message: Message


@dataclass(frozen=True, slots=True)
class ShownTurnEnd:
    turn_id: str
    stop: Stop
    error: ErrorReport | None


@dataclass(frozen=True, slots=True)
class ShownCompaction:
    """A boundary in the transcript. The ledger is what the model is told of the past; nothing hidden is in it."""

    report: CompactionReport
    ledger: str


@dataclass(frozen=True, slots=True)
class ShownCompactionFailure:
    reason: Reason
    error: ErrorReport


@dataclass(frozen=True, slots=True)
class ShownPin:
    pin: Pin


@dataclass(frozen=True, slots=True)
class ShownPinGone:
    pin_id: str


@dataclass(frozen=True, slots=True)
class ShownOmission:
    """Messages that the model does not see any more, or sees again (`reason` None). The transcript stays whole."""

    seqs: tuple[int, ...]
    reason: OmissionReason | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class ShownInstructions:
    """The model was told of an instruction file, in so many tokens. `note`: what is missing (`Instructions.note`)."""

    path: str
    tokens: int
    note: str | None


@dataclass(frozen=True, slots=True)
class ShownRewind:
    """These turns are taken back, with every compaction from seq `before` on; `turn_id` is the first of them."""

    turn_id: str
    before: int
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownRedo:
    """What the rewind of that seq took back stands again."""

    rewind: int
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownSession:
    """Something about the session itself changed: its title, settings or origin."""

    event: SessionCreated | SessionForked | SessionRenamed | SessionConfigured


@dataclass(frozen=True, slots=True)
class ShownRepair:
    """The log was damaged: what was done about it, in bytes."""

    event: LogRepaired | DamageAccepted


ShownWhat = (
    ShownPrompt
    | ShownPromptGone
    | ShownQueue
    | ShownTurnStart
    | ShownSteer
    | ShownAnswer
    | ShownResult
    | ShownTurnEnd
    | ShownCompaction
    | ShownCompactionFailure
    | ShownPin
    | ShownPinGone
    | ShownOmission
    | ShownInstructions
    | ShownRewind
    | ShownRedo
    | ShownSession
    | ShownRepair
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One durable update for a client. Hidden events leave gaps in `seq`."""

    seq: int
    at: int
    what: ShownWhat


def client_view(entry: Entry) -> Shown | None:
    """What a client sees of an entry; None for what is hidden or not a part of the transcript."""
    what = _shown(entry.event)
    return None if what is None else Shown(entry.seq, entry.at, what)


def _shown(event: Event) -> ShownWhat | None:
    match event:
        case SessionCreated() | SessionForked() | SessionRenamed() | SessionConfigured():
            return ShownSession(event)
        case PromptQueued(message, mode):
            return ShownPrompt(message, mode)
        case PromptEdited(message):
            return ShownPrompt(message, None)
        case PromptRemoved(turn_id):
            return ShownPromptGone(turn_id)
        case QueueHeld(reason):
            return ShownQueue(reason)
        case QueueReleased():
            return ShownQueue(None)
        case TurnStarted(turn_id):
            return ShownTurnStart(turn_id)
        case SteerEntered(turn_id, steer_id):
            return ShownSteer(turn_id, steer_id)
        case AnswerReceived():
            return ShownAnswer(event.message, event.usage, event.stop, event.model)
        case ResultReceived():
            return ShownResult(event.message)
        case TurnEnded(turn_id, stop, error):
            return ShownTurnEnd(turn_id, stop, error)
        case CheckpointCommitted():
            return ShownCompaction(event.report, event.replacement.ledger)
        case CompactionFailed(reason, error):
            return ShownCompactionFailure(reason, error)
        case PinAdded(pin):
            return ShownPin(pin)
        case PinRemoved(pin_id):
            return ShownPinGone(pin_id)
        case InstructionsAdded(instructions, tokens):
            return ShownInstructions(instructions.path, tokens, instructions.note)
        case SessionRewound(turn_id, before, turns):
            return ShownRewind(turn_id, before, turns)
        case SessionRedone(rewind, turns):
            return ShownRedo(rewind, turns)
        case LogRepaired() | DamageAccepted():
            return ShownRepair(event)
        case ItemsOmitted(omission):
            return ShownOmission(_seqs(omission.units), omission.reason, omission.tokens)
        case ItemsRestored(units):
            return ShownOmission(_seqs(units), None, None)
        case StepStarted() | ImagesLeftOut() | ImagesMissing() | UsageBooked() | TokensRecounted():
            return None  # told as figures, by the occupancy notification
        case PermissionGranted():
            return None  # an answer of the client's own
        case HandoffRecorded() | Unknown():
            return None  # hidden
        case _:
            assert_never(event)


def _seqs(units: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(seq for unit in units for seq in unit))


def model_view(state: State) -> AppendOnly[Item]:
    """What the model may see: typed items since the checkpoint in force. Only `context.request` turns them to text."""
    return state.items


def export_view(entries: Iterable[Entry]) -> Iterator[Shown]:
    """What an export writes: the client's transcript, whole."""
    return (shown for entry in entries if (shown := client_view(entry)) is not None)


def fork_view(event: Event) -> bool:
    """Whether a fork copies this event. Handoffs stay behind; damage and its repair were of another file.

    Queue events are copied, since an edited prompt may have become a turn; `SessionForked` clears what still waits.
    """
    return not isinstance(event, HandoffRecorded | LogRepaired | DamageAccepted)
