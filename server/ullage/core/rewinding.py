"""Rewind and redo: what is taken back, and what the event must hold so that a fold needs nothing else.

Invariants. The log keeps everything: a rewind only adds an event, and what it took back can be redone or forked. The
event holds what the state had where the session goes and has no more, so the fold of all and the fold from any
checkpoint agree. Handoffs are never in it: they stay in their own kind of event, which no fork copies.

What belongs to the conversation goes back with it: messages, exact records, commands and outputs that were seen, the
newest error, pins of messages, what is left out, a title made from the first prompt. What happened stays: money spent,
what was learned of a model's counting, files touched, settings, typed pins, the queue, ended turn ids. A person's
rewind is no loop, so the guards against loops are released; the breaker stays, since it is the model's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ullage.core.context import Pin
from ullage.core.errors import BadInput
from ullage.core.events import SessionRedone, SessionRenamed, SessionRewound
from ullage.core.messages import Op
from ullage.core.pins import known_pin, refusal
from ullage.core.state import (
    Breaker,
    Carried,
    Facts,
    HandoffItem,
    InstructionsItem,
    Item,
    MessageItem,
    OmissionItem,
    State,
    changed,
)
from ullage.core.views import (
    Shown,
    ShownAnswer,
    ShownCompaction,
    ShownCompactionFailure,
    ShownInstructions,
    ShownOmission,
    ShownPrompt,
    ShownRedo,
    ShownResult,
    ShownRewind,
    ShownSession,
    ShownSteer,
    ShownTurnEnd,
    ShownTurnStart,
)

_CONVERSATION = (
    ShownTurnStart,
    ShownSteer,
    ShownAnswer,
    ShownResult,
    ShownTurnEnd,
    ShownCompaction,
    ShownCompactionFailure,
    ShownOmission,
    ShownInstructions,
)
"""Kinds that a rewind takes back by their seq; a prompt goes with its turn."""


class TakenBack:
    """What the rewinds that stand took back. Takes a session's updates in order; others than rewinds say nothing."""

    def __init__(self) -> None:
        self._rewinds: dict[int, ShownRewind] = {}
        self.reaches_back = False
        """A rewind was undone that was not noted here."""

    def __bool__(self) -> bool:
        return bool(self._rewinds)

    def note(self, shown: Shown) -> None:
        match shown.what:
            case ShownRewind():
                self._rewinds[shown.seq] = shown.what
            case ShownRedo(rewind):
                self.reaches_back |= self._rewinds.pop(rewind, None) is None
            case _:
                pass

    def holds_seq(self, seq: int) -> bool:
        """Whether a rewind took back the conversation's part with that seq."""
        return any(what.before <= seq < at for at, what in self._rewinds.items())

    def holds_turn(self, turn_id: str) -> bool:
        return any(turn_id in what.turns for what in self._rewinds.values())

    def stands(self, rewind: int) -> bool:
        """Whether the rewind with that seq was not undone."""
        return rewind in self._rewinds

    def holds_message(self, seq: int, message_id: str) -> bool:
        """Whether what was said at that seq is taken back; a prompt goes with its turn, wherever it was queued."""
        return self.holds_seq(seq) or self.holds_turn(message_id.rpartition("/u")[0])

    def holds(self, shown: Shown) -> bool:
        """Whether this update is no part of the transcript any more."""
        match shown.what:
            case ShownPrompt(message):
                return self.holds_turn(message.turn_id)
            case what:
                return isinstance(what, _CONVERSATION) and self.holds_seq(shown.seq)


def standing(updates: Iterable[Shown]) -> Iterator[Shown]:
    """A session's transcript as it stands, from all of its updates in order."""
    taken, whole = TakenBack(), list(updates)
    for shown in whole:
        taken.note(shown)
    return (shown for shown in whole if not taken.holds(shown))


# --- where to go ---


@dataclass(frozen=True, slots=True)
class Goal:
    """Just before a turn. `written` are the files that tools wrote since, which a rewind leaves as they are."""

    turn_id: str
    before: int
    """Seq of the turn's start."""
    turns: tuple[str, ...]
    """Turns and steering from there on, oldest first."""
    written: tuple[str, ...]
    renamed: bool
    """Somebody gave the session a title since."""


def goal(updates: Iterable[Shown], name: str) -> Goal:
    """Where the turn, or the turn of the user message, with that id began. `updates`: all of the session, in order.

    Raises:
        BadInput: `unknown_turn`, `already_rewound`, or `inside_turn` for steering.
    """
    seen = _Seen()
    for shown in updates:
        seen.take(shown)
    return seen.goal(name)


class _Seen:
    """What of a transcript tells where its turns begin."""

    def __init__(self) -> None:
        self._taken = TakenBack()
        self._prompts: dict[str, str] = {}
        """Turn ids by message id."""
        self._turns: list[tuple[int, str, str]] = []
        """Seq, turn that it is or enters, own turn id."""
        self._written: list[tuple[int, str]] = []
        self._renamed = -1

    def take(self, shown: Shown) -> None:
        match shown.what:
            case ShownPrompt(message):
                self._prompts[message.message_id] = message.turn_id
            case ShownTurnStart(turn_id):
                self._turns.append((shown.seq, turn_id, turn_id))
            case ShownSteer(turn_id, steer_id):
                self._turns.append((shown.seq, turn_id, steer_id))
            case ShownResult(message):
                writes = (result.facts.paths for result in message.results if result.facts.op is Op.WRITE)
                self._written += [(shown.seq, path) for paths in writes for path in paths]
            case ShownSession(SessionRenamed()):
                self._renamed = shown.seq
            case _:
                self._taken.note(shown)

    def goal(self, name: str) -> Goal:
        wanted = self._prompts.get(name, name)
        found = [(seq, turn) for seq, turn, own in self._turns if own == wanted]
        stands = [each for each in found if not self._taken.holds_seq(each[0])]
        if not stands:
            raise _taken_back() if found else _unknown(name)
        before, turn = stands[0]
        if turn != wanted:
            raise _inside(turn)
        turns = [own for seq, _, own in self._turns if seq >= before and not self._taken.holds_seq(seq)]
        written = [path for seq, path in self._written if seq >= before and not self._taken.holds_seq(seq)]
        return Goal(turn, before, tuple(turns), tuple(dict.fromkeys(written)), self._renamed >= before)


def _unknown(name: str) -> BadInput:
    hint = "Name a turn of the transcript, or the message that began it; a waiting prompt is removed from the queue."
    return BadInput(f"No turn {name[:80]} was started in this session.", hint=hint, code="unknown_turn")


def _taken_back() -> BadInput:
    hint = "Redo the rewind, fork the session at a seq before it, or go back further."
    return BadInput("This turn was taken back already.", hint=hint, code="already_rewound")


def _inside(turn_id: str) -> BadInput:
    hint = f"Go back to {turn_id}, whose whole answer it is a part of."
    return BadInput(f"This message entered the running turn {turn_id}.", hint=hint, code="inside_turn")


# --- the events ---


def rewound(now: State, then: State, to: Goal) -> SessionRewound:
    """The event that goes from `now` to `then`, which is the state just before the goal."""
    cut, items = _difference(now, then, to.before)
    title = now.facts.title if then.facts.title or to.renamed else ""
    facts = changed(_merged(now, then, cut, items), title=title, pins=_pins(now, then, to.before))
    return SessionRewound(to.turn_id, to.before, to.turns, cut, facts, items)


def redone(now: State, then: State, rewind: int, event: SessionRewound) -> SessionRedone:
    """The event that undoes a rewind; `then` is the state just before that."""
    cut, items = _difference(now, then, event.before)
    title, pins = now.facts.title or then.facts.title, _pins(now, then, event.before)
    facts = changed(_merged(now, then, cut, items), title=title, pins=pins)
    return SessionRedone(rewind, event.turns, cut, facts, items)


def _difference(now: State, then: State, before: int) -> tuple[int, tuple[Carried, ...]]:
    """Up to which seq `now` is what `then` was, and the items of `then` from there on; from 0 where it is not.

    It is not where another checkpoint is in force, or where something else is left out.
    """
    kept, was = ([item for item in state.items if item.seq < before] for state in (now, then))
    same = now.facts.epoch == then.facts.epoch and list(map(_place, kept)) == list(map(_place, then.items[: len(was)]))
    rest = then.items[len(was) :] if same else then.items
    return before if same else 0, tuple(item for item in rest if not isinstance(item, HandoffItem))


def _place(item: Item) -> tuple[object, ...]:
    """What an item is, however it is counted."""
    left = tuple(each.item.seq for each in item.left_out) if isinstance(item, OmissionItem) else ()
    message = item.message.message_id if isinstance(item, MessageItem | InstructionsItem) else ""
    return type(item), item.seq, message, left


def _merged(now: State, then: State, cut: int, items: Iterable[Carried]) -> Facts:
    facts, old = now.facts, then.facts
    tokens = sum(item.tokens for item in now.items if item.seq < cut) + sum(item.tokens for item in items)
    return changed(
        facts,
        epoch=old.epoch,
        records=old.records,
        commands=old.commands,
        newest_error=old.newest_error,
        todos=old.todos,
        outputs=old.outputs,
        redoable=old.redoable,
        pins_untold=(),
        attempts=0,
        attempt_size=0,
        overflow_spent=False,
        breaker=_moved(facts.breaker, tokens - now.tokens),
    )


def _pins(now: State, then: State, before: int) -> tuple[Pin, ...]:
    """Pins of messages go and come with them; a typed one is the person's own word, which stays."""
    facts = changed(now.facts, pins=tuple(pin for pin in now.facts.pins if pin.typed or pin.seq < before))
    for pin in then.facts.pins:
        if not pin.typed and pin.seq >= before and not (known_pin(facts, pin) or refusal(facts, pin)):
            facts = changed(facts, pins=(*facts.pins, pin))
    return facts.pins


def _moved(breaker: Breaker, tokens: int) -> Breaker:
    """What the rewind added or removed is no growth."""
    return replace(breaker, used=breaker.used + tokens) if breaker.failures else breaker
