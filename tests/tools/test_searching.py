"""`glob` and `grep`: what they find, when they end, and that no pattern can hold the server."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.tools.hands import Hands
from tests.workspace.hostile import add_links

from ullage.core.messages import Op, ToolFacts
from ullage.tools.limits import Limits


@pytest.fixture
def tree(hands: Hands) -> Hands:
    for name in ("src/x.ts", "src/deep/y.tsx", "docs/z.md", "build/out.py"):
        (hands.ws / name).parent.mkdir(parents=True, exist_ok=True)
        (hands.ws / name).write_text("needle\n")
    hands.write(**{".gitignore": "build/\n"})
    return hands


GLOB_ROWS = {
    "*.py": ["src/a.py", "src/deep/b.py"],
    "**/*.py": ["src/a.py", "src/deep/b.py"],
    "src/*.py": ["src/a.py"],
    "src/**": ["src/a.py", "src/deep/b.py", "src/deep/y.tsx", "src/x.ts"],
    "src/**/y.*": ["src/deep/y.tsx"],
    "**/deep/**/*": ["src/deep/b.py", "src/deep/y.tsx"],
    "**/*.{ts,tsx}": ["src/deep/y.tsx", "src/x.ts"],
    "{src,docs}/[xz].{m,t}[ds]": ["docs/z.md", "src/x.ts"],
    "?.py": ["src/a.py", "src/deep/b.py"],
    "./src/?.py": ["src/a.py"],
    "SRC/*": [],
    "[": [],
    "**": [".gitignore", "docs/z.md", "readme.md", "src/a.py", "src/deep/b.py", "src/deep/y.tsx", "src/x.ts"],
}


@pytest.mark.parametrize("pattern", GLOB_ROWS)
async def test_glob(tree: Hands, pattern: str) -> None:
    expected = "\n".join(GLOB_ROWS[pattern]) or "[no file matches]"
    assert await tree.good("glob", pattern=pattern) == expected


async def test_glob_below_a_folder(tree: Hands) -> None:
    """The pattern starts from the folder; paths are still the workspace's. An ignored folder can be named."""
    assert await tree.good("glob", pattern="deep/*.py", path="src") == "src/deep/b.py"
    assert await tree.good("glob", pattern="*", path="build") == "build/out.py"
    assert "only the first 2 paths" in await tree.good("glob", pattern="*", limit=2)


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "src/../../*", "~/*", "{src,../ws2}/*", "file:///*", "a\\b"])
async def test_glob_patterns_lead_nowhere_else(tree: Hands, pattern: str) -> None:
    """P1 for patterns, in braces too."""
    await tree.refused("glob", "outside_workspace", "bad_path", pattern=pattern)
    await tree.refused("grep", "outside_workspace", "bad_path", pattern="x", glob=pattern)


async def test_cruel_glob_patterns(tree: Hands) -> None:
    """Stars do not backtrack into each other, and braces do not multiply without end."""
    tree.write(**{"a" * 200: ""})
    assert await tree.good("glob", pattern="*a" * 50 + "*b") == "[no file matches]"
    assert await tree.good("glob", pattern="**/" * 100 + "nothing") == "[no file matches]"
    await tree.refused("glob", "bad_input", pattern="{a,b}" * 12)
    await tree.refused("glob", "bad_input", pattern="x" * 1001)


async def test_grep(tree: Hands) -> None:
    outcome = await tree.run("grep", pattern="^# nee.le")
    assert outcome.text == "src/a.py:2: # needle"
    assert outcome.facts == ToolFacts(Op.SEARCH, ("src/a.py",), detail="1 hits for '^# nee.le' in 1 files")


GREP_ROWS = {
    "ignored files stay out": (
        {"pattern": "needle"},
        "docs/z.md:1: needle\nreadme.md:2: needle here\nsrc/a.py:2: # needle\nsrc/deep/y.tsx:1: needle\n"
        "src/x.ts:1: needle",
    ),
    "one file": ({"pattern": "needle", "path": "readme.md"}, "readme.md:2: needle here"),
    "an ignored file by name": ({"pattern": "needle", "path": "build/out.py"}, "build/out.py:1: needle"),
    "below a folder": ({"pattern": "needle", "path": "docs"}, "docs/z.md:1: needle"),
    "only some": ({"pattern": "needle", "glob": "*.{md}"}, "[no line matches]"),
    "only others": ({"pattern": "needle", "glob": "docs/*.md"}, "docs/z.md:1: needle"),
    "case": ({"pattern": "NEEDLE HERE"}, "[no line matches]"),
    "no case": ({"pattern": "NEEDLE HERE", "ignore_case": True}, "readme.md:2: needle here"),
    "capped": ({"pattern": "needle", "limit": 1},
               "docs/z.md:1: needle\n[only the first 1 hits are shown; narrow the search for more]"),
}  # fmt: skip


@pytest.mark.parametrize("row", GREP_ROWS)
async def test_grep_rows(tree: Hands, row: str) -> None:
    arguments, expected = GREP_ROWS[row]
    assert await tree.good("grep", **arguments) == expected


async def test_grep_contents(hands: Hands) -> None:
    """Binary and very big files are counted; of a long line the part around the hit is shown; CRLF is no text."""
    hands.limits = Limits(searched_bytes=50_000)
    hands.write(
        binary=b"needle\0",
        big="needle" * 10_000,
        long="x" * 9000 + "needle" + "y" * 9000,
        crlf="needle\r\n",
        l1=b"\xe9\n",
    )
    text = await hands.good("grep", pattern="needle$|needley")
    assert "crlf:1: needle\n" in text and "[2 binary or very big files were not searched]" in text
    line = next(line for line in text.splitlines() if line.startswith("long:"))
    assert "xneedley" in line and len(line) < 300


async def test_grep_follows_no_links(hands: Hands) -> None:
    add_links(hands.ws)
    assert await hands.good("grep", pattern="CANARY") == "[no line matches]"


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}", "*", "(?P<a", "(" * 400])
async def test_bad_patterns(hands: Hands, pattern: str) -> None:
    assert "no regular expression" in await hands.refused("grep", "bad_pattern", pattern=pattern)


def cruel(hands: Hands) -> dict[str, str]:
    """A search that would take longer than the universe has."""
    hands.write(victim="a" * 60 + "\n")
    return {"pattern": "(a+)+$b", "path": "victim"}


async def test_no_pattern_outlives_its_time(hands: Hands) -> None:
    """P13, bugs row 60: the time limit holds inside a single match, and the loop goes on meanwhile."""
    now = [0.0]
    box = hands.toolbox(clock=lambda: now[0])
    call = asyncio.ensure_future(box.run("grep", json.dumps(cruel(hands))))
    for _ in range(20):
        await asyncio.sleep(0)  # the loop is free while the match goes on
    assert not call.done()
    now[0] = 21.0
    outcome = await call
    assert not outcome.is_error and "the time limit was reached" in outcome.text


async def test_cancel_ends_a_match(hands: Hands) -> None:
    """P13: a cancel ends a search that would never end by itself."""
    call = asyncio.ensure_future(hands.toolbox().run("grep", json.dumps(cruel(hands))))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
