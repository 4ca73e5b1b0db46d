"""What a session cost, and what going on with it would, in words."""

from __future__ import annotations

from typing import Any

from ullage.context.resuming import Resuming
from ullage.core.money import in_dollars
from ullage.core.state import Totals


def paid(totals: Totals) -> str:
    """What was paid: a plus where the cost of some calls is not known."""
    if totals.cost is None:
        return "unknown" if totals.calls else "-"
    return in_dollars(totals.cost) + ("+" if totals.priced < totals.calls else "")


def resumed(begins: Resuming) -> str:
    """What going on with a session begins with."""
    idle = "" if begins.idle_ms is None else f", idle for {_duration(begins.idle_ms // 60_000)}"
    cost = "" if begins.cost is None else f"; sent uncached, up to {in_dollars(begins.cost)}"
    hint = ". Large and idle: compacting first may be cheaper" if begins.large_and_idle else ""
    return f"resuming    {begins.tokens:,} tokens{idle}{cost}{hint}"


def _duration(minutes: int) -> str:
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min" if hours else f"{minutes} min"


def bill(now: dict[str, Any]) -> str:
    """What the session cost so far, as the end of a line; nothing where no price is known."""
    if now.get("cost") is None:
        return ""
    more = f" and {now['unpriced']} calls of unknown cost" if now["unpriced"] else ""
    return f", {in_dollars(now['cost'])}{more} so far"
