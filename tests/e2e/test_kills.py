"""A server killed again and again in the middle of its work, and the one session that lives through it all."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.conftest import make_workspace
from tests.e2e.editor import check_bodies, check_requests

from ullage.testing.client import Client, make_client

Params = dict[str, Any]

KILLS = 20
UPDATES = 24
"""At most so many durable updates of a turn come before its kill: some seven steps."""

STEP = {
    "say": "Looking.",
    "calls": [{"name": "read", "arguments": {"path": "a.py"}}, {"name": "list", "arguments": {"path": "."}}],
    "times": 1_000,
}


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Client]:
    """A server whose model never ends a turn by itself."""
    script, workspace = folder / "script.json", folder / "workspace"
    script.write_text(json.dumps({"window": 1_000_000, "script": [STEP]}), encoding="utf-8")
    env = {"ULLAGE_HOME": str(folder / "home"), "ULLAGE_SCRIPT": str(script)}
    async with make_client([sys.executable, "-m", "ullage", "serve", "--stdio"], env=env) as client:
        ours = {"trustedRoots": [workspace.as_uri()]}
        await client.initialize(workspace, initializationOptions={"ullage": ours})
        yield client


def durable(client: Client) -> list[Params]:
    """Durable updates in the order they came."""
    return [
        params
        for method, params in client.notifications
        if method == "ullage/session/update" and params["seq"] is not None
    ]


async def killed(client: Client, session_id: str, turn: str, after: int) -> list[Params]:
    """Begin a turn and kill the server once so many updates of it came; all that was told, to the last byte."""

    def enough() -> bool:
        return sum(each["update"].get("turnId") == turn for each in durable(client)) >= after

    client.start("ullage/session/prompt", {"sessionId": session_id, "text": "Look.", "turnId": turn})
    await client.wait_for(enough)
    client.process.kill()
    assert await client.ended() == -9
    return durable(client)


def check_kept(told: list[Params], history: list[Params]) -> None:
    """What was told before a kill begins the history after it, and is equal."""
    assert history[: len(told)] == told
    seqs = [each["seq"] for each in history]
    assert seqs == sorted(set(seqs))


def check_closed(history: list[Params], turns: list[str]) -> int:
    """Every turn has one end, every call one result and no result is without its call; how many were cut off."""
    updates = [each["update"] for each in history]
    ends = [(each["turnId"], each["stop"]) for each in updates if each["kind"] == "turnEnded"]
    assert ends == [(turn, "interrupted") for turn in turns]
    calls = Counter(call["callId"] for each in updates if each["kind"] == "answer" for call in each["calls"])
    results = [result for each in updates if each["kind"] == "toolResult" for result in each["results"]]
    assert Counter(result["callId"] for result in results) == calls
    assert set(calls.values()) == {1}
    return sum(result["text"].startswith("Outcome unknown") for result in results)


async def test_twenty_kills_lose_nothing_and_run_nothing_twice(tmp_path: Path) -> None:
    """R3, bugs row 30: after each of 20 SIGKILLs all that was told is there and equal, the turn is closed as
    interrupted, and every call has the one result: its own, or that the outcome is unknown."""
    make_workspace(tmp_path)
    chance = random.Random(30)
    told: list[Params] = []
    bodies: list[bytes] = []
    turns: list[str] = []
    session_id, cut_off = "", 0
    for life in range(KILLS + 1):
        async with serving(tmp_path) as client:
            if life == 0:
                session_id = (await client.request("ullage/session/new", {}))["sessionId"]
            else:
                opened = await client.request("ullage/session/open", {"sessionId": session_id, "fromSeq": 0})
                assert (opened["runningTurn"], opened["waitingTurns"]) == (None, [])
                # How the turn is closed is written when the session is opened and told when that is synced.
                await client.wait_for(lambda: durable(client)[-1]["update"]["kind"] == "turnEnded")
                check_kept(told, durable(client))
                cut_off = check_closed(durable(client), turns)
            if life < KILLS:
                turns.append(f"t{life}")
                told = await killed(client, session_id, turns[-1], chance.randint(2, UPDATES))
            bodies += client.bodies
    assert len(turns) == KILLS
    assert cut_off, "no kill fell between a call and its result"
    check_bodies(bodies, tmp_path / "home")
    check_requests(tmp_path / "home")
