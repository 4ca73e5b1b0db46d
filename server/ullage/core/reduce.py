"""State is `fold(entries)` and nothing else.

The law that makes opening cheap: folding the whole log equals folding from the facts that a checkpoint carries, over
that checkpoint and what follows it (`resume`).

The reducer is total. An event that contradicts what is known (a second result of a call, an answer of a turn that
ended, an unacceptable checkpoint) changes nothing but `anomalies`. One that only lacks what came before it, because
lines of the log are lost, is taken as far as it goes and noted there too (`reduce_turns`). The next checkpoint heals
the facts: it carries what they were before anything was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from ullage.core.breaker import breaker_after, breaker_after_report
from ullage.core.checkpoint import checkpoint_problem
from ullage.core.context import Kept, Reason, Replacement
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    CompactionFailed,
    DamageAccepted,
    Entry,
    Event,
    HandoffRecorded,
    ImagesLeftOut,
    ImagesMissing,
    InstructionsAdded,
    ItemsOmitted,
    ItemsRestored,
    LogRepaired,
    PinAdded,
    PinRemoved,
    PromptEdited,
    PromptQueued,
    PromptRemoved,
    Purpose,
    QueueHeld,
    QueueReleased,
    ResultReceived,
    SessionConfigured,
    SessionCreated,
    SessionForked,
    SessionRedone,
    SessionRenamed,
    SessionRewound,
    SteerEntered,
    StepStarted,
    TokensRecounted,
    TurnEnded,
    TurnStarted,
    Unknown,
    UsageBooked,
)
from ullage.core.grants import PermissionGranted
from ullage.core.limits import BOUNDS
from ullage.core.messages import BlobRef
from ullage.core.omission import omission, omitted, recounted, restored, whole_items
from ullage.core.pins import pin_added, pin_removed, pins_told
from ullage.core.reduce_turns import (
    answered,
    noted,
    queue_changed,
    result_received,
    steer_entered,
    step_started,
    turn_ended,
    turn_started,
)
from ullage.core.sequence import AppendOnly
from ullage.core.state import (
    Breaker,
    Config,
    Facts,
    HandoffItem,
    InstructionsItem,
    Item,
    MessageItem,
    OmissionItem,
    Queued,
    ReplacementItem,
    State,
    Totals,
    changed,
    with_facts,
)


def fold(entries: Iterable[Entry], start: State | None = None) -> State:
    """Reduce entries in order, from `start` or from nothing."""
    state = start or State()
    for entry in entries:
        state = reduce(state, entry)
    return state


def resume(entry: Entry) -> State:
    """The state right after a checkpoint, from that checkpoint's line alone.

    Raises:
        ValueError: the entry is not a checkpoint.
    """
    if not isinstance(entry.event, CheckpointCommitted):
        raise ValueError("only a checkpoint can be resumed from")
    return reduce(State(facts=entry.event.facts), entry)


def reduce(state: State, entry: Entry) -> State:
    """The state after one more entry. Total: a contradictory event is only noted in `anomalies`."""
    after = _apply(state, entry, entry.event)
    if after is None:
        after = noted(state, entry)
    if after.facts.pins_untold:
        after = pins_told(after, entry)
    facts = after.facts
    return State(changed(facts, last_seq=entry.seq, last_at=entry.at), after.items)


def _apply(state: State, entry: Entry, event: Event) -> State | None:
    """The state with the event applied, or None where it contradicts what is known."""
    facts = state.facts
    match event:
        case SessionCreated():
            return _created(state, entry, event)
        case SessionForked():
            return with_facts(state, _forked(facts, event))
        case SessionRenamed():
            return with_facts(state, changed(facts, title=event.title))
        case SessionConfigured():
            return _configured(state, entry, event)
        case PromptQueued() | PromptEdited() | PromptRemoved() | QueueHeld() | QueueReleased():
            return queue_changed(state, entry, event)
        case TurnStarted():
            return turn_started(state, entry, event)
        case SteerEntered():
            return steer_entered(state, entry, event)
        case StepStarted():
            return step_started(state, entry, event)
        case AnswerReceived():
            return answered(state, entry, event)
        case ResultReceived():
            return result_received(state, entry, event)
        case UsageBooked():
            return with_facts(state, _booked(facts, event))
        case TurnEnded():
            return turn_ended(state, entry, event)
        case TokensRecounted():
            return _recounted(state, event)
        case HandoffRecorded():
            item = HandoffItem(entry.seq, event.record, event.tokens, state.tokens + event.tokens)
            return State(changed(facts, handoffs=facts.handoffs + 1), state.items.append(item))
        case ItemsOmitted():
            return omitted(state, entry, event)
        case ItemsRestored():
            return restored(state, entry, event)
        case InstructionsAdded(instructions, tokens, encoding):
            given = InstructionsItem(entry.seq, instructions, tokens, encoding, state.tokens + tokens)
            return State(facts, state.items.append(given))
        case CheckpointCommitted():
            return _checkpoint(state, entry, event)
        case CompactionFailed():
            failed = breaker_after(facts.breaker, event.failure, entry.at)
            return with_facts(state, changed(_attempted(facts, event.reason, facts.attempt_size), breaker=failed))
        case ImagesMissing(images):
            return with_facts(state, _missing(facts, entry, images))
        case PinAdded():
            return pin_added(state, event)
        case PinRemoved():
            return pin_removed(state, event)
        case PermissionGranted():
            return with_facts(state, _granted(state.facts, event))
        case SessionRewound() | SessionRedone():
            return _went(state, entry, event)
        case Unknown():
            reason = f"written by a newer version: {event.kind}" if event.critical else facts.read_only
            return with_facts(state, changed(facts, read_only=reason))
        case LogRepaired() | DamageAccepted() | ImagesLeftOut():
            return state
        case _:
            assert_never(event)


def _booked(facts: Facts, event: UsageBooked) -> Facts:
    if event.purpose is Purpose.SUMMARY:
        return changed(facts, summary_totals=facts.summary_totals.plus(event.usage, event.cost))
    return changed(facts, turn_totals=facts.turn_totals.plus(event.usage, event.cost))


def _granted(facts: Facts, event: PermissionGranted) -> Facts:
    grants = (*(grant for grant in facts.grants if grant != event), event)
    return changed(facts, grants=grants[-BOUNDS.grants_remembered :])


def _missing(facts: Facts, entry: Entry, images: Iterable[BlobRef]) -> Facts:
    """What was sent of them before is sent no more, so the revision moves."""
    known = dict.fromkeys((*facts.missing, *(image.sha256 for image in images)))
    return changed(facts, missing=tuple(known)[-BOUNDS.missing_remembered :], revision=entry.seq)


# --- session ---


def _forked(facts: Facts, event: SessionForked) -> Facts:
    """What belongs to the parent's life alone stays behind: its breaker too, whose key is the session, and its bill."""
    cleared = changed(facts, parent=event.parent, queue=(), held=None, open_turn=None, sent=None, handoffs=0)
    return changed(cleared, breaker=Breaker(), grants=(), redoable=-1, turn_totals=Totals(), summary_totals=Totals())


def _created(state: State, entry: Entry, event: SessionCreated) -> State | None:
    if state.facts.session_id:
        return None
    facts = changed(
        state.facts,
        session_id=event.session_id,
        root=event.root,
        device=event.device,
        inode=event.inode,
        parent=event.parent,
        created_at=entry.at,
    )
    return with_facts(state, facts)


def _configured(state: State, entry: Entry, event: SessionConfigured) -> State:
    old = state.facts.config
    config = Config(
        event.model if event.model is not None else old.model,
        event.profile if event.profile is not None else old.profile,
        event.permission_mode if event.permission_mode is not None else old.permission_mode,
        event.window if event.window is not None else old.window,
        event.output_cap if event.output_cap is not None else old.output_cap,
        event.auto_compaction if event.auto_compaction is not None else old.auto_compaction,
        event.handoff if event.handoff is not None else old.handoff,
    )
    switched = (config.model, config.profile) != (old.model, old.profile)
    revision = entry.seq if switched else state.facts.revision
    items = state.items if config.model in (None, old.model) else _portable(state.items, config.model)
    # Whoever sets the mode says anew what may be done.
    grants = state.facts.grants if event.permission_mode is None else ()
    return State(changed(state.facts, config=config, revision=revision, grants=grants), items)


def _portable(items: Iterable[Item], model: str) -> AppendOnly[Item]:
    """Items without what other models signed: it would not be sent, so it must not count, whoever answers later."""
    kept, upto = list[Item](), 0
    for item in items:
        match item:
            case MessageItem():
                item = _portable_message(item, model)
            case OmissionItem(left_out=left_out):
                slim = tuple(replace(left, item=_portable_message(left.item, model)) for left in left_out)
                item = replace(item, left_out=slim)
            case _:
                pass
        upto += item.tokens
        kept.append(item if item.upto == upto else replace(item, upto=upto))
    return AppendOnly(kept)


def _portable_message(item: MessageItem, model: str) -> MessageItem:
    message, less = item.message.portable(model)
    return replace(item, message=message, tokens=item.tokens - less) if less else item


def _recounted(state: State, event: TokensRecounted) -> State:
    counts, items = dict(event.counts), list[Item]()
    for item in state.items:
        if isinstance(item, MessageItem | InstructionsItem) and item.message.message_id in counts:
            item = replace(item, tokens=counts[item.message.message_id], encoding=event.encoding)
        elif isinstance(item, OmissionItem):
            item = recounted(item, counts, event.encoding)
        items.append(item)
    queue = tuple(_recounted_prompt(waiting, counts, event.encoding) for waiting in state.facts.queue)
    return State(changed(state.facts, queue=queue), _summed(items))


def _recounted_prompt(waiting: Queued, counts: Mapping[str, int], encoding: str) -> Queued:
    tokens = counts.get(waiting.message.message_id)
    return waiting if tokens is None else replace(waiting, tokens=tokens, encoding=encoding)


# --- context ---


def _attempted(facts: Facts, reason: Reason, size: int) -> Facts:
    """Count an automatic attempt; a manual one is a person's will and needs no guard but "nothing to gain"."""
    if reason is Reason.MANUAL:
        return facts
    return changed(
        facts,
        attempts=facts.attempts + 1,
        attempt_size=size,
        overflow_spent=facts.overflow_spent or reason is Reason.OVERFLOW,
    )


def _checkpoint(state: State, entry: Entry, event: CheckpointCommitted) -> State | None:
    """Swap items for the replacement. What came after the source stands in the replacement's tail already.

    Facts are the checkpoint's own: where lines before it are lost, they say what was. Identity alone is the header's,
    because a fork's copied checkpoints name the parent.
    """
    if event.revision != event.facts.revision or checkpoint_problem(event) is not None:
        return None
    facts = _attempted(event.facts, event.report.reason, event.report.after)
    facts = changed(
        _identified(facts, state.facts),
        revision=entry.seq,
        epoch=entry.seq,
        handoffs=0,
        baseline=None,
        sent=None,
        pins_untold=(),  # the replacement tells them
        redoable=-1,
        compactions=facts.compactions + 1,
        breaker=breaker_after_report(facts.breaker, event.report, entry.at),
    )
    return State(facts, replacement_items(entry.seq, event.replacement))


def _went(state: State, entry: Entry, event: SessionRewound | SessionRedone) -> State:
    """Go back or return: the event holds what of the state is not here any more (`core.rewinding`).

    What another model signed does not come back: the session may have another one by now.
    """
    found = omission(state.items)
    whole = whole_items(state.items) if found and found.seq >= event.cut else state.items
    items = [*(item for item in whole if item.seq < event.cut), *event.items]
    facts = changed(
        _identified(event.facts, state.facts),
        revision=entry.seq,
        handoffs=sum(isinstance(item, HandoffItem) for item in items),
        open_turn=None,
        baseline=None,
        sent=None,
        redoable=entry.seq if isinstance(event, SessionRewound) else event.facts.redoable,
    )
    model = facts.config.model
    after = State(facts, _summed(items) if model is None else _portable(items, model))
    known = state.facts
    fits = known.open_turn is None and (not event.cut or facts.epoch == known.epoch)
    return after if fits else noted(after, entry)


def _identified(facts: Facts, known: Facts) -> Facts:
    if not known.session_id:
        return facts
    return changed(
        facts,
        session_id=known.session_id,
        root=known.root,
        device=known.device,
        inode=known.inode,
        created_at=known.created_at,
    )


def _summed(items: Iterable[Item]) -> AppendOnly[Item]:
    """Items with their sums made anew."""
    summed, upto = list[Item](), 0
    for item in items:
        upto += item.tokens
        summed.append(item if item.upto == upto else replace(item, upto=upto))
    return AppendOnly(summed)


def replacement_items(seq: int, replacement: Replacement) -> AppendOnly[Item]:
    """Items of a replacement: its head, the instructions in force, then its tail as messages."""
    head = replacement.head_tokens
    items: list[Item] = [ReplacementItem(seq, replacement, head, head)]
    upto = head
    for given in replacement.instructions:
        upto += given.tokens
        items.append(InstructionsItem(given.seq, given.instructions, given.tokens, "", upto))
    for kept in replacement.tail:
        upto += kept.tokens
        items.append(_kept_item(kept, upto))
    return AppendOnly(items)


def _kept_item(kept: Kept, upto: int) -> MessageItem:
    return MessageItem(kept.seq, kept.message, kept.tokens, "", upto)
