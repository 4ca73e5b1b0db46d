"""The maps between neutral messages and two APIs' JSON: lossless where the shape has a place, total for anything."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.histories import COUNTER, hard_messages

from ullage.context.conversation import conversation_of
from ullage.context.request import render
from ullage.context.settle import settled
from ullage.core.messages import Image, Message, Opaque, Reasoning, Role, Text, ToolCall, ToolResult
from ullage.core.requests import Request, RequestMessage, RequestTool
from ullage.core.state import MessageItem
from ullage.providers.anthropic_shape import anthropic_messages, messages_from_anthropic, to_anthropic
from ullage.providers.openai_shape import messages_from_openai, openai_messages, to_openai
from ullage.providers.shapes import RAW_ARGUMENTS, ImageStore, detect_shape, pixels, wire_id
from ullage.testing.api_rules import anthropic_problems, openai_problems

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "abc"}


def rendered(messages: list[Message]) -> list[RequestMessage]:
    items = [MessageItem(index, message, 0, "", 0) for index, message in enumerate(messages)]
    return render(items, "")[0]


def call(name: str = "c1", arguments: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "read", "input": {} if arguments is None else arguments}


def result(name: str = "c1", content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def check_anthropic(messages: list[Any]) -> list[dict[str, Any]]:
    store = ImageStore()
    written = anthropic_messages(rendered(settled(messages_from_anthropic(messages, images=store))), store.load)
    assert anthropic_problems(written) == []
    return written


def check_openai(messages: list[Any]) -> list[dict[str, Any]]:
    store = ImageStore()
    written = openai_messages(rendered(settled(messages_from_openai(messages, store))), store.load)
    assert openai_problems(written) == []
    return written


# --- a whole request ---


def test_a_whole_request_in_both_shapes() -> None:
    image = ImageStore()
    kept = image.keep("image/png", base64.b64encode(PIXEL))
    assert isinstance(kept, Image)
    blocks = (
        Reasoning("hm", Opaque("anthropic", "m", json.dumps(SIGNED))),
        Text("I look"),
        ToolCall("t1/1/c0", "read", '{"path": "a"}'),
    )
    messages = (
        RequestMessage(Role.USER, (Text("hi"), kept)),
        RequestMessage(Role.ASSISTANT, blocks),
        RequestMessage(Role.USER, (ToolResult("t1/1/c0", "no", is_error=True, images=(kept,)),)),
    )
    tools = (RequestTool("write", "w", '{"type":"object"}'), RequestTool("read", "r", '{"type":"object"}'))
    request = Request("m", "be kind", tools, messages, 100, 10)
    body = to_anthropic(request, image.load)
    assert body["system"] == "be kind" and [tool["name"] for tool in body["tools"]] == ["read", "write"]
    assert body["messages"][1]["content"][0] == SIGNED
    assert body["messages"][2]["content"][0]["is_error"] is True
    assert anthropic_problems(body["messages"]) == []
    other = to_openai(request, image.load)
    assert [each["role"] for each in other["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert other["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"path": "a"}'
    assert openai_problems(other["messages"]) == []


@pytest.mark.parametrize("raw", ["{broken", "[1]", "null", '{"a": NaN}', "{" * 5_000])
def test_arguments_that_are_no_object_are_carried_as_they_are(raw: str) -> None:
    call = RequestMessage(Role.ASSISTANT, (ToolCall("c", "t", raw),))
    block = anthropic_messages([call])[0]["content"][0]
    assert block["input"] == {RAW_ARGUMENTS: raw}
    read = messages_from_anthropic([{"role": "assistant", "content": [block]}])[0]
    assert read.calls[0].arguments == raw


@given(st.text(max_size=90), st.text(max_size=90))
@settings(max_examples=300, derandomize=True)
def test_call_ids_are_allowed_stable_and_unique(one: str, other: str) -> None:
    names = [wire_id(one), wire_id(other), wire_id(wire_id(one) + "-x" + "0" * 16)]
    assert all(name and len(name) <= 64 and name.replace("-", "").replace("_", "").isalnum() for name in names)
    assert (names[0] == names[1]) == (one == other)


# --- there and back ---

_TEXT = st.text(min_size=1, max_size=30).filter(str.strip)
_CALLS = st.lists(st.tuples(_TEXT, st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)), max_size=3)


@given(st.lists(st.tuples(_TEXT, _TEXT, _CALLS), min_size=1, max_size=4))
@settings(max_examples=150, derandomize=True)
def test_a_valid_history_comes_back_as_it_was(turns: list[Any]) -> None:
    messages: list[dict[str, Any]] = []
    for number, (said, answer, calls) in enumerate(turns):
        asked = [call(f"c{number}-{place}", arguments) for place, (_, arguments) in enumerate(calls)]
        messages.append({"role": "user", "content": [{"type": "text", "text": said}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}, *asked]})
        if asked:
            results = [result(f"c{number}-{place}", text) for place, (text, _) in enumerate(calls)]
            messages.append({"role": "user", "content": results})
            messages.append({"role": "assistant", "content": [{"type": "text", "text": "done"}]})
    assert check_anthropic(messages) == messages
    neutral = rendered(settled(messages_from_anthropic(messages)))
    there = openai_messages(neutral)
    assert openai_problems(there) == []
    assert openai_messages(rendered(settled(messages_from_openai(there)))) == there


# --- anything ---

USER = {"role": "user", "content": "hi"}
ASKED = {"role": "assistant", "content": [call()]}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


ODD: list[tuple[str, list[Any]]] = [
    ("a result that comes late", [USER, ASKED, USER, user(result())]),
    ("steering between", [USER, ASKED, user("wait", result())]),
    ("never answered", [USER, {"role": "assistant", "content": [call()]}]),
    ("any order", [USER, {"role": "assistant", "content": [call("a"), call("b")]}, user(result("b"), result("a"))]),
    ("glued", [{"role": "assistant", "content": [call(), result(), {"type": "text", "text": "x"}, call("d")]}]),
    ("an orphan", [{"role": "user", "content": [result("nobody")]}]),
    ("twice answered", [USER, ASKED, user(result(), result())]),
    ("one id twice", [USER, ASKED, user(result())] * 2),
    ("nothing", []),
    ("nulls", [None, {}, {"role": None, "content": None}, {"role": "user", "content": [None, 7, [], {}]}]),
    ("unknown block", [{"role": "user", "content": [{"type": "hologram", "data": {"x": 1}}]}]),
    ("a broken image", [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "%"}}]}]),
    ("no ids", [{"role": "assistant", "content": [{"type": "tool_use", "id": None, "name": 3, "input": "x"}]}]),
    ("lone surrogates", [{"role": "user", "content": "\ud83d"}, {"role": "assistant", "content": [call("\udc00")]}]),
    ("blank", [{"role": "user", "content": " "}, {"role": "assistant", "content": ""}]),
    ("results of results", [USER, ASKED, user(result(content=[result()]))]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "messages"), ODD, ids=[what for what, _ in ODD])
def test_odd_histories_come_out_valid(what: str, messages: list[Any]) -> None:
    check_anthropic(messages)
    check_openai(messages)


def test_a_late_result_finds_its_call() -> None:
    written = check_anthropic(ODD[0][1])
    assert [block["type"] for block in written[2]["content"]] == ["tool_result", "text"]
    assert written[2]["content"][0]["content"] == "ok"


def test_openai_oddities() -> None:
    asked = {"id": "x", "type": "function", "function": {"name": "bash", "arguments": "{"}}
    written = check_openai(
        [
            {"role": "system", "content": "s"},
            {"role": "assistant", "content": None, "tool_calls": [asked, None, {"id": "y", "function": "odd"}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]},
            {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "out"}]},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "r"},
        ]
    )
    assert [each["role"] for each in written] == ["user", "assistant", "tool", "tool", "user", "assistant", "tool"]
    assert written[2]["content"] == "out"


@pytest.mark.parametrize(
    ("messages", "shape"),
    [
        ([USER], "anthropic"),
        ([{"role": "system", "content": "s"}], "openai"),
        ([{"role": "assistant", "content": [call()]}], "anthropic"),
        ([{"role": "tool", "tool_call_id": "x", "content": ""}], "openai"),
        (["junk", None], "anthropic"),
    ],
)
def test_shapes_are_told_apart(messages: list[Any], shape: str) -> None:
    assert detect_shape(messages) == shape


def test_image_headers_are_read() -> None:
    assert pixels(PIXEL) == (1, 1)
    assert pixels(b"GIF89a\x05\x00\x07\x00") == (5, 7)
    assert pixels(b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x07\x00\x05\x03") == (5, 7)
    assert pixels(b"nonsense") == (1, 1)


@pytest.mark.parametrize("seed", range(0, 300, 10))
def test_hard_neutral_histories_are_valid_in_both_shapes(seed: int) -> None:
    for number in range(seed, seed + 10):
        messages = hard_messages(random.Random(number))
        for shown in (rendered(settled(messages)), rendered(list(_said(messages)))):
            assert anthropic_problems(anthropic_messages(shown, lambda image: b"x")) == []
            assert openai_problems(openai_messages(shown, lambda image: b"x")) == []


def _said(messages: list[Message]) -> list[Message]:
    talk = conversation_of(messages, COUNTER)
    assert not talk.state.facts.anomalies
    return [item.message for item in talk.state.items if isinstance(item, MessageItem)]
