"""Histories for tests: pure, seeded. States come from events through the core's reducer, never by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from ullage.context.occupancy import budget, count_message, occupancy
from ullage.core.checkpoint import VERSION
from ullage.core.context import Budget, CompactionReport, Kept, Reason, Replacement, Strategy
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Entry,
    Event,
    HandoffRecorded,
    PromptMode,
    PromptQueued,
    ResultReceived,
    SessionCreated,
    SteerEntered,
    StepStarted,
    Stop,
    TurnEnded,
    TurnStarted,
)
from ullage.core.messages import (
    BlobRef,
    Image,
    Message,
    Op,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolFacts,
    ToolResult,
    Usage,
)
from ullage.core.reduce import reduce
from ullage.core.state import State


@dataclass(frozen=True)
class Quarter:
    """A token counter for tests: four characters a token, rounded up."""

    encoding: str = "chars/4"

    def count(self, text: str) -> int:
        return -(-len(text) // 4)


COUNTER = Quarter()
BIG = budget(200_000, "test")


def image(size: int = 1_000, width: int = 64, height: int = 64, name: str = "a") -> Image:
    return Image(BlobRef(name * 64, size), "image/png", width, height)


@dataclass
class Log:
    """Appends events as a session would, and folds them as it goes."""

    budget: Budget = BIG
    fixed: int = 1_000
    state: State = field(default_factory=State)
    entries: list[Entry] = field(default_factory=list)
    strict: bool = True

    def __post_init__(self) -> None:
        self.add(SessionCreated("s", "/w", 1, 2))

    def add(self, event: Event) -> Log:
        entry = Entry(len(self.entries), 1_000 * len(self.entries), event)
        self.entries.append(entry)
        self.state = reduce(self.state, entry)
        if self.strict and not isinstance(event, TurnEnded):
            assert entry.seq not in self.state.facts.anomalies, event
        return self

    @property
    def turn(self) -> str:
        assert self.state.facts.open_turn is not None
        return self.state.facts.open_turn.turn_id

    def prompt(self, text: str, *parts: Part) -> Log:
        """A person's message starts a turn."""
        turn = f"t{len(self.entries)}"
        self._queue(turn, PromptMode.QUEUE, (Text(text), *parts))
        return self.add(TurnStarted(turn))

    def steer(self, text: str) -> Log:
        turn = f"t{len(self.entries)}"
        self._queue(turn, PromptMode.STEER, (Text(text),))
        return self.add(SteerEntered(self.turn, turn))

    def _queue(self, turn: str, mode: PromptMode, parts: tuple[Part, ...]) -> None:
        message = Message(f"{turn}/u", Role.USER, parts, turn)
        self.add(PromptQueued(message, mode, count_message(message, COUNTER), COUNTER.encoding))

    def step(self) -> Log:
        now = occupancy(self.state, self.fixed, self.budget)
        turn = self.state.facts.open_turn
        assert turn is not None
        return self.add(StepStarted(turn.turn_id, turn.step + 1, now))

    def answer(self, *parts: Part, usage: Usage | None = None, model: str = "m") -> Log:
        """A model call and its answer."""
        self.step()
        return self.answered(*parts, usage=usage, model=model)

    def answered(self, *parts: Part, usage: Usage | None = None, model: str = "m") -> Log:
        turn = self.state.facts.open_turn
        assert turn is not None
        message = Message(f"{turn.turn_id}/{turn.step}/a", Role.ASSISTANT, parts, turn.turn_id)
        tokens = count_message(message, COUNTER)
        event = AnswerReceived(
            turn.turn_id, turn.step, message, tokens, COUNTER.encoding, usage or Usage(), "end", model
        )
        return self.add(event)

    def result(self, call_id: str, text: str = "ok", **fields: object) -> Log:
        turn = self.state.facts.open_turn
        assert turn is not None
        result = ToolResult(call_id, text, **fields)  # type: ignore[arg-type]
        message = Message(f"{turn.turn_id}/{turn.step}/r{call_id}", Role.TOOL, (result,), turn.turn_id)
        tokens = count_message(message, COUNTER)
        return self.add(ResultReceived(turn.turn_id, turn.step, message, tokens, COUNTER.encoding))

    def tool(self, name: str, arguments: str, text: str, said: str = "", facts: ToolFacts | None = None) -> Log:
        """An answer with one call, and its result."""
        call_id = f"c{len(self.entries)}"
        words = (Text(said),) if said else ()
        self.answer(*words, ToolCall(call_id, name, arguments))
        return self.result(call_id, text, facts=facts or ToolFacts(Op.OTHER))

    def read(self, path: str, size: int = 400) -> Log:
        text = f"{path}\n" + "x" * size
        return self.tool("read", f'{{"path": "{path}"}}', text, facts=ToolFacts(Op.READ, (path,)))

    def end(self) -> Log:
        return self.add(TurnEnded(self.turn, Stop.DONE))

    def handoff(self, record: str, tokens: int = 300) -> Log:
        return self.add(HandoffRecorded(record, tokens))

    def checkpoint(self, replacement: Replacement, source_seq: int | None = None, after: int = 0) -> Log:
        facts = self.state.facts
        report = CompactionReport(Reason.THRESHOLD, Strategy.DETERMINISTIC, "ullage", 0, after, 0, 0)
        seq = facts.last_seq if source_seq is None else source_seq
        return self.add(CheckpointCommitted(VERSION, seq, facts.revision, facts.epoch, replacement, report, facts))


def kept(messages: Iterable[Message]) -> tuple[Kept, ...]:
    return tuple(Kept(seq, message, count_message(message, COUNTER)) for seq, message in enumerate(messages))


def bare(tail: tuple[Kept, ...] = (), ledger: str = "ledger") -> Replacement:
    return Replacement(ledger, (), (), (), "fence", tail, 10)


# --- seeded histories ---

_WORDS = ("", " \n", "yes", "go on", "a" * 300, "naïve 😀 text", "<summary>", "line\nline", "\ud83d", "x" * 600)
_NAMES = ("read", "grep", "bash", "", "füge ein", "a" * 100)
_ARGUMENTS = ("{}", '{"path": "src/a.py"}', '{"broken": ', "null", '{"content": "' + "y" * 900 + '"}', "\udc00")


def hard_messages(rng: random.Random, *, sound: bool = False) -> list[Message]:
    """Messages in any order that a log, an importer or a crash could leave behind.

    `sound` leaves out what a checkpoint refuses: results without a call before them, and second ones.
    """
    messages: list[Message] = []
    waiting: list[str] = []
    used: list[str] = []
    for number in range(rng.randrange(1, 16)):
        kind = rng.choice(("user", "answer", "answer", "results", "results", "late", "odd"))
        if kind == "user":
            messages.append(Message(f"u{number}", Role.USER, _said(rng), "t"))
        elif kind == "answer":
            calls = [f"c{number}.{place}" for place in range(rng.randrange(4))]
            if used and not sound and rng.random() < 0.05:
                calls.append(rng.choice(used))
            waiting += calls
            used += calls
            parts = (*_answer(rng), *(ToolCall(c, rng.choice(_NAMES), rng.choice(_ARGUMENTS)) for c in calls))
            messages.append(Message(f"a{number}", Role.ASSISTANT, parts, "t"))
        elif kind in ("results", "late") and waiting:
            rng.shuffle(waiting)
            count = 1 if kind == "late" else rng.randrange(1, len(waiting) + 1)
            done, waiting = waiting[:count], waiting[count:]
            one_message = rng.random() < 0.3
            results = [_result(rng, call_id) for call_id in done]
            groups = [results] if one_message else [[result] for result in results]
            messages += [Message(f"r{number}.{g}", Role.TOOL, tuple(group), "t") for g, group in enumerate(groups)]
        elif kind == "odd" and not sound:
            call_id = rng.choice([*used, "nobody", ""])
            messages.append(Message(f"o{number}", Role.TOOL, (_result(rng, call_id),), "t"))
    return messages


def _said(rng: random.Random) -> tuple[Part, ...]:
    images = [image(size, side, side) for size, side in ((10, 10), (6_000_000, 10), (10, 9_000)) if rng.random() < 0.1]
    return (*(Text(rng.choice(_WORDS)) for _ in range(rng.randrange(3))), *images)


def _answer(rng: random.Random) -> tuple[Part, ...]:
    opaque = Opaque("p", rng.choice(("m", "other")), '{"sig": 1}')
    choices: tuple[Part, ...] = (Text(rng.choice(_WORDS)), Reasoning("hm"), Reasoning("hm", opaque), opaque, image())
    return tuple(rng.choice(choices) for _ in range(rng.randrange(3)))


def _result(rng: random.Random, call_id: str) -> ToolResult:
    images = (image(rng.choice((10, 6_000_000))),) if rng.random() < 0.1 else ()
    return ToolResult(call_id, rng.choice(_WORDS), is_error=rng.random() < 0.2, images=images)


def live_log(rng: random.Random, turns: int, budget: Budget = BIG, size: int = 1_000) -> Log:
    """A session as the turn machine would write it: turns with parallel calls, results in any order, steering."""
    log = Log(budget)
    for turn in range(turns):
        log.prompt(f"please do thing {turn} " + "w" * rng.randrange(size))
        for step in range(rng.randrange(1, 5)):
            calls = [f"t{turn}s{step}c{place}" for place in range(rng.randrange(1, 4))]
            asked = [ToolCall(call, rng.choice(("read", "bash")), f'{{"path": "p{step}"}}') for call in calls]
            log.answer(Text(f"step {step}: " + "p" * rng.randrange(200)), *asked, usage=_usage(rng, log))
            for call in rng.sample(calls, len(calls)):
                path = f"src/{turn}_{call}.py"
                facts = ToolFacts(rng.choice((Op.READ, Op.WRITE)), (path,))
                log.result(call, "r" * rng.randrange(2 * size), facts=facts)
            if rng.random() < 0.2:
                log.steer(f"rather {turn}.{step}")
        log.answer(Text("done with it"), usage=_usage(rng, log))
        log.end()
    return log


def _usage(rng: random.Random, log: Log) -> Usage:
    if rng.random() < 0.3:
        return Usage()
    return Usage(prompt=log.state.tokens + log.fixed + rng.randrange(100), completion=rng.randrange(1, 50))
