"""What may be spent.

Invariant: no request is sent that could take its call, its turn or its session past a hard cap. What it could take is
its projected tokens and the most its answer may have; in money, with nothing of it in a cache. A day's cap is soft: it
is told, and the request is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.core.breaker import CAP_REACHED
from ullage.core.errors import ErrorReport
from ullage.core.money import Price, in_dollars, most
from ullage.core.state import Facts, spent


@dataclass(frozen=True, slots=True)
class Caps:
    """None: no cap. `tokens` in tokens, `dollars` in micro-dollars; each is the setting `cap_...` of that name."""

    call_tokens: int | None = None
    call_dollars: int | None = None
    turn_tokens: int | None = None
    turn_dollars: int | None = None
    session_tokens: int | None = None
    session_dollars: int | None = None
    day_tokens: int | None = None
    day_dollars: int | None = None

    def of(self, scope: str) -> Paid:
        """Both caps of call, turn, session or day."""
        return Paid(getattr(self, f"{scope}_tokens"), getattr(self, f"{scope}_dollars"))

    @property
    def in_dollars(self) -> bool:
        """Whether any cap is one in money."""
        dollars = (self.call_dollars, self.turn_dollars, self.session_dollars, self.day_dollars)
        return any(cap is not None for cap in dollars)


@dataclass(frozen=True, slots=True)
class Paid:
    """Tokens and micro-dollars of something; None where they are not known, or not capped."""

    tokens: int | None
    micros: int | None


def call_most(tokens: int, max_output: int, price: Price | None) -> Paid:
    """The most that one request may take."""
    return Paid(tokens + max_output, None if price is None else most(tokens, max_output, price))


def over_cap(facts: Facts, call: Paid, caps: Caps) -> ErrorReport | None:
    """Why a request must not be sent, or None."""
    now, turn = spent(facts), facts.open_turn
    paid = {"call": (0, 0), "session": (now.tokens, now.paid)}
    if turn is not None:
        paid["turn"] = (now.tokens - turn.before.tokens, now.paid - turn.before.paid)
    found = (_over(scope, *before, call, caps) for scope, before in paid.items())
    return next((report for report in found if report is not None), None)


def over_day(day: Paid, call: Paid, caps: Caps) -> ErrorReport | None:
    """What is told where a day's cap is passed: `day` is what all sessions took so far."""
    return _over("day", day.tokens or 0, day.micros or 0, call, caps)


def _over(scope: str, tokens: int, micros: int, call: Paid, caps: Caps) -> ErrorReport | None:
    cap = caps.of(scope)
    if cap.tokens is not None and call.tokens is not None and tokens + call.tokens > cap.tokens:
        would = tokens + call.tokens
        return _passed(scope, f"cap_{scope}_tokens", f"{would:,} tokens", f"{cap.tokens:,}", cap.tokens, would)
    would = micros + (call.micros or 0)
    if cap.micros is not None and would > cap.micros:
        shown = in_dollars(would), in_dollars(cap.micros)
        return _passed(scope, f"cap_{scope}_dollars", *shown, cap.micros, would)
    return None


def _passed(scope: str, setting: str, would: str, allowed: str, cap: int, figure: int) -> ErrorReport:
    figures = (("cap", setting), ("allowed", cap), ("would_be", figure))
    if scope == "day":
        said = f"This day's sessions come to as much as {would} with the next call; {setting} is {allowed}."
        return ErrorReport("day_cap", said, f"Nothing is stopped. Raise {setting} to hear of it later.", figures)
    what = "The next call could take" if scope == "call" else f"The next call could bring this {scope} to"
    less = "Compact the session, or raise" if scope == "call" else "Raise"
    return ErrorReport(
        CAP_REACHED, f"{what} {would}; {setting} is {allowed}.", f"{less} the setting {setting} to go on.", figures
    )


def unknown_cost(facts: Facts, call: Paid, model: str, caps: Caps) -> ErrorReport | None:
    """What is told where caps in money cannot see everything."""
    now = spent(facts)
    unpriced = now.calls - now.priced
    if not caps.in_dollars or (call.micros is not None and not unpriced):
        return None
    if call.micros is None:
        said = f"What the model {model} costs is not known, so caps in dollars do not see its calls."
    else:
        said = f"What {unpriced} of {now.calls} calls cost is not known, so caps in dollars do not see them."
    return ErrorReport("cost_unknown", said, "Set `prices` for the model, or caps in tokens.", (("model", model),))
