"""The contract of `Provider`, run against the fake and the offline explorer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ullage.core.messages import Role, Text, ToolCall
from ullage.core.ports import Answer, Provider, ProviderFailure, ReasoningDelta, TextDelta
from ullage.core.requests import Request, RequestMessage, RequestTool
from ullage.providers.explorer import Explorer
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


PROVIDERS: dict[str, Callable[[], Provider]] = {
    "explorer": explorer,
    "scripted": lambda: ScriptedModel([say("I look at it.", call("read", path="a.py"))]),
    "scripted, thinking": lambda: ScriptedModel([think("Hm.", "Well.")]),
}
OVERFLOWING: dict[str, Callable[[], Provider]] = {
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
