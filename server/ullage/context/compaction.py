"""Deciding about compaction: whether a step may go on, what a compaction will do, whether its result passes.

Invariant: no request is sent at or above the compaction line, and a compaction that is committed makes the next request
smaller and leaves it below the handoff line. What can't lead there is refused before any call, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ullage.context.assembly import Least, least
from ullage.context.handoff import HandoffState, handoff_state, handoff_tokens, planned_reminder
from ullage.context.instructions import share
from ullage.context.limits import BOUNDS, LIMITS, PRUNING, Limits, Pruning
from ullage.context.occupancy import FixedPart, count_message, lines, occupancy
from ullage.context.profiles.profile import Profile
from ullage.context.pruning import Pruned, prune
from ullage.context.replacement import records_tokens
from ullage.core.checkpoint import VERSION, checkpoint_problem
from ullage.core.context import (
    Budget,
    CompactFirst,
    CompactionPlan,
    CompactionReport,
    HandoffFirst,
    Impossible,
    Occupancy,
    Phase,
    Proceed,
    Reason,
    Replacement,
    StepPlan,
    Strategy,
)
from ullage.core.errors import ErrorReport
from ullage.core.events import CheckpointCommitted
from ullage.core.messages import Message, Role, Text
from ullage.core.ports import TokenCounter
from ullage.core.ratio import corrected, uncorrected
from ullage.core.state import State

# --- before a step ---


def plan_step(
    state: State,
    fixed: FixedPart,
    budget: Budget,
    counter: TokenCounter,
    *,
    model: str | None = None,
    too_large: Callable[[State], bool] = lambda state: False,
    pruning: Pruning = PRUNING,
    cold: bool = False,
    limits: Limits = LIMITS,
) -> StepPlan:
    """What comes before the next provider call (design 6.3): pruning, and by what that leaves handoff or compaction.

    `too_large`: whether the request of a state exceeds the limit in bytes. `model` names whose learned ratio corrects
    estimates; None leaves them as they are. `cold`: the provider's cache has expired. Where even pruning would not
    spare a compaction, nothing is pruned: its source is whole.
    """

    def measure(state: State) -> Occupancy:
        return occupancy(state, fixed.tokens, budget, model)

    now = measure(state)
    if now.phase is not Phase.UNKNOWN and corrected(fixed.tokens, now.ratio) >= budget.compaction_line:
        return Impossible(now, _fixed_too_large(fixed, now))
    pressing = too_large(state)
    pruned = prune(state, measure, pruning, counter, cold=cold, pressing=pressing)
    due = too_large(pruned.state) if pruned.omissions else pressing
    if due or pruned.occupancy.phase is Phase.COMPACTION_DUE:
        refusal = _no_compaction(state, now, limits)
        return Impossible(now, refusal) if refusal else CompactFirst(now, Reason.THRESHOLD)
    return _handoff(pruned, counter) or Proceed(pruned.occupancy, pruned.omissions)


def _handoff(pruned: Pruned, counter: TokenCounter) -> HandoffFirst | None:
    """The handoff, where one is due after pruning and there is room for it."""
    state, now = pruned.state, pruned.occupancy
    if now.phase is not Phase.HANDOFF_BAND or not state.facts.config.handoff:
        return None
    if handoff_state(state) is not HandoffState.NONE:
        return None
    reminder = Message("", Role.USER, (Text(planned_reminder(now.used, now.budget)),), "")
    tokens = count_message(reminder, counter)
    fits = now.used + corrected(tokens, now.ratio) < now.budget.compaction_line
    return HandoffFirst(now, tokens, pruned.omissions) if fits else None


def _no_compaction(state: State, now: Occupancy, limits: Limits) -> ErrorReport | None:
    """Why no automatic compaction may run; None when it may."""
    if not state.facts.config.auto_compaction:
        return ErrorReport(
            "compaction_off",
            f"The next request would take {now.used:,} tokens, and automatic compaction is off.",
            "Compact by hand, choose a model with a larger window, or turn automatic compaction on.",
            _figures(now),
        )
    return _no_progress(now) if state.facts.attempts >= limits.attempts else None


def _no_progress(now: Occupancy) -> ErrorReport:
    return ErrorReport(
        "compaction_no_progress",
        f"Compacting did not make the next request small enough ({now.used:,} tokens).",
        "Compact by hand, choose a model with a larger window, or fork from an earlier point.",
        _figures(now),
    )


def _figures(now: Occupancy) -> tuple[tuple[str, str | int], ...]:
    return (("used", now.used), ("compaction_line", now.budget.compaction_line), ("window", now.budget.window or 0))


def _fixed_too_large(fixed: FixedPart, now: Occupancy) -> ErrorReport:
    biggest, line = fixed.parts[:3], now.budget.compaction_line
    tokens = corrected(fixed.tokens, now.ratio)
    named = ", ".join(f"{name} {tokens:,}" for name, tokens in biggest)
    return ErrorReport(
        "fixed_too_large",
        f"System prompt and tools alone take {tokens:,} tokens, and compaction is due at {line:,}. "
        f"The biggest parts: {named}.",
        "Choose a model with a larger window, or fewer tools.",
        (("fixed", tokens), ("compaction_line", line), *biggest),
    )


# --- the plan ---


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Tokens a replacement may take: what the gate wants, and what nothing may pass, with the word for it."""

    wanted: int
    most: int
    code: str


def plan(
    state: State,
    reason: Reason,
    now: Occupancy,
    fixed: FixedPart,
    profile: Profile,
    counter: TokenCounter,
    *,
    instructions: str = "",
    limit: int | None = None,
    has_summariser: bool = False,
    may_ask: bool = True,
    limits: Limits = LIMITS,
    most: int | None = None,
) -> CompactionPlan | ErrorReport:
    """What a compaction of this state will do, or why none makes sense. `limit` is the window a provider named.

    Without `may_ask` a summariser there is is not asked (`core.breaker`). `most` caps the replacement, in tokens; who
    names a cap wants it kept even for a small gain.
    """
    if now.budget.input_budget and corrected(fixed.tokens, now.ratio) >= now.budget.compaction_line:
        return _fixed_too_large(fixed, now)
    source = state.tokens - handoff_tokens(state)
    floor = _least(state, counter, most, share(now.budget, limits))
    if source - floor.tokens < (limits.smallest_gain if most is None else 1):
        return _nothing_to_gain(source, floor.tokens)
    bounds = _bounds(state, reason, now, source, limit, limits)
    if most is not None:
        bounds = replace(bounds, wanted=min(bounds.wanted, most))
    if floor.tokens > bounds.most:
        return _too_large(bounds, floor, fixed, now)
    return CompactionPlan(
        reason,
        (Strategy.MODEL if may_ask else Strategy.FALLBACK) if has_summariser else Strategy.DETERMINISTIC,
        profile.name,
        state.facts.last_seq,
        state.facts.revision,
        source,
        now.used,
        min(max(bounds.wanted, _mandatory(state, floor, profile, counter)), bounds.most),
        instructions,
        ask_frontier=reason is not Reason.MANUAL and handoff_state(state) is HandoffState.NONE,
        ratio=now.ratio,
    )


def _mandatory(state: State, floor: Least, profile: Profile, counter: TokenCounter) -> int:
    """Tokens that a replacement must have room for: beside the least, records and whole pins, their shares at most."""
    shares, records = profile.shares, records_tokens(state.facts.records, counter)
    target, before = floor.tokens, -1
    while target != before:  # a share of more is more; together they are less than all, so this ends
        before = target
        more = max(0, min(floor.whole_pins, target * shares.pins // 100) - floor.pins)
        target = floor.tokens + min(records, target * shares.records // 100) + more
    return target


def _least(state: State, counter: TokenCounter, most: int | None, instructions: int) -> Least:
    """What no replacement goes below; a terse one is only made where it stays a small one."""
    if most is not None and most <= BOUNDS.terse_target:
        terse = least(state, counter, terse=True, instructions=instructions)
        if terse.tokens <= BOUNDS.terse_target:
            return terse
    return least(state, counter, instructions=instructions)


def _bounds(state: State, reason: Reason, now: Occupancy, source: int, limit: int | None, limits: Limits) -> _Bounds:
    """The gate of design 6.10: limits that give way to what is mandatory, and limits that do not.

    A replacement is counted in our tokens; what is measured in the provider's is brought down to them first.
    """
    wanted = min(limits.gate_most, max(limits.gate_floor, source * limits.gate_source_percent // 100))
    if now.budget.window is not None:
        wanted = min(wanted, uncorrected(now.budget.window * limits.gate_window_percent // 100, now.ratio))
    # Where a provider measured less than we estimate, an estimated result could look larger than what was there.
    firm = [(source - 1, "nothing_to_gain"), (uncorrected(now.used - 1, now.ratio) - now.fixed, "nothing_to_gain")]
    line = _line(now.budget, limit)
    if line is not None:
        firm.append((uncorrected(line - 1, now.ratio) - now.fixed, "mandatory_too_large"))
    if reason is not Reason.MANUAL and state.facts.attempt_size:
        smaller = state.facts.attempt_size * limits.attempt_percent // 100
        firm.append((uncorrected(smaller, now.ratio) - now.fixed, "compaction_no_progress"))
    most, code = min(firm)
    return _Bounds(wanted, most, code)


def _line(budget: Budget, limit: int | None) -> int | None:
    """The handoff line, of the window that the provider named if that is the smaller one; None when unknown."""
    known = [budget.handoff_line] if budget.input_budget else []
    if limit is not None:
        reserve = budget.reserve if 2 * budget.reserve <= limit else limit // BOUNDS.reserve_window_part
        known.append(lines(limit - reserve)[0])
    return min(known, default=None)


def _nothing_to_gain(source: int, least: int) -> ErrorReport:
    return ErrorReport(
        "nothing_to_gain",
        f"There is nothing to compact: of {source:,} tokens, {min(source, least):,} must stay.",
        "Go on; compact when there is more.",
        (("source", source), ("mandatory", least)),
    )


def _too_large(bounds: _Bounds, floor: Least, fixed: FixedPart, now: Occupancy) -> ErrorReport:
    match bounds.code:
        case "nothing_to_gain":
            return _nothing_to_gain(bounds.most + 1, floor.tokens)
        case "compaction_no_progress":
            return _no_progress(now)
        case _:
            return _mandatory_too_large(bounds.most + 1, floor, fixed)


def _mandatory_too_large(room: int, floor: Least, fixed: FixedPart) -> ErrorReport:
    line = room + fixed.tokens
    pinned = f" ({floor.pins:,} of them pinned)" if floor.pins else ""
    return ErrorReport(
        "mandatory_too_large",
        f"The active task and what must stay with it take {floor.tokens:,} tokens{pinned}, system prompt and tools "
        f"{fixed.tokens:,}; together they leave no room below {line:,}.",
        "Choose a model with a larger window, take pins back, or put long text into a file and name it.",
        (("mandatory", floor.tokens), ("pins", floor.pins), ("fixed", fixed.tokens), ("handoff_line", line)),
    )


# --- the gate ---


@dataclass(frozen=True, slots=True)
class Accepted:
    """The replacement passes; the next request will take `after` tokens."""

    after: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The replacement does not pass; `reason` is a stable snake_case word."""

    reason: str


def gate(
    plan: CompactionPlan, state: State, replacement: Replacement, fixed: int, budget: Budget
) -> Accepted | Rejected:
    """Whether a replacement may be committed: counted, not believed (design 6.10)."""
    after = corrected(fixed + replacement.tokens, plan.ratio)
    if plan.revision != state.facts.revision:
        return Rejected("context_changed")
    if replacement.tokens > plan.target or replacement.tokens >= plan.source_tokens:
        return Rejected("insufficient_reduction")
    if budget.input_budget and after >= budget.handoff_line:
        return Rejected("above_handoff_line")
    report = CompactionReport(plan.reason, plan.strategy, plan.profile, plan.before, after, 0, 0)
    trial = CheckpointCommitted(
        VERSION, plan.source_seq, plan.revision, state.facts.epoch, replacement, report, state.facts
    )
    return Rejected("checkpoint_refused") if checkpoint_problem(trial) else Accepted(after)
