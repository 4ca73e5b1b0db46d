"""What the editors package keeps within bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what clients are sent."""

    update_bytes: int = 64 * 1024
    """Most bytes of tool text (arguments or results) in one update: more has crashed clients (bugs row 59)."""

    replay_page: int = 200
    """Updates sent in one go when a session is opened, before others get their turn on the loop."""

    snippet_characters: int = 300
    """Most characters of one hit of a search."""
