"""The scripted Messages API refuses what the real one does: a client of ours that is wrong can't pass unseen."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.testing.messages_rules import problems
from ullage.testing.messages_script import signature

TOOL = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "u1", "name": "read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "u1", "content": "text"}
HELLO = {"role": "user", "content": "Hello."}
MARK = {"cache_control": {"type": "ephemeral"}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def agent(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str = "Text.") -> dict[str, Any]:
    return {"type": "text", "text": said}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": list(messages)} | more


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": signature("Hm.")}

GOOD: dict[str, Any] = {
    "a word": body(HELLO),
    "a call and its result": body(HELLO, agent(text(), USE), user(RESULT, text())),
    "thinking": body(HELLO, agent(THOUGHT, USE), user(RESULT), thinking={"type": "adaptive"}),
    "breakpoints": body(user(text() | MARK), system=[text() | MARK], tools=[TOOL | MARK], stream=True),
}
BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], "no object"),
    "no model": (body(HELLO) | {"model": ""}, "model"),
    "no room": (body(HELLO) | {"max_tokens": 0}, "max_tokens"),
    "unknown field": (body(HELLO, tokens=3), "Extra inputs"),
    "no messages": (body(), "at least one message"),
    "the agent first": (body(agent(text())), "first message"),
    "twice the same": (body(HELLO, HELLO), "alternate"),
    "blank text": (body(user(text(" \n"))), "non-whitespace"),
    "empty message": (body(user()), "non-empty"),
    "unknown block": (body(user({"type": "new"})), "Input tag"),
    "unknown role": (body({"role": "tool", "content": "x"}), "role"),
    "a call by the user": (body(user(USE)), "may not be in user"),
    "no result": (body(HELLO, agent(USE), HELLO), "without `tool_result`"),
    "open at the end": (body(HELLO, agent(USE)), "without `tool_result`"),
    "orphan result": (body(HELLO, agent(text()), user(RESULT)), "unexpected `tool_use_id`"),
    "result twice": (body(HELLO, agent(USE), user(RESULT, RESULT)), "single result"),
    "text before a result": (body(HELLO, agent(USE), user(text(), RESULT)), "must come first"),
    "id twice": (body(HELLO, agent(USE), user(RESULT), agent(USE), user(RESULT)), "unique"),
    "id with a slash": (body(HELLO, agent(USE | {"id": "t/1"}), user(RESULT | {"tool_use_id": "t/1"})), "pattern"),
    "input as text": (body(HELLO, agent(USE | {"input": "{}"}), user(RESULT)), "dictionary"),
    "tampered thinking": (body(HELLO, agent(THOUGHT | {"thinking": "Ha."}, text()), HELLO), "signature"),
    "thinking by hand left out": (
        body(HELLO, agent(USE), user(RESULT), thinking={"type": "enabled", "budget_tokens": 1_024}, max_tokens=2_000),
        "Expected `thinking`",
    ),
    "five breakpoints": (body(user(*[text() | MARK] * 5)), "maximum of 4"),
    "tool twice": (body(HELLO, tools=[TOOL, TOOL]), "unique"),
    "tool without schema": (body(HELLO, tools=[{"name": "read"}]), "input_schema"),
    "image that is none": (body(user({"type": "image", "source": {"type": "base64", "data": "?"}})), "base64"),
    "lone surrogate": (body(user(text("\ud800"))), "surrogate"),
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD.keys())
def test_what_is_taken(given: Any) -> None:
    assert problems(given, lambda said, signed: signed == signature(said)) == []


@pytest.mark.parametrize(("given", "problem"), BAD.values(), ids=BAD.keys())
def test_what_is_refused(given: Any, problem: str) -> None:
    found = problems(given, lambda said, signed: signed == signature(said))
    assert any(problem in each for each in found), found
