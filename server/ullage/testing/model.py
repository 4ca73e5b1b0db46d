"""A scripted model: what it answers is written down beforehand, and what it was asked is kept.

    model = ScriptedModel([say("I look.", call("read", path="a.py")), overflow(8_000), say("Done.")])

A script is any iterable of replies, endless ones included (`itertools.repeat`); a function in it makes its reply from
the request. Nothing here waits for time: a reply can wait for an event (`gate`) or until it is cancelled (`stall`).
`ScriptedSummariser` plays the same replies as samples. `from_json` is for servers that run in a process of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from ullage.core.errors import BadInput, ErrorReport
from ullage.core.exact import HEADINGS
from ullage.core.messages import Part, Reasoning, Text, ToolCall, Usage
from ullage.core.ports import (
    Answer,
    ModelCard,
    ProviderEvent,
    ProviderFailure,
    ReasoningDelta,
    TextDelta,
    TokenCounter,
)
from ullage.core.requests import Request
from ullage.providers.measure import parts_tokens, request_tokens
from ullage.providers.tokens import ApproximateCounter

CARD = ModelCard("scripted", 200_000, "table")


class Ending(Enum):
    """How a stream ends after its deltas."""

    WHOLE = "whole"
    CUT = "cut"
    """It just stops, without an answer and without an error: a broken provider."""
    STALL = "stall"
    """It never ends by itself; only cancelling ends it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer to one request. `usage` None means an honest one is computed."""

    deltas: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    stop: str | None = None
    usage: Usage | None = None
    gate: asyncio.Event | None = None
    """Nothing is streamed before this event is set."""
    ending: Ending = Ending.WHOLE
    failure: ProviderFailure | None = None
    """Raised after the deltas, instead of an answer."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the answer consists of."""
        thoughts = (Reasoning("".join(self.thoughts)),) if self.thoughts else ()
        texts = (Text("".join(self.deltas)),) if self.deltas else ()
        return (*thoughts, *texts, *self.calls)


Line = Reply | Callable[[Request], Reply]
"""A line of a script."""


# --- writing scripts ---


def call(tool: str, /, **arguments: Any) -> ToolCall:
    """A tool call with arguments as JSON. Its id is empty, as the turn makes its own."""
    return ToolCall("", tool, json.dumps(arguments))


def raw_call(tool: str, arguments: str, provider_id: str | None = None) -> ToolCall:
    """A tool call with arguments as the text given, valid or not."""
    return ToolCall("", tool, arguments, provider_id)


def say(text: str, *calls: ToolCall, usage: Usage | None = None, stop: str | None = None) -> Reply:
    """Text, one delta a word, then calls."""
    return Reply(_words(text), calls=calls, usage=usage, stop=stop)


def think(thought: str, text: str = "", *calls: ToolCall) -> Reply:
    """Reasoning, then text and calls."""
    return Reply(_words(text), (thought,), calls)


def ask(*calls: ToolCall) -> Reply:
    """Calls without a word."""
    return Reply(calls=calls)


def gated(gate: asyncio.Event, reply: Reply) -> Reply:
    """The reply, once the event is set."""
    return replace(reply, gate=gate)


def stall(text: str = "") -> Reply:
    """Text, then nothing until it is cancelled."""
    return Reply(_words(text), ending=Ending.STALL)


def cut(text: str) -> Reply:
    """Text, then the stream stops without an answer."""
    return Reply(_words(text), ending=Ending.CUT)


def fail(status: int, code: str = "provider_failed", *, text: str = "") -> Reply:
    """An HTTP-like failure: before any event, or after some text."""
    report = ErrorReport(code, f"The scripted model failed with status {status}.", data=(("status", status),))
    transient = status in (408, 409, 429) or status >= 500
    return Reply(_words(text), failure=ProviderFailure(report, transient=transient))


def overflow(limit: int | None, *, text: str = "") -> Reply:
    """The request did not fit; `limit` is the window that the provider names, if it does."""
    report = ErrorReport(
        "context_overflow", f"The prompt is too long: at most {limit} tokens.", data=(("status", 400),)
    )
    return Reply(_words(text), failure=ProviderFailure(report, overflow=True, limit=limit))


def _words(text: str) -> tuple[str, ...]:
    first, *others = text.split(" ")
    return (first, *(f" {word}" for word in others)) if text else ()


# --- playing them ---


@dataclass(slots=True)
class ScriptedModel:
    """Implements `Provider`. `requests` are all it was asked, oldest first; `open_streams` those that have not ended.

    Asking more often than the script has lines is an AssertionError that names the request.
    """

    script: Iterable[Line]
    card: ModelCard = CARD
    counter: TokenCounter = field(default_factory=ApproximateCounter)
    requests: list[Request] = field(default_factory=list)
    open_streams: int = 0
    _lines: Iterator[Line] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = iter(self.script)

    @classmethod
    def from_json(cls, text: str) -> ScriptedModel:
        """A model from `{"window": 8000, "name": "scripted", "script": [...]}`, all but the script optional.

        A line is an object with `say`, `think`, `calls` (`[{"name", "arguments": {}}]`), `stop`, `usage`; or `stall`
        or `cut` with a text; or `fail` with a status; or `overflow` with a limit. `times` repeats it.

        Raises:
            BadInput: names what is not understood.
        """
        data = _object(text)
        window, name, script = data.get("window", CARD.window), data.get("name", CARD.name), data.get("script")
        if not isinstance(script, list):
            raise BadInput("The script of a scripted model must be a list.", hint='Write {"script": [...]}.')
        lines: list[Line] = [reply for line in script for reply in _parsed(line)]
        return cls(lines, ModelCard(name, window, "setting"))

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append(request)
        line = next(self._lines, None)
        assert line is not None, f"the script has no reply to request {len(self.requests)}: {_shown(request)}"
        reply = line(request) if callable(line) else line
        self.open_streams += 1
        try:
            async for event in self._play(reply, request):
                yield event
        finally:
            self.open_streams -= 1

    async def _play(self, reply: Reply, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if reply.gate:
            await reply.gate.wait()
        for thought in reply.thoughts:
            yield ReasoningDelta(thought)
        for delta in reply.deltas:
            yield TextDelta(delta)
            await asyncio.sleep(0)
        if reply.failure:
            # A fresh one each time: an exception that is raised twice carries both tracebacks.
            was = reply.failure
            raise ProviderFailure(was.report, overflow=was.overflow, limit=was.limit, transient=was.transient)
        if reply.ending is Ending.STALL:
            await asyncio.Event().wait()
        if reply.ending is Ending.WHOLE:
            yield self._answer(reply, request)

    def _answer(self, reply: Reply, request: Request) -> Answer:
        stop = reply.stop or ("tool_use" if reply.calls else "end_turn")
        return Answer(reply.parts, stop, reply.usage or self._usage(reply, request), self.card.name)

    def _usage(self, reply: Reply, request: Request) -> Usage:
        prompt = request_tokens(request, self.counter.count)
        completion = parts_tokens(reply.parts, self.counter.count)
        return Usage(prompt, completion, prompt + completion)


def _shown(request: Request) -> str:
    last = request.messages[-1] if request.messages else None
    return f"{len(request.messages)} messages, the last one {str(last)[:400]}"


# --- summaries ---


def good_summary(note: str = "As asked.", *, lines: int = 1) -> Reply:
    """A valid sample: each heading once, with `lines` items of the note."""
    items = "\n".join([f"- {note}"] * lines)
    body = "\n\n".join(f"## {heading}\n{items}" for heading in HEADINGS)
    return say(f"<analysis>Short.</analysis>\n<summary>\n{body}\n</summary>")


def empty_summary() -> Reply:
    """A sample without content."""
    return say("<summary></summary>")


def truncated_summary() -> Reply:
    """A sample that reached its output limit in the middle."""
    whole = "".join(good_summary().deltas)
    return say(whole[: len(whole) // 2], stop="max_tokens")


def inflated_summary(words: int = 60_000) -> Reply:
    """A valid sample far too long to be of any use."""
    return good_summary("word " * (words // len(HEADINGS)))


@dataclass(slots=True)
class ScriptedSummariser:
    """Implements `Summariser` by playing replies; `fail`, `stall` and `gated` make failing and slow samples."""

    script: Iterable[Line]
    card: ModelCard = CARD
    model: ScriptedModel = field(init=False)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(self.script, self.card)

    @property
    def requests(self) -> list[Request]:
        """All that it was asked, oldest first."""
        return self.model.requests

    async def summarise(self, request: Request) -> Answer:
        async for event in self.model.stream(request):
            if isinstance(event, Answer):
                return event
        cut_off = ErrorReport("stream_cut", "The summary's stream ended without an answer.")
        raise ProviderFailure(cut_off, transient=True)


# --- JSON ---

_KEYS = frozenset({"say", "think", "calls", "stop", "usage", "stall", "cut", "fail", "overflow", "times"})


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BadInput(f"The script is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise BadInput("The script must be a JSON object.", hint='Write {"script": [...]}.')
    return data


def _parsed(line: Any) -> list[Reply]:
    if not isinstance(line, dict) or not line or not line.keys() <= _KEYS:
        raise BadInput(f"A script cannot have the line {line!r}.", hint=f"Known keys: {', '.join(sorted(_KEYS))}.")
    return [_reply(line)] * int(line.get("times", 1))


def _reply(line: dict[str, Any]) -> Reply:
    match line:
        case {"stall": text}:
            return stall(text)
        case {"cut": text}:
            return cut(text)
        case {"fail": status}:
            return fail(status, text=line.get("say", ""))
        case {"overflow": limit}:
            return overflow(limit, text=line.get("say", ""))
        case _:
            calls = tuple(call(one["name"], **one.get("arguments", {})) for one in line.get("calls", ()))
            thoughts = (line["think"],) if "think" in line else ()
            return Reply(_words(line.get("say", "")), thoughts, calls, line.get("stop"), _usage(line.get("usage")))


def _usage(numbers: dict[str, int] | None) -> Usage | None:
    if numbers is None:
        return None
    known = {spec.name for spec in fields(Usage)}
    return Usage(**{name: number for name, number in numbers.items() if name in known})
