"""The contract of `Provider`, run against the fake, the offline explorer, and Anthropic's SDK in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from ullage.core.messages import Role, Text, ToolCall
from ullage.core.ports import Answer, Provider, ProviderFailure, ReasoningDelta, TextDelta
from ullage.core.requests import Request, RequestMessage, RequestTool
from ullage.providers.anthropic import Anthropic, World
from ullage.providers.explorer import Explorer
from ullage.providers.keys import Keys
from ullage.providers.limits import Limits
from ullage.providers.tokens import ApproximateCounter
from ullage.testing.model import ScriptedModel, call, overflow, say, think

TOOLS = tuple(RequestTool(name, f"The tool {name}.", "{}") for name in ("glob", "grep", "list", "read"))


def request(text: str = "Explore this.") -> Request:
    return Request("any", "You are an agent.", TOOLS, (RequestMessage(Role.USER, (Text(text),)),), 1_200, 100)


def explorer() -> Provider:
    return Explorer(ApproximateCounter())


def small_explorer() -> Provider:
    return Explorer(ApproximateCounter(), Limits(explorer_window=1_000))


def claude(answer: Callable[[], httpx2.Response]) -> Provider:
    """Its SDK, with every request but the one for a message unknown."""

    def respond(request: httpx2.Request) -> httpx2.Response:
        return answer() if request.url.path == "/v1/messages" else httpx2.Response(404, json={})

    keys = Keys()
    keys.give("anthropic", "a-key")
    return Anthropic("claude-any", keys, world=World(transport=httpx2.MockTransport(respond)))


def answering() -> httpx2.Response:
    """I look at it, and a call."""
    usage = {"input_tokens": 5, "output_tokens": 7}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-any", "content": [], "usage": usage}
    tool = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    events = [
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I look "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "at it."}},
        {"type": "content_block_start", "index": 1, "content_block": tool},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]

    async def pieces() -> AsyncIterator[bytes]:
        for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            await asyncio.sleep(0)

    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=pieces())


def too_long() -> httpx2.Response:
    error = {"type": "invalid_request_error", "message": "prompt is too long: 5000 tokens > 1000 maximum"}
    return httpx2.Response(400, json={"type": "error", "error": error})


PROVIDERS: dict[str, Callable[[], Provider]] = {
    "anthropic": lambda: claude(answering),
    "explorer": explorer,
    "scripted": lambda: ScriptedModel([say("I look at it.", call("read", path="a.py"))]),
    "scripted, thinking": lambda: ScriptedModel([think("Hm.", "Well.")]),
}
OVERFLOWING: dict[str, Callable[[], Provider]] = {
    "anthropic": lambda: claude(too_long),
    "explorer": small_explorer,
    "scripted": lambda: ScriptedModel([overflow(1_000)]),
}


@pytest.mark.parametrize("make", PROVIDERS.values(), ids=PROVIDERS.keys())
async def test_deltas_come_first_then_exactly_one_answer(make: Callable[[], Provider]) -> None:
    """The deltas, joined, are the answer's text; every call has JSON arguments; usage is reported."""
    provider = make()
    events = [event async for event in provider.stream(request())]
    answer = events[-1]
    assert isinstance(answer, Answer)
    assert all(isinstance(event, TextDelta | ReasoningDelta) for event in events[:-1])
    streamed = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert streamed == "".join(part.text for part in answer.parts if isinstance(part, Text)) != ""
    assert answer.model == provider.card.name
    assert answer.usage.floor is not None
    assert answer.stop == ("tool_use" if any(isinstance(part, ToolCall) for part in answer.parts) else "end_turn")


@pytest.mark.parametrize("make", PROVIDERS.values(), ids=PROVIDERS.keys())
async def test_cancelling_ends_the_call_at_once(make: Callable[[], Provider]) -> None:
    """The task that iterates ends with the cancellation, in the middle of a stream, and nothing more is delivered."""
    provider = make()
    begun = asyncio.Event()
    got: list[object] = []

    async def consume() -> None:
        async for event in provider.stream(request()):
            got.append(event)
            begun.set()

    task = asyncio.create_task(consume())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(isinstance(event, Answer) for event in got)


@pytest.mark.parametrize("make", OVERFLOWING.values(), ids=OVERFLOWING.keys())
async def test_a_request_above_the_window_is_an_overflow_before_any_event(make: Callable[[], Provider]) -> None:
    stream = make().stream(request("word " * 4_000))
    with pytest.raises(ProviderFailure) as caught:
        await anext(stream)
    assert caught.value.overflow
    assert caught.value.limit == 1_000
    assert caught.value.report.code == "context_overflow"


@pytest.mark.parametrize("make", PROVIDERS.values(), ids=PROVIDERS.keys())
def test_a_card_says_where_its_window_comes_from(make: Callable[[], Provider]) -> None:
    card = make().card
    assert card.name
    assert card.window
    assert card.window_source in {"provider", "setting", "table"}
