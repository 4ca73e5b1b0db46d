"""The full-text index of one workspace, in SQLite: each session's passages, and which trigrams stand in them.

It only says where to look: a candidate is compared with the query once more, and whatever can't be asked of the index
is answered without it. So it may be lost, old or locked at any time. Not through the file port: SQLite opens its own
files, and nothing here must survive a power cut.

Rule: one connection at a time, in all processes. Whoever opens an index holds the lock beside it, so that a damaged
one can be removed while nobody else has it open.
"""

from __future__ import annotations

import os
import sqlite3
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ullage.core.matching import Query
from ullage.core.messages import BlobRef
from ullage.core.passages import OVERLAP_CHARS, PASSAGE_CHARS, Passage, PassageKind

_VERSION = f"1 {unicodedata.unidata_version} {PASSAGE_CHARS} {OVERLAP_CHARS}"
"""What passages and folding rest on; an index of another version is made anew."""
_TRIGRAM = 3
_MOST_TRIGRAMS = 32
"""Trigrams of a term that candidates must have: with fewer there are only more candidates."""
_HASH_BYTES = 16 * 1024 * 1024
"""What FTS5 gathers in memory before it writes: with its own 1 MiB, building takes half as long again."""

_TABLES = (
    "CREATE TABLE about (version TEXT)",
    "CREATE TABLE session (id TEXT PRIMARY KEY, offset INTEGER, crc INTEGER, gathered TEXT)",
    "CREATE TABLE passage (id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, seq INTEGER, at INTEGER, message TEXT,"
    " kind TEXT, part TEXT, label TEXT, offset INTEGER, text TEXT, sha256 TEXT, size INTEGER, crc INTEGER)",
    "CREATE INDEX passage_session ON passage (session)",
    "CREATE VIRTUAL TABLE trigrams USING fts5 (folded, content='', detail=none, columnsize=0,"
    " tokenize='trigram case_sensitive 1')",
)
_PASSAGE = "seq, at, message, kind, part, label, offset, text, sha256, size, crc"
_KEEP = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR")
"""Errors that say nothing against the file's content."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a session's log was read: its last line's offset and crc, and what the gatherer remembers."""

    offset: int
    crc: int
    gathered: str


class Unusable(Exception):
    """The index can't be used this time; when it was damaged, it is gone now."""


@contextmanager
def opened(path: Path) -> Iterator[Trigrams]:
    """The index at `path`, made where there is none. What was written counts when the block ends without error.

    Raises:
        Unusable: it is damaged, busy, or can't be made here; the caller holds the lock.
    """
    try:
        with closing(_connect(path)) as connection, connection:
            yield Trigrams(connection)
    except (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError) as error:
        # Whatever a damaged content makes of us; a fault of our own shows again without the index.
        if not getattr(error, "sqlite_errorname", "").startswith(_KEEP):
            _remove(path)
        raise Unusable from error


def _connect(path: Path) -> sqlite3.Connection:
    # SQLite would make it readable for all; its journal takes the same mode.
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=0, isolation_level="IMMEDIATE")
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for table in _TABLES:
                connection.execute(table)
            connection.execute("INSERT INTO about VALUES (?)", (_VERSION,))
            connection.execute("INSERT INTO trigrams (trigrams, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))
    if connection.execute("SELECT version FROM about").fetchall() != [(_VERSION,)]:
        raise sqlite3.DatabaseError("another version")


def _remove(path: Path) -> None:
    for name in (path, path.with_name(path.name + "-journal")):
        with suppress(OSError):
            name.unlink()


class Trigrams:
    """An open index."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def sessions(self) -> set[str]:
        return {session for (session,) in self._connection.execute("SELECT id FROM session")}

    def mark(self, session: str) -> Mark | None:
        """How far a session was read; None when it was not."""
        rows = self._connection.execute("SELECT offset, crc, gathered FROM session WHERE id = ?", (session,))
        row = rows.fetchone()
        return None if row is None else Mark(*row)

    def set_mark(self, session: str, mark: Mark) -> None:
        row = (session, mark.offset, mark.crc, mark.gathered)
        self._connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)", row)

    def add(self, session: str, passage: Passage, folded: str) -> None:
        full = passage.full or BlobRef("", 0)
        cursor = self._connection.execute(
            f"INSERT INTO passage (session, {_PASSAGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session,
                passage.seq,
                passage.at,
                passage.message_id,
                str(passage.kind),
                passage.part,
                passage.label,
                passage.offset,
                passage.text,
                full.sha256,
                full.size,
                zlib.crc32(folded.encode()),
            ),
        )
        self._connection.execute("INSERT INTO trigrams (rowid, folded) VALUES (?, ?)", (cursor.lastrowid, folded))

    def remove(self, folded: Iterable[tuple[int, str]]) -> None:
        """Take passages out, given by their ids and texts as `passages` gives them."""
        for row_id, text in folded:
            self._connection.execute(
                "INSERT INTO trigrams (trigrams, rowid, folded) VALUES ('delete', ?, ?)", (row_id, text)
            )
            self._connection.execute("DELETE FROM passage WHERE id = ?", (row_id,))

    def forget(self, session: str) -> None:
        """How far a session was read is not known any more."""
        self._connection.execute("DELETE FROM session WHERE id = ?", (session,))

    def count(self, session: str) -> int:
        """How many passages a session has."""
        rows = self._connection.execute("SELECT count(*) FROM passage WHERE session = ?", (session,))
        return int(rows.fetchone()[0])

    def passages(self, session: str) -> Iterator[tuple[int, Passage, int]]:
        """All passages of a session in order, each with its id and the crc of its folded text."""
        where = f"SELECT id, {_PASSAGE} FROM passage WHERE session = ? ORDER BY id"
        yield from map(_passage, self._connection.execute(where, (session,)))

    def candidates(self, session: str, query: Query) -> Iterator[tuple[int, Passage, int]]:
        """Passages of a session that may hold a term, in order: all, where a term is too short to have a trigram."""
        match = _match(query)
        if match is None:
            yield from self.passages(session)
            return
        where = (
            f"SELECT id, {_PASSAGE} FROM passage WHERE session = ? AND id IN "
            "(SELECT rowid FROM trigrams WHERE trigrams MATCH ?) ORDER BY id"
        )
        yield from map(_passage, self._connection.execute(where, (session, match)))


def damaged() -> Exception:
    """To be raised where a passage isn't what was put in."""
    return sqlite3.DatabaseError("a passage has changed")


def _passage(row: tuple[int, int, int, str, str, str, str, int, str, str, int, int]) -> tuple[int, Passage, int]:
    row_id, seq, at, message, kind, part, label, offset, text, sha256, size, crc = row
    full = BlobRef(sha256, size) if sha256 else None
    return row_id, Passage(seq, at, message, PassageKind(kind), part, label, offset, text, full), crc


def _match(query: Query) -> str | None:
    """An expression that every passage with one of the terms matches. Only quoted strings, so any text is safe."""
    terms = []
    for term in query.terms:
        if len(term) < _TRIGRAM:
            return None
        starts = range(min(_MOST_TRIGRAMS, len(term) - _TRIGRAM + 1))
        trigrams = ('"' + term[at : at + _TRIGRAM].replace('"', '""') + '"' for at in starts)
        terms.append(f"({' AND '.join(dict.fromkeys(trigrams))})")
    return " OR ".join(terms)
