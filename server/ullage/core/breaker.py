"""The breaker: a session does not ask for a summary that failed again and again.

Invariant: only what the model did counts. A failure is a model's summary that was asked for and could not be used
(errors, time-outs, bad answers, what the gate refused); one that was used ends the count; a cancel, a refused plan and
a context that changed meanwhile say nothing. It is a fact, so it outlives the process, and the session's alone.

Open, it lets a summary be tried again after a while, after as much new text as the window holds, and whenever a person
asks for a compaction.
"""

from __future__ import annotations

from dataclasses import replace

from ullage.core.context import CompactionReport, Occupancy, Reason, Strategy
from ullage.core.limits import Limits
from ullage.core.state import Breaker

BREAKER_OPEN = "breaker_open"
"""Why the model's summary was not used where it was not even asked for."""
CAP_REACHED = "cap_reached"
"""Why a request was not sent that would have passed a cap on spending; the model has no part in it."""
CONTEXT_CHANGED = "context_changed"
"""Why a replacement is refused whose plan was made against another revision."""


def breaker_after(breaker: Breaker, failure: str | None, at: int) -> Breaker:
    """The breaker after a compaction in which a model's summary was given up; None where none was asked for."""
    if failure in (None, BREAKER_OPEN, CAP_REACHED, CONTEXT_CHANGED):
        return breaker
    return replace(breaker, failures=breaker.failures + 1, at=at)


def breaker_after_report(breaker: Breaker, report: CompactionReport, at: int) -> Breaker:
    """The breaker after a compaction that was committed."""
    if report.strategy is Strategy.MODEL:
        return Breaker()
    counted = breaker_after(breaker, report.failure, at)
    if not counted.failures:
        return counted
    base = report.before if counted.failures > breaker.failures else breaker.used
    return replace(counted, used=base - (report.before - report.after))


def may_ask_model(breaker: Breaker, reason: Reason, now: Occupancy, at: int, limits: Limits) -> bool:
    """Whether a compaction asks for a model's summary. `at` is now, in UTC milliseconds."""
    if breaker.failures < limits.breaker_failures or reason is Reason.MANUAL:
        return True
    grown = now.budget.input_budget and now.used - breaker.used >= now.budget.input_budget
    return bool(grown) or at - breaker.at >= limits.breaker_ms
