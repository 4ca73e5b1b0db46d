"""Disks that make a moment last."""

from __future__ import annotations

import threading
from pathlib import Path

from ullage.testing.disk import FakeDisk


class SlowDisk(FakeDisk):
    """A disk whose syncs wait after `hold` until they are released, all or one; `held` says how many wait now.

    It notes what must never be: a handle that is closed under a sync, or synced after it was closed.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._turn = threading.Condition()
        self._allowed: int | None = None
        self.held = 0
        self.syncing: list[int] = []
        self.wrong: list[str] = []

    def hold(self) -> None:
        self._allowed = 0

    def release(self, *, one: bool = False) -> None:
        with self._turn:
            self._allowed = (self._allowed or 0) + 1 if one else None
            self._turn.notify_all()

    def fdatasync(self, handle: int) -> None:
        if handle not in self._handles:
            self.wrong.append("synced after it was closed")
            return
        self.syncing.append(handle)
        self._wait()
        self.syncing.remove(handle)
        if handle in self._handles:
            super().fdatasync(handle)

    def _wait(self) -> None:
        with self._turn:
            self.held += 1
            self._turn.wait_for(lambda: self._allowed != 0, 20)
            if self._allowed:
                self._allowed -= 1
            self.held -= 1

    def close(self, handle: int) -> None:
        if handle in self.syncing:
            self.wrong.append("closed while it was synced")
        super().close(handle)
