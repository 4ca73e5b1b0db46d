"""J16 in the middle of an answer; `test_story.py` has the cuts between durable updates."""

from __future__ import annotations

import pytest
from tests.e2e.editor import Editor

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
    pieces = [(each["offset"], each["text"]) for each in again if each["kind"] == "delta"]
    said = next(each["text"] for each in again if each["kind"] == "answer")
    assert pieces == [(0, said)] and said == "thinking about"
