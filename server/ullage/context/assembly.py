"""Making a replacement from a plan: what is kept, part by part, each within its share (design 6.9).

Invariant: the active task, pins, people's words and the tail are disjoint: nothing that was said stands twice, unless
it is an exact record. Instruction files in force stand beside them as they were given. What came after the plan's
source is carried over whole. The same inputs give the same replacement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.context.digest import digest
from ullage.context.instructions import kept as kept_instructions
from ullage.context.instructions import kept_tokens
from ullage.context.ledger import fit_summary, ledger_text, summary_of, without_copies
from ullage.context.limits import BOUNDS, LIMITS, TERSE_SHARES, Limits
from ullage.context.occupancy import count_message
from ullage.context.profiles.profile import Profile
from ullage.context.replacement import fitted_pins, head_tokens, newest_records, pins_tokens
from ullage.context.tail import fill_tail, image_note, sound
from ullage.context.words import by_label, chosen
from ullage.core.context import CompactionPlan, Kept, Pin, Replacement, RestoredFile, Word
from ullage.core.messages import Image, Message, Part, Role, Text, ToolResult
from ullage.core.omission import omission, whole_items
from ullage.core.pins import ORIGIN, pin_note, text_of
from ullage.core.ports import TokenCounter
from ullage.core.state import MessageItem, ReplacementItem, State
from ullage.core.units import Unit, units

_GIVEN_OUT = 12
"""How often room for words is given out, with what was wrong about the last time put right."""
_FILES_FRAMING = 80
"""What files cost in a head beside themselves."""
_FILE_FRAMING = 60
"""What a file costs beside its text."""


_PINNED = "(Pinned: it stands above.)"


@dataclass(frozen=True, slots=True)
class Source:
    """A state cut for a compaction: the earlier replacement, messages to replace, and those that came after.

    Handoffs are in neither: they end with their epoch.
    """

    earlier: Replacement | None
    messages: tuple[Kept, ...]
    units: tuple[Unit, ...]
    carried: tuple[Kept, ...]
    pruned: frozenset[str] = frozenset()
    """Ids of messages among these that were pruned: a summary tells of them, no tail has them again."""


def cut_source(state: State, source_seq: int) -> Source:
    """Cut at a seq, or before the unit that reaches over it. Linear in messages.

    What was pruned is in it (W-A10); what a person wanted left out is not.
    """
    earlier: Replacement | None = None
    kept: list[Kept] = []
    for item in whole_items(state.items, asked=False):
        if isinstance(item, MessageItem):
            kept.append(Kept(item.seq, item.message, item.tokens))
        elif isinstance(item, ReplacementItem):
            earlier = item.replacement
    cuts = units([piece.message for piece in kept])
    within = len(cuts)
    while within and kept[cuts[within - 1].end - 1].seq > source_seq:
        within -= 1
    end = cuts[within - 1].end if within else 0
    found = omission(state.items)
    pruned = frozenset(left.item.message.message_id for left in found.left_out) if found else frozenset[str]()
    return Source(earlier, tuple(kept[:end]), tuple(cuts[:within]), tuple(kept[end:]), pruned)


def assemble(
    plan: CompactionPlan,
    state: State,
    counter: TokenCounter,
    profile: Profile,
    files: Iterable[RestoredFile],
    fence: str,
    summary: str | None = None,
    limits: Limits = LIMITS,
    *,
    instructions: int = 0,
) -> Replacement:
    """The replacement that a plan leads to, of at most `plan.target` tokens where that is possible.

    `files` are what was restored, newest first, each cut to its size already; `fence` is a random word; `summary` is a
    model's ledger; `instructions` is what instruction files in force may take, in tokens. Without a summary the digest
    is the ledger, and what a model wrote at an earlier compaction is kept.
    """
    source = cut_source(state, plan.source_seq)
    terse = plan.target <= BOUNDS.terse_target
    shares = TERSE_SHARES if terse else profile.shares
    carried = tuple(sound(source.carried, counter))
    task = _task(state, carried)
    pins = _pins(state, task, carried)
    apart = {word.message_id for word in task}
    words = _words(source, {*apart, *(pin.pin_id for pin in pins)})
    bare = _bare(state, (), pins, fence, counter, terse)
    bare = replace(bare, instructions=kept_instructions(state, instructions, counter))
    draft = _Draft(bare, plan.target - sum(kept.tokens for kept in carried), counter)
    draft.put(task=tuple(chosen(task, draft.left, counter)))
    draft.put(records=newest_records(state.facts.records, draft.share(plan, shares.records), counter))
    draft.put(pins=())
    draft.put(pins=fitted_pins(pins, draft.share(plan, shares.pins), counter))
    touched = draft.share(plan, shares.digest, shares.small_digest, BOUNDS.small_digest)
    facts = digest(state, touched, counter, limits, terse=terse)
    draft.put(ledger=ledger_text("", facts))
    room = draft.share(plan, shares.words, shares.small_words, BOUNDS.small_words)
    draft.put(words=tuple(chosen(words, room, counter)))
    draft.put(files=tuple(_fitted(files, draft.share(plan, shares.files), counter)))
    if text := summary if summary is not None else _earlier_summary(source):
        exact = (*(record.payload for record in state.facts.records), *(pin.text for pin in state.facts.pins))
        text = without_copies(text, exact)
        draft.put(ledger=ledger_text(fit_summary(text, draft.left * shares.summary // 100, counter), facts))
    pending = set(state.facts.open_turn.pending) if state.facts.open_turn else set()
    plain = summary is None
    # What told a pin before is told by the block, or was taken back; what was pruned stays away.
    apart.update(kept.message.message_id for kept in source.messages if kept.message.origin == ORIGIN)
    apart |= source.pruned
    tail = fill_tail(source.messages, source.units, draft.left, counter, plain=plain, pending=pending, apart=apart)
    in_tail = {kept.message.message_id for kept in tail}
    draft.put(pins=tuple(_not_whole_in(tail, draft.made.pins)))
    tail = tuple(_pointing(tail, draft.made.pins, counter))
    draft.put(tail=tail, words=())
    said = [word for word in words if word.message_id not in in_tail]
    draft.put_words(said, min(draft.left, room), terse=terse)
    return _within(replace(draft.made, tail=(*tail, *carried)), plan.target, counter)


@dataclass(slots=True)
class _Draft:
    """A replacement on its way, and the tokens it may take (without what is carried over)."""

    made: Replacement
    room: int
    counter: TokenCounter

    def put(self, **parts: Any) -> None:
        self.made = replace(self.made, **parts)
        self.made = replace(self.made, head_tokens=head_tokens(self.made, self.counter))

    def put_words(self, words: list[Word], room: int, *, terse: bool) -> None:
        """The words that fit. Counts of single words are rounded up, so what that leaves over is given out again."""
        end, give, best = self.made.tokens + room, room, self.made
        for _ in range(_GIVEN_OUT):
            kept = chosen(words, give, self.counter)
            self.put(words=tuple(by_label(kept) if terse else kept))
            left = end - self.made.tokens
            if left >= 0 and len(self.made.words) >= len(best.words):
                best = self.made
            if left == 0 or (left > 0 and len(self.made.words) == len(words)):
                break
            give += left
        self.made = best

    @property
    def left(self) -> int:
        return max(0, self.room - self.made.tokens)

    def share(self, plan: CompactionPlan, percent: int, small: int = 0, most: int = 0) -> int:
        """A part's share of the whole, or what is left if that is less. `small` percent are its share as long as that
        is at most `most` tokens."""
        return min(max(plan.target * percent // 100, min(plan.target * small // 100, most)), self.left)


def _bare(
    state: State, task: Iterable[Word], pins: Sequence[Pin], fence: str, counter: TokenCounter, terse: bool
) -> Replacement:
    ledger, least = ledger_text("", digest(state, 0, counter, terse=terse)), fitted_pins(pins, 0, counter)
    return Replacement(ledger, tuple(task), (), (), fence, (), 0, pins=least)


@dataclass(frozen=True, slots=True)
class Least:
    """Tokens that no replacement of the whole state goes below: the active task, a bare ledger, pins cut to the least,
    and what is carried of instruction files.

    `pins` is the pins' part of it, `whole_pins` what they take to the letter.
    """

    tokens: int
    pins: int
    whole_pins: int


def least(state: State, counter: TokenCounter, *, terse: bool = False, instructions: int = 0) -> Least:
    """What is mandatory in a replacement of the whole state, beside exact records.

    Instruction files in force are part of it, in `instructions` tokens.
    """
    task = _task(state, ())
    pins = _pins(state, task, ())
    bare = _bare(state, task, pins, "", counter, terse)
    tokens = head_tokens(bare, counter) + kept_tokens(state, instructions, counter)
    return Least(tokens, pins_tokens(bare.pins, counter), pins_tokens(pins, counter))


# --- pins ---


def _pins(state: State, task: Iterable[Word], carried: Sequence[Kept]) -> list[Pin]:
    """The pins that a head must hold: those that stand in the task or in what is carried over are in view there."""
    seen = {*(word.message_id for word in task), *(kept.message.message_id for kept in carried)}
    return [pin for pin in state.facts.pins if pin.pin_id not in seen and pin_note(pin).message_id not in seen]


def _not_whole_in(tail: Iterable[Kept], pins: Iterable[Pin]) -> Iterable[Pin]:
    """The pins without those whose message a tail holds to the letter."""
    texts = {kept.message.message_id: text_of(kept.message) for kept in tail}
    return (pin for pin in pins if texts.get(pin.pin_id) != pin.text)


def _pointing(tail: Iterable[Kept], pins: Iterable[Pin], counter: TokenCounter) -> Iterable[Kept]:
    """The tail with a note in place of what it holds a part of and a pin holds whole."""
    whole = {pin.pin_id for pin in pins}
    for kept in tail:
        if kept.message.message_id not in whole:
            yield kept
            continue
        parts = tuple(_pointer(part) for part in kept.message.parts)
        message = replace(kept.message, parts=parts)
        yield Kept(kept.seq, message, count_message(message, counter))


def _pointer(part: Part) -> Part:
    match part:
        case Text():
            return Text(_PINNED)
        case ToolResult():
            return replace(part, text=_PINNED)
        case _:
            return part


# --- words ---


def _task(state: State, carried: Iterable[Kept]) -> list[Word]:
    """The open turn's request and every steering message, except what is carried over anyway."""
    turn = state.facts.open_turn
    after = {kept.message.message_id for kept in carried}
    said = [message for message in turn.task if message.message_id not in after] if turn else []
    return [Word(message.message_id, _said(message)) for message in said if message.origin is None]


def _words(source: Source, apart: set[str]) -> list[Word]:
    """What people said before, oldest first, each once: of the earlier replacement, then of the source.

    What they no longer pin is a word of theirs again, unless they had only typed it to pin it.
    """
    old = source.earlier
    pinned = [Word(pin.pin_id, pin.text) for pin in old.pins if pin.role is Role.USER and not pin.typed] if old else []
    earlier = (*pinned, *old.words, *old.task) if old else ()
    said = [kept.message for kept in source.messages if _by_person(kept.message)]
    words = {word.message_id: word for word in earlier}
    for message in said:
        words.setdefault(message.message_id, Word(message.message_id, _said(message)))
    return [word for word in words.values() if word.message_id not in apart and word.text.strip()]


def _by_person(message: Message) -> bool:
    """Whether a person said it; what a host put in for the model has no claim to a share."""
    return message.role is Role.USER and message.origin is None


def _said(message: Message) -> str:
    """A person's message as text; images become notes."""
    notes = [image_note(part) for part in message.parts if isinstance(part, Image)]
    return "\n".join([message.text, *notes])


# --- files, summary, size ---


def _fitted(files: Iterable[RestoredFile], room: int, counter: TokenCounter) -> Iterable[RestoredFile]:
    """The newest files that fit; the first that does not is cut at a line end, and those after it are left out."""
    room -= _FILES_FRAMING
    for file in files:
        text = file.text
        room -= _FILE_FRAMING
        while text and counter.count(text) > room:
            text = _half(text)
        if not text.strip():
            return
        yield replace(file, text=text, cut=file.cut or len(text) < len(file.text))
        room -= counter.count(text)
        if len(text) < len(file.text):
            return


def _half(text: str) -> str:
    """The first half of a text's lines; nothing of a text that is one line."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: len(lines) // 2])


def _earlier_summary(source: Source) -> str:
    return summary_of(source.earlier.ledger) if source.earlier else ""


def _within(replacement: Replacement, most: int, counter: TokenCounter) -> Replacement:
    """The replacement with its head counted. Sums of parts are estimates, so the oldest words give way if need be."""
    words = replacement.words
    while True:
        replacement = replace(
            replacement, words=words, head_tokens=head_tokens(replace(replacement, words=words), counter)
        )
        if replacement.tokens <= most or not words:
            return replacement
        words = words[1:]
