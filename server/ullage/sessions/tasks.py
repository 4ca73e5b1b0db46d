"""Tasks with an owner: nothing runs in the background that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """The tasks of one owner. Starting goes through here, and stopping waits for their end."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def __len__(self) -> int:
        return len(self._running)

    async def stop(self) -> None:
        """Cancel every task and wait until all have ended, whatever they end with."""
        while running := list(self._running):
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._running.difference_update(running)
