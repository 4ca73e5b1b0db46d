"""The breaker: which compactions count, when the model is asked again, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.context.histories import Log, bare

from ullage.core.breaker import BREAKER_OPEN, CONTEXT_CHANGED, may_ask_model
from ullage.core.checkpoint import VERSION
from ullage.core.context import CompactionReport, Reason, Strategy
from ullage.core.errors import ErrorReport
from ullage.core.events import CheckpointCommitted, CompactionFailed, Event, Parent, SessionForked
from ullage.core.limits import Limits
from ullage.core.state import Breaker
from ullage.testing.playbook import occupancy

LIMITS = Limits()
MINUTE = 60_000


def ended(log: Log, strategy: Strategy, failure: str | None = None, before: int = 80_000, after: int = 30_000) -> Log:
    """A compaction that was committed."""
    facts = log.state.facts
    report = CompactionReport(Reason.THRESHOLD, strategy, "ullage", before, after, 0, 0, failure=failure)
    return log.add(CheckpointCommitted(VERSION, facts.last_seq, facts.revision, facts.epoch, bare(), report, facts))


def failed(failure: str | None) -> Event:
    return CompactionFailed(Reason.THRESHOLD, ErrorReport("x", "y"), failure)


HISTORIES: dict[str, tuple[list[tuple[Strategy, str | None]], int]] = {
    "bad answers": ([(Strategy.FALLBACK, "summary_unusable")] * 3, 3),
    "whatever the failure": ([(Strategy.FALLBACK, why) for why in ("overloaded", "insufficient_reduction")], 2),
    "one was used": ([(Strategy.FALLBACK, "x"), (Strategy.MODEL, None), (Strategy.FALLBACK, "x")], 1),
    "not asked": ([(Strategy.FALLBACK, "x"), (Strategy.FALLBACK, BREAKER_OPEN)], 1),
    "the context changed": ([(Strategy.FALLBACK, CONTEXT_CHANGED)], 0),
    "no summariser": ([(Strategy.DETERMINISTIC, None)] * 3, 0),
    "one without a model does not end the count": ([(Strategy.FALLBACK, "x"), (Strategy.DETERMINISTIC, None)], 1),
}


@pytest.mark.parametrize(("history", "failures"), HISTORIES.values(), ids=HISTORIES)
def test_what_counts(history: list[tuple[Strategy, str | None]], failures: int) -> None:
    """Design 6.15: errors, time-outs, bad answers and gate rejections; a success closes it."""
    log = Log()
    for strategy, failure in history:
        ended(log, strategy, failure)
    assert log.state.facts.breaker.failures == failures


def test_a_failed_compaction_counts_when_its_model_failed() -> None:
    log = Log().add(failed(None))
    assert log.state.facts.breaker == Breaker()
    assert log.add(failed("summary_timeout")).state.facts.breaker.failures == 1


@dataclass(frozen=True)
class Moment:
    """Three failures; then so much later, so full, for this reason: is the model asked?"""

    asked: bool
    after_ms: int = MINUTE
    used: int = 80_000
    reason: Reason = Reason.THRESHOLD


MOMENTS = {
    "at once": Moment(False),
    "on an overflow": Moment(False, reason=Reason.OVERFLOW),
    "just before ten minutes": Moment(False, 10 * MINUTE - 1),
    "after ten minutes": Moment(True, 10 * MINUTE),
    "grown by less than the input budget": Moment(False, used=30_000 + 90_000 - 1),
    "grown by the input budget": Moment(True, used=30_000 + 90_000),
    "a person asks": Moment(True, reason=Reason.MANUAL),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_when_the_model_is_asked_again(moment: Moment) -> None:
    """W-F3: half-open after ten minutes or real growth; T063."""
    log = Log()
    for _ in range(3):
        ended(log, Strategy.FALLBACK, "summary_unusable")
    breaker = log.state.facts.breaker
    at = log.state.facts.last_at + moment.after_ms
    assert may_ask_model(breaker, moment.reason, occupancy(moment.used), at, LIMITS) is moment.asked


def test_growth_adds_up_over_compactions() -> None:
    """One that did not ask takes nothing away from it."""
    log = Log()
    for _ in range(3):
        ended(log, Strategy.FALLBACK, "x")
    for grown in (50_000, 100_000):
        now = occupancy(80_000)
        at = log.state.facts.last_at
        assert may_ask_model(log.state.facts.breaker, Reason.THRESHOLD, now, at, LIMITS) is (grown >= 90_000)
        ended(log, Strategy.FALLBACK, BREAKER_OPEN)


def test_a_probe_that_fails_keeps_it_open() -> None:
    log = Log()
    for _ in range(3):
        ended(log, Strategy.FALLBACK, "x")
    ended(log, Strategy.FALLBACK, "x")
    at = log.state.facts.last_at + MINUTE
    assert not may_ask_model(log.state.facts.breaker, Reason.THRESHOLD, occupancy(80_000), at, LIMITS)
    assert ended(log, Strategy.MODEL).state.facts.breaker == Breaker()


def test_two_failures_are_not_enough() -> None:
    log = Log()
    for _ in range(2):
        ended(log, Strategy.FALLBACK, "x")
    assert may_ask_model(log.state.facts.breaker, Reason.THRESHOLD, occupancy(80_000), 0, LIMITS)


def test_a_fork_has_its_own() -> None:
    """T053: the key is workspace and session."""
    log = Log()
    for _ in range(3):
        ended(log, Strategy.FALLBACK, "x")
    assert log.add(SessionForked(Parent("p", 1))).state.facts.breaker == Breaker()
