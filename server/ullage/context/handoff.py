"""The handoff: a hidden, durable reminder, once in an epoch, in the band below the compaction line (blade 2.5).

Invariant: the model sees a handoff only when the epoch holds exactly one raw record and that record is valid. A raw
record is known by its event's type, never by wording, so no text that a person pastes becomes one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from ullage.context.counts import is_count
from ullage.context.limits import BOUNDS
from ullage.core.context import Budget, Occupancy, Phase
from ullage.core.exact import HEADINGS, RECORD_MARK
from ullage.core.state import HandoffItem, State

TAG = '<token-budget-handoff version="1">'
"""First line of every reminder (host protocol, blade 1.1)."""

ID_PREFIX = "handoff-message-"

_KEYS = frozenset(
    {
        "version",
        "messageId",
        "observedPromptTokens",
        "availableForInput",
        "handoffThreshold",
        "compactionThreshold",
        "createdAt",
    }
)
_CREATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_BAD_ID = re.compile(r"[\x00-\x1f\x7f]")


class HandoffState(StrEnum):
    """What an epoch says about its handoff."""

    NONE = "none"
    VALID = "valid"
    SUPPRESSED = "suppressed"
    """A malformed record, or more than one: nobody picks, so the model sees none until the next epoch."""


@dataclass(frozen=True, slots=True)
class HandoffRecord:
    """A valid version 1 record. `created_at` is UTC with milliseconds and `Z`."""

    message_id: str
    observed: int
    available: int
    handoff_line: int
    compaction_line: int
    created_at: str


# --- records ---


def make_record(unique: str, occupancy: Occupancy, at: int) -> str:
    """The raw JSON text of a new record. `unique` is an id from outside, `at` UTC milliseconds.

    Raises:
        ValueError: the occupancy is not in the handoff band, or the id is no message id.
    """
    budget = occupancy.budget
    fields = {
        "version": 1,
        "messageId": ID_PREFIX + unique,
        "observedPromptTokens": occupancy.used,
        "availableForInput": budget.input_budget,
        "handoffThreshold": budget.handoff_line,
        "compactionThreshold": budget.compaction_line,
        "createdAt": _canonical(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)),
    }
    raw = json.dumps(fields, separators=(",", ":"))
    if occupancy.phase is not Phase.HANDOFF_BAND or parse_record(raw) is None:
        raise ValueError("no valid handoff record can be made here")
    return raw


def _canonical(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse_record(raw: str) -> HandoffRecord | None:
    """The record, or None unless every rule of version 1 holds (blade 2.5)."""
    try:
        data = json.loads(raw, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.keys() != _KEYS or not is_count(data["version"]) or data["version"] != 1:
        return None
    record = HandoffRecord(
        data["messageId"],
        data["observedPromptTokens"],
        data["availableForInput"],
        data["handoffThreshold"],
        data["compactionThreshold"],
        data["createdAt"],
    )
    valid = _valid_id(record.message_id) and _valid_numbers(record) and _valid_moment(record.created_at)
    return record if valid else None


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _valid_id(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 128 and _BAD_ID.search(value) is None


def _valid_numbers(record: HandoffRecord) -> bool:
    """Thresholds are recomputed, not believed; the observed value stands in the band between them."""
    numbers = (record.observed, record.available, record.handoff_line, record.compaction_line)
    if not all(is_count(number) for number in numbers) or record.available < 1:
        return False
    handoff, compaction = record.available * 7 // 10, record.available * 8 // 10
    same = (record.handoff_line, record.compaction_line) == (handoff, compaction)
    return same and handoff <= record.observed < compaction


def _valid_moment(value: object) -> bool:
    if not isinstance(value, str) or _CREATED.fullmatch(value) is None:
        return False
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return False
    return _canonical(moment) == value


# --- state of the epoch ---


def handoff_state(state: State) -> HandoffState:
    """Whether this epoch has no handoff, a valid one, or one that is suppressed."""
    if state.facts.handoffs == 0:
        return HandoffState.NONE
    items = _handoff_items(state)
    valid = len(items) == 1 and parse_record(items[0].record) is not None
    return HandoffState.VALID if valid else HandoffState.SUPPRESSED


def shown_handoff(state: State) -> HandoffItem | None:
    """The handoff that the model sees, if any."""
    return _handoff_items(state)[0] if handoff_state(state) is HandoffState.VALID else None


def handoff_tokens(state: State) -> int:
    """Tokens of every raw handoff of this epoch, seen by the model or not."""
    return sum(item.tokens for item in _handoff_items(state))


def unseen_handoff_tokens(state: State) -> int:
    """Tokens of handoffs that the model does not see."""
    return handoff_tokens(state) if handoff_state(state) is HandoffState.SUPPRESSED else 0


def _handoff_items(state: State) -> list[HandoffItem]:
    """The raw records of this epoch, newest first. They stand near the end, so the walk is short."""
    found: list[HandoffItem] = []
    for index in range(len(state.items) - 1, -1, -1):
        if len(found) == state.facts.handoffs:
            break
        item = state.items[index]
        if isinstance(item, HandoffItem):
            found.append(item)
    return found


# --- reminder ---


def repeats_reminder(text: str) -> bool:
    """Whether a text is or quotes a reminder: nothing that outlives an epoch may."""
    said = " ".join(text.split())
    return TAG in text or any(line in said for line in _INSTRUCTIONS if len(line) >= _TELLING)


def reminder_text(record: HandoffRecord) -> str:
    """What the model reads. At most 2,000 bytes; the same record always gives the same text."""
    return _reminder(max(0, record.compaction_line - record.observed))


def planned_reminder(used: int, budget: Budget) -> str:
    """The reminder that a record made at this occupancy will give."""
    return _reminder(max(0, budget.compaction_line - used))


def _reminder(room: int) -> str:
    text = "\n".join((TAG, *_INSTRUCTIONS, f"Tokens left before that happens: {room}"))
    assert len(text.encode()) <= BOUNDS.reminder_bytes, "the reminder's wording outgrew its limit"
    return text


_TELLING = 80
"""Characters from which on nobody else writes a line of the reminder by chance."""

_INSTRUCTIONS = (
    "The host keeps this session inside the model's window. Soon it will replace the older part of this conversation",
    "by a short record, and you will go on from that record alone.",
    "Keep working on the task: do not stop, and do not answer this notice by itself. In the text of your next answer,",
    "beside the work, state where the task stands, in short lines:",
    "- the objective and every constraint on it",
    "- decisions taken, and why",
    "- what you changed: files, commands that had effects",
    "- what you verified, with the outcome you saw",
    "- work that still runs in the background",
    "- blockers and open risks",
    "- the exact next action",
    "Quote commands, arguments, paths and any demand on the form of the final answer exactly.",
    "What must not lose a letter, put on a line of its own, from the first column on, at most 2,048 characters long:",
    f"{RECORD_MARK} [heading] :: text",
    f"The heading is one of: {'; '.join(HEADINGS)}.",
    "Claim nothing that you did not observe; call a plan a plan, and unfinished work unfinished.",
    "Create no files for this bookkeeping.",
)
