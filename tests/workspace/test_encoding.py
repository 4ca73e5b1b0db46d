"""Bugs rows 55 and 56: which text a file is, and that an edit touches the bytes it replaces and no others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.core.errors import BadInput, Refused
from ullage.workspace.encoding import Neutral, Span, decode, spliced

KNOWN = {
    "ASCII": (b"abc\n", "utf-8", b""),
    "empty": (b"", "utf-8", b""),
    "UTF-8": ("h\u00e9 \u65e5\u672c \U0001f377".encode(), "utf-8", b""),
    "UTF-8 BOM": (b"\xef\xbb\xbfabc", "utf-8", b"\xef\xbb\xbf"),
    "UTF-16 LE": ("\ufeff\u65e5".encode("utf-16-le"), "utf-16-le", b"\xff\xfe"),
    "UTF-16 BE": ("\ufeff\u65e5".encode("utf-16-be"), "utf-16-be", b"\xfe\xff"),
    "UTF-32 LE": ("\ufeffa".encode("utf-32-le"), "utf-32-le", b"\xff\xfe\0\0"),
    "Latin-1": ("caf\u00e9 \u00e0 \u00eele\n".encode("latin-1"), "latin-1", b""),
    "Latin-1 that Shift-JIS reads too": ("\u00e9lan \u00e9lan".encode("latin-1"), "latin-1", b""),
    "Windows-1252": ("\u201cquoted\u201d \u20ac5\n".encode("cp1252"), "cp1252", b""),
    "Shift-JIS": ("\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8\n".encode("cp932"), "cp932", b""),
}
UNKNOWN = {
    "Cyrillic": "\u043f\u0440\u0438\u0432\u0435\u0442".encode("cp1251"),
    "GBK": "\u4e2d\u6587\u6587\u4ef6".encode("gbk"),
    "Big5": "\u4e2d\u6587\u6a94\u6848".encode("big5"),
    "EUC-KR": "\ud55c\uad6d\uc5b4".encode("euc-kr"),
    "Shift-JIS without kana": "\u65e5\u672c".encode("cp932"),
    "one kanji": "\u682a\n".encode("cp932"),
    "cut UTF-16": b"\xff\xfea",
    "no byte of Windows-1252": b"a\x81\n",
    "UTF-8 with a broken character": "\u65e5\u672c\u306e".encode()[:-1] + b"\n",
}


@pytest.mark.parametrize("row", KNOWN)
def test_known_encodings(row: str) -> None:
    data, encoding, mark = KNOWN[row]
    found = decode(data)
    assert (found.encoding, found.mark, found.mark + found.text.encode(encoding)) == (encoding, mark, data)


@pytest.mark.parametrize("row", UNKNOWN)
def test_unknown_encodings_are_refused(row: str) -> None:
    with pytest.raises(BadInput) as refused:
        decode(UNKNOWN[row])
    assert refused.value.report.code == "unknown_encoding" and refused.value.report.hint


@pytest.mark.parametrize("data", [b"a\0b", "ab".encode("utf-16-le"), bytes(range(256))])
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        decode(data)
    assert refused.value.report.code == "binary_file"


# --- the property ---

_WORDS = {
    "utf-8": ["a", "h\u00e9", "\u65e5\u672c", "\U0001f377", " ", "x = 1"],
    "latin-1": ["a", "caf\u00e9", "\u00fcber", " ", "x = 1", "\u00a7 3"],
    "cp932": ["a", "\u65e5\u672c", "\u306e", "\u8868", " ", "x = 1", "\uff71", "\u2252"],
}
_SHAPES = {
    "utf-8": ("utf-8", b"", "utf-8"),
    "utf-8 with BOM": ("utf-8", b"\xef\xbb\xbf", "utf-8"),
    "utf-16-le": ("utf-16-le", b"\xff\xfe", "utf-8"),
    "utf-16-be": ("utf-16-be", b"\xfe\xff", "utf-8"),
    "latin-1": ("latin-1", b"", "latin-1"),
    "shift-jis": ("cp932", b"", "cp932"),
}
_FIRST = {"latin-1": "\u00e9 ", "cp932": "\u3042 "}
"""What makes a file's encoding plain."""


@st.composite
def edits(draw: st.DrawFn, shape: str) -> tuple[bytes, list[str], int, int, str, str]:
    """A file's bytes, its lines, which of them are replaced, by what, and its line end."""
    encoding, mark, words = _SHAPES[shape]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    line = st.lists(st.sampled_from(_WORDS[words]), max_size=4).map("".join)
    lines = [_FIRST.get(encoding, "") + draw(line), *draw(st.lists(line, min_size=1, max_size=8))]
    start = draw(st.integers(1, len(lines) - 1))
    stop = draw(st.integers(start, len(lines)))
    new = "\n".join(draw(st.lists(line, min_size=1, max_size=3)))
    return mark + end.join(lines).encode(encoding), lines, start, stop, new, end


@pytest.mark.parametrize("shape", _SHAPES)
@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_an_edit_touches_only_the_edited_bytes(shape: str, data: st.DataObject) -> None:
    """For every encoding and line end: the bytes before and behind the replaced lines are what they were."""
    whole, lines, start, stop, new, end = data.draw(edits(shape))
    encoding, mark, _ = _SHAPES[shape]
    file = decode(whole)
    neutral = Neutral(file)
    assert neutral.text == "\n".join(lines)
    front, old = "\n".join(lines[:start]) + "\n", "\n".join(lines[start:stop])
    after = spliced(file, [neutral.span(len(front), len(front) + len(old), new)])
    before_it = mark + front.replace("\n", end).encode(encoding)
    behind_it = "\n".join(lines)[len(front) + len(old) :].replace("\n", end).encode(encoding)
    made = new.replace("\n", end).encode(encoding)
    assert after.data == before_it + made + behind_it
    assert after.text == after.data[len(mark) :].decode(encoding)


def test_two_spellings_of_a_character_stay() -> None:
    """Shift-JIS writes \u2252 as 81 E0 or 87 90; decoding and encoding all of a file would change one of them."""
    whole = b"\x87\x90 \x82\xa0 x \x87\x90\n"
    file = decode(whole)
    at = file.text.index("x")
    assert spliced(file, [Span(at, at + 1, "y")]).data == whole.replace(b"x", b"y")
    assert file.text.encode("cp932") != whole


def test_mixed_line_ends_stay_where_they_are() -> None:
    """kimi-cli#2191: one edit turned a whole file from CRLF to LF."""
    file = decode(b"a\r\nb\nc\r\nd\n")
    neutral = Neutral(file)
    at = neutral.text.index("b\nc")
    assert spliced(file, [neutral.span(at, at + 3, "b\nx")]).data == b"a\r\nb\nx\r\nd\n"


def test_what_can_not_be_encoded_is_named() -> None:
    file = decode("caf\u00e9".encode("latin-1"))
    with pytest.raises(Refused, match="Latin-1, which has no"):
        spliced(file, [Span(0, 1, "\u65e5")])
