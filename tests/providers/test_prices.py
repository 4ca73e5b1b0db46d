"""The table of prices, and what a setting says above it."""

from __future__ import annotations

import pytest

from ullage.core.money import Price
from ullage.providers.models import PRICES, price_of, read_prices

SONNET = Price(3_000_000, 15_000_000, 300_000, 3_750_000)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("claude-sonnet-4-6", SONNET),
        ("claude-sonnet-4-6-20260217", SONNET),
        ("claude-sonnet-4-6@20260217", SONNET),
        ("claude-3-7-sonnet-latest", SONNET),
        ("claude-sonnet-4-60", None),
        ("claude-sonnet-4-6-fast", None),
        ("claude-opus-6", None),
        ("my-claude-sonnet-4-6", None),
        ("", None),
        ("own", Price(1_000_000, 2_000_000, 1_000_000, 1_000_000)),
        ("claude-haiku-4-5", Price(0, 0, 0, 0)),
    ],
)
def test_a_model_has_its_own_price_or_none(model: str, price: Price | None) -> None:
    """A name that is not known has no known price: a newer model may cost more or less than its family."""
    own = read_prices("own=1/2; claude-haiku-4-5 = 0/0/0/0;")
    assert price_of(model, own) == price


def test_a_higher_tier_holds_for_the_whole_request() -> None:
    haiku = PRICES["claude-haiku-5-5"]
    assert haiku.of(100_000).prompt * 5 == haiku.of(100_001).prompt == 500_000
    assert haiku.of(100_000).completion * 5 == haiku.of(100_001).completion


def test_a_cache_is_never_dearer_to_read_than_to_write() -> None:
    for price in PRICES.values():
        assert price.cache_read < price.prompt < price.cache_write < price.completion


@pytest.mark.parametrize("text", ["own", "=1/2", "own=1", "own=1/2/3", "own=a/b", "own=1/-2"])
def test_prices_that_are_not_understood(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|is no"):
        read_prices(text)
