"""Instruction files over stdio: what a real server sends to a Messages API over loopback."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import make_workspace

from ullage.testing.client import make_client
from ullage.testing.messages_api import MessagesApi, canonical
from ullage.testing.messages_script import says, use

MODEL = "claude-scripted"
RULES = 'Use tabs: RULE-7f3a "and" é.\n'
NESTED = "Use spaces here: RULE-91bc.\n"


def held(body: dict[str, Any], text: str) -> int:
    """How often a request holds a text word for word, in a block that the host titled."""
    blocks = [block for message in body["messages"] for block in message["content"] if block["type"] == "text"]
    return sum(block["text"].startswith("# Project instructions") and text in block["text"] for block in blocks)


@pytest.mark.parametrize("trusted", [True, False])
async def test_real_requests_hold_it_once_and_only_in_a_trusted_root(trusted: bool, tmp_path: Path) -> None:
    """Nested files come with their folder; the canary of an untrusted workspace reaches no request."""
    workspace = make_workspace(tmp_path)
    (workspace / "AGENTS.md").write_text(RULES, encoding="utf-8")
    (workspace / "sub").mkdir()
    (workspace / "sub" / "b.py").write_text("b = 1\n")
    (workspace / "sub" / "AGENTS.md").write_text(NESTED)
    reads = [says("I read.", use("read", path="sub/b.py"))] if trusted else []
    async with MessagesApi([*reads, says("Read."), says("Done.")], 50_000, {MODEL: (50_000, 2_000)}) as api:
        env = {
            "ANTHROPIC_API_KEY": api.key,
            "ULLAGE_BASE_URL": api.url,
            "ULLAGE_MODEL": MODEL,
            "ULLAGE_HOME": str(tmp_path / "home"),
        }
        async with make_client([sys.executable, "-m", "ullage", "serve"], env=env) as client:
            options = {"ullage": {"trustedRoots": [workspace.as_uri()] if trusted else []}}
            await client.initialize(workspace, initializationOptions=options)
            session = (await client.request("ullage/session/new", {}))["sessionId"]
            for text in ("Read b.", "And then?"):
                done = await client.request("ullage/session/prompt", {"sessionId": session, "text": text})
                assert done["stop"] == "done", done
            found = await client.request("ullage/context/inspect", {"sessionId": session})
            told = [params["update"] for name, params in client.notifications if name == "ullage/session/update"]
    assert api.refused == []
    assert [held(body, RULES) for body in api.asked] == ([1, 1, 1] if trusted else [0, 0])
    assert [held(body, NESTED) for body in api.asked] == ([0, 1, 1] if trusted else [0, 0])
    assert all(canonical(b).startswith(canonical(a)) for a, b in zip(api.asked, api.asked[1:], strict=False))
    lines = [(each["path"], each["note"]) for each in told if each["kind"] == "instructions"]
    assert lines == ([("AGENTS.md", None), ("sub/AGENTS.md", None)] if trusted else [])
    assert "RULE-7f3a" not in json.dumps(told)
    assert any(each["name"] == "instructions" for each in found["categories"]) == trusted
