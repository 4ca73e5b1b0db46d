"""What all sessions of one home took on a day, as a small record beside their logs.

One file a UTC day holds a line for each booked call: its tokens, and its micro-dollars or `-`. Every process appends
whole lines and reads on from where it stopped, so a sum costs as much as what is new. The record is a convenience: what
cannot be written or read counts as nothing and is never an error. Logs say what a session cost.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ullage.context.caps import Paid
from ullage.storage.files import Files, ensure_folder, write_all

_log = logging.getLogger(__name__)
_LINE: Final = re.compile(rb"([0-9]{1,15}) ([0-9]{1,15}|-)")


class Day:
    """The record of one home, as one reader sees it."""

    def __init__(self, files: Files, home: Path) -> None:
        self._files, self._folder = files, home / "spending"
        self._name = ""
        self._read = self._tokens = self._micros = 0

    def add(self, at: int, tokens: int, micros: int | None) -> None:
        """Book a call that was paid at a time, in UTC milliseconds."""
        name = day_of(at)
        line = f"{tokens} {'-' if micros is None else micros}\n"
        try:
            ensure_folder(self._files, self._folder)
            is_new = not self._files.exists(self._folder / name)
            handle = self._files.open_append(self._folder / name, create=is_new)
            try:
                write_all(self._files, handle, line.encode())
            finally:
                self._files.close(handle)
            if is_new:
                self._forget_before(name)
        except OSError as error:
            _log.debug("a call was not booked for its day: %s", error)

    def _forget_before(self, name: str) -> None:
        for other in self._files.list(self._folder):
            if other < name:
                self._files.remove(self._folder / other)

    def of(self, at: int) -> Paid:
        """What was taken on the day of that time so far."""
        name = day_of(at)
        if name != self._name:
            self._name = name
            self._read = self._tokens = self._micros = 0
        try:
            self._take(self._new())
        except OSError as error:
            _log.debug("the day's record cannot be read: %s", error)
        return Paid(self._tokens, self._micros)

    def _new(self) -> bytes:
        """Whole lines that were not read yet."""
        path = self._folder / self._name
        if not self._files.exists(path):
            return b""
        handle = self._files.open_read(path)
        try:
            data = self._files.read(handle, self._read, max(0, self._files.size(handle) - self._read))
        finally:
            self._files.close(handle)
        return data[: data.rfind(b"\n") + 1]

    def _take(self, data: bytes) -> None:
        self._read += len(data)
        for line in data.splitlines():
            if found := _LINE.fullmatch(line):
                self._tokens += int(found[1])
                self._micros += 0 if found[2] == b"-" else int(found[2])


def day_of(at: int) -> str:
    """The UTC day of a time in milliseconds."""
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
