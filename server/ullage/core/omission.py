"""Leaving messages out of what the model sees, and taking them back.

Invariants. Units are never separated: an event that names a part of one leaves that unit as it is. Everything that is
left out stands in one item, so that there is one marker however often something is left out. Nothing is lost:
`whole_items` gives the items as if nothing had been left out, in their order. Notes that tell a pin are never left out;
they have the seq of the event that let them in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from ullage.core.context import OmissionReason
from ullage.core.events import Entry, ItemsOmitted, ItemsRestored
from ullage.core.pins import ORIGIN
from ullage.core.reduce_turns import noted
from ullage.core.sequence import AppendOnly
from ullage.core.state import HandoffItem, Item, LeftOut, MessageItem, OmissionItem, State, changed
from ullage.core.units import units


def omission(items: Iterable[Item]) -> OmissionItem | None:
    """The item that stands for everything left out, if anything is."""
    return next((item for item in items if isinstance(item, OmissionItem)), None)


def whole_items(items: Sequence[Item], *, asked: bool = True) -> list[Item]:
    """The items as if nothing had been left out, in the order they were said. Linear.

    Without `asked`, what a person wanted left out stays out.
    """
    found = omission(items)
    if found is None:
        return list(items)
    waiting, whole, place = list(reversed(found.left_out)), list[Item](), 0
    for item in (item for item in items if item is not found):
        while waiting and _comes_before(waiting[-1], item, place):
            left = waiting.pop()
            place += 1
            if asked or left.reason is not OmissionReason.ASKED:
                whole.append(left.item)
        whole.append(item)
        place += not isinstance(item, HandoffItem)
    return [*whole, *(left.item for left in reversed(waiting) if asked or left.reason is not OmissionReason.ASKED)]


def _comes_before(left: LeftOut, item: Item, place: int) -> bool:
    """Whether a left-out message stands before an item that has so many others before it."""
    return left.item.seq < item.seq if isinstance(item, HandoffItem) else left.place <= place


def message_units(items: Iterable[Item]) -> Iterator[list[MessageItem]]:
    """The messages among items, unit by unit; without the notes that tell a pin."""
    said = [item for item in items if _said(item)]
    for unit in units([item.message for item in said]):
        yield said[unit.start : unit.end]


def _said(item: Item) -> TypeGuard[MessageItem]:
    return isinstance(item, MessageItem) and item.message.origin != ORIGIN


# --- events ---


def omitted(state: State, entry: Entry, event: ItemsOmitted) -> State | None:
    """Leave out the units that are there as the event names them; not one whose calls still wait for results."""
    known, items = _reasons(state), whole_items(state.items)
    named = {seq for unit in event.omission.units for seq in unit}
    turn = state.facts.open_turn
    pending = set(turn.pending) if turn else set()
    going: set[int] = set()
    for unit in message_units(items):
        seqs = {item.seq for item in unit}
        waits = any(call.call_id in pending for item in unit for call in item.message.calls)
        if seqs <= named and not waits:
            going |= seqs
    reasons = {**known, **dict.fromkeys(going, event.omission.reason)}
    if reasons == known:
        return None
    after = _arranged(state, entry, items, reasons, event.omission.marker)
    return after if named <= going else noted(after, entry)


def restored(state: State, entry: Entry, event: ItemsRestored) -> State | None:
    """Take back the units that are left out as the event names them."""
    known, items, found = _reasons(state), whole_items(state.items), omission(state.items)
    named = {seq for unit in event.units for seq in unit}
    back: set[int] = set()
    for unit in message_units(items):
        seqs = {item.seq for item in unit}
        if seqs <= named and seqs <= known.keys():
            back |= seqs
    if not back or found is None:
        return None
    reasons = {seq: reason for seq, reason in known.items() if seq not in back}
    after = _arranged(state, entry, items, reasons, found.tokens)
    return after if named <= back else noted(after, entry)


def _reasons(state: State) -> dict[int, OmissionReason]:
    found = omission(state.items)
    return {left.item.seq: left.reason for left in found.left_out} if found else {}


def _arranged(
    state: State, entry: Entry, items: Iterable[Item], reasons: Mapping[int, OmissionReason], marker: int
) -> State:
    """The state with these messages left out. What stands before the first of them stays the same objects."""
    lasting = [item for item in items if not isinstance(item, HandoffItem)]
    left = [
        LeftOut(replace(item, upto=0), reasons[item.seq], place)
        for place, item in enumerate(lasting)
        if _said(item) and item.seq in reasons
    ]
    arranged, upto, placed = list[Item](), 0, False
    for item in items:
        if _said(item) and item.seq in reasons:
            if placed:
                continue
            item, placed = OmissionItem(entry.seq, tuple(left), marker, 0), True
        upto += item.tokens
        arranged.append(item if item.upto == upto else replace(item, upto=upto))
    facts = changed(state.facts, revision=entry.seq, baseline=None, redoable=-1)
    return State(facts, AppendOnly(arranged))


def recounted(found: OmissionItem, counts: Mapping[str, int], encoding: str) -> OmissionItem:
    """The item with messages inside it counted again."""
    return replace(found, left_out=tuple(_recounted(left, counts, encoding) for left in found.left_out))


def _recounted(left: LeftOut, counts: Mapping[str, int], encoding: str) -> LeftOut:
    tokens = counts.get(left.item.message.message_id)
    return left if tokens is None else replace(left, item=replace(left.item, tokens=tokens, encoding=encoding))
