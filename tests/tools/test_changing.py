"""The tools that change files: what they write, what they leave, what they refuse."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from tests.tools.hands import Hands
from tests.workspace.hostile import CANARY, LINKED, NAMES, add_links, add_odd_files

from ullage.core.messages import Op, Todo, TodoStatus
from ullage.tools.limits import Limits

# --- write ---


async def test_a_new_file_in_new_folders(hands: Hands) -> None:
    text = await hands.good("write", path="new/deep/café.txt", content="one\ntwo\n")
    assert text == "Created new/deep/café.txt: 2 lines.\n[folder new was made]\n[folder new/deep was made]"
    assert (hands.ws / "new/deep/café.txt").read_bytes() == b"one\ntwo\n"


async def test_what_a_write_proves(hands: Hands) -> None:
    await hands.good("read", path="src/a.py")
    outcome = await hands.run("write", path="./src//a.py", content="x\n")
    assert outcome.facts is not None and (outcome.facts.op, outcome.facts.paths) == (Op.WRITE, ("src/a.py",))
    assert outcome.text == "Changed src/a.py (UTF-8): line 1 changed. It has 1 lines now."


REWRITTEN = {
    "LF": (b"a\nb\n", b"x\ny\n"),
    "CRLF": (b"a\r\nb\r\n", b"x\r\ny\r\n"),
    "mostly CRLF": (b"a\r\nb\r\nc\n", b"x\r\ny\r\n"),
    "UTF-8 BOM": (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfx\ny\n"),
    "UTF-16": ("\ufeffa\r\n".encode("utf-16-le"), "\ufeffx\r\ny\r\n".encode("utf-16-le")),
    "UTF-16 BE": ("\ufeffa\n".encode("utf-16-be"), "\ufeffx\ny\n".encode("utf-16-be")),
    "empty": (b"", b"x\ny\n"),
}


@pytest.mark.parametrize("row", REWRITTEN)
async def test_a_rewritten_file_stays_what_it_is(hands: Hands, row: str) -> None:
    """Encoding, mark and line ends are the file's, whatever the model sends; so are its mode bits."""
    before, after = REWRITTEN[row]
    hands.write(f=before)
    (hands.ws / "f").chmod(0o751)
    await hands.good("read", path="f")
    await hands.good("write", path="f", content="x\ny\n")
    assert (hands.ws / "f").read_bytes() == after
    assert stat.S_IMODE((hands.ws / "f").stat().st_mode) == 0o751


# --- edit ---

EDITED = {
    "one place": ("a\nb\nc\n", [("b", "x")], "a\nx\nc\n", "line 2 changed"),
    "several lines": ("a\nb\nc\n", [("a\nb", "1\n2\n3")], "1\n2\n3\nc\n", "lines 1-3 changed"),
    "removed": ("a\nb\nc\n", [("b\n", "")], "a\nc\n", "line 2 removed"),
    "added": ("a\nc\n", [("a\n", "a\nb\n")], "a\nb\nc\n", "line 2 added"),
    "everywhere": ("x y x\nx\n", [("x", "z", True)], "z y z\nz\n", "lines 1-2 changed"),
    "one after the other": ("a\n", [("a", "b"), ("b", "c")], "c\n", "line 1 changed"),
    "at the end": ("a\nb", [("b", "x")], "a\nx", "line 2 changed"),
    "an end is added": ("a", [("a", "a\n")], "a\n", "line 1 changed"),
    "overlapping": ("aaaa", [("aa", "b", True)], "bb", "line 1 changed"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("row", EDITED)
async def test_edits(hands: Hands, row: str, end: str) -> None:
    """Bugs row 55: line ends are no difference when a text is looked for, and stay what they are."""
    before, edits, after, says = EDITED[row]
    hands.write(f=before.replace("\n", end))
    await hands.good("read", path="f")
    calls = [dict(zip(("old_text", "new_text", "all"), each, strict=False)) for each in edits]
    text = await hands.good("edit", path="f", edits=calls)
    whole = end if "\n" in before else "\n"
    assert (hands.ws / "f").read_bytes() == after.replace("\n", whole).encode()
    assert f"Changed f (UTF-8): {says}." in text


UNFIT = {
    "nowhere": ("zebra", "ambiguous not", "not_found_in_file", "Read the file again"),
    "only alike": ("def  go(self):", "x", "not_found_in_file", "     3\tdef go(self):"),
    "twice": ("pass", "x", "ambiguous", "stands 2 times in 'f', at line 2, line 4"),
    "the same": ("def go(self):", "def go(self):", "nothing_to_do", "are the same"),
}


@pytest.mark.parametrize("row", UNFIT)
async def test_a_text_that_is_not_in_one_place(hands: Hands, row: str) -> None:
    """Nothing is written, and the error shows the candidates with their lines."""
    old, new, code, says = UNFIT[row]
    content = "class A:\n    pass\ndef go(self):\n    pass\n"
    hands.write(f=content)
    await hands.good("read", path="f")
    assert says in await hands.refused("edit", code, path="f", edits=[{"old_text": old, "new_text": new}])
    assert (hands.ws / "f").read_text() == content


async def test_all_edits_or_none(hands: Hands) -> None:
    hands.write(f="a\nb\n")
    await hands.good("read", path="f")
    edits = [{"old_text": "a", "new_text": "x"}, {"old_text": "q", "new_text": "y"}]
    assert "Edit 2: " in await hands.refused("edit", "not_found_in_file", path="f", edits=edits)
    assert (hands.ws / "f").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("content", "new", "says"),
    [
        ("caf\xe9\n".encode("latin-1"), "\u2192", "Latin-1, which has no '\\u2192'"),
        ("\u65e5\u672c\u306e\n".encode("cp932"), "\U0001f377", "Shift-JIS, which has no '\\U0001f377'"),
    ],
)
async def test_what_an_encoding_has_not(hands: Hands, content: bytes, new: str, says: str) -> None:
    """Bugs row 56: never cut to a low byte."""
    hands.write(f=content)
    await hands.good("read", path="f")
    edits = [{"old_text": "\n", "new_text": new}]
    assert says in await hands.refused("edit", "not_encodable", path="f", edits=edits)
    assert (hands.ws / "f").read_bytes() == content


# --- files that are not as they must be ---

ONE = [{"old_text": "needle", "new_text": "x"}]
CALLS = {
    "write": lambda path: {"path": path, "content": "x"},
    "edit": lambda path: {"path": path, "edits": ONE},
    "apply_patch": lambda path: {"patch": f"*** Begin Patch\n*** Update File: {path}\n-needle\n+x\n*** End Patch"},
}


@pytest.mark.parametrize("tool", CALLS)
async def test_a_file_that_was_not_read(hands: Hands, tool: str) -> None:
    await hands.refused(tool, "not_read", **CALLS[tool]("readme.md"))
    await hands.good("grep", pattern="needle")
    await hands.refused(tool, "not_read", **CALLS[tool]("readme.md"))


@pytest.mark.parametrize("tool", CALLS)
async def test_a_file_that_changed_since(hands: Hands, tool: str) -> None:
    """The edit of a stale file is refused; after reading it again it goes."""
    await hands.good("read", path="readme.md")
    (hands.ws / "readme.md").write_text("needle\n")
    await hands.refused(tool, "changed", **CALLS[tool]("readme.md"))
    assert (hands.ws / "readme.md").read_text() == "needle\n"
    await hands.good("read", path="readme.md")
    await hands.good(tool, **CALLS[tool]("readme.md"))
    assert "x" in (hands.ws / "readme.md").read_text()


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(
    ("content", "code"),
    [(b"needle\0\n", "binary_file"), ("needle \u043f\u0440\u0438\n".encode("cp1251"), "unknown_encoding")],
)
async def test_a_file_that_is_no_known_text(hands: Hands, tool: str, content: bytes, code: str) -> None:
    """Refused, never mangled; also where it was read as well as it goes."""
    hands.write(f=content)
    await hands.run("read", path="f")
    await hands.refused(tool, code, "not_read", **CALLS[tool]("f"))
    assert (hands.ws / "f").read_bytes() == content


@pytest.mark.parametrize("tool", CALLS)
async def test_a_file_that_is_too_large(hands: Hands, tool: str) -> None:
    hands.write(f=b"needle\n" + b"x\n" * (4 << 20))
    await hands.good("read", path="f")
    text = await hands.refused(tool, "too_large", **CALLS[tool]("f"))
    assert "files of up to 8,388,608 can be changed" in text


async def test_more_than_may_be_written(hands: Hands) -> None:
    """S17: what is written is capped too."""
    await hands.refused("write", "too_large", path="f", content="x" * (9 << 20))
    assert not (hands.ws / "f").exists()


async def test_hostile_names(hands: Hands) -> None:
    """P1 for what writes: nothing outside changes, whatever the name."""
    outside = _outside(hands.ws)
    for name, codes in NAMES:
        name = name.replace("{base}", str(hands.ws.parent))
        for tool, arguments in CALLS.items():
            outcome = await hands.toolbox().run(tool, json.dumps(arguments(name)))
            assert outcome.is_error or "not_found" in codes, (tool, name)
    assert _outside(hands.ws) == outside and not list(hands.ws.rglob(".ullage-*"))


def _outside(ws: Path) -> dict[str, bytes]:
    inside = f"{ws}{os.sep}"
    found = (path for path in sorted(ws.parent.rglob("*")) if not str(path).startswith(inside) and path.is_file())
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("name", LINKED)
async def test_links(hands: Hands, tool: str, name: str) -> None:
    """P2, bugs row 52: no write goes through a link, and the refusal names what it points to."""
    add_links(hands.ws)
    outside = _outside(hands.ws)
    assert "is a link to" in await hands.refused(tool, "symlink", **CALLS[tool](name))
    assert _outside(hands.ws) == outside


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("name", ["pipe.py", "socket.py", "folder.py", "src"])
async def test_no_regular_file(hands: Hands, tool: str, name: str) -> None:
    """P6: refused, never waited for."""
    with add_odd_files(hands.ws):
        await hands.refused(tool, "not_a_file", **CALLS[tool](name))


async def test_a_new_file_below_a_link(hands: Hands) -> None:
    """P3, bugs row 52."""
    add_links(hands.ws)
    for path in ("link_dir/new.txt", "link_dir/sub/new.txt", "src/link_middle/new.txt"):
        await hands.refused("write", "symlink", path=path, content=CANARY)
    assert not list((hands.ws.parent / "outside").rglob("new.txt"))
    assert not (hands.ws.parent / "outside" / "sub").exists()


async def test_a_hard_link_keeps_its_content(hands: Hands) -> None:
    """P7: what is replaced is the name; the other one, which may lie outside, stays as it is, and it is said."""
    other = hands.ws.parent / "other.txt"
    other.write_text("needle\n")
    os.link(other, hands.ws / "f")
    await hands.good("read", path="f")
    assert "2 names (hard links)" in await hands.good("edit", path="f", edits=ONE)
    assert (other.read_text(), (hands.ws / "f").read_text()) == ("needle\n", "x\n")


# --- one step ---


async def test_calls_of_one_step_go_on_from_each_other(hands: Hands) -> None:
    """They run in their order, one after the other, though none is a fact of the session yet."""
    await hands.good("read", path="readme.md")
    box = hands.toolbox()
    edits = [("needle", "first"), ("first", "second"), ("second", "third")]
    calls = [{"path": "readme.md", "edits": [{"old_text": old, "new_text": new}]} for old, new in edits]
    done = await asyncio.gather(*(box.run("edit", json.dumps(call)) for call in calls))
    assert not any(outcome.is_error for outcome in done)
    assert (hands.ws / "readme.md").read_text() == "# hello\nthird here\n"


# --- apply_patch ---

PATCHED = {
    "changed": ("a\nb\nc\n", "@@\n a\n-b\n+x\n+y\n c", "a\nx\ny\nc\n"),
    "no @@": ("a\nb\nc\n", "-b\n+x", "a\nx\nc\n"),
    "two hunks": ("a\nb\nc\nb\n", "@@\n a\n-b\n+x\n@@\n c\n-b\n+y", "a\nx\nc\ny\n"),
    "in order": ("b\nb\nz\n", "@@ b\n-b\n+x", "b\nx\nz\n"),
    "behind a line": ("def f():\n  1\ndef g():\n  1\n", "@@ def g():\n-  1\n+  2", "def f():\n  1\ndef g():\n  2\n"),
    "only added": ("a\nc\n", "@@ a\n+b", "a\nb\nc\n"),
    "added to the end": ("a\nb\n", "@@\n b\n+c", "a\nb\nc\n"),
    "added behind no end": ("a\nb", "@@\n b\n+c", "a\nb\nc"),
    "last line without an end": ("a\nb", "@@\n-b\n+c", "a\nc"),
    "last line goes": ("a\nb", "@@\n-b", "a"),
    "all goes": ("a\n", "@@\n-a", ""),
    "an empty line": ("a\n\nb\n", "@@\n a\n\n-b\n+c", "a\n\nc\n"),
    "end of file": ("a\nb\n", "@@\n-b\n+c\n*** End of File", "a\nc\n"),
}


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("row", PATCHED)
async def test_patches(hands: Hands, row: str, end: str) -> None:
    before, hunks, after = PATCHED[row]
    hands.write(f=before.replace("\n", end))
    await hands.good("read", path="f")
    await hands.good("apply_patch", patch=patch("*** Update File: f", hunks))
    assert (hands.ws / "f").read_bytes() == after.replace("\n", end).encode()


async def test_a_patch_of_several_files(hands: Hands) -> None:
    for path in ("readme.md", "src/a.py"):
        await hands.good("read", path=path)
    text = patch("*** Add File: n/new.txt", "+one", "+two", "*** Update File: readme.md", " # hello", "-needle here",
                 "*** Delete File: src/a.py")  # fmt: skip
    outcome = await hands.run("apply_patch", patch=text)
    assert outcome.text == (
        "Created n/new.txt: 2 lines.\nChanged readme.md (UTF-8): line 2 removed. It has 1 lines now.\n"
        "Deleted src/a.py.\n[folder n was made]"
    )
    assert outcome.facts is not None and outcome.facts.paths == ("n/new.txt", "readme.md", "src/a.py")
    assert (hands.ws / "n/new.txt").read_text() == "one\ntwo\n" and not (hands.ws / "src/a.py").exists()


BAD_PATCHES = {
    "no patch": ("hello", "Line 1 of the patch: the patch stands between"),
    "no end": ("*** Begin Patch\n*** Delete File: readme.md", "Line 2 of the patch"),
    "no file": (patch(), "names a file"),
    "lines before a file": (patch("+x"), "Line 2 of the patch: a file comes first"),
    "moved": (patch("*** Move File: a"), "Line 2 of the patch: '*** Add File: path'"),
    "no hunk": (patch("*** Update File: readme.md"), "hunks follow"),
    "no change": (patch("*** Update File: readme.md", " # hello"), "a hunk adds or removes a line"),
    "no place": (patch("*** Update File: readme.md", "+x"), "a hunk that only adds"),
    "lines of a deleted file": (patch("*** Delete File: readme.md", "-x"), "Line 3 of the patch: no lines"),
    "a diff's line": (patch("*** Add File: f", "x"), "Line 3 of the patch: a line that begins with one of '+'"),
}


@pytest.mark.parametrize("row", BAD_PATCHES)
async def test_what_is_no_patch(hands: Hands, row: str) -> None:
    """The line and what is expected there; how a patch is written stands with it."""
    text, says = BAD_PATCHES[row]
    await hands.good("read", path="readme.md")
    said = await hands.refused("apply_patch", "bad_patch", patch=text)
    assert says in said and "'*** Begin Patch', then for each file" in said


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["*** Update File: readme.md", "-nothing"], "not_found_in_file"),
        (["*** Update File: readme.md", "@@ nothing", "-needle here"], "not_found_in_file"),
        (["*** Update File: gone", "-x"], "not_found"),
        (["*** Add File: readme.md", "+x"], "exists"),
        (["*** Delete File: readme.md", "*** Update File: ./readme.md", "-# hello"], "bad_patch"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(hands: Hands, lines: list[str], code: str) -> None:
    await hands.good("read", path="readme.md")
    await hands.refused("apply_patch", code, patch=patch("*** Add File: first", "+x", *lines))
    assert not (hands.ws / "first").exists() and "needle" in (hands.ws / "readme.md").read_text()


async def test_what_a_failure_leaves_undone_is_said(hands: Hands) -> None:
    """Files are written one after the other; where the disk refuses in the middle, the model learns which were."""
    outcome = await hands.run("apply_patch", patch=patch("*** Add File: first", "+x", "*** Add File: first/f", "+x"))
    assert outcome.is_error and outcome.text.startswith("Only 1 of 2 files were changed. 'first/f' is not a folder")
    assert outcome.facts is not None and outcome.facts.paths == ("first",)


# --- todo ---


async def test_the_list_is_a_fact(hands: Hands) -> None:
    items = [{"text": "look\nround", "status": "done"}, {"text": "fix it", "status": "active"}, {"text": "test"}]
    outcome = await hands.run("todo", items=items)
    assert outcome.text == "The list has 3 entries, 2 open." and outcome.facts is not None
    assert outcome.facts.todos is not None and outcome.facts.todos.items == (
        Todo("look round", TodoStatus.DONE),
        Todo("fix it", TodoStatus.ACTIVE),
        Todo("test", TodoStatus.PENDING),
    )


@pytest.mark.parametrize("tool", ["write", "edit", "apply_patch", "todo"])
@pytest.mark.parametrize("arguments", ["", "[]", "{", '{"path": 1, "patch": 1, "items": 1}'])
async def test_bad_arguments_say_what_was_expected(hands: Hands, tool: str, arguments: str) -> None:
    outcome = await hands.toolbox().run(tool, arguments)
    assert outcome.is_error and f"Bad arguments for '{tool}'" in outcome.text and "(required)" in outcome.text
    assert Limits() == hands.limits
