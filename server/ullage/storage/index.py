"""The list of a workspace's sessions, from the heads and tails of their logs.

Bounded: about 56 KiB a log are read, however long it is (more only where the last line alone is longer). The price: a
title given or taken back in the middle of a long log shows once a checkpoint carries it; opening the session always
knows it.
Identity comes from headers: a file's name and times mean nothing, and a log of another workspace isn't listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ullage.core.events import (
    AnswerReceived,
    Entry,
    Parent,
    ResultReceived,
    SessionCreated,
    SessionRedone,
    SessionRenamed,
    SessionRewound,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from ullage.core.reduce import fold
from ullage.core.state import Facts, State
from ullage.storage.files import Files
from ullage.storage.ids import sessions_folder, workspace_key
from ullage.storage.limits import BOUNDS
from ullage.storage.lines import Damage, Line, last_line, split_lines
from ullage.storage.loading import Walk

_TITLE = b'"title":'


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a list. Times in UTC milliseconds, `size` in bytes.

    `damaged` says that unreadable bytes were seen in what was read, or that the header can't be read: then `session_id`
    is only the file's name.
    """

    session_id: str
    title: str
    created_at: int
    updated_at: int
    last_seq: int
    size: int
    parent: Parent | None
    damaged: bool
    open_turn: bool


def list_sessions(files: Files, home: Path, key: str) -> list[SessionSummary]:
    """Every session of a workspace, the last changed first. A log that can't be read is listed as damaged."""
    folder = sessions_folder(home, key)
    names = [name for name in files.list(folder) if name.endswith(".jsonl")]
    found = [_summary(files, folder / name, key) for name in names]
    return sorted((s for s in found if s is not None), key=lambda s: (s.updated_at, s.session_id), reverse=True)


def _summary(files: Files, path: Path, key: str) -> SessionSummary | None:
    try:
        handle = files.open_read(path)
    except OSError:
        return SessionSummary(path.stem, "", 0, 0, -1, 0, None, True, False)
    try:
        return _read(files, handle, path, key)
    except OSError:
        return SessionSummary(path.stem, "", 0, 0, -1, 0, None, True, False)
    finally:
        files.close(handle)


def _read(files: Files, handle: int, path: Path, key: str) -> SessionSummary | None:
    size = files.size(handle)
    head, damaged_head = _entries(split_lines([files.read(handle, 0, BOUNDS.listing_head_bytes)], 0))
    header = head[0].event if head else None
    if not isinstance(header, SessionCreated):
        return SessionSummary(path.stem, "", 0, 0, -1, size, None, True, False)
    if workspace_key(header.root) != key:
        return None
    items = _tail(files, handle, size)
    newest = next((item for item in reversed(items) if isinstance(item, Line)), None)
    tail, damaged_tail = _entries(items)
    title = _tail_title(tail)
    if title is None:
        title = _checkpoint_title(files, handle, newest) or fold(head).facts.title
    last = tail[-1] if tail else head[-1]
    return SessionSummary(
        header.session_id,
        title,
        head[0].at,
        last.at,
        last.seq,
        size,
        header.parent,
        damaged_head or damaged_tail,
        _turn_is_open(tail),
    )


def _entries(items: Iterable[Line | Damage]) -> tuple[list[Entry], bool]:
    """The entries of a stretch, and whether it is damaged; what is cut off at its end is no damage."""
    walk = Walk()
    entries = [entry for _, entries in walk.over(items) for entry in entries]
    return entries, bool(walk.damage)


def _tail(files: Files, handle: int, size: int) -> list[Line | Damage]:
    """The last stretch, from the first line that begins in it; at least the newest line, however long."""
    start = max(0, size - BOUNDS.tail_bytes)
    data = files.read(handle, start, size - start)
    begin = data.find(b"\n") + 1 if start else 0
    items = list(split_lines([data[begin:]], start + begin))
    if any(isinstance(item, Line) for item in items):
        return items
    newest = last_line(files, handle, size)
    return items if newest is None else [newest]


def _tail_title(entries: list[Entry]) -> str | None:
    """The title that the newest event which knows it leads to; None where there is none."""
    for index in range(len(entries) - 1, -1, -1):
        match entries[index].event:
            case SessionRenamed(title):
                known = title
            case SessionRewound(facts=facts) | SessionRedone(facts=facts):
                known = facts.title
            case _:
                continue
        return fold(entries[index + 1 :], State(Facts(title=known))).facts.title
    return None


def _checkpoint_title(files: Files, handle: int, newest: Line | None) -> str:
    """The title among the facts, which begin a checkpoint's record, without reading the rest of it."""
    if newest is None:
        return ""
    offset = newest.offset if newest.has_checkpoint else newest.ckpt
    if not offset:
        return ""
    data = files.read(handle, offset, BOUNDS.listing_checkpoint_bytes)
    at = data.find(_TITLE)
    try:
        title = json.JSONDecoder().raw_decode(data[at + len(_TITLE) :].decode("ascii"))[0] if at >= 0 else ""
    except ValueError:
        return ""
    return title if isinstance(title, str) else ""


def _turn_is_open(entries: list[Entry]) -> bool:
    for entry in reversed(entries):
        match entry.event:
            case TurnEnded():
                return False
            case TurnStarted() | StepStarted() | AnswerReceived() | ResultReceived():
                return True
            case _:
                pass
    return False
