"""Searching what was said in the sessions of one workspace: through the index, and past its end through the logs.

Invariants:

- The index changes how long a search takes and nothing else: what it can't answer, the logs do.
- Every passage is of a log in this workspace's folder whose header names this workspace and the log's own session.
- Only `client_view` gives what is searched, and of that what no rewind took back.

Imported when something is searched for the first time, since SQLite is not needed before.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ullage.core.events import Entry
from ullage.core.matching import Query, Ranking, searched
from ullage.core.messages import BlobRef
from ullage.core.passages import Gatherer, Passage, PassageKind
from ullage.core.rewinding import TakenBack
from ullage.core.views import Shown, client_view
from ullage.storage.blobs import BlobStore
from ullage.storage.files import DiskFiles, Files, ensure_folder
from ullage.storage.ids import is_session_id, session_path, sessions_folder, workspace_key
from ullage.storage.limits import BOUNDS
from ullage.storage.lines import Line, first_line, read_lines
from ullage.storage.loading import Walk, header_of
from ullage.storage.trigrams import Mark, Trigrams, Unusable, damaged, opened


@dataclass(frozen=True, slots=True)
class Scope:
    """What is searched: `keep` hits a session at least, until `stop` says that time is up.

    `may_show(session, seq)` leaves out what is not durable yet; `in_view` tells what the model sees anyway.
    """

    query: Query
    sessions: Sequence[str]
    keep: int
    stop: Callable[[], bool]
    may_show: Callable[[str, int], bool] = lambda session, seq: True
    in_view: Callable[[Passage], bool] = lambda passage: False


@dataclass(slots=True)
class Searched:
    """Rankings by session. `complete` is False when time was up before everything was looked at."""

    rankings: dict[str, Ranking] = field(default_factory=dict)
    complete: bool = True


def index_path(home: Path, key: str) -> Path:
    """Where a workspace's index lies."""
    return home / "search" / f"{key}.sqlite"


class Search:
    """Searches the sessions of the workspace with that key. Safe in any thread, and beside other processes."""

    def __init__(self, files: Files, home: Path, key: str) -> None:
        self._files, self._home, self._key = files, home, key
        self._blobs = BlobStore(files, home, key)
        self._index = index_path(home, key)

    def sessions(self) -> list[str]:
        """Ids of the sessions there are, oldest first; none where the folder can't be read."""
        try:
            names = self._files.list(sessions_folder(self._home, self._key))
        except OSError:
            return []
        ids = (name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl"))
        return [session for session in ids if is_session_id(session)]

    def search(self, scope: Scope) -> Searched:
        """Look for a query. What can't be read is not found; nothing is raised for it."""
        if not scope.query.terms:
            return Searched()
        # A damaged index is gone after the first try, and made anew by the second.
        for _ in range(2):
            try:
                with self._opened() as index:
                    return self._search(scope, index)
            except Unusable:
                continue
        return self._search(scope, None)

    @contextmanager
    def _opened(self) -> Iterator[Trigrams | None]:
        """The index; None where somebody else has it, or where files are no real ones."""
        lock = self._lock()
        if lock is None:
            yield None
            return
        try:
            with opened(self._index) as index:
                yield index
        finally:
            self._files.close(lock)

    def _lock(self) -> int | None:
        if not isinstance(self._files, DiskFiles):
            return None
        with suppress(OSError):
            if not self._files.exists(self._index.parent):
                ensure_folder(self._files, self._index.parent)
            lock = self._files.open_append(self._index.with_suffix(".lock"), create=True)
            with suppress(OSError):
                if self._files.flock(lock):
                    return lock
            self._files.close(lock)
        return None

    def _search(self, scope: Scope, index: Trigrams | None) -> Searched:
        done, room = Searched(), BOUNDS.indexed_passages
        if index is not None:
            self._forget_lost(index)
        for session in scope.sessions:
            one = _One(scope, Ranking(scope.query, scope.keep), session, index, room)
            log = _Log(self._files, session_path(self._home, self._key, session), session, self._key)
            try:
                with log.opened() as is_ours:
                    done.complete = (not is_ours or self._search_log(one, log)) and done.complete
            except OSError:
                done.complete = False
            room = one.room
            if one.ranking.seen:
                done.rankings[session] = one.ranking
        return done

    def _forget_lost(self, index: Trigrams) -> None:
        """Sessions whose log is gone leave the index too."""
        for session in index.sessions() - set(self.sessions()):
            _forget(index, session)

    def _search_log(self, one: _One, log: _Log) -> bool:
        """Search what the index has of a log, then the rest; whether all of it was looked at."""
        mark, taken = one.start(log)
        gatherer = Gatherer(self._full)
        if mark is not None:
            gatherer.restore(mark.gathered)
            if not one.search_index(taken):
                return False
        return one.search_lines(log.lines(mark), gatherer, taken)

    def _full(self, ref: BlobRef) -> str | None:
        content = self._blobs.get(ref)
        return None if content is None else content.decode("utf-8", "replace")


@dataclass(slots=True)
class _One:
    """The search of one session. `room`: passages that may still be put into the index this time."""

    scope: Scope
    ranking: Ranking
    session: str
    index: Trigrams | None
    room: int

    def mark(self, log: _Log) -> Mark | None:
        """How far the index knows this log; it forgets another one of that name."""
        mark = None if self.index is None else self.index.mark(self.session)
        if self.index is not None and mark is not None and not log.holds(mark):
            _forget(self.index, self.session)
            return None
        return mark

    def start(self, log: _Log) -> tuple[Mark | None, TakenBack]:
        """From where on the log itself is searched, and what of it rewinds took back: none of that is found."""
        mark = self.mark(log)
        taken = _taken_back(log.rewinds(mark))
        if mark is None or self.index is None or not taken.reaches_back:
            return mark, taken
        # What the index dropped stands again, and only the log knows it.
        _forget(self.index, self.session)
        return None, _taken_back(log.rewinds(None))

    def search_index(self, taken: TakenBack) -> bool:
        """Whether time allowed to look at all candidates."""
        assert self.index is not None, "a mark came from it"
        self.ranking.seen = self.index.count(self.session)
        if taken:
            self.ranking.seen -= sum(_is_gone(passage, taken) for _, passage, _ in self.index.passages(self.session))
        for passage, folded in _whole(self.index.candidates(self.session, self.scope.query)):
            if not _is_gone(passage, taken):
                self._look(passage, folded)
            if self.scope.stop():
                return False
        return True

    def search_lines(self, lines: Iterator[tuple[Line, list[Entry]]], gatherer: Gatherer, taken: TakenBack) -> bool:
        """Search what the index does not have, and put it there while there is room; whether all was looked at."""
        index, last, complete = self.index, None, True
        for line, entries in lines:
            if self.scope.stop():
                complete = False
                break
            if index is not None and self.room <= 0:
                self._note(last, gatherer)
                index = None
            for shown in filter(None, map(client_view, entries)):
                if index is not None and taken.stands(shown.seq):
                    self._drop(index, shown)
                for passage in gatherer.take(shown):
                    self._take(passage, index, _is_gone(passage, taken))
            last = line
        if index is not None:
            self._note(last, gatherer)
        return complete

    def _drop(self, index: Trigrams, rewind: Shown) -> None:
        """What a rewind took back leaves the index when it has come that far, so it is the same however it grew."""
        taken = _taken_back([rewind])
        gone = (passage for passage in index.passages(self.session) if _is_gone(passage[1], taken))
        index.remove([(row_id, searched(passage)) for row_id, passage, _ in gone])

    def _take(self, passage: Passage, index: Trigrams | None, is_gone: bool) -> None:
        folded = searched(passage)
        if not is_gone:
            self.ranking.seen += 1
            self._look(passage, folded)
        if index is not None:
            index.add(self.session, passage, folded)
            self.room -= 1

    def _look(self, passage: Passage, folded: str) -> None:
        if self.scope.may_show(self.session, passage.seq):
            self.ranking.add(passage, folded, self.scope.in_view(passage))

    def _note(self, last: Line | None, gatherer: Gatherer) -> None:
        """All up to that line is in the index."""
        if last is not None and self.index is not None:
            self.index.set_mark(self.session, Mark(last.offset, last.crc, gatherer.dump()))


class _Log:
    """A session's log, read beside whoever writes it."""

    def __init__(self, files: Files, path: Path, session: str, key: str) -> None:
        self._files, self._path, self._key = files, path, key
        self.session = session
        self._handle = self._size = 0

    @contextmanager
    def opened(self) -> Iterator[bool]:
        """Whether it is the log of this session, in this workspace.

        Raises:
            OSError: it can't be read.
        """
        self._handle = self._files.open_read(self._path)
        try:
            self._size = self._files.size(self._handle)
            header = header_of(first_line(self._files, self._handle, self._size))
            yield (
                header is not None
                and header.created.session_id == self.session
                and workspace_key(header.created.root) == self._key
            )
        finally:
            self._files.close(self._handle)

    def holds(self, mark: Mark) -> bool:
        """Whether the line that was read last still stands where it stood: if not, this is another log."""
        line = next(iter(read_lines(self._files, self._handle, mark.offset, self._size)), None)
        return isinstance(line, Line) and (line.offset, line.crc) == (mark.offset, mark.crc)

    def rewinds(self, mark: Mark | None) -> Iterator[Shown]:
        """Rewinds and redos behind the mark. Other lines are not decoded."""
        start = 0 if mark is None else mark.offset
        lines = read_lines(self._files, self._handle, start, self._size)
        held = (line for line in lines if isinstance(line, Line) and line.has_rewind)
        for line, entries in Walk().over(held):
            if mark is None or line.offset > mark.offset:
                yield from filter(None, map(client_view, entries))

    def lines(self, mark: Mark | None) -> Iterator[tuple[Line, list[Entry]]]:
        """Its usable lines with their entries, from behind the mark."""
        start = 0 if mark is None else mark.offset
        for line, entries in Walk().over(read_lines(self._files, self._handle, start, self._size)):
            if mark is None or line.offset > mark.offset:
                yield line, entries


def _whole(found: Iterator[tuple[int, Passage, int]]) -> Iterator[tuple[Passage, str]]:
    """Passages of the index with their folded texts, each compared with what was put in."""
    for _, passage, crc in found:
        folded = searched(passage)
        if zlib.crc32(folded.encode()) != crc:
            raise damaged()
        yield passage, folded


def _forget(index: Trigrams, session: str) -> None:
    index.remove([(row_id, searched(passage)) for row_id, passage, _ in index.passages(session)])
    index.forget(session)


def _taken_back(rewinds: Iterable[Shown]) -> TakenBack:
    taken = TakenBack()
    for shown in rewinds:
        taken.note(shown)
    return taken


def _is_gone(passage: Passage, taken: TakenBack) -> bool:
    """A title stays."""
    return passage.kind is not PassageKind.TITLE and taken.holds_message(passage.seq, passage.message_id)
