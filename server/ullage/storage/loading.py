"""From a log's bytes to its state, reading only what that takes: header, newest checkpoint, tail.

Invariants: loading is total and writes nothing. The latest checkpoint that is valid wins, whatever stands behind it;
so a malformed or lost one costs its own effect and no other. Identity comes from the header alone: a fork's copied
checkpoints still name the parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ullage.core.events import CheckpointCommitted, DamageAccepted, Entry, SessionCreated
from ullage.core.reduce import fold, resume
from ullage.core.state import State
from ullage.storage.files import Files
from ullage.storage.lines import VERSION, Damage, Line, first_line, last_line, read_lines


class Walk:
    """Goes over lines in order and keeps account of what is wrong with them.

    A sealed line is never counted as torn, even one that can't be used: `end` stands behind the last of them.
    """

    def __init__(self) -> None:
        self.end = 0
        self.crc: int | None = None
        self.seq = -1
        self.blank = 0
        """Blank lines passed over."""
        self.newer: int | None = None
        """A format version above ours, where one was met."""
        self._found: list[Damage] = []
        self._accepted: set[tuple[int, int]] = set()
        self._gap = True
        """Whether the line before the next one is unknown, so that its `prev` proves nothing."""

    def over(self, items: Iterable[Line | Damage]) -> Iterator[tuple[Line, list[Entry]]]:
        """The usable lines with their entries."""
        position: int | None = None
        for item in items:
            start, end = (item.start, item.end) if isinstance(item, Damage) else (item.offset, item.end)
            self.blank += max(0, start - position) if position is not None else 0
            position = end
            if isinstance(item, Damage):
                self._lost(item)
                continue
            entries = self._usable(item)
            self.end, self.crc, self._gap = item.end, item.crc, False
            if entries:
                self.seq = entries[-1].seq
                self._accept(entries)
                yield item, entries

    def finish(self, size: int) -> None:
        """The file ends here: blank lines at its end are no torn tail."""
        if not self._gap:
            self.blank += size - self.end
            self.end = size

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Damage before the last sealed line that nobody agreed to, in order."""
        known = (found for found in self._found if found.start < self.end)
        return tuple(found for found in known if (found.start, found.end) not in self._accepted)

    def _lost(self, damage: Damage) -> None:
        if self._gap and self._found and self._found[-1].end + 1 >= damage.start:
            damage = Damage(self._found.pop().start, damage.end, damage.problem)
        self._found.append(damage)
        self._gap = True

    def _usable(self, line: Line) -> list[Entry]:
        """The line's entries; none where they must not be loaded."""
        if line.version != VERSION:
            self.newer = line.version
            self._found.append(Damage(line.offset, line.end, f"written by format version {line.version}"))
            return []
        try:
            entries, problems = line.entries()
        except ValueError as error:
            self._found.append(Damage(line.offset, line.end, f"unreadable events: {error}"))
            return []
        before = self.seq
        for entry in entries:
            if entry.seq <= before:
                self._found.append(Damage(line.offset, line.end, f"repeats events from {entries[0].seq}"))
                return []
            before = entry.seq
        if not self._gap and line.prev != self.crc:
            self._found.append(Damage(line.offset, line.offset, "lines before this one are missing"))
        self._found += [Damage(line.offset, line.end, problem) for problem in problems]
        return entries

    def _accept(self, entries: list[Entry]) -> None:
        for entry in entries:
            if isinstance(entry.event, DamageAccepted):
                self._accepted.update(entry.event.ranges)


@dataclass(frozen=True, slots=True)
class Header:
    """Who a log belongs to, from its first line. `at` is when it was created, UTC milliseconds."""

    created: SessionCreated
    at: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a log's bytes say. Loading started at the line at `ckpt`: the newest valid checkpoint, or 0, the header.

    `first_seq` is that line's first event.
    """

    header: Header | None
    state: State
    ckpt: int
    first_seq: int
    walk: Walk
    size: int


def load(files: Files, handle: int) -> Loaded:
    """Load a log. Reads header, newest checkpoint and tail; everything only where the checkpoint is not valid."""
    size = files.size(handle)
    header, newest = header_of(first_line(files, handle, size)), last_line(files, handle, size)
    start = 0
    if header is not None and newest is not None:
        start = newest.offset if newest.has_checkpoint else newest.ckpt
    loaded = _load_from(files, handle, size, start)
    if start and loaded.ckpt < start:
        # Not valid: the one before it, which only a full walk is sure to find.
        loaded = _load_from(files, handle, size, 0)
    return loaded if header is None else replace(loaded, header=header, state=_identified(loaded.state, header))


def load_before(files: Files, handle: int, end: int, ckpt: int, seq: int) -> State:
    """The state just before an event, from the newest checkpoint before it: each line names the one before.

    `ckpt` is the offset of the newest checkpoint of all. The header's name is not put over it.
    """
    while ckpt:
        line = next(iter(read_lines(files, handle, ckpt, end)), None)
        if isinstance(line, Line) and line.offset == ckpt and line.first_seq < seq:
            break
        ckpt = line.ckpt if isinstance(line, Line) and line.ckpt < ckpt else 0
    loaded = _load_from(files, handle, end, ckpt, seq)
    return (loaded if loaded.ckpt >= ckpt else _load_from(files, handle, end, 0, seq)).state


def survey(items: Iterable[Line | Damage]) -> Walk:
    """Walk over lines and load nothing: only what is wrong with them."""
    walk = Walk()
    for _ in walk.over(items):
        pass
    return walk


def header_of(line: Line | None) -> Header | None:
    """The identity that a header line gives; None when it isn't one of this version."""
    if line is None or line.version != VERSION:
        return None
    try:
        event = line.entries()[0][0].event
    except ValueError:
        return None
    return Header(event, line.at) if isinstance(event, SessionCreated) else None


def restore(entries: list[Entry]) -> State | None:
    """The state after a line, from its newest checkpoint alone; None when it holds no valid one."""
    for index in range(len(entries) - 1, -1, -1):
        if isinstance(entries[index].event, CheckpointCommitted):
            state = resume(entries[index])
            if state.facts.epoch == entries[index].seq:
                return fold(entries[index + 1 :], state)
    return None


def _load_from(files: Files, handle: int, size: int, start: int, before: int | None = None) -> Loaded:
    """Load from a line on: everything, or what stands before a seq."""
    walk, state, ckpt, first_seq = Walk(), State(), 0, 0
    for line, entries in walk.over(read_lines(files, handle, start, size)):
        wanted = entries if before is None else [entry for entry in entries if entry.seq < before]
        if not wanted:
            break
        restored = restore(wanted) if line.has_checkpoint else None
        if restored is not None:
            state, ckpt, first_seq = restored, line.offset, wanted[0].seq
        else:
            state = fold(wanted, state)
    walk.finish(size)
    return Loaded(None, state, ckpt, first_seq, walk, size)


def _identified(state: State, header: Header) -> State:
    """The state under the header's name."""
    created = header.created
    facts = replace(
        state.facts,
        session_id=created.session_id,
        root=created.root,
        device=created.device,
        inode=created.inode,
        created_at=header.at,
    )
    return State(facts, state.items)
