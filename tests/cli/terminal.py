"""A person at a real pseudo terminal: what is typed, and everything that is shown."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

PATIENCE = 30.0
"""Seconds after which something that was waited for is taken to never come."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-_])")


class Person:
    """Runs a command under a terminal of its own. What was waited for is not found a second time."""

    def __init__(self, words: list[str], environ: Mapping[str, str], folder: Path) -> None:
        self._main, side = pty.openpty()
        termios.tcsetwinsize(side, (40, 200))
        # Opened by the leader of a new session, it becomes its controlling terminal: its Ctrl-C is then a signal.
        command = ["sh", "-c", 'exec "$0" "$@" <"$TTY" >"$TTY" 2>&1', sys.executable, "-m", "ullage", *words]
        env = {**environ, "TTY": os.ttyname(side)}
        self.process = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True)
        self._side: int | None = side
        self.raw = b""
        self._seen = 0

    @property
    def screen(self) -> str:
        """Everything shown so far, without what moves the cursor."""
        return _SEQUENCE.sub("", self.raw.decode("utf-8", "replace"))

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def say(self, text: str) -> None:
        self.type(f"{text}\r")

    def sees(self, pattern: str) -> str:
        """Wait until this is shown, after what was seen before; the match."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.compile(pattern, re.DOTALL).search(self.screen, self._seen)) is None:
            if not self._more(deadline):
                raise AssertionError(f"{pattern!r} was not shown after\n{self.screen[self._seen :]}")
        self._seen = found.end()
        return found[0]

    def leaves(self) -> int:
        """The exit code, once everything was shown."""
        deadline = time.monotonic() + PATIENCE
        while self._more(deadline):
            pass
        return self.process.wait(PATIENCE)

    def _more(self, deadline: float) -> bool:
        """Read what is there; False when nothing will come any more."""
        ready, _, _ = select.select([self._main], [], [], max(0.0, deadline - time.monotonic()))
        try:
            chunk = os.read(self._main, 1 << 16) if ready else b""
        except OSError:  # nobody has the other end any more
            chunk = b""
        if self._side is not None:
            # Kept until the command has it open too: a terminal that nobody has open is at its end.
            os.close(self._side)
            self._side = None
        self.raw += chunk
        return bool(chunk)

    def __enter__(self) -> Person:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._main)
