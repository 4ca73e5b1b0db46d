"""The settings about money and caps: how each is written, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Protocol

from pydantic import BeforeValidator, Field

from ullage.context.caps import Caps
from ullage.core.money import micros
from ullage.providers.models import read_prices


def _prices(text: Any) -> Any:
    read_prices(text if isinstance(text, str) else "")
    return text


def _dollars(amount: Any) -> Any:
    """Settings files hold amounts as numbers too."""
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        amount = str(amount)
    if isinstance(amount, str) and not micros(amount):
        raise ValueError("it must be above zero")
    return amount


_MOST: Final = {
    "call": "of one call: its request and the most that its answer may have. A call that could be more is not sent and "
    "ends its turn; a compaction goes on without a model.",
    "turn": "of one turn, summaries included. A call that could bring it above is not sent.",
    "session": "of one session, whatever they were for. A call that could bring it above is not sent.",
    "day": "of all sessions of a home in a UTC day. Nothing is stopped: each session warns once.",
}


def _tokens(scope: str) -> Any:
    return Field(ge=1, le=10**15, description=f"Most tokens {_MOST[scope]}")


def _money(scope: str) -> Any:
    return Field(max_length=40, description=f"Most US dollars {_MOST[scope]}")


Prices = Annotated[
    str | None,
    BeforeValidator(_prices),
    Field(
        max_length=10_000,
        description="What models cost, in US dollars for a million tokens: NAME=INPUT/OUTPUT or "
        "NAME=INPUT/OUTPUT/CACHE READ/CACHE WRITE, with ; between models. They stand above the table of known prices "
        "(docs/providers.md); a model in neither has no known cost.",
    ),
]
PriceTier = Annotated[
    int | None,
    Field(
        ge=1_000,
        le=100_000_000,
        description="Tokens above which a provider asks a higher price: no more of the window than that is used.",
    ),
]
CallTokens = Annotated[int | None, _tokens("call")]
CallDollars = Annotated[str | None, BeforeValidator(_dollars), _money("call")]
TurnTokens = Annotated[int | None, _tokens("turn")]
TurnDollars = Annotated[str | None, BeforeValidator(_dollars), _money("turn")]
SessionTokens = Annotated[int | None, _tokens("session")]
SessionDollars = Annotated[str | None, BeforeValidator(_dollars), _money("session")]
DayTokens = Annotated[int | None, _tokens("day")]
DayDollars = Annotated[str | None, BeforeValidator(_dollars), _money("day")]


class _Dumps(Protocol):
    def model_dump(self) -> Mapping[str, Any]: ...


def lowering(named: Mapping[str, object], known: Mapping[str, object]) -> dict[str, object]:
    """What an editor may name beside what is known from the user file: of two caps the lower one holds."""
    return {name: value for name, value in named.items() if not _raises(name, value, known.get(name))}


def _raises(name: str, value: object, known: object) -> bool:
    if not name.startswith("cap_") or known is None:
        return False
    figure = micros if name.endswith("dollars") else float
    try:
        return figure(str(value)) > figure(str(known))
    except ValueError:
        return False  # what is none is refused as any other


def caps(settings: _Dumps) -> Caps:
    """The caps that settings name."""
    said = {
        name.removeprefix("cap_"): value for name, value in settings.model_dump().items() if name.startswith("cap_")
    }
    return Caps(**{name: micros(value) if isinstance(value, str) else value for name, value in said.items()})
