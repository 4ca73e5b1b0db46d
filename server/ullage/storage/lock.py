"""One writer per session, by an OS lock.

Invariant: while a `SessionLock` is held, no other process appends to that log. The lock is on a file beside the
log, which is never removed or replaced, and the system lets it go with its process. What the file says (pid, start,
host, client) is for the message to whoever comes second, and decides nothing.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

from ullage.core.errors import SessionUnavailable
from ullage.storage.files import Files, write_all
from ullage.storage.limits import BOUNDS


@dataclass(frozen=True, slots=True)
class SessionLock:
    """A held lock."""

    files: Files
    handle: int

    def release(self) -> None:
        self.files.close(self.handle)


def acquire(files: Files, log: Path, at: int, client: str = "") -> SessionLock:
    """Take the lock of the log at this path. `at` is UTC milliseconds, `client` names who asked.

    Raises:
        SessionUnavailable: `session_busy`, at once, with the owner's pid.
    """
    handle = files.open_append(log.with_suffix(".lock"), create=True)
    try:
        owner: dict[str, str | int] = {}
        for _ in range(BOUNDS.owner_reads):
            if files.flock(handle):
                _sign(files, handle, at, client)
                return SessionLock(files, handle)
            if owner := _owner(files, handle):
                break
            # The owner took the lock and has not signed yet.
            time.sleep(0.001)
        raise SessionUnavailable(
            f"This session is open in another process (pid {owner.get('pid', 'unknown')}).",
            hint="Close it there, open it read-only, or fork it.",
            code="session_busy",
            **owner,
        )
    except BaseException:
        files.close(handle)
        raise


def _sign(files: Files, handle: int, at: int, client: str) -> None:
    note = {"pid": os.getpid(), "started": at, "host": platform.node(), "client": client}
    files.truncate(handle, 0)
    write_all(files, handle, json.dumps(note).encode())


def _owner(files: Files, handle: int) -> dict[str, str | int]:
    """What the owner signed with; empty when it is not readable (yet)."""
    try:
        note = json.loads(files.read(handle, 0, 4096))
        return {name: note[name] for name in ("pid", "started", "host", "client")}
    except (ValueError, TypeError, KeyError):
        return {}
