"""What differs between two texts, for people and models. Pure.

Lines that both texts begin or end with are cut off first, and what is left is compared line by line only where that is
quick; else it counts as replaced whole.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from ullage.workspace.paths import shown

_COMPARED = 2_000
"""Most lines on either side that are compared with each other; the time grows with their product."""
_RANGES = 12
"""Most places named in a line."""
_CONTEXT = 3

Hunk = tuple[int, int, int, int]
"""Lines [a, b) of the old text became lines [c, d) of the new one, counted from 0."""


def hunks(before: list[str], after: list[str]) -> list[Hunk]:
    """Where two lists of lines differ, in order."""
    front, most = 0, min(len(before), len(after))
    while front < most and before[front] == after[front]:
        front += 1
    back = 0
    while back < most - front and before[-1 - back] == after[-1 - back]:
        back += 1
    old, new = before[front : len(before) - back], after[front : len(after) - back]
    if not old and not new:
        return []
    if max(len(old), len(new)) > _COMPARED:
        return [(front, front + len(old), front, front + len(new))]
    found = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(a + front, b + front, c + front, d + front) for tag, a, b, c, d in found if tag != "equal"]


def changed_lines(before: str, after: str) -> str:
    """Where a text changed, in lines of the new one: `line 3 changed, lines 10-12 added`."""
    found = [_place(hunk) for hunk in hunks(_lines(before), _lines(after))]
    more = [f"and {len(found) - _RANGES} more places"] if len(found) > _RANGES else []
    return ", ".join([*found[:_RANGES], *more])


def _place(hunk: Hunk) -> str:
    a, b, c, d = hunk
    if c == d:
        return f"{_span(a, b)} removed"
    return f"{_span(c, d)} {'added' if a == b else 'changed'}"


def _span(start: int, end: int) -> str:
    return f"line {end}" if end - start == 1 else f"lines {start + 1}-{end}"


def unified(name: str, before: str | None, after: str | None, most: int) -> str:
    """A unified diff in at most about `most` characters; None stands for no file.

    What would not be seen is escaped, and a line end that changed is seen.
    """
    old, new = _lines(before or ""), _lines(after or "")
    rows = [f"--- {'/dev/null' if before is None else name}", f"+++ {'/dev/null' if after is None else name}"]
    for row in _rows(old, new):
        most -= len(row) + 1
        if most < 0:
            rows.append("… the rest of the diff is cut off here")
            break
        rows.append(row)
    return "\n".join(rows)


def _rows(old: list[str], new: list[str]) -> Iterator[str]:
    for a, b, c, d in hunks(old, new):
        first, last = max(0, a - _CONTEXT), min(len(old), b + _CONTEXT)
        yield f"@@ -{first + 1},{last - first} +{c - (a - first) + 1},{d - c + last - first - (b - a)} @@"
        yield from (f" {_seen(line)}" for line in old[first:a])
        yield from (f"-{_seen(line)}" for line in old[a:b])
        yield from (f"+{_seen(line)}" for line in new[c:d])
        yield from (f" {_seen(line)}" for line in old[b:last])


def _seen(line: str) -> str:
    return "\t".join(shown(piece) for piece in line.removesuffix("\n").split("\t"))


def _lines(text: str) -> list[str]:
    r"""Lines with their ends; only `\n` ends one, as in the editors that show them."""
    found = text.split("\n")
    return [line + "\n" for line in found[:-1]] + ([found[-1]] if found[-1] else [])
