from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ullage.context.handoff import ID_PREFIX, TAG
from ullage.testing.client import Client, make_client

Serve = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small folder to work on."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("print('a')\n" * 40, encoding="utf-8")
    return folder


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Starts `ullage serve` with a script of answers, as a process of its own; sessions outlive it.

    Whatever it sent is searched for handoffs afterwards.
    """

    @asynccontextmanager
    async def start(*script: dict[str, Any], window: int = 200_000) -> AsyncIterator[Client]:
        file = tmp_path / "script.json"
        file.write_text(json.dumps({"window": window, "script": script}), encoding="utf-8")
        env = {"ULLAGE_HOME": str(tmp_path / "home"), "ULLAGE_SCRIPT": str(file)}
        async with make_client([sys.executable, "-m", "ullage", "serve", "--stdio"], env=env) as client:
            yield client
            signs = (ID_PREFIX.encode(), json.dumps(TAG)[1:-1].encode())  # as they would stand in a body
            hidden = [body for body in client.bodies if any(sign in body for sign in signs)]
            assert hidden == []

    return start


async def begin(client: Client, workspace: Path, *, trusted: bool = True, **params: Any) -> str:
    """Initialize with one trusted folder and begin a session; its id."""
    ours = {"trustedRoots": [workspace.as_uri()] if trusted else []}
    await client.initialize(workspace, **({"initializationOptions": {"ullage": ours}} | params))
    result = await client.request("ullage/session/new", {})
    return str(result["sessionId"])
