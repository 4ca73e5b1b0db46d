"""What a session's state is: facts and items. It only comes to be by `core.reduce`.

*Facts* are bounded and survive every compaction; *items* are what the model may see since the checkpoint in force.
Everything here is frozen, so a reader may keep a state as long as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ullage.core.context import ExactRecord, Instructions, OmissionReason, Pin, Replacement
from ullage.core.events import (
    Parent,
    PinAdded,
    PromptMode,
    Stop,
)
from ullage.core.grants import PermissionGranted
from ullage.core.messages import BlobRef, Message, Todo, Usage
from ullage.core.sequence import AppendOnly

# --- items ---


@dataclass(frozen=True, slots=True)
class MessageItem:
    """A message the model sees. `upto` is the sum of tokens of all items up to and with this one."""

    seq: int
    message: Message
    tokens: int
    encoding: str
    upto: int


@dataclass(frozen=True, slots=True)
class HandoffItem:
    """A raw handoff record. Only `context` knows whether it is valid, and only the model view shows it."""

    seq: int
    record: str
    tokens: int
    upto: int


@dataclass(frozen=True, slots=True)
class ReplacementItem:
    """The head of the checkpoint in force; its tail follows as message items."""

    seq: int
    replacement: Replacement
    tokens: int
    upto: int


@dataclass(frozen=True, slots=True)
class InstructionsItem:
    """What the model was told of an instruction file. The newest of a path holds; no compaction retells it."""

    seq: int
    instructions: Instructions
    tokens: int
    encoding: str
    upto: int

    @property
    def message(self) -> Message:
        return self.instructions.message


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A message that the model does not see. Its `upto` is 0: it takes nothing."""

    item: MessageItem
    reason: OmissionReason
    place: int
    """How many items stand before it where nothing is left out; without handoffs, which a rewind takes away."""


@dataclass(frozen=True, slots=True)
class OmissionItem:
    """Everything that is left out, where the first of it stood. `tokens` is what the one marker takes."""

    seq: int
    left_out: tuple[LeftOut, ...]
    tokens: int
    upto: int


Carried = MessageItem | InstructionsItem | ReplacementItem | OmissionItem
"""Items that an event may bring back (`core.rewinding`): a handoff stays in its own."""
Item = Carried | HandoffItem


# --- facts ---


@dataclass(frozen=True, slots=True)
class Config:
    """Session settings as configured; None means the server's setting or the provider's word."""

    model: str | None = None
    profile: str | None = None
    permission_mode: str | None = None
    window: int | None = None
    output_cap: int | None = None
    auto_compaction: bool = True
    handoff: bool = True


@dataclass(frozen=True, slots=True)
class Queued:
    """A waiting prompt."""

    message: Message
    mode: PromptMode
    tokens: int
    encoding: str
    seq: int

    @property
    def turn_id(self) -> str:
        return self.message.turn_id


@dataclass(frozen=True, slots=True)
class Totals:
    """Tokens and money paid, per purpose."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    cache_read: int = 0
    cache_write: int = 0
    unreported: int = 0
    """Calls whose provider reported no usage."""
    guessed: int = 0
    """Tokens of these, as far as they were estimated; in no other figure."""
    priced: int = 0
    """Calls whose cost is known."""
    paid: int = 0
    """Micro-dollars of these."""

    def plus(self, usage: Usage, cost: int | None, guess: int = 0) -> Totals:
        """With one more call; `guess` is what it took in tokens by our own count."""
        unreported = usage.floor is None
        return Totals(
            self.calls + 1,
            self.prompt + (usage.prompt or 0),
            self.completion + (usage.completion or 0),
            self.cache_read + (usage.cache_read or 0),
            self.cache_write + (usage.cache_write or 0),
            self.unreported + unreported,
            self.guessed + (guess if unreported else 0),
            self.priced + (cost is not None),
            self.paid + (cost or 0),
        )

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Totals)))

    @property
    def tokens(self) -> int:
        """All tokens, the estimated ones too."""
        return self.prompt + self.completion + self.guessed

    @property
    def cost(self) -> int | None:
        """Micro-dollars as far as they are known; None where no call's cost is."""
        return self.paid if self.priced else None


@dataclass(frozen=True)
class OpenTurn:
    """A turn in progress. `pending` are call ids without a result; `task` is the request and every steering message."""

    turn_id: str
    step: int
    task: tuple[Message, ...]
    pending: tuple[str, ...] = ()
    started: int = -1
    """Seq of its start."""
    answered: int = 0
    """The newest step that was answered; steps count from 1."""
    results: tuple[str, ...] = ()
    """Call ids of this step that have a result."""
    before: Totals = Totals()
    """What the session had paid when it started."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The request under way: how many items it held, its fixed part, and the revision it was built from."""

    length: int
    fixed: int
    step: int
    turn_id: str
    revision: int
    tokens: int = 0
    """The occupancy it was decided with."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The last provider usage that projection may build on. `length` items are inside `total` tokens."""

    total: int
    length: int
    fixed: int
    revision: int
    model: str


@dataclass(frozen=True, slots=True)
class Billed:
    """What a model's provider billed for additions to the context, and what we had estimated them at. Tokens."""

    model: str
    billed: int
    estimated: int


@dataclass(frozen=True, slots=True)
class FileFact:
    """A file the session touched; `written` stays true once it was."""

    path: str
    written: bool
    seq: int
    at: int
    searched: bool = False
    """Nothing but a search named it."""
    sha256: str | None = None
    """Its content as this session last read or left it; None where that is not known."""


@dataclass(frozen=True, slots=True)
class CommandFact:
    """A command the session ran, and how it ended."""

    command: str
    exit_code: int | None
    detail: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Breaker:
    """Failures of the model's summary in a row. At enough of them the model is not asked for a while."""

    failures: int = 0
    at: int = 0
    """When the newest happened, UTC milliseconds."""
    used: int = 0
    """Occupancy that counts as no growth since then, in tokens; compactions move it down by what they removed."""


@dataclass(frozen=True)
class Facts:
    """The bounded half of the state; a checkpoint carries it. Counts are since the session was created.

    Not slotted, as everything else is: a dictionary is copied at once, slots one after the other.
    """

    last_seq: int = -1
    last_at: int = 0
    created_at: int = 0
    session_id: str = ""
    root: str = ""
    device: int = 0
    inode: int = 0
    parent: Parent | None = None
    title: str = ""
    config: Config = Config()
    queue: tuple[Queued, ...] = ()
    held: str | None = None
    open_turn: OpenTurn | None = None
    ended_turns: tuple[tuple[str, Stop], ...] = ()
    turn_totals: Totals = Totals()
    summary_totals: Totals = Totals()
    sent: Sent | None = None
    baseline: Baseline | None = None
    ratios: tuple[Billed, ...] = ()
    """Per model, the newest last: what `core.ratio` corrects estimates with."""
    revision: int = -1
    epoch: int = -1
    handoffs: int = 0
    """Raw handoff records in this epoch, valid or not."""
    attempts: int = 0
    """Automatic compaction attempts since the last answer, failed ones included."""
    attempt_size: int = 0
    """Occupancy that the newest of these attempts led to, in tokens."""
    overflow_spent: bool = False
    """Reactive recovery was used since the last answer; only an answer releases it."""
    files: tuple[FileFact, ...] = ()
    commands: tuple[CommandFact, ...] = ()
    newest_error: str | None = None
    todos: tuple[Todo, ...] = ()
    """The model's own list, as it last wrote it."""
    records: tuple[ExactRecord, ...] = ()
    """Exact continuation records, oldest first (`core.exact`)."""
    pins: tuple[Pin, ...] = ()
    """What a person keeps in view, in the order they pinned it (`core.pins`)."""
    pins_untold: tuple[PinAdded, ...] = ()
    """Pins that the model is told of as soon as no request and no call is open."""
    grants: tuple[PermissionGranted, ...] = ()
    """What a person allowed for this session, the newest last."""
    breaker: Breaker = Breaker()
    outputs: tuple[BlobRef, ...] = ()
    """Full tool outputs that `read_output` may page through."""
    missing: tuple[str, ...] = ()
    """Hashes of images whose bytes are gone."""
    last_call_at: int | None = None
    turns: int = 0
    steps: int = 0
    compactions: int = 0
    redoable: int = -1
    """Seq of the rewind that can still be undone: nothing was said, left out or taken back since."""
    anomalies: tuple[int, ...] = ()
    read_only: str | None = None


if TYPE_CHECKING:
    from dataclasses import replace

    changed = replace
else:

    def changed(value: Facts | OpenTurn, **changes: Any) -> Facts | OpenTurn:
        """`dataclasses.replace` for facts and turns, in a tenth of its time: every event needs two or three of them."""
        if not changes.keys() <= value.__dict__.keys():
            raise TypeError(f"no field is called {', '.join(sorted(changes.keys() - value.__dict__.keys()))}")
        copy = object.__new__(type(value))
        copy.__dict__.update(value.__dict__, **changes)
        return copy


@dataclass(frozen=True, slots=True)
class State:
    """A session's state at one moment. Frozen: readers may keep it."""

    facts: Facts = Facts()
    items: AppendOnly[Item] = field(default_factory=AppendOnly)

    @property
    def tokens(self) -> int:
        """Estimated tokens of all items."""
        return self.items[-1].upto if self.items else 0


def spent(facts: Facts) -> Totals:
    """What the session has paid so far, for whatever purpose."""
    return facts.turn_totals + facts.summary_totals


def with_facts(state: State, facts: Facts) -> State:
    """The state with other facts and the same items."""
    return State(facts, state.items)


def queued(facts: Facts, turn_id: str) -> Queued | None:
    """The waiting prompt with that turn id."""
    return next((q for q in facts.queue if q.turn_id == turn_id), None)


def turn_known(facts: Facts, turn_id: str) -> bool:
    """Whether a turn of that id waits, runs, or has ended: a repeated turn id is the same turn."""
    running = facts.open_turn is not None and facts.open_turn.turn_id == turn_id
    return running or queued(facts, turn_id) is not None or ended_how(facts, turn_id) is not None


def ended_how(facts: Facts, turn_id: str) -> Stop | None:
    """How the turn of that id ended, or None."""
    return next((stop for known, stop in facts.ended_turns if known == turn_id), None)


def seen_as(facts: Facts, path: str) -> str | None:
    """sha256 of a file's content as the session last read or left it; None where it did not, or only in part."""
    return next((file.sha256 for file in facts.files if file.path == path), None)
