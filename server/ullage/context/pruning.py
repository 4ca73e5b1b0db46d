"""Pruning: old tool turns are left out of the next request, without a summary (design 6.3 to 6.5).

Two ways. *Micro* runs when the provider's cache has expired, so that rewriting what was sent costs nothing. *Snip* runs
under pressure, and where the phase is unknown. Both go by one order: what only read and succeeded, what changed
something, what failed, and of these the oldest first. Whether something failed is a field of its result, never a word.

Invariants. A plan is a function of state, occupancy and policy. It names whole tool turns only, never one of the newest
few, and nothing that a person said or pinned. It is worth it: it frees what the policy demands and makes the next
request smaller, or there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from ullage.context.handoff import unseen_handoff_tokens
from ullage.context.limits import Pruner, Pruning
from ullage.context.occupancy import count_message
from ullage.core.context import Occupancy, Omission, OmissionReason, Phase
from ullage.core.events import Entry, ItemsOmitted
from ullage.core.messages import Message, Op, Role, Text, ToolResult
from ullage.core.omission import message_units, omission
from ullage.core.ports import TokenCounter
from ullage.core.ratio import corrected, uncorrected
from ullage.core.reduce import reduce
from ullage.core.state import Facts, MessageItem, State

MARKER = (
    "[From here on, older parts of this conversation are left out to keep it inside the window, above all tool calls "
    "with their results. What is needed of them can be found again with the recall tool, where there is one, or read "
    "again.]"
)
"""What stands for everything that is left out. It names no figures, so that leaving out more later changes no byte of
what comes before that."""


class Rank(IntEnum):
    """The order in which tool turns go."""

    READ = 1
    WRITE = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Pruned:
    """A state after pruning, its occupancy, and the omissions that lead there."""

    state: State
    occupancy: Occupancy
    omissions: tuple[Omission, ...] = ()


def cache_expired(facts: Facts, at: int, lifetime: int | None) -> bool:
    """Whether the provider's cache of the last call is gone. `at` and `lifetime` in milliseconds; None: not known.

    The last call's time is in the log, so a restart changes nothing.
    """
    return lifetime is not None and facts.last_call_at is not None and at - facts.last_call_at > lifetime


def prune(
    state: State,
    measure: Callable[[State], Occupancy],
    policy: Pruning,
    counter: TokenCounter,
    *,
    cold: bool = False,
    pressing: bool = False,
) -> Pruned:
    """What is left out before the next step. `measure` is the one number of a state.

    `cold`: the provider's cache has expired. `pressing`: there is pressure that no token count shows.
    """
    found = Pruned(state, measure(state))
    unknown = found.occupancy.phase is Phase.UNKNOWN
    if cold:
        found = _pruned(found, measure, policy.micro, OmissionReason.MICRO, counter)
    if unknown:
        return _pruned(found, measure, policy.unknown, OmissionReason.SNIP, counter)
    if pressing or found.occupancy.phase is not Phase.BELOW_HANDOFF:
        return _pruned(found, measure, policy.snip, OmissionReason.SNIP, counter, whole=pressing)
    return found


def _pruned(
    before: Pruned,
    measure: Callable[[State], Occupancy],
    pruner: Pruner,
    reason: OmissionReason,
    counter: TokenCounter,
    *,
    whole: bool = False,
) -> Pruned:
    """The state after one way of pruning; the same one where that is not worth it."""
    chosen = _choose(before, pruner, reason, counter, whole)
    if chosen is None:
        return before
    facts = before.state.facts
    after = reduce(before.state, Entry(facts.last_seq + 1, facts.last_at, ItemsOmitted(chosen)))
    occupancy = measure(after)
    if occupancy.used >= before.occupancy.used:
        return before
    return Pruned(after, occupancy, (*before.omissions, chosen))


def _choose(
    before: Pruned, pruner: Pruner, reason: OmissionReason, counter: TokenCounter, whole: bool
) -> Omission | None:
    """The turns to leave out, as long as the next request is too large. `whole`: all that may go."""
    state, now = before.state, before.occupancy
    if _new_messages(state) < pruner.messages:
        return None
    found = omission(state.items)
    marker = found.tokens if found else marker_tokens(counter)
    left = now.fixed + state.tokens - unseen_handoff_tokens(state) + (0 if found else marker)
    enough = 0
    if pruner.down_to_percent is not None and not whole:
        enough = uncorrected(now.budget.input_budget * pruner.down_to_percent // 100, now.ratio)
    units, freed = list[tuple[int, ...]](), 0
    for _, turn in sorted(_candidates(state, pruner), key=lambda ranked: ranked[0]):
        if left - freed <= enough:
            break
        units.append(tuple(item.seq for item in turn))
        freed += sum(item.tokens for item in turn)
    gain = corrected(max(0, freed - (0 if found else marker)), now.ratio)
    if gain < max(1, min(pruner.least, now.budget.input_budget * pruner.least_percent // 100)):
        return None
    return Omission(tuple(sorted(units)), reason, freed, marker)


def marker_tokens(counter: TokenCounter) -> int:
    """What the marker takes in a request."""
    return count_message(Message("", Role.USER, (Text(MARKER),), ""), counter)


def _new_messages(state: State) -> int:
    """Messages since what is sent was last rewritten. So a policy without a token count prunes rarely, too."""
    return sum(isinstance(item, MessageItem) and item.seq > state.facts.revision for item in state.items)


# --- tool turns ---


def _candidates(state: State, pruner: Pruner) -> Iterator[tuple[Rank, list[MessageItem]]]:
    """Tool turns that may go, oldest first, each with its rank."""
    pinned = {pin.pin_id for pin in state.facts.pins}
    turns = [unit for unit in message_units(state.items) if unit[0].message.calls]
    for turn in turns[: max(0, len(turns) - pruner.keep_turns)]:
        results = [result for item in turn for result in item.message.results]
        stays = any(item.message.role is Role.USER or item.message.message_id in pinned for item in turn)
        if not stays and (pruner.writes or not any(_changed(result) for result in results)):
            yield _rank(results), turn


def _rank(results: list[ToolResult]) -> Rank:
    """The rank of a turn; of one with several results the latest to go. Calls without a result count as failed."""
    if not results or any(result.is_error or result.facts.exit_code for result in results):
        return Rank.ERROR
    return Rank.WRITE if any(_changed(result) for result in results) else Rank.READ


def _changed(result: ToolResult) -> bool:
    """Whether a call changed something, or may have: what an unknown tool did nobody knows."""
    return result.facts.op not in (Op.READ, Op.SEARCH) and not (result.is_error and result.facts.exit_code is None)
