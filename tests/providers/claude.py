"""The Anthropic provider against the scripted server, without waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ullage.core.messages import Role, Text, ToolCall, ToolResult
from ullage.core.ports import Answer, ProviderEvent, ProviderFailure
from ullage.core.requests import Request, RequestMessage, RequestTool
from ullage.providers.anthropic import Anthropic, World
from ullage.providers.keys import ANTHROPIC, Keys
from ullage.providers.limits import Limits
from ullage.providers.shapes import LoadImage
from ullage.testing.messages_api import MessagesApi
from ullage.testing.messages_script import Line

MODEL = "claude-scripted"
KEY = "sk-canary-5d1f0c2b9a7e4f63"
"""Looked for wherever no key may be."""
TOOLS = (RequestTool("read", "Reads a file.", '{"properties":{"path":{"type":"string"}},"type":"object"}'),)


def asks(text: str = "Go on.", *, most: int = 4_000, tokens: int = 100) -> Request:
    return Request(MODEL, "You are an agent.", TOOLS, (RequestMessage(Role.USER, (Text(text),)),), most, tokens)


def goes_on(request: Request, answer: Answer) -> Request:
    """The request after an answer whose calls got results, as the builder makes it."""
    number = len(request.messages)
    parts = [
        replace(part, call_id=f"t1/{number}/c{place}") if isinstance(part, ToolCall) else part
        for place, part in enumerate(answer.parts)
    ]
    results = [ToolResult(part.call_id, "text") for part in parts if isinstance(part, ToolCall)]
    said = RequestMessage(Role.USER, tuple(results) or (Text("And then?"),))
    return replace(request, messages=(*request.messages, RequestMessage(Role.ASSISTANT, tuple(parts)), said))


@dataclass
class Claude:
    """A provider and the server it talks to."""

    api: MessagesApi
    provider: Anthropic
    waits: list[float] = field(default_factory=list)

    async def events(self, request: Request | None = None) -> list[ProviderEvent]:
        return [event async for event in self.provider.stream(request or asks())]

    async def answer(self, request: Request | None = None) -> Answer:
        answer = (await self.events(request))[-1]
        assert isinstance(answer, Answer)
        return answer

    async def failure(self, request: Request | None = None) -> tuple[ProviderFailure, list[ProviderEvent]]:
        """How it fails, and what came before."""
        events: list[ProviderEvent] = []
        try:
            async for event in self.provider.stream(request or asks()):
                events.append(event)  # noqa: PERF401  # what came before the failure is wanted
        except ProviderFailure as failure:
            return failure, events
        raise AssertionError(f"it did not fail: {events[-1]}")


@asynccontextmanager
async def claude(
    script: Iterable[Line] = (),
    limits: Limits | None = None,
    rules: bool = True,
    load: LoadImage = lambda image: None,
    **settings: object,
) -> AsyncIterator[Claude]:
    """A provider on a server of this script; nothing it was sent may break the API's rules."""
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    keys = Keys()
    keys.give(ANTHROPIC, KEY)
    async with MessagesApi(script, key=KEY, **settings) as api:  # type: ignore[arg-type]
        world = World(load, pause, lambda: 1.0)
        provider = Anthropic(MODEL, keys, api.url, limits, world)
        try:
            yield Claude(api, provider, waits)
        finally:
            await provider.close()
    assert not rules or api.refused == []
