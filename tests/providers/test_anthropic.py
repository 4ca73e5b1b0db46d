"""The Anthropic provider: what comes out of a stream, what goes in, and what it does when a call fails."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.providers.claude import KEY, MODEL, asks, claude, goes_on

from ullage.core.messages import BlobRef, Image, Reasoning, Role, Text, ToolCall, Usage
from ullage.core.ports import Answer, ModelCard, ReasoningDelta, Retrying, TextDelta
from ullage.core.requests import RequestMessage
from ullage.providers.anthropic import Anthropic, AnthropicSummariser
from ullage.providers.anthropic_errors import rows
from ullage.providers.anthropic_stream import usage_of
from ullage.providers.keys import Keys
from ullage.providers.limits import Limits
from ullage.providers.models import TABLE, from_table
from ullage.testing.messages_api import canonical, tokens
from ullage.testing.messages_script import (
    Line,
    Raw,
    Says,
    Thought,
    Use,
    breaks,
    cut,
    page,
    refuses,
    reset,
    says,
    stalls,
    use,
)

# --- what comes out ---


async def test_text_and_thinking_are_streamed_and_the_answer_holds_them_whole() -> None:
    async with claude([Says((Thought("First I look at it."), "I look at it now."), pieces=5)]) as c:
        events = await c.events()
    answer = events[-1]
    assert isinstance(answer, Answer)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "I look at it now."
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "First I look at it."
    assert [type(part) for part in answer.parts] == [Reasoning, Text]
    assert (answer.stop, answer.model) == ("end_turn", MODEL)


async def test_signed_thinking_goes_back_as_it_came() -> None:
    """Redacted thinking too; the server refuses what it did not sign."""
    hidden = Raw({"type": "redacted_thinking", "data": "c2VjcmV0"})
    async with claude([says(Thought("Hm."), hidden, use("read", path="a.py")), says("Done.")]) as c:
        first = await c.answer()
        await c.answer(goes_on(asks(), first))
        sent = c.api.asked[1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "redacted_thinking", "tool_use"]
    assert sent[1] == hidden.block
    assert isinstance(first.parts[0], Reasoning) and first.parts[0].opaque is not None
    assert first.usage.reasoning is None


async def test_thinking_that_nobody_signed_is_shown_and_not_sent_back() -> None:
    """As compatible endpoints stream it."""
    block = Raw({"type": "thinking", "thinking": "Hm.", "signature": ""})
    async with claude([says(block, "Well.", output_tokens_details={"thinking_tokens": 7})]) as c:
        answer = await c.answer()
    assert answer.parts == (Reasoning("Hm."), Text("Well."))
    assert answer.usage.reasoning == 7


ARGUMENTS = {
    "plain": '{"path": "a.py"}',
    "order and numbers as they came": '{"b": 1.0, "a": 12345678901234567890}',
    "broken": '{"path": "a.py"',
    "no object": "[1, 2]",
    "nothing": "",
    "lone surrogate": '{"path": "\\ud83d"}',
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
async def test_arguments_are_the_text_that_was_streamed(arguments: str) -> None:
    """And whatever they are, the next request is one that is taken."""
    async with claude([says(Use("read", arguments)), says("Done.")]) as c:
        answer = await c.answer()
        [called] = answer.parts
        assert isinstance(called, ToolCall)
        assert called.arguments == (arguments or "{}")
        assert (await c.answer(goes_on(asks(), answer))).stop == "end_turn"


async def test_calls_side_by_side() -> None:
    script = [says("Both.", use("read", path="a.py"), use("read", path="b.py")), says("Done.")]
    async with claude(script) as c:
        answer = await c.answer()
        assert [part.arguments for part in answer.parts if isinstance(part, ToolCall)] == [
            '{"path": "a.py"}',
            '{"path": "b.py"}',
        ]
        assert answer.stop == "tool_use"
        await c.answer(goes_on(asks(), answer))
        results = c.api.asked[1]["messages"][2]["content"]
    assert [block["type"] for block in results] == ["tool_result", "tool_result"]


STOPS: dict[str, tuple[Line, list[type], str]] = {
    "output limit": (says("Half a", stop="max_tokens"), [Text], "max_tokens"),
    "window reached": (says("Half a", stop="model_context_window_exceeded"), [Text], "model_context_window_exceeded"),
    "a call cut off": (says("Now", Use("read", '{"path": "a'), stop="max_tokens"), [Text], "max_tokens"),
    "a whole call before the limit": (says(use("read", path="a"), stop="max_tokens"), [ToolCall], "max_tokens"),
    "a stop sequence": (says("So", stop="stop_sequence"), [Text], "stop_sequence"),
    "nothing said": (says(), [], "end_turn"),
}


@pytest.mark.parametrize(("line", "parts", "stop"), STOPS.values(), ids=STOPS.keys())
async def test_stop_reasons(line: Line, parts: list[type], stop: str) -> None:
    async with claude([line]) as c:
        answer = await c.answer()
    assert ([type(part) for part in answer.parts], answer.stop) == (parts, stop)


# --- usage and caches ---

USAGES: dict[str, tuple[dict[str, Any], Usage]] = {
    "all of it": (
        {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 9},
        Usage(125, 9, None, 100, 20),
    ),
    "no cache": ({"input_tokens": 5, "output_tokens": 9}, Usage(5, 9)),
    "nothing": ({}, Usage()),
    "the last inner message counts, a compaction does not": (
        {
            "input_tokens": 30,
            "output_tokens": 12,
            "iterations": [
                {"type": "message", "input_tokens": 10, "output_tokens": 4},
                {"type": "message", "input_tokens": 20, "output_tokens": 8},
                {"type": "compaction", "input_tokens": 900, "output_tokens": 90},
            ],
        },
        Usage(20, 8),
    ),
}


@pytest.mark.parametrize(("given", "expected"), USAGES.values(), ids=USAGES.keys())
def test_usage(given: dict[str, Any], expected: Usage) -> None:
    assert usage_of(given) == expected


async def test_the_cache_holds_all_but_the_new_tail() -> None:
    """Step after step the whole last request is read from the cache, and the prompt's size is what was counted."""
    lines = [says(f"Step {n}.", use("read", path=f"{n}.py")) for n in range(6)]
    async with claude([*lines, says("Done.")]) as c:
        request, answers = asks(), []
        for _ in range(7):
            answers.append(await c.answer(request))
            request = goes_on(request, answers[-1])
        bodies = c.api.asked
        counted = await c.provider.count_tokens(request)
    for before, after in pairwise(answers):
        assert before.usage.prompt is not None and after.usage.cache_read is not None
        assert abs(after.usage.cache_read - before.usage.prompt) <= 1
    assert all(canonical(after).startswith(canonical(before)) for before, after in pairwise(bodies))
    assert answers[-1].usage.prompt is not None and counted > answers[-1].usage.prompt


# --- images ---


async def test_images_are_loaded_at_the_edge() -> None:
    """Design 3, rule 3: one that went missing since the request was planned is recorded before it is left out."""
    image = Image(BlobRef("0" * 64, 4), "image/png", 2, 2)
    request = replace(asks(), messages=(RequestMessage(Role.USER, (image, Text("What is it?"))),))
    stored = {image: b"\x89PNG"}
    async with claude([says("A dot.")], load=stored.get) as c:
        await c.answer(request)
        stored.clear()
        again = replace(request, messages=(RequestMessage(Role.USER, request.messages[0].blocks),))
        failure, _ = await c.failure(again)
        [shown] = (body["messages"][0]["content"][0] for body in c.api.asked)
    assert shown["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
    assert failure.report.code == "image_missing" and not failure.transient


# --- failing ---

TOO_LONG = "prompt is too long: 215000 tokens > 200000 maximum"
NO_ROOM = "input length and `max_tokens` exceed context limit: 199990 + 4000 > 199980, decrease input length"

FAILURES: dict[str, tuple[Line, str, dict[str, Any]]] = {
    "overflow": (
        refuses(400, "invalid_request_error", TOO_LONG),
        "context_overflow",
        {"overflow": True, "limit": 200_000, "data": {"prompt": 215_000, "window": 200_000, "status": 400}},
    ),
    "overflow without room for an answer": (
        refuses(400, "invalid_request_error", NO_ROOM),
        "context_overflow",
        {"overflow": True, "limit": 199_980},
    ),
    "overflow elsewhere": (
        refuses(400, "invalid_request_error", "This model's maximum context length is 8192 tokens. However, you ..."),
        "context_overflow",
        {"overflow": True, "limit": 8_192},
    ),
    "overflow of a local server": (
        refuses(400, "api_error", "request (9000 tokens) exceeds the available context size (8192 tokens)"),
        "context_overflow",
        {"overflow": True, "limit": 8_192, "data": {"prompt": 9_000, "window": 8_192, "status": 400}},
    ),
    "words alone of a small request": (
        refuses(400, "invalid_request_error", "context_length_exceeded"),
        "request_refused",
        {},
    ),
    "too many bytes": (refuses(413, "request_too_large"), "request_too_large", {"overflow": True}),
    "too many bytes, a page": (page(413), "request_too_large", {"overflow": True}),
    "bad request": (refuses(400, "invalid_request_error"), "request_refused", {}),
    "no permission": (refuses(403, "permission_error"), "not_permitted", {}),
    "no credit": (refuses(402, "billing_error"), "payment_required", {}),
    "unknown model": (refuses(404, "not_found_error"), "model_unknown", {}),
    "redirected": (refuses(302, "x", location="http://127.0.0.1:9/"), "request_refused", {}),
    "rate limit": (refuses(429, "rate_limit_error"), "rate_limited", {"again": True}),
    "rate limit in words of an overflow": (
        refuses(429, "rate_limit_error", TOO_LONG),
        "rate_limited",
        {"again": True},
    ),
    "overloaded": (refuses(529, "overloaded_error"), "provider_overloaded", {"again": True}),
    "unavailable": (refuses(503, "api_error"), "provider_unavailable", {"again": True}),
    "internal": (refuses(500, "api_error"), "provider_broken", {"again": True}),
    "timeout": (refuses(504, "timeout_error"), "provider_timeout", {"again": True}),
    "a page of a gateway": (page(502, "<html>502</html>"), "provider_broken", {"again": True}),
    "told not to": (refuses(529, "overloaded_error", x_should_retry="false"), "provider_overloaded", {}),
    "error first in the stream": (breaks("", "overloaded_error"), "provider_overloaded", {"again": True}),
    "overflow in the stream": (
        breaks("", "invalid_request_error", TOO_LONG),
        "context_overflow",
        {"overflow": True, "limit": 200_000},
    ),
    "error in the middle": (breaks("I was", "overloaded_error"), "provider_overloaded", {"said": "I was"}),
    "unknown error in the middle": (breaks("I was", "new_error"), "provider_broken", {"said": "I was"}),
    "cut": (cut("I was"), "stream_cut", {"said": "I was"}),
    "cut before a word": (cut(), "stream_cut", {}),
    "reset": (reset("I was"), "stream_cut", {"said": "I was"}),
    "refusal": (says("I can", stop="refusal"), "model_refused", {"said": "I can"}),
    "pause": (says("Wait.", stop="pause_turn"), "answer_paused", {"said": "Wait."}),
}


@pytest.mark.parametrize(("line", "code", "more"), FAILURES.values(), ids=FAILURES.keys())
async def test_every_failure_is_typed_and_says_what_to_do(line: Line, code: str, more: dict[str, Any]) -> None:
    """W-R1: `again`: it is tried again, as often as the limit says. `said`: there was output, so it is not."""
    tries = 3 if more.get("again") else 1
    async with claude([line] * 3, Limits(anthropic_tries=3)) as c:
        failure, events = await c.failure()
        assert len(c.api.asked) == tries
    report = failure.report
    assert (report.code, failure.overflow, failure.limit) == (code, more.get("overflow", False), more.get("limit"))
    assert report.message and report.hint
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == more.get("said", "")
    assert [e.attempt for e in events if isinstance(e, Retrying)] == list(range(2, tries + 1))
    assert failure.transient == (code in {"provider_overloaded", "provider_broken"} if more.get("said") else tries > 1)
    if "data" in more:
        assert dict(report.data) == more["data"]


async def test_a_call_that_failed_is_made_again_and_the_listener_knows() -> None:
    script = [refuses(529, "overloaded_error"), refuses(503, "api_error"), breaks("", "api_error"), says("Here.")]
    async with claude(script) as c:
        events = await c.events()
        assert c.waits == [1.0, 2.0, 4.0]
        assert len({json.dumps(body) for body in c.api.asked}) == 1
    tried = [event for event in events if isinstance(event, Retrying)]
    assert [(e.attempt, e.most, e.error.code) for e in tried] == [
        (2, 5, "provider_overloaded"),
        (3, 5, "provider_unavailable"),
        (4, 5, "provider_broken"),
    ]
    assert isinstance(events[-1], Answer)


@pytest.mark.parametrize(("said", "waits"), [("7", [7.0]), ("0", [0.0]), ("soon", [1.0]), ("90", [])])
async def test_a_wait_is_what_the_provider_says_unless_it_is_too_long(said: str, waits: list[float]) -> None:
    async with claude([refuses(429, "rate_limit_error", retry_after=said), says("Here.")]) as c:
        if waits:
            await c.answer()
        else:
            assert (await c.failure())[0].report.code == "rate_limited"
        assert c.waits == waits


async def test_an_output_cap_that_leaves_no_room_is_lowered_once() -> None:
    """Older models count it; the request itself fits."""
    async with claude([says("Short.")], window=1_000, output_counts=True) as c:
        await c.answer(asks(most=990))
        first, second = c.api.asked
    assert (first["max_tokens"], second["max_tokens"]) == (990, 1_000 - tokens(first))


async def test_a_server_that_is_not_there() -> None:
    async with claude(limits=Limits(anthropic_tries=2)) as c:
        c.provider._url = "http://127.0.0.1:9"
        failure, events = await c.failure()
    assert failure.report.code == "no_connection"
    assert [type(event) for event in events] == [Retrying]


async def test_a_silent_stream_is_given_up() -> None:
    async with claude([stalls("I was")], Limits(anthropic_silence=0.2)) as c:
        failure, events = await c.failure()
        await c.api.until(left=1)
    assert failure.report.code == "provider_timeout"
    assert len(events) == 1


@pytest.mark.parametrize("blocks", [(), ("I was",)])
async def test_cancelling_closes_the_stream_at_once(blocks: tuple[str, ...]) -> None:
    """Whether something came already or not."""
    async with claude([stalls(*blocks)]) as c:
        task = asyncio.create_task(c.events())
        await c.api.until(count=1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await c.api.until(left=1)


# --- the model's card ---


def known(window: int, source: str) -> ModelCard:
    """The card of a model that the table knows; the endpoint's breakpoints hold for five minutes."""
    return ModelCard(MODEL, window, source, cache_ms=300_000)


CARDS: dict[str, tuple[dict[str, Any], ModelCard]] = {
    "the provider says": ({MODEL: (50_000, 2_000)}, known(50_000, "provider")),
    "it does not know the model": ({}, known(200_000, "table")),
    "it says nothing of the window": ({MODEL: (None, None)}, known(200_000, "table")),
}


@pytest.mark.parametrize(("models", "card"), CARDS.values(), ids=CARDS.keys())
async def test_the_window_and_who_said_so(models: dict[str, Any], card: ModelCard) -> None:
    """Bugs row 11: the output limit is clamped from the card."""
    async with claude([says("Here."), says("Here.")], models=models) as c:
        assert c.provider.card == known(200_000, "table")
        await c.answer(asks(most=100_000))
        await c.answer()
        assert c.provider.card == card
        assert [each.path for each in c.api.requests].count(f"/v1/models/{MODEL}") == 1
        assert c.api.asked[0]["max_tokens"] == (models.get(MODEL, (0, None))[1] or 32_000)


async def test_a_smaller_window_is_learned_from_the_refusal() -> None:
    async with claude([], window=40) as c:
        failure, _ = await c.failure()
        assert (failure.overflow, failure.limit) == (True, 40)
        assert c.provider.card == known(40, "provider")


def test_the_table_knows_its_limits() -> None:
    assert from_table("claude-opus-4-6-20260101")[0] == replace(
        known(1_000_000, "table"), name="claude-opus-4-6-20260101"
    )
    assert from_table("somebody-elses") == (ModelCard("somebody-elses", None, "unknown"), None)
    beginnings = [row[0] for row in TABLE]
    for place, beginning in enumerate(beginnings):
        assert not any(beginning.startswith(earlier) for earlier in beginnings[:place]), f"{beginning} is never reached"


# --- summaries ---


async def test_a_summary_by_another_model() -> None:
    """It is asked under its own name, whatever the session's model is called."""
    async with claude([says("<summary>Short.</summary>")]) as c:
        request = replace(asks(), model="claude-other")
        answer = await AnthropicSummariser(c.provider).summarise(request)
        assert c.api.asked[0]["model"] == MODEL
    assert answer.parts == (Text("<summary>Short.</summary>"),)


# --- keys ---


async def test_a_key_that_is_refused_is_in_no_error() -> None:
    """Even where the server sends it back."""
    async with claude() as c:
        c.api.key = "another"
        failure, _ = await c.failure()
    assert failure.report.code == "key_refused"
    assert KEY not in repr(failure.report) and "[key]" in failure.report.message


async def test_a_new_key_is_used_from_the_next_request_on() -> None:
    async with claude([says("One."), says("Two.")]) as c:
        await c.answer()
        c.api.key = "second-key"
        c.provider._keys.give("anthropic", "second-key")
        old = c.provider._client
        await c.answer()
        assert old is not None
        await old[1].close()


async def test_without_a_key_nothing_is_sent() -> None:
    provider = Anthropic(MODEL, Keys())
    with pytest.raises(Exception, match="no key") as caught:
        await anext(provider.stream(asks()))
    assert "ANTHROPIC_API_KEY" in caught.value.report.hint  # type: ignore[attr-defined]


def test_the_page_names_every_kind_of_failure() -> None:
    page = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
    assert [row.code for row in rows() if f"`{row.code}`" not in page] == []
    assert [row.code for row in rows() if not (row.says and row.hint)] == []
