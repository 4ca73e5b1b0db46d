"""Forking: a new log that begins with a part of another one.

Invariants: not a byte of the parent changes. Copied events keep their text, seq and time, and are sealed anew; what is
not copied leaves gaps. No tool call is parted from its result. A fork either stands whole under its name or not at
all, and always ends with `session_forked`, so what it clears (grants, queue, handoffs, open turn) stays cleared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ullage.core.errors import BadInput, SessionUnavailable, StorageFailed
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Entry,
    Event,
    Parent,
    PromptEdited,
    PromptQueued,
    ResultReceived,
    SessionCreated,
    SessionForked,
    SteerEntered,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from ullage.core.events import PromptRemoved as Removed
from ullage.core.views import fork_view
from ullage.storage.files import Files, write_new
from ullage.storage.ids import is_session_id
from ullage.storage.lines import Line, event_text, seal
from ullage.storage.loading import Walk, restore
from ullage.storage.log import SessionLog


def fork(files: Files, source: SessionLog, at_seq: int | None, new_id: str, at: int) -> tuple[Path, int]:
    """Make a new session from the source's events up to `at_seq` (None: all), beside it in the same folder.

    A point inside a unit snaps back to its start. Returns the new log's path and the last seq that was copied; open it
    as any other. `at` is UTC milliseconds. Damage of the source isn't copied, only the events that can be read.

    Raises:
        BadInput: not a session id, or taken.
        SessionUnavailable: the source has no readable header.
        StorageFailed: the disk refused; there is no new session.
    """
    if not is_session_id(new_id):
        raise BadInput(f"not a session id: {new_id[:80]!r}", hint="Leave the id out and one is made.")
    path = source.path.with_name(f"{new_id}.jsonl")
    if files.exists(path):
        raise BadInput("A session of this id exists.", hint="Leave the id out and one is made.")
    if source.header is None:
        raise SessionUnavailable("The session's header can't be read, so its workspace is not known.")
    last, waiting = fork_point(source.entries(), at_seq)
    parent = Parent(source.header.session_id, last)
    old = source.header
    header = SessionCreated(new_id, old.root, old.device, old.inode, parent)
    try:
        write_new(files, path, _child_lines(source, header, last, waiting, at))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise StorageFailed(f"The fork was not written ({reason}).", hint="Make room, then fork again.") from error
    return path, last


def fork_point(entries: Iterator[Entry], at_seq: int | None) -> tuple[int, frozenset[str]]:
    """The last seq to copy, not inside a unit, and the turn ids of prompts that still wait there."""
    last, before_unit, open_calls = 0, 0, set[str]()
    waiting: dict[str, int] = {}
    left: dict[str, int] = {}
    for entry in entries:
        if at_seq is not None and entry.seq > at_seq:
            break
        match entry.event:
            case PromptQueued(message):
                waiting[message.turn_id] = entry.seq
            case Removed(turn_id):
                left.setdefault(turn_id, entry.seq)
            case TurnStarted(turn_id) | SteerEntered(_, turn_id) | StepStarted(turn_id) | TurnEnded(turn_id):
                left.setdefault(turn_id, entry.seq)
                open_calls.clear()  # what is open still lost its results with a damaged line: nothing will close it
            case AnswerReceived(turn_id):
                left.setdefault(turn_id, entry.seq)
                before_unit, open_calls = last, {call.call_id for call in entry.event.message.calls}
            case ResultReceived(turn_id):
                left.setdefault(turn_id, entry.seq)
                open_calls.difference_update(result.call_id for result in entry.event.message.results)
            case _:
                pass
        last = entry.seq
    if open_calls:
        last = before_unit
    return last, frozenset(turn for turn in waiting if left.get(turn, last + 1) > last)


def _copied(event: Event, waiting: frozenset[str]) -> bool:
    match event:
        case PromptQueued(message) | PromptEdited(message):
            return message.turn_id not in waiting
        case _:
            return fork_view(event) and not isinstance(event, SessionCreated)  # identity is the child's own


def _child_lines(
    source: SessionLog, header: SessionCreated, last: int, waiting: frozenset[str], at: int
) -> Iterator[bytes]:
    """The child's lines, one at a time."""
    data, crc = seal([event_text(0, header)], at, 0, 0)
    yield data
    offset, ckpt, seq = len(data), 0, 0
    for line, entries in Walk().over(source.lines()):
        kept = [entry for entry in entries if entry.seq <= last and _copied(entry.event, waiting)]
        if not kept:
            continue
        seqs = {entry.seq for entry in kept}
        texts = [text for record, text in line.raw_events() if record["seq"] in seqs]
        data, crc = seal(texts, line.at, crc, ckpt)
        yield data
        if _opens_an_epoch(line, kept):
            ckpt = offset
        offset, seq = offset + len(data), kept[-1].seq
    assert header.parent is not None
    # Above every seq of the parent's that is left out, so that a seq never means two events of one family.
    seq = max(seq, last) + 1
    yield seal([event_text(seq, SessionForked(header.parent))], at, crc, ckpt)[0]


def _opens_an_epoch(line: Line, kept: list[Entry]) -> bool:
    found = line.has_checkpoint and any(isinstance(entry.event, CheckpointCommitted) for entry in kept)
    return found and restore(kept) is not None
