"""How many tokens a provider bills for a thousand of our estimate, learned from a session's own answers.

Invariant: the ratio is a function of the log. For each model the facts hold two sums, billed and estimated, of what
came in between two answers; the ratio is their quotient after a prior that weighs as much as `BOUNDS.ratio_prior`
tokens. Whole numbers only, so that every process has the same value: a ratio is in tokens per thousand.
"""

from __future__ import annotations

from typing import Final

from ullage.core.limits import BOUNDS
from ullage.core.messages import Usage
from ullage.core.state import Baseline, Billed, Facts, Sent, State

ONE: Final = 1_000
"""The ratio of a provider that counts as we do."""

PRIORS: Final = (
    ("claude", 1_250),
    ("gpt", ONE),
    ("o1", ONE),
    ("o3", ONE),
    ("o4", ONE),
    ("codex", ONE),
)
"""Family (how a model's name begins, behind any `provider/`) to the ratio before anything is learned, for estimates
made with o200k: Claude's present tokenizer takes about a quarter more on code, the GPT families use o200k. Any other
family begins with 1.0, since a fixed factor for one family is wrong for another."""


def prior(model: str) -> int:
    """The ratio of a model's family before anything is learned."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((ratio for family, ratio in PRIORS if name.startswith(family)), ONE)


def ratio(facts: Facts, model: str) -> int:
    """The ratio for a model: its family's prior, and what this session's answers say.

    Never below our own count: one odd step could lower it, and a projection that is too low is the worse mistake.
    """
    known = next((billed for billed in reversed(facts.ratios) if _same(billed.model, model)), Billed(model, 0, 0))
    return max(ONE, _ratio(known, prior(model)))


def _ratio(known: Billed, before: int) -> int:
    return (BOUNDS.ratio_prior * before + known.billed * ONE) // (BOUNDS.ratio_prior + known.estimated)


def _same(one: str, other: str) -> bool:
    """Whether two names mean one model: providers answer under a dated name."""
    return bool(one and other) and (one.startswith(other) or other.startswith(one))


def corrected(estimate: int, ratio: int) -> int:
    """An estimate in the provider's tokens, rounded up."""
    return -(-estimate * ratio // ONE)


def uncorrected(tokens: int, ratio: int) -> int:
    """The largest estimate that is at most so many of the provider's tokens."""
    return tokens * ONE // ratio if ratio else tokens


def observed(state: State, sent: Sent, usage: Usage, model: str) -> tuple[Billed, ...]:
    """The sums after an answer. `state` is the one that the request was built from.

    What came in between the last answer and this request was estimated then and is billed now. A step where the two
    are far apart teaches nothing: something was sent that the log does not hold.
    """
    facts, before = state.facts, state.facts.baseline
    if before is None or usage.prompt is None or not _comparable(state, before, sent, model):
        return facts.ratios
    came = state.items[sent.length - 1].upto - state.items[before.length - 1].upto
    estimated, billed = came + max(0, sent.fixed - before.fixed), usage.prompt - before.total
    known = next((known for known in facts.ratios if known.model == model), Billed(model, 0, 0))
    expected = estimated * _ratio(known, prior(model)) // ONE
    if not expected // 2 - BOUNDS.ratio_slack <= billed <= 2 * expected + BOUNDS.ratio_slack:
        return facts.ratios
    others = tuple(other for other in facts.ratios if other.model != model)
    learned = Billed(model, max(0, known.billed + billed), known.estimated + estimated)
    return (*others, learned)[-BOUNDS.ratios_remembered :]


def _comparable(state: State, before: Baseline, sent: Sent, model: str) -> bool:
    """Whether the last answer's total and this request are of one model and one unbroken list of items."""
    whole = 0 < before.length <= sent.length <= len(state.items)
    return whole and before.model == model and before.revision == sent.revision == state.facts.revision
