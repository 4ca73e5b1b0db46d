"""J6: payloads that look like protocol, on both ends' protocol class: every byte comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.editor import Editor, Params, entries, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")


def nested(depth: int) -> Any:
    """A message in a message, `depth` deep."""
    message: Any = {"jsonrpc": "2.0", "id": 1, "method": "exit", "params": {}}
    for _ in range(depth - 1):
        message = {"jsonrpc": "2.0", "result": [message], "error": None}
    return message


TRAPS: tuple[Params, ...] = (
    *({"path": "a.py", "deep": nested(depth)} for depth in range(1, 6)),
    {"path": "a.py", "class": 1, "a-b": [{"_x": None}], "_x": "", "type_name": "T", "__proto__": {"constructor": 1}},
    {"path": "a.py", "jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}, "id": "session/prompt 1"},
    {"path": "a.py", "text": "Content-Length: 5\r\n\r\n{}\u2028\ufeff\x00\x7f \U0001f377 \\u0000 \"'", "big": 2**70},
)


def raw(trap: Params) -> str:
    """The arguments as the scripted model writes them."""
    return json.dumps(trap)


async def test_tool_arguments_come_back_byte_equal_in_updates_log_and_export(home: Path) -> None:
    """The tool refuses the names it does not know; the call is kept as the model wrote it."""
    calls = [{"name": "read", "arguments": trap} for trap in TRAPS]
    async with serving(home, [{"say": "I read.", "calls": calls}, {"say": "Read."}]) as editor:
        one = await editor.new()
        await editor.ask("session/prompt", one, text="read it")
        answer = (await editor.update(one, "answer"))["update"]
        assert [call["arguments"] for call in answer["calls"]] == [raw(trap) for trap in TRAPS]
        results = [each["update"]["results"][0] for each in editor.updates(one) if "results" in each["update"]]
        assert len(results) == len(TRAPS) and all(result["isError"] for result in results)

        [log] = entries(home)
        logged = log.read_text(encoding="ascii")
        assert all(json.dumps(raw(trap)) in logged for trap in TRAPS)

        markdown = (await editor.ask("session/export", one))["text"]
        assert all(raw(trap) in markdown for trap in TRAPS)
        lines = (await editor.ask("session/export", one, format="jsonl"))["text"].splitlines()
        assert [json.loads(line) for line in lines] == editor.updates(one)


@pytest.mark.parametrize("number", range(len(TRAPS)))
async def test_a_prompt_and_a_title_come_back_byte_equal(talking: Editor, number: int) -> None:
    """As text that looks like a message; and beside the known params, where they are let pass."""
    text = raw(TRAPS[number])[:200]
    one = await talking.new(title=text, **TRAPS[number])
    await talking.ask("session/prompt", one, **(TRAPS[number] | {"text": text, "turnId": "t1"}))
    prompt = (await talking.update(one, "prompt"))["update"]
    assert (prompt["text"], prompt["turnId"]) == (text, "t1")
    exported = (await talking.ask("session/export", one))["text"]
    assert f"## User\n\n{text}\n" in exported
    listed = (await talking.request("ullage/session/list"))["sessions"][0]
    assert (listed["sessionId"], listed["title"]) == (one, text)


async def test_lone_surrogates_become_a_mark_and_harm_nothing(talking: Editor) -> None:
    one = await talking.new()
    await talking.ask("session/prompt", one, text="half \ud83d of \udf77")
    prompt = (await talking.update(one, "prompt"))["update"]
    assert prompt["text"] == "half \ufffd of \ufffd"
