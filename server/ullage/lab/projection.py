"""How near the projection comes to what a provider then reported, over a recorded session.

A step is compared where the recording's provider reported the prompt. *Measured* steps are those whose projection
builds on the answer before; the others are estimated whole, and since no record holds the recorded program's own system
prompt and tools, their fixed part is taken from the first answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ullage.context.occupancy import budget, occupancy
from ullage.core.context import Measured
from ullage.core.events import AnswerReceived, Entry
from ullage.core.messages import Role
from ullage.core.ratio import ONE, ratio, uncorrected
from ullage.core.reduce import reduce
from ullage.core.state import MessageItem, State

_NO_BUDGET = budget(None, "recorded")


@dataclass(frozen=True, slots=True)
class Projected:
    """One step: what the provider billed for its prompt, and what we would have said. Tokens; `seq` of its answer."""

    seq: int
    model: str
    billed: int
    learned: int
    plain: int
    measured: bool
    new: int
    """Our count of what came since the answer before."""
    why: str
    """What stands out about the step."""

    @property
    def error(self) -> float:
        """With the learned ratio, as a share of what was billed; below zero is too low."""
        return (self.learned - self.billed) / self.billed

    @property
    def plain_error(self) -> float:
        return (self.plain - self.billed) / self.billed


@dataclass(frozen=True, slots=True)
class Errors:
    """Sizes of errors in percent, and the share of projections that were too low."""

    steps: int
    median: float
    p95: float
    too_low: float


def projections(entries: Iterable[Entry]) -> list[Projected]:
    """Every step of a session whose prompt was reported, but the first, which tells the fixed part."""
    state, fixed, found = State(), None, list[Projected]()
    for entry in entries:
        event = entry.event
        if isinstance(event, AnswerReceived) and event.usage.prompt:
            if fixed is None:
                per_mille = ratio(state.facts, event.model)
                fixed = max(0, uncorrected(event.usage.prompt, per_mille) - state.tokens)
            else:
                found.append(_projected(state, entry.seq, event, event.usage.prompt, fixed))
        state = reduce(state, entry)
    return found


def _projected(state: State, seq: int, event: AnswerReceived, billed: int, fixed: int) -> Projected:
    learned = occupancy(state, 0, _NO_BUDGET, event.model)
    plain = occupancy(state, 0, _NO_BUDGET)
    measured = learned.source is not Measured.ESTIMATE
    if not measured:
        learned, plain = occupancy(state, fixed, _NO_BUDGET, event.model), occupancy(state, fixed, _NO_BUDGET)
    new = plain.estimated if measured else 0
    why = _why(state, billed, learned.used, new, measured)
    return Projected(seq, event.model, billed, learned.used, plain.used, measured, new, why)


def _why(state: State, billed: int, projected: int, new: int, measured: bool) -> str:
    if not measured:
        return "nothing to build on: a compaction, an unreported answer, or another model"
    newest = next((item.message for item in reversed(state.items) if isinstance(item, MessageItem)), None)
    if billed < projected - new:
        return "the prompt shrank: the client left out what it had sent before"
    if billed - projected > max(500, new):
        return "the client sent text that no record holds"
    if newest is not None and newest.role is Role.USER:
        return "a person's message, with what the client adds to it"
    return "the estimate of what was new"


def errors(found: Sequence[float]) -> Errors:
    """Figures of errors, each a share of what was billed."""
    if not found:
        return Errors(0, 0.0, 0.0, 0.0)
    sizes = sorted(100 * abs(error) for error in found)
    middle = len(sizes) // 2
    median = sizes[middle] if len(sizes) % 2 else (sizes[middle - 1] + sizes[middle]) / 2
    low = 100 * sum(error < 0 for error in found) / len(found)
    return Errors(len(sizes), median, sizes[min(len(sizes) - 1, len(sizes) * 95 // 100)], low)


def billing_of(state: State, model: str) -> int:
    """The ratio that a session's answers showed for a model: what a walk is billed at."""
    return max(ONE, ratio(state.facts, model))
