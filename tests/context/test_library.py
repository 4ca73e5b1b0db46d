"""The server-free API: the same engine, and the documented loop over the SDK's own in-memory transport."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.context.histories import COUNTER

from ullage import context
from ullage.context import Conversation
from ullage.core.context import Phase, Reason
from ullage.core.errors import ContextFailed
from ullage.core.messages import Message, Role, Text, ToolCall, ToolResult, Usage
from ullage.testing.api_rules import anthropic_problems
from ullage.testing.validator import problems

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "anthropic_loop.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("anthropic_loop", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_loop_never_outgrows_its_window() -> None:
    httpx2, anthropic, loop = pytest.importorskip("httpx2"), pytest.importorskip("anthropic"), example()
    bodies: list[dict[str, Any]] = []

    def handler(request: Any) -> Any:
        body = json.loads(request.content)
        bodies.append(body)
        asked = len(bodies) < 40
        call = {"type": "tool_use", "id": f"toolu_{len(bodies)}", "name": "list", "input": {"path": "."}}
        content = [{"type": "text", "text": f"step {len(bodies)}"}, *([call] if asked else [])]
        tokens = COUNTER.count(json.dumps(body))
        answer = {
            "id": "msg", "type": "message", "role": "assistant", "model": body["model"], "content": content,
            "stop_reason": "tool_use" if asked else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": tokens, "output_tokens": 30},
        }  # fmt: skip
        return httpx2.Response(200, json=answer)

    talk = Conversation(COUNTER, window=16_000, model="m", system="Be brief.", tools=[loop.LIST])
    transport = httpx2.MockTransport(handler)
    async with httpx2.AsyncClient(transport=transport) as http:
        client = anthropic.AsyncAnthropic(api_key="x", max_retries=0, http_client=http)
        said = await loop.ask(client, talk, "look around, and never print secrets", lambda arguments: "f" * 4_500)
    assert said == "step 40" and len(bodies) == 40
    assert talk.state.facts.compactions >= 2
    for body in bodies:
        assert anthropic_problems(body["messages"]) == []
        assert COUNTER.count(json.dumps(body)) < 16_000
        assert "never print secrets" in json.dumps(body)


def test_number_phase_and_plan_are_the_engines() -> None:
    talk = Conversation(COUNTER, window=16_000)
    talk.say("go")
    talk.request()
    talk.add(Message("", Role.ASSISTANT, (Text("x"),), ""), Usage(prompt=11_000, completion=10))
    assert (talk.occupancy.used, talk.phase) == (11_010, Phase.COMPACTION_DUE)
    assert talk.plan().occupancy == talk.occupancy


def test_what_comes_out_of_order_is_taken() -> None:
    talk = Conversation(COUNTER)
    talk.add(Message("", Role.ASSISTANT, (ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")), ""))
    talk.say("wait")
    talk.add(Message("", Role.TOOL, (ToolResult("b", "second"),), ""))
    talk.add(Message("", Role.ASSISTANT, (Text("on"),), ""))
    talk.add(Message("", Role.TOOL, (ToolResult("a", "too late"),), ""))
    request = talk.request()
    text = str(request.messages)
    assert problems(request) == [] and not talk.state.facts.anomalies
    assert all(said in text for said in ("wait", "second", "too late"))


def test_nothing_to_gain_is_an_error_that_says_so() -> None:
    talk = Conversation(COUNTER)
    talk.say("go")
    with pytest.raises(ContextFailed) as caught:
        talk.compact(Reason.MANUAL)
    assert caught.value.report.code == "nothing_to_gain"


def test_the_package_names_what_it_gives() -> None:
    assert context.conversation_of and context.settled and context.Compacted
    with pytest.raises(AttributeError):
        _ = context.nothing
