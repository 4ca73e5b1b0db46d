"""Public bugs of other agents' clients and servers that our editor side could have too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.editors.conftest import Serve, begin, serve, workspace  # noqa: F401  # fixtures

from ullage.core.messages import BlobRef, Message, Role, ToolResult
from ullage.core.views import Shown, ShownResult
from ullage.editors import mapping
from ullage.editors import payloads_update as update


@pytest.mark.parametrize("text", ["x" * 4_000_000, "🍷" * 1_000_000], ids=["ascii", "emoji"])
def test_row_59_a_huge_output_reaches_a_client_as_64_kib(text: str) -> None:
    """Bugs row 59: a one-line file crashed the client, and again on each reload. Cut, and it says so."""
    result = ToolResult("c", text, full=BlobRef("0" * 64, 7))
    payload = mapping.update_payload("s", Shown(1, 1, ShownResult(Message("r", Role.TOOL, (result,), "t"))))
    assert isinstance(payload.update, update.ToolResultUpdate)
    [told] = payload.update.results
    assert len(told.text.encode()) <= 64 * 1024
    assert told.text_bytes == len(text.encode())
    assert told.full == update.BlobPayload(sha256="0" * 64, size=7)


async def test_row_42_a_new_session_while_one_streams(serve: Serve, workspace: Path) -> None:  # noqa: F811
    """Bugs row 42: the first thread went to limbo and lost its text. It runs on, and its text is in its own log."""
    async with serve({"stall": "the first one says"}, {"say": "the second"}) as client:
        first = await begin(client, workspace)
        running = client.start("ullage/session/prompt", {"sessionId": first, "text": "one", "turnId": "t1"})
        await client.notification(
            "ullage/session/update", lambda params: params["update"].get("text", "").endswith("says")
        )
        second = (await client.request("ullage/session/new", {}))["sessionId"]
        done = await client.request("ullage/session/prompt", {"sessionId": second, "text": "two"})
        assert done["stop"] == "done" and not client.answers_to(running)
        await client.request("ullage/session/cancel", {"sessionId": first, "turnId": "t1"})
        assert (await client.result(running))["stop"] == "cancelled"
        for session, said, other in ((first, "the first one says", second), (second, "the second", first)):
            exported = await client.request("ullage/session/export", {"sessionId": session, "format": "jsonl"})
            told = [json.loads(line)["update"] for line in exported["text"].splitlines()]
            assert said in [each.get("text") for each in told if each["kind"] == "answer"]
            assert other not in exported["text"]
