"""Shortening text: a head and a tail around a note that says what is missing.

Heads say what something is; tails hold exit codes, failures and last words. So neither is ever all that is left. Where
a text has lines it is cut between them: half a path or half a number would pass for a whole one.
"""

from __future__ import annotations

from ullage.context.limits import BOUNDS
from ullage.core.ports import TokenCounter

NOTE = "[… "
"""What the line that stands for left out text begins with."""


def clip(text: str, chars: int, where: str = "") -> str:
    """`text` with at most `chars` characters of its own, and a note in place of the rest.

    `where` says how to get at the rest, as a clause.
    """
    if len(text) <= chars:
        return text
    tail = chars * (100 - BOUNDS.head_part) // 100
    head = _line_end(text, chars - tail)
    start = _line_start(text, len(text) - tail)
    rest = f"{start - head:,} characters left out{'; ' if where else ''}{where}"
    return f"{text[:head]}\n{NOTE}{rest} …]\n{text[start:]}"


def _line_end(text: str, end: int) -> int:
    """The last line's end at or before `end`; `end` itself where that would cost more than half of the head."""
    return max(text.rfind("\n", end // 2, end + 1), 0) or end


def _line_start(text: str, start: int) -> int:
    """The first line's start at or behind `start`; `start` itself where that would cost more than half of the tail."""
    return text.find("\n", start - 1, (start + len(text)) // 2) + 1 or start


def clip_tokens(text: str, most: int, counter: TokenCounter, where: str = "") -> str:
    """`text`, shortened to at most `most` tokens; at the least the note alone is left, whatever that takes."""
    # Characters per token vary inside a text, so the guess is corrected; it shrinks every time and ends at the note.
    short = clip(text, 16 * most, where)
    taken, chars = counter.count(short), min(len(text), 16 * most)
    if taken <= most:
        return short
    while chars > 0:
        chars = min(chars * most // taken, chars - 1 - chars // 50)
        short = clip(text, max(0, chars), where)
        taken = counter.count(short)
        if taken <= most:
            break
    return short


def level(lengths: list[int], total: int) -> int:
    """The largest cap with which texts of these lengths have at most `total` characters together."""
    left = total
    for done, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - done)
        if length > share:
            return share
        left -= length
    return max(lengths, default=0)
