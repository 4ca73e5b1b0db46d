"""The learned ratio: a function of the log, per model, that corrects what no provider measured (design 6.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.histories import BIG, COUNTER, Log, bare

from ullage.context.compaction import Accepted, Rejected, gate, plan
from ullage.context.occupancy import FixedPart, budget, occupancy
from ullage.context.profiles.ullage import ULLAGE
from ullage.core.context import CompactionPlan, Measured, Reason
from ullage.core.events import SessionConfigured
from ullage.core.messages import Text, ToolCall, Usage
from ullage.core.ratio import ONE, corrected, prior, ratio, uncorrected
from ullage.core.reduce import fold
from ullage.core.state import Billed, Facts


@pytest.mark.parametrize(
    ("model", "before"),
    [
        ("claude-opus-4-5-20251101", 1_250),
        ("anthropic/Claude-Sonnet-4", 1_250),
        ("gpt-5.5", ONE),
        ("llama-3", ONE),
        ("", ONE),
    ],
)
def test_a_family_has_a_prior(model: str, before: int) -> None:
    assert prior(model) == ratio(Facts(), model) == before


def billed(log: Log, extra: int, *, model: str = "m", rate: float = 1.5) -> Log:
    """A turn of two calls; what came between them is billed at `rate` of its estimate, and `extra` on top."""
    log.prompt("hi").answer(ToolCall("c", "read", "{}"), usage=Usage(prompt=5_000, completion=50), model=model)
    before = log.state.tokens
    log.result("c", "x" * 16_000)
    came = log.state.tokens - before
    usage = Usage(prompt=5_050 + round(came * rate) + extra, completion=10)
    return log.answer(Text("yes"), usage=usage, model=model).end()


def test_what_was_billed_for_what_came_in_between_is_learned() -> None:
    """W-P4."""
    log = billed(Log(), 0)
    [known] = log.state.facts.ratios
    assert (known.model, known.billed) == ("m", round(known.estimated * 1.5))
    expected = (2_000 * ONE + known.billed * ONE) // (2_000 + known.estimated)
    assert ratio(log.state.facts, "m") == expected > 1_300
    assert ratio(log.state.facts, "other") == ONE


def test_a_dated_name_is_the_same_model() -> None:
    log = billed(Log(), 0, model="m-20260101")
    assert ratio(log.state.facts, "m") == ratio(log.state.facts, "m-20260101") > ONE
    assert ratio(log.state.facts, "") == ONE


@pytest.mark.parametrize("extra", [9_000, -5_500])
def test_a_step_that_is_far_off_teaches_nothing(extra: int) -> None:
    """Something was sent, or left out, that the log does not hold."""
    assert billed(Log(), extra).state.facts.ratios == ()


def test_a_rewritten_history_teaches_nothing() -> None:
    log = Log().prompt("hi").answer(ToolCall("c", "read", "{}"), usage=Usage(prompt=5_000, completion=50))
    log.result("c", "x" * 16_000)
    log.add(SessionConfigured(model="other"))
    log.answer(Text("yes"), usage=Usage(prompt=11_000, completion=10))
    assert log.state.facts.ratios == ()


def test_it_is_never_below_our_own_count() -> None:
    facts = Facts(ratios=(Billed("m", 1_000, 9_000),))
    assert ratio(facts, "m") == ONE


def test_only_what_no_provider_measured_is_corrected() -> None:
    log = billed(Log(), 0)
    measured = occupancy(log.state, 1_000, BIG, "m")
    assert measured.source is Measured.PROVIDER and measured.estimated == 0
    log.prompt("x" * 4_000)
    plain, learned = occupancy(log.state, 1_000, BIG), occupancy(log.state, 1_000, BIG, "m")
    assert learned.source is plain.source is Measured.PROVIDER_PLUS_ESTIMATE
    assert learned.estimated == corrected(plain.estimated, learned.ratio) > plain.estimated
    assert learned.used - learned.estimated == plain.used - plain.estimated
    assert (plain.ratio, learned.ratio) == (ONE, ratio(log.state.facts, "m"))


def test_without_a_name_estimates_stay_as_they_are() -> None:
    """A profile that keeps blade's rule (2.3) asks without a model."""
    log = billed(Log(), 0, model="claude-x").prompt("more")
    assert occupancy(log.state, 1_000, BIG).ratio == ONE
    assert occupancy(log.state, 1_000, BIG, "claude-x").ratio > ONE


def test_it_is_a_function_of_the_log() -> None:
    log = billed(billed(Log(), 0), 0, rate=1.2)
    assert fold(log.entries).facts.ratios == log.state.facts.ratios != ()


@settings(max_examples=100, derandomize=True)
@given(st.integers(0, 2**40), st.integers(1, 5_000))
def test_bringing_down_undoes_correcting(tokens: int, per_mille: int) -> None:
    """What is planned in our tokens ends below the line that is drawn in the provider's."""
    assert corrected(uncorrected(tokens, per_mille), per_mille) <= tokens
    assert corrected(uncorrected(tokens, per_mille) + 1, per_mille) > tokens


def test_the_models_last_learned_outlive_others() -> None:
    log = Log()
    for number in range(20):
        billed(log, 0, model=f"model-{number:02}")
    assert [known.model for known in log.state.facts.ratios] == [f"model-{number:02}" for number in range(4, 20)]


# --- lines ---


@pytest.mark.parametrize("model", [None, "claude-x", "gpt-x"])
def test_a_compaction_ends_below_the_providers_lines(model: str | None) -> None:
    """What is planned and gated is counted in our tokens; the lines are drawn in the provider's."""
    small, fixed = budget(16_000, "test"), FixedPart(1_000, ())
    log = Log(budget=small).prompt("go on")
    for number in range(12):
        log.answer(ToolCall(f"c{number}", "read", "{}")).result(f"c{number}", "x" * 4_000)
    now = occupancy(log.state, fixed.tokens, small, model)
    planned = plan(log.state, Reason.THRESHOLD, now, fixed, ULLAGE, COUNTER)
    assert isinstance(planned, CompactionPlan) and planned.ratio == now.ratio
    assert corrected(fixed.tokens + planned.target, now.ratio) < small.handoff_line
    largest = replace(bare(), head_tokens=planned.target)
    passed = gate(planned, log.state, largest, fixed.tokens, small)
    assert passed == Accepted(corrected(fixed.tokens + planned.target, now.ratio))
    loose = replace(planned, target=planned.source_tokens)
    over = replace(bare(), head_tokens=uncorrected(small.handoff_line, now.ratio) - fixed.tokens + 1)
    assert gate(loose, log.state, over, fixed.tokens, small) == Rejected("above_handoff_line")
    assert log.checkpoint(largest).state.facts.compactions == 1
    assert occupancy(log.state, fixed.tokens, small, model).used == corrected(1_000 + planned.target, now.ratio)
