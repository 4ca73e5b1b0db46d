"""Every scenario (T), weak point (W) and public bug (row) is named by a test, or stands here with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

SCENARIOS = 142
WEAK_POINTS = {"A": 14, "B": 8, "P": 11, "F": 8, "R": 5, "D": 5, "C": 14, "H": 3, "T": 3, "K": 2}
"""How many there are of each letter."""
# fmt: off
BUGS = (
    1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 26, 27, 28, 29, 30, 31, 32, 34, 35, 36,
    38, 39, 40, 42, 43, 44, 45, 46, 47, 49, 50, 51, 52, 54, 55, 56, 59, 60, 61, 62, 64, 65, 67,
)
# fmt: on
"""Rows of the list of bugs that users of coding agents reported."""

NO_TEST = {
    # comes later
    "T044": "comes with hooks",
    "T051": "comes with hooks",
    "T083": "comes with hooks",
    "T088": "comes with hooks",
    "W-F4": "comes with hooks",
    "W-F5": "comes with hooks",
    "W-F6": "comes with hooks",
    # there is no such thing here
    "T047": "no temperature is sent: current models refuse one",
    "T052": "a workspace is a folder of this machine",
    "T090": "no tool choice is ever forced",
    "T105": "a tool gives text, never an object",
    "T109": "every event has had its number since the format's first version",
    "T117": "no log is kept in memory",
    "T122-T124": "no sub-agents: nothing is handed to another run, and nothing acknowledged",
    "row 43": "no sub-agents",
    "T126": "no receipts: how a turn ended is one event",
    "T132": "a log only grows, so what a fork copies up to a seq can't change under it",
    "T135": "no older format from which a status could come",
    "T136": "no HTTP and no ACP; the one route there is has its table of errors",
    "T137-T141": "no memory that outlives a session",
    # decided otherwise
    "T080": "what is pruned alone is never replayed: a recovery is a compaction that fits, or an error",
    "T082": "what is pruned alone is never replayed",
    "T098-T099": "at its limit of steps a turn ends with an error, and nothing is compacted for it",
    "T142": "in parts, with scripted models; real ones are no part of the tests",
    "W-H2": "what an answer to a handoff holds is not checked: digest and records need none",
}
"""Numbers that no test names: why."""


def expanded(text: str) -> Iterator[str]:
    """The numbers that a text names, one by one: `T064-T066` are three, and so are `rows 17, 18 and 64`."""
    for first, last in re.findall(r"\bT(\d{3})(?:-T(\d{3}))?\b", text):
        yield from (f"T{number:03}" for number in range(int(first), int(last or first) + 1))
    yield from re.findall(r"\bW-[A-Z]\d+\b", text)
    for rows in re.findall(r"(?:\b|_)[Rr]ows?[ _](\d+(?:(?:, | and |_)\d+)*)", text):
        yield from (f"row {row}" for row in re.findall(r"\d+", rows) if int(row) in BUGS)


def there_are() -> list[str]:
    scenarios = [f"T{number:03}" for number in range(1, SCENARIOS + 1)]
    weak_points = [f"W-{letter}{n}" for letter, most in WEAK_POINTS.items() for n in range(1, most + 1)]
    return [*scenarios, *weak_points, *(f"row {row}" for row in BUGS)]


def named() -> set[str]:
    sources = (path for path in TESTS.rglob("*.py") if path != Path(__file__))
    return {number for path in sources for number in expanded(path.read_text(encoding="utf-8"))}


def test_every_number_has_a_test_or_a_reason() -> None:
    """And none has both, so that a reason goes when its test comes."""
    without = [number for numbers in NO_TEST for number in expanded(numbers)]
    assert len(set(without)) == len(without)
    assert sorted(set(there_are()) - named() - set(without)) == [], "neither a test nor a reason"
    assert sorted(named() & set(without)) == [], "a test and a reason why there is none"
    assert sorted((named() | set(without)) - set(there_are())) == [], "there is no such number"
