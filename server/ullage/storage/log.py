"""One session's log: appended to, synced, read; never rewritten.

Invariants:

- Nobody hears of an event before the line that holds it is on disk: `synced_seq` only grows after an fdatasync.
- A failed write or sync ends writing for good: the kernel may have dropped what it could not write, and a second
  sync of the same descriptor would call that a success.
- Bytes before a sealed line are never changed. Only what is behind the last sealed line is ever cut, and a copy of it
  is on disk first.
- After damage nothing is appended until a person accepted it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ullage.core.checkpoint import unwritable
from ullage.core.errors import ContextFailed, SessionUnavailable, StorageFailed, UllageError
from ullage.core.events import CheckpointCommitted, DamageAccepted, Entry, Event, LogRepaired, SessionCreated
from ullage.core.reduce import fold
from ullage.core.state import State
from ullage.storage.files import Files, ensure_folder, write_all, write_new
from ullage.storage.lines import Damage, Line, event_text, read_lines, seal
from ullage.storage.loading import Loaded, Walk, load, load_before, survey
from ullage.storage.lock import SessionLock, acquire


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened session. `repaired` tells of a torn tail that was cut; `damage` waits for consent."""

    log: SessionLog
    state: State
    damage: tuple[Damage, ...]
    repaired: LogRepaired | None
    blank_lines: int


class SessionLog:
    """A log and its lock. `append` belongs to one thread; `sync` may run in another at the same time.

    Close it when no sync is running any more.
    """

    def __init__(self, files: Files, path: Path, handle: int, lock: SessionLock | None, loaded: Loaded) -> None:
        self._files = files
        self._handle = handle
        self._lock = lock
        self._syncing = threading.Lock()
        self._refusal: Callable[[], UllageError] | None = None
        self._end = loaded.walk.end
        self._torn = loaded.size - loaded.walk.end
        self._crc = loaded.walk.crc or 0
        self._seq = loaded.walk.seq
        self._ckpt = loaded.ckpt
        self._ckpt_seq = loaded.first_seq
        self.path = path
        self.header = None if loaded.header is None else loaded.header.created
        """Identity; None only in a log that is open read-only because its header can't be read."""
        self.damage = loaded.walk.damage
        """Damage that nobody accepted; while there is some, `append` refuses."""
        self.synced_seq = self._seq
        """Seq of the newest event that a power cut can't take any more."""

    # --- opening ---

    @classmethod
    def create(cls, files: Files, path: Path, created: SessionCreated, at: int, client: str = "") -> SessionLog:
        """A new log with its header line, durable with its name and folders before this returns.

        Raises:
            SessionUnavailable: `session_exists` or `session_busy`.
            StorageFailed: there is no new log.
        """
        try:
            ensure_folder(files, path.parent)
            lock = acquire(files, path, at, client)
        except OSError as error:
            raise _disk_refused(error, path) from error
        try:
            if files.exists(path):
                raise SessionUnavailable("A session of this id exists.", hint="Open it.", code="session_exists")
            write_new(files, path, [seal([event_text(0, created)], at, 0, 0)[0]])
            return cls._open(files, path, lock, at).log
        except BaseException as error:
            lock.release()
            if isinstance(error, OSError):
                raise _disk_refused(error, path) from error
            raise

    @classmethod
    def open(cls, files: Files, path: Path, at: int, client: str = "") -> Opened:
        """Open for writing. Cuts a torn tail (a copy is kept beside it) unless damage waits for consent.

        Raises:
            SessionUnavailable: `session_unknown`, `session_busy`, `session_damaged` (the header), `session_newer`.
            StorageFailed: the disk refused.
        """
        if not files.exists(path):
            raise _unknown()
        try:
            lock = acquire(files, path, at, client)
        except OSError as error:
            raise _disk_refused(error, path) from error
        try:
            return cls._open(files, path, lock, at)
        except BaseException as error:
            lock.release()
            if isinstance(error, OSError):
                raise _disk_refused(error, path) from error
            raise

    @classmethod
    def _open(cls, files: Files, path: Path, lock: SessionLock, at: int) -> Opened:
        handle = files.open_append(path)
        try:
            loaded = load(files, handle)
            if loaded.header is None:
                raise _no_header(loaded.walk)
            log = cls(files, path, handle, lock, loaded)
            log._refusal = _why_read_only(loaded)
            state, repaired = loaded.state, None
            if log._refusal is None:
                # What a killed process wrote is in the log, but maybe not on the disk.
                files.fdatasync(handle)
                files.fsync_dir(path.parent)
                if log._torn and not log.damage:
                    repaired = log._cut_tail(at)
                    state = fold(log._append([repaired], at), state)
                    log.sync()
            return Opened(log, state, log.damage, repaired, loaded.walk.blank)
        except BaseException:
            files.close(handle)
            raise

    @classmethod
    def open_readonly(cls, files: Files, path: Path) -> Opened:
        """Open without lock and without changing a byte: also what is busy, damaged, or without a readable header.

        Raises:
            SessionUnavailable: `session_unknown`.
            StorageFailed: it can't be read.
        """
        try:
            handle = files.open_read(path)
        except FileNotFoundError:
            raise _unknown() from None
        except OSError as error:
            raise _disk_refused(error, path) from error
        try:
            loaded = load(files, handle)
        except OSError as error:
            files.close(handle)
            raise _disk_refused(error, path) from error
        log = cls(files, path, handle, None, loaded)
        log._refusal = _why_read_only(loaded) or _opened_readonly
        return Opened(log, loaded.state, log.damage, None, loaded.walk.blank)

    def close(self) -> None:
        """Let go of file and lock. Nothing is synced here."""
        self._refusal = _closed
        self._files.close(self._handle)
        if self._lock is not None:
            self._lock.release()

    # --- writing ---

    @property
    def next_seq(self) -> int:
        """The seq that the next event gets."""
        return self._seq + 1

    @property
    def size(self) -> int:
        """Bytes up to the last good line."""
        return self._end

    @property
    def read_only(self) -> str | None:
        """Why nothing can be appended, in words; damage that waits for consent is not among it."""
        return None if self._refusal is None else self._refusal().report.message

    def append(self, events: Sequence[Event], at: int) -> list[Entry]:
        """Write the events as one line: after a crash all of them are there or none. `at` is UTC milliseconds.

        They count as said only when `synced_seq` reached them. A checkpoint carries the facts that the state has
        just before it, including the events before it in the same batch.

        Raises:
            StorageFailed: nothing of it counts, and the log is read-only from now on.
            SessionUnavailable: `session_damaged` (accept the damage first) or `session_read_only`.
            ContextFailed: `checkpoint_refused` or `rewind_refused`; nothing was written.
        """
        if self._refusal is not None:
            raise self._refusal()
        if self.damage:
            raise _damaged(self.damage)
        return self._append(events, at)

    def sync(self) -> int:
        """Put everything appended so far on disk; returns the new `synced_seq`. May run in a thread.

        Raises:
            StorageFailed: it is not known what is on disk; the log is read-only from now on.
        """
        with self._syncing:
            if self._refusal is not None:
                raise self._refusal()
            appended = self._seq
            try:
                self._files.fdatasync(self._handle)
            except OSError as error:
                raise self._failed(error) from error
            self.synced_seq = max(self.synced_seq, appended)
            return self.synced_seq

    def accept_damage(self, at: int) -> list[Entry]:
        """A person agrees to go on after the damage, which stays in the file. Durable when this returns.

        Raises:
            StorageFailed: as `append`.
        """
        if self._refusal is not None:
            raise self._refusal()
        if not self.damage:
            return []
        events: list[Event] = [DamageAccepted(tuple((found.start, found.end) for found in self.damage))]
        if self._torn:
            try:
                events.insert(0, self._cut_tail(at))
            except OSError as error:
                raise self._failed(error) from error
        entries = self._append(events, at)
        self.sync()
        self.damage = ()
        return entries

    def _append(self, events: Sequence[Event], at: int) -> list[Entry]:
        entries = [Entry(seq, at, event) for seq, event in enumerate(events, self.next_seq)]
        if not entries:
            return []
        for entry in entries:
            _check_state_in(entry)
        line, crc = seal([event_text(e.seq, e.event) for e in entries], at, self._crc, self._ckpt)
        try:
            write_all(self._files, self._handle, line)
        except OSError as error:
            failure = self._failed(error)
            self._uncount_partial_line()
            raise failure from error
        if any(isinstance(event, CheckpointCommitted) for event in events):
            self._ckpt, self._ckpt_seq = self._end, entries[0].seq
        self._end, self._crc, self._seq = self._end + len(line), crc, entries[-1].seq
        return entries

    def _uncount_partial_line(self) -> None:
        """Cut what a failed write left, if the disk lets us; else the next opening finds a torn tail."""
        try:
            self._files.truncate(self._handle, self._end)
        except OSError:
            pass

    def _cut_tail(self, at: int) -> LogRepaired:
        torn = self._files.read(self._handle, self._end, self._torn)
        kept, number = self.path.with_name(f"{self.path.stem}.tail-{at}"), 1
        while self._files.exists(kept):
            kept, number = self.path.with_name(f"{self.path.stem}.tail-{at}-{number}"), number + 1
        write_new(self._files, kept, [torn])
        self._files.truncate(self._handle, self._end)
        self._files.fdatasync(self._handle)
        self._torn = 0
        return LogRepaired(self._end, len(torn), kept.name)

    def _failed(self, error: OSError) -> UllageError:
        """Note that writing is over, and say why."""
        self._refusal = lambda: _disk_refused(error, self.path)
        return self._refusal()

    # --- reading ---

    def lines(self, start: int = 0) -> Iterator[Line | Damage]:
        """What stands in the file from an offset on, up to the end as it is now. Memory: the longest line.

        Raises:
            StorageFailed: it can't be read.
        """
        try:
            yield from read_lines(self._files, self._handle, start, self._end)
        except OSError as error:
            raise _disk_refused(error, self.path) from error

    def entries(self, from_seq: int = 0) -> Iterator[Entry]:
        """Every readable event from that seq on, in order. Memory: the longest line.

        Starts at the newest checkpoint where that is early enough, else at the beginning.
        """
        start = self._ckpt if self._ckpt and from_seq >= self._ckpt_seq else 0
        for _, entries in Walk().over(self.lines(start)):
            yield from (entry for entry in entries if entry.seq >= from_seq)

    def state_before(self, seq: int) -> State:
        """The state just before an event. Reads from the checkpoint in force there.

        Raises:
            StorageFailed: it can't be read.
        """
        try:
            return load_before(self._files, self._handle, self._end, self._ckpt, seq)
        except OSError as error:
            raise _disk_refused(error, self.path) from error

    def outline(self) -> Iterator[Entry]:
        """The events of the lines that tell where turns begin and what was taken back, and perhaps others."""
        for _, entries in Walk().over(line for line in self.lines() if isinstance(line, Line) and line.is_outline):
            yield from entries

    def verify(self) -> tuple[Damage, ...]:
        """Read and check everything; damage that is found and not accepted stops `append`. May run in a thread."""
        self.damage = survey(self.lines()).damage
        return self.damage


def _check_state_in(entry: Entry) -> None:
    """Refuse a checkpoint that no reader would restore, and whatever would restore another state."""
    problem = unwritable(entry)
    if problem is None:
        return
    if not isinstance(entry.event, CheckpointCommitted):
        raise ContextFailed(f"The rewind was not written: {problem}.", hint="Ask once more.", code="rewind_refused")
    raise ContextFailed(
        f"The checkpoint was not written: {problem}.",
        hint="The session goes on with the context it had. Compact again.",
        code="checkpoint_refused",
    )


def _why_read_only(loaded: Loaded) -> Callable[[], UllageError] | None:
    if loaded.walk.newer is not None:
        return lambda: _newer(f"format version {loaded.walk.newer}")
    if loaded.state.facts.read_only is not None:
        return lambda: _newer(str(loaded.state.facts.read_only))
    return None


def _newer(what: str) -> SessionUnavailable:
    hint = "Update this program to go on, or fork the session."
    return SessionUnavailable(f"This session is read-only: {what}.", hint=hint, code="session_newer")


def _no_header(walk: Walk) -> SessionUnavailable:
    if walk.newer is not None:
        return _newer(f"format version {walk.newer}")
    hint = "Open it read-only to see what is left; nothing was changed."
    return SessionUnavailable("The session's header can't be read.", hint=hint, code="session_damaged")


def _damaged(damage: tuple[Damage, ...]) -> SessionUnavailable:
    ranges = ", ".join(f"{found.start}-{found.end}" for found in damage[:5])
    return SessionUnavailable(
        f"The session's log is damaged at bytes {ranges}{' and more' if damage[5:] else ''}.",
        hint="Accept the damage to go on with what is left, or fork the session.",
        code="session_damaged",
    )


def _unknown() -> SessionUnavailable:
    return SessionUnavailable("There is no such session.", hint="List the sessions.", code="session_unknown")


def _opened_readonly() -> SessionUnavailable:
    hint = "Open it for writing, or fork it."
    return SessionUnavailable("The session was opened read-only.", hint=hint, code="session_read_only")


def _closed() -> SessionUnavailable:
    return SessionUnavailable("The session is closed.", hint="Open it again.", code="session_read_only")


def _disk_refused(error: OSError, path: Path) -> StorageFailed:
    return StorageFailed(
        f"The disk refused the session's log ({os.strerror(error.errno or 0)}).",
        hint="Make room or mend the disk, then open the session again; it is read-only until then.",
        path=str(path),
    )
