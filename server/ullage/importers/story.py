"""From what a recorded session said to our events.

Invariant: every event is one that the reducer takes without an anomaly, so the state of an imported session is the
fold of its entries like any other. A result stands right after the answer that asked for it; a call that was never
answered is closed as it would be after a crash, and named in `Imported.unanswered`. A record that has no counterpart
is kept whole in an event that no view shows, and counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from ullage.context.occupancy import budget, count_message, occupancy
from ullage.context.tail import sound
from ullage.core.checkpoint import VERSION
from ullage.core.context import CompactionReport, Kept, Reason, Replacement, Strategy
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Entry,
    Event,
    PromptMode,
    PromptQueued,
    Purpose,
    ResultReceived,
    SessionConfigured,
    SessionCreated,
    SteerEntered,
    StepStarted,
    Stop,
    TurnEnded,
    TurnStarted,
    Unknown,
    UsageBooked,
)
from ullage.core.messages import UNANSWERED, Image, Message, Part, Role, Text, ToolCall, ToolResult, Usage
from ullage.core.ports import TokenCounter
from ullage.core.reduce import reduce
from ullage.core.state import MessageItem, State
from ullage.importers.facts import facts_of
from ullage.importers.records import Damage, Record, json_text

# --- what a reader says ---


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a user message held. `origin` names what put it in when no person typed it."""

    parts: tuple[Part, ...]
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer. The ids of its calls are the provider's own. `stop` is in our words where they differ."""

    parts: tuple[Part, ...]
    usage: Usage
    stop: str
    model: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave back, by the provider's id."""

    call: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Compacted:
    """A recorded compaction. The model then saw `summary` and `history`, or what was said from place `kept_from` on."""

    summary: str
    before: int | None = None
    automatic: bool = True
    history: tuple[Message, ...] = ()
    kept_from: int | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A person stopped the turn."""


@dataclass(frozen=True, slots=True)
class Configured:
    """Another model, or another window, from here on."""

    model: str | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Aside:
    """An answer outside this conversation, whose usage was paid all the same."""

    usage: Usage
    model: str


@dataclass(frozen=True, slots=True)
class Raw:
    """A record without a counterpart."""

    kind: str
    record: Record


What = Prompt | Answer | Result | Compacted | Interrupted | Configured | Aside | Raw


@dataclass(frozen=True, slots=True)
class Said:
    """`place` numbers the record it comes from, `at` is UTC milliseconds, or None where the record does not say."""

    place: int
    at: int | None
    what: What


# --- what an import gives ---


@dataclass(frozen=True, slots=True)
class Imported:
    """A recorded session as ours. `kinds` counts the records met, by kind; `raw` those that were kept whole."""

    format: str
    entries: tuple[Entry, ...]
    state: State
    kinds: Mapping[str, int]
    raw: Mapping[str, int]
    damage: tuple[Damage, ...]
    images: Mapping[str, bytes]
    """Pictures by the SHA-256 that their references name."""
    unanswered: tuple[str, ...]
    """Provider ids of calls that were never answered."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a format's reader found."""

    format: str
    session_id: str
    root: str
    said: list[Said]
    kinds: Counter[str]
    damage: list[Damage]
    images: dict[str, bytes] = field(default_factory=dict)


def tell(reading: Reading, counter: TokenCounter) -> Imported:
    """The events of a reading, in its order."""
    return _Teller(reading, counter).told()


@dataclass(slots=True)
class _Teller:
    reading: Reading
    counter: TokenCounter
    entries: list[Entry] = field(default_factory=list)
    state: State = field(default_factory=State)
    at: int = 0
    turn: int = 0
    steers: int = 0
    raw: Counter[str] = field(default_factory=Counter)
    places: dict[int, int] = field(default_factory=dict)
    """Seq of an event to the place of its record."""
    results: dict[str, deque[Said]] = field(default_factory=dict)
    waiting: list[Prompt] = field(default_factory=list)
    """What a host put in before a person's prompt; it enters behind that prompt."""
    unanswered: list[str] = field(default_factory=list)

    def told(self) -> Imported:
        said = self.reading.said
        self.at = next((one.at for one in said if one.at is not None), 0)
        for one in said:
            if isinstance(one.what, Result):
                self.results.setdefault(one.what.call, deque()).append(one)
        self._add(SessionCreated(self.reading.session_id, self.reading.root or "/", 0, 0))
        for one in said:
            self.at = max(self.at, one.at or 0)
            self._tell(one)
        self._finish()
        reading = self.reading
        return Imported(
            reading.format,
            tuple(self.entries),
            self.state,
            dict(reading.kinds),
            dict(self.raw),
            tuple(reading.damage),
            reading.images,
            tuple(self.unanswered),
        )

    def _add(self, event: Event, place: int = 0) -> None:
        entry = Entry(len(self.entries), self.at, event)
        self.entries.append(entry)
        self.places[entry.seq] = place
        self.state = reduce(self.state, entry)

    def _tell(self, one: Said) -> None:
        match one.what:
            case Prompt() as prompt:
                self._prompt(prompt, one.place)
            case Answer() as answer:
                self._answer(answer, one.place)
            case Result() as result:
                self._late(result, one)
            case Compacted() as compacted:
                self._compacted(compacted)
            case Interrupted():
                self._end(Stop.CANCELLED)
            case Configured(model, window):
                config = self.state.facts.config
                if (model and model != config.model) or (window and window != config.window):
                    self._add(SessionConfigured(model=model, window=window))
            case Aside(usage, model):
                self._add(UsageBooked(Purpose.TURN, usage, model))
            case Raw(kind, record):
                self._keep(kind, record)
            case _:
                assert_never(one.what)

    def _keep(self, kind: str, record: Record) -> None:
        self.raw[kind] += 1
        name = f"{self.reading.format}: {kind}"
        self._add(Unknown(name, False, json_text({"kind": name, "record": record})))

    # --- prompts and turns ---

    def _prompt(self, prompt: Prompt, place: int) -> None:
        opened = self.state.facts.open_turn
        if prompt.origin is not None:
            if opened is None:
                self.waiting.append(prompt)
            else:
                self._steer(prompt, place)
        elif opened is not None and self._inside_turn():
            self._steer(prompt, place)
        else:
            self._end(Stop.DONE)
            self._start(prompt, place)

    def _inside_turn(self) -> bool:
        """Whether the newest message is a result, so that the model has yet to answer to it."""
        newest = self.state.items[-1] if self.state.items else None
        return isinstance(newest, MessageItem) and newest.message.role is Role.TOOL

    def _start(self, prompt: Prompt, place: int) -> None:
        self.turn += 1
        self.steers = 0
        self._queue(prompt, f"t{self.turn}", PromptMode.QUEUE)
        self._add(TurnStarted(f"t{self.turn}"), place)
        for earlier in self.waiting:
            self._steer(earlier, place)
        self.waiting.clear()

    def _steer(self, prompt: Prompt, place: int) -> None:
        self.steers += 1
        steer = f"t{self.turn}s{self.steers}"
        self._queue(prompt, steer, PromptMode.STEER)
        self._add(SteerEntered(f"t{self.turn}", steer), place)

    def _queue(self, prompt: Prompt, turn_id: str, mode: PromptMode) -> None:
        message = Message(f"{turn_id}/u", Role.USER, prompt.parts, turn_id, prompt.origin)
        self._add(PromptQueued(message, mode, self._count(message), self.counter.encoding))

    def _count(self, message: Message) -> int:
        return count_message(message, self.counter) if message.parts else 0

    def _end(self, stop: Stop) -> None:
        if self.state.facts.open_turn is not None:
            self._add(TurnEnded(f"t{self.turn}", stop))

    def _finish(self) -> None:
        if self.waiting:
            self._end(Stop.DONE)
            self._start(Prompt((), "host"), 0)
        self._end(Stop.INTERRUPTED if self._inside_turn() else Stop.DONE)

    # --- answers and results ---

    def _answer(self, answer: Answer, place: int) -> None:
        if self.state.facts.open_turn is None:
            self._start(Prompt((), "host"), place)
        opened = self.state.facts.open_turn
        assert opened is not None, "it was just started"
        turn, step = opened.turn_id, opened.step + 1
        parts = tuple(_numbered(answer.parts, f"{turn}/{step}"))
        message = Message(f"{turn}/{step}/a", Role.ASSISTANT, parts, turn)
        window = self.state.facts.config.window
        self._add(StepStarted(turn, step, occupancy(self.state, 0, budget(window, "recorded"))))
        tokens, encoding = self._count(message), self.counter.encoding
        self._add(AnswerReceived(turn, step, message, tokens, encoding, answer.usage, answer.stop, answer.model), place)
        self._results(message, step)
        if answer.stop in ("cancelled", "failed"):
            self._end(Stop.CANCELLED if answer.stop == "cancelled" else Stop.FAILED)

    def _results(self, answer: Message, step: int) -> None:
        """The results of an answer's calls in the order they were recorded, then an end for each call without one."""
        found: list[tuple[ToolCall, Said | None]] = []
        for call in answer.calls:
            waiting = self.results.get(call.provider_id or "", deque())
            found.append((call, waiting.popleft() if waiting else None))
        for call, said in sorted(found, key=lambda pair: pair[1].place if pair[1] else 2**62):
            self._result(call, step, said)

    def _result(self, call: ToolCall, step: int, said: Said | None) -> None:
        if said is None or not isinstance(said.what, Result):
            self.unanswered.append(call.provider_id or call.call_id)
            result = ToolResult(call.call_id, UNANSWERED, is_error=True)
        else:
            what, root = said.what, self.reading.root
            facts = facts_of(call.name, call.arguments, what.text, what.is_error, root)
            result = ToolResult(call.call_id, what.text, what.is_error, facts, None, what.images)
            self.at = max(self.at, said.at or 0)
        number = call.call_id.rsplit("/c", 1)[-1]
        turn = call.call_id.split("/", 1)[0]
        message = Message(f"{turn}/{step}/r{number}", Role.TOOL, (result,), turn)
        event = ResultReceived(turn, step, message, self._count(message), self.counter.encoding)
        self._add(event, said.place if said else 0)

    def _late(self, result: Result, one: Said) -> None:
        """A result that no answer before it asked for, or a second one: taken at its answer, or kept whole here."""
        left = self.results.get(result.call, deque())
        if one in left:
            left.remove(one)
            self.reading.damage.append(Damage(one.place, f"a result for {result.call!r}, which nothing asked for"))
            self._keep("orphan result", {"call": result.call, "text": result.text, "is_error": result.is_error})

    # --- compactions ---

    def _compacted(self, compacted: Compacted) -> None:
        facts = self.state.facts
        kept = self._kept(compacted)
        bare = Replacement(compacted.summary, (), (), (), "", tuple(kept), 0)
        replacement = replace(bare, head_tokens=self.counter.count(compacted.summary))
        before = compacted.before or self.state.tokens
        dropped = sum(isinstance(item, MessageItem) for item in self.state.items)
        report = CompactionReport(
            Reason.THRESHOLD if compacted.automatic else Reason.MANUAL,
            Strategy.MODEL,
            self.reading.format,
            before,
            replacement.tokens,
            len(kept),
            max(0, dropped - len(kept)),
        )
        seq, revision = facts.last_seq, facts.revision
        self._add(CheckpointCommitted(VERSION, seq, revision, facts.epoch, replacement, report, facts))

    def _kept(self, compacted: Compacted) -> list[Kept]:
        kept = [Kept(self.state.facts.last_seq, message, self._count(message)) for message in compacted.history]
        if compacted.kept_from is not None:
            kept += [
                Kept(item.seq, item.message, item.tokens)
                for item in self.state.items
                if isinstance(item, MessageItem) and self.places.get(item.seq, 0) >= compacted.kept_from
            ]
        return sound(kept, self.counter)


def _numbered(parts: tuple[Part, ...], step: str) -> list[Part]:
    """The parts with our own call ids."""
    own: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall):
            number = sum(isinstance(earlier, ToolCall) for earlier in own)
            part = replace(part, call_id=f"{step}/c{number}")
        own.append(part)
    return own


def text_parts(text: str) -> tuple[Part, ...]:
    """A text as parts: none when it is empty."""
    return (Text(text),) if text else ()
