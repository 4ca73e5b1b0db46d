"""Public reports against coding agents, as the smallest input that would show the same fault here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.hands import Hands
from tests.workspace.hostile import CANARY, add_links, build

from ullage.tools.limits import Limits
from ullage.workspace.restore import RecentFile, restore
from ullage.workspace.root import WorkspaceRoot


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    ws = build(tmp_path.resolve())
    with WorkspaceRoot.open(str(ws)) as root:
        yield Hands(ws, root)


def test_b50_recovery_stays_with_its_root(hands: Hands) -> None:
    """Bugs row 50: two roots open, the session is on one; the other's files never appear, whatever is active."""
    other = hands.ws.parent / "ws2"
    (other / "readme.md").write_text(CANARY)
    here, there = hands.root.identity.real, str(other)
    done = restore(hands.root, [RecentFile("readme.md", there), RecentFile("readme.md", here)])
    assert [file.text for file in done.files] == ["# hello\nneedle here\n"]
    assert [(left.path, left.reason) for left in done.left_out] == [("readme.md", "other_root")]


async def test_b52_links_lead_nowhere(hands: Hands) -> None:
    """Bugs row 52: a link inside the workspace is not followed, and the refusal names what it points to."""
    add_links(hands.ws)
    text = await hands.refused("read", "symlink", path="link_dir/loot.txt")
    assert str(hands.ws.parent / "outside") in text


async def test_b59_one_line_of_64_mb(hands: Hands) -> None:
    """Bugs row 59: caps by bytes, lines and line length; each is named; the result fits a client's update."""
    with (hands.ws / "line.js").open("wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    text = await hands.good("read", path="line.js")
    assert len(text.encode()) <= Limits().result_bytes
    assert "cut at 2000 characters" in text and "x" * 2001 not in text
    assert "[1 binary or very big files were not searched]" in await hands.good("grep", pattern="x", path="line.js")


@pytest.mark.parametrize(
    ("path", "code"),
    [("~", "outside_workspace"), ("$HOME", "outside_workspace"), ("/", "outside_workspace"), ("gone", "not_found")],
)
async def test_b60_search_from_a_bad_place(hands: Hands, path: str, code: str) -> None:
    """Bugs row 60: home folder refused, a missing path is an error, before anything is walked or started."""
    await hands.refused("grep", code, pattern="x", path=path)


async def test_b60_search_in_a_loop_of_links_with_many_hits(hands: Hands) -> None:
    """Bugs row 60: links are not followed, and hits are capped at 1,000."""
    add_links(hands.ws)
    (hands.ws / "src" / "loop").symlink_to(hands.ws / "src")
    hands.write(many="hit\n" * 5000)
    text = await hands.good("grep", pattern="hit", limit=5000)
    assert text.count("many:") == 1000 and "only the first 1000 hits" in text
