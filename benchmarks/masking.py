"""What masking and compacting cost with the cache priced, over the recorded sessions in ULLAGE_DATA.

Each session is sent again, request by request, under simple policies, and by our engine in a window. What a request has
in common with the beginning of the one before is read from the cache; the rest is written to it (`ullage.lab.walk`).
Figures are shares of sending everything into an endless window.

    python benchmarks/masking.py [WINDOW ...]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ullage.cli.replay import Remembering
from ullage.context.occupancy import count_message
from ullage.core.messages import Message, Role
from ullage.core.ports import TokenCounter
from ullage.importers.reading import format_of, read
from ullage.lab.script import Answered, Move, Prompted, Steered, script
from ullage.lab.walk import CACHE_READ, CACHE_WRITE, walk
from ullage.providers.tokens import load_counter

FIXED = 15_000
"""Tokens of system prompt and tools: about what coding agents have."""
STUB = 20
"""Tokens that stand for a masked result."""
SUMMARY, TAIL = 3_000, 20_000
WINDOWS = (200_000,)


@dataclass(frozen=True, slots=True)
class Block:
    """A message of a request. `number` is its place in the session."""

    number: int
    tokens: int
    result: bool = False


Policy = Callable[[list[Block]], list[Block]]


def nothing(blocks: list[Block]) -> list[Block]:
    return blocks


def keep_newest(kept: int, least: int) -> Policy:
    """Mask all results but the newest, where that frees at least so many tokens."""

    def policy(blocks: list[Block]) -> list[Block]:
        old = [at for at, block in enumerate(blocks) if block.result][:-kept]
        freed = sum(max(0, blocks[at].tokens - STUB) for at in old)
        return _masked(blocks, old) if freed >= max(1, least) else blocks

    return policy


def clear_above(line: int, kept: int) -> Policy:
    def policy(blocks: list[Block]) -> list[Block]:
        return keep_newest(kept, 1)(blocks) if _total(blocks) > line else blocks

    return policy


def compact_above(line: int) -> Policy:
    """A summary in place of all but the newest 20k tokens; it has the number of the first message it replaces."""

    def policy(blocks: list[Block]) -> list[Block]:
        if _total(blocks) <= line:
            return blocks
        first, taken = len(blocks), 0
        while first and taken + blocks[first - 1].tokens <= TAIL:
            first -= 1
            taken += blocks[first].tokens
        return [Block(-blocks[first - 1].number, SUMMARY), *blocks[first:]]

    return policy


POLICIES = {
    "nothing, endless window": nothing,
    "keep ten newest results, at every step": keep_newest(10, 1),
    "the same, freeing at least 20k tokens": keep_newest(10, 20_000),
    "clear above 100k, keep three": clear_above(100_000, 3),
    "compact at 160k, keep 20k and a summary": compact_above(160_000),
}


def _masked(blocks: Sequence[Block], places: Sequence[int]) -> list[Block]:
    chosen = set(places)
    return [
        replace(block, tokens=min(block.tokens, STUB)) if at in chosen else block for at, block in enumerate(blocks)
    ]


def _total(blocks: Sequence[Block]) -> int:
    return FIXED + sum(block.tokens for block in blocks)


def sent(moves: Sequence[Move], policy: Policy, counter: TokenCounter) -> tuple[float, float]:
    """Tokens sent, and their price in plain tokens."""
    blocks: list[Block] = []
    before: list[Block] | None = None
    tokens, price, number = 0.0, 0.0, 0

    def add(message: Message) -> None:
        nonlocal number
        number += 1
        blocks.append(Block(number, count_message(message, counter), message.role is Role.TOOL))

    for move in moves:
        if isinstance(move, Prompted | Steered):
            add(move.message)
            continue
        assert isinstance(move, Answered)
        blocks[:] = policy(list(blocks))
        cached = 0 if before is None else FIXED + _common(before, blocks)
        tokens, price = tokens + _total(blocks), price + CACHE_READ * cached + CACHE_WRITE * (_total(blocks) - cached)
        before = list(blocks)
        add(move.message)
        for result in move.results:
            add(Message("", Role.TOOL, (result,), ""))
    return tokens, price


def _common(before: Sequence[Block], now: Sequence[Block]) -> int:
    same = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        same += new.tokens
    return same


def main(windows: list[int]) -> int:
    folder = os.environ.get("ULLAGE_DATA")
    if not folder:
        print("masking: skipped, ULLAGE_DATA does not say where recorded sessions are")
        return 0
    counter = Remembering(load_counter())
    paths = [path for path in sorted(Path(folder).glob("*.jsonl")) if format_of(path.read_bytes())]
    sessions = [script(read(path, counter).entries) for path in paths]
    whole = [sent(moves, nothing, counter) for moves in sessions]
    for name, policy in POLICIES.items():
        _tell(name, [sent(moves, policy, counter) for moves in sessions], whole)
    for window in windows or WINDOWS:
        walks = [walk(moves, window, counter) for moves in sessions]
        ours = [(float(sum(step.prompt for step in one.steps)), one.cost[0]) for one in walks]
        endless = [(float(sum(step.endless for step in one.steps)), one.cost[1]) for one in walks]
        compactions = sum(len(one.reports) for one in walks)
        _tell(f"ours in {window:,} ({compactions} compactions)", ours, endless)
    return 0


def _tell(name: str, made: Sequence[tuple[float, float]], whole: Sequence[tuple[float, float]]) -> None:
    shares = [100 * sum(each[at] for each in made) / sum(each[at] for each in whole) for at in (0, 1)]
    print(f"{name:<44}{shares[0]:>6.0f} % sent{shares[1]:>6.0f} % cost", flush=True)


if __name__ == "__main__":
    sys.exit(main([int(argument) for argument in sys.argv[1:]]))
