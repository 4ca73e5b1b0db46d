"""The log: what is appended comes back; what is damaged is shown; nothing is appended where it must not be."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.storage.histories import (
    AT,
    SESSION,
    Writer,
    checkpoint,
    created,
    fake_disk,
    place,
    prompt,
    turn_batches,
)

from ullage.core.errors import ContextFailed, SessionUnavailable, StorageFailed
from ullage.core.events import Entry, LogRepaired
from ullage.storage.log import SessionLog
from ullage.testing.disk import FakeDisk


def reopened(disk: FakeDisk) -> tuple[list[Entry], SessionLog]:
    opened = SessionLog.open(disk, place(), AT + 999)
    return list(opened.log.entries()), opened.log


# --- appending ---


def test_one_batch_is_one_line_and_one_write(tmp_path: Path) -> None:
    """W-C5: a batch is all there or not at all."""
    disk = fake_disk()
    writer = Writer(disk)
    before = len(disk.content(writer.path))
    disk.calls.clear()
    entries = writer.log.append([prompt("a"), prompt("b")], AT + 5)
    added = disk.content(writer.path)[before:]
    assert [call.what for call in disk.calls] == ["write"]
    assert added.count(b"\n") == 1
    assert [(e.seq, e.at) for e in entries] == [(1, AT + 5), (2, AT + 5)]
    assert list(writer.log.entries(1)) == entries


def test_an_empty_batch_writes_nothing() -> None:
    writer = Writer(fake_disk())
    size = writer.log.size
    assert writer.log.append([], AT) == []
    assert writer.log.size == size


def test_only_a_sync_moves_synced_seq() -> None:
    writer = Writer(fake_disk())
    writer.write(prompt("a"))
    assert writer.log.synced_seq == 0
    assert writer.log.sync() == 1 == writer.log.synced_seq


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("version", lambda c: replace(c, version=2)),
        ("revision", lambda c: replace(c, revision=99)),
        ("facts of another moment", lambda c: replace(c, facts=replace(c.facts, last_seq=1))),
    ],
)
def test_a_checkpoint_no_reader_would_restore_is_not_written(what: str, change: object) -> None:
    """W-C1, W-C4: refused before it is written, and the session goes on."""
    writer = Writer(fake_disk())
    writer.turns(1)
    size = writer.log.size
    with pytest.raises(ContextFailed) as refused:
        writer.write(change(checkpoint(writer.state)))  # type: ignore[operator]
    assert refused.value.report.code == "checkpoint_refused"
    assert writer.log.size == size
    writer.turns(1, first=5)


def test_closed_log_refuses() -> None:
    writer = Writer(fake_disk())
    writer.log.close()
    with pytest.raises(SessionUnavailable):
        writer.log.append([prompt("a")], AT)


def test_create_refuses_a_taken_id() -> None:
    """T119."""
    writer = Writer(fake_disk())
    writer.log.close()
    with pytest.raises(SessionUnavailable) as refused:
        SessionLog.create(writer.files, writer.path, created(), AT)
    assert refused.value.report.code == "session_exists"


# --- R8: what happens before the first acknowledgement ---


def test_name_and_folders_are_durable_before_the_first_ack() -> None:
    """R8, W-C9: file, then its folder's names, then each folder's own name in its parent."""
    disk = fake_disk()
    Writer(disk)
    calls = [(call.what, call.name) for call in disk.calls]
    key = place().parent.name
    for step in [("fsync_dir", "home"), ("fsync_dir", "ullage"), ("fsync_dir", "sessions")]:
        assert step in calls
    renamed = calls.index(("rename", f"{SESSION}.jsonl"))
    assert any(call[0] == "fdatasync" for call in calls[:renamed])
    assert ("fsync_dir", key) in calls[renamed:]


def test_a_new_log_survives_a_power_cut_at_once() -> None:
    """R8: nothing that a caller was told is lost, though nothing but synced state is left."""
    disk = fake_disk()
    writer = Writer(disk)
    writer.turns(1)
    writer.log.sync()
    told = list(writer.log.entries())
    writer.write(prompt("unsynced"))
    for choose in (lambda n: 0, lambda n: n):
        entries, _ = reopened(disk.lose_power(choose))
        assert entries[: len(told)] == told


@pytest.mark.parametrize("seed", range(300))
def test_power_cut_at_any_moment(seed: int) -> None:
    """R4 in small: any prefix of what was not synced, torn at sectors; a state as of some whole batch is left."""
    rng = random.Random(seed)
    disk, durable, lines = fake_disk(), -1, [0]
    writer = Writer(disk)
    durable = writer.log.synced_seq
    for batch in turn_batches("a", size=3000)[: rng.randrange(7)]:
        writer.write(*batch)
        lines.append(writer.log.next_seq - 1)
        if rng.random() < 0.4:
            durable = writer.log.sync()
    written = list(writer.log.entries())
    after = disk.lose_power(lambda n: rng.randint(0, n))
    entries, log = reopened(after)
    known = [entry for entry in entries if not isinstance(entry.event, LogRepaired)]
    assert known == written[: len(known)]
    assert known[-1].seq in lines
    assert known[-1].seq >= durable
    log.append([prompt("next")], AT)


# --- R5: every call fails once ---


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, None])
def test_fail_the_nth_call(error: int | None) -> None:
    """R5: never an ack for what is not on disk, whichever call fails; the log can be opened again."""
    nth = 0
    while True:
        nth += 1
        disk = fake_disk()
        disk.fail(nth, error)
        acked = _work_until_failure(disk)
        if not disk.has_failed:
            break
        left = disk.lose_power(lambda n: 0)
        if acked < 0:
            continue
        entries, log = reopened(left)
        assert entries[-1].seq >= acked
        log.append([prompt("again")], AT)
    assert nth > 15


def _work_until_failure(disk: FakeDisk) -> int:
    """The newest seq that a client would have been told of."""
    acked = -1
    try:
        writer = Writer(disk)
        acked = writer.log.synced_seq
        for batch in turn_batches("a"):
            writer.write(*batch)
            acked = writer.log.sync()
        writer.log.close()
        opened = SessionLog.open(disk, place(), AT)
        opened.log.append([prompt("b")], AT)
        acked = opened.log.sync()
    except StorageFailed as failed:
        assert failed.report.hint
    return acked


def test_after_a_failed_sync_nothing_is_acknowledged() -> None:
    """R5, L6: the second sync of the same descriptor would succeed, and be a lie."""
    disk = fake_disk()
    writer = Writer(disk)
    writer.write(prompt("a"))
    disk.fail(1, errno.EIO)
    for _ in range(2):
        with pytest.raises(StorageFailed):
            writer.log.sync()
    with pytest.raises(StorageFailed):
        writer.log.append([prompt("b")], AT)
    assert writer.log.synced_seq == 0
    assert writer.log.read_only


def test_a_short_write_is_completed_and_a_failed_one_is_cut() -> None:
    disk = fake_disk()
    writer = Writer(disk)
    disk.fail(1, None)
    writer.write(prompt("a"))
    size = len(disk.content(writer.path))
    disk.fail(2, errno.ENOSPC)
    disk.write = _short_once(disk)  # type: ignore[method-assign]
    with pytest.raises(StorageFailed):
        writer.write(prompt("b"))
    assert len(disk.content(writer.path)) == size
    with pytest.raises(StorageFailed):
        writer.write(prompt("c"))


def _short_once(disk: FakeDisk) -> object:
    """A write that takes three bytes, then is itself again."""
    original = disk.write

    def write(handle: int, data: bytes) -> int:
        disk.write = original  # type: ignore[method-assign]
        return original(handle, data[:3])

    return write


def test_what_a_killed_process_left_is_durable_once_it_is_opened() -> None:
    """A kill leaves written lines that were never synced; whoever opens the log tells clients of them."""
    disk = fake_disk()
    writer = Writer(disk)
    writer.write(prompt("a"))
    disk.calls.clear()
    writer.log.close()
    opened = SessionLog.open(disk, place(), AT)
    assert opened.log.synced_seq == 1
    assert SessionLog.open_readonly(disk.lose_power(lambda n: 0), place()).log.next_seq == 2
    assert ("fsync_dir", place().parent.name) in [(call.what, call.name) for call in disk.calls]
