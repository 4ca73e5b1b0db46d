"""What survives `ullage compact`, by compaction-conformance-kit 0.8.0 (install it beside ullage; no dependency).

python benchmarks/conformance.py [FIRST [COUNT]]    seeds from FIRST on; others than those that were developed with
"""

from __future__ import annotations

import sys
from typing import Any

from compaction_kit.benchmark import run_budget_benchmark
from compaction_kit.compacted import CompactedContext
from compaction_kit.generated import build_generated_session
from compaction_kit.runner import run_conformance

from ullage.cli.compact import Asked, compact

BUDGETS, ROUNDS = (0.1, 0.2, 0.3), 5
FRAMING = 9
"""Tokens that two messages cost beside their text: the kit's budget is of text alone."""


class Quarter:
    """Four characters a token: the kit's budgets are characters."""

    encoding = "chars/4"

    def count(self, text: str) -> int:
        return -(-len(text) // 4)


class Ullage:
    """The kit hands a round's text to the next; the messages behind that text are what we compact again."""

    name = "ullage"

    def __init__(self) -> None:
        self.last: list[dict[str, Any]] = []

    def compact(self, turns: list[Any], round_num: int = 1, budget_chars: int | None = None) -> CompactedContext:
        again = len(turns) == 1 and turns[0].text == flat(self.last)
        given = self.last if again else [{"role": turn.role, "content": turn.text} for turn in turns]
        budget = (budget_chars or 10**6) // 4 + FRAMING
        self.last, _ = compact(Asked(given, budget, None, "openai"), Quarter())
        return CompactedContext(flat(self.last), self.name, round_num)


def flat(messages: list[dict[str, Any]]) -> str:
    return "\n".join(text(message["content"]) for message in messages)


def text(content: Any) -> str:
    return content if isinstance(content, str) else "\n\n".join(block["text"] for block in content)


def generated(budget: float, seeds: range) -> str:
    held = asked = stale_only = 0
    for seed in seeds:
        session, canaries = build_generated_session(seed)
        last = run_conformance(session, Ullage(), ROUNDS, canaries, budget_fraction=budget).rounds[-1]
        said = last.context.text.lower()
        held, asked = held + sum(last.survived.values()), asked + len(canaries)
        for canary in canaries:
            stale = any(token in said for token in canary.superseded_tokens)
            stale_only += stale and not all(token in said for token in canary.required_tokens)
    return f"generated {budget:.0%}: {held / asked:.1%} of {asked}, stale_only {stale_only}"


def main(first: int = 1, count: int = 60) -> None:
    seeds = range(first, first + count)
    made = run_budget_benchmark({"ullage": Ullage}, BUDGETS, seeds=list(seeds[: count // 3]), rounds=ROUNDS)
    for entry in made["entries"]:
        random, semantic = entry["randomized"], entry["semantic"]
        print(
            f"random {entry['budget_fraction']:.0%}: {random['overall_final_survival']:.1%}, "
            f"stale_only {random['supersession']['stale_only']}; semantic stale_only "
            f"{semantic['conflicts']['stale_only']}, pairs {semantic['distinct_pair_rate']:.0%}; "
            f"within budget: {entry['budget_compliant']}"
        )
    for budget in BUDGETS:
        print(generated(budget, seeds))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
