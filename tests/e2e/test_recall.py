"""What was said early and compacted away, found again: by the model in its session, by a person in the workspace.

It outlives the server that made the index, and the index.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.editor import Editor, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

FACT = "The staging database 数据库 listens on port 54329."
FILLER = {"say": "-".join(["word"] * 3_000)}
ASKED = [{"calls": [{"name": "recall", "arguments": {"query": "数据库 staging port"}}]}, {"say": "Found."}]


def last_result(editor: Editor, session_id: str) -> str:
    update = [each["update"] for each in editor.updates(session_id) if each["update"]["kind"] == "toolResult"][-1]
    return str(update["results"][0]["text"])


async def test_a_fact_that_was_compacted_away(home: Path) -> None:
    async with serving(home, [{"say": FACT}, *[FILLER] * 3, *ASKED], window=32_000) as editor:
        one = await editor.new()
        for number in range(4):
            await editor.ask("session/prompt", one, text=f"go {number}", turnId=f"t{number}")
        assert (await editor.ask("session/compact", one))["outcome"] == "committed"
        await editor.ask("session/prompt", one, text="Which port was it?")
        assert last_result(editor, one).splitlines()[:2] == ["1. you said (message t0/1/a, seq 5):", FACT]
        assert await found(editor) == [(one, FACT)]
    damage_index(home)
    async with serving(home, ASKED, window=32_000) as editor:
        assert await found(editor) == [(one, FACT)]
        await editor.ask("session/open", one)
        fork = (await editor.ask("session/fork", one))["sessionId"]
        await editor.ask("session/prompt", fork, text="And here?")
        assert FACT in last_result(editor, fork)


def damage_index(home: Path) -> None:
    [index] = home.glob("search/*.sqlite")
    index.write_bytes(b"rubbish")


async def found(editor: Editor) -> list[tuple[str, str]]:
    sessions = (await editor.request("ullage/session/search", {"query": "54329"}))["sessions"]
    return [(each["session"]["sessionId"], each["hits"][0]["snippet"]) for each in sessions]
