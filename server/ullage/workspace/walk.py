"""Walking a workspace: every regular file under a folder, through the door, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from ullage.core.errors import Refused
from ullage.workspace.entries import Entry, Folder, Kind
from ullage.workspace.ignore import IgnoreRules
from ullage.workspace.paths import WorkspacePath
from ullage.workspace.root import WorkspaceRoot


class Stop(StrEnum):
    """Why work ended before it was done."""

    TIME = "time"
    COUNT = "count"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Budget:
    """How long work may go on: until `clock()` (seconds) passes `deadline`, or `cancelled()` says so."""

    clock: Callable[[], float]
    deadline: float
    cancelled: Callable[[], bool]

    def stop(self) -> Stop | None:
        """The reason to end now, or None."""
        if self.cancelled():
            return Stop.CANCELLED
        return Stop.TIME if self.clock() >= self.deadline else None


class Walk:
    """Iterates the files below `start`, depth first, by name. Links are not followed, ignored files not seen.

    After iterating, `stopped` says why it ended early, and `unread` counts folders that could not be read whole.
    """

    def __init__(
        self,
        root: WorkspaceRoot,
        start: WorkspacePath,
        rules: IgnoreRules,
        budget: Budget,
        *,
        sizes: bool = False,
    ) -> None:
        self._root = root
        self._start = start
        self._rules = rules
        self._budget = budget
        self._sizes = sizes
        self._seen = 0
        self.stopped: Stop | None = None
        self.unread = 0

    def __iter__(self) -> Iterator[Entry]:
        # The start is the caller's own choice: when it cannot be read, that is an error and not a gap.
        pending = self._take(self._root.list(self._start, sizes=self._sizes))
        while pending:
            entry = pending.pop()
            self._seen += 1
            self.stopped = self._why_stop()
            if self.stopped:
                return
            if self._rules.ignored(entry.path, entry.kind is Kind.FOLDER):
                continue
            if entry.kind is Kind.FILE:
                yield entry
            else:
                pending += self._inside(entry.path)

    def _why_stop(self) -> Stop | None:
        if self._seen > self._root.limits.walk_entries:
            return Stop.COUNT
        return self._budget.stop()

    def _inside(self, path: WorkspacePath) -> list[Entry]:
        if len(path.parts) > self._root.limits.walk_depth:
            self.unread += 1
            return []
        try:
            folder = self._root.list(path, sizes=self._sizes)
        except Refused as refused:
            if refused.report.code == "root_gone":
                raise
            self.unread += 1
            return []
        return self._take(folder)

    def _take(self, folder: Folder) -> list[Entry]:
        """Files and folders, last name first, since the walk takes from the end."""
        self.unread += folder.cut
        return [entry for entry in reversed(folder.entries) if entry.kind in (Kind.FILE, Kind.FOLDER)]
