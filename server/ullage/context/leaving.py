"""Leaving out, as a person asks for it: which units that means, and whether they may go.

Invariant: a message goes and comes back with its whole unit. What the running turn works with stays, and so does what
is pinned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ullage.context.pruning import marker_tokens
from ullage.core.context import Omission, OmissionReason
from ullage.core.errors import BadInput
from ullage.core.events import ItemsOmitted, ItemsRestored
from ullage.core.omission import message_units, omission, whole_items
from ullage.core.ports import TokenCounter
from ullage.core.state import LeftOut, MessageItem, State


@dataclass(frozen=True, slots=True)
class Named:
    """Messages by id, or by the seq with which they entered the session."""

    message_ids: Collection[str] = ()
    seqs: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """What was left out or taken back: ids of the messages, the tokens they take, and the event, if it needs one."""

    message_ids: tuple[str, ...]
    tokens: int
    event: ItemsOmitted | ItemsRestored | None = field(default=None, compare=False)


def leave_out(state: State, named: Named, counter: TokenCounter) -> Left:
    """Leave out the units of these messages; what is left out already stays so, from now on by a person's will.

    Raises:
        BadInput: `not_in_view`, `active_task` or `pinned`; then nothing is left out.
    """
    units = _named(state, named)
    said = [item for unit in units for item in unit]
    _check_may_go(state, said)
    known = {left.item.seq: left.reason for left in _left(state)}
    going = [unit for unit in units if any(known.get(item.seq) is not OmissionReason.ASKED for item in unit)]
    seqs = tuple(tuple(item.seq for item in unit) for unit in going)
    tokens = sum(item.tokens for unit in going for item in unit if item.seq not in known)
    found = omission(state.items)
    marker = found.tokens if found else marker_tokens(counter)
    event = ItemsOmitted(Omission(seqs, OmissionReason.ASKED, tokens, marker)) if going else None
    return _answer(said, event)


def take_back(state: State, named: Named) -> Left:
    """Let the model see these messages again, with their units; what it sees already is no error.

    Raises:
        BadInput: `not_in_view`.
    """
    units = _named(state, named)
    known = {left.item.seq for left in _left(state)}
    seqs = tuple(tuple(item.seq for item in unit) for unit in units if unit[0].seq in known)
    return _answer([item for unit in units for item in unit], ItemsRestored(seqs) if seqs else None)


def _answer(said: list[MessageItem], event: ItemsOmitted | ItemsRestored | None) -> Left:
    return Left(tuple(item.message.message_id for item in said), sum(item.tokens for item in said), event)


def _left(state: State) -> Iterable[LeftOut]:
    found = omission(state.items)
    return found.left_out if found else ()


def _named(state: State, named: Named) -> list[list[MessageItem]]:
    """The units that hold these messages."""
    units = list(message_units(whole_items(state.items)))
    ids = {item.message.message_id for unit in units for item in unit}
    seqs = {item.seq for unit in units for item in unit}
    unknown = [*(each for each in named.message_ids if each not in ids), *(n for n in named.seqs if n not in seqs)]
    if unknown or not (named.message_ids or named.seqs):
        raise BadInput(
            f"The model has no message {unknown[0]} in view." if unknown else "No message is named.",
            hint="Name messages said since the last compaction; a prompt that waits is removed from the queue.",
            code="not_in_view",
        )
    return [
        unit
        for unit in units
        if any(item.message.message_id in named.message_ids or item.seq in named.seqs for item in unit)
    ]


def _check_may_go(state: State, said: Iterable[MessageItem]) -> None:
    turn, pinned = state.facts.open_turn, {pin.pin_id for pin in state.facts.pins}
    task = {message.message_id for message in turn.task} if turn else set()
    for item in said:
        message_id = item.message.message_id
        if turn and (item.seq >= turn.started or item.message.turn_id == turn.turn_id or message_id in task):
            raise BadInput(
                f"Message {message_id} belongs to the turn that is running.",
                hint="Wait for its end, or cancel it.",
                code="active_task",
            )
        if message_id in pinned:
            raise BadInput(f"Message {message_id} is pinned.", hint="Take the pin back first.", code="pinned")
