"""How much of a tool's output a model sees (design 6.16)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.context.limits import BOUNDS, LIMITS, Limits
from ullage.context.shorten import clip, clip_tokens
from ullage.core.ports import TokenCounter

NOT_STORED: Final = "they could not be stored: ask for less of it"
"""What a shortened result says where there is nothing to page through."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A tool result's text as the model will see it. `shortened` asks for the full text to be stored."""

    text: str
    shortened: bool
    tokens: int


def fit_result(
    text: str, sha256: str | None, input_budget: int, step_spent: int, counter: TokenCounter, limits: Limits = LIMITS
) -> Fitted:
    """Fit one result into its own share of the input budget and what its step has left.

    `sha256` names the full text for `read_output`, None where it could not be stored; `step_spent` are tokens of the
    step's earlier results. With an unknown input budget (0) only the limit in characters holds.
    """
    short = text
    where = f"call read_output with {sha256} to page through all of it" if sha256 else NOT_STORED
    if input_budget:
        one = input_budget * limits.result_percent // 100
        step = input_budget * limits.step_percent // 100 - step_spent
        most = max(BOUNDS.stub, min(one, step))
        short = clip_tokens(text, most, counter, where)
    if len(short) > limits.result_chars:
        short = clip(text, max(0, limits.result_chars - BOUNDS.stub), where)
    return Fitted(short, short != text, counter.count(short))
