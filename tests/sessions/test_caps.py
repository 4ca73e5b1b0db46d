"""Caps on spending in a session: checked before every call, summaries too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sessions.stage import Stage, filled, prompt
from tests.sessions.test_costs import PRICE, paid

from ullage.context.caps import Caps
from ullage.core.context import Strategy
from ullage.core.events import Stop
from ullage.core.messages import Usage
from ullage.sessions.notices import Warned
from ullage.testing.model import Reply, ask, call, good_summary


def warned(stage: Stage) -> list[str]:
    return [notice.report.code for notice in stage.told.of() if isinstance(notice, Warned)]


@pytest.mark.parametrize(
    ("caps", "setting"),
    [
        (Caps(call_tokens=4_000), "cap_call_tokens"),
        (Caps(call_dollars=50_000), "cap_call_dollars"),
        (Caps(turn_tokens=4_000), "cap_turn_tokens"),
        (Caps(session_tokens=4_000), "cap_session_tokens"),
        (Caps(session_dollars=50_000), "cap_session_dollars"),
    ],
)
async def test_a_hard_cap_ends_the_turn_before_anything_is_sent(
    stage: Stage, root: Path, caps: Caps, setting: str
) -> None:
    """The reserve is 4,000 tokens, so no call fits below."""
    stage.caps, stage.prices = caps, {"scripted": PRICE}
    stage.play([])
    actor = await stage.session(root)
    outcome = await prompt(actor, "t1")
    assert outcome.stop is Stop.FAILED and outcome.error is not None
    assert (outcome.error.code, dict(outcome.error.data)["cap"]) == ("cap_reached", setting)
    assert setting in outcome.error.hint and not stage.model.requests


async def test_a_turn_is_stopped_in_the_middle_and_a_session_stays_usable(stage: Stage, root: Path) -> None:
    """One call is paid; the next one of the same turn could pass the cap. A raised cap lets it go on."""
    stage.caps = Caps(turn_tokens=9_000)
    stage.play([Reply(calls=(call("list"),), usage=Usage(4_000, 100, 4_100)), paid(4_200, 10), paid(4_300, 10)])
    actor = await stage.session(root)
    outcome = await prompt(actor, "t1")
    assert outcome.error is not None and dict(outcome.error.data)["cap"] == "cap_turn_tokens"
    assert len(stage.model.requests) == 1 and actor.state.facts.open_turn is None
    assert dict(outcome.error.data)["would_be"] > 9_000
    again = await prompt(actor, "t2")
    assert again.stop is Stop.DONE, "another turn has its own"


async def test_a_session_cap_counts_every_turn_and_outlives_the_process(stage: Stage, root: Path) -> None:
    stage.caps = Caps(session_tokens=12_000)
    stage.play([paid(4_000, 500), paid(4_000, 500)])
    actor = await stage.session(root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    second = await prompt(actor, "t2")
    assert second.error is not None and second.error.code == "cap_reached"
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    third = await prompt(again, "t3")
    assert third.error is not None and third.error.code == "cap_reached" and len(stage.model.requests) == 1


async def test_a_summary_over_the_cap_is_made_without_the_model_and_told(stage: Stage, root: Path) -> None:
    actor = await filled(stage, root, [], [good_summary()])
    stage.caps = Caps(call_tokens=2_000)
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    answer = await again.compact("c1")
    assert answer.report is not None and stage.summariser is not None
    assert (answer.report.strategy, answer.report.failure) == (Strategy.FALLBACK, "cap_reached")
    assert (answer.report.samples, stage.summariser.requests) == (0, [])
    assert again.state.facts.summary_totals.calls == 0 and again.state.facts.breaker.failures == 0
    assert warned(stage) == ["cap_reached"]


async def test_a_cap_in_dollars_without_a_price_is_told_once(stage: Stage, root: Path) -> None:
    stage.caps = Caps(session_dollars=1)
    stage.play([paid(1_000, 10), paid(1_000, 10)])
    actor = await stage.session(root)
    for turn in ("t1", "t2"):
        assert (await prompt(actor, turn)).stop is Stop.DONE
    assert warned(stage) == ["cost_unknown"]


async def test_a_day_is_soft_told_once_a_day_and_session_and_holds_all_sessions(stage: Stage, root: Path) -> None:
    stage.caps = Caps(day_tokens=6_000)
    stage.play([paid(1_000, 10) for _ in range(7)])
    first = await stage.session(root)
    assert (await prompt(first, "t1")).stop is Stop.DONE and warned(stage) == []
    second = await stage.hosts[-1].new_session(str(root))
    for turn in ("t1", "t2"):
        assert (await prompt(second, turn)).stop is Stop.DONE
    assert warned(stage) == ["day_cap"], "the other session's calls count, and it is said once"
    await prompt(first, "t2")
    assert warned(stage) == ["day_cap"] * 2
    stage.at += 24 * 60 * 60 * 1_000
    await prompt(first, "t3")
    assert warned(stage) == ["day_cap"] * 2, "a new day"
    await prompt(first, "t4")
    assert warned(stage) == ["day_cap"] * 3


async def test_a_day_that_cannot_be_recorded_stops_nothing(stage: Stage, root: Path) -> None:
    stage.caps = Caps(day_tokens=1)
    stage.home.mkdir(exist_ok=True)
    (stage.home / "spending").write_text("in the way", encoding="utf-8")
    stage.play([ask(call("list")), paid(1_000, 10)])
    actor = await stage.session(root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE and warned(stage) == ["day_cap"]


async def test_below_a_price_tier_sessions_compact_sooner(stage: Stage, root: Path) -> None:
    stage.window, stage.price_tier = 1_000_000, 16_000
    actor = await filled(stage, root, [paid(100, 10)])
    budget = actor.occupancy.budget
    assert (budget.window, budget.window_source, budget.compaction_line) == (16_000, "price_tier", 9_600)


async def test_nothing_is_capped_unasked(stage: Stage, root: Path) -> None:
    stage.play([paid(1_000_000, 10)])
    actor = await stage.session(root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE and warned(stage) == []
