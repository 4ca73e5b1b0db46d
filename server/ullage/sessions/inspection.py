"""What fills the window, and what a compaction would change: figures for a person to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from ullage.context.handoff import HandoffState, handoff_state
from ullage.core.commands import PlanCompaction
from ullage.core.context import CompactionReport, Occupancy, Pin, Reason, Strategy
from ullage.core.errors import ErrorReport
from ullage.core.events import Entry
from ullage.core.messages import Message, Role
from ullage.core.omission import omission
from ullage.core.ratio import corrected
from ullage.core.rewinding import standing
from ullage.core.state import HandoffItem, InstructionsItem, MessageItem, OmissionItem, ReplacementItem, State, Totals
from ullage.core.views import ShownCompaction, export_view, model_view
from ullage.sessions.engine import Engine

BIGGEST_ITEMS = 20
"""Items that an inspection names, the biggest first."""


@dataclass(frozen=True, slots=True)
class BiggestItem:
    """One message of the model view, in tokens."""

    seq: int
    message_id: str
    category: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    seq: int
    at: int
    report: CompactionReport


@dataclass(frozen=True, slots=True)
class Inspection:
    """`categories` are (name, tokens) and add up to the estimate of the next request; hidden is one figure."""

    occupancy: Occupancy
    categories: tuple[tuple[str, int], ...]
    biggest: tuple[BiggestItem, ...]
    checkpoints: tuple[CheckpointInfo, ...]
    pins: tuple[tuple[Pin, int], ...]
    """Each with the tokens it takes in a replacement."""
    turn_totals: Totals
    summary_totals: Totals
    handoff: HandoffState
    left_out: tuple[tuple[str, ...], int]
    """Ids of the messages that the model does not see though no compaction replaced them, and what they would take."""


@dataclass(frozen=True, slots=True)
class CompactionPreview:
    """What a manual compaction would do. `before` and `after` are occupancies; `after` is the most it may be."""

    before: int
    after: int
    strategy: Strategy | None
    messages: int
    error: ErrorReport | None = None


def inspect(state: State, engine: Engine, entries: Iterable[Entry]) -> Inspection:
    """Count the model view by category; checkpoints are read from the log."""
    tool_of = _tool_names(state)
    categories = Counter(dict(engine.fixed_parts()))
    biggest: list[BiggestItem] = []
    for item in model_view(state):
        match item:
            case MessageItem():
                category = _category(item.message, tool_of)
                biggest.append(BiggestItem(item.seq, item.message.message_id, category, item.tokens))
            case ReplacementItem():
                category = "summary"
            case InstructionsItem():
                category = "instructions"
                biggest.append(BiggestItem(item.seq, item.message.message_id, category, item.tokens))
            case HandoffItem():
                category = "hidden"
            case OmissionItem():
                category = "marker"
            case _:
                assert_never(item)
        categories[category] += item.tokens
    biggest.sort(key=lambda item: -item.tokens)
    facts = state.facts
    return Inspection(
        engine.occupancy(state),
        tuple(categories.most_common()),
        tuple(biggest[:BIGGEST_ITEMS]),
        tuple(_checkpoints(entries)),
        tuple((pin, engine.counter.count(pin.text)) for pin in facts.pins),
        facts.turn_totals,
        facts.summary_totals,
        handoff_state(state),
        _left_out(state),
    )


def _left_out(state: State) -> tuple[tuple[str, ...], int]:
    found = omission(model_view(state))
    items = [left.item for left in found.left_out] if found else []
    return tuple(item.message.message_id for item in items), sum(item.tokens for item in items)


def _tool_names(state: State) -> dict[str, str]:
    messages = (item.message for item in model_view(state) if isinstance(item, MessageItem))
    return {call.call_id: call.name for message in messages for call in message.calls}


def _category(message: Message, tool_of: dict[str, str]) -> str:
    if message.role is Role.TOOL:
        return f"results: {tool_of.get(message.results[0].call_id, 'unknown') if message.results else 'unknown'}"
    return str(message.role)


def _checkpoints(entries: Iterable[Entry]) -> Iterator[CheckpointInfo]:
    """Those that no rewind took back."""
    for shown in standing(export_view(entries)):
        if isinstance(shown.what, ShownCompaction):
            yield CheckpointInfo(shown.seq, shown.at, shown.what.report)


def preview(state: State, engine: Engine, instructions: str) -> CompactionPreview:
    """Plan a manual compaction and tell what it would come to."""
    before = engine.occupancy(state)
    planned = engine.plan_compaction(state, PlanCompaction(Reason.MANUAL, None, instructions))
    messages = sum(isinstance(item, MessageItem) for item in model_view(state))
    if isinstance(planned, ErrorReport):
        return CompactionPreview(before.used, before.used, None, messages, planned)
    return CompactionPreview(
        before.used, corrected(before.fixed + planned.target, planned.ratio), planned.strategy, messages
    )
