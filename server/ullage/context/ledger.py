"""The ledger: the seven-heading text that stands for what is no longer in view.

A replacement's ledger is a model's summary, when there is one, and then, below one line, the digest that the host
makes from facts. So the next compaction can keep the summary and make the digest anew.

Invariant: a model's summary that gets into a ledger has each of the seven headings once, in order, and every line that
stands in a block of code is as the model wrote it. What is no summary (see `read_summary`) never gets there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ullage.context.handoff import repeats_reminder
from ullage.context.sections import Sections, is_blank, join_sections, read_sections
from ullage.context.shorten import clip, level
from ullage.core.exact import HEADINGS as HEADINGS
from ullage.core.exact import RECORD_MARK
from ullage.core.messages import Text, ToolCall
from ullage.core.ports import Answer, TokenCounter

FACTS_LINE = "=== Facts recorded by the host ==="
"""What follows this line in a ledger was made from facts, without a model."""

_PAIR = re.compile(r"<summary>((?:(?!<summary>).)*?)</summary>", re.DOTALL)
_TAG = re.compile(r"</?(?:summary|analysis)>")
_WHOLE = ("end_turn", "stop", "stop_sequence")
"""Stops of an answer that says all it meant to say."""
_MARKER = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+")


def ledger_text(summary: str, digest: str) -> str:
    """A ledger from its two parts; each may be empty."""
    return "\n".join(part for part in (summary, FACTS_LINE if digest else "", digest) if part)


def summary_of(ledger: str) -> str:
    """The part of a ledger that a model wrote; empty when there is none."""
    return ledger.rpartition(FACTS_LINE)[0].rstrip()


def escape_headings(text: str) -> str:
    """The text with the headings' spaces made visible, so that each heading stands once in a summary's input."""
    for heading in HEADINGS:
        text = text.replace(heading, heading.replace(" ", "\u00b7"))
    return text


# --- a model's summary ---


def read_summary(answer: Answer) -> str | None:
    """The ledger that a sample holds, put in order; None when it is no use.

    That is an answer that was cut off, calls tools, or holds no ledger in the sense of `parse_summary`.
    """
    if answer.stop not in _WHOLE or any(isinstance(part, ToolCall) for part in answer.parts):
        return None
    return parse_summary("\n".join(part.text for part in answer.parts if isinstance(part, Text)))


def parse_summary(answer: str) -> str | None:
    """A model's ledger, put in order: the last summary pair after the analysis, else the whole answer.

    None when that is blank, bare headings, half a pair, no ledger at all, or repeats a handoff reminder.
    """
    text = _tagged(answer)
    if text is None or repeats_reminder(text):
        return None
    text = text.replace(FACTS_LINE, "")
    sections = read_sections(text)
    if not sections.found:
        # Prose that nobody marked as a ledger is a refusal, or the task going on.
        return join_sections(sections) if text is not answer and not is_blank(sections.before) else None
    return None if all(map(is_blank, sections.found.values())) else join_sections(sections)


def _tagged(answer: str) -> str | None:
    """What stands between the last pair of tags; the answer where it has none; None where tags are broken."""
    _, closed, rest = answer.rpartition("</analysis>")
    if not closed and "<analysis>" in answer.partition("<summary>")[0]:
        return None
    pairs = [*_PAIR.finditer(rest)]
    if not pairs:
        return None if _TAG.search(answer) else answer
    broken = _TAG.search(rest, pairs[-1].end())
    return None if broken or not pairs[-1][1].strip() else pairs[-1][1]


def without_copies(summary: str, exact: Iterable[str]) -> str:
    """A model's ledger without its own copies of exact records and pins: the host puts these beside it to the letter.

    Only a whole list item that is such a text goes, and every line that claims to be a record.
    """
    texts = {_spaced(text) for text in exact}
    if not texts and RECORD_MARK not in summary:
        return summary
    return join_sections(read_sections(summary).without(lambda line: _is_copy(line, texts)))


def fit_summary(summary: str, most: int, counter: TokenCounter) -> str:
    """A model's ledger in at most `most` tokens: its longest sections are shortened, and each heading stays.

    Nothing where not even the headings would fit.
    """
    taken = counter.count(summary)
    if taken <= most:
        return summary
    sections = read_sections(summary)
    texts = {heading: "\n".join(lines) for heading, lines in sections.found.items()}
    lengths = [len(text) for text in texts.values()]
    chars = sum(lengths)
    while taken > most and chars > 0:
        chars = min(chars * most // taken, chars - 1 - chars // 50)
        cap = level(lengths, max(0, chars))
        cut = {heading: clip(text, cap).split("\n") for heading, text in texts.items()}
        summary = join_sections(Sections(found=cut))
        taken = counter.count(summary)
    return summary if taken <= most else ""


def _is_copy(line: str, texts: set[str]) -> bool:
    item = _MARKER.sub("", line)
    if item.lstrip().startswith(RECORD_MARK):
        return True
    return item != line and (_spaced(item) in texts or _spaced(item.strip().strip("`")) in texts)


def _spaced(text: str) -> str:
    return " ".join(text.split())
