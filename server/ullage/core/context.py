"""Values of the context engine that cross the turn's boundary: budget, occupancy, replacement, plans.

The engine itself is `ullage.context`; the turn machine and the log only need these shapes. Tokens everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ullage.core.errors import ErrorReport
from ullage.core.messages import Message, Role


class Phase(StrEnum):
    """Where occupancy stands against the input budget; a boundary belongs to the upper phase."""

    UNKNOWN = "unknown"
    BELOW_HANDOFF = "below_handoff"
    HANDOFF_BAND = "handoff_band"
    COMPACTION_DUE = "compaction_due"


class Measured(StrEnum):
    """Which part of an occupancy a provider measured."""

    PROVIDER = "provider"
    PROVIDER_PLUS_ESTIMATE = "provider_plus_estimate"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class Budget:
    """A model's window divided. `window` None means nobody said how large it is, and the phase is unknown."""

    window: int | None
    window_source: str
    reserve: int
    input_budget: int
    handoff_line: int
    compaction_line: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Tokens the next request will take: the one number that is shown, that decides, and that is logged."""

    used: int
    estimated: int
    """The part of `used` that no provider measured."""
    source: Measured
    fixed: int
    """System prompt and tool schemas."""
    hidden: int
    """Handoff reminder, as a figure: its text never leaves the model view."""
    phase: Phase
    budget: Budget
    ratio: int = 1_000
    """The provider's tokens for a thousand of our estimate; `estimated` is corrected by it already."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a person said, verbatim (or head, tail and a reference where it exceeded its share)."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ExactRecord:
    """A line to be kept to the letter, and the ledger's heading it belongs under (`core.exact`)."""

    heading: str
    payload: str


@dataclass(frozen=True, slots=True)
class Pin:
    """What a person keeps in view, verbatim, until they take it back (`core.pins`).

    `seq` is where it was said: the event of the pinned message, or of the pin itself where the person typed it.
    """

    pin_id: str
    """The id of the pinned message, or one of its own where the person typed it."""
    text: str
    role: Role
    """Who said it; a typed one is the person's."""
    seq: int
    typed: bool = False


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """The beginning of a recently used file, read again at compaction. `path` is relative to the root."""

    path: str
    text: str
    cut: bool
    """The file goes on beyond `text`."""


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """An instruction file as it is now. `path` is relative to the root; `text` its beginning, cut where it is too long.

    `sha256` is the digest of all bytes that were read, hex; None where the model gets nothing of them. `problem` is the
    code of why, or of why it holds no longer (`WITHDRAWN`), and `why` the same in words.
    """

    path: str
    text: str = ""
    sha256: str | None = None
    cut: bool = False
    problem: str | None = None
    why: str = ""


WITHDRAWN: Final = frozenset({"gone", "untrusted"})
"""Problems of a file whose word holds no longer."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """What the model was told of one instruction file. `message` is the host's: an introduction, then the file's text.

    `note` says what is missing: `cut`, or the code of why nothing of it is there.
    """

    path: str
    message: Message
    sha256: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class KeptInstructions:
    """Instructions that stand whole in a replacement, with the seq they were first given at."""

    seq: int
    instructions: Instructions
    tokens: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A message that stays in the tail, normalised, with the seq and token count it had."""

    seq: int
    message: Message
    tokens: int


class Strategy(StrEnum):
    """Who wrote a replacement."""

    MODEL = "model"
    DETERMINISTIC = "deterministic"
    FALLBACK = "fallback"


class Reason(StrEnum):
    """Why a compaction runs."""

    THRESHOLD = "threshold"
    OVERFLOW = "overflow"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Replacement:
    """What the model sees instead of the source. Records, pins, task, words, files and tail are separate evidence.

    `head_tokens` counts everything but instructions and tail. `fence` is the random word that marks file text as data.
    """

    ledger: str
    task: tuple[Word, ...]
    words: tuple[Word, ...]
    files: tuple[RestoredFile, ...]
    fence: str
    tail: tuple[Kept, ...]
    head_tokens: int
    records: tuple[ExactRecord, ...] = ()
    """Exact continuation records, oldest first."""
    pins: tuple[Pin, ...] = ()
    """Pins whose message is neither in the task nor whole in the tail, oldest first; long texts may be shortened."""
    instructions: tuple[KeptInstructions, ...] = ()
    """Instruction files in force, word for word; they stand between head and tail."""

    @property
    def tokens(self) -> int:
        """Tokens of the whole replacement."""
        given = sum(kept.tokens for kept in self.instructions)
        return self.head_tokens + given + sum(kept.tokens for kept in self.tail)


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What one compaction did, as the client is told and the log keeps.

    `before` and `after` are occupancies of the next request on one basis (fixed part included).
    """

    reason: Reason
    strategy: Strategy
    profile: str
    before: int
    after: int
    kept_messages: int
    dropped_messages: int
    restored_files: tuple[str, ...] = ()
    samples: int = 0
    failure: str | None = None
    """Why the model's summary was not used, when the strategy is `fallback`."""
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction will do, decided before any call. The source is every item up to `source_seq`.

    `target` is the largest replacement that the gate will let pass; `instructions` come from the person.
    """

    reason: Reason
    strategy: Strategy
    profile: str
    source_seq: int
    revision: int
    source_tokens: int
    before: int
    target: int
    instructions: str = ""
    ask_frontier: bool = False
    """The band was jumped over, so the summary is asked for the execution frontier that no handoff recorded."""
    ratio: int = 1_000
    """The provider's tokens for a thousand of ours. `source_tokens` and `target` are ours, `before` is corrected."""


class OmissionReason(StrEnum):
    """Why messages are left out of what the model sees."""

    MICRO = "micro"
    """The provider's cache had expired, so that a rewritten prefix cost nothing."""
    SNIP = "snip"
    """The window was filling up."""
    ASKED = "asked"
    """A person named them."""


@dataclass(frozen=True, slots=True)
class Omission:
    """Messages that the model does not see from here on, in whole units, each as the seqs of its messages.

    `tokens` is what they took, by our estimate; `marker` what the one note that stands for them takes.
    """

    units: tuple[tuple[int, ...], ...]
    reason: OmissionReason
    tokens: int
    marker: int


@dataclass(frozen=True, slots=True)
class Proceed:
    """Call the provider. `occupancy` is what is left after `omissions`, which are recorded with the step."""

    occupancy: Occupancy
    omissions: tuple[Omission, ...] = ()


@dataclass(frozen=True, slots=True)
class HandoffFirst:
    """Record the omissions and the handoff of this epoch in one batch, then plan again."""

    occupancy: Occupancy
    tokens: int
    omissions: tuple[Omission, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactFirst:
    """Compact, then plan again. No request is sent above the compaction line."""

    occupancy: Occupancy
    reason: Reason


@dataclass(frozen=True, slots=True)
class Impossible:
    """The next request can't be made to fit; the turn ends with this error before any call."""

    occupancy: Occupancy
    error: ErrorReport


StepPlan = Proceed | HandoffFirst | CompactFirst | Impossible
