"""Turns of 60 and 300 tool calls through a real server and the scripted Messages API; nothing here is timed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import make_workspace
from tests.providers.test_anthropic_sessions import LEDGER, asks_for_summary, rewritten

from ullage.testing.client import make_client
from ullage.testing.messages_api import MessagesApi
from ullage.testing.messages_rules import problems
from ullage.testing.messages_script import Line, says, use

MODEL = "claude-scripted"
RULES = "Use tabs: RULE-7f3a.\n"
LARGE, SMALL = 10_000_000, 60_000

pytestmark = pytest.mark.slow


def script(steps: int) -> Iterator[Line]:
    """One line of a file at a time, and a ledger whenever one is asked for; the answers of a turn in their order."""
    reads = iter(range(1, steps + 1))

    def answer(body: dict[str, Any]) -> Any:
        if asks_for_summary(body):
            return says(LEDGER)
        number = next(reads, None)
        return (
            says("Done.") if number is None else says("On.", use("read", path="lines.txt", first_line=number, lines=1))
        )

    while True:
        yield answer


def lines_in(text: str) -> set[int]:
    return {number for number in range(1, 301) if f"marker-{number:04d}-" in text}


@pytest.mark.parametrize(("steps", "window"), [(60, LARGE), (300, LARGE), (300, SMALL)])
async def test_a_long_turn_is_whole(steps: int, window: int, tmp_path: Path) -> None:
    """Every request is valid and begins with all of the one before it, except behind a checkpoint or a prune; every
    result is there; instructions stand once in each (W-P2, I9)."""
    workspace = make_workspace(tmp_path)
    text = "".join(f"marker-{number:04d}- {'some text ' * 60}\n" for number in range(1, 301))
    (workspace / "lines.txt").write_text(text)
    (workspace / "AGENTS.md").write_text(RULES)
    async with MessagesApi(script(steps), window, {MODEL: (window, 2_000)}) as api:
        env = {
            "ANTHROPIC_API_KEY": api.key,
            "ULLAGE_BASE_URL": api.url,
            "ULLAGE_MODEL": MODEL,
            "ULLAGE_HOME": str(tmp_path / "home"),
            "ULLAGE_LIMITS_CORE_STEPS_PER_TURN": "1000",
        }
        async with make_client([sys.executable, "-m", "ullage", "serve"], env=env) as client:
            options = {"ullage": {"trustedRoots": [workspace.as_uri()]}}
            await client.initialize(workspace, initializationOptions=options)
            session = (await client.request("ullage/session/new", {}))["sessionId"]
            done = await client.request("ullage/session/prompt", {"sessionId": session, "text": "Read it all."})
            assert (done["stop"], done["timing"]["steps"]) == ("done", steps + 1), done
            told = [params["update"] for name, params in client.notifications if name == "ullage/session/update"]
    bodies = [body for body in api.asked if not asks_for_summary(body)]
    assert api.refused == [] and [problem for body in api.asked for problem in problems(body)] == []
    assert len(bodies) == steps + 1
    assert {json.dumps([body["system"], body["tools"]][:1]) for body in bodies} == {json.dumps([bodies[0]["system"]])}
    changes = [each["kind"] for each in told if each["kind"] in ("compacted", "omission")]
    assert rewritten(bodies) <= len(changes), "a request was rewritten without a checkpoint or a prune"
    assert (changes == []) == (window == LARGE)
    seen = [lines_in(json.dumps(body)) for body in bodies]
    assert set().union(*seen) == set(range(1, steps + 1))
    assert all(after - before == {number} for number, (before, after) in enumerate(pairwise(seen), 1))
    if window == LARGE:
        assert seen[-1] == set(range(1, steps + 1))
    results = [result for each in told if each["kind"] == "toolResult" for result in each["results"]]
    assert lines_in(json.dumps(results)) == set(range(1, steps + 1)) and len(results) == steps
    assert [json.dumps(body).count("RULE-7f3a") for body in bodies] == [1] * len(bodies)
