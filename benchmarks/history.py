"""Synthetic sessions to measure with: the same seed gives the same session, on every machine.

A session is turns of one person: a prompt, then steps of one answer with one tool call and that call's result. Text is
made of words, names, numbers and indented lines, at about four characters a token, and no line twice on purpose.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ullage.context.occupancy import budget
from ullage.core.context import Measured, Occupancy, Phase
from ullage.core.events import (
    AnswerReceived,
    Entry,
    Event,
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
from ullage.core.state import State

AT = 1_700_000_000_000
"""The moment of every event, UTC milliseconds."""

SESSION = "018bcfe5-6800-7000-8000-000000000000"

NOW = Occupancy(1_000, 0, Measured.PROVIDER, 500, 0, Phase.BELOW_HANDOFF, budget(2_000_000, "table"))
"""What every step claims to have been decided with; nothing measured here depends on it."""

_WORDS = tuple(
    """
    the parser reads a header and keeps what it found until the caller asks for more of it because two writers may
    meet at one file when neither holds its lock so every test opens a fresh folder with known names before it runs
    return value self error index count buffer config request response session token window message result path line
    update create delete select import default handler manager factory iterator context cache queue worker stream
    """.split()  # noqa: SIM905  # a list of words is read best as words
)

_SYLLABLES = ("al", "be", "cor", "du", "fi", "gra", "ho", "is", "jo", "ka", "lum", "mer", "ost", "pra", "qui", "zen")


@dataclass(slots=True)
class Scribe:
    """Makes texts. One a session, so that a session's texts depend on its seed alone."""

    seed: int
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def text(self, chars: int) -> str:
        """Lines of prose and of code, together exactly that many characters."""
        lines: list[str] = []
        length = 0
        while length < chars:
            line = self._prose() if self.dice.random() < 0.4 else self._code()
            lines.append(line)
            length += len(line) + 1
        return "\n".join(lines)[:chars]

    def name(self) -> str:
        """An identifier: words joined, now and then one that nobody has seen."""
        if self.dice.random() < 0.9:
            return "_".join(self.dice.choices(_WORDS, k=2))
        return "_".join("".join(self.dice.choices(_SYLLABLES, k=2)) for _ in range(2))

    def _prose(self) -> str:
        return " ".join(self.dice.choices(_WORDS, k=14)).capitalize() + "."

    def _code(self) -> str:
        indent = "    " * self.dice.randrange(4)
        one, other = self.dice.choices(_WORDS, k=2)
        return f"{indent}{one}.{self.name()}({other}, {self.dice.randrange(10_000)})  # {self._prose()[:24]}"


@dataclass(slots=True)
class Session:
    """A session in the making. `batches` continues it; `count` gives the tokens of a message."""

    seed: int
    count: Callable[[Message], int]
    encoding: str = "bytes/4"
    answer_chars: int = 600
    result_chars: int = 3_400
    steps: int = 24
    """Steps of one turn."""
    scribe: Scribe = field(init=False)
    turns: int = 0

    def __post_init__(self) -> None:
        self.scribe = Scribe(self.seed)

    def created(self) -> SessionCreated:
        return SessionCreated(SESSION, "/project", 1, 2)

    def batches(self) -> Iterator[list[Event]]:
        """Batches of events, one a line of the log, from the header on and without end."""
        yield [self.created()]
        while True:
            yield from self._turn()

    def _turn(self) -> Iterator[list[Event]]:
        self.turns += 1
        turn_id = f"t{self.turns}"
        said = Message(f"{turn_id}/u", Role.USER, (Text(self.scribe.text(300)),), turn_id)
        yield [PromptQueued(said, PromptMode.QUEUE, self.count(said), self.encoding), TurnStarted(turn_id)]
        for step in range(1, self.steps + 1):
            yield from self.step(turn_id, step)
        yield [TurnEnded(turn_id, Stop.DONE)]

    def step(self, turn_id: str, step: int) -> Iterator[list[Event]]:
        """One step: its start, the answer with one call, and the call's result."""
        path = f"src/{self.scribe.name()}.py"
        call_id = f"{turn_id}/{step}/c0"
        call = ToolCall(call_id, "read", json.dumps({"path": path, "lines": 400}), f"call_{turn_id}_{step}")
        answer = Message(
            f"{turn_id}/{step}/a", Role.ASSISTANT, (Text(self.scribe.text(self.answer_chars)), call), turn_id
        )
        yield [StepStarted(turn_id, step, NOW)]
        yield [
            AnswerReceived(turn_id, step, answer, self.count(answer), self.encoding, Usage(), "tool_use", "scripted")
        ]
        result = ToolResult(
            call_id, self.scribe.text(self.result_chars), facts=ToolFacts(Op.READ, (path,), detail="read")
        )
        shown = Message(f"{turn_id}/{step}/r0", Role.TOOL, (result,), turn_id)
        yield [ResultReceived(turn_id, step, shown, self.count(shown), self.encoding)]


def rough(message: Message) -> int:
    """Tokens where nothing depends on them."""
    return sum(len(getattr(part, "text", "")) for part in message.parts) // 4


def grown(batches: Iterator[list[Event]], messages: int, state: State | None = None) -> State:
    """The state after that many messages; what is left in `batches` goes on from there."""
    state = state or State()
    while len(state.items) < messages:
        state = fold(entries_after(state, next(batches)), state)
    return state


def entries_after(state: State, batch: list[Event]) -> list[Entry]:
    """The batch's entries, where it follows that state."""
    return [Entry(seq, AT, event) for seq, event in enumerate(batch, state.facts.last_seq + 1)]


def texts_of(state: State) -> list[str]:
    """Every text that a session says: what is said, what is asked of tools, what they gave back."""
    said = [part for item in state.items for part in item.message.parts]  # type: ignore[union-attr]
    return [part.arguments if isinstance(part, ToolCall) else part.text for part in said]  # type: ignore[union-attr]
