"""Cutting lines out of a stream of bytes, in memory bounded by what is shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line, numbered from 1, without its end. `cut`: it was longer than the cap."""

    number: int
    data: bytes
    cut: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive lines. `more`: lines follow after the last one; `seen`: number of the last line looked at."""

    lines: tuple[Line, ...]
    more: bool
    seen: int


def page(chunks: Iterable[bytes], first: int, count: int, line_bytes: int, page_bytes: int) -> Page:
    """Lines `first` to `first + count - 1`, fewer when they exceed `page_bytes` (the first one always fits)."""
    kept: list[Line] = []
    seen = 0
    for line in split_lines(chunks, line_bytes):
        seen = line.number
        if seen < first:
            continue
        page_bytes -= len(line.data)
        if len(kept) == count or (kept and page_bytes < 0):
            return Page(tuple(kept), True, seen)
        kept.append(line)
    return Page(tuple(kept), False, seen)


def split_lines(chunks: Iterable[bytes], line_bytes: int) -> Iterator[Line]:
    """Lines of a stream, each kept up to `line_bytes`; what is longer is dropped, not held."""
    number = 1
    held = b""
    cut = False
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            held, cut = _grow(held, cut, piece, line_bytes)
            yield Line(number, held.removesuffix(b"\r"), cut)
            number, held, cut = number + 1, b"", False
        held, cut = _grow(held, cut, rest, line_bytes)
    if held:
        yield Line(number, held.removesuffix(b"\r"), cut)


def _grow(held: bytes, cut: bool, piece: bytes, line_bytes: int) -> tuple[bytes, bool]:
    room = line_bytes - len(held)
    return held + piece[:room], cut or len(piece) > room
