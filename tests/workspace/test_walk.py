"""Walking and `.gitignore`: what is seen, in which order, and when a walk ends."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from tests.workspace.hostile import add_links, add_odd_files

from ullage.core.errors import Refused
from ullage.workspace.ignore import IgnoreRules
from ullage.workspace.limits import Limits
from ullage.workspace.root import WorkspaceRoot
from ullage.workspace.walk import Budget, Stop, Walk

ENDLESS = Budget(lambda: 0.0, 1.0, lambda: False)


def walk(root: WorkspaceRoot, start: str = ".", budget: Budget = ENDLESS) -> tuple[list[str], Walk]:
    path = root.locate(start)
    walking = Walk(root, path, IgnoreRules(root, path), budget)
    return [str(entry.path) for entry in walking], walking


def make(ws: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (ws / name).parent.mkdir(parents=True, exist_ok=True)
        (ws / name).write_text(text)


def test_regular_files_by_name(door: WorkspaceRoot, ws: Path) -> None:
    """Depth first, by name; links of every kind, pipes and sockets are not in it (P13: no link loop)."""
    add_links(ws)
    with add_odd_files(ws):
        found, walking = walk(door)
    assert found == ["readme.md", "src/a.py", "src/deep/b.py"]
    assert (walking.stopped, walking.unread) == (None, 0)


IGNORE_ROWS = {
    "plain": ({".gitignore": "*.log\n", "a.log": "", "d/b.log": "", "d/c": ""}, ".", ["d/c"]),
    "anchored": ({".gitignore": "/build/\n", "build/x": "", "d/build/x": ""}, ".", ["d/build/x"]),
    "negated": ({".gitignore": "*.log\n!keep.log\n", "a.log": "", "keep.log": ""}, ".", ["keep.log"]),
    "nested wins": ({".gitignore": "*.log\n", "d/.gitignore": "!a*\n", "d/a.log": "", "b.log": ""}, ".", ["d/a.log"]),
    "nested stays inside": ({"d/.gitignore": "x\n", "d/x": "", "x": ""}, ".", ["x"]),
    "folder stays out": ({".gitignore": "d/\n", "d/.gitignore": "!x\n", "d/x": ""}, ".", []),
    "start below the rules": ({".gitignore": "*.log\n", "d/a.log": "", "d/b": ""}, "d", ["d/b"]),
    "ignored start was named on purpose": ({".gitignore": "d/\n", "d/x": "", "d/e/y": ""}, "d/e", ["d/e/y"]),
    "git is never entered": ({".git/config": "", "d/.git": "", "d/x": ""}, ".", ["d/x"]),
    "byte order mark and CRLF": ({".gitignore": "\ufeff*.log\r\n", "a.log": "", "b": ""}, ".", ["b"]),
    "a bad line harms no other": ({".gitignore": "!\n[z-a]\n*.log\n", "a.log": "", "b": ""}, ".", ["b"]),
    "a cruel line is dropped": ({".gitignore": "*a*a*a*a*a*b\n*.log\n", "a" * 200: "", "a.log": ""}, ".", ["a" * 200]),
}  # fmt: skip


@pytest.mark.parametrize("row", IGNORE_ROWS)
def test_gitignore(tmp_path: Path, row: str) -> None:
    files, start, expected = IGNORE_ROWS[row]
    make(tmp_path, files)
    with WorkspaceRoot.open(str(tmp_path)) as root:
        found, _ = walk(root, start)
    assert [name for name in found if not name.endswith(".gitignore")] == expected


def test_a_linked_gitignore_is_not_read(door: WorkspaceRoot, ws: Path) -> None:
    (ws.parent / "outside" / "rules").write_text("*.py\n")
    (ws / ".gitignore").symlink_to(ws.parent / "outside" / "rules")
    assert "src/a.py" in walk(door)[0]


def test_a_walk_ends_in_time(door: WorkspaceRoot) -> None:
    """P13: by the clock, by a cancel, by a count; and it says which."""
    ticks = iter(range(100))
    late = Budget(lambda: float(next(ticks)), 2.0, lambda: False)
    assert walk(door, budget=late)[1].stopped is Stop.TIME
    found, walking = walk(door, budget=Budget(lambda: 0.0, 1.0, lambda: True))
    assert (found, walking.stopped) == ([], Stop.CANCELLED)


def test_a_walk_ends_by_count_and_depth(ws: Path) -> None:
    with WorkspaceRoot.open(str(ws), limits=Limits(walk_entries=2)) as root:
        assert walk(root)[1].stopped is Stop.COUNT
    with WorkspaceRoot.open(str(ws), limits=Limits(walk_depth=1)) as root:
        found, walking = walk(root)
        assert "src/deep/b.py" not in found and walking.unread == 1


def test_many_files_and_a_cancel_in_the_middle(tmp_path: Path) -> None:
    """P13, small: a cancel is seen at the next entry, not at the end of a folder."""
    make(tmp_path, {f"d{number % 10}/f{number}": "" for number in range(2000)})
    looks = itertools.count()
    with WorkspaceRoot.open(str(tmp_path)) as root:
        assert len(walk(root)[0]) == 2000
        found, walking = walk(root, budget=Budget(lambda: 0.0, 1.0, lambda: next(looks) == 700))
    assert (walking.stopped, next(looks)) == (Stop.CANCELLED, 701)
    assert 600 < len(found) < 700


def test_root_gone_in_the_middle(door: WorkspaceRoot, ws: Path) -> None:
    """P12 while walking: an error, not a short list."""
    walking = iter(Walk(door, door.locate("."), IgnoreRules(door), ENDLESS))
    next(walking)
    ws.rename(ws.parent / "moved")
    with pytest.raises(Refused, match=re.escape("was removed, replaced or closed")):
        list(walking)
