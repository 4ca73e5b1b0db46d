"""Standard input and output as a transport: a reader thread, a writer thread, and private descriptors.

Invariants: the event loop never waits for the client; a durable frame is written whole and in order, or the
connection ends; a coalescable frame never passes a durable frame that was sent before or after it; nothing but
frames reaches the descriptor the client reads, whoever prints.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.wire.limits import Limits

logger = logging.getLogger(__name__)

Params = dict[str, Any]
Merge = Callable[[Sequence[Params]], Params]
"""One params object for many, given oldest first: text joined, or just the last."""


@dataclass(frozen=True, slots=True)
class Coalesce:
    """How a notification may melt into others that wait: those with the same method and `key`, by `merge`."""

    key: str
    merge: Merge


def take_stdio() -> tuple[int, int]:
    """Keep the client's two descriptors private and return them (read, write).

    From then on descriptor 0 is empty, and descriptor 1 and `sys.stdout` lead to standard error: neither a stray print
    nor a child process can touch the stream.
    """
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return source, sink


class Inbox:
    """Reads a descriptor in a thread of its own; at most four chunks wait for the loop.

    A thread, since a descriptor made non-blocking would be so for every process that shares it; a daemon, since a
    read cannot be interrupted.
    """

    def __init__(self, source: int, limits: Limits) -> None:
        self._source = source
        self._size = limits.chunk
        self._room = threading.Semaphore(4)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._pump, name="ullage-reader", daemon=True).start()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Every chunk, until the client closes its end."""
        while chunk := await self._chunks.get():
            self._room.release()
            yield chunk

    def _pump(self) -> None:
        chunk = b"-"
        while chunk:
            self._room.acquire()
            try:
                chunk = os.read(self._source, self._size)
            except OSError:
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop has ended
                return


@dataclass(slots=True)
class _Waiting:
    """Notifications that became one frame while waiting. `frame` is that frame when nothing was merged into it."""

    key: str
    parts: list[Params]
    merge: Merge
    encode: Callable[[Params], bytes]
    frame: bytes | None
    size: int
    head: int = 0

    def add(self, params: Params, size: int) -> None:
        self.parts.append(params)
        self.frame = None
        self.size += size
        # Melted down when as much was added as is there: the work stays linear, and "only the last" stays small.
        if self.size > 2 * self.head + 64 * 1024:
            self.parts = [self.merge(self.parts)]
            self.frame = self.encode(self.parts[0])
            self.size = self.head = len(self.frame)

    def render(self) -> bytes:
        return self.frame if self.frame is not None else self.encode(self.merge(self.parts))


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """What waits, in bytes, and how many coalescable notifications were dropped since the start."""

    durable: int
    waiting: int
    dropped: int


@dataclass(slots=True)
class _Queue:
    """Frames in the order of sending, by ticket. Guarded by the outbox's lock."""

    items: OrderedDict[int, bytes | _Waiting] = field(default_factory=OrderedDict)
    droppable: OrderedDict[int, _Waiting] = field(default_factory=OrderedDict)
    open: dict[str, int] = field(default_factory=dict)
    ticket: int = 0
    durable: int = 0
    waiting: int = 0
    dropped: int = 0

    def put(self, frame: bytes) -> None:
        self.open.clear()  # what comes later may not melt into what was sent before this frame
        self.ticket += 1
        self.items[self.ticket] = frame
        self.durable += len(frame)

    def offer(self, params: Params, coalesce: Coalesce, encode: Callable[[Params], bytes]) -> None:
        frame = encode(params)
        ticket = self.open.get(coalesce.key)
        if ticket is None:
            self.ticket += 1
            self.open[coalesce.key] = self.ticket
            entry = _Waiting(coalesce.key, [params], coalesce.merge, encode, frame, len(frame), len(frame))
            self.items[self.ticket] = self.droppable[self.ticket] = entry
            self.waiting += entry.size
        else:
            entry = self.droppable[ticket]
            before = entry.size
            entry.add(params, len(frame))
            self.waiting += entry.size - before

    def shed(self, most: int) -> None:
        """Drop the oldest coalescable frames: the newest tells most, and the log tells the rest."""
        while self.waiting > most:
            ticket = next(iter(self.droppable))
            self.dropped += len(self.droppable[ticket].parts)
            del self.items[ticket]
            self._forget(ticket)

    def pop(self) -> bytes | _Waiting:
        ticket, item = self.items.popitem(last=False)
        if isinstance(item, _Waiting):
            self._forget(ticket)
        else:
            self.durable -= len(item)
        return item

    def _forget(self, ticket: int) -> None:
        entry = self.droppable.pop(ticket)
        self.waiting -= entry.size
        if self.open.get(entry.key) == ticket:
            del self.open[entry.key]

    def clear(self) -> None:
        self.items.clear()
        self.droppable.clear()
        self.open.clear()
        self.durable = self.waiting = 0


class Outbox:
    """Writes frames in a thread of its own. `write` and `offer` return at once, whatever the client does."""

    def __init__(self, sink: int, limits: Limits, on_lost: Callable[[str], None] = lambda reason: None) -> None:
        """`on_lost` gets a sentence, once, from any thread, when the client cannot be reached any more."""
        self._sink = sink
        self._limits = limits
        self._on_lost = on_lost
        self._ready = threading.Condition()
        self._queue = _Queue()
        self._ended = False
        self._thread = threading.Thread(target=self._pump, name="ullage-writer", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Send a durable frame: never dropped, never reordered. Without a client it goes nowhere."""
        with self._ready:
            if self._ended:
                return
            self._queue.put(data)
            too_much = self._queue.durable > self._limits.durable
            self._ready.notify()
        if too_much:
            self._lose("The client has not read for too long.")

    def offer(self, params: Params, coalesce: Coalesce, encode: Callable[[Params], bytes]) -> None:
        """Send a coalescable notification; `encode` makes the frame, on whichever thread needs it."""
        with self._ready:
            if self._ended:
                return
            self._queue.offer(params, coalesce, encode)
            self._queue.shed(self._limits.waiting)
            self._ready.notify()

    def statistics(self) -> OutboxStatistics:
        """What waits now."""
        with self._ready:
            return OutboxStatistics(self._queue.durable, self._queue.waiting, self._queue.dropped)

    def close(self) -> None:
        """Write what waits, for `limits.flush` seconds at most, and stop."""
        with self._ready:
            self._ended = True
            self._ready.notify()
        self._thread.join(self._limits.flush)

    @property
    def finished(self) -> bool:
        """True when everything was written, or there is no client left to write to."""
        return not self._thread.is_alive()

    def _pump(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._queue.items or self._ended)
                if not self._queue.items:
                    return
                item = self._queue.pop()
            try:
                self._write_whole(item.render() if isinstance(item, _Waiting) else item)
            except OSError:
                self._lose("The client has closed its end.")
            except Exception:  # a merge function failed: its frame is lost, the connection is not
                logger.exception("A waiting notification could not be merged.")

    def _write_whole(self, frame: bytes) -> None:
        view = memoryview(frame)
        while view:
            view = view[os.write(self._sink, view[: self._limits.chunk]) :]

    def _lose(self, reason: str) -> None:
        with self._ready:
            if self._ended:
                self._queue.clear()
                return
            self._ended = True
            self._queue.clear()
            self._ready.notify()
        with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
            self._on_lost(reason)
