"""Caps on spending: what a request could take at most, beside what was paid."""

from __future__ import annotations

import pytest

from ullage.context.caps import Caps, Paid, call_most, over_cap, over_day, unknown_cost
from ullage.context.occupancy import session_budget
from ullage.core.messages import Usage
from ullage.core.money import Price
from ullage.core.ports import ModelCard
from ullage.core.state import Config, Facts, OpenTurn, Totals

PRICE = Price(3_000_000, 15_000_000, 300_000, 3_750_000)
BEFORE = Totals().plus(Usage(800, 200), 10_000)
TURN = Totals().plus(Usage(1_500, 500), 20_000)
SUMMARY = Totals().plus(Usage(900, 100), 5_000)
FACTS = Facts(
    turn_totals=BEFORE + TURN, summary_totals=SUMMARY, open_turn=OpenTurn("t2", 1, (), started=1, before=BEFORE)
)
"""Before this turn 1,000 tokens for 10,000 micro-dollars; in it 3,000 for 25,000, a summary's among them."""
CALL = Paid(700, 4_000)


def check_cap(caps: Caps, setting: str | None, facts: Facts = FACTS, call: Paid = CALL) -> None:
    """The request is refused because of that setting, which the error names; None: it may be sent."""
    report = over_cap(facts, call, caps)
    assert (None if report is None else dict(report.data)["cap"]) == setting
    if report is not None:
        figures = dict(report.data)
        assert report.code == "cap_reached" and str(setting) in report.message and str(setting) in report.hint
        assert int(figures["would_be"]) > int(figures["allowed"])


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("call_tokens", 700),
        ("call_dollars", 4_000),
        ("turn_tokens", 3_700),
        ("turn_dollars", 29_000),
        ("session_tokens", 4_700),
        ("session_dollars", 39_000),
    ],
)
def test_a_cap_holds_to_the_token_and_the_micro_dollar(name: str, most: int) -> None:
    check_cap(Caps(**{name: most}), None)
    check_cap(Caps(**{name: most - 1}), f"cap_{name}")


def test_without_caps_everything_may_be_sent() -> None:
    check_cap(Caps(), None)
    check_cap(Caps(day_tokens=1, day_dollars=1), None)


def test_outside_a_turn_there_is_no_cap_of_one() -> None:
    """A compaction that a person asks for between turns."""
    check_cap(Caps(turn_tokens=1), None, Facts(turn_totals=BEFORE))
    check_cap(Caps(session_tokens=1), "cap_session_tokens", Facts(turn_totals=BEFORE))


def test_caps_hold_as_far_as_they_can_without_a_price() -> None:
    """Tokens always; money as far as it is known to be paid."""
    unknown = Paid(700, None)
    check_cap(Caps(session_tokens=4_699), "cap_session_tokens", call=unknown)
    check_cap(Caps(session_dollars=35_000), None, call=unknown)
    check_cap(Caps(session_dollars=34_999), "cap_session_dollars", call=unknown)
    check_cap(Caps(call_dollars=1), None, call=unknown)


@pytest.mark.parametrize(
    ("caps", "call", "facts", "told"),
    [
        (Caps(session_tokens=9), Paid(700, None), FACTS, False),
        (Caps(day_dollars=9), Paid(700, None), FACTS, True),
        (Caps(call_dollars=9), CALL, FACTS, False),
        (Caps(call_dollars=9), CALL, Facts(turn_totals=Totals().plus(Usage(5, 5), None)), True),
    ],
)
def test_caps_that_cannot_see_everything_say_so(caps: Caps, call: Paid, facts: Facts, told: bool) -> None:
    report = unknown_cost(facts, call, "own", caps)
    assert (report is not None and report.code == "cost_unknown") == told


def test_a_day_is_told_with_its_next_call() -> None:
    assert over_day(Paid(1_000, 5_000), CALL, Caps(day_tokens=1_700, day_dollars=9_000)) is None
    for caps in (Caps(day_tokens=1_699), Caps(day_dollars=8_999)):
        report = over_day(Paid(1_000, 5_000), CALL, caps)
        assert report is not None and report.code == "day_cap"


def test_the_most_of_a_call_has_its_whole_answer_and_no_cache() -> None:
    assert call_most(1_000, 100, PRICE) == Paid(1_100, 5_250)
    assert call_most(1_000, 100, None) == Paid(1_100, None)


@pytest.mark.parametrize(
    ("own", "of_model", "tier", "window", "source"),
    [
        (None, 1_000_000, 200_000, 200_000, "price_tier"),
        (500_000, 1_000_000, 200_000, 200_000, "price_tier"),
        (None, None, 200_000, 200_000, "price_tier"),
        (None, 100_000, 200_000, 100_000, "table"),
        (150_000, 1_000_000, 200_000, 150_000, "setting"),
        (None, 200_000, 200_000, 200_000, "table"),
        (None, 1_000_000, None, 1_000_000, "table"),
    ],
)
def test_a_price_tier_is_the_most_of_a_window(
    own: int | None, of_model: int | None, tier: int | None, window: int, source: str
) -> None:
    """No request is sent at the compaction line, so none comes near the tier."""
    divided = session_budget(Config(window=own), ModelCard("m", of_model, "table"), tier)
    assert (divided.window, divided.window_source) == (window, source)
    assert divided.compaction_line < window
