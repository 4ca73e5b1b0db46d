"""How full the window is.

Invariant: `occupancy` is the only function that gives the number. What is shown, what decides and what is logged is
its value, taken once for a step.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from ullage.context.counts import is_count
from ullage.context.handoff import shown_handoff, unseen_handoff_tokens
from ullage.context.limits import BOUNDS
from ullage.core.context import Budget, Measured, Occupancy, Phase
from ullage.core.messages import Image, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from ullage.core.ports import ModelCard, TokenCounter, ToolSpec
from ullage.core.ratio import ONE, corrected, ratio
from ullage.core.requests import RequestTool
from ullage.core.state import Config, State

# --- counting ---


def count_message(message: Message, counter: TokenCounter) -> int:
    """Tokens of one message in a request (blade 2.2): framing, role, parts.

    An image has a fixed cost, whatever its bytes. Opaque parts are estimated at a quarter of their bytes. Reasoning
    that no provider signed is not sent back and costs nothing; of signed reasoning whose text is known the text is
    counted, since its signature is not billed.
    """
    parts = sum(_count_part(part, counter) for part in message.parts)
    return BOUNDS.message_framing + counter.count(message.role) + parts


def _count_part(part: Part, counter: TokenCounter) -> int:
    match part:
        case Text(text):
            return counter.count(text)
        case Reasoning() | Opaque():
            return part.tokens
        case Image():
            return BOUNDS.image_tokens
        case ToolCall():
            said = (part.name, part.arguments, part.call_id)
            return BOUNDS.call_framing + sum(counter.count(text) for text in said)
        case ToolResult():
            return BOUNDS.result_framing + counter.count(part.text) + BOUNDS.image_tokens * len(part.images)
        case _:
            assert_never(part)


@dataclass(frozen=True, slots=True)
class FixedPart:
    """Tokens of what every request carries. `parts` are (name, tokens), the biggest first."""

    tokens: int
    parts: tuple[tuple[str, int], ...]


def request_tool(spec: ToolSpec) -> RequestTool:
    """A tool as a request declares it: canonical JSON, so that the prefix stays the same bytes."""
    schema = json.dumps(spec.schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return RequestTool(spec.name, spec.description, schema)


def fixed_part(system: str, tools: Sequence[RequestTool], counter: TokenCounter) -> FixedPart:
    """Count system prompt and tool declarations (blade 2.3)."""
    framing = BOUNDS.message_framing + counter.count("system")
    parts = [("system prompt", framing + counter.count(system))] if system else []
    parts += [(f"tool {tool.name}", _count_tool(tool, counter)) for tool in tools]
    parts.sort(key=lambda part: -part[1])
    return FixedPart(sum(tokens for _, tokens in parts), tuple(parts))


def _count_tool(tool: RequestTool, counter: TokenCounter) -> int:
    declared = json.dumps({"name": tool.name, "description": tool.description}, ensure_ascii=False)
    return counter.count(declared) + counter.count(tool.schema) + BOUNDS.tool_framing


# --- budget ---


def budget(window: int | None, window_source: str, output_cap: int | None = None) -> Budget:
    """Divide a window (blade 1.1, 2.4). `output_cap` is the explicit reserve, taken as it is.

    A window or cap that is no valid count, or a cap that leaves nothing, gives an input budget of 0: phase unknown.
    """
    if window is None or not is_count(window) or window == 0:
        return Budget(None, window_source, 0, 0, 0, 0)
    reserve = _reserve(window) if output_cap is None else output_cap
    if not is_count(reserve) or reserve >= window:
        return Budget(window, window_source, 0, 0, 0, 0)
    available = window - reserve
    handoff, compaction = lines(available)
    return Budget(window, window_source, reserve, available, handoff, compaction)


def lines(available: int) -> tuple[int, int]:
    """Handoff line and compaction line of an input budget, in whole numbers only."""
    return available * BOUNDS.handoff_tenths // 10, available * BOUNDS.compaction_tenths // 10


def _reserve(window: int) -> int:
    tenth = window * BOUNDS.reserve_percent // 100
    return min(window // BOUNDS.reserve_window_part, max(BOUNDS.reserve_least, min(tenth, BOUNDS.reserve_most)))


def session_budget(config: Config, card: ModelCard, tier: int | None = None) -> Budget:
    """The budget of a session: its own window before the model's; the model's output cap before its own.

    No window is taken as larger than `tier`, from which on a provider asks a higher price.
    """
    cap = card.output_cap if card.output_cap is not None else config.output_cap
    own = config.window is not None
    window, source = (config.window, "setting") if own else (card.window, card.window_source)
    if tier is not None and (window is None or window > tier):
        window, source = tier, "price_tier"
    return budget(window, source, cap)


def phase(used: int, budget: Budget) -> Phase:
    """Where occupancy stands; a boundary belongs to the upper phase (blade 2.4)."""
    if budget.input_budget < 1 or not is_count(used):
        return Phase.UNKNOWN
    if used < budget.handoff_line:
        return Phase.BELOW_HANDOFF
    return Phase.HANDOFF_BAND if used < budget.compaction_line else Phase.COMPACTION_DUE


# --- occupancy ---


def occupancy(state: State, fixed: int, budget: Budget, model: str | None = None) -> Occupancy:
    """Tokens the next request will take (design 6.1), whatever the session's length at the cost of a few additions.

    What the last answer's provider measured, and the estimate of what came later; without such a measure, all is
    estimated. Growth of the fixed part is added, shrinkage is not believed. Estimates are corrected by the ratio
    learned for `model`, the one that will be asked; without a name they are taken as they are.
    """
    per_mille = ONE if model is None else ratio(state.facts, model)
    hidden, unseen = shown_handoff(state), unseen_handoff_tokens(state)
    baseline = state.facts.baseline
    if baseline is None or baseline.revision != state.facts.revision or not 0 < baseline.length <= len(state.items):
        used = estimated = corrected(fixed + state.tokens - unseen, per_mille)
        source = Measured.ESTIMATE
    else:
        later = state.tokens - state.items[baseline.length - 1].upto
        estimated = corrected(later + max(0, fixed - baseline.fixed), per_mille)
        used = baseline.total + estimated
        source = Measured.PROVIDER_PLUS_ESTIMATE if estimated else Measured.PROVIDER
    hidden_tokens = hidden.tokens if hidden else 0
    return Occupancy(used, estimated, source, fixed, hidden_tokens, phase(used, budget), budget, per_mille)
