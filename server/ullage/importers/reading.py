"""Which format a recorded session has, and reading it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ullage.core.errors import BadInput
from ullage.core.ports import TokenCounter
from ullage.importers import claude_code, codex, pi
from ullage.importers.records import Record, parse
from ullage.importers.story import Imported

READERS: Final[dict[str, Callable[[bytes, TokenCounter], Imported]]] = {
    claude_code.FORMAT: claude_code.read,
    codex.FORMAT: codex.read,
    pi.FORMAT: pi.read,
}

_LOOKED_AT = 64 * 1024
"""Bytes from the beginning that tell the format."""


def format_of(content: bytes) -> str | None:
    """The format of a recorded session, by its first records; None when none of ours knows it."""
    records, _ = parse(content[:_LOOKED_AT])
    known = (_format(record) for _, record in records)
    return next((name for name in known if name is not None), None)


def _format(record: Record) -> str | None:
    if "payload" in record and record.get("type") in ("session_meta", "response_item", "event_msg", "turn_context"):
        return codex.FORMAT
    if record.get("type") == "session" and "cwd" in record:
        return pi.FORMAT
    return claude_code.FORMAT if "sessionId" in record and ("uuid" in record or "leafUuid" in record) else None


def read(path: Path, counter: TokenCounter) -> Imported:
    """Import a recorded session.

    Raises:
        BadInput: it can't be read, or its format is none of ours.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} can't be read: {error.strerror}.", hint="Name a session file.") from error
    name = format_of(content)
    if name is None:
        known = ", ".join(READERS)
        raise BadInput(f"{path} is no recorded session of a known format.", hint=f"Known are: {known}.")
    return READERS[name](content, counter)
