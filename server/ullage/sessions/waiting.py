"""Everybody who waits for one session. Invariant: each is answered exactly once, whatever happens to the session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ullage.core.commands import CompactionOutcome
from ullage.core.errors import ErrorReport, SessionUnavailable, UllageError
from ullage.core.events import Stop
from ullage.core.state import Totals
from ullage.sessions.notices import CompactionAnswer, RewindAnswer, TurnOutcome


class Waiting:
    """Who waits for a turn, a compaction or a rewind, by id; two may wait under one id for the first two."""

    def __init__(self) -> None:
        self._turns: dict[str, list[asyncio.Future[TurnOutcome]]] = {}
        self._compactions: dict[str, list[asyncio.Future[CompactionAnswer]]] = {}
        self._rewinds: dict[str, asyncio.Future[RewindAnswer | ErrorReport]] = {}

    def for_turn(self, turn_id: str) -> asyncio.Future[TurnOutcome]:
        waiter: asyncio.Future[TurnOutcome] = asyncio.get_running_loop().create_future()
        self._turns.setdefault(turn_id, []).append(waiter)
        return waiter

    def for_compaction(self, ask_id: str) -> asyncio.Future[CompactionAnswer]:
        waiter: asyncio.Future[CompactionAnswer] = asyncio.get_running_loop().create_future()
        self._compactions.setdefault(ask_id, []).append(waiter)
        return waiter

    def for_rewind(self, ask_id: str) -> asyncio.Future[RewindAnswer | ErrorReport]:
        waiter: asyncio.Future[RewindAnswer | ErrorReport] = asyncio.get_running_loop().create_future()
        self._rewinds[ask_id] = waiter
        return waiter

    def take_rewind(self, ask_id: str) -> Callable[[RewindAnswer | ErrorReport], None]:
        """What answers who waits for a rewind now."""
        waiters = [waiter] if (waiter := self._rewinds.pop(ask_id, None)) else []
        return lambda answer: _settle(waiters, answer)

    def take_turn(self, turn_id: str) -> Callable[[TurnOutcome], None]:
        """What answers those who wait for a turn now."""
        waiters = self._turns.pop(turn_id, [])
        return lambda outcome: _settle(waiters, outcome)

    def take_compactions(self, ask_ids: Sequence[str]) -> Callable[[CompactionAnswer], None]:
        """What answers those who wait for these compactions now."""
        waiters = [waiter for ask_id in ask_ids for waiter in self._compactions.pop(ask_id, [])]
        return lambda answer: _settle(waiters, answer)

    def give_up(self, stop: Stop | None, outcome: CompactionOutcome, error: ErrorReport, totals: Totals) -> None:
        """Answer whoever is left: nothing will come of it any more."""
        for turn_id in list(self._turns):
            self.take_turn(turn_id)(TurnOutcome(stop, error, totals))
        self.take_compactions(list(self._compactions))(CompactionAnswer(outcome, None, error))
        for ask_id in list(self._rewinds):
            self.take_rewind(ask_id)(error)


class Job:
    """Something to do in the loop, between two inputs, for somebody who waits until it is done.

    What is awaited in it keeps every later input waiting too.
    """

    def __init__(self, work: Callable[[], Awaitable[None] | None]) -> None:
        self._work = work
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        try:
            more = self._work()
            if more is not None:
                await more
        except UllageError as error:
            self._fail(error)
        else:
            _settle([self.done], None)

    def refuse(self) -> None:
        """The session closed before it came to this."""
        closed = "The session was closed."
        self._fail(SessionUnavailable(closed, hint="Open it again and send once more.", code="session_closed"))

    def _fail(self, error: UllageError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # whoever waits gets it, and nobody has to wait


def _settle(waiters: Sequence[asyncio.Future[Any]], value: object) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(value)
