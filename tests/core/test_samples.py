"""The turn machine's sampling loop: another sample, a smaller input, or the same compaction without the model."""

from __future__ import annotations

import pytest

from ullage.core.commands import Summarise
from ullage.core.context import CompactionPlan, Strategy
from ullage.core.events import CompactionFailed, Purpose, UsageBooked
from ullage.core.inputs import CancelAsked, GateRejected, SampleFailed, SampleProblem, Stopped
from ullage.core.limits import Limits
from ullage.core.messages import Usage
from ullage.core.turn_state import Turn
from ullage.testing.playbook import Row, Stage, check_turn, compact_first, error, plan, planned, prompt, sampled

BOOK = "append usage_booked; "
OVERFLOW, FINAL, TRANSIENT = SampleProblem.OVERFLOW, SampleProblem.FINAL, SampleProblem.TRANSIENT


def sampling(strategy: Strategy = Strategy.MODEL, **limits: int) -> tuple[Stage, CompactionPlan]:
    stage = Stage(turn=Turn(limits=Limits(**limits)))
    start = (prompt("t1"), "append prompt_queued turn_started; plan_step")
    check_turn(start, (compact_first(), "plan_compaction threshold"), stage=stage)
    return stage, plan(stage.state, strategy=strategy)


def check_samples(*failures: tuple[SampleProblem, str], **limits: int) -> list[Summarise]:
    """Play failures, each with what it orders; answers every sample that was ordered."""
    stage, of = sampling(**limits)
    rows: list[Row] = [(planned(of), "summarise 1")]
    rows += [(SampleFailed(of, error(problem), problem=problem), ordered) for problem, ordered in failures]
    check_turn(*rows, stage=stage)
    return [command for command in stage.ordered if isinstance(command, Summarise)]


def test_a_failure_that_may_pass_is_waited_for() -> None:
    """T058, T059, blade 2.10: 375 ms, then 750 ms, then no more."""
    samples = check_samples(
        (TRANSIENT, BOOK + "summarise 2 after 375"),
        (TRANSIENT, BOOK + "summarise 3 after 750"),
        (TRANSIENT, BOOK + "assemble without_model transient"),
    )
    assert [sample.most_ms for sample in samples] == [120_000, 119_625, 118_875]


def test_an_overflow_shrinks_the_input_at_once() -> None:
    """T064-T067"""
    check_samples(
        (OVERFLOW, BOOK + "summarise 2 shrunk 1"),
        (OVERFLOW, BOOK + "summarise 3 shrunk 2"),
        (OVERFLOW, BOOK + "assemble without_model overflow"),
    )
    check_samples(
        (OVERFLOW, BOOK + "summarise 2 shrunk 1"),
        (TRANSIENT, BOOK + "summarise 3 shrunk 1 after 750"),
    )


def test_what_no_sample_would_mend_ends_sampling() -> None:
    check_samples((FINAL, BOOK + "assemble without_model final"))


def test_no_call_is_no_sample() -> None:
    """T068: where no smaller input exists there is no second call, and nothing to book."""
    stage, of = sampling()
    first = SampleFailed(of, error("overflow"), problem=OVERFLOW)
    none = SampleFailed(of, error("context_exhausted"), problem=FINAL, asked=False)
    check_turn(
        (planned(of), "summarise 1"),
        (first, BOOK + "summarise 2 shrunk 1"),
        (none, "assemble without_model context_exhausted"),
        stage=stage,
    )
    assert stage.ordered[-1].samples == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("spent", "next_ms", "next_tokens"),
    [
        ({"spent_ms": 100_000}, 19_625, 24_000),
        ({"spent_ms": 119_625}, None, None),
        ({"spent_tokens": 23_999}, 119_625, 1),
        ({"spent_tokens": 24_000}, None, None),
    ],
)
def test_samples_share_one_budget(spent: dict[str, int], next_ms: int | None, next_tokens: int | None) -> None:
    """Design 6.7: 120 s and 24k output tokens for all of them; the waiting counts too."""
    stage, of = sampling()
    ordered = "assemble without_model slow" if next_ms is None else "summarise 2 after 375"
    slow = SampleFailed(of, error("slow"), **spent)
    check_turn((planned(of), "summarise 1"), (slow, BOOK + ordered), stage=stage)
    last = stage.ordered[-1]
    if isinstance(last, Summarise):
        assert (last.most_ms, last.most_tokens) == (next_ms, next_tokens)


def test_every_sample_is_booked() -> None:
    """T058, T092"""
    stage, of = sampling()
    bad = SampleFailed(of, error("empty"), Usage(40, 4))
    check_turn(
        (planned(of), "summarise 1"),
        (bad, BOOK + "summarise 2 after 375"),
        (sampled(of), BOOK + "assemble with_model"),
        stage=stage,
    )
    booked = [entry.event for entry in stage.entries if isinstance(entry.event, UsageBooked)]
    assert [(event.purpose, event.usage.prompt) for event in booked] == [(Purpose.SUMMARY, 40), (Purpose.SUMMARY, 50)]


def test_an_open_breaker_asks_nobody() -> None:
    """T063"""
    stage, of = sampling(Strategy.FALLBACK)
    check_turn((planned(of), "assemble without_model breaker_open"), stage=stage)


def test_a_fallback_that_fails_too_keeps_why_the_model_failed() -> None:
    """The breaker counts it though nothing was committed."""
    stage, of = sampling()
    check_turn(
        (planned(of), "summarise 1"),
        (sampled(of), BOOK + "assemble with_model"),
        (GateRejected(of, error("too_large"), True), "assemble without_model too_large"),
        (
            GateRejected(of, error("still_too_large"), False),
            "append compaction_failed turn_ended; compaction_ended failed; reply_turn t1 failed still_too_large",
        ),
        stage=stage,
    )
    [failed] = [entry.event for entry in stage.entries if isinstance(entry.event, CompactionFailed)]
    assert failed.failure == "too_large"
    assert stage.state.facts.breaker.failures == 1


def test_a_cancel_counts_for_nothing() -> None:
    """T069: no fallback, and no failure."""
    stage, of = sampling()
    check_turn(
        (planned(of), "summarise 1"),
        (SampleFailed(of, error("empty")), BOOK + "summarise 2 after 375"),
        (CancelAsked("t1"), "stop_effects"),
        (Stopped(), "compaction_ended cancelled; append turn_ended; reply_turn t1 cancelled"),
        stage=stage,
    )
    assert stage.state.facts.breaker.failures == 0
