"""What going on with a session begins with: a large one that nobody used for a while is sent, and paid, whole."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.context.limits import LIMITS, Limits
from ullage.core.money import Price, most
from ullage.core.state import Facts


@dataclass(frozen=True, slots=True)
class Resuming:
    """Tokens of the next request, and the most micro-dollars of these: nothing is cached. `cost` None: no known price.

    `idle_ms` is how long no model was called, None where none ever was. `large_and_idle`: by the limits `resume_tokens`
    and `resume_minutes`, so that whoever goes on may be asked first.
    """

    tokens: int
    cost: int | None
    idle_ms: int | None
    large_and_idle: bool


def resuming(facts: Facts, tokens: int, at: int, price: Price | None, limits: Limits = LIMITS) -> Resuming:
    """Of a session whose next request takes so many tokens, at a time in UTC milliseconds."""
    idle = None if facts.last_call_at is None else max(0, at - facts.last_call_at)
    is_idle = idle is not None and idle >= limits.resume_minutes * 60_000
    cost = None if price is None else most(tokens, 0, price)
    return Resuming(tokens, cost, idle, is_idle and tokens >= limits.resume_tokens)
