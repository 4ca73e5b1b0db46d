"""What prompts and turns do to the state, also where lines before them are lost.

Invariants. At most one turn is open, and one that ended stays ended. A step is answered at most once, and so is a call.
An event that breaks this changes nothing: its function answers None. An event that only lacks what must have come
before it (the start of its turn, the end of the turn before, its step, a result) is taken as far as it goes and noted
in `anomalies`. So what a client sees behind a damaged line, the model sees too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ullage.core.events import (
    AnswerReceived,
    Entry,
    PromptEdited,
    PromptMode,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    QueueReleased,
    ResultReceived,
    SteerEntered,
    StepStarted,
    Stop,
    TurnEnded,
    TurnStarted,
)
from ullage.core.exact import with_records
from ullage.core.learning import learned
from ullage.core.limits import BOUNDS
from ullage.core.messages import LIMIT_STOPS, Message
from ullage.core.ratio import observed
from ullage.core.sequence import AppendOnly
from ullage.core.state import (
    Baseline,
    Facts,
    Item,
    MessageItem,
    OpenTurn,
    Queued,
    Sent,
    State,
    changed,
    ended_how,
    queued,
    spent,
    turn_known,
    with_facts,
)


def noted(state: State, entry: Entry) -> State:
    """The state with this entry among the anomalies, once."""
    seen = state.facts.anomalies
    if seen and seen[-1] == entry.seq:
        return state
    return with_facts(state, changed(state.facts, anomalies=(*seen, entry.seq)[-BOUNDS.anomalies_remembered :]))


# --- the queue ---


def queue_changed(
    state: State,
    entry: Entry,
    event: PromptQueued | PromptEdited | PromptRemoved | QueueHeld | QueueReleased,
) -> State | None:
    facts = state.facts
    match event:
        case PromptQueued(message, mode):
            return _queued(state, entry, event, mode)
        case PromptEdited(message):
            if queued(facts, message.turn_id) is None:
                lost = _queued(state, entry, event, PromptMode.QUEUE)
                return lost and noted(lost, entry)
            edit = {"message": message, "tokens": event.tokens, "encoding": event.encoding}
            edited = tuple(replace(q, **edit) if q.turn_id == message.turn_id else q for q in facts.queue)  # type: ignore[arg-type]
            return with_facts(state, changed(facts, queue=edited))
        case PromptRemoved(turn_id):
            known = queued(facts, turn_id) is not None
            if not known and turn_known(facts, turn_id):
                return None
            ended = _ended(facts, turn_id, Stop.CANCELLED)
            after = with_facts(state, changed(ended, queue=_without(facts.queue, turn_id)))
            return after if known else noted(after, entry)
        case QueueHeld(reason):
            return with_facts(state, changed(facts, held=reason))
        case QueueReleased():
            return with_facts(state, changed(facts, held=None))
        case _:
            assert_never(event)


def _queued(state: State, entry: Entry, event: PromptQueued | PromptEdited, mode: PromptMode) -> State | None:
    facts = state.facts
    if turn_known(facts, event.message.turn_id):
        return None
    waiting = Queued(event.message, mode, event.tokens, event.encoding, entry.seq)
    return with_facts(state, changed(facts, queue=(*facts.queue, waiting)))


def _without(queue: tuple[Queued, ...], turn_id: str) -> tuple[Queued, ...]:
    return tuple(q for q in queue if q.turn_id != turn_id)


def _ended(facts: Facts, turn_id: str, stop: Stop) -> Facts:
    ended = (*facts.ended_turns, (turn_id, stop))[-BOUNDS.turns_remembered :]
    return changed(facts, ended_turns=ended)


def _add(state: State, entry: Entry, message: Message, tokens: int, encoding: str) -> AppendOnly[Item]:
    return state.items.append(MessageItem(entry.seq, message, tokens, encoding, state.tokens + tokens))


# --- a turn's start and end ---


def turn_started(state: State, entry: Entry, event: TurnStarted) -> State | None:
    facts, turn_id = state.facts, event.turn_id
    waits = queued(facts, turn_id) is not None
    if not waits and turn_known(facts, turn_id):
        return None
    after, _ = _opened(state, entry, turn_id)
    return after if waits and facts.open_turn is None else noted(after, entry)


def _opened(state: State, entry: Entry, turn_id: str) -> tuple[State, OpenTurn]:
    """The state with that turn open, with its prompt where it waits. A turn that was open must have ended before."""
    facts, waiting = state.facts, queued(state.facts, turn_id)
    if facts.open_turn is not None:
        facts = _ended(facts, facts.open_turn.turn_id, Stop.INTERRUPTED)
    turn = OpenTurn(turn_id, 0, (waiting.message,) if waiting else (), started=entry.seq, before=spent(facts))
    facts = changed(
        facts,
        queue=_without(facts.queue, turn_id),
        open_turn=turn,
        sent=None,
        redoable=-1,
        turns=facts.turns + 1,
        title=facts.title or (_title(waiting.message) if waiting else ""),
        records=with_records(facts.records, waiting.message) if waiting else facts.records,
    )
    if waiting is None:
        return State(facts, state.items), turn
    return State(facts, _add(state, entry, waiting.message, waiting.tokens, waiting.encoding)), turn


def _title(message: Message) -> str:
    """A session's first title: the first line of what the person said, never of anything hidden."""
    lines = message.text.strip().splitlines()
    return lines[0][:80] if lines else ""


def _within(state: State, entry: Entry, turn_id: str) -> tuple[State, OpenTurn] | None:
    """The state an event of that turn meets: the turn is open, or its start was lost; None where it has ended."""
    turn = state.facts.open_turn
    if turn is not None and turn.turn_id == turn_id:
        return state, turn
    if ended_how(state.facts, turn_id) is not None:
        return None
    after, turn = _opened(state, entry, turn_id)
    return noted(after, entry), turn


def turn_ended(state: State, entry: Entry, event: TurnEnded) -> State | None:
    within = _within(state, entry, event.turn_id)
    if within is None:
        return None
    before, turn = within
    facts = _ended(before.facts, event.turn_id, event.stop)
    after = with_facts(before, changed(facts, open_turn=None, sent=None))
    return noted(after, entry) if turn.pending else after


def steer_entered(state: State, entry: Entry, event: SteerEntered) -> State | None:
    within, waiting = _within(state, entry, event.turn_id), queued(state.facts, event.steer_id)
    if within is None or event.steer_id == event.turn_id:
        return None
    if waiting is None and turn_known(state.facts, event.steer_id):
        return None
    before, turn = within
    facts = _ended(before.facts, event.steer_id, Stop.DONE)
    if waiting is None:
        return noted(State(facts, before.items), entry)
    joined = replace(turn, task=(*turn.task, waiting.message), pending=())
    facts = changed(
        facts,
        queue=_without(facts.queue, event.steer_id),
        open_turn=joined,
        records=with_records(facts.records, waiting.message),
    )
    after = State(facts, _add(before, entry, waiting.message, waiting.tokens, waiting.encoding))
    return noted(after, entry) if turn.pending else after


# --- steps ---


def step_started(state: State, entry: Entry, event: StepStarted) -> State | None:
    within = _within(state, entry, event.turn_id)
    if within is None:
        return None
    before, turn = within
    if event.step <= turn.step:
        return None
    facts = before.facts
    now = event.occupancy
    sent = Sent(len(before.items), now.fixed, event.step, event.turn_id, facts.revision, now.used)
    started = changed(
        facts,
        open_turn=changed(turn, step=event.step, pending=(), results=()),
        sent=sent,
        steps=facts.steps + 1,
        last_call_at=entry.at,
    )
    after = State(started, before.items)
    return noted(after, entry) if turn.pending or event.step > turn.step + 1 else after


def answered(state: State, entry: Entry, event: AnswerReceived) -> State | None:
    within = _within(state, entry, event.turn_id)
    if within is None:
        return None
    before, turn = within
    if event.step < turn.step or event.step <= turn.answered:
        return None
    facts, sent = before.facts, before.facts.sent
    asked = sent is not None and sent.step == event.step
    items = _answer_added(before, entry, event)
    pending = tuple(call.call_id for call in event.message.calls)
    guess = event.tokens + (sent.tokens if sent is not None and asked else 0)
    facts = changed(
        facts,
        open_turn=changed(turn, step=event.step, answered=event.step, pending=pending, results=()),
        turn_totals=facts.turn_totals.plus(event.usage, event.cost, guess),
        baseline=_baseline(before, sent, event, len(items)) if sent is not None and asked else None,
        ratios=observed(before, sent, event.usage, event.model) if sent is not None and asked else facts.ratios,
        sent=None,
        last_call_at=entry.at,
        records=with_records(facts.records, event.message, cut=not event.complete or event.stop in LIMIT_STOPS),
    )
    if event.complete:
        facts = changed(facts, attempts=0, attempt_size=0, overflow_spent=False)
    return State(facts, items) if asked else noted(State(facts, items), entry)


def _answer_added(state: State, entry: Entry, event: AnswerReceived) -> AppendOnly[Item]:
    """Without what its model signed, where the session got another model meanwhile: that would not be sent back."""
    model = state.facts.config.model
    message, less = (event.message, 0) if model is None else event.message.portable(model)
    return _add(state, entry, message, event.tokens - less, event.encoding)


def _baseline(state: State, sent: Sent, event: AnswerReceived, length: int) -> Baseline | None:
    """What projection may build on from here: nothing where usage is missing or items came in between.

    The answer is in the provider's total already. Reasoning that is not sent back is taken off again.
    """
    floor = event.usage.floor
    if floor is None or sent.length != len(state.items):
        return None
    kept = floor if event.message.has_opaque else max(0, floor - (event.usage.reasoning or 0))
    return Baseline(kept, length, sent.fixed, sent.revision, event.model)


def result_received(state: State, entry: Entry, event: ResultReceived) -> State | None:
    within, results = _within(state, entry, event.turn_id), event.message.results
    if within is None or len(results) != 1:
        return None
    before, turn = within
    [result] = results
    whole = result.call_id in turn.pending
    if not whole and (result.call_id in turn.results or event.step < turn.step):
        return None
    facts = before.facts
    if whole:
        pending = tuple(call_id for call_id in turn.pending if call_id != result.call_id)
        facts = changed(facts, open_turn=changed(turn, pending=pending, results=(*turn.results, result.call_id)))
    else:
        facts = changed(facts, open_turn=_caught_up(turn, event.step, result.call_id), sent=None)
    facts = learned(facts, entry, result)
    after = State(facts, _add(before, entry, event.message, event.tokens, event.encoding))
    return after if whole else noted(after, entry)


def _caught_up(turn: OpenTurn, step: int, call_id: str) -> OpenTurn:
    """The turn after a result whose call was lost: its step was answered, and calls of earlier steps are over."""
    if step > turn.step:
        turn = replace(turn, step=step, pending=(), results=())
    return replace(turn, answered=step, results=(*turn.results, call_id))
