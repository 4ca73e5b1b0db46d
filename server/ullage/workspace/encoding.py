"""Which text a file's bytes are, and changing a piece of it without touching any other byte. Pure.

Invariant: `spliced` answers the old bytes outside the replaced spans, to the byte, or refuses.

Which encoding a file has is decided by rules, never by statistics: a byte order mark; else strict UTF-8; else
Shift-JIS where the bytes are valid and hold kana; else Latin-1 or Windows-1252 where letters above ASCII stand alone or
in pairs, as in the languages that these are for. Everything else is refused by name: a wrong guess would let an edit
match, and break, half a character.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.core.errors import BadInput, Refused

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SHOWN = {"cp932": "Shift-JIS", "latin-1": "Latin-1", "cp1252": "Windows-1252"}
_KANA = re.compile("[\u3040-\u30ff]")
_CROWD = re.compile(rb"[\x80-\xff]{3}")
_C1 = re.compile(rb"[\x80-\x9f]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text as it stands there, line ends included. `mark` is the byte order mark before it."""

    data: bytes
    text: str
    encoding: str
    mark: bytes = b""

    @property
    def name(self) -> str:
        """The encoding as people know it."""
        return _SHOWN.get(self.encoding, self.encoding.upper()) + (" with BOM" if self.mark else "")

    @property
    def line_end(self) -> str:
        r"""What most of its lines end with, `\n` or `\r\n`; `\n` where there is none."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf * 2 > self.text.count("\n") else "\n"


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a text, and what shall stand there."""

    start: int
    end: int
    text: str


def decode(data: bytes) -> Decoded:
    """The text of a file.

    Raises:
        BadInput: `binary_file` for what holds NUL bytes, `unknown_encoding` for what no rule knows.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            found = _tried(data, encoding, mark)
            if found is None:
                raise _unknown(f"Its byte order mark says {encoding.upper()}, which the rest is not.")
            return found
    if b"\0" in data:
        hint = "Only text can be read and changed; UTF-16 needs its byte order mark."
        raise BadInput(f"The file is binary ({len(data):,} bytes).", hint=hint, code="binary_file")
    if (found := _tried(data, "utf-8")) is not None:
        return found
    japanese = _tried(data, "cp932")
    return japanese if japanese and _KANA.search(japanese.text) else _latin(data, japanese)


def _tried(data: bytes, encoding: str, mark: bytes = b"") -> Decoded | None:
    try:
        return Decoded(data, data[len(mark) :].decode(encoding), encoding, mark)
    except UnicodeDecodeError:
        return None


def _latin(data: bytes, japanese: Decoded | None) -> Decoded:
    if _CROWD.search(data):
        raise _unknown("It is not UTF-8, and letters above ASCII stand too close for Latin-1.")
    if not _C1.search(data):
        return Decoded(data, data.decode("latin-1"), "latin-1")
    windows = _tried(data, "cp1252")
    if windows is None or japanese is not None:
        raise _unknown("It is not UTF-8; it may be Windows-1252 or Shift-JIS.")
    return windows


def _unknown(why: str) -> BadInput:
    message = f"The encoding of this file is not known. {why}"
    return BadInput(message, hint="Convert it to UTF-8 with another program first.", code="unknown_encoding")


def encode(text: str, like: Decoded) -> bytes:
    """Text in a file's encoding, without mark.

    Raises:
        Refused: `not_encodable` names the first character that this encoding has not.
    """
    try:
        return text.encode(like.encoding)
    except UnicodeEncodeError as error:
        wrong = ascii(error.object[error.start])
        message = f"The file is {like.name}, which has no {wrong}; nothing was written."
        raise Refused(message, hint="Use other characters.", code="not_encodable") from None


def spliced(before: Decoded, spans: Sequence[Span]) -> Decoded:
    """The file with these spans replaced; spans are in order and apart.

    Raises:
        Refused: `not_encodable`.
    """
    pieces, at, kept = [before.mark], len(before.mark), 0
    for span in (*spans, Span(len(before.text), len(before.text), "")):
        same = _stored(before, at, before.text[kept : span.start])
        at += len(same) + len(before.text[span.start : span.end].encode(before.encoding))
        pieces += [same, encode(span.text, before)]
        kept = span.end
    data = b"".join(pieces)
    return Decoded(data, data[len(before.mark) :].decode(before.encoding), before.encoding, before.mark)


def _stored(whole: Decoded, at: int, text: str) -> bytes:
    """The bytes of `text`, which begins at byte `at`, as they stand in the file. They may be others than encoding gives
    (Shift-JIS writes some characters in two ways), but never more or fewer."""
    found = whole.data[at : at + len(text.encode(whole.encoding))]
    assert found.decode(whole.encoding) == text, f"{whole.encoding} writes a character in two lengths"
    return found


class Neutral:
    r"""A text as it looks when every line ends with `\n`, and the way back to where something stands in the file."""

    def __init__(self, file: Decoded) -> None:
        self._file = file
        self.text = file.text.replace("\r\n", "\n")
        # Where in the neutral text a line end stands that has two characters in the file.
        self._pairs = [found.start() - number for number, found in enumerate(re.finditer("\r\n", file.text))]

    def span(self, start: int, end: int, text: str) -> Span:
        """A replacement of neutral characters [start, end) by `text`, as little of it as really differs.

        New line ends are what the replaced ones were, else what most are in the file.
        """
        new, old = text.replace("\r\n", "\n"), self.text[start:end]
        front = _common(old, new)
        back = _common(old[front:][::-1], new[front:][::-1])
        start, end, new = start + front, end - back, new[front : len(new) - back]
        begin, stop = self._back(start), self._back(end)
        replaced = self._file.text[begin:stop]
        line_end = self._file.line_end if "\n" not in replaced else "\r\n" if "\r\n" in replaced else "\n"
        return Span(begin, stop, new.replace("\n", line_end))

    def _back(self, index: int) -> int:
        return index + bisect_left(self._pairs, index)


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginning."""
    same, most = 0, min(len(one), len(other))
    while same < most and one[same] == other[same]:
        same += 1
    return same
