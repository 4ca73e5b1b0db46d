"""Where a chat reads lines and writes: line by line for pipes and plain terminals; `terminal` has the rich one.

Invariant: reading can always be ended from this side (`leave`), so a signal never waits for somebody to type.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ullage.cli.output import Out, Stream

_CHUNK = 1 << 16


class Console(Protocol):
    """`waits`: a line is read only when what came before it has ended. `scripted`: nobody sits there. `left` is set
    by `leave`."""

    waits: bool
    scripted: bool
    out: Stream
    about: Stream
    left: asyncio.Event

    async def read(self) -> str | None:
        """The next line, which may hold several; None when there will be no more."""
        ...

    def leave(self) -> None:
        """Nothing is read any more."""
        ...

    def clear(self) -> bool:
        """Throw away what was typed and not sent; whether there was any."""
        ...

    def refresh(self) -> None:
        """What the prompt shows has changed."""
        ...

    def close(self) -> None:
        """Everything written is there when this returns."""
        ...


class Lines:
    """Reads standard input line by line. The prompt is shown only where somebody sees it."""

    waits = True

    def __init__(self, status: Callable[[], str]) -> None:
        self.out: Stream = sys.stdout
        self.about: Stream = sys.stderr
        self.scripted = not (sys.stdin.isatty() and sys.stdout.isatty())
        self._status, self._prompt = status, Out(sys.stdout)
        self._rest, self._ended = b"", False
        self.left = asyncio.Event()

    async def read(self) -> str | None:
        if not self.scripted:
            self._prompt.write(f"{self._status()} > ")
        while b"\n" not in self._rest and not self._ended:
            chunk = await self._chunk()
            self._rest, self._ended = self._rest + chunk, not chunk
        line, _, self._rest = self._rest.partition(b"\n")
        gone = self.left.is_set() or (self._ended and not line and not self._rest)
        return None if gone else line.decode("utf-8", "replace").rstrip("\r")

    async def _chunk(self) -> bytes:
        """What comes next, or nothing once it was left. A thread waits for it, which may outlive us."""
        loop, found = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def settle(chunk: bytes) -> None:
            if not found.done():
                found.set_result(chunk)

        def wait() -> None:
            # Not through `sys.stdin`: a thread that waits in it holds a lock which the interpreter wants at its end.
            try:
                chunk = os.read(0, _CHUNK)
            except OSError:
                chunk = b""
            with suppress(RuntimeError):  # the loop has gone
                loop.call_soon_threadsafe(settle, chunk)

        threading.Thread(target=wait, daemon=True).start()
        leaving = asyncio.ensure_future(self.left.wait())
        await asyncio.wait((found, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        return found.result() if found.done() else b""

    def leave(self) -> None:
        self.left.set()

    def clear(self) -> bool:
        return False

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass


def is_rich() -> bool:
    """Whether both ends are a terminal that can move its cursor."""
    able = sys.stdin.isatty() and sys.stdout.isatty()
    return able and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
