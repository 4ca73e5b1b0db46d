"""Which result belongs to which call, in any history.

Invariant: every result answers at most one call, every call has at most one result, and a call comes before its
result. A call id that was used before is given another name, so that names are unique within a request.

A pairing grows with the items: each is taken once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ullage.core.messages import Message, Role, ToolResult
from ullage.core.state import Item, MessageItem


@dataclass(slots=True)
class Pairing:
    """Calls of items, by the item's index, with the names they bear in a request and the results they got."""

    seen: int = 0
    names: dict[int, list[str]] = field(default_factory=dict)
    results: dict[int, list[ToolResult | None]] = field(default_factory=dict)
    orphans: set[tuple[int, str]] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    waiting: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Calls without a result by call id, as (item, place), the oldest first."""

    def take(self, items: Sequence[Item]) -> int:
        """Pair what is new in `items`; the smallest index of an item whose calls were answered by it."""
        touched = len(items)
        for index in range(self.seen, len(items)):
            item = items[index]
            if isinstance(item, MessageItem):
                touched = min(touched, self._take_message(index, item.message))
        self.seen = len(items)
        return touched

    def names_of(self, index: int) -> list[str]:
        return self.names.get(index, [])

    def results_of(self, index: int) -> list[ToolResult | None]:
        return self.results.get(index, [])

    def is_orphan(self, index: int, result: ToolResult) -> bool:
        """Whether a result has no call before it. (A second result to a call is no orphan: it is dropped.)"""
        return (index, result.call_id) in self.orphans

    def _take_message(self, index: int, message: Message) -> int:
        if message.role is Role.ASSISTANT:
            calls = message.calls
            self.names[index] = [self._name(call.call_id) for call in calls]
            self.results[index] = [None] * len(calls)
            for place, call in enumerate(calls):
                self.waiting.setdefault(call.call_id, []).append((index, place))
        touched = index
        for result in message.results:
            open_calls = self.waiting.get(result.call_id)
            if open_calls is None:
                self.orphans.add((index, result.call_id))
            elif open_calls:
                answered, place = open_calls.pop(0)
                self.results[answered][place] = result
                touched = min(touched, answered)
        return touched

    def _name(self, call_id: str) -> str:
        name, number = call_id or "call", 2
        while name in self.used:
            name, number = f"{call_id}~{number}", number + 1
        self.used.add(name)
        return name
