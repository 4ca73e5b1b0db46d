"""Rows of the whole server, a process that is spoken to over its standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

from children import memory
from floors.step import steps as bare_steps
from history import Scribe
from report import BUILD, FLOORS, Row, compare, timed, wall

from ullage.testing.client import Client, make_client
from ullage.wire.framing import frame

SERVE = (sys.executable, "-m", "ullage", "serve", "--stdio")
STEPS = 60
FILE_CHARS = 8_000
IDLE_SESSIONS = 100


def rows() -> Iterator[Row]:
    """Every row of this group."""
    BUILD.mkdir(exist_ok=True)
    folder = Path(mkdtemp(prefix="bench-", dir=BUILD))
    try:
        yield _start(folder)
        yield _step(folder)
        yield from asyncio.run(_memory(folder))
    finally:
        shutil.rmtree(folder)


def _environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "ULLAGE_HOME": str(home), **more}


# --- start ---


def _start(folder: Path) -> Row:
    """From the start of the process to the answer to `initialize`, against importing pygls and saying so."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}, "processId": None}}
    request = frame(json.dumps(message).encode("ascii"))
    environment = _environment(folder / "start")
    ours, floor = compare(
        lambda: _first_output(SERVE, request, environment),
        lambda: _first_output((sys.executable, str(FLOORS / "start.py")), b"", environment),
        5,
        wall,
    )
    return Row("start", "server start to the answer to initialize", "ms", 1e3 * ours, 1e3 * floor, 1.5)


def _first_output(command: tuple[str, ...], request: bytes, environment: dict[str, str]) -> None:
    """Start a process, give it input, wait for its first output, and end it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(request)
    process.stdin.flush()
    assert process.stdout.read(1), "it ended without a word"
    process.kill()
    process.communicate()


# --- a step ---


def _step(folder: Path) -> Row:
    """A turn of read-only tool calls on a scripted model, against the smallest loop that reads, logs and syncs."""
    project = folder / "project"
    project.mkdir()
    (project / "a.py").write_text(Scribe(3).text(FILE_CHARS), "utf-8")
    call = {"say": "Reading.", "calls": [{"name": "read", "arguments": {"path": "a.py"}}], "usage": {}, "times": STEPS}
    script = folder / "script.json"
    script.write_text(
        json.dumps({"window": 1_000_000, "script": [call, {"say": "Done.", "usage": {}}] * RUNS}), "utf-8"
    )
    ours = asyncio.run(_turns(project, _environment(folder / "step", ULLAGE_SCRIPT=str(script))))
    floor = [timed(partial(bare_steps, project / "a.py", folder / f"floor-{run}", STEPS), wall) for run in range(RUNS)]
    figures = [1e3 * median(side) / STEPS for side in (ours, floor)]
    return Row("step", f"a step outside the model, {STEPS} in a turn, read-only tool", "ms", *figures)


RUNS = 3
"""Turns of the step row, each in a session of its own."""


async def _turns(project: Path, environment: dict[str, str]) -> list[float]:
    taken: list[float] = []
    async with make_client(SERVE, env=environment) as client:
        await _initialize(client, project)
        for _ in range(RUNS):
            session = await _new_session(client)
            done = await client.request("ullage/session/prompt", {"sessionId": session, "text": "Read it."})
            assert done["stop"] == "done" and done["timing"]["steps"] == STEPS + 1, done
            taken.append((done["timing"]["wallMs"] - done["timing"]["modelMs"]) / 1e3)
    return taken


async def _initialize(client: Client, project: Path) -> None:
    await client.request("initialize", _said(project))
    client.notify("initialized", {})


async def _new_session(client: Client) -> Any:
    return (await client.request("ullage/session/new", {}))["sessionId"]


# --- memory ---


async def _memory(folder: Path) -> list[Row]:
    """Resident memory with the tokenizer loaded and one session, then what idle sessions add to a server without it:
    loading it leaves free memory behind, in which a hundred sessions would not show."""
    project = folder / "idle"
    project.mkdir()
    async with make_client(SERVE, env=_environment(folder / "memory")) as client:
        await _initialize(client, project)
        await _new_session(client)
        await asyncio.to_thread(_wait_for_tokenizer, client.process.pid)
        one = memory("VmRSS", client.process.pid)
    async with make_client(SERVE, env=_environment(folder / "memory")) as client:
        # Without `initialized` nothing is loaded in the background.
        await client.request("initialize", _said(project))
        before, after = [await _with_sessions(client, count) for count in (10, IDLE_SESSIONS)]
    idle = (after - before) / IDLE_SESSIONS
    return [
        Row("memory", "server with tokenizer and one session (no SDK is loaded)", "MiB", one, most=220),
        Row("memory.idle", f"each of {IDLE_SESSIONS} further idle sessions", "MiB", idle, most=1),
    ]


def _said(project: Path) -> dict[str, Any]:
    """What a client says in `initialize`."""
    trusted = {"ullage": {"trustedRoots": [str(project)]}}
    folders = [{"uri": project.as_uri(), "name": project.name}]
    return {"processId": None, "capabilities": {}, "workspaceFolders": folders, "initializationOptions": trusted}


async def _with_sessions(client: Client, more: int) -> float:
    for _ in range(more):
        await _new_session(client)
    return memory("VmRSS", client.process.pid)


def _wait_for_tokenizer(pid: int) -> None:
    """Until its library is there, and memory has stood still for a second."""
    still, last = 0, 0.0
    while still < 10:
        time.sleep(0.1)
        now = memory("VmRSS", pid)
        loaded = "_tiktoken" in Path(f"/proc/{pid}/maps").read_text("utf-8")
        still = still + 1 if loaded and now == last else 0
        last = now
