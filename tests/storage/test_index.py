"""The list of sessions: heads and tails only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.storage.histories import AT, HOME, ROOT, Writer, fake_disk, place, prompt
from tests.storage.test_opening import CountingDisk

from ullage.core.events import Parent, SessionRenamed, TurnStarted
from ullage.storage.fork import fork
from ullage.storage.ids import is_session_id, new_session_id, session_path, workspace_key
from ullage.storage.index import SessionSummary, list_sessions
from ullage.testing.disk import FakeDisk

KEY = workspace_key(ROOT)


def listed(disk: FakeDisk) -> list[SessionSummary]:
    return list_sessions(disk, HOME, KEY)


def test_what_a_list_says() -> None:
    disk = fake_disk()
    writer = Writer(disk)
    writer.turns(2)
    writer.write(prompt("next"), TurnStarted("next"))
    (one,) = listed(disk)
    size = len(disk.content(writer.path))
    title, last = writer.state.facts.title, writer.log.next_seq - 1
    assert one == SessionSummary(
        writer.log.header.session_id,
        title,
        AT,
        writer.at,
        last,
        size,
        None,
        False,
        True,  # type: ignore[union-attr]
    )
    assert title == "prompt 0"


@pytest.mark.parametrize("long", [False, True])
def test_a_title_that_was_taken_back_is_listed_no_more(long: bool) -> None:
    """As the session itself has it: none after the rewind, the redone one, or that of the turn after it."""
    disk = CountingDisk(HOME.parent)
    writer = Writer(disk)
    writer.turns(30 if long else 2, size=5_000 if long else 10)
    assert listed(disk)[0].title == "prompt 0"
    for turn, title in (("t0", ""), (None, "prompt 0"), ("t0", "")):
        writer.rewind(turn)
        assert (listed(disk)[0].title, writer.state.facts.title) == (title, title)
    writer.turns(1, first=77)
    assert (listed(disk)[0].title, writer.state.facts.title) == ("prompt 77", "prompt 77")


@pytest.mark.parametrize("long", [False, True])
def test_titles(long: bool) -> None:
    """The newest of what the tail, the checkpoint and the head say."""
    disk = CountingDisk(HOME.parent)
    writer = Writer(disk)
    writer.turns(1)
    assert listed(disk)[0].title == "prompt 0"
    writer.write(SessionRenamed("mine"))
    assert listed(disk)[0].title == "mine"
    writer.turns(30 if long else 1, size=5_000 if long else 10, first=1)
    writer.compact()
    writer.turns(30 if long else 1, size=5_000 if long else 10, first=40)
    disk.bytes_read = 0
    assert listed(disk)[0].title == "mine"
    assert disk.bytes_read <= 64 * 1024


def test_newest_first_and_forks_name_their_parent() -> None:
    disk = fake_disk()
    writer = Writer(disk)
    writer.turns(1)
    child = new_session_id(AT)
    _, last = fork(disk, writer.log, None, child, AT + 500)
    first, second = listed(disk)
    assert (first.session_id, first.parent) == (child, Parent(second.session_id, last))
    assert first.updated_at == AT + 500


def test_what_can_not_be_read_is_listed_as_damaged() -> None:
    """Bugs rows 20 and 23: never hidden."""
    disk = fake_disk()
    writer = Writer(disk)
    writer.turns(2)
    content = disk.content(writer.path)
    disk.put(place(), content[:500] + bytes(100) + content[600:])
    disk.put(place().with_name("other.jsonl"), b"")
    disk.put(place().with_name("notes.txt"), b"")
    assert {(one.session_id, one.damaged) for one in listed(disk)} == {(place().stem, True), ("other", True)}


def test_last_line_longer_than_the_tail() -> None:
    disk = fake_disk()
    writer = Writer(disk)
    writer.write(prompt("big", "x" * 200_000))
    assert (listed(disk)[0].last_seq, listed(disk)[0].damaged) == (1, False)


def test_an_empty_home_has_no_sessions() -> None:
    assert listed(fake_disk()) == []


def test_ids_sort_by_time_and_never_lead_away() -> None:
    ids = [new_session_id(at) for at in (1, 2, AT, AT + 1)]
    assert ids == sorted(ids)
    assert all(is_session_id(one) for one in ids)
    assert not is_session_id("../" + ids[0])
    assert session_path(Path("/h"), KEY, ids[0]).parent == Path("/h/sessions") / KEY
