"""What a command prints: its beginning and end in memory, all of it in the blobs while it runs.

Invariant: memory is bounded by `head`, `tail` and one piece, whatever is printed; what was kept of it is told with
figures, and nothing is left out without saying so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ullage.core.errors import StorageFailed
from ullage.core.messages import BlobRef
from ullage.core.ports import BlobWriter
from ullage.workspace.limits import Limits


@dataclass(frozen=True, slots=True)
class Printed:
    """What there is of an output: `text` is whole, or a beginning and an end around a note.

    `full` names all of it where the text is not whole and the disk took it; `characters` is its whole length.
    """

    text: str
    characters: int
    full: BlobRef | None = None


@dataclass(frozen=True, slots=True)
class News:
    """What was printed since a place: the newest of it, and how many characters before that are left out."""

    text: str
    end: int
    left_out: int


class Output:
    """Safe to use from several threads. `close` ends it; what comes later is counted and dropped."""

    def __init__(self, limits: Limits, writer: Callable[[], BlobWriter]) -> None:
        self._limits, self._writer = limits, writer
        self._lock = threading.Lock()
        self._head = self._tail = ""
        self._total = self._stored = 0
        self._spill: BlobWriter | None = None
        self._failed = self._closed = False
        self._full: BlobRef | None = None

    @property
    def characters(self) -> int:
        """How much was printed so far."""
        return self._total

    def add(self, text: str) -> None:
        """Take what was printed."""
        with self._lock:
            limits = self._limits
            if self._spill is None and self._total + len(text) > limits.output_head + limits.output_tail:
                self._begin()
            self._store(text)
            self._head += text[: max(0, limits.output_head - len(self._head))]
            self._tail = (self._tail + text)[-limits.output_tail :]
            self._total += len(text)

    def since(self, start: int) -> News:
        """What was printed from a place on, as far as it is in memory."""
        with self._lock:
            kept = self._total - len(self._tail)
            first = max(start, kept)
            return News(self._tail[first - kept :], self._total, max(0, first - start))

    def close(self) -> None:
        """Nothing more comes: make the whole durable."""
        with self._lock:
            self._closed = True
            with self._noting():
                self._full = self._spill.commit() if self._spill is not None else None
            self._spill = None

    def printed(self) -> Printed:
        """What there is of it."""
        with self._lock:
            left_out = self._total - len(self._head) - len(self._tail)
            if left_out <= 0:
                return Printed(self._whole(), self._total)
            return Printed(f"{self._head}\n{self._note(left_out)}\n{self._tail}", self._total, self._full)

    def _whole(self) -> str:
        """All of it, while head and tail still touch."""
        return self._head + self._tail[len(self._head) + len(self._tail) - self._total :]

    def _note(self, left_out: int) -> str:
        if self._full is not None:
            cut = self._stored >= self._limits.output_bytes
            what = f"its first {self._stored:,} bytes" if cut else "all of it"
            where = f"call read_output with {self._full.sha256} to page through {what}"
        else:
            where = "it is still being written" if self._spill is not None else "they could not be stored"
        return f"[… {left_out:,} characters left out; {where} …]"

    def _begin(self) -> None:
        """More than memory keeps: from here on it goes to the disk, beginning with what there was."""
        if self._failed or self._closed:
            return
        with self._noting():
            self._spill = self._writer()
        self._store(self._whole())

    def _store(self, text: str) -> None:
        if self._spill is None:
            return
        data = text.encode()[: self._limits.output_bytes - self._stored]
        self._stored += len(data)
        with self._noting():
            self._spill.write(data)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """A disk that refuses costs the middle of the output, never the command's outcome."""
        try:
            yield
        except StorageFailed:
            spill, self._spill, self._failed = self._spill, None, True
            if spill is not None:
                spill.abandon()
