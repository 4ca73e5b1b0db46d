"""A session's log in use: append now, sync off the loop, tell what is durable, in order.

Invariants.
1. The state in memory is the fold of what was appended; what swaps the context (a checkpoint, a rewind, a redo) is
   reduced only after it was synced.
2. An action handed to `when_durable` runs after everything appended before it was synced, and in the order it came;
   after a failure it runs with the error instead, so nobody waits for ever.
3. After one failed write or sync nothing is ever written again.
4. One sync runs at a time, and none when the file is let go of.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from ullage.core.errors import ErrorReport, StorageFailed
from ullage.core.events import CheckpointCommitted, Entry, Event, SessionRedone, SessionRewound
from ullage.core.reduce import reduce
from ullage.core.state import State
from ullage.storage.log import SessionLog

Action = Callable[[ErrorReport | None], None]


class Journal:
    """`run` must be running for anything to become durable."""

    def __init__(self, log: SessionLog, state: State, clock: Callable[[], int]) -> None:
        self.log = log
        self.state = state
        self.failure: ErrorReport | None = None
        self._clock = clock
        self._appended = self._synced = state.facts.last_seq
        self._waiting: deque[tuple[int, Action]] = deque()
        self._wake = asyncio.Event()
        self._syncing = asyncio.Lock()

    @property
    def synced_seq(self) -> int:
        """The newest durable seq."""
        return self._synced

    def append(self, events: Sequence[Event]) -> list[Entry]:
        """Write one batch and reduce it.

        Raises:
            StorageFailed: nothing of the batch counts; the session is read-only from here on.
        """
        entries = self._write(events)
        for entry in entries:
            self.state = reduce(self.state, entry)
        return entries

    async def accept_damage(self) -> list[Entry]:
        """Note a person's consent to go on after damage; durable when this returns. Nothing may be appended meanwhile.

        Raises:
            StorageFailed: as `append`.
        """
        try:
            entries = await asyncio.to_thread(self.log.accept_damage, self._clock())
        except StorageFailed as error:
            self._fail(error.report)
            raise
        for entry in entries:
            self.state = reduce(self.state, entry)
        self._appended = self._synced = self.log.synced_seq
        return entries

    async def swap(self, event: CheckpointCommitted | SessionRewound | SessionRedone) -> Entry:
        """Write a checkpoint or a rewind, sync it, and only then swap.

        Raises:
            ContextFailed: `checkpoint_refused` or `rewind_refused`; nothing was written.
            StorageFailed: the old context stays.
        """
        [entry] = self._write((event,))
        await self.barrier()
        self.state = reduce(self.state, entry)
        return entry

    def _write(self, events: Sequence[Event]) -> list[Entry]:
        self._check()
        try:
            entries = self.log.append(events, self._clock())
        except StorageFailed as error:
            self._fail(error.report)
            raise
        self._appended = entries[-1].seq
        self._wake.set()
        return entries

    def _check(self) -> None:
        if self.failure is not None:
            raise StorageFailed(self.failure.message, hint=self.failure.hint, code=self.failure.code)

    async def barrier(self) -> None:
        """Wait until everything appended so far is durable.

        Raises:
            StorageFailed: it never will be.
        """
        done: asyncio.Future[ErrorReport | None] = asyncio.get_running_loop().create_future()

        def settle(error: ErrorReport | None) -> None:
            if not done.done():
                done.set_result(error)

        self.when_durable(settle)
        await done
        self._check()

    def when_durable(self, action: Action) -> None:
        """Run `action` once all that was appended is synced: at once where that is so already."""
        if self.failure is not None:
            action(self.failure)
        elif not self._waiting and self._synced >= self._appended:
            action(None)
        else:
            self._waiting.append((self._appended, action))

    async def run(self, on_failure: Callable[[ErrorReport], None]) -> None:
        """Sync whenever something was appended, in a thread, until cancelled or failed."""
        while self.failure is None:
            await self._wake.wait()
            self._wake.clear()
            if self._synced < self._appended:
                await self._sync(self._appended)
        on_failure(self.failure)

    async def _sync(self, target: int) -> None:
        async with self._syncing:
            if self.failure is not None or self._synced >= target:
                return
            try:
                await asyncio.to_thread(self.log.sync)
            except StorageFailed as error:
                self._fail(error.report)
                return
        self._synced = max(self._synced, target)
        while self._waiting and self._waiting[0][0] <= self._synced:
            self._waiting.popleft()[1](None)

    def _fail(self, error: ErrorReport) -> None:
        if self.failure is None:
            self.failure = error
            self._wake.set()
        while self._waiting:
            self._waiting.popleft()[1](self.failure)

    async def drain(self) -> None:
        """Sync what is left, then let go of the file. Called when nothing is appended any more."""
        await self._sync(self._appended)
        async with self._syncing:
            self.log.close()
