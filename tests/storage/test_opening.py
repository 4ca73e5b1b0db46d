"""Opening: the same state as before, from as little as possible; newer versions, lost headers, consent."""

from __future__ import annotations

import json
import random
from pathlib import Path
from zlib import crc32

import pytest
from tests.storage.histories import (
    AT,
    HOME,
    SESSION,
    Writer,
    created,
    disk_with,
    fake_disk,
    place,
    prompt,
    small_log,
    turn_batches,
)

from ullage.core.errors import SessionUnavailable
from ullage.core.events import DamageAccepted, Entry, LogRepaired, SessionRenamed, Unknown
from ullage.core.limits import BOUNDS
from ullage.core.reduce import fold
from ullage.storage.files import DiskFiles
from ullage.storage.lines import seal
from ullage.storage.log import SessionLog
from ullage.testing.disk import FakeDisk


def reopened(disk: FakeDisk) -> tuple[list[Entry], SessionLog]:
    opened = SessionLog.open(disk, place(), AT + 999)
    return list(opened.log.entries()), opened.log


# --- laws ---


@pytest.mark.parametrize(
    ("turns", "size"),
    [(BOUNDS.checkpoint_messages // 5 + 2, 1), (2, BOUNDS.checkpoint_bytes // 2)],
    ids=["many", "long"],
)
def test_a_rewind_may_bring_back_more_than_a_checkpoint_may_hold(turns: int, size: int) -> None:
    """The bounds are a replacement's: what the model saw before, it sees again."""
    disk = fake_disk()
    writer = Writer(disk)
    batches = (turn_batches(f"t{number}", size=size) for number in range(turns))
    writer.write(*(event for turn in batches for batch in turn for event in batch))
    writer.turns(1, first=turns)
    before = fold(entry for entry in writer.log.entries() if entry.seq < writer.state.facts.last_seq - 8)
    assert len(before.items) > BOUNDS.checkpoint_messages or writer.log.size > BOUNDS.checkpoint_bytes
    writer.compact()
    writer.rewind(f"t{turns}")
    assert [item.seq for item in writer.state.items] == [item.seq for item in before.items]
    writer.log.sync()
    writer.log.close()
    opened = SessionLog.open(disk, place(), AT)
    assert opened.state == writer.state and not opened.state.facts.anomalies and opened.damage == ()
    opened.log.close()


@pytest.mark.parametrize("seed", range(60))
def test_opening_gives_what_folding_everything_gives(seed: int) -> None:
    """R14: fold(all) == checkpoint + tail on facts and items, and both are the state before the restart, whatever was
    compacted, taken back and redone."""
    rng = random.Random(seed)
    disk = fake_disk()
    writer = Writer(disk)
    for _ in range(rng.randrange(1, 14)):
        writer.random(rng)
    writer.log.close()
    opened = SessionLog.open(disk, place(), AT)
    entries = list(opened.log.entries())
    assert opened.state == fold(entries) == writer.state
    for seq in range(len(entries) + 1):
        if seq % 5 == seed % 5:
            assert opened.log.state_before(seq) == fold(entries[:seq]), "what a rewind needs"
            assert list(opened.log.entries(seq)) == entries[seq:]
    assert opened.damage == ()
    assert opened.log.verify() == ()


class CountingDisk(FakeDisk):
    """Counts the bytes that are read."""

    bytes_read = 0

    def read(self, handle: int, offset: int, size: int) -> bytes:
        data = super().read(handle, offset, size)
        self.bytes_read += len(data)
        return data


def _bytes_read_on_opening(turns: int) -> tuple[int, int]:
    """Size of a log of so many turns with a checkpoint near its end, and the bytes that opening it reads."""
    disk = CountingDisk(HOME.parent)
    writer = Writer(disk)
    writer.turns(turns, size=100_000)
    writer.compact()
    writer.turns(1, first=turns)
    writer.log.close()
    disk.bytes_read = 0
    SessionLog.open(disk, place(), AT)
    return writer.log.size, disk.bytes_read


def test_opening_reads_header_checkpoint_and_tail_only() -> None:
    """R10 in small, W-C8: what is read doesn't grow with what a checkpoint has put behind."""
    small, read_small = _bytes_read_on_opening(5)
    large, read_large = _bytes_read_on_opening(60)
    assert large > 8 * small
    assert read_large < 2 * read_small < 200_000


def test_entries_from_a_seq_start_at_the_checkpoint() -> None:
    disk = disk_with(small_log(6, compact_after=3))
    log = SessionLog.open(disk, place(), AT).log
    whole = list(log.entries())
    for seq in range(log.next_seq + 1):
        assert list(log.entries(seq)) == [entry for entry in whole if entry.seq >= seq]


# --- the latest valid checkpoint ---


@pytest.mark.parametrize("harm", ["version", "type", "bytes"])
def test_latest_valid_checkpoint_wins(harm: str) -> None:
    """W-C2: a malformed last summary doesn't win over the good one before it; R7: old or new, never neither."""
    disk = fake_disk()
    writer = Writer(disk)
    writer.turns(2)
    writer.compact()
    writer.turns(1, first=2)
    good = writer.state
    writer.compact()
    writer.write(SessionRenamed("later"))
    content = disk.content(place())
    lines = content.splitlines(keepends=True)
    if harm == "bytes":
        lines[-2] = lines[-2].replace(b"what was done", b"what was dome")
    else:
        forged = {"version": (b'"version":1', b'"version":9'), "type": (b'"fence":"fence"', b'"fence":5')}[harm]
        lines[-2:] = _resealed(lines[-2:], *forged)
    opened = SessionLog.open(disk_with(b"".join(lines)), place(), AT)
    assert opened.state.items[0] == good.items[0]
    assert len(opened.state.items) >= len(good.items)
    assert opened.state.facts.title == "later"
    assert opened.state.facts.epoch == good.facts.epoch


def _resealed(lines: list[bytes], old: bytes, new: bytes) -> list[bytes]:
    """Lines as another version's writer had sealed them, with a change in the first."""
    out, crc = [], json.loads(lines[0])["prev"]
    for line in lines:
        record = json.loads(line)
        text = line[line.index(b'"events":[') + 10 : line.rindex(b'],"crc":')].replace(old, new)
        data, crc = seal([text.decode()], record["at"], crc, record["ckpt"])
        out.append(data)
    return out


# --- R13: newer versions ---


def with_raw_event(text: str) -> bytes:
    """A log whose last line holds an event as some other version wrote it."""
    content = small_log(1)
    last = int(content.rstrip(b"}\n").rsplit(b":", 1)[1])
    return content + seal([text], AT, last, 0)[0]


def test_unknown_kinds_are_kept_and_the_file_is_not_rewritten() -> None:
    """R13, L8: five invented kinds; opens, goes on, rewrites nothing."""
    content = with_raw_event(",".join(f'{{"seq":{10 + n},"kind":"new_{n}","x":[1]}}' for n in range(5)))
    disk = disk_with(content)
    entries, log = reopened(disk)
    assert [e.event.kind for e in entries if isinstance(e.event, Unknown)] == [f"new_{n}" for n in range(5)]
    assert log.damage == ()
    log.append([prompt("z")], AT)
    assert disk.content(place()).startswith(content)


def test_unknown_critical_kind_opens_read_only() -> None:
    disk = disk_with(with_raw_event('{"seq":10,"kind":"revoked","critical":true}'))
    opened = SessionLog.open(disk, place(), AT)
    assert opened.log.read_only
    with pytest.raises(SessionUnavailable):
        opened.log.append([prompt("z")], AT)
    assert [call.what for call in disk.calls if call.what in ("write", "truncate")] == ["truncate", "write"]  # lock


def test_a_line_of_a_newer_format_opens_read_only_and_is_not_cut() -> None:
    """L5: an unknown version is never taken for a torn tail."""
    head = b'{"v":2,"at":1,"prev":0,"ckpt":0,"events":[{"seq":10,"new":"shape"}]'
    content = small_log(1) + head + b',"crc":%d}\n' % crc32(head)
    disk = disk_with(content)
    opened = SessionLog.open(disk, place(), AT)
    assert opened.log.read_only
    assert disk.content(place()) == content


def test_wrong_payload_is_damage_with_its_range() -> None:
    """Bugs row 27: the rest works; appending needs consent."""
    disk = disk_with(with_raw_event('{"seq":10,"kind":"turn_started","turn_id":5}'))
    opened = SessionLog.open(disk, place(), AT)
    assert "turn_started could not be read" in opened.damage[0].problem
    assert list(opened.log.entries())[-1].event == Unknown(
        "turn_started", False, '{"seq":10,"kind":"turn_started","turn_id":5}'
    )
    with pytest.raises(SessionUnavailable):
        opened.log.append([prompt("z")], AT)


# --- headers, names, places ---


@pytest.mark.parametrize("content", [b"", b"\n", b"junk\n", b'{"type":"session"}\n', b"\x00" * 5000, b'{"v":1,"at":'])
def test_without_a_header_nothing_is_touched(content: bytes) -> None:
    """L5: never destroy on doubt; what is left can be seen read-only."""
    disk = disk_with(content)
    with pytest.raises(SessionUnavailable) as refused:
        SessionLog.open(disk, place(), AT)
    assert refused.value.report.code == "session_damaged"
    assert SessionLog.open_readonly(disk, place()).log.header is None
    assert disk.content(place()) == content


def test_lost_header_still_shows_the_rest() -> None:
    lines = small_log(2).splitlines(keepends=True)
    opened = SessionLog.open_readonly(disk_with(b"x" * 40 + b"\n" + b"".join(lines[1:])), place())
    assert opened.state.facts.turns == 2
    assert opened.damage[0].start == 0


def test_identity_is_the_headers() -> None:
    """R15: renamed, copied to another folder or restored, a log is who its header says."""
    disk = fake_disk()
    elsewhere = place().with_name("copy of session.jsonl")
    disk.put(elsewhere, small_log(2, compact_after=0))
    opened = SessionLog.open(disk, elsewhere, AT)
    assert opened.state.facts.session_id == SESSION
    assert opened.log.header == created()


def test_unknown_session_leaves_no_lock_behind() -> None:
    """T113."""
    disk = fake_disk()
    with pytest.raises(SessionUnavailable) as refused:
        SessionLog.open(disk, place(), AT)
    assert refused.value.report.code == "session_unknown"
    assert disk.calls == []


def test_read_only_changes_no_byte_and_takes_no_lock(tmp_path: Path) -> None:
    files = DiskFiles()
    writer = Writer(files, tmp_path)
    writer.turns(1)
    with writer.path.open("ab") as file:
        file.write(b'{"v":1,"at":')
    before = writer.path.read_bytes()
    opened = SessionLog.open_readonly(files, writer.path)
    assert opened.state.facts.turns == 1
    with pytest.raises(SessionUnavailable):
        opened.log.append([prompt("z")], AT)
    with pytest.raises(SessionUnavailable):
        opened.log.sync()
    assert writer.path.read_bytes() == before


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    writer = Writer(DiskFiles(), tmp_path)
    assert writer.path.stat().st_mode & 0o777 == 0o600
    assert writer.path.parent.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "sessions").stat().st_mode & 0o777 == 0o700


# --- consent ---


def test_damage_stays_until_accepted_then_stays_in_the_file() -> None:
    """L4: shown with its range, never deleted; a torn tail beside it is cut only with the consent."""
    lines = small_log(3).splitlines(keepends=True)
    lines[4] = b"#" * (len(lines[4]) - 1) + b"\n"
    content = b"".join(lines) + b'{"v":1,"torn'
    disk = disk_with(content)
    opened = SessionLog.open(disk, place(), AT)
    start = sum(map(len, lines[:4]))
    assert [(d.start, d.end) for d in opened.damage] == [(start, start + len(lines[4]) - 1)]
    assert disk.content(place()) == content
    accepted = opened.log.accept_damage(AT + 3)
    assert isinstance(accepted[0].event, LogRepaired)
    assert accepted[1].event == DamageAccepted(((start, start + len(lines[4]) - 1),))
    opened.log.append([prompt("z")], AT)
    assert opened.log.verify() == ()
    opened.log.close()
    assert disk.content(place()).startswith(b"".join(lines))
    assert SessionLog.open(disk, place(), AT).damage == ()


def test_verify_finds_what_opening_did_not_read() -> None:
    """Damage behind a checkpoint is found later, and then stops appending too."""
    lines = small_log(4, compact_after=2).splitlines(keepends=True)
    lines[3] = b"#" * (len(lines[3]) - 1) + b"\n"
    opened = SessionLog.open(disk_with(b"".join(lines)), place(), AT)
    assert opened.damage == ()
    opened.log.append([prompt("before")], AT)
    assert len(opened.log.verify()) == 1
    with pytest.raises(SessionUnavailable):
        opened.log.append([prompt("after")], AT)


def test_missing_lines_are_shown() -> None:
    """A line taken out whole leaves no bad byte; the chain tells."""
    lines = small_log(3).splitlines(keepends=True)
    del lines[4]
    opened = SessionLog.open(disk_with(b"".join(lines)), place(), AT)
    assert [(d.start, d.end) for d in opened.damage] == [(sum(map(len, lines[:4])),) * 2]
