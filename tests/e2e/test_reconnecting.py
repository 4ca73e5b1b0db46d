"""J16: a client that comes back from any seq on has the transcript of one that was never away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.editor import Editor, Params, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIRST = (
    {"say": "I look.", "calls": [{"name": "read", "arguments": {"path": "a.py"}}]},
    {"say": "It prints."},
    {"say": "The second answer."},
    {"stall": "The third begins"},
)


async def until_the_editor_dies(home: Path) -> tuple[str, list[Params]]:
    """Three turns, the last one in the middle of its answer; the session and what the editor had."""
    async with serving(home, FIRST) as editor:
        one = await editor.new(title="Long ago")
        for number in (1, 2):
            await editor.ask("session/prompt", one, text=f"go {number}", turnId=f"t{number}")
        editor.start("ullage/session/prompt", {"sessionId": one, "text": "go 3", "turnId": "t3"})
        await editor.streamed(one, "begins")
        had = editor.updates(one)
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        await editor.process.wait()
    return one, had


async def transcript(editor: Editor, session_id: str) -> list[Params]:
    """The whole of it, by the way that knows of no cut."""
    text = (await editor.ask("session/export", session_id, format="jsonl"))["text"]
    return [json.loads(line) for line in text.splitlines()]


async def test_from_every_cut_the_transcript_is_whole(home: Path) -> None:
    one, had = await until_the_editor_dies(home)
    async with serving(home, [{"say": "The fourth answer."}]) as editor:
        await editor.ask("session/open", one)
        whole = await transcript(editor, one)
        assert whole[: len(had)] == had
        assert [each["update"]["stop"] for each in whole if each["update"]["kind"] == "turnEnded"][-1] == "cancelled"
        for cut in (*range(had[-1]["seq"] + 2), 10_000):
            came = len(editor.updates(one))
            opened = await editor.ask("session/open", one, fromSeq=cut)
            missed = editor.updates(one)[came:]
            assert missed == [each for each in whole if each["seq"] >= cut]
            assert opened["seq"] >= whole[-1]["seq"]
        came = len(editor.updates(one))
        await editor.ask("queue/resume", one)
        await editor.ask("session/prompt", one, text="go 4", turnId="t4")
        assert [*whole, *editor.updates(one)[came:]] == await transcript(editor, one)


async def test_in_the_middle_of_an_answer_the_overlay_is_whole(stalling: Editor) -> None:
    """Pieces that were missed come as one piece; what comes after is not told twice."""
    one = await stalling.new()
    request_id = stalling.start("ullage/session/prompt", {"sessionId": one, "text": "go", "turnId": "t1"})
    await stalling.streamed(one, "about")
    before = len(stalling.told("ullage/session/update", one))
    await stalling.ask("session/open", one, fromSeq=10_000)
    await stalling.ask("session/cancel", one)
    await stalling.answer(request_id)
    again = [each["update"] for each in stalling.told("ullage/session/update", one)[before:]]
    deltas = [each for each in again if each["kind"] == "delta"]
    said = next(each["text"] for each in again if each["kind"] == "answer")
    from_zero = max(place for place, each in enumerate(deltas) if each["offset"] == 0)
    assert "".join(each["text"] for each in deltas[from_zero:]) == said == "thinking about"
