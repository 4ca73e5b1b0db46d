"""What a rewind or a redo of this log is: found in the log, in a thread; nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.context.pinning import tell_pins
from ullage.core.errors import BadInput
from ullage.core.events import Entry, SessionRedone, SessionRewound
from ullage.core.ports import TokenCounter
from ullage.core.reduce import reduce
from ullage.core.rewinding import goal, redone, rewound
from ullage.core.state import State
from ullage.core.views import export_view
from ullage.storage.log import SessionLog


@dataclass(frozen=True, slots=True)
class Planned:
    """The event that does it, and the files that tools wrote in the turns it takes back."""

    event: SessionRewound | SessionRedone
    written: tuple[str, ...]

    def after(self, now: State) -> State:
        """The state it leads to."""
        return reduce(now, Entry(now.facts.last_seq + 1, now.facts.last_at, self.event))


def plan(log: SessionLog, now: State, counter: TokenCounter, name: str | None) -> Planned:
    """Go back to before the turn with that id, or the turn of the message with it; without a name, redo.

    Raises:
        BadInput: it is no turn to go back to, or the rewind to undo can't be read any more.
        StorageFailed: the log can't be read.
    """
    event, written = _redo(log, now) if name is None else _rewind(log, now, name)
    return Planned(tell_pins(now, event, counter), written)


def _rewind(log: SessionLog, now: State, name: str) -> tuple[SessionRewound, tuple[str, ...]]:
    to = goal(export_view(log.outline()), name)
    return rewound(now, log.state_before(to.before), to), to.written


def _redo(log: SessionLog, now: State) -> tuple[SessionRedone, tuple[str, ...]]:
    seq = now.facts.redoable
    found = next((entry.event for entry in log.entries(seq) if entry.seq == seq), None)
    if not isinstance(found, SessionRewound):
        hint = "Fork the session at a seq before it to get back what it took."
        raise BadInput("The rewind can't be read any more.", hint=hint, code="nothing_to_redo")
    return redone(now, log.state_before(seq), seq, found), ()
