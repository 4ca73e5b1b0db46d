"""Real commands in a real folder: what the tests of commands play on.

Nothing here waits for time to pass: one waits for a process to be there or to be gone, for at most `SECONDS`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ullage.core.matching import Query
from ullage.core.messages import BlobRef
from ullage.core.ports import Recalled, ToolOutcome
from ullage.tools.toolbox import Toolbox
from ullage.workspace.commands import Commands
from ullage.workspace.limits import Limits
from ullage.workspace.root import WorkspaceRoot

SECONDS = 30
"""Longest that a test waits before it gives up: never a measure."""


_LOOK_S = 0.01
"""How often one looks at a process that is nobody's child here."""


class MemoryWriter:
    """A blob that is written into a dictionary."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents, self._pieces = contents, bytearray()

    def write(self, piece: bytes) -> None:
        self._pieces += piece

    def commit(self) -> BlobRef:
        content = bytes(self._pieces)
        name = hashlib.sha256(content).hexdigest()
        self._contents[name] = content
        return BlobRef(name, len(content))

    def abandon(self) -> None:
        self._pieces.clear()


@dataclass
class Shell:
    """The command tools over a folder."""

    folder: Path
    commands: Commands
    toolbox: Toolbox
    blobs: dict[str, bytes]
    told: list[tuple[int, str]] = field(default_factory=list)

    async def run(self, tool: str, **arguments: Any) -> ToolOutcome:
        async with asyncio.timeout(SECONDS):
            return await self.toolbox.run(
                tool, json.dumps(arguments), lambda start, text: self.told.append((start, text))
            )

    async def bash(self, command: str, **arguments: Any) -> ToolOutcome:
        return await self.run("bash", command=command, **arguments)

    def begin(self, command: str, **arguments: Any) -> asyncio.Task[ToolOutcome]:
        return asyncio.ensure_future(self.bash(command, **arguments))

    async def pid(self, name: str) -> int:
        """The process id that a command wrote into a file of the workspace."""
        file = self.folder / name
        await until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())


@asynccontextmanager
async def shell(
    folder: Path, limits: Limits | None = None, environ: dict[str, str] | None = None
) -> AsyncIterator[Shell]:
    """The command tools of a folder, made if need be; what still runs at the end is ended."""
    os.makedirs(folder, exist_ok=True)
    blobs: dict[str, bytes] = {}
    with WorkspaceRoot.open(str(folder)) as root:
        commands = Commands(root.identity, lambda: MemoryWriter(blobs), limits, environ)
        recall = lambda text, limit, stop: Recalled(Query(()), ())  # noqa: E731
        toolbox = Toolbox(root, None, tuple, recall, commands=commands)  # type: ignore[arg-type]
        try:
            yield Shell(folder, commands, toolbox, blobs)
        finally:
            await toolbox.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so."""
    never = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.wait((never,), timeout=_LOOK_S)


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked for yet does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    if os.path.isdir("/proc/self"):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
