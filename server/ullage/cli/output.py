"""Where commands write.

Invariant: what a model, a tool or a file said is text and nothing more: no control character of it reaches a terminal,
except tabs and line ends.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from ullage.core.errors import ErrorReport

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


_DIM: Final = ("\x1b[2m", "\x1b[0m")


class Stream(Protocol):
    """What is written to: a file, a pipe, a terminal, or the lines above a prompt."""

    def isatty(self) -> bool: ...
    def write(self, text: str, /) -> object: ...
    def flush(self) -> None: ...
    def fileno(self) -> int: ...


class Out:
    """A stream for people or for a pipe. When its reader is gone, `gone` is called once and nothing is written."""

    def __init__(self, stream: Stream, *, dim: bool = False) -> None:
        self._stream = stream
        self._plain = not stream.isatty()
        self._before, self._after = _DIM if dim and may_style(stream) else ("", "")
        self.lost = False
        self.gone: Callable[[], None] = lambda: None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a lone surrogate is no reason to stop

    def write(self, text: str) -> None:
        """Write at once. A terminal gets no control characters but tabs and line ends."""
        if self.lost:
            return
        try:
            self._stream.write(text if self._plain else f"{self._before}{visible(text)}{self._after}")
            self._stream.flush()
        except BrokenPipeError:
            self.lost = True
            with suppress(OSError, ValueError):  # or the interpreter complains when it flushes at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            self.gone()

    def line(self, text: str) -> None:
        """One line, whatever the text holds."""
        self.write(visible(text.replace("\n", " ")) + "\n")

    def error(self, error: ErrorReport) -> None:
        """What happened, and what to do next."""
        self.line(f"ullage: {error.message}")
        for text in error.hint.splitlines():
            self.line(f"        {text}")


def may_style(stream: Stream) -> bool:
    """Whether text may be dim or bold there."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def visible(text: str) -> str:
    """The text with every control character but tabs and line ends shown as a question mark."""
    return _CONTROL.sub("?", text)
