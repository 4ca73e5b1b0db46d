"""What of a session can be found by words: passages of what a client may see.

Invariant: passages are made from `Shown` and from nothing else, so that what is hidden can't be found. A prompt counts
from the moment its turn takes it: what waits, was edited or removed before was never said to the model. What `recall`
was asked and gave back is left out, since it would only find itself; so are ledgers, whose sources can be found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Final

from ullage.core.events import SessionForked, SessionRenamed
from ullage.core.messages import BlobRef, Message, ToolCall, ToolResult
from ullage.core.views import (
    Shown,
    ShownAnswer,
    ShownPin,
    ShownPrompt,
    ShownPromptGone,
    ShownResult,
    ShownSession,
    ShownSteer,
    ShownTurnStart,
)

RECALL: Final = "recall"
"""Name of the tool that finds passages."""
PASSAGE_CHARS: Final = 4_000
"""A longer text is cut into passages of that many characters. Stored indexes rest on it."""
OVERLAP_CHARS: Final = 300
"""What two neighbours share, so that words at the cut are whole in one of them: more than any term of a query."""

ReadFull = Callable[[BlobRef], str | None]
"""The full text of a shortened result, or None where it is lost."""


class PassageKind(StrEnum):
    """What a passage is a part of."""

    PROMPT = "prompt"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    TITLE = "title"


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of what was said. `offset` is its place in the whole text, in characters.

    `seq` is the event that said it, `label` names the tool, paths and command of a call or result, and `part` tells
    the texts of one event apart. `full` is where a shortened result's whole text lies: `offset` counts in that.
    """

    seq: int
    at: int
    message_id: str
    kind: PassageKind
    part: str
    label: str
    offset: int
    text: str
    full: BlobRef | None = None


class Gatherer:
    """Takes a session's shown events in order and gives its passages. `dump` and `restore` carry it over a pause."""

    def __init__(self, read_full: ReadFull) -> None:
        self._read_full = read_full
        self._waiting: dict[str, Passage] = {}
        """Prompts that no turn took yet, by turn id."""
        self._tools: dict[str, str] = {}
        """Tool names of the newest answer's calls, by call id."""

    def dump(self) -> str:
        """What is remembered between two events, as JSON."""
        return json.dumps([{turn: asdict(passage) for turn, passage in self._waiting.items()}, self._tools])

    def restore(self, dumped: str) -> None:
        waiting, self._tools = json.loads(dumped)
        self._waiting = {
            turn: Passage(**{**fields, "kind": PassageKind(fields["kind"])}) for turn, fields in waiting.items()
        }

    def take(self, shown: Shown) -> Iterator[Passage]:
        """The passages that an event adds."""
        for passage in self._whole(shown):
            yield from _cut(passage)

    def _whole(self, shown: Shown) -> Iterator[Passage]:
        match shown.what:
            case ShownPrompt(message):
                self._waiting[message.turn_id] = _said(shown, PassageKind.PROMPT, message)
            case ShownPromptGone(turn_id):
                self._waiting.pop(turn_id, None)
            case ShownTurnStart(turn_id) | ShownSteer(steer_id=turn_id):
                if passage := self._waiting.pop(turn_id, None):
                    yield passage
            case ShownAnswer(message):
                yield _said(shown, PassageKind.ANSWER, message)
                yield from self._calls(shown, message)
            case ShownResult(message):
                yield from self._results(shown, message)
            case ShownPin(pin) if pin.typed:
                yield Passage(shown.seq, shown.at, pin.pin_id, PassageKind.PROMPT, "", "", 0, pin.text)
            case ShownSession(SessionRenamed(title)):
                yield Passage(shown.seq, shown.at, "", PassageKind.TITLE, str(shown.seq), "", 0, title)
            case ShownSession(SessionForked()):
                self._waiting.clear()
            case _:
                pass

    def _calls(self, shown: Shown, message: Message) -> Iterator[Passage]:
        self._tools = {call.call_id: call.name for call in message.calls}
        for call in message.calls:
            if call.name != RECALL:
                text = arguments_text(call)
                yield Passage(
                    shown.seq, shown.at, message.message_id, PassageKind.CALL, call.call_id, call.name, 0, text
                )

    def _results(self, shown: Shown, message: Message) -> Iterator[Passage]:
        for result in message.results:
            name = self._tools.get(result.call_id, "")
            if name == RECALL:
                continue
            full = None if result.full is None else self._read_full(result.full)
            yield Passage(
                shown.seq,
                shown.at,
                message.message_id,
                PassageKind.RESULT,
                result.call_id,
                _label(name, result),
                0,
                result.text if full is None else full,
                None if full is None else result.full,
            )


def _said(shown: Shown, kind: PassageKind, message: Message) -> Passage:
    return Passage(shown.seq, shown.at, message.message_id, kind, "", "", 0, message.text)


def _label(name: str, result: ToolResult) -> str:
    facts = result.facts
    return " ".join(part for part in (name, *facts.paths, facts.command or "") if part)


def arguments_text(call: ToolCall) -> str:
    """A call's arguments for people: a line for each, strings as they are; what is no object stays as it came."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    if not isinstance(arguments, dict):
        return call.arguments
    return "\n".join(f"{name}: {_value(value)}" for name, value in arguments.items())


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(passage: Passage) -> Iterator[Passage]:
    """The passage, or several that overlap; none of what has no text."""
    text, step = passage.text, PASSAGE_CHARS - OVERLAP_CHARS
    if not text.strip() and not passage.label:
        return
    for offset in range(0, max(1, len(text) - OVERLAP_CHARS), step):
        yield replace(passage, offset=offset, text=text[offset : offset + PASSAGE_CHARS])
