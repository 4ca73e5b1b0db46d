"""Reading what a command prints and what its keeper reports, in a thread of their own.

Each pipe has its own decoder, so a character that comes in two pieces is whole, and one that two pipes cut into each
other is too; what is no UTF-8 shows as U+FFFD. Reading ends with the keeper, not with the pipes: a process that got
away may hold them for ever.
"""

from __future__ import annotations

import codecs
import os
import selectors
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ullage.workspace.keeper import SEPARATOR
from ullage.workspace.limits import Limits
from ullage.workspace.output import Output

_PIECE = 1 << 16
"""Bytes read at a time: what a pipe holds."""
_DRAIN = 16
"""Pieces that may still be in a pipe when its writer has ended: Linux lets a pipe grow to 1 MiB unprivileged."""


class Listener(Protocol):
    """Who hears of it, in the thread that reads."""

    output: Output

    def printed(self, start: int, text: str) -> None:
        """News of the output, now and then."""

    def reported(self, fields: Sequence[str]) -> None:
        """A line of the keeper's; all that was printed before is in the output."""


class Reading:
    """Owns `outputs`, and closes them."""

    def __init__(self, listener: Listener, report: int, outputs: Sequence[int], limits: Limits) -> None:
        self._listener, self._limits = listener, limits
        self._report, self._reported = report, b""
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {pipe: decoder("replace") for pipe in outputs}
        for pipe in (report, *outputs):
            os.set_blocking(pipe, False)
        self._fresh = ""
        self._flushed = 0.0

    def run(self) -> None:
        """Read until the keeper has ended."""
        with selectors.DefaultSelector() as selector:
            for pipe in (self._report, *self._decoders):
                selector.register(pipe, selectors.EVENT_READ)
            try:
                while self._report in selector.get_map():
                    for key, _ in selector.select(self._until_flush()):
                        if not self._read(key.fd):
                            selector.unregister(key.fd)
                    if self._until_flush() == 0:
                        self._flush()
            finally:
                self._end()

    def _until_flush(self) -> float | None:
        if not self._fresh:
            return None
        return max(0.0, self._flushed + self._limits.live_seconds - time.monotonic())

    def _read(self, pipe: int) -> bool:
        """Whether there may be more."""
        try:
            piece = os.read(pipe, _PIECE)
        except BlockingIOError:
            return True
        if pipe == self._report:
            self._take_report(piece)
        else:
            self._take(self._decoders[pipe].decode(piece, final=not piece))
        return bool(piece)

    def _take(self, text: str) -> None:
        self._listener.output.add(text)
        self._fresh = (self._fresh + text)[-self._limits.live_characters :]

    def _take_report(self, piece: bytes) -> None:
        *lines, self._reported = (self._reported + piece).split(b"\n")
        for line in lines:
            self._drain()
            self._flush()
            self._listener.reported(line.decode("utf-8", "replace").split(SEPARATOR))

    def _flush(self) -> None:
        if self._fresh:
            self._listener.printed(self._listener.output.characters - len(self._fresh), self._fresh)
        self._fresh, self._flushed = "", time.monotonic()

    def _drain(self) -> None:
        """What is in the pipes now; a process that prints without end is not waited for."""
        for pipe, decoder in self._decoders.items():
            for _ in range(_DRAIN):
                try:
                    piece = os.read(pipe, _PIECE)
                except OSError:
                    break
                self._take(decoder.decode(piece))
                if not piece:
                    break

    def _end(self) -> None:
        self._drain()
        for pipe, decoder in self._decoders.items():
            self._take(decoder.decode(b"", final=True))
            with suppress(OSError):
                os.close(pipe)
