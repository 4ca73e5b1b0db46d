"""Shortening text: a head and a tail around a note that says what is missing.

Heads say what something is; tails hold exit codes, failures and last words. So neither is ever all that is left.
"""

from __future__ import annotations

from ullage.context.limits import LIMITS
from ullage.core.ports import TokenCounter


def clip(text: str, chars: int, where: str = "") -> str:
    """`text` with at most `chars` characters of its own, and a note in place of the rest.

    `where` says how to get at the rest, as a clause.
    """
    if len(text) <= chars:
        return text
    tail = chars * (100 - LIMITS.head_part) // 100
    head = chars - tail
    rest = f"{len(text) - chars:,} characters left out{'; ' if where else ''}{where}"
    return f"{text[:head]}\n[… {rest} …]\n{text[len(text) - tail :]}"


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
