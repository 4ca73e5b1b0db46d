"""R1 and R2: whatever happens to a log's bytes, no event is lost in silence and no traceback comes out."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import pytest
from tests.storage.histories import AT, HOME, SESSION, Writer, disk_with, fake_disk, place, prompt, result, small_log

from ullage.core.errors import SessionUnavailable
from ullage.core.events import Entry, Event, LogRepaired, SessionRenamed
from ullage.core.messages import clean_text
from ullage.storage.files import DiskFiles
from ullage.storage.lines import seal
from ullage.storage.log import SessionLog
from ullage.testing.disk import FakeDisk


def loaded(content: bytes) -> list[Entry]:
    return list(SessionLog.open_readonly(disk_with(content), place()).log.entries())


# --- R1: cut everywhere ---


def log_to_cut() -> bytes:
    """200 events, a checkpoint near the end as in any session that is used for long, then three records of 7 KB."""
    disk = fake_disk()
    writer = Writer(disk)
    for number in range(190):
        writer.write(SessionRenamed(f"title {number}"))
    writer.turns(1)
    writer.compact()
    for number in range(3):
        writer.write(prompt(f"big{number}", f"{number}" * 7000))
    return disk.content(writer.path)


CUT = log_to_cut()
ENDS = list(accumulate(len(line) for line in CUT.splitlines(keepends=True)))


def check_cut(size: int) -> None:
    """Cut the log to `size` bytes, open it, append one event, open it again."""
    disk = disk_with(CUT[:size])
    whole = bisect_right(ENDS, size)
    opened = SessionLog.open(disk, place(), AT + 9)
    torn = size - ENDS[whole - 1]
    assert (opened.repaired is not None) == (torn > 0)
    if torn:
        assert disk.content(place().with_name(f"{SESSION}.tail-{AT + 9}")) == CUT[ENDS[whole - 1] : size]
    entries = opened.log.append([SessionRenamed("new")], AT + 10)
    opened.log.sync()
    opened.log.close()
    again = SessionLog.open(disk, place(), AT + 11)
    assert again.damage == ()
    assert again.repaired is None
    assert again.state.facts.title == "new"
    assert again.state.facts.last_seq == entries[0].seq
    assert disk.content(place())[: ENDS[whole - 1]] == CUT[: ENDS[whole - 1]]
    assert entries[0].seq == opened.state.facts.last_seq + 1


def test_cut_at_every_byte_of_the_last_records() -> None:
    """T111, R1: more than 20,000 cuts; the longest whole prefix and the new event, every time."""
    cuts = range(ENDS[-4] + 1, ENDS[-1])
    assert len(cuts) > 20_000
    for size in cuts:
        check_cut(size)


def test_cut_at_every_block_and_line_end() -> None:
    """R1: a kill tears writes at multiples of 4,096 (and hardly elsewhere)."""
    blocks = range(4096, len(CUT), 4096)
    ends = [*ENDS[:2], *ENDS[10::20], *ENDS[-9:-1]]
    for size in {*blocks, *ends, *(end - 1 for end in ends[1:]), *(end + 1 for end in ends)}:
        check_cut(size)


def test_cut_at_every_byte_of_a_rewind() -> None:
    """R1: half a rewind was never acknowledged, so nothing is taken back; a whole one stands, over a compaction too."""
    disk = fake_disk()
    writer = Writer(disk)
    writer.turns(2)
    writer.compact()
    before, start = writer.state, len(disk.content(writer.path))
    writer.rewind("t1")
    content = disk.content(writer.path)
    for size in range(start + 1, len(content) + 1):
        opened = SessionLog.open(disk_with(content[:size]), place(), AT + 9)
        whole = size == len(content)
        assert list(opened.state.items) == list((writer.state if whole else before).items)
        assert (opened.repaired is None) is whole


def test_cut_in_the_header() -> None:
    """R1: half a header was never acknowledged; the file is left as it is, and opening says why."""
    for size in range(ENDS[0]):
        disk = disk_with(CUT[:size])
        with pytest.raises(SessionUnavailable):
            SessionLog.open(disk, place(), AT)
        assert disk.content(place()) == CUT[:size]


# --- R2: zero and garbage runs ---

PLAIN = small_log(4, size=300)
PLAIN_ENTRIES = loaded(PLAIN)


def check_harm(harmed: bytes) -> None:
    """Open harmed bytes: what is lost is shown, what is whole is there, and after consent it goes on."""
    disk = disk_with(harmed)
    opened = SessionLog.open(disk, place(), AT + 9)
    entries = [e for e in opened.log.entries() if not isinstance(e.event, LogRepaired)]
    known = {entry.seq: entry for entry in PLAIN_ENTRIES}
    assert len({entry.seq for entry in entries}) == len(entries), "nothing is loaded twice"
    assert all(known[entry.seq] == entry for entry in entries), "nothing is made up"
    lost = known.keys() - {entry.seq for entry in entries}
    assert not lost or opened.damage or opened.repaired, "nothing is lost in silence"
    for line, end in zip(PLAIN_LINES, PLAIN_ENDS, strict=True):
        if harmed[end - len(line) : end] == line:
            assert _seqs(line).isdisjoint(lost), "what is whole is loaded"
    if opened.damage:
        assert disk.content(place()) == harmed, "nothing changes before consent"
        assert all(d.start <= d.end <= len(harmed) for d in opened.damage)
        with pytest.raises(SessionUnavailable):
            opened.log.append([SessionRenamed("x")], AT)
        opened.log.accept_damage(AT + 10)
    new = opened.log.append([SessionRenamed("x")], AT + 11)
    opened.log.sync()
    opened.log.close()
    again = SessionLog.open(disk, place(), AT + 12)
    assert again.damage == ()
    assert again.repaired is None
    assert [*again.log.entries()][-1] == new[0]
    assert {e.seq for e in again.log.entries()} >= {e.seq for e in entries}


PLAIN_LINES = PLAIN.splitlines(keepends=True)
PLAIN_ENDS = list(accumulate(map(len, PLAIN_LINES)))


def _seqs(line: bytes) -> set[int]:
    return {entry.seq for entry in PLAIN_ENTRIES if b'{"seq":%d,"kind"' % entry.seq in line}


@pytest.mark.parametrize("seed", range(8))
def test_runs_of_zeros_and_noise(seed: int) -> None:
    """R2: 512 and 4,096 bytes, anywhere behind the header."""
    rng = random.Random(seed)
    for _ in range(50):
        size = rng.choice([1, 7, 512, 4096])
        start = rng.randrange(PLAIN_ENDS[0], len(PLAIN) - 1)
        stop = min(len(PLAIN), start + size)
        noise = bytes(stop - start) if rng.random() < 0.5 else rng.randbytes(stop - start)
        check_harm(PLAIN[:start] + noise + PLAIN[stop:])


def doubled(n: int) -> list[bytes]:
    return [*PLAIN_LINES[: n + 1], *PLAIN_LINES[n:]]


def without_newline(n: int) -> list[bytes]:
    return [*PLAIN_LINES[:n], PLAIN_LINES[n].rstrip(b"\n"), *PLAIN_LINES[n + 1 :]]


def split_by_newline(n: int) -> list[bytes]:
    line = PLAIN_LINES[n]
    return [*PLAIN_LINES[:n], line[:50], b"\n", line[50:], *PLAIN_LINES[n + 1 :]]


def half_then_whole(n: int) -> list[bytes]:
    return [*PLAIN_LINES[:n], PLAIN_LINES[n][:33], *PLAIN_LINES[n:]]


def rubbish_behind(n: int) -> list[bytes]:
    return [*PLAIN_LINES[:n], PLAIN_LINES[n].rstrip(b"\n"), b"\x00junk}\n", *PLAIN_LINES[n + 1 :]]


def removed(n: int) -> list[bytes]:
    return [*PLAIN_LINES[:n], *PLAIN_LINES[n + 1 :]]


def swapped(n: int) -> list[bytes]:
    return [*PLAIN_LINES[: n - 1], PLAIN_LINES[n], PLAIN_LINES[n - 1], *PLAIN_LINES[n + 1 :]]


@pytest.mark.parametrize("shape", [doubled, split_by_newline, half_then_whole, rubbish_behind, removed, swapped])
def test_misplaced_records(shape: object) -> None:
    """R2: a doubled record, one split by a raw newline, a fragment before the whole, rubbish behind; each reported.

    Not the very last one: taking it away leaves no trace, and splitting it is a torn tail.
    """
    for n in range(2, len(PLAIN_LINES) - 1):
        harmed = b"".join(shape(n))  # type: ignore[operator]
        check_harm(harmed)
        assert SessionLog.open_readonly(disk_with(harmed), place()).damage


def test_two_records_on_one_line_lose_nothing() -> None:
    """R2: nothing is missing, so nothing is damaged."""
    for n in range(1, len(PLAIN_LINES) - 1):
        harmed = b"".join(without_newline(n))
        assert loaded(harmed) == PLAIN_ENTRIES
        assert SessionLog.open(disk_with(harmed), place(), AT).damage == ()


def test_any_bytes_at_all_are_opened() -> None:
    """Reading is total: noise, noise with the format's own words, and nothing."""
    rng = random.Random(1)
    words = [b'{"v":1,"at":', b',"crc":12}', b"\n", b'"events":[', b"\x00" * 40, PLAIN_LINES[0], PLAIN_LINES[3][:60]]
    for _ in range(2_000):
        content = b"".join(rng.choice(words) for _ in range(rng.randrange(12)))
        SessionLog.open_readonly(disk_with(content), place())


def test_sealed_nonsense_is_damage() -> None:
    """A seal proves only that the bytes are as they were written."""
    for text in [
        "5",
        "{}",
        '{"seq":-1}',
        '{"seq":true}',
        '{"seq":1}]junk',
        "[" * 100_000,
        '{"seq":' + "9" * 9000 + "}",
    ]:
        line, _ = seal([text], AT, int(PLAIN.rstrip(b"}\n").rsplit(b":", 1)[1]), 0)
        opened = SessionLog.open(disk_with(PLAIN + line), place(), AT)
        assert [d.start for d in opened.damage] == [len(PLAIN)], text[:20]
        assert [*opened.log.entries()] == PLAIN_ENTRIES


# --- R11: text poison ---

POISON = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x00", "\ufeff", "a\nb\r\nc", "x" * 2**20, "😀", '"\\']


@pytest.mark.parametrize("files", ["fake", "real"])
def test_text_poison(files: str, tmp_path: Path) -> None:
    """R11: comes back as it was, and there are as many lines as batches."""
    from tests.storage.histories import Writer, fake_disk

    writer = Writer(fake_disk()) if files == "fake" else Writer(DiskFiles(), tmp_path)
    events: list[Event] = [prompt(f"t{n}", text) for n, text in enumerate(POISON)]
    events += [result("t", 1, "c", clean_text("\ud800 lone")), SessionRenamed("\udfff kept as it is")]
    for event in events:
        writer.log.append([event], AT)
    writer.log.close()
    log = SessionLog.open(writer.files, writer.path, AT).log
    assert [entry.event for entry in log.entries(1)] == events
    home = HOME if files == "fake" else tmp_path
    data = writer.files.content(place(home)) if isinstance(writer.files, FakeDisk) else writer.path.read_bytes()
    assert data.isascii()
    assert data.count(b"\n") == len(events) + 1
