"""Rows of whole turns with a model: the scripted Messages API at the other end of a real connection."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

from history import Scribe
from report import BUILD, FLOORS, Row
from rows_server import SERVE, _environment, _initialize, _new_session, _wait_for_tokenizer

from ullage.testing.client import make_client
from ullage.testing.messages_api import MessagesApi
from ullage.testing.messages_script import Line, says, use

TURNS = (60, 300)
FILE_CHARS = 2_000
GOAL = 1.25
WINDOW = 10_000_000


def rows() -> Iterator[Row]:
    """Every row of this group."""
    BUILD.mkdir(exist_ok=True)
    folder = Path(mkdtemp(prefix="bench-", dir=BUILD))
    try:
        (folder / "work").mkdir()
        (folder / "work" / "a.py").write_text(Scribe(3).text(FILE_CHARS), "utf-8")
        for steps in TURNS:
            yield from asyncio.run(_turn(folder, steps))
    finally:
        shutil.rmtree(folder)


async def _turn(folder: Path, steps: int) -> Iterator[Row]:
    """A turn of read-only calls beside the smallest loop on the same SDK and API. A first short turn, in which things
    are imported, is no part of it.

    What a user waits for is the gap: from an answer's last event to the headers of the next request. The processor
    time of a step holds what goes on beside that too: the stream, what the editor is told, and syncing.
    """
    ours, floor = await _ours(folder, steps), await _floor(folder, steps)
    gaps = (1e3 * ours.gap, 1e3 * floor.gap)
    spent = (1e3 * ours.spent / steps, 1e3 * floor.spent / steps)
    return iter(
        (
            Row(f"gap.{steps}", f"between two requests of a turn of {steps}, read-only tool", "ms", *gaps, GOAL),
            Row(f"turn.{steps}", "the same, processor time of a whole step", "ms", *spent),
        )
    )


@dataclass(frozen=True)
class Taken:
    """Seconds: the median gap between requests, and processor time of the turn."""

    gap: float
    spent: float


def _gap(api: MessagesApi, steps: int) -> float:
    """The median gap of the last turn."""
    asked = [each.arrived for each in api.requests if each.path == "/v1/messages"]
    return median(after - before for before, after in zip(api.ended[-steps - 1 : -1], asked[-steps:], strict=True))


def _script(steps: int) -> Iterator[Line]:
    reading = says("Reading.", use("read", path="a.py"))
    yield from (reading, says("Done."), *[reading] * steps, says("Done."))


async def _ours(folder: Path, steps: int) -> Taken:
    async with MessagesApi(_script(steps), WINDOW, {"claude-scripted": (WINDOW, 4_000)}) as api:
        named = {"ULLAGE_BASE_URL": api.url, "ULLAGE_MODEL": "claude-scripted", "ANTHROPIC_API_KEY": api.key}
        named["ULLAGE_LIMITS_CORE_STEPS_PER_TURN"] = "1000"
        async with make_client(SERVE, env=_environment(folder / f"home-{steps}", **named)) as client:
            await _initialize(client, folder / "work")
            said = {"sessionId": await _new_session(client), "text": "Read it."}
            await client.request("ullage/session/prompt", said)
            await asyncio.to_thread(_wait_for_tokenizer, client.process.pid)
            before = processor_seconds(client.process.pid)
            done = await client.request("ullage/session/prompt", said)
            assert (done["stop"], done["timing"]["steps"], api.refused) == ("done", steps + 1, []), done
            return Taken(_gap(api, steps), processor_seconds(client.process.pid) - before)


async def _floor(folder: Path, steps: int) -> Taken:
    pipe = asyncio.subprocess.PIPE
    async with MessagesApi(_script(steps), WINDOW) as api:
        command = (FLOORS / "sdk.py", api.url, api.key, folder / "work" / "a.py", folder / f"floor-{steps}")
        child = await asyncio.create_subprocess_exec(sys.executable, *command, stdin=pipe, stdout=pipe)
        assert child.stdin is not None and child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        child.stdin.write(b"\n")
        seconds = float(await child.stdout.readline())
        await child.communicate()
        assert api.refused == []
        return Taken(_gap(api, steps), seconds)


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used, in it and in the system."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
