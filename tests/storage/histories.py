"""Logs to test with: a small, valid session of any length, and places for it on a fake disk."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from ullage.core.checkpoint import VERSION
from ullage.core.context import (
    Budget,
    CompactionReport,
    Kept,
    Measured,
    Occupancy,
    Phase,
    Reason,
    Replacement,
    Strategy,
    Word,
)
from ullage.core.errors import BadInput
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Event,
    HandoffRecorded,
    PromptMode,
    PromptQueued,
    ResultReceived,
    SessionCreated,
    StepStarted,
    Stop,
    TurnEnded,
    TurnStarted,
)
from ullage.core.messages import Message, Op, Role, Text, ToolCall, ToolFacts, ToolResult, Usage
from ullage.core.reduce import fold
from ullage.core.state import MessageItem, State
from ullage.storage.files import Files
from ullage.storage.ids import new_session_id, session_path, workspace_key
from ullage.storage.log import SessionLog
from ullage.testing.disk import FakeDisk
from ullage.testing.rewinding import going

HOME = Path("/home/ullage")
ROOT = "/home/ann/project"
SESSION = "01890a5d-ac96-774b-bcce-b302099a8057"
AT = 1_700_000_000_000

OCCUPANCY = Occupancy(10, 4, Measured.PROVIDER, 6, 0, Phase.BELOW_HANDOFF, Budget(100, "table", 10, 90, 63, 72))


def created(session_id: str = SESSION, root: str = ROOT) -> SessionCreated:
    return SessionCreated(session_id, root, 1, 2)


@cache
def place(home: Path = HOME, session_id: str = SESSION, root: str = ROOT) -> Path:
    return session_path(home, workspace_key(root), session_id)


def fake_disk() -> FakeDisk:
    return FakeDisk(HOME.parent)


def disk_with(content: bytes) -> FakeDisk:
    """A disk on which the session's log has this content."""
    disk = fake_disk()
    disk.put(place(), content)
    return disk


def said(turn: str, role: Role, suffix: str, *parts: object) -> Message:
    return Message(f"{turn}/{suffix}", role, parts, turn)  # type: ignore[arg-type]


def prompt(turn: str, text: str = "do it") -> PromptQueued:
    return PromptQueued(said(turn, Role.USER, "u", Text(text)), PromptMode.QUEUE, 3, "test")


def answer(turn: str, step: int, text: str = "yes", calls: Sequence[str] = ()) -> AnswerReceived:
    parts = [Text(text), *(ToolCall(call, "edit", '{"path":"a"}') for call in calls)]
    message = said(turn, Role.ASSISTANT, f"{step}/a", *parts)
    return AnswerReceived(turn, step, message, 5, "test", Usage(50, 5), "stop", "model-1")


def result(turn: str, step: int, call: str, text: str = "done") -> ResultReceived:
    facts = ToolFacts(Op.WRITE, (f"{call}.py",))
    message = said(turn, Role.TOOL, f"{step}/{call}", ToolResult(call, text, facts=facts))
    return ResultReceived(turn, step, message, 4, "test")


def turn_batches(turn: str, text: str = "do it", size: int = 10) -> list[list[Event]]:
    """A whole turn with two calls, as the batches it's written in; 9 events."""
    calls = [f"{turn}/c0", f"{turn}/c1"]
    return [
        [prompt(turn, text)],
        [TurnStarted(turn), StepStarted(turn, 1, OCCUPANCY)],
        [answer(turn, 1, "x" * size, calls)],
        [result(turn, 1, calls[1], "r" * size), result(turn, 1, calls[0])],
        [StepStarted(turn, 2, OCCUPANCY)],
        [answer(turn, 2, "finished"), TurnEnded(turn, Stop.DONE)],
    ]


def checkpoint(state: State, ledger: str = "what was done") -> CheckpointCommitted:
    """A checkpoint of everything, which keeps the last message and the handoff out."""
    tail = [item for item in state.items if isinstance(item, MessageItem)][-1:]
    kept = tuple(Kept(item.seq, item.message, item.tokens) for item in tail if not item.message.results)
    facts = state.facts
    words = (Word("w", "what the person said"),)
    replacement = Replacement(ledger, words, words, (), "fence", kept, 20)
    report = CompactionReport(Reason.THRESHOLD, Strategy.DETERMINISTIC, "ullage", 90, 40, 1, 9)
    return CheckpointCommitted(VERSION, facts.last_seq, facts.revision, facts.epoch, replacement, report, facts)


class Writer:
    """Appends to a log and keeps the state beside it, as the session's actor does."""

    def __init__(self, files: Files, home: Path = HOME, session_id: str = SESSION, root: str = ROOT) -> None:
        self.files = files
        self.path = place(home, session_id, root)
        self.log = SessionLog.create(files, self.path, created(session_id, root), AT)
        self.state = fold(self.log.entries())
        self.at = AT

    def write(self, *events: Event) -> None:
        self.at += 1
        self.state = fold(self.log.append(events, self.at), self.state)

    def turns(self, count: int, size: int = 10, first: int = 0) -> None:
        for number in range(first, first + count):
            for batch in turn_batches(f"t{number}", f"prompt {number}", size):
                self.write(*batch)

    def compact(self) -> None:
        self.write(HandoffRecorded('{"plan":1}', 7))
        self.write(checkpoint(self.state))

    @property
    def redoable(self) -> bool:
        return self.state.facts.redoable >= 0

    def rewind(self, turn: str | None) -> None:
        """Back to before a turn; None redoes."""
        self.write(going(list(self.log.entries()), turn))

    def random(self, rng: random.Random) -> None:
        """Some next thing that may happen, rewinds and redos among it."""
        turns = [turn for turn, _ in self.state.facts.ended_turns]
        if self.redoable and rng.random() < 0.4:
            self.rewind(None)
        elif turns and rng.random() < 0.3:
            with suppress(BadInput):
                self.rewind(rng.choice(turns))
        else:
            for batch in random_batches(rng, self.state):
                self.write(*batch)


def small_log(turns: int = 3, *, compact_after: int | None = None, size: int = 10) -> bytes:
    """A synced log of so many turns; a checkpoint after one of them."""
    disk = fake_disk()
    writer = Writer(disk)
    for number in range(turns):
        writer.turns(1, size, number)
        if number == compact_after:
            writer.compact()
    writer.log.sync()
    writer.log.close()
    return disk.content(writer.path)


def random_batches(rng: random.Random, state: State) -> list[list[Event]]:
    """A turn or a checkpoint, at random: some next thing that may happen in this state."""
    if rng.random() < 0.25 and len(state.items):
        return [[checkpoint(state, f"ledger {rng.random()}")]]
    if rng.random() < 0.2:
        return [[HandoffRecorded('{"a":1}', 3)]]
    turn = new_session_id(rng.randrange(1 << 40))
    return turn_batches(turn, "p", rng.randrange(50))
