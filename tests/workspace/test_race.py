"""P4, bounded: somebody swaps a folder for a link while we open files below it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.workspace.hostile import CANARY, OPENERS, build

from ullage.core.errors import Refused
from ullage.workspace.restore import RecentFile, restore
from ullage.workspace.root import WorkspaceRoot

# Swaps `swap` (a folder) and `other` (a link to the outside) as fast as it can, until it is killed or orphaned.
SWAPPER = """
import ctypes, os, sys
os.chdir(sys.argv[1])
exchange = getattr(ctypes.CDLL(None), "renameat2", None)
parent = os.getppid()
print("ready", flush=True)
while os.getppid() == parent:
    if exchange is not None:
        exchange(-100, b"swap", -100, b"other", 2)
    else:
        os.rename("swap", "third"); os.rename("other", "swap"); os.rename("third", "other")
"""
TRIES = 3_750  # times eight rows: 30,000 opens


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[Path]:
    ws = build(tmp_path.resolve())
    (ws / "swap").mkdir()
    (ws / "swap" / "loot.txt").write_text("inside")
    (ws / "other").symlink_to(ws.parent / "outside")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(ws)], stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None and swapper.stdout.readline() == b"ready\n"
        yield ws
    finally:
        swapper.kill()
        swapper.communicate()


def outcomes(act: Callable[[], str], tries: int) -> dict[str, int]:
    """How often each content, or each refusal, came out."""
    counts: dict[str, int] = {}
    for _ in range(tries):
        try:
            seen = act()
        except Refused as refused:
            seen = refused.report.code
        counts[seen] = counts.get(seen, 0) + 1
    return counts


def by_read(root: WorkspaceRoot) -> str:
    return root.read(root.locate("swap/loot.txt"), at_most=100).data.decode()


def by_list(root: WorkspaceRoot) -> str:
    names = [entry.path.name for entry in root.list(root.locate("swap")).entries]
    return CANARY if "inner" in names else "inside"  # only the outside has a folder `inner`


def by_stat(root: WorkspaceRoot) -> str:
    size = root.stat(root.locate("swap/loot.txt")).size
    return CANARY if size == len(CANARY) else "inside"


def by_restore(root: WorkspaceRoot) -> str:
    done = restore(root, [RecentFile("swap/loot.txt", root.identity.real)])
    return done.files[0].text if done.files else done.left_out[0].reason


_NUMBERS = itertools.count()


def by_write(root: WorkspaceRoot) -> str:
    """A new file, and a folder made for it."""
    name = f"made{next(_NUMBERS)}"
    refused: Refused | None = None
    try:
        root.write(root.locate(f"swap/{name}/new.txt"), b"inside", expected=None)
    except Refused as said:
        refused = said
    if os.path.lexists(f"{root.identity.real}/../outside/{name}"):
        return CANARY
    if refused is not None:
        raise refused
    return "inside"


@pytest.mark.parametrize("act", [by_read, by_list, by_stat, by_restore, by_write])
@pytest.mark.parametrize("opener", sorted(OPENERS))
def test_no_escape(swapped: Path, opener: str, act: Callable[[WorkspaceRoot], str]) -> None:
    with WorkspaceRoot.open(str(swapped), opener=OPENERS[opener]) as root:
        counts = outcomes(lambda: act(root), TRIES)
    assert CANARY not in counts
    assert counts["inside"] > 0 and len(counts) > 1, counts


def test_the_swapper_beats_a_naive_door(swapped: Path) -> None:
    """Check the name, then open the name, as the door must not: it is caught, so the swapper proves something."""

    def naive() -> str:
        try:
            if not os.path.realpath(swapped / "swap" / "loot.txt").startswith(f"{swapped}/"):
                return "refused"
            return (swapped / "swap" / "loot.txt").read_text()
        except OSError:
            return "missed"

    assert any(naive() == CANARY for _ in range(100_000))
