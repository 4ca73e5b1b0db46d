"""State is `fold(entries)` and nothing else.

The law that makes opening cheap: folding the whole log equals folding from the facts that a checkpoint carries, over
that checkpoint and what follows it (`resume`).

The reducer is total. An event that can't have happened (a result nobody asked for, an answer of a closed turn, an
unacceptable checkpoint) changes nothing but `anomalies`.
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
    LogRepaired,
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
    SessionRenamed,
    SteerEntered,
    StepStarted,
    Stop,
    TokensRecounted,
    TurnEnded,
    TurnStarted,
    Unknown,
    UsageBooked,
)
from ullage.core.exact import with_records
from ullage.core.learning import learned
from ullage.core.limits import BOUNDS
from ullage.core.messages import LIMIT_STOPS, Message
from ullage.core.ratio import observed
from ullage.core.sequence import AppendOnly
from ullage.core.state import (
    Baseline,
    Breaker,
    Config,
    Facts,
    HandoffItem,
    Item,
    MessageItem,
    OpenTurn,
    Queued,
    ReplacementItem,
    Sent,
    State,
    changed,
    queued,
    turn_known,
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
    """The state after one more entry. Total: an impossible event is only noted in `anomalies`."""
    after = _apply(state, entry, entry.event)
    if after is None:
        seen = (*state.facts.anomalies, entry.seq)[-BOUNDS.anomalies_remembered :]
        after = replace(state, facts=changed(state.facts, anomalies=seen))
    facts = after.facts
    return State(changed(facts, last_seq=entry.seq, last_at=entry.at), after.items)


def _apply(state: State, entry: Entry, event: Event) -> State | None:
    """The state with the event applied, or None where it can't have happened."""
    facts = state.facts
    match event:
        case SessionCreated():
            return _created(state, entry, event)
        case SessionForked():
            return replace(state, facts=_forked(facts, event))
        case SessionRenamed():
            return replace(state, facts=changed(facts, title=event.title))
        case SessionConfigured():
            return _configured(state, entry, event)
        case PromptQueued() | PromptEdited() | PromptRemoved() | QueueHeld() | QueueReleased():
            return _queue(state, entry, event)
        case TurnStarted():
            return _turn_started(state, entry, event)
        case SteerEntered():
            return _steer_entered(state, entry, event)
        case StepStarted():
            return _step_started(state, entry, event)
        case AnswerReceived():
            return _answered(state, entry, event)
        case ResultReceived():
            return _result(state, entry, event)
        case UsageBooked():
            return replace(state, facts=_booked(facts, event))
        case TurnEnded():
            return _turn_ended(state, event)
        case TokensRecounted():
            return _recounted(state, event)
        case HandoffRecorded():
            item = HandoffItem(entry.seq, event.record, event.tokens, state.tokens + event.tokens)
            return State(changed(facts, handoffs=facts.handoffs + 1), state.items.append(item))
        case CheckpointCommitted():
            return _checkpoint(state, entry, event)
        case CompactionFailed():
            failed = breaker_after(facts.breaker, event.failure, entry.at)
            return replace(state, facts=changed(_attempted(facts, event.reason, facts.attempt_size), breaker=failed))
        case Unknown():
            reason = f"written by a newer version: {event.kind}" if event.critical else facts.read_only
            return replace(state, facts=changed(facts, read_only=reason))
        case LogRepaired() | DamageAccepted():
            return state
        case _:
            assert_never(event)


def _booked(facts: Facts, event: UsageBooked) -> Facts:
    if event.purpose is Purpose.SUMMARY:
        return changed(facts, summary_totals=facts.summary_totals.plus(event.usage))
    return changed(facts, turn_totals=facts.turn_totals.plus(event.usage))


# --- session and queue ---


def _forked(facts: Facts, event: SessionForked) -> Facts:
    """What belongs to the parent's life alone stays behind; its breaker too, whose key is the session."""
    cleared = changed(facts, parent=event.parent, queue=(), held=None, open_turn=None, sent=None, handoffs=0)
    return changed(cleared, breaker=Breaker())


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
    return replace(state, facts=facts)


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
    return replace(state, facts=changed(state.facts, config=config, revision=revision))


def _queue(
    state: State,
    entry: Entry,
    event: PromptQueued | PromptEdited | PromptRemoved | QueueHeld | QueueReleased,
) -> State | None:
    facts = state.facts
    match event:
        case PromptQueued():
            turn_id = event.message.turn_id
            if turn_known(facts, turn_id):
                return None
            waiting = Queued(event.message, event.mode, event.tokens, event.encoding, entry.seq)
            return replace(state, facts=changed(facts, queue=(*facts.queue, waiting)))
        case PromptEdited():
            turn_id = event.message.turn_id
            if queued(facts, turn_id) is None:
                return None
            edit = {"message": event.message, "tokens": event.tokens, "encoding": event.encoding}
            edited = tuple(replace(q, **edit) if q.turn_id == turn_id else q for q in facts.queue)  # type: ignore[arg-type]
            return replace(state, facts=changed(facts, queue=edited))
        case PromptRemoved():
            if queued(facts, event.turn_id) is None:
                return None
            ended = _ended(facts, event.turn_id, Stop.CANCELLED)
            return replace(state, facts=changed(ended, queue=_without(facts.queue, event.turn_id)))
        case QueueHeld():
            return replace(state, facts=changed(facts, held=event.reason))
        case QueueReleased():
            return replace(state, facts=changed(facts, held=None))
        case _:
            assert_never(event)


def _without(queue: tuple[Queued, ...], turn_id: str) -> tuple[Queued, ...]:
    return tuple(q for q in queue if q.turn_id != turn_id)


def _ended(facts: Facts, turn_id: str, stop: Stop) -> Facts:
    ended = (*facts.ended_turns, (turn_id, stop))[-BOUNDS.turns_remembered :]
    return changed(facts, ended_turns=ended)


# --- turn ---


def _add(state: State, entry: Entry, message: Message, tokens: int, encoding: str) -> AppendOnly[Item]:
    return state.items.append(MessageItem(entry.seq, message, tokens, encoding, state.tokens + tokens))


def _turn_started(state: State, entry: Entry, event: TurnStarted) -> State | None:
    facts, waiting = state.facts, queued(state.facts, event.turn_id)
    if facts.open_turn is not None or waiting is None:
        return None
    started = changed(
        facts,
        queue=_without(facts.queue, event.turn_id),
        open_turn=OpenTurn(event.turn_id, 0, (waiting.message,), started=entry.seq),
        turns=facts.turns + 1,
        title=facts.title or _title(waiting.message),
        records=with_records(facts.records, waiting.message),
    )
    return State(started, _add(state, entry, waiting.message, waiting.tokens, waiting.encoding))


def _title(message: Message) -> str:
    """A session's first title: the first line of what the person said, never of anything hidden."""
    lines = message.text.strip().splitlines()
    return lines[0][:80] if lines else ""


def _steer_entered(state: State, entry: Entry, event: SteerEntered) -> State | None:
    facts, waiting = state.facts, queued(state.facts, event.steer_id)
    turn = facts.open_turn
    if turn is None or turn.turn_id != event.turn_id or waiting is None or turn.pending:
        return None
    joined = replace(turn, task=(*turn.task, waiting.message))
    facts = changed(
        _ended(facts, event.steer_id, Stop.DONE),
        queue=_without(facts.queue, event.steer_id),
        open_turn=joined,
        records=with_records(facts.records, waiting.message),
    )
    return State(facts, _add(state, entry, waiting.message, waiting.tokens, waiting.encoding))


def _step_started(state: State, entry: Entry, event: StepStarted) -> State | None:
    facts, turn = state.facts, state.facts.open_turn
    if turn is None or turn.turn_id != event.turn_id or turn.pending:
        return None
    sent = Sent(len(state.items), event.occupancy.fixed, event.step, event.turn_id, facts.revision)
    started = changed(
        facts,
        open_turn=replace(turn, step=event.step),
        sent=sent,
        steps=facts.steps + 1,
        last_call_at=entry.at,
    )
    return replace(state, facts=started)


def _answered(state: State, entry: Entry, event: AnswerReceived) -> State | None:
    facts, turn, sent = state.facts, state.facts.open_turn, state.facts.sent
    if turn is None or turn.turn_id != event.turn_id or sent is None or sent.step != event.step:
        return None
    items = _add(state, entry, event.message, event.tokens, event.encoding)
    pending = tuple(call.call_id for call in event.message.calls)
    answered = changed(
        facts,
        open_turn=replace(turn, pending=pending),
        turn_totals=facts.turn_totals.plus(event.usage),
        baseline=_baseline(state, sent, event, len(items)),
        ratios=observed(state, sent, event.usage, event.model),
        sent=None,
        last_call_at=entry.at,
        records=with_records(facts.records, event.message, cut=not event.complete or event.stop in LIMIT_STOPS),
    )
    if event.complete:
        answered = changed(answered, attempts=0, attempt_size=0, overflow_spent=False)
    return State(answered, items)


def _baseline(state: State, sent: Sent, event: AnswerReceived, length: int) -> Baseline | None:
    """What projection may build on from here: nothing where usage is missing or items came in between.

    The answer is in the provider's total already. Reasoning that is not sent back is taken off again.
    """
    floor = event.usage.floor
    if floor is None or sent.length != len(state.items):
        return None
    kept = floor if event.message.has_opaque else max(0, floor - (event.usage.reasoning or 0))
    return Baseline(kept, length, sent.fixed, sent.revision, event.model)


def _result(state: State, entry: Entry, event: ResultReceived) -> State | None:
    turn, results = state.facts.open_turn, event.message.results
    if turn is None or turn.turn_id != event.turn_id or len(results) != 1 or results[0].call_id not in turn.pending:
        return None
    result = results[0]
    pending = tuple(call_id for call_id in turn.pending if call_id != result.call_id)
    facts = changed(state.facts, open_turn=replace(turn, pending=pending))
    facts = learned(facts, entry, result)
    return State(facts, _add(state, entry, event.message, event.tokens, event.encoding))


def _turn_ended(state: State, event: TurnEnded) -> State | None:
    turn = state.facts.open_turn
    if turn is None or turn.turn_id != event.turn_id or turn.pending:
        return None
    facts = _ended(state.facts, event.turn_id, event.stop)
    return replace(state, facts=changed(facts, open_turn=None, sent=None))


def _recounted(state: State, event: TokensRecounted) -> State:
    counts, items, upto = dict(event.counts), AppendOnly[Item](), 0
    for item in state.items:
        tokens, changes = item.tokens, {}
        if isinstance(item, MessageItem) and item.message.message_id in counts:
            tokens = counts[item.message.message_id]
            changes = {"encoding": event.encoding}
        upto += tokens
        items = items.append(replace(item, tokens=tokens, upto=upto, **changes))  # type: ignore[arg-type]
    queue = tuple(_recounted_prompt(waiting, counts, event.encoding) for waiting in state.facts.queue)
    return State(changed(state.facts, queue=queue), items)


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
    """Swap items for the replacement. What came after the source stands in the replacement's tail already."""
    if event.revision != state.facts.revision or checkpoint_problem(event) is not None:
        return None
    facts = _attempted(state.facts, event.report.reason, event.report.after)
    facts = changed(
        facts,
        revision=entry.seq,
        epoch=entry.seq,
        handoffs=0,
        baseline=None,
        sent=None,
        compactions=facts.compactions + 1,
        breaker=breaker_after_report(facts.breaker, event.report, entry.at),
    )
    return State(facts, replacement_items(entry.seq, event.replacement))


def replacement_items(seq: int, replacement: Replacement) -> AppendOnly[Item]:
    """Items of a replacement: its head, then its tail as messages."""
    head = replacement.head_tokens
    items: list[Item] = [ReplacementItem(seq, replacement, head, head)]
    upto = head
    for kept in replacement.tail:
        upto += kept.tokens
        items.append(_kept_item(kept, upto))
    return AppendOnly(items)


def _kept_item(kept: Kept, upto: int) -> MessageItem:
    return MessageItem(kept.seq, kept.message, kept.tokens, "", upto)
