"""What a session cost: booked with each call, per purpose, and the same after every reload."""

from __future__ import annotations

from pathlib import Path

from tests.sessions.stage import Stage, filled, of_kind, prompt

from ullage.core.events import AnswerReceived, UsageBooked
from ullage.core.messages import Usage
from ullage.core.money import Price
from ullage.core.state import spent
from ullage.testing.model import Reply, good_summary, say

PRICE = Price(3_000_000, 15_000_000, 300_000, 3_750_000)


def paid(prompt: int, completion: int) -> Reply:
    """A short answer whose provider bills that much."""
    return say("Done.", usage=Usage(prompt, completion, prompt + completion))


async def test_every_call_is_booked_with_its_cost(stage: Stage, root: Path) -> None:
    stage.prices = {"scripted": PRICE}
    stage.play([paid(1_000, 10), paid(1_100, 20)])
    actor = await stage.session(root)
    outcomes = [await prompt(actor, turn) for turn in ("t1", "t2")]
    assert [event.cost for event in of_kind(actor, AnswerReceived)] == [3_150, 3_600]
    assert [outcome.totals.cost for outcome in outcomes] == [3_150, 6_750]
    assert stage.told.occupied()[-1].turns.cost == 6_750


async def test_a_summary_is_booked_for_itself_and_told(stage: Stage, root: Path) -> None:
    """T092; design 6.6: the cost of what nobody asked for is shown too."""
    stage.prices = {"scripted": PRICE}
    summary = Reply(good_summary().deltas, usage=Usage(2_000, 100))
    actor = await filled(stage, root, [], [summary])
    before = spent(actor.state.facts)
    await actor.compact("c1")
    assert [event.cost for event in of_kind(actor, UsageBooked)] == [7_500]
    now = stage.told.occupied()[-1]
    assert (now.summaries.cost, (now.turns + now.summaries).paid) == (7_500, before.paid + 7_500)


async def test_a_reload_tells_the_same_whatever_prices_do_meanwhile(stage: Stage, root: Path) -> None:
    stage.prices = {"scripted": PRICE}
    actor = await filled(stage, root, [paid(1_000, 10)], [good_summary()])
    await actor.compact("c1")
    await prompt(actor, "t3")
    before = spent(actor.state.facts)
    stage.prices = {"scripted": Price(9_000_000, 9_000_000, 9_000_000, 9_000_000)}
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    assert spent(again.state.facts) == before and before.paid > 0


async def test_a_model_without_a_price_costs_what_nobody_knows(stage: Stage, root: Path) -> None:
    """Never zero: tokens are known, money is not; what is known later counts from then on."""
    stage.play([paid(1_000, 10), paid(1_100, 20)])
    actor = await stage.session(root)
    first = await prompt(actor, "t1")
    assert (first.totals.cost, first.totals.tokens, first.totals.priced) == (None, 1_010, 0)
    stage.prices = {"scripted": PRICE}
    second = await prompt(actor, "t2")
    assert (second.totals.cost, second.totals.priced, second.totals.calls) == (3_600, 1, 2)


async def test_a_fork_begins_with_an_empty_bill(stage: Stage, root: Path) -> None:
    """Its history was paid for by its parent."""
    stage.prices = {"scripted": PRICE}
    stage.play([paid(1_000, 10), paid(1_100, 20)])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    fork = await stage.hosts[-1].fork(actor.session_id)
    assert spent(fork.state.facts).calls == 0 and spent(actor.state.facts).paid == 3_150
    await prompt(fork, "t2")
    assert spent(fork.state.facts).paid == 3_600


async def test_a_call_without_usage_counts_by_our_own_estimate(stage: Stage, root: Path) -> None:
    """An endpoint that never tells what it took must not look free."""
    stage.play([say("Done.", usage=Usage())])
    actor = await stage.session(root)
    decided = actor.occupancy.used
    await prompt(actor, "t1", "Go on. " * 200)
    totals = actor.state.facts.turn_totals
    assert totals.unreported == 1 and totals.tokens > decided
