"""The ledger: the seven-heading text that stands for what is no longer in view.

A replacement's ledger is a model's summary, when there is one, and then, below one line, the digest that the host
makes from facts. So the next compaction can keep the summary and make the digest anew.
"""

from __future__ import annotations

import re

from ullage.context.handoff import TAG

HEADINGS = (
    "Objective and constraints",
    "Decisions and rationale",
    "Workspace mutations",
    "Verification evidence",
    "Active tasks and background work",
    "Open risks or blockers",
    "Exact next action",
)
"""The headings of every ledger, in order (host protocol, blade 2.9)."""

FACTS_LINE = "=== Facts recorded by the host ==="
"""What follows this line in a ledger was made from facts, without a model."""

_PAIR = re.compile(r"<summary>((?:(?!<summary>).)*?)</summary>", re.DOTALL)


def ledger_text(summary: str, digest: str) -> str:
    """A ledger from its two parts; `summary` may be empty."""
    return "\n".join(part for part in (summary, FACTS_LINE, digest) if part)


def summary_of(ledger: str) -> str:
    """The part of a ledger that a model wrote; empty when there is none."""
    return ledger.rpartition(FACTS_LINE)[0].rstrip()


def escape_headings(text: str) -> str:
    """The text with the headings' spaces made visible, so that each heading stands once in a summary's input."""
    for heading in HEADINGS:
        text = text.replace(heading, heading.replace(" ", "\u00b7"))
    return text


def parse_summary(answer: str) -> str | None:
    """A model's ledger: the last complete summary pair, else the whole answer.

    None when that is blank, holds half a pair, or repeats a handoff reminder: such an answer is a failed sample.
    """
    pairs = _PAIR.findall(answer)
    if not pairs and ("<summary>" in answer or "</summary>" in answer):
        return None
    summary = (pairs[-1] if pairs else answer).strip().replace(FACTS_LINE, "")
    return summary if summary.strip() and TAG not in summary else None
