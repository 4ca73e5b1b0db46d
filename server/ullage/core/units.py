"""Units: messages that may never be separated.

Invariant: cutting a history between two units separates no tool call from its result, whatever the order in which
results arrived and whatever was said in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.core.messages import Message


@dataclass(frozen=True, slots=True)
class Unit:
    """A run of messages `[start, end)`: a lone message, or an assistant message with calls up to its last result."""

    start: int
    end: int


def units(messages: Sequence[Message]) -> list[Unit]:
    """Cut a history into units, in order, covering it completely. Linear in the number of messages and calls."""
    last_result = {result.call_id: index for index, message in enumerate(messages) for result in message.results}
    found: list[Unit] = []
    start = 0
    while start < len(messages):
        end, index = start + 1, start
        while index < end:
            reach = [last_result.get(call.call_id, index) for call in messages[index].calls]
            end = max(end, *(last + 1 for last in reach)) if reach else end
            index += 1
        found.append(Unit(start, end))
        start = end
    return found
