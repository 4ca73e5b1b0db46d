"""Rewinds of a log that is kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.context.pinning import tell_pins
from ullage.core.events import Entry, SessionRedone, SessionRewound
from ullage.core.reduce import fold
from ullage.core.rewinding import goal, redone, rewound
from ullage.core.state import State
from ullage.core.views import export_view
from ullage.providers.tokens import ApproximateCounter


def going(entries: Sequence[Entry], name: str | None) -> SessionRewound | SessionRedone:
    """The event that rewinds a log to before a turn, or redoes its newest rewind.

    Raises:
        BadInput: no turn to go back to.
    """
    now = fold(entries)

    def then(seq: int) -> State:
        return fold(entry for entry in entries if entry.seq < seq)

    if name is not None:
        to = goal(export_view(entries), name)
        return tell_pins(now, rewound(now, then(to.before), to), ApproximateCounter())
    [rewind] = [entry for entry in entries if entry.seq == now.facts.redoable]
    assert isinstance(rewind.event, SessionRewound)
    return tell_pins(now, redone(now, then(rewind.seq), rewind.seq, rewind.event), ApproximateCounter())
