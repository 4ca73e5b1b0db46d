"""Progress bars that any editor shows without a plug-in: `$/progress` under a token the server makes.

Invariant: a bar that was begun is ended, once. One that the client has not agreed to yet remembers only how it stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ullage.editors.protocol import UllageProtocol
from ullage.sessions.notices import Compacted, CompactionStatus

logger = logging.getLogger(__name__)


class Bar:
    """One progress bar; made by `Progress.start`."""

    def __init__(self, protocol: UllageProtocol, token: str, title: str, cancel: Callable[[], None] | None) -> None:
        self._protocol, self._token, self._title, self._cancel = protocol, token, title, cancel
        self._shown = False
        self._said: str | None = None
        self._ended = False

    def say(self, text: str) -> None:
        """Where things stand; nothing after the end."""
        if not self._ended:
            self._said = text
            if self._shown:
                self._send(types.WorkDoneProgressReport(message=text))

    def end(self, text: str) -> None:
        """It is over; a second end does nothing."""
        if not self._ended:
            self._said, self._ended = text, True
            if self._shown:
                self._finish()

    async def show(self) -> None:
        """Ask the client for the bar, then show it as it stands by then."""
        create = types.WorkDoneProgressCreateParams(token=self._token)
        try:
            await self._protocol.request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, create)
        except JsonRpcException as error:
            logger.info("The client wants no progress bar: %s", error.message)
            return
        self._shown = True
        self._listen()
        begin = types.WorkDoneProgressBegin(title=self._title, cancellable=self._cancel is not None, message=self._said)
        self._send(begin)
        if self._ended:
            self._finish()

    def _listen(self) -> None:
        """pygls cancels the future that is kept under the token when the person cancels the bar."""
        pressed: Future[Any] = Future()
        pressed.add_done_callback(lambda done: self._cancelled() if done.cancelled() else None)
        self._protocol.progress.tokens[self._token] = pressed

    def _cancelled(self) -> None:
        if self._cancel is not None and not self._ended:
            self._cancel()

    def _finish(self) -> None:
        self._protocol.progress.tokens.pop(self._token, None)
        self._send(types.WorkDoneProgressEnd(message=self._said))

    def _send(self, value: Any) -> None:
        self._protocol.notify(types.PROGRESS, types.ProgressParams(token=self._token, value=value))


_WORDS = {
    CompactionStatus.STARTED: "Planned",
    CompactionStatus.SUMMARISING: "Summarising",
    CompactionStatus.RETRYING: "Asking for another summary",
    CompactionStatus.GATED: "Writing it down",
    CompactionStatus.COMMITTED: "Done",
    CompactionStatus.FAILED: "Failed",
    CompactionStatus.BLOCKED: "Blocked",
    CompactionStatus.CANCELLED: "Cancelled",
    CompactionStatus.SKIPPED: "Not done",
}
_GOES_ON = {
    CompactionStatus.STARTED,
    CompactionStatus.SUMMARISING,
    CompactionStatus.RETRYING,
    CompactionStatus.GATED,
}


class Progress:
    """The bars of one client. Without its support (`window.workDoneProgress`) they are never shown."""

    def __init__(self, protocol: UllageProtocol, new_id: Callable[[], str]) -> None:
        self._protocol = protocol
        self._new_id = new_id
        self._tasks: set[asyncio.Task[None]] = set()
        self._compactions: dict[str, Bar] = {}
        self.supported = False

    def start(self, title: str, cancel: Callable[[], None] | None = None) -> Bar:
        """A bar; `cancel` makes it one that can be cancelled."""
        bar = Bar(self._protocol, self._new_id(), title, cancel)
        if self.supported:
            task = asyncio.ensure_future(bar.show())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return bar

    def hear(self, session_id: str, notice: Compacted, cancel: Callable[[], None]) -> None:
        """Show a compaction, automatic ones too; `cancel` is what its bar's button does."""
        bar = self._compactions.get(session_id)
        if notice.status is CompactionStatus.STARTED and bar is None:
            bar = self._compactions[session_id] = self.start("Compacting the session", cancel)
        if bar is None:
            return
        if notice.status in _GOES_ON:
            bar.say(_WORDS[notice.status])
        else:
            del self._compactions[session_id]
            bar.end(_outcome(notice))

    async def close(self) -> None:
        """Nobody is asked any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _outcome(notice: Compacted) -> str:
    if notice.report is not None and notice.status is CompactionStatus.COMMITTED:
        return f"{notice.report.before:,} to {notice.report.after:,} tokens"
    why = f": {notice.error.message}" if notice.error else ""
    return _WORDS[notice.status] + why
