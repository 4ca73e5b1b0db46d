"""What going on with a session begins with."""

from __future__ import annotations

import pytest

from ullage.context.limits import Limits
from ullage.context.resuming import Resuming, resuming
from ullage.core.money import Price
from ullage.core.state import Facts

HOUR = 3_600_000
PRICE = Price(3_000_000, 15_000_000, 300_000, 3_750_000)


@pytest.mark.parametrize(
    ("last_call", "tokens", "price", "expected"),
    [
        (0, 100_000, PRICE, Resuming(100_000, 375_000, HOUR, True)),
        (1, 100_000, PRICE, Resuming(100_000, 375_000, HOUR - 1, False)),
        (0, 99_999, None, Resuming(99_999, None, HOUR, False)),
        (None, 200_000, None, Resuming(200_000, None, None, False)),
        (2 * HOUR, 200_000, None, Resuming(200_000, None, 0, False)),
    ],
)
def test_large_and_idle_by_both_limits(
    last_call: int | None, tokens: int, price: Price | None, expected: Resuming
) -> None:
    """A clock that went back makes nothing idle."""
    assert resuming(Facts(last_call_at=last_call), tokens, HOUR, price) == expected


def test_the_limits_are_settings() -> None:
    limits = Limits(resume_tokens=10, resume_minutes=1)
    assert resuming(Facts(last_call_at=0), 10, 60_000, None, limits).large_and_idle
