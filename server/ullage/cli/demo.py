"""The main job, shown: a real server process, a real client, a session that fills its window and keeps its words.

The offline explorer answers, so no key and no network are needed, and reading is all that is granted. The demo checks
what it shows: a promise that does not hold ends it with exit code 1. On Ullage's own repository it must also have
something to show; elsewhere a folder may be too small to fill a window.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from ullage.cli.demo_story import Story
from ullage.context.handoff import parse_record, reminder_text
from ullage.core.errors import BadInput
from ullage.testing.client import Client, Params, make_client

PROMPTS = (
    "Explore this repository and report its languages, entry points, biggest files, TODOs and tests.",
    "Go on: read files you have not looked at yet, then report again.",
    "Once more: look at what is still unread.",
    "And the rest.",
)
"""Sent one after another until two compactions were seen."""

ALWAYS = ("--provider", "explorer", "--compaction-auto", "--handoff")
"""What a person's own settings must not change: nothing may leave this machine, and there must be something to show."""

KILL_AFTER = 3
"""Tool results of the interrupted turn that are acknowledged before the server is killed."""

OWN = Path(__file__).resolve().parents[3]
"""Ullage's repository, where this runs from a checkout."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=".", help="workspace to show (default: this folder)")
    parser.add_argument("--window", type=int, default=32_000, help="the model's window in tokens (default: 32,000)")


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 when every promise held.

    Raises:
        BadInput: the folder, or what the server says of the settings it was started with.
    """
    # Ended like by Ctrl-C, so that neither server nor home outlives the demo.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
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
        self._bodies: list[bytes] = []
        self._taken = self._forks = 0
        self._resumed = False

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
                reads = story.reads
                await self._prompt(client, session, text)
                if story.compactions >= 2 or story.reads == reads:
                    break
            story.chapter("SIGKILL in the middle of a turn")
            await self._kill_in_turn(client, session)
        return session

    async def _server(self, stack: AsyncExitStack, home: Path) -> Client:
        command = [sys.executable, "-m", "ullage", "serve", "--stdio", "--home", str(home)]
        command += ["--window", str(self._window), *ALWAYS]
        client = await stack.enter_async_context(make_client(command))
        self._taken = 0
        trusted = {"ullage": {"trustedRoots": [self._folder.as_uri()]}}
        begun = asyncio.ensure_future(client.initialize(self._folder, initializationOptions=trusted))
        ended = asyncio.ensure_future(client.process.wait())
        await asyncio.wait((begun, ended), return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            ended.cancel()
            await begun
            return client
        begun.cancel()
        await client.ended()
        raise BadInput(f"The server did not start.\n{client.stderr.decode(errors='replace').strip()}")

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
        text = "Read everything again, from the start."
        self._story.prompt(text)
        client.start("ullage/session/prompt", {"sessionId": session, "text": text})
        seen = len(self._seen(session))
        await self._follow(client, lambda: self._far_enough(session, seen))
        client.process.kill()
        await client.ended()
        self._take(client)
        self._bodies += client.bodies
        self._story.line(f"process {client.process.pid} killed; {len(self._seen(session))} updates were acknowledged")

    def _far_enough(self, session: str, seen: int) -> bool:
        """Enough results, or a folder so small that the turn is over already."""
        kinds = Counter(update["update"]["kind"] for update in list(self._seen(session).values())[seen:])
        return kinds["toolResult"] >= KILL_AFTER or kinds["turnEnded"] > 0

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
            self._take(client, quiet=True)
            self._forks += 1
            story.line(f"session {fork['sessionId']} forked at seq {fork['parent']['seq']}, with all that was said")
            before = len(self._seen(session))
            await self._prompt(client, fork["sessionId"], "Where is `main` defined?")
            self._expect(len(self._seen(session)) == before, "the parent changed while its fork went on")
            await client.stop()
            self._bodies += client.bodies

    async def _check_nothing_lost(self, client: Client, session: str) -> None:
        acknowledged = dict(self._seen(session))
        self._acknowledged[session] = {}
        await client.request("ullage/session/open", {"sessionId": session, "fromSeq": 0})
        turns = sum(update["update"]["kind"] == "turnStarted" for update in acknowledged.values())
        await client.wait_for(lambda: self._ends(client) >= turns)
        self._take(client, quiet=True)
        now = self._seen(session)
        lost = [seq for seq, update in acknowledged.items() if now.get(seq) != update]
        self._expect(not lost, f"{len(lost)} acknowledged updates are not the same after the restart")
        ends = [update["update"]["stop"] for update in now.values() if update["update"]["kind"] == "turnEnded"]
        self._resumed = ends[-1:] == ["interrupted"]
        self._expect(ends[-1:] in (["interrupted"], ["done"]), f"the killed turn ended as {ends[-1:]}")
        self._story.line(
            f"{len(acknowledged)} updates were acknowledged, {len(acknowledged) - len(lost)} are there and equal, "
            f"{len(lost)} lost"
        )
        self._story.line(
            "the open turn is closed as interrupted, its open calls say so, nothing was run again"
            if self._resumed
            else "the turn was over before the kill"
        )

    def _ends(self, client: Client) -> int:
        """Turns that a client has seen end."""
        updates = (params["update"] for method, params in client.notifications if method == "ullage/session/update")
        return sum(update["kind"] == "turnEnded" for update in updates)

    # --- following ---

    async def _follow(self, client: Client, done: Callable[[], bool]) -> None:
        """Show what comes until `done`."""
        self._take(client)
        while not done():
            await client.wait_for(partial(_moved, client, len(client.notifications), len(client.answers)))
            self._take(client)

    def _take(self, client: Client, *, quiet: bool = False) -> None:
        """Take in new notifications: durable updates count as acknowledged."""
        for method, params in client.notifications[self._taken :]:
            if method == "ullage/session/update" and params["seq"] is not None:
                self._seen(params["sessionId"])[params["seq"]] = params
            if not quiet:
                self._story.notice(method, params)
        self._taken = len(client.notifications)

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
        hidden = {text for log in logs for text in hidden_texts(log)}
        leaks = sum(any(text in body for text in hidden) for body in self._bodies)
        self._expect(not leaks, f"hidden text reached the client in {leaks} messages")
        if self._folder == OWN:
            self._expect_something_to_see()
        steps = Counter[str]()
        for outcome in self._outcomes:
            timing = outcome["timing"]
            steps.update(steps=timing["steps"], ours=timing["wallMs"] - timing["modelMs"])
        story.table(
            {
                "turns": f"{len(self._outcomes) + 1}{', one of them killed' if self._resumed else ''}",
                "requests to the model": f"{story.requests:,}",
                "handoffs": f"{story.handoffs}",
                "compactions": ", ".join(f"{count} {name}" for name, count in story.strategies.items()) or "none",
                "tokens before and after": _pairs(story.sizes),
                "largest request / window": f"{story.largest:,} / {self._window:,} tokens",
                "hidden text sent": f"{leaks} (searched {len(self._bodies):,} messages for {len(hidden)} texts)",
                "logs": ", ".join(f"{log.stat().st_size:,} bytes" for log in logs),
                "time per step outside the model": f"{steps['ours'] / max(1, steps['steps']):.1f} ms",
            }
        )
        for broken in self._broken:
            story.line(f"BROKEN PROMISE: {broken}")
        return 1 if self._broken else 0

    def _expect_something_to_see(self) -> None:
        story = self._story
        self._expect(story.handoffs >= 1, "no handoff was recorded")
        self._expect(story.compactions >= 2, f"{story.compactions} compactions, not 2")
        self._expect(self._resumed, "no turn was killed and resumed")
        self._expect(self._forks == 1, "no session was forked")


def hidden_texts(log: Path) -> Iterator[bytes]:
    """What a session's log hides from clients, as it would stand in a message: ids of handoffs and their reminders."""
    for line in log.read_text(encoding="ascii").splitlines():
        for event in json.loads(line).get("events", ()):
            record = parse_record(event.get("record", ""))
            if record is not None:
                yield record.message_id.encode()
                yield json.dumps(reminder_text(record))[1:-1].encode()


def _moved(client: Client, notifications: int, answers: int) -> bool:
    """Whether anything came since these counts were taken."""
    return len(client.notifications) > notifications or len(client.answers) > answers


def _pairs(sizes: Sequence[tuple[int, int]]) -> str:
    """Before and after of each compaction; of many, the first few."""
    shown = ", ".join(f"{before:,} to {after:,}" for before, after in sizes[:_SHOWN_PAIRS])
    more = len(sizes) - _SHOWN_PAIRS
    return f"{shown}, and {more} more" if more > 0 else shown or "none"


_SHOWN_PAIRS = 4
"""Compactions whose sizes the table names."""
