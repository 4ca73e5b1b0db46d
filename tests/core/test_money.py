"""What calls cost: whole micro-dollars, rounded up, and unknown rather than zero."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ullage.core.messages import Usage
from ullage.core.money import Price, cost, in_dollars, micros, most
from ullage.core.state import Totals

PRICE = Price(3_000_000, 15_000_000, 300_000, 3_750_000)
TIERED = replace(PRICE, tier=1_000, above=Price(6_000_000, 22_500_000, 600_000, 7_500_000))


@pytest.mark.parametrize(
    ("usage", "price", "micro_dollars"),
    [
        (Usage(1_000, 100), PRICE, 3_000 + 1_500),
        (Usage(1_000, 100, cache_read=600, cache_write=300), PRICE, 300 + 180 + 1_125 + 1_500),
        (Usage(1, 0, cache_read=1), PRICE, 1),
        (Usage(1_000, 100), TIERED, 4_500),
        (Usage(1_001, 100), TIERED, 6_006 + 2_250),
        (Usage(1_000, 100), None, None),
        (Usage(1_000, 100), Price(0, 0, 0, 0), 0),
        (Usage(), PRICE, None),
        (Usage(0, 0, 0), PRICE, None),
        (Usage(1_000, None, 1_100), PRICE, None),
        (Usage(None, None, 1_100), PRICE, None),
        (Usage(10, 10, cache_read=1_000), PRICE, 300 + 150),
        (Usage(10, 10, cache_read=-5), PRICE, 30 + 150),
        (Usage(True, 10), PRICE, None),
    ],
)
def test_a_call_costs(usage: Usage, price: Price | None, micro_dollars: int | None) -> None:
    assert cost(usage, price) == micro_dollars


def test_the_most_is_paid_without_a_cache_and_at_the_tier_of_its_size() -> None:
    assert most(1_000, 100, PRICE) == 3_750 + 1_500
    assert most(1_001, 100, TIERED) == 7_508 + 2_250
    assert most(1_000, 0, Price(2_000_000, 0, 0, 0)) == 2_000


@pytest.mark.parametrize(
    ("text", "micro_dollars", "shown"),
    [
        ("0", 0, "$0.0000"),
        ("0.0000001", 1, "$0.0001"),
        ("$0.25", 250_000, "$0.2500"),
        ("0.999999", 999_999, "$1.0000"),
        ("1", 1_000_000, "$1.00"),
        (" 1234.565 ", 1_234_565_000, "$1,234.57"),
    ],
)
def test_amounts(text: str, micro_dollars: int, shown: str) -> None:
    assert (micros(text), in_dollars(micro_dollars)) == (micro_dollars, shown)


@pytest.mark.parametrize("text", ["", "free", "-1", "NaN", "Infinity", "1e9"])
def test_no_amounts(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        micros(text)


def test_totals_tell_what_is_known_and_for_how_many_calls() -> None:
    """A call that nobody priced is unknown, never free; one without usage counts by our own estimate."""
    unpriced = Totals().plus(Usage(10, 1), None)
    assert unpriced.cost is None and unpriced.tokens == 11
    both = unpriced.plus(Usage(10, 1), 7).plus(Usage(), None, guess=500)
    assert (both.cost, both.priced, both.calls, both.tokens, both.unreported) == (7, 1, 3, 522, 1)
    assert (both + both).cost == 14 and (both + both).calls == 6
