"""Bytes to message bodies and back: the base protocol of LSP, without I/O.

Invariant: whatever bytes arrive, in whatever pieces, `Framer.feed` returns bodies or typed errors and raises nothing.
A length is checked before anything is kept for it; memory stays below the body limit plus one header block; the
work is linear in the bytes fed. After an error the framer either finds the next frame or says that it has closed:
it is never silently deaf.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ullage.wire.limits import Limits

BOM: Final = b"\xef\xbb\xbf"
NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# A raw line end cannot stand inside a JSON string, so this line is never found inside a well-formed body.
NEXT_FRAME: Final = re.compile(rb"content-length[ \t]{0,4}:[ \t]{0,4}[0-9]{1,20}[ \t]{0,4}\r?\n", re.IGNORECASE)
LONGEST_MATCH: Final = len(b"content-length:\r\n") + 3 * 4 + 20

START: Final = 256
"""How much of a refused body is kept: enough to find the id of the request in it."""


class FramingFault(Enum):
    """What was wrong with a frame; the value is a sentence for people."""

    BAD_HEADER = "a header line is not `Name: value`"
    HEADER_TOO_LONG = "the header block is too long"
    LENGTH_MISSING = "the header block has no Content-Length"
    LENGTH_BAD = "Content-Length is not a plain number"
    LENGTH_CONFLICT = "two Content-Length headers differ"
    BODY_TOO_LONG = "the message is longer than the server accepts"
    LENGTH_ABSURD = "Content-Length is absurd; the stream is closed"


@dataclass(frozen=True, slots=True)
class Body:
    """One whole message, as it came."""

    data: bytes


@dataclass(frozen=True, slots=True)
class FramingError:
    """A frame that was refused. `fatal`: nothing more will be read. `start`: the body's first bytes, where known."""

    fault: FramingFault
    fatal: bool = False
    start: bytes = b""


Frame = Body | FramingError


def frame(body: bytes) -> bytes:
    """A body with its header, ready to be written."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class _State(Enum):
    HEADER = auto()
    BODY = auto()
    SKIP = auto()
    LOST = auto()
    CLOSED = auto()


class Framer:
    """Turns a byte stream into frames. One for each connection."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._state = _State.HEADER
        self._steps: dict[_State, Callable[[bytes, int, list[Frame]], int]] = {
            _State.HEADER: self._read_header,
            _State.BODY: self._read_body,
            _State.SKIP: self._skip_body,
            _State.LOST: self._find_next,
        }
        self._line = bytearray()
        self._header_size = 0
        self._length: int | None = None
        self._missing = 0
        self._body = bytearray()
        self._silent = False
        self._told = False

    @property
    def closed(self) -> bool:
        """True after a fatal error; whatever is fed from then on is ignored."""
        return self._state is _State.CLOSED

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes in; return every frame they complete, in order."""
        frames: list[Frame] = []
        at = 0
        while at < len(data) and self._state is not _State.CLOSED:
            at = self._steps[self._state](data, at, frames)
        return frames

    # --- headers ---------------------------------------------------------------------------------------------------

    def _read_header(self, data: bytes, at: int, frames: list[Frame]) -> int:
        end = data.find(b"\n", at) + 1
        # A line may not be copied before its length is known to be sane.
        room = self._limits.header - self._header_size
        stop = min(end or len(data), at + room + 1)
        self._line += data[at:stop]
        self._header_size += stop - at
        if stop - at > room:
            self._lose(FramingFault.HEADER_TOO_LONG, frames)
        elif end:
            line = bytes(self._line)
            self._line.clear()
            self._take_line(line, frames)
        return stop

    def _take_line(self, line: bytes, frames: list[Frame]) -> None:
        text = line.rstrip(b"\r\n").removeprefix(BOM)
        if not text.strip():
            self._end_header(len(line) == self._header_size, frames)
            return
        name, colon, value = text.partition(b":")
        if not colon or not NAME.fullmatch(name.strip()):
            self._lose(FramingFault.BAD_HEADER, frames, line)
        elif name.strip().lower() == b"content-length":
            self._take_length(value.strip(), frames)

    def _take_length(self, value: bytes, frames: list[Frame]) -> None:
        if not value.isdigit():
            self._lose(FramingFault.LENGTH_BAD, frames)
            return
        # Longer than any sane length: refused by its digits, since int() of a very long number raises.
        length = int(value) if len(value) <= 20 else self._limits.skip + 1
        if length > max(self._limits.skip, self._limits.body):
            self._state = _State.CLOSED
            frames.append(FramingError(FramingFault.LENGTH_ABSURD, fatal=True))
        elif self._length is not None and self._length != length:
            self._lose(FramingFault.LENGTH_CONFLICT, frames)
        else:
            self._length = length

    def _end_header(self, nothing_before: bool, frames: list[Frame]) -> None:
        length = self._length
        self._reset()
        if length is None and nothing_before:
            return  # stray line ends between messages are harmless
        if length is None:
            self._lose(FramingFault.LENGTH_MISSING, frames)
            return
        self._silent = False
        self._missing = length
        if length > self._limits.body:
            self._state = _State.SKIP
        elif length == 0:
            frames.append(Body(b""))
        else:
            self._state = _State.BODY

    def _reset(self) -> None:
        self._line.clear()
        self._header_size = 0
        self._length = None

    # --- bodies ----------------------------------------------------------------------------------------------------

    def _read_body(self, data: bytes, at: int, frames: list[Frame]) -> int:
        stop = min(len(data), at + self._missing)
        self._body += data[at:stop]
        self._missing -= stop - at
        if not self._missing:
            frames.append(Body(bytes(self._body)))
            self._body = bytearray()
            self._state = _State.HEADER
        return stop

    def _skip_body(self, data: bytes, at: int, frames: list[Frame]) -> int:
        stop = min(len(data), at + self._missing)
        wanted = START - len(self._body)
        self._body += data[at : min(stop, at + wanted)]
        self._missing -= stop - at
        if (wanted and len(self._body) == START) or not self._missing:
            # Told as soon as the id can be known: the sender should not have to push all of it first.
            self._tell_oversize(frames)
        if not self._missing:
            self._body = bytearray()
            self._told = False
            self._state = _State.HEADER
        return stop

    def _tell_oversize(self, frames: list[Frame]) -> None:
        if not self._told:
            frames.append(FramingError(FramingFault.BODY_TOO_LONG, start=bytes(self._body)))
        self._told = True

    # --- after an error --------------------------------------------------------------------------------------------

    def _lose(self, fault: FramingFault, frames: list[Frame], line: bytes = b"") -> None:
        """Report once, then look for the next frame, beginning inside the bad line: a body that is longer than its
        header said leaves its rest in front of the next header."""
        if not self._silent:
            frames.append(FramingError(fault))
        self._silent = True
        rest = line or bytes(self._line)
        self._reset()
        self._state = _State.LOST
        if found := NEXT_FRAME.search(rest):
            self._resume(found.group(), frames)
        else:
            self._line += rest[-LONGEST_MATCH:]

    def _find_next(self, data: bytes, at: int, frames: list[Frame]) -> int:
        kept = len(self._line)
        seam = bytes(self._line) + data[at : at + LONGEST_MATCH]
        if found := NEXT_FRAME.search(seam):
            stop = at + found.end() - kept
        elif found := NEXT_FRAME.search(data, at):
            stop = found.end()
        else:
            tail = bytes(self._line) + data[max(at, len(data) - LONGEST_MATCH) :]
            self._line = bytearray(tail[-LONGEST_MATCH:])
            return len(data)
        self._resume(found.group(), frames)
        return stop

    def _resume(self, line: bytes, frames: list[Frame]) -> None:
        self._reset()
        self._state = _State.HEADER
        self._header_size = len(line)
        self._take_line(line, frames)
