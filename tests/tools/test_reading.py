"""`read`, `list` and `read_output`: what they show, what they cut, and that they say so."""

from __future__ import annotations

import hashlib

import pytest
from tests.tools.hands import Hands
from tests.workspace.hostile import LINKED, NAMES, add_links, add_odd_files

from ullage.core.messages import BlobRef, Op, ToolFacts
from ullage.tools.limits import Limits
from ullage.tools.paging import Line, page, split_lines

CALLS = {
    "read": ("read", {}),
    "list": ("list", {}),
    "list all": ("list", {"recursive": True}),
    "glob": ("glob", {"pattern": "*"}),
    "grep": ("grep", {"pattern": "CANARY"}),
}


@pytest.mark.parametrize("call", CALLS)
async def test_hostile_names(hands: Hands, call: str) -> None:
    """P1 through the tools: every name is refused, with one typed error. (A lone surrogate is no JSON string.)"""
    tool, more = CALLS[call]
    for name, codes in NAMES:
        await hands.refused(tool, *codes, "bad_arguments", path=name.replace("{base}", str(hands.ws.parent)), **more)


@pytest.mark.parametrize("name", LINKED)
async def test_links(hands: Hands, name: str) -> None:
    """P2, bugs row 52, for every tool."""
    add_links(hands.ws)
    for tool, more in CALLS.values():
        assert "is a link to" in await hands.refused(tool, "symlink", path=name, **more)


async def test_odd_files(hands: Hands) -> None:
    """P6: refused at once by read and grep, shown by list."""
    with add_odd_files(hands.ws):
        for name in ("pipe.py", "socket.py"):
            await hands.refused("read", "not_a_file", path=name)
            assert "could not be read" in await hands.good("grep", pattern="x", path=name)
        assert "pipe.py  (not a regular file)" in await hands.good("list")


READ_ROWS = {
    "whole": ("a\nb\n", {}, "     1\ta\n     2\tb"),
    "no end of line": ("a\nb", {}, "     1\ta\n     2\tb"),
    "CRLF": ("a\r\nb\r\n", {}, "     1\ta\n     2\tb"),
    "empty lines": ("\n\nx", {}, "     1\t\n     2\t\n     3\tx"),
    "range": ("1\n2\n3\n4\n", {"first_line": 2, "lines": 2},
              "     2\t2\n     3\t3\n[the file goes on; read on with first_line 4]"),
    "range to the end": ("1\n2\n3\n", {"first_line": 3, "lines": 9}, "     3\t3"),
    "empty": ("", {}, "['f' is empty]"),
    "byte order mark": ("\ufeffa\n", {}, "     1\ta"),
    "Latin-1": (
        b"caf\xe9\n",
        {},
        "     1\tcaf\u00e9\n[the file is Latin-1; what you write into it is stored so]",
    ),
    "UTF-16": (
        "a\u00e9\r\nb".encode("utf-16"),
        {},
        "     1\ta\u00e9\n     2\tb\n[the file is UTF-16-LE with BOM; what you write into it is stored so]",
    ),
    "not known": (
        "a\u043f\u0440\u0438b\n".encode("cp1251"),
        {},
        "     1\ta\ufffd\ufffd\ufffdb\n[not all of this is UTF-8; what is not shows as \ufffd]\n"
        "[The encoding of 'f' is not known. It is not UTF-8, and letters above ASCII stand too close for Latin-1.]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", READ_ROWS)
async def test_read(hands: Hands, row: str) -> None:
    content, arguments, expected = READ_ROWS[row]
    hands.write(f=content)
    assert await hands.good("read", path="f", **arguments) == expected


async def test_read_facts(hands: Hands) -> None:
    outcome = await hands.run("read", path=f"{hands.ws}//src/./a.py")
    sha256 = hashlib.sha256((hands.ws / "src" / "a.py").read_bytes()).hexdigest()
    assert outcome.facts == ToolFacts(Op.READ, ("src/a.py",), detail="2 lines of src/a.py", hashes=(sha256,))


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [(b"\x7fELF\0\0", "binary_file", "binary (6 bytes)"), ("a\nb\n", "bad_input", "has 2 lines; line 9")],
)
async def test_read_that_cannot(hands: Hands, content: str | bytes, code: str, says: str) -> None:
    hands.write(f=content)
    assert says in await hands.refused("read", code, path="f", first_line=9)


async def test_read_reports_hard_links(hands: Hands) -> None:
    """P7."""
    (hands.ws / "hard").hardlink_to(hands.ws / "readme.md")
    assert "has 2 names (hard links)" in await hands.good("read", path="hard")


async def test_read_caps_lines_and_bytes(hands: Hands) -> None:
    """Bugs row 59: both caps bite, and each says where to go on."""
    hands.write(f="x\n" * 5000, wide="é" * 900 + "\n" + ("é" * 900 + "\n") * 200)
    assert "first_line 2001]" in await hands.good("read", path="f", lines=9999)
    text = await hands.good("read", path="wide")
    assert len(text.encode()) < Limits().result_bytes + 100
    assert "the file goes on; read on with first_line 37]" in text


async def test_list(hands: Hands) -> None:
    """Folders, sizes, links with their targets; ignored entries are counted, not shown."""
    add_links(hands.ws)
    hands.write(**{".gitignore": "link_*\n!link_file\nbuild/\n"})
    (hands.ws / "build").mkdir()
    outside = hands.ws.parent / "outside" / "loot.txt"
    text = await hands.good("list")
    assert text.splitlines()[:4] == [
        ".gitignore  25",
        "docs/",
        f"link_file -> {outside}  (link, not followed)",
        "readme.md  20",
    ]
    assert "ignored entries are not shown]" in text
    assert "src/a.py  19\nsrc/deep/b.py  6" in await hands.good("list", recursive=True)
    assert "[1 of " in await hands.good("list", limit=1)
    assert await hands.good("list", path="docs") == "[nothing here, or all of it is ignored]"


async def test_list_escapes_names(hands: Hands) -> None:
    """P8."""
    hands.write(**{"a\u202egnp.py": ""})
    assert "a\\u202egnp.py" in await hands.good("list")


async def test_read_output_pages(hands: Hands) -> None:
    """The whole text comes back, page by page, and nothing twice."""
    text = "".join(f"{number} é\n" for number in range(20_000))
    hands.allowed.append(hands.blobs.put(text.encode()))
    gathered, offset = "", 0
    while offset < len(text):
        got = await hands.good("read_output", reference=hands.allowed[0].sha256, offset=offset, characters=99999)
        part, note = got.rsplit("\n[", 1)
        assert note.startswith(f"characters {offset} to ")
        gathered += part
        offset = int(note.split(" to ")[1].split()[0])
    assert gathered == text


async def test_read_output_knows_only_this_session(hands: Hands) -> None:
    """A blob of another session is not reachable, though it lies in the same store."""
    other = hands.blobs.put(b"another session's words")
    text = await hands.refused("read_output", "unknown_reference", reference=other.sha256)
    assert "another" not in text
    hands.allowed.append(BlobRef("0" * 64, 3))
    await hands.refused("read_output", "output_missing", reference="0" * 64)
    hands.allowed.append(other)
    await hands.refused("read_output", "bad_input", reference=other.sha256, offset=99)


def check_lines(pieces: list[bytes], cap: int, expected: list[Line]) -> None:
    assert list(split_lines(pieces, cap)) == expected


def test_lines_do_not_depend_on_chunks() -> None:
    """However a stream is cut, the lines are the same."""
    text = b"one\n\ntwo longer\r\nthree"
    whole = list(split_lines([text], 5))
    assert [line.data for line in whole] == [b"one", b"", b"two l", b"three"]
    for size in range(1, len(text)):
        check_lines([text[start : start + size] for start in range(0, len(text), size)], 5, whole)


def test_page_holds_only_what_it_shows() -> None:
    found = page([b"abc\n"] * 10, 3, 2, 10, 100)
    assert ([line.number for line in found.lines], found.more) == ([3, 4], True)
    found = page([b"abc\n"] * 10, 1, 10, 10, 7)
    assert ([line.number for line in found.lines], found.more) == ([1, 2], True)
    found = page([b"abc\n"] * 2, 5, 1, 10, 7)
    assert (found.lines, found.more, found.seen) == ((), False, 2)
