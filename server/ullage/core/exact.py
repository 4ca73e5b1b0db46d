"""Exact continuation records: lines that a session must not lose a letter of, however often it is compacted.

Invariant: a record comes from what a person or the model said in a session, never from a tool's output, a file, a page
or a summary. So text that the agent only read can't write itself into what the next context is told to do. Records are
facts, so no compaction has to find them again.

One record stands on a line of its own, from its first column on:

    EXACT CONTINUATION RECORD [<heading>] :: <payload>
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ullage.core.context import ExactRecord
from ullage.core.limits import BOUNDS
from ullage.core.messages import Message, Role

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

RECORD_MARK = "EXACT CONTINUATION RECORD"
"""What a record's line begins with (host protocol, blade 2.12)."""

_LINE = re.compile(rf"^{RECORD_MARK} \[([^\]\r\n]{{1,64}})\] :: ([^\r\n]+)\r?$", re.MULTILINE)
_KNOWN = {heading.casefold(): heading for heading in HEADINGS}


def known_heading(text: str) -> str | None:
    """The ledger's heading that a text names, whatever its case and inner spaces."""
    return _KNOWN.get(" ".join(text.split()).casefold())


def records_in(text: str) -> Iterator[ExactRecord]:
    """The records of a text, in order. An unknown heading or a payload of another length makes none."""
    for heading, payload in _LINE.findall(text):
        known, said = known_heading(heading), payload.strip()
        if known is not None and 1 <= len(said) <= BOUNDS.record_chars:
            yield ExactRecord(known, said)


def with_records(records: tuple[ExactRecord, ...], message: Message, *, cut: bool = False) -> tuple[ExactRecord, ...]:
    """Records after a message, oldest first. Over a bound, the oldest go.

    Said again, a record is the newest. Of a message that was `cut` off, the last line does not count: it may be half.
    """
    said = message.role in (Role.USER, Role.ASSISTANT) and message.origin is None
    text = message.text if said else ""
    if RECORD_MARK not in text:
        return records
    found = dict.fromkeys(records_in(text.rpartition("\n")[0] if cut else text))
    return _bounded([*(record for record in records if record not in found), *found])


def _bounded(records: list[ExactRecord]) -> tuple[ExactRecord, ...]:
    """The newest that fit both bounds."""
    kept: list[ExactRecord] = []
    left = BOUNDS.records_chars
    for record in reversed(records[-BOUNDS.records_remembered :]):
        left -= len(record.payload)
        if left < 0:
            break
        kept.append(record)
    return tuple(reversed(kept))
