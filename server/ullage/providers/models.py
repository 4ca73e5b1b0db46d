"""What is known of Anthropic's models where their provider cannot be asked: a fallback, and labelled as one.

From Anthropic's model overview, read in November 2026. The models endpoint is the first source; an endpoint that has
none, or a time without a network, leaves this.

Prices are those of Anthropic's price list (platform.claude.com/docs/en/about-claude/pricing) as of November 2026:
standard service, five-minute cache writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ullage.core.money import Price, micros
from ullage.core.ports import ModelCard

TABLE: Final[tuple[tuple[str, int, int], ...]] = (
    ("claude-3-5-", 200_000, 8_192),
    ("claude-3-7-", 200_000, 64_000),
    ("claude-3-", 200_000, 4_096),
    ("claude-haiku-4-5", 200_000, 64_000),
    ("claude-opus-4-6", 1_000_000, 128_000),
    ("claude-opus-4-7", 1_000_000, 128_000),
    ("claude-opus-4-8", 1_000_000, 128_000),
    ("claude-opus-4-", 200_000, 32_000),
    ("claude-sonnet-4-6", 1_000_000, 64_000),
    ("claude-sonnet-4-", 200_000, 64_000),
    ("claude-sonnet-5", 1_000_000, 64_000),
    ("claude-opus-5", 1_000_000, 128_000),
    ("claude-", 200_000, 32_000),
)
"""Beginning of a name, window, most output tokens; the first that fits. The last row is the cautious guess."""

CACHE_MS: Final = 300_000
"""How long Anthropic keeps a prompt after it was last used, in milliseconds: the lifetime that our breakpoints ask for
(its page on prompt caching, read in November 2026)."""


def from_table(name: str) -> tuple[ModelCard, int | None]:
    """The card of a model and its most output tokens, as far as the table goes.

    The card holds no output cap of its own: a model's most is no reserve that somebody wants.
    """
    for beginning, window, output in TABLE:
        if name.startswith(beginning):
            return ModelCard(name, window, "table", cache_ms=CACHE_MS), output
    return ModelCard(name, None, "unknown"), None


def _price(text: str) -> Price:
    """US dollars for a million tokens: request / answer, and for cache reads / writes where these have own prices."""
    dollars = [micros(part) for part in text.split("/")]
    if len(dollars) not in (2, 4):
        raise ValueError(f"{text!r} is not INPUT/OUTPUT or INPUT/OUTPUT/CACHE READ/CACHE WRITE")
    prompt, completion, *cache = dollars
    return Price(prompt, completion, *(cache or (prompt, prompt)))


_OPUS = _price("5/25/0.50/6.25")
_LARGE_OPUS = _price("15/75/1.50/18.75")
_SONNET = _price("3/15/0.30/3.75")
_LARGE_HAIKU = _price("0.50/2.50/0.05/0.625")
_FABLE = _price("10/50/1/12.50")
_CHEAPER_READS = _price("10/50/0.25/12.50")
_CHEAPER_FABLE = _price("8/40/0.20/10")

PRICES: Final[Mapping[str, Price]] = {
    "claude-3-haiku": _price("0.25/1.25/0.03/0.30"),
    "claude-3-5-haiku": _price("0.80/4/0.08/1"),
    "claude-haiku-4-5": _price("1/5/0.10/1.25"),
    "claude-haiku-5-5": replace(_price("0.10/0.50/0.01/0.125"), tier=100_000, above=_LARGE_HAIKU),
    "claude-3-sonnet": _SONNET,
    "claude-3-5-sonnet": _SONNET,
    "claude-3-7-sonnet": _SONNET,
    "claude-sonnet-4": _SONNET,
    "claude-sonnet-4-0": _SONNET,
    "claude-sonnet-4-5": _SONNET,
    "claude-sonnet-4-6": _SONNET,
    "claude-sonnet-5": _price("2/10/0.20/2.50"),
    "claude-sonnet-5-5": _price("2/10/0.10/2.50"),
    "claude-3-opus": _LARGE_OPUS,
    "claude-opus-4": _LARGE_OPUS,
    "claude-opus-4-0": _LARGE_OPUS,
    "claude-opus-4-1": _LARGE_OPUS,
    "claude-opus-4-5": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-opus-5": _OPUS,
    "claude-opus-5-5": _price("4/20/0.20/5"),
    "claude-fable-5": _FABLE,
    "claude-mythos-5": _FABLE,
    "claude-fable-5-1": _CHEAPER_READS,
    "claude-mythos-5-1": _CHEAPER_READS,
    "claude-fable-5-2": _CHEAPER_FABLE,
    "claude-mythos-5-2": _CHEAPER_FABLE,
}
"""Name of a model without its date, to its price. A name that is not here has no known price: a newer member of a
family may cost more or less."""

_DATED: Final = re.compile(r"(?:[-@]\d{8}|-latest)?")


def price_of(model: str, own: Mapping[str, Price]) -> Price | None:
    """What a model's tokens cost, as `own` says or else the table; None where neither does.

    Providers answer under a dated name: that is the same model.
    """
    for prices in (own, PRICES):
        for name, price in prices.items():
            if model.startswith(name) and _DATED.fullmatch(model, len(name)):
                return price
    return None


def read_prices(text: str) -> dict[str, Price]:
    """Prices as a setting has them: `NAME=INPUT/OUTPUT` or `NAME=INPUT/OUTPUT/CACHE READ/CACHE WRITE`, with `;` between
    models, in US dollars for a million tokens.

    Raises:
        ValueError: it is not written like that.
    """
    prices: dict[str, Price] = {}
    for entry in filter(None, map(str.strip, text.split(";"))):
        name, found, price = entry.partition("=")
        if not found or not name.strip():
            raise ValueError(f"{entry!r} is not NAME=PRICES")
        prices[name.strip()] = _price(price)
    return prices
