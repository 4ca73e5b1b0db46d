"""What one session may spend, and what it tells of it: `context.caps` with this home's day, prices and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ullage.context.caps import Paid, call_most, over_cap, over_day, unknown_cost
from ullage.core.errors import ErrorReport
from ullage.core.events import AnswerReceived, Entry, UsageBooked
from ullage.core.messages import Usage
from ullage.core.money import cost
from ullage.core.requests import Request
from ullage.core.state import State, Totals
from ullage.sessions.ports import Ports
from ullage.storage.spending import Day, day_of


class Spending:
    """Made once a session. What it warns of, it warns of once a day."""

    def __init__(self, ports: Ports) -> None:
        self._ports, self._day = ports, Day(ports.files, ports.home)
        self._warned: set[tuple[str, str]] = set()

    def cost(self, usage: Usage, model: str) -> int | None:
        """Micro-dollars of a call, at today's price."""
        return cost(usage, self._ports.price(model))

    def refusal(self, state: State, tokens: int, max_output: int, model: str) -> ErrorReport | None:
        """Why a request of so many tokens must not be sent to that model, or None."""
        return over_cap(state.facts, self._most(tokens, max_output, model), self._ports.caps)

    def warnings(self, state: State, request: Request) -> Iterator[ErrorReport]:
        """What is to be told before this request is sent."""
        caps, at, model = self._ports.caps, self._ports.clock(), request.model
        call = self._most(request.tokens, request.max_output, model)
        unknown = unknown_cost(state.facts, call, model, caps)
        day = over_day(self._day.of(at), call, caps) if caps.of("day") != Paid(None, None) else None
        for report in (unknown, day):
            key = (report.code if report else "", day_of(at))
            if report is not None and key not in self._warned:
                self._warned.add(key)
                yield replace(report, data=(*report.data, ("day", day_of(at))))

    def book(self, entry: Entry) -> None:
        """Add a call to its day."""
        match entry.event:
            case AnswerReceived(usage=usage, cost=paid) | UsageBooked(usage=usage, cost=paid):
                self._day.add(entry.at, Totals().plus(usage, paid).tokens, paid)
            case _:
                pass

    def _most(self, tokens: int, max_output: int, model: str) -> Paid:
        return call_most(tokens, max_output, self._ports.price(model))
