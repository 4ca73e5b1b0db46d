"""Names and places: session ids, workspace keys, and the paths made of them.

Invariant: a path is only ever made of checked hex words, never of a title, a folder's name or a client's text; so
two workspaces cannot share a folder, and no id can lead out of one.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ullage.core.errors import BadInput

_SESSION_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def new_session_id(at: int) -> str:
    """A uuid7 (RFC 9562): sorts by `at`, UTC milliseconds; the other 74 bits are random."""
    number = (at & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76 | 0x3 << 62) | 0x7 << 76 | 0x2 << 62
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_session_id(text: str) -> bool:
    return _SESSION_ID.fullmatch(text) is not None


def workspace_key(root: str) -> str:
    """The workspace's name in our folders: a hash of its real path, since swapping characters collides (W-C9)."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:32]


def sessions_folder(home: Path, key: str) -> Path:
    """Where a workspace's session logs lie."""
    return home / "sessions" / key


def session_path(home: Path, key: str, session_id: str) -> Path:
    """Where a session's log lies.

    Raises:
        BadInput: not a session id.
    """
    if not is_session_id(session_id):
        raise BadInput(f"not a session id: {session_id[:80]!r}", hint="List the sessions and take an id from there.")
    return sessions_folder(home, key) / f"{session_id}.jsonl"
