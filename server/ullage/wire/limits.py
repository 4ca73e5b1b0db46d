"""Every bound of one connection, in one place."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a connection; sizes in bytes, times in seconds."""

    header: int = 8 * 1024
    """Longest header block; real clients need about 100 bytes, so anything longer is not a header."""

    body: int = 16 * MIB
    """Largest message taken in; json.loads holds the interpreter for its whole length."""

    skip: int = 1024 * MIB
    """An oversized body up to this length is skipped exactly; a greater length is absurd and ends the stream."""

    chunk: int = 64 * 1024
    """How much is read from or written to a descriptor at once; the size of a Linux pipe."""

    waiting: int = 8 * MIB
    """Coalescable frames that may wait for a client that does not read; beyond it the oldest are dropped."""

    durable: int = 256 * MIB
    """Durable frames that may wait; beyond it the client counts as lost, and its log tells it everything later."""

    drain: float = 1.0
    """How long cancelled requests may take to end before the server stops waiting for their answers."""

    closing: float = 5.0
    """How long the closing hook may take; it syncs logs and ends children, so it is worth waiting for."""

    flush: float = 0.5
    """How long the last answers may wait for a client that does not read, when the server ends."""

    parent_poll: float = 1.0
    """How often the editor's process is looked for where the system cannot tell us that it ended."""
