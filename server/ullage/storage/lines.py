"""A log's lines: sealing one, and reading any bytes as lines and damage.

One line is one atomic batch: `{"v","at","prev","ckpt","events":[...],"crc"}`, in this order and without spaces. `crc`
is the crc32 of the line's bytes before `,"crc"`; `prev` is the crc of the line before; `ckpt` is the offset of the line
that loading starts at: the checkpoint in force before this line, or 0, the header.

Invariant: reading is total and hides nothing. Every byte between two offsets belongs to a line, to a range of damage,
or is a newline. Bytes are split at `\n` and nowhere else: JSON text is ASCII, so no line separator of Unicode occurs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

import orjson

from ullage.core.events import Entry, Event
from ullage.storage.files import Files
from ullage.storage.limits import BOUNDS
from ullage.storage.records import Malformed, decode_event, decode_known, encode_event

VERSION = 1
"""Version of the format that is written and the only one that is read."""

_HEAD = re.compile(rb'\{"v":(\d{1,9}),"at":(\d{1,15}),"prev":(\d{1,10}),"ckpt":(\d{1,15}),"events":(?=\[)')
_START = re.compile(rb'\{"v":')
_SEAL = re.compile(rb',"crc":(\d{1,10})\}')
_CHECKPOINT = b'"kind":"checkpoint_committed"'
_OUTLINE = re.compile(
    rb'"kind":"(?:prompt_(?:queued|edited)|turn_started|steer_entered|session_re(?:named|wound|done))"|"op":"write"'
)
_REWIND = re.compile(rb'"kind":"session_re(?:wound|done)"')
_FIRST_SEQ = re.compile(rb'\[\{"seq":(\d{1,15}),')
_next_value = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes `[start, end)` that hold no readable line; an empty range says that lines before it are missing."""

    start: int
    end: int
    problem: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line whose seal holds. `raw` is without the newline; `events` start at `raw[body:seal]`."""

    offset: int
    end: int
    """Offset behind its newline, and behind whatever rubbish stands on the same line."""
    raw: bytes
    version: int
    at: int
    prev: int
    ckpt: int
    crc: int
    body: int
    seal: int

    @property
    def has_checkpoint(self) -> bool:
        """Whether it may hold a checkpoint. Quoted text can't look like this: its quotes are escaped."""
        return _CHECKPOINT in self.raw

    @property
    def is_outline(self) -> bool:
        """Whether it may tell where a turn begins, what was taken back, or what was written to files."""
        return _OUTLINE.search(self.raw) is not None

    @property
    def has_rewind(self) -> bool:
        """Whether it may hold a rewind or a redo."""
        return _REWIND.search(self.raw) is not None

    @property
    def first_seq(self) -> int:
        """Seq of its first event; -1 where it holds none that can be read."""
        found = _FIRST_SEQ.match(self.raw, self.body)
        return int(found[1]) if found else -1

    def raw_events(self) -> list[tuple[dict[str, Any], str]]:
        """Each event's JSON object and text, as they were written.

        Raises:
            ValueError: the seal holds, but the content is no list of events.
        """
        text, at = self.raw[self.body : self.seal].decode("ascii"), 1
        found: list[tuple[dict[str, Any], str]] = []
        while True:
            try:
                value, end = _next_value(text, at)
            except RecursionError as error:
                raise ValueError("nested too deep") from error
            if not _is_event(value):
                raise ValueError("no event")
            found.append((value, text[at:end]))
            if text[end:] == "]":
                return found
            if text[end : end + 1] != ",":
                raise ValueError("no list")
            at = end + 1

    def entries(self) -> tuple[list[Entry], list[str]]:
        """The line's entries, and what could not be read of them (kept raw as `Unknown`).

        Raises:
            ValueError: the seal holds, but the content is no list of events.
        """
        try:
            records = orjson.loads(memoryview(self.raw)[self.body : self.seal])
            entries = [Entry(record["seq"], self.at, decode_known(record)) for record in records if _is_event(record)]
            if entries and len(entries) == len(records):
                return entries, []
        except (ValueError, TypeError, Malformed):
            pass  # what is odd about it, the slow way finds out: it has the text of each event
        return self._entries_with_text()

    def _entries_with_text(self) -> tuple[list[Entry], list[str]]:
        entries, problems = [], []
        for record, text in self.raw_events():
            event, problem = decode_event(record, text.__str__)
            entries.append(Entry(record["seq"], self.at, event))
            if problem is not None:
                problems.append(problem)
        return entries, problems


def _is_event(value: object) -> bool:
    return type(value) is dict and type(value.get("seq")) is int and value["seq"] >= 0


def seal(events: Sequence[str], at: int, prev: int, ckpt: int) -> tuple[bytes, int]:
    """A line of events given as JSON texts, with its newline, and its crc."""
    head = f'{{"v":{VERSION},"at":{at},"prev":{prev},"ckpt":{ckpt},"events":[{",".join(events)}]'.encode("ascii")
    crc = crc32(head)
    return b'%b,"crc":%d}\n' % (head, crc), crc


def event_text(seq: int, event: Event) -> str:
    """An event's JSON text, pure ASCII."""
    return json.dumps(encode_event(seq, event), ensure_ascii=True, separators=(",", ":"))


def parse(raw: bytes, offset: int, end: int) -> Line | None:
    """The line that these bytes are, without newline; None when they are none. `end` is where the next one starts."""
    head = _HEAD.match(raw)
    sealed_at = raw.rfind(b',"crc":')
    if head is None or sealed_at < 0:
        return None
    sealed = _SEAL.fullmatch(raw, sealed_at)
    # A view: a checkpoint's line may have a hundred megabytes.
    if sealed is None or crc32(memoryview(raw)[:sealed_at]) != int(sealed[1]):
        return None
    version, at, prev, ckpt = (int(group) for group in head.groups())
    return Line(offset, end, raw, version, at, prev, ckpt, int(sealed[1]), head.end(), sealed_at)


def salvage(raw: bytes, offset: int, end: int) -> Iterator[Line | Damage]:
    """What a bad stretch without newline still holds: whole lines with rubbish before, between or behind them."""
    starts = [found.start() for found in _START.finditer(raw)]
    lost = 0
    for start, stop in pairwise([*starts, len(raw)]):
        sealed = _SEAL.match(raw, max(start, raw.rfind(b',"crc":', start, stop)))
        line = parse(raw[start : sealed.end()], offset + start, end) if sealed else None
        if sealed is None or line is None:
            continue
        if lost < start:
            yield Damage(offset + lost, offset + start, "unreadable bytes")
        yield line
        lost = sealed.end()
    if lost < len(raw):
        yield Damage(offset + lost, offset + len(raw), "unreadable bytes")


def read_lines(files: Files, handle: int, start: int, end: int) -> Iterator[Line | Damage]:
    """Every line and every range of damage in `[start, end)`, in order. Blank lines are passed over."""
    return split_lines(_blocks(files, handle, start, end), start)


def split_lines(blocks: Iterable[bytes], offset: int) -> Iterator[Line | Damage]:
    """The lines and the damage in bytes that come in blocks and start at `offset` of their file.

    A last line without its newline is damage, even when its seal holds: its write never returned.
    """
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
        for raw in whole:
            behind = offset + len(raw) + 1
            if raw:
                line = parse(raw, offset, behind)
                yield from (line,) if line is not None else salvage(raw, offset, behind)
            offset = behind
    behind = offset + len(rest)
    for item in salvage(rest, offset, behind):
        if isinstance(item, Line) and item.offset + len(item.raw) == behind:
            item = Damage(item.offset, behind, "the last line is not complete")
        yield item


def _blocks(files: Files, handle: int, start: int, end: int) -> Iterator[bytes]:
    size = BOUNDS.block_bytes
    while start < end:
        block = files.read(handle, start, min(size, end - start))
        if not block:
            return
        yield block
        start += len(block)
        # A long line is joined block by block: growing ones keep that linear.
        size = BOUNDS.block_bytes if b"\n" in block else size * 2


def first_line(files: Files, handle: int, size: int) -> Line | None:
    """The header's line; None when the file doesn't begin with a good line."""
    reach = BOUNDS.head_bytes
    while True:
        data = files.read(handle, 0, min(reach, size))
        end = data.find(b"\n")
        if end >= 0 or reach >= size:
            return parse(data[:end], 0, end + 1) if end >= 0 else None
        reach *= 4


def last_line(files: Files, handle: int, size: int) -> Line | None:
    """The newest good line; None when there is none at all."""
    reach = BOUNDS.tail_bytes
    while True:
        start = max(0, size - reach)
        data = files.read(handle, start, size - start)
        # What is before the first newline may be the end of a longer line.
        begin = data.find(b"\n") + 1 if start else 0
        line = _newest(data, begin, start)
        if line is not None or not start:
            return line
        reach *= 4


def _newest(data: bytes, begin: int, offset: int) -> Line | None:
    end = data.rfind(b"\n")
    while end >= begin:
        start = max(begin, data.rfind(b"\n", 0, end) + 1)
        raw = data[start:end]
        place = (offset + start, offset + end + 1)
        line = parse(raw, *place)
        if line is None and raw:
            line = next((got for got in [*salvage(raw, *place)][::-1] if isinstance(got, Line)), None)
        if line is not None:
            return line
        end = start - 1
    return None
