"""The scripted model and summariser do what their script says, and say so when it ends."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from ullage.context.ledger import HEADINGS
from ullage.core.errors import BadInput
from ullage.core.messages import Role, Text, ToolCall, Usage
from ullage.core.ports import Answer, ProviderEvent, ProviderFailure, ReasoningDelta, TextDelta
from ullage.core.requests import Request, RequestMessage
from ullage.testing.model import (
    Line,
    ScriptedModel,
    ScriptedSummariser,
    ask,
    call,
    cut,
    empty_summary,
    fail,
    gated,
    good_summary,
    inflated_summary,
    overflow,
    raw_call,
    say,
    stall,
    think,
    truncated_summary,
)

REQUEST = Request("m", "system", (), (RequestMessage(Role.USER, (Text("hello"),)),), 100, 10)


async def play(line: Line) -> list[ProviderEvent]:
    return [event async for event in ScriptedModel([line]).stream(REQUEST)]


async def answer_of(line: Line) -> Answer:
    answer = (await play(line))[-1]
    assert isinstance(answer, Answer)
    return answer


async def test_text_reasoning_and_calls_are_streamed_and_answered() -> None:
    events = await play(think("Hm.", "two words", call("read", path="a"), raw_call("x", "{not json", "id7")))
    assert events[:3] == [ReasoningDelta("Hm."), TextDelta("two"), TextDelta(" words")]
    answer = events[3]
    assert isinstance(answer, Answer)
    assert [part for part in answer.parts if isinstance(part, ToolCall)] == [
        ToolCall("", "read", '{"path": "a"}'),
        ToolCall("", "x", "{not json", "id7"),
    ]
    assert answer.stop == "tool_use"


async def test_usage_is_honest_or_as_told() -> None:
    honest = (await answer_of(say("word"))).usage
    assert honest.prompt and honest.completion == 1
    assert (await answer_of(say("word", usage=Usage()))).usage == Usage()
    assert (await answer_of(say("word", usage=Usage(0, 0, 0)))).usage.floor is None


async def test_a_reply_can_depend_on_the_request_and_calls_need_no_word() -> None:
    answer = await answer_of(lambda request: ask(call("echo", system=request.system)))
    assert answer.parts == (ToolCall("", "echo", '{"system": "system"}'),)


async def test_requests_are_kept_and_an_exhausted_script_names_the_next_one() -> None:
    model = ScriptedModel([say("once")])
    async for _ in model.stream(REQUEST):
        pass
    with pytest.raises(AssertionError, match=r"no reply to request 2: 1 messages.*hello"):
        await anext(model.stream(REQUEST))
    assert model.requests == [REQUEST, REQUEST]


async def test_a_script_may_be_endless() -> None:
    model = ScriptedModel(itertools.repeat(say("again")))
    for _ in range(3):
        assert len([event async for event in model.stream(REQUEST)]) == 2


@pytest.mark.parametrize("text", ["", "some words first"])
async def test_failures_come_before_or_after_output(text: str) -> None:
    for line, is_overflow, limit in [(fail(529, text=text), False, None), (overflow(900, text=text), True, 900)]:
        got: list[ProviderEvent] = []
        stream = ScriptedModel([line]).stream(REQUEST)
        with pytest.raises(ProviderFailure) as caught:
            got += [await anext(stream) for _ in text.split()]
            await anext(stream)
        assert (caught.value.overflow, caught.value.limit) == (is_overflow, limit)
        assert len(got) == len(text.split())


async def test_a_cut_stream_just_stops() -> None:
    assert await play(cut("and then")) == [TextDelta("and"), TextDelta(" then")]


async def test_a_gate_holds_a_reply_until_it_is_set() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([gated(gate, say("now"))])
    first = asyncio.ensure_future(anext(model.stream(REQUEST)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not first.done()
    gate.set()
    assert await first == TextDelta("now")


async def test_a_stall_ends_by_cancelling_only() -> None:
    model = ScriptedModel([stall("begun")])
    stream = model.stream(REQUEST)
    assert await anext(stream) == TextDelta("begun")
    rest = asyncio.ensure_future(anext(stream))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not rest.done()
    assert model.open_streams == 1
    rest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rest
    assert model.open_streams == 0


async def test_a_script_can_be_json() -> None:
    script = [
        {"think": "Hm.", "say": "one", "calls": [{"name": "read", "arguments": {"path": "a"}}]},
        {"say": "more", "times": 2, "stop": "max_tokens", "usage": {"prompt": 7, "completion": 0}},
        {"overflow": 900},
        {"fail": 500, "say": "late"},
        {"cut": "half"},
        {"stall": ""},
    ]
    model = ScriptedModel.from_json(json.dumps({"window": 8_000, "name": "tiny", "script": script}))
    assert (model.card.name, model.card.window, model.card.window_source) == ("tiny", 8_000, "setting")
    assert list(model.script) == [
        think("Hm.", "one", call("read", path="a")),
        *[say("more", stop="max_tokens", usage=Usage(7, 0))] * 2,
        *list(model.script)[3:5],
        cut("half"),
        stall(),
    ]
    failures = [line.failure for line in list(model.script)[3:5] if not callable(line)]
    assert [failure and failure.overflow for failure in failures] == [True, False]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"script": [1]}', '{"script": [{"shout": "x"}]}', '{"script": [{}]}']
)
def test_bad_json_is_named(text: str) -> None:
    with pytest.raises(BadInput):
        ScriptedModel.from_json(text)


async def test_samples_of_a_summary() -> None:
    samples = [
        good_summary("Keep `x`."),
        empty_summary(),
        inflated_summary(7_000),
        truncated_summary(),
        fail(429),
        cut("<"),
    ]
    summariser = ScriptedSummariser(samples)
    good, empty, inflated, truncated = [await summariser.summarise(REQUEST) for _ in range(4)]
    assert all(_text(good).count(f"## {heading}\n- Keep `x`.") == 1 for heading in HEADINGS)
    assert _text(empty) == "<summary></summary>"
    assert len(_text(inflated)) > 30_000
    assert truncated.stop == "max_tokens" and "</summary>" not in _text(truncated)
    for _ in range(2):
        with pytest.raises(ProviderFailure):
            await summariser.summarise(REQUEST)
    assert len(summariser.requests) == 6


def _text(answer: Answer) -> str:
    return "".join(part.text for part in answer.parts if isinstance(part, Text))
