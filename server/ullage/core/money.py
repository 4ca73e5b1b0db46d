"""What model calls cost, in whole micro-dollars (a millionth of a US dollar).

Invariants: money is never a float, and what is not known is None, never zero. A cost is worked out once, when its call
is booked, and stands in the log from then on; so a session costs the same after every reload, whatever prices do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ullage.core.messages import Usage

MILLION: Final = 1_000_000
_AMOUNT: Final = re.compile(r"\$?([0-9]{1,6})(?:\.([0-9]{1,20}))?")


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars for a million tokens of each kind: US dollars for a million tokens, times a million.

    A request of more than `tier` tokens is paid at `above` as a whole, its answer too.
    """

    prompt: int
    completion: int
    cache_read: int
    cache_write: int
    tier: int | None = None
    above: Price | None = None

    def of(self, prompt: int) -> Price:
        """The price of a request of so many tokens."""
        return self.above if self.above and self.tier is not None and prompt > self.tier else self


def cost(usage: Usage, price: Price | None) -> int | None:
    """Micro-dollars of one call, rounded up; None without a price, or where the usage is not whole."""
    prompt, completion = _count(usage.prompt), _count(usage.completion)
    if price is None or usage.floor is None or prompt is None or completion is None:
        return None
    read, written = _count(usage.cache_read) or 0, _count(usage.cache_write) or 0
    plain, rate = max(0, prompt - read - written), price.of(prompt)
    paid = plain * rate.prompt + read * rate.cache_read + written * rate.cache_write + completion * rate.completion
    return -(-paid // MILLION)


def _count(tokens: int | None) -> int | None:
    """What a provider reported, where it is a count: bool is none."""
    return tokens if type(tokens) is int and tokens >= 0 else None


def most(prompt: int, completion: int, price: Price) -> int:
    """Most micro-dollars that a request may cost: nothing of it in a cache, all of it written to one."""
    rate = price.of(prompt)
    return -(-(prompt * max(rate.prompt, rate.cache_write) + completion * rate.completion) // MILLION)


def micros(dollars: str) -> int:
    """Micro-dollars of an amount such as `0.25`; parts of one are rounded up.

    Raises:
        ValueError: it is no amount.
    """
    found = _AMOUNT.fullmatch(dollars.strip())
    if found is None:
        raise ValueError(f"{dollars!r} is no amount of US dollars below {MILLION:,}")
    whole, fraction = found[1], found[2] or ""
    return int(whole) * MILLION + int(fraction[:6].ljust(6, "0")) + bool(fraction[6:].strip("0"))


def in_dollars(micros: int) -> str:
    """An amount for a person: cents from a dollar on, else hundredths of a cent, and never zero for more."""
    if micros >= MILLION:
        return f"${(micros + 5_000) // MILLION:,}.{(micros + 5_000) % MILLION // 10_000:02d}"
    return f"${max(bool(micros), (micros + 50) // 100) / 10_000:.4f}"
