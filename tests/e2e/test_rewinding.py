"""Going back and forward again over stdio, with a server that is killed in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.editor import Editor, refusal, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILLER = {"say": "-".join(["word"] * 2_500)}


def transcript(updates: list[dict[str, Any]]) -> list[str]:
    """Turns that a client shows, by the updates alone: what a rewind took goes, what a redo brings back comes."""
    shown: list[str] = []
    for update in (each["update"] for each in updates):
        match update["kind"]:
            case "turnStarted":
                shown.append(update["turnId"])
            case "rewound":
                shown = [turn for turn in shown if turn not in update["turns"]]
            case "redone":
                shown += update["turns"]
            case _:
                pass
    return shown


async def test_over_a_compaction_and_a_kill(home: Path) -> None:
    """T114, T128: what was acknowledged outlives the kill, and a client that comes back shows the same."""
    async with serving(home, [FILLER] * 9, window=32_000) as editor:
        one = await editor.new()
        for number in range(3):
            await editor.ask("session/prompt", one, text=f"say {number} NEEDLE{number}", turnId=f"t{number}")
        assert (await editor.ask("session/compact", one))["outcome"] == "committed"
        await editor.ask("session/prompt", one, text="say 3 NEEDLE3", turnId="t3")
        went = await editor.ask("session/rewind", one, turnId="t2")
        assert went["turns"] == ["t2", "t3"]
        assert await found(editor, "NEEDLE2") == 0
        before = editor.updates(one)
        assert transcript(before) == ["t0", "t1"]
        await editor.kill()

    async with serving(home, [FILLER] * 9, window=32_000) as editor:
        opened = await editor.ask("session/open", one)
        assert opened["readOnly"] is None
        history = editor.updates(one)
        assert [each for each in history if each["seq"] > 0] == [each for each in before if each["seq"] > 0]
        assert await found(editor, "NEEDLE2") == 0
        assert (await editor.ask("session/redo", one))["turns"] == ["t2", "t3"]
        assert await found(editor, "NEEDLE2") == 1
        assert transcript(editor.updates(one)) == ["t0", "t1", "t2", "t3"]
        await editor.ask("session/rewind", one, messageId="t3/u")
        await editor.ask("session/prompt", one, text="say 4", turnId="t4")
        assert (await refusal(editor.ask("session/redo", one))).data["code"] == "nothing_to_redo"
        text = (await editor.ask("session/export", one))["text"]
        assert "NEEDLE2" in text and "say 4" in text and "NEEDLE3" not in text
        seen = editor.updates(one)
        again = len(seen)
        await editor.ask("session/open", one, fromSeq=went["seq"])
        assert editor.updates(one)[again:] == [each for each in seen if each["seq"] >= went["seq"]]


async def found(editor: Editor, text: str) -> int:
    sessions = (await editor.request("ullage/session/search", {"query": text}))["sessions"]
    return sum(len(each["hits"]) for each in sessions)
