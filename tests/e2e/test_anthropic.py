"""The whole path once: a real server process, the SDK, and a Messages API over loopback. And keys stay inside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import make_workspace
from tests.e2e.editor import check_bodies, check_requests

from ullage.testing.client import Client, RpcError, make_client
from ullage.testing.messages_api import MessagesApi
from ullage.testing.messages_script import Thought, breaks, refuses, says, use

CANARY = "sk-canary-0f8b7d52c6e94a13"
GIVEN = "canary-given-in-the-editor-77"
MODEL = "claude-scripted"


def update(client: Client, kind: str) -> list[dict[str, Any]]:
    """Updates of a kind, in the order they came."""
    told = (params["update"] for name, params in client.notifications if name == "ullage/session/update")
    return [each for each in told if each["kind"] == kind]


def written(folder: Path) -> bytes:
    """Everything in the files below."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def environment(pid: int) -> bytes:
    """What any process of the same user can read of another's environment, where the system shows it."""
    path = Path(f"/proc/{pid}/environ")
    return path.read_bytes() if path.exists() else b""


async def test_a_turn_with_claude_and_no_key_anywhere(tmp_path: Path) -> None:
    """Keys from the environment and from the editor sign requests, and stand in no frame, file or log; not even where
    the endpoint sends them back, and a wrong one says what to do."""
    workspace, home = make_workspace(tmp_path), tmp_path / "home"
    script = [
        refuses(529, "overloaded_error", retry_after="0"),
        says(Thought("The file first."), "I read it.", use("read", path="a.py")),
        says("It prints a."),
        breaks("I was", "overloaded_error"),
        says("With another key."),
    ]
    async with MessagesApi(script, window=50_000, models={MODEL: (50_000, 2_000)}, key=CANARY) as api:
        env = {
            "ANTHROPIC_API_KEY": CANARY,
            "ULLAGE_BASE_URL": api.url,
            "ULLAGE_MODEL": MODEL,
            "ULLAGE_HOME": str(home),
            "ANTHROPIC_LOG": "debug",
        }
        async with make_client([sys.executable, "-m", "ullage", "serve"], env=env) as client:
            options = {"ullage": {"trustedRoots": [workspace.as_uri()]}}
            await client.initialize(workspace, initializationOptions=options)
            session = (await client.request("ullage/session/new", {}))["sessionId"]

            async def prompt(text: str) -> Any:
                return await client.request("ullage/session/prompt", {"sessionId": session, "text": text})

            done = await prompt("What does a.py do?")
            assert (done["stop"], done["timing"]["steps"]) == ("done", 2)
            [tried] = update(client, "retrying")
            assert (tried["attempt"], tried["error"]["code"]) == (2, "provider_overloaded")
            result = api.asked[2]["messages"][-1]["content"][0]
            assert "print('a')" in str(result["content"])
            occupancy = [params for name, params in client.notifications if name == "ullage/context/occupancy"][-1]
            assert (occupancy["window"], occupancy["windowSource"]) == (50_000, "provider")

            failed = await prompt("And then?")
            assert (failed["stop"], failed["error"]["code"]) == ("failed", "provider_overloaded")

            api.key = GIVEN
            refused = await prompt("Again.")
            assert (refused["error"]["code"], "[key]" in refused["error"]["message"]) == ("key_refused", True)
            with pytest.raises(RpcError) as caught:
                await client.request("ullage/auth/set", {"provider": "anthropic", "key": f"{GIVEN} "[::-1] + "x y"})
            assert caught.value.data["code"] == "bad_key"
            with pytest.raises(RpcError):
                await client.request("ullage/auth/set", {"provider": "anthropic", "key": [GIVEN]})
            given = await client.request("ullage/auth/set", {"provider": "anthropic", "key": GIVEN})
            assert given == {"provider": "anthropic", "source": "editor"}
            assert (await prompt("Again."))["stop"] == "done"
            again = await client.request("ullage/auth/set", {"provider": "anthropic", "key": None})
            assert again["source"] == "environment"
            shown = environment(client.process.pid)
            await client.stop()
            await client.stderr_ended.wait()
            seen = b"\n".join([shown, bytes(client.stderr), *client.bodies, written(home)])
    assert [secret for secret in (CANARY, GIVEN, GIVEN[::-1]) if secret.encode() in seen] == []
    assert api.refused == []
    check_bodies(client.bodies, home)
    check_requests(home)
