"""Searching what was said: the index changes how long it takes, and nothing else."""

from __future__ import annotations

import random
import sqlite3
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.histories import (
    AT,
    ROOT,
    SESSION,
    Writer,
    answer,
    checkpoint,
    fake_disk,
    prompt,
    result,
    said,
    turn_batches,
)

from ullage.core.errors import BadInput
from ullage.core.events import (
    HandoffRecorded,
    PromptEdited,
    PromptRemoved,
    ResultReceived,
    SessionRenamed,
    Stop,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from ullage.core.matching import Hit, parse_query, weights
from ullage.core.messages import Reasoning, Role, Text, ToolCall, ToolResult
from ullage.core.passages import PASSAGE_CHARS, PassageKind
from ullage.storage.blobs import BlobStore
from ullage.storage.files import DiskFiles
from ullage.storage.fork import fork
from ullage.storage.ids import new_session_id, session_path, workspace_key
from ullage.storage.search import Scope, Search, index_path
from ullage.testing.disk import FakeDisk

KEY = workspace_key(ROOT)
OTHER = "/home/ann/other"


def new_writer(home: Path, session_id: str = SESSION, root: str = ROOT) -> Writer:
    return Writer(DiskFiles(), home, session_id, root)


def find(
    home: Path, text: str, *, session: str | None = SESSION, root: str = ROOT, keep: int = 50, files: object = None
) -> list[Hit]:
    search = Search(files or DiskFiles(), home, workspace_key(root))  # type: ignore[arg-type]
    query = parse_query(text)
    sessions = search.sessions() if session is None else [session]
    searched = search.search(Scope(query, sessions, keep, lambda: False))
    assert searched.complete
    worth = weights(query, searched.rankings.values())
    return [hit for ranking in searched.rankings.values() for hit in ranking.best(worth, keep)]


def texts(home: Path, text: str, **options: object) -> list[str]:
    return [hit.passage.text for hit in find(home, text, **options)]  # type: ignore[arg-type]


def index(home: Path, root: str = ROOT) -> Path:
    return index_path(home, workspace_key(root))


def check_found(home: Path, query: str, *expected: str) -> None:
    """The same twice: by the log while the index is made, then by the index; and by the log alone."""
    index(home).unlink(missing_ok=True)
    runs = [find(home, query) for _ in range(2)]
    with sqlite3.connect(index(home), isolation_level=None) as locked:
        locked.execute("BEGIN EXCLUSIVE")
        runs.append(find(home, query))
        locked.execute("ROLLBACK")
    locked.close()
    assert runs[0] == runs[1] == runs[2]
    assert sorted(hit.passage.text for hit in runs[0]) == sorted(expected)


# --- what is found ---


UNICODE = {
    "CJK word": ("数据库的端口是五四三二。", "端口"),
    "CJK letter": ("数据库的端口是五四三二。", "库"),
    "CJK sentence": ("数据库的端口是五四三二。", "端口是什么？"),
    "kana": ("ファイルを読む", "イル"),
    "hangul": ("설정 파일을 읽는다", "파일"),
    "identifier": ("call foo_bar.baz(1) here", "foo_bar.baz"),
    "part of an identifier": ("call foo_bar.baz(1) here", "o_bar.b"),
    "camel case": ("def getUserName(self)", "username"),
    "path": ("see server/ullage/core.py:12", "ullage/core.py"),
    "case": ("The PORT is Five", "port"),
    "sharp s": ("die Straße", "STRASSE"),
    "decomposed": ("cafe\u0301 au lait", "café"),
    "full width": ("ＡＢＣ１２３", "abc123"),
    "emoji": ("a 🍷 glass", "🍷"),
    "operators": ("a -> b", "->"),
    "punctuation around": ("the port, that is", '(port)!"'),
    "quoted": ("an exact phrase here", '"exact phrase"'),
    "NUL": ("one\0two", "one\0two"),
}


@pytest.mark.parametrize(("text", "query"), UNICODE.values(), ids=UNICODE)
def test_any_script_and_any_part_of_a_word(tmp_path: Path, text: str, query: str) -> None:
    writer = new_writer(tmp_path)
    writer.write(prompt("a", text), TurnStarted("a"))
    writer.write(prompt("b", "nothing of it: xyz"), TurnStarted("b"))
    check_found(tmp_path, query, text)


HOSTILE = [
    '"', "'", '""', '" OR "', "a AND", "NOT", "NEAR(a b)", "x*", "^x", "col:x", "(", ")", "-", "- -", ";", "\\", "%",
    "_", "'; DROP TABLE passage; --", "{a b}:c", "\0", "\0\0\0\0", "\ud800abc", "a" * 3_000, "x y " * 900, "\n\t",
    "\u202e",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_any_text_is_a_query(tmp_path: Path, query: str) -> None:
    """Never an error of SQL, and the index is not taken for a damaged one."""
    writer = new_writer(tmp_path)
    writer.turns(2)
    find(tmp_path, "prompt")
    made = index(tmp_path).stat().st_ino
    assert find(tmp_path, query) == find(tmp_path, query)
    assert index(tmp_path).stat().st_ino == made


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_any_text_is_a_query_and_finds_itself(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = tmp_path_factory.mktemp("home")
    writer = new_writer(home)
    writer.write(prompt("a", f"before {text} after"), TurnStarted("a"))
    query = f'"{text}"' if '"' not in text else text
    once, again = find(home, query), find(home, query)
    assert once == again
    assert bool(once) == bool(parse_query(query).terms)


def test_every_kind_that_a_client_sees(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    writer.write(SessionRenamed("needle title"))
    writer.write(prompt("t", "needle prompt"), TurnStarted("t"))
    call = ToolCall("t/c0", "needle_tool", '{"path": "needle.py", "lines": ["\\u7aef\\u53e3"]}')
    parts = (Reasoning("secret needle thought"), Text("needle answer"), call)
    writer.write(*(answer("t", 1),))
    event = answer("t", 2)
    message = said("t", Role.ASSISTANT, "2/a", *parts)
    writer.write(type(event)("t", 2, message, 5, "test", event.usage, "stop", "m"))
    writer.write(result("t", 2, "t/c0", "needle result"))
    found = {hit.passage.kind: hit.passage for hit in find(tmp_path, "needle")}
    assert {kind: passage.text for kind, passage in found.items()} == {
        PassageKind.TITLE: "needle title",
        PassageKind.PROMPT: "needle prompt",
        PassageKind.ANSWER: "needle answer",
        PassageKind.CALL: 'path: needle.py\nlines: ["端口"]',
        PassageKind.RESULT: "needle result",
    }
    assert found[PassageKind.RESULT].label == "needle_tool t/c0.py"
    assert [hit.passage.kind for hit in find(tmp_path, "t/c0.py")] == [PassageKind.RESULT]
    assert texts(tmp_path, "thought") == []


def test_the_full_text_of_a_shortened_result(tmp_path: Path) -> None:
    """Found where it lies, with the place that `read_output` goes on from; without the blob, what the model saw."""
    writer = new_writer(tmp_path)
    blobs = BlobStore(DiskFiles(), tmp_path, KEY)
    full = "line\n" * 3_000 + "the needle\n" + "line\n" * 3_000
    ref = blobs.put(full.encode())
    lost = type(ref)("0" * 64, 10)
    for name, blob in (("c0", ref), ("c1", lost)):
        shown = ToolResult(name, "head [… needles left out …] tail", full=blob)
        writer.write(ResultReceived("t", 1, said("t", Role.TOOL, f"1/{name}", shown), 4, "test"))
    whole, short = (
        find(tmp_path, "needle")[::-1] if find(tmp_path, "needle")[0].passage.full is None else find(tmp_path, "needle")
    )
    assert whole.passage.full == ref and full[whole.passage.offset :].startswith(whole.passage.text)
    assert "the needle" in whole.passage.text and len(whole.passage.text) <= PASSAGE_CHARS
    assert (short.passage.full, short.passage.text) == (None, "head [… needles left out …] tail")


def test_words_at_a_cut_are_whole_in_a_passage(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    for shift in range(6):
        text = "x" * (PASSAGE_CHARS - shift * 3) + f" needle-{shift} " + "y" * 5_000
        writer.write(prompt(f"t{shift}", text), TurnStarted(f"t{shift}"))
    assert [len(find(tmp_path, f"needle-{shift}")) for shift in range(6)] == [1] * 6


def test_rare_words_count_more_and_the_newest_comes_first(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    lines = ["the port is 5433", *(f"the question {number}" for number in range(30)), "the port again"]
    for number, line in enumerate(lines):
        writer.write(prompt(f"t{number}", line), TurnStarted(f"t{number}"))
    assert texts(tmp_path, "what was the port")[:3] == ["the port again", "the port is 5433", "the question 29"]


def test_one_hit_of_each_text(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    writer.write(prompt("long", "needle " * 5_000), TurnStarted("long"))
    writer.write(prompt("short", "a needle"), TurnStarted("short"))
    assert [hit.passage.message_id for hit in find(tmp_path, "needle")] == ["short/u", "long/u"]


# --- what is not found ---


def test_nothing_hidden_is_found(tmp_path: Path) -> None:
    """The canary: handoffs, unknown events, reasoning, and what waits or was taken back before it was said."""
    writer = new_writer(tmp_path)
    writer.turns(1)
    parts = (Reasoning("canary-thought"), Text("plain"))
    event = answer("r", 1)
    writer.write(type(event)("r", 1, said("r", Role.ASSISTANT, "1/a", *parts), 5, "test", event.usage, "stop", "m"))
    writer.write(HandoffRecorded('{"canary-handoff":1}', 7), Unknown("new", False, '{"kind":"new","x":"canary-new"}'))
    writer.write(prompt("w", "canary-waits"), prompt("e", "canary-first"), prompt("g", "canary-gone"))
    writer.write(PromptEdited(said("e", Role.USER, "u", Text("spoken")), 3, "test"), PromptRemoved("g"))
    writer.write(TurnStarted("e"))
    writer.write(checkpoint(writer.state, "canary-ledger"))
    for _ in range(2):
        assert texts(tmp_path, "canary") == []
        assert texts(tmp_path, "spoken") == ["spoken"]
    assert b"canary-handoff" not in index(tmp_path).read_bytes()
    writer.write(TurnStarted("w"))
    assert texts(tmp_path, "canary") == ["canary-waits"]


def test_recall_does_not_find_itself(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    event = answer("t", 1)
    call = ToolCall("t/c0", "recall", '{"query":"needle"}')
    writer.write(type(event)("t", 1, said("t", Role.ASSISTANT, "1/a", call), 5, "x", event.usage, "stop", "m"))
    find(tmp_path, "needle")
    writer.write(result("t", 1, "t/c0", "1. needle"))
    assert texts(tmp_path, "needle") == []


def test_workspaces_stay_apart(tmp_path: Path) -> None:
    """Also a log that was copied into another workspace's folder, or under another session's name."""
    one, two = new_session_id(AT), new_session_id(AT + 1)
    here, there = new_writer(tmp_path, one), new_writer(tmp_path, two, OTHER)
    here.write(prompt("t", "needle here"), TurnStarted("t"))
    there.write(prompt("t", "needle there"), TurnStarted("t"))
    for session in (two, new_session_id(AT + 2)):
        session_path(tmp_path, KEY, session).write_bytes(there.path.read_bytes())
    session_path(tmp_path, KEY, new_session_id(AT + 3)).write_bytes(here.path.read_bytes())
    for _ in range(2):
        assert texts(tmp_path, "needle", session=None) == ["needle here"]
        assert texts(tmp_path, "needle", session=None, root=OTHER) == ["needle there"]
        assert texts(tmp_path, "needle", session=two) == []


def test_a_fork_has_its_own_results(tmp_path: Path) -> None:
    parent = new_writer(tmp_path)
    parent.write(prompt("t", "needle before"), TurnStarted("t"))
    parent.write(prompt("w", "needle waits"))
    child = new_session_id(AT + 1)
    fork(DiskFiles(), parent.log, None, child, AT + 1)
    parent.write(TurnStarted("w"))
    assert sorted(texts(tmp_path, "needle")) == ["needle before", "needle waits"]
    assert texts(tmp_path, "needle", session=child) == ["needle before"]
    assert texts(tmp_path, "needle", session=child) == ["needle before"]


# --- the index ---


def filled(home: Path) -> Writer:
    writer = new_writer(home)
    writer.turns(5)
    writer.write(prompt("n", "the needle"), TurnStarted("n"))
    return writer


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])


def garble(path: Path) -> None:
    rng = random.Random(7)
    data = bytearray(path.read_bytes())
    for _ in range(200):
        at = rng.randrange(len(data))
        data[at] ^= 0xFF
    path.write_bytes(data)


def change_a_text(path: Path) -> None:
    data = path.read_bytes()
    assert b"the needle" in data
    path.write_bytes(data.replace(b"the needle", b"the n\xc3\xa9dle"))


def other_tables(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE passage (x)")
    made.close()


def older_version(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("UPDATE about SET version = '0'")
    made.close()


def bad_memory(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("UPDATE session SET gathered = '[3]'")
    made.close()


HARM: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "rubbish": lambda path: path.write_bytes(b"rubbish" * 1_000),
    "cut": truncate,
    "garbled": garble,
    "a text changed": change_a_text,
    "other tables": other_tables,
    "older": older_version,
    "bad memory": bad_memory,
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_a_lost_or_damaged_index_changes_nothing(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    filled(tmp_path)
    before = find(tmp_path, "needle prompt")
    harm(index(tmp_path))
    assert find(tmp_path, "needle prompt") == before
    with sqlite3.connect(index(tmp_path)) as made:
        assert made.execute("SELECT count(*) FROM passage").fetchone()[0] > 20, "it was made anew"
    made.close()
    assert find(tmp_path, "needle prompt") == before


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    find(tmp_path, "needle")
    made = [index(tmp_path), *index(tmp_path).parent.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    assert stat.S_IMODE(index(tmp_path).parent.stat().st_mode) == 0o700


def test_a_busy_index_is_done_without(tmp_path: Path) -> None:
    """Another search, in this process or in another, holds the lock."""
    filled(tmp_path)
    before = find(tmp_path, "needle prompt")
    index(tmp_path).write_bytes(b"whoever has the lock may be writing this")
    files = DiskFiles()
    lock = files.open_append(index(tmp_path).with_suffix(".lock"))
    assert files.flock(lock)
    assert find(tmp_path, "needle prompt") == before
    assert index(tmp_path).read_bytes().startswith(b"whoever")
    files.close(lock)


def test_no_index_can_be_made(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    (tmp_path / "search").write_text("a file in its place")
    assert texts(tmp_path, "needle") == ["the needle"]
    disk = FakeDisk(tmp_path)
    disk.put(writer.path, writer.path.read_bytes())
    assert texts(tmp_path, "needle", files=disk) == ["the needle"]


def test_without_trigrams_the_logs_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SQLite that is too old, or without FTS5."""
    monkeypatch.setattr("ullage.storage.trigrams._TABLES", ("CREATE VIRTUAL TABLE trigrams USING fts99 (x)",))
    filled(tmp_path)
    assert texts(tmp_path, "needle") == ["the needle"]


@settings(max_examples=20, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 9)), min_size=1, max_size=7))
def test_an_index_that_grew_equals_one_made_anew(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool, int]]
) -> None:
    """Whatever was said, taken back and redone between two searches, in batches of any cut."""
    home = tmp_path_factory.mktemp("home")
    writer = new_writer(home)
    queries = ("prompt", "finished", "edit", "ne", "port 3 prompt 4")
    pending: list[list[object]] = []
    for number, (what, searches, size) in enumerate(steps):
        if what > 3:
            go_back(writer, size if what == 4 else None)
            what = 0
        pending += turn_batches(f"t{number}", f"prompt {number} " + "ne" * size, size)
        for batch in pending[: what * 2 + 1]:
            writer.write(*batch)  # type: ignore[arg-type]
        pending = pending[what * 2 + 1 :]
        if searches:
            find(home, "x")
    grown = [find(home, query) for query in queries]
    rows = dump(home)
    index(home).unlink()
    assert [find(home, query) for query in queries] == grown
    assert dump(home) == rows


def go_back(writer: Writer, number: int | None) -> None:
    """To before some turn, or redo, where that is possible."""
    turns = [turn for turn, _ in writer.state.facts.ended_turns]
    possible = writer.state.facts.open_turn is None and (turns if number is not None else writer.redoable)
    if possible:
        with suppress(BadInput):
            writer.rewind(None if number is None else turns[number % len(turns)])


def test_what_was_taken_back_is_not_found_until_it_is_redone(tmp_path: Path) -> None:
    """Whether the index had it before, has it since, or is not there; a title stays."""
    writer = new_writer(tmp_path)
    writer.turns(1)
    waits = prompt("t1", "needle queued early")
    writer.write(waits, SessionRenamed("needle title"))
    writer.turns(1, first=2)
    writer.write(TurnStarted("t1"), answer("t1", 1, "needle answered"), TurnEnded("t1", Stop.DONE))
    said = ["needle answered", "needle queued early", "needle title"]
    assert sorted(texts(tmp_path, "needle")) == said
    for indexed in (True, False):
        writer.rewind("t1")
        for _ in range(2):
            assert texts(tmp_path, "needle") == ["needle title"]
        writer.rewind(None)
        if not indexed:
            index(tmp_path).unlink()
        for _ in range(2):
            assert sorted(texts(tmp_path, "needle")) == said


def dump(home: Path) -> list[list[tuple[object, ...]]]:
    """Everything that an index says, but for the numbers of its rows."""
    with sqlite3.connect(index(home)) as made:
        columns = "session, seq, at, message, kind, part, label, offset, text, sha256, size, crc"
        rows = [made.execute(f"SELECT {columns} FROM passage ORDER BY id").fetchall()]
        rows.append(made.execute("SELECT * FROM session ORDER BY id").fetchall())
        made.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', 'trigrams', 'row')")
        rows.append(made.execute("SELECT term, doc FROM temp.words").fetchall())
    made.close()
    return rows


def test_ten_thousand_messages_in_parts(tmp_path: Path) -> None:
    """A search puts a part of a long log into the index, searches the rest as it is, and finds the same each time."""
    writer = new_writer(tmp_path)
    for start in range(0, 10_000, 500):
        writer.write(*(answer(f"t{number}", 1, f"message {number} says ok") for number in range(start, start + 500)))
    sizes = []
    for _ in range(5):
        assert texts(tmp_path, '"message 77 "') == ["message 77 says ok"]
        assert texts(tmp_path, '"message 9977 "') == ["message 9977 says ok"]
        sizes.append(len(dump(tmp_path)[0]))
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1] == 10_000


# --- logs that change ---


def test_damage_is_stepped_over(tmp_path: Path) -> None:
    """What is readable on both sides is found; nothing raises."""
    writer = new_writer(tmp_path)
    for number in range(6):
        writer.write(prompt(f"t{number}", f"needle {number}"), TurnStarted(f"t{number}"))
    whole = writer.path.read_bytes()
    writer.path.write_bytes(whole.replace(b"needle 3", b"needle \xff"))
    for _ in range(2):
        assert sorted(texts(tmp_path, "needle")) == [f"needle {number}" for number in (0, 1, 2, 4, 5)]
    writer.path.write_bytes(whole[:-40])
    assert sorted(texts(tmp_path, "needle")) == [f"needle {number}" for number in range(5)]
    writer.path.write_bytes(b"\0" * 300 + whole[300:])
    assert texts(tmp_path, "needle") == [], "nobody knows whose it is"


def test_another_log_under_the_same_name(tmp_path: Path) -> None:
    """Put back from a backup, say: the index forgets what is in it no more."""
    writer = new_writer(tmp_path)
    writer.write(prompt("t0", "needle 0"), TurnStarted("t0"))
    backup = writer.path.read_bytes()
    writer.write(prompt("t1", "needle 1"), TurnStarted("t1"))
    assert sorted(texts(tmp_path, "needle")) == ["needle 0", "needle 1"]
    writer.path.write_bytes(backup)
    assert texts(tmp_path, "needle") == ["needle 0"]
    assert texts(tmp_path, "needle") == ["needle 0"]
    other = new_writer(tmp_path / "elsewhere")
    other.write(prompt("t0", "needle X"), TurnStarted("t0"))
    other.write(prompt("t1", "needle Y"), TurnStarted("t1"))
    writer.path.write_bytes(other.path.read_bytes())
    assert sorted(texts(tmp_path, "needle")) == ["needle X", "needle Y"], "lines of the same length, at the same places"


def test_a_removed_session_leaves_the_index(tmp_path: Path) -> None:
    one, two = new_writer(tmp_path), new_writer(tmp_path, new_session_id(AT))
    one.write(prompt("t", "needle one"), TurnStarted("t"))
    two.write(prompt("t", "other two"), TurnStarted("t"))
    find(tmp_path, "needle", session=None)
    one.path.unlink()
    assert texts(tmp_path, "needle", session=None) == []
    rows = dump(tmp_path)
    index(tmp_path).unlink()
    find(tmp_path, "needle", session=None)
    assert rows == dump(tmp_path)


def test_time_is_up(tmp_path: Path) -> None:
    """What was found so far is given, and that it is not all."""
    filled(tmp_path)
    search = Search(DiskFiles(), tmp_path, KEY)
    for _ in range(2):
        searched = search.search(Scope(parse_query("prompt"), [SESSION], 5, lambda: True))
        assert not searched.complete
        assert find(tmp_path, "needle")


def test_what_is_not_durable_is_not_shown(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    last = writer.log.next_seq - 1
    for limit, expected in ((last, 1), (last - 2, 0)):
        scope = Scope(parse_query("needle"), [SESSION], 5, lambda: False, lambda session, seq, most=limit: seq <= most)
        ranking = Search(DiskFiles(), tmp_path, KEY).search(scope).rankings[SESSION]
        assert len(ranking.best((1.0,), 5)) == expected


def test_nothing_there(tmp_path: Path) -> None:
    assert find(tmp_path, "needle", session=None) == []
    assert Search(fake_disk(), Path("/home/ullage"), KEY).sessions() == []
    missing = Search(DiskFiles(), tmp_path, KEY).search(Scope(parse_query("x"), [SESSION], 5, lambda: False))
    assert missing.rankings == {}
