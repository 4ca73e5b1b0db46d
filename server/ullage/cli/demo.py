"""The main job, shown: a real server process, a real client, a session that fills its window and keeps its words.

The offline explorer answers, so no key and no network are needed, and reading is all that is granted. The demo checks
what it shows: a promise that does not hold ends it with exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from ullage.cli.demo_story import Story
from ullage.core.errors import BadInput
from ullage.testing.client import Client, Params, make_client

PROMPTS = (
    "Explore this repository and report its languages, entry points, biggest files, TODOs and tests.",
    "Go on: read files you have not looked at yet, then report again.",
    "Once more: look at what is still unread.",
    "And the rest.",
)
"""Sent one after another until two compactions were seen."""

KILL_AFTER = 3
"""Tool results of the interrupted turn that are acknowledged before the server is killed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=".", help="workspace to show (default: this folder)")
    parser.add_argument("--window", type=int, default=32_000, help="the model's window in tokens (default: 32,000)")


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 when every promise held."""
    folder = Path(args.folder or ".").resolve()
    if not folder.is_dir():
        raise BadInput(f"{args.folder} is no folder.", hint="Name a folder: make demo DIR=path/to/folder")
    return asyncio.run(_Demo(folder, args.window, Story(sys.stdout)).run())


class _Demo:
    def __init__(self, folder: Path, window: int, story: Story) -> None:
        self._folder, self._window, self._story = folder, window, story
        self._acknowledged: dict[str, dict[int, Params]] = {}
        self._outcomes: list[Params] = []
        self._broken: list[str] = []

    async def run(self) -> int:
        with tempfile.TemporaryDirectory(prefix="ullage-demo-") as home:
            self._story.opening(self._folder, self._window)
            try:
                session = await self._until_killed(Path(home))
                await self._after_restart(Path(home), session)
            finally:
                self._story.flush()
            return self._closing(Path(home))

    # --- before the kill ---

    async def _until_killed(self, home: Path) -> str:
        story = self._story
        async with AsyncExitStack() as stack:
            client = await self._server(stack, home)
            story.chapter("A real server, a real client: JSON-RPC over stdio")
            session = await self._new_session(client)
            story.chapter("The explorer reads until the window fills")
            for text in PROMPTS:
                await self._prompt(client, session, text)
                if story.compactions >= 2:
                    break
            story.chapter("SIGKILL in the middle of a turn")
            await self._kill_in_turn(client, session)
        return session

    async def _server(self, stack: AsyncExitStack, home: Path) -> Client:
        command = [sys.executable, "-m", "ullage", "serve", "--stdio", "--home", str(home)]
        command += ["--window", str(self._window)]
        client = await stack.enter_async_context(make_client(command))
        trusted = {"ullage": {"trustedRoots": [self._folder.as_uri()]}}
        await client.initialize(self._folder, initializationOptions=trusted)
        return client

    async def _new_session(self, client: Client) -> str:
        session: Params = await client.request("ullage/session/new", {"title": "Demo"})
        self._story.line(f"server process {client.process.pid}, session {session['sessionId']}")
        return str(session["sessionId"])

    async def _prompt(self, client: Client, session: str, text: str) -> None:
        self._story.prompt(text)
        asked = client.start("ullage/session/prompt", {"sessionId": session, "text": text})
        await self._follow(client, lambda: bool(client.answers_to(asked)))
        outcome = await client.result(asked)
        self._outcomes.append(outcome)
        self._story.outcome(outcome)
        self._expect(outcome["stop"] == "done", f"a turn ended with {outcome['stop']}: {outcome['error']}")

    async def _kill_in_turn(self, client: Client, session: str) -> None:
        self._story.prompt("Read everything again.")
        client.start("ullage/session/prompt", {"sessionId": session, "text": "Read everything again, from the start."})
        seen = len(self._seen(session))
        results = lambda: self._new_results(session, seen) >= KILL_AFTER  # noqa: E731 - a name for a condition
        await self._follow(client, results)
        client.process.kill()
        await client.ended()
        self._take(client)
        self._story.line(f"process {client.process.pid} killed; {len(self._seen(session))} updates were acknowledged")

    def _new_results(self, session: str, seen: int) -> int:
        updates = list(self._seen(session).values())[seen:]
        return sum(update["update"]["kind"] == "toolResult" for update in updates)

    # --- after the restart ---

    async def _after_restart(self, home: Path, session: str) -> None:
        story = self._story
        async with AsyncExitStack() as stack:
            client = await self._server(stack, home)
            story.chapter("A new server opens the same session")
            await self._check_nothing_lost(client, session)
            await self._prompt(client, session, "Go on where you were, and report.")
            story.chapter("A fork goes its own way")
            fork: Params = await client.request("ullage/session/fork", {"sessionId": session})
            story.line(f"session {fork['sessionId']} forked at seq {fork['parent']['seq']}")
            before = len(self._seen(session))
            await self._prompt(client, fork["sessionId"], "Look closer at the tests.")
            self._expect(len(self._seen(session)) == before, "the parent changed while its fork went on")
            await self._look_for_hidden(client)
            await client.stop()

    async def _check_nothing_lost(self, client: Client, session: str) -> None:
        acknowledged = dict(self._seen(session))
        self._acknowledged[session] = {}
        await client.request("ullage/session/open", {"sessionId": session, "fromSeq": 0})
        self._take(client, quiet=True)
        now = self._seen(session)
        lost = [seq for seq, update in acknowledged.items() if now.get(seq) != update]
        self._expect(not lost, f"{len(lost)} acknowledged updates are not the same after the restart")
        ends = [update["update"]["stop"] for update in now.values() if update["update"]["kind"] == "turnEnded"]
        self._expect(ends[-1:] == ["interrupted"], f"the killed turn ended as {ends[-1:]}")
        self._story.line(
            f"{len(acknowledged)} acknowledged, {len(acknowledged) - len(lost)} there and equal, {len(lost)} lost; "
            "the open turn is closed as interrupted, nothing was run again"
        )

    async def _look_for_hidden(self, client: Client) -> None:
        tags = [body for body in client.bodies if b"token-budget-handoff" in body]
        self._expect(not tags, "a hidden reminder reached the client")

    # --- following ---

    async def _follow(self, client: Client, done: Callable[[], bool]) -> None:
        """Show what comes until `done`."""
        self._take(client)
        while not done():
            await client.wait_for(partial(_moved, client, len(client.notifications), len(client.answers)))
            self._take(client)

    def _take(self, client: Client, *, quiet: bool = False) -> None:
        """Take in new notifications: durable updates count as acknowledged."""
        shown = getattr(client, "shown", 0)
        for method, params in client.notifications[shown:]:
            if method == "ullage/session/update" and params["seq"] is not None:
                self._seen(params["sessionId"])[params["seq"]] = params
            if not quiet:
                self._story.notice(method, params)
        client.shown = len(client.notifications)  # type: ignore[attr-defined]

    def _seen(self, session: str) -> dict[int, Params]:
        return self._acknowledged.setdefault(session, {})

    # --- the end ---

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._broken.append(otherwise)

    def _closing(self, home: Path) -> int:
        story = self._story
        self._expect(story.largest <= self._window, f"a request took {story.largest:,} tokens")
        logs = sorted(home.glob("sessions/*/*.jsonl"))
        steps = Counter[str]()
        for outcome in self._outcomes:
            timing = outcome["timing"]
            steps.update(steps=timing["steps"], ours=timing["wallMs"] - timing["modelMs"])
        story.table(
            {
                "turns": f"{len(self._outcomes) + 1} (one killed)",
                "requests to the model": f"{story.requests:,}",
                "handoffs": f"{story.handoffs}",
                "compactions": ", ".join(f"{count} {name}" for name, count in story.strategies.items()) or "none",
                "tokens before and after": ", ".join(f"{before:,} to {after:,}" for before, after in story.sizes),
                "largest request / window": f"{story.largest:,} / {self._window:,} tokens",
                "logs": ", ".join(f"{log.stat().st_size:,} bytes" for log in logs),
                "time per step outside the model": f"{steps['ours'] / max(1, steps['steps']):.1f} ms",
            }
        )
        for broken in self._broken:
            story.line(f"BROKEN PROMISE: {broken}")
        return 1 if self._broken else 0


def _moved(client: Client, notifications: int, answers: int) -> bool:
    """Whether anything came since these counts were taken."""
    return len(client.notifications) > notifications or len(client.answers) > answers
