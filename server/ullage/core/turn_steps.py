"""What the turn machine does with prompts, answers, tool results, cancels and closing."""

from __future__ import annotations

from dataclasses import replace

from ullage.core.commands import (
    Append,
    AskPermission,
    CallProvider,
    Command,
    CompactionEnded,
    CompactionOutcome,
    DecideCalls,
    Finish,
    PlanCompaction,
    PlanStep,
    RecordHandoff,
    RefuseRewind,
    ReplyTurn,
    Rewind,
    RunTools,
    StopEffects,
)
from ullage.core.context import CompactFirst, HandoffFirst, Impossible, Proceed, Reason
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    AnswerReceived,
    Event,
    ItemsOmitted,
    PromptEdited,
    PromptMode,
    PromptQueued,
    PromptRemoved,
    QueueReleased,
    StepStarted,
    Stop,
)
from ullage.core.inputs import (
    Allowed,
    AnswerArrived,
    CallsDecided,
    CancelAsked,
    CloseAsked,
    CommitFailed,
    Denied,
    OutputStarted,
    PermissionAnswered,
    PromptArrived,
    PromptEditAsked,
    PromptRemoveAsked,
    ProviderFailed,
    QueueResumeAsked,
    RedoAsked,
    RewindAsked,
    StepPlanned,
    Stopped,
    ToolFinished,
    Waiting,
)
from ullage.core.messages import LIMIT_STOPS, ToolCall, ToolResult
from ullage.core.state import Facts, State, ended_how, queued, turn_known
from ullage.core.turn_flow import (
    answer_message,
    begin_compaction,
    end_turn,
    entering_steers,
    go_on,
    next_step,
    opened_turn,
    partial_answer,
    result_event,
    settle,
    start_turn,
)
from ullage.core.turn_state import Compacting, Step, Turn, TurnState

# --- prompts and the queue ---


def prompt_idle(turn: Turn, state: State, event: PromptArrived) -> Step:
    turn_id, facts = event.message.turn_id, state.facts
    if turn_known(facts, turn_id):
        return Step(turn, _known(facts, turn_id))
    accepted = PromptQueued(event.message, event.mode, 0, "")
    if facts.held and facts.queue and event.mode is not PromptMode.STEER:
        return Step(turn, (Append((accepted,)),))
    return start_turn(turn, (accepted,), turn_id)


def prompt_busy(turn: Turn, state: State, event: PromptArrived) -> Step:
    turn_id = event.message.turn_id
    if turn_known(state.facts, turn_id):
        return Step(turn, _known(state.facts, turn_id))
    return Step(turn, (Append((PromptQueued(event.message, event.mode, 0, ""),)),))


def _known(facts: Facts, turn_id: str) -> tuple[Command, ...]:
    stop = ended_how(facts, turn_id)
    return (ReplyTurn(turn_id, stop),) if stop else ()


def edit(turn: Turn, state: State, event: PromptEditAsked) -> Step:
    if queued(state.facts, event.message.turn_id) is None:
        return Step(turn, ())
    return Step(turn, (Append((PromptEdited(event.message, 0, ""),)),))


def remove(turn: Turn, state: State, event: PromptRemoveAsked) -> Step:
    return Step(turn, _unqueue(state, event.turn_id))


def resume_idle(turn: Turn, state: State, event: QueueResumeAsked) -> Step:
    released: tuple[Event, ...] = (QueueReleased(),)
    if state.facts.queue:
        return start_turn(turn, released, state.facts.queue[0].turn_id)
    return Step(turn, (Append(released),))


def resume_busy(turn: Turn, state: State, event: QueueResumeAsked) -> Step:
    return Step(turn, (Append((QueueReleased(),)),))


# --- steps ---


def planned(turn: Turn, state: State, event: StepPlanned) -> Step:
    if turn.planned is not None:
        return Step(turn, ())  # the call is under way already
    opened = opened_turn(state)
    match event.plan:
        case Proceed(occupancy, omissions):
            step = opened.step + 1
            if step > turn.limits.steps_per_turn:
                return end_turn(turn, state, Stop.FAILED, _too_many_steps(turn.limits.steps_per_turn))
            left_out = tuple(map(ItemsOmitted, omissions))
            started = StepStarted(opened.turn_id, step, occupancy)
            calling = replace(turn, planned=occupancy)
            return Step(calling, (Append((*left_out, started)), CallProvider(opened.turn_id, step, occupancy)))
        case HandoffFirst() as plan:
            return Step(turn, (RecordHandoff(plan), PlanStep()))
        case CompactFirst(_, reason):
            return begin_compaction(turn, Compacting(reason), PlanCompaction(reason))
        case Impossible(_, error):
            return end_turn(turn, state, Stop.FAILED, error)


def _too_many_steps(most: int) -> ErrorReport:
    return ErrorReport(
        "too_many_steps",
        f"The turn took {most} steps without an end.",
        "Send a prompt to go on, or raise the setting limits.core.steps_per_turn.",
    )


def output_started(turn: Turn, state: State, event: OutputStarted) -> Step:
    return Step(replace(turn, delivered=True), ())


def answered(turn: Turn, state: State, event: AnswerArrived) -> Step:
    if turn.planned is None:
        return Step(turn, ())  # no call is under way
    opened = opened_turn(state)
    message = answer_message(opened.turn_id, opened.step, event.parts)
    received = AnswerReceived(opened.turn_id, opened.step, message, 0, "", event.usage, event.stop, event.model)
    if message.calls:
        running = replace(turn, state=TurnState.RUNNING_TOOLS, calls=message.calls)
        return Step(running, (Append((received,)), DecideCalls(message.calls)))
    if entering_steers(state):
        after = next_step(turn, state)
        return Step(after.turn, (Append((received,)), *after.commands))
    stop = Stop.LENGTH if event.stop in LIMIT_STOPS else Stop.DONE
    return end_turn(turn, state, stop, None, before=(received,))


def provider_failed(turn: Turn, state: State, event: ProviderFailed) -> Step:
    facts = state.facts
    recoverable = event.overflow and not turn.delivered and not facts.overflow_spent
    if recoverable and facts.config.auto_compaction:
        compacting = Compacting(Reason.OVERFLOW, cause=event.error)
        return begin_compaction(turn, compacting, PlanCompaction(Reason.OVERFLOW, event.limit))
    before = partial_answer(state, event.partial, event.model, "failed")
    return end_turn(turn, state, Stop.FAILED, event.error, before=before)


# --- tools ---


def decided(turn: Turn, state: State, event: CallsDecided) -> Step:
    if turn.running:
        return Step(turn, ())  # they run already: at most one effect (S4)
    verdicts = {decision.call_id: decision for decision in event.decisions}
    by_call = [(call, verdicts.get(call.call_id, Denied(call.call_id, "nobody decided"))) for call in turn.calls]
    denied = [d for _, d in by_call if isinstance(d, Denied)]
    waiting = [call for call, d in by_call if isinstance(d, Waiting)]
    allowed = tuple(call for call, d in by_call if isinstance(d, Allowed))
    commands: list[Command] = _deny(state, denied)
    turn = replace(turn, calls=allowed, waiting=frozenset(call.call_id for call in waiting))
    if waiting:
        asks = [AskPermission(call) for call in waiting]
        return Step(replace(turn, state=TurnState.AWAITING_APPROVAL), (*commands, *asks))
    return _run(turn, state, commands)


def permitted(turn: Turn, state: State, event: PermissionAnswered) -> Step:
    decision = event.decision
    if decision.call_id not in turn.waiting:
        return Step(turn, ())  # a second answer, or one for an old call: at most one effect (S4)
    turn = replace(turn, waiting=turn.waiting - {decision.call_id})
    commands: list[Command] = []
    if isinstance(decision, Denied):
        commands = _deny(state, [decision])
    else:
        turn = replace(turn, calls=(*turn.calls, _pending_call(state, decision.call_id)))
        if decision.grant is not None:
            commands.append(Append((decision.grant,)))
    if turn.waiting:
        return Step(turn, tuple(commands))
    return _run(turn, state, commands)


def _run(turn: Turn, state: State, before: list[Command]) -> Step:
    """Everything is decided: run what may run; where nothing may, go on with the denials."""
    if not turn.calls:
        after = next_step(turn, state)
        return Step(after.turn, (*before, *after.commands))
    running = frozenset(call.call_id for call in turn.calls)
    turn = replace(turn, state=TurnState.RUNNING_TOOLS, running=running)
    return Step(turn, (*before, RunTools(turn.calls)))


def _pending_call(state: State, call_id: str) -> ToolCall:
    for item in reversed(state.items):
        for call in getattr(getattr(item, "message", None), "calls", ()):
            if call.call_id == call_id:
                return call  # type: ignore[no-any-return]
    raise LookupError(call_id)


def _deny(state: State, denied: list[Denied]) -> list[Command]:
    closed = [ToolResult(d.call_id, f"Not run: {d.reason}", is_error=True) for d in denied]
    return [Append(tuple(result_event(state, result) for result in closed))] if closed else []


def tool_finished(turn: Turn, state: State, event: ToolFinished) -> Step:
    if event.result.call_id not in turn.running:
        return Step(turn, ())
    turn = replace(turn, running=turn.running - {event.result.call_id})
    finished = Append((result_event(state, event.result),))
    if turn.running:
        return Step(turn, (finished,))
    after = next_step(turn, state)
    return Step(after.turn, (finished, *after.commands))


def tool_finished_late(turn: Turn, state: State, event: ToolFinished) -> Step:
    """While cancelling: it did run, so its result is kept."""
    if event.result.call_id not in turn.running:
        return Step(turn, ())
    turn = replace(turn, running=turn.running - {event.result.call_id})
    return Step(turn, (Append((result_event(state, event.result),)),))


# --- ends ---


def rewind_idle(turn: Turn, state: State, event: RewindAsked) -> Step:
    return Step(turn, (Rewind(event.ask_id, event.name),))


def redo_idle(turn: Turn, state: State, event: RedoAsked) -> Step:
    if state.facts.redoable < 0:
        return Step(turn, (RefuseRewind(event.ask_id, _NOTHING_TO_REDO),))
    return Step(turn, (Rewind(event.ask_id, None),))


_NOTHING_TO_REDO = ErrorReport(
    "nothing_to_redo",
    "There is no rewind to undo, or something was said since.",
    "Fork the session at a seq before the rewind to get back what it took.",
)


def cancel_idle(turn: Turn, state: State, event: CancelAsked) -> Step:
    return Step(turn, _unqueue(state, event.target))


def cancel_more(turn: Turn, state: State, event: CancelAsked) -> Step:
    """While something is being cancelled already: a waiting one goes too, and so may the turn around a compaction."""
    if any(asked.ask_id == event.target for asked in turn.wanted):
        return _unwant(turn, event)
    opened = state.facts.open_turn
    ours = event.target is None or (opened is not None and opened.turn_id == event.target)
    return Step(replace(turn, only_compaction=turn.only_compaction and not ours), _unqueue(state, event.target))


def cancel(turn: Turn, state: State, event: CancelAsked) -> Step:
    """Cancel what runs, or a waiting prompt, or one who waits for a compaction; anything else is a late cancel."""
    if event.target is not None and queued(state.facts, event.target):
        return Step(turn, _unqueue(state, event.target))
    if any(asked.ask_id == event.target for asked in turn.wanted):
        return _unwant(turn, event)
    opened = state.facts.open_turn
    asks = turn.compacting.asks if turn.compacting else ()
    ours = event.target is None or (opened is not None and opened.turn_id == event.target)
    if ours or event.target in asks:
        cancelling = replace(turn, state=TurnState.CANCELLING, only_compaction=not ours)
        return Step(cancelling, (StopEffects(),))
    return Step(turn, ())


def _unwant(turn: Turn, event: CancelAsked) -> Step:
    wanted = tuple(asked for asked in turn.wanted if asked.ask_id != event.target)
    ended = CompactionEnded((str(event.target),), CompactionOutcome.CANCELLED, Reason.MANUAL)
    return Step(replace(turn, wanted=wanted), (ended,))


def _unqueue(state: State, target: str | None) -> tuple[Command, ...]:
    if target is None or queued(state.facts, target) is None:
        return ()
    emptied = state.facts.held is not None and len(state.facts.queue) == 1
    released = (QueueReleased(),) if emptied else ()  # an empty queue has nothing to wait for
    return (Append((PromptRemoved(target), *released)), ReplyTurn(target, Stop.CANCELLED))


def stopped(turn: Turn, state: State, event: Stopped) -> Step:
    """Everything has ended: close open calls, keep streamed text, and hold the queue for a person."""
    commands: tuple[Command, ...] = ()
    if turn.compacting is not None:
        running = turn.compacting
        commands = (CompactionEnded(running.asks, CompactionOutcome.CANCELLED, running.reason),)
        continues = turn.only_compaction and not turn.closing
        turn = replace(turn, compacting=None, only_compaction=False)
        if continues:
            return go_on(turn, state, commands)
    if state.facts.open_turn is None:
        after = settle(turn, state.facts)
        return Step(after.turn, (*commands, *after.commands))
    before = (*partial_answer(state, event.partial, event.model, "cancelled"), *_cancelled_calls(state))
    after = end_turn(turn, state, Stop.CANCELLED, None, before=before, hold="cancelled")
    return Step(after.turn, (*commands, *after.commands))


def _cancelled_calls(state: State) -> tuple[Event, ...]:
    return tuple(
        result_event(state, ToolResult(call_id, "Cancelled by the user before it finished.", is_error=True))
        for call_id in opened_turn(state).pending
    )


def close_idle(turn: Turn, state: State, event: CloseAsked) -> Step:
    return Step(replace(turn, state=TurnState.CLOSED), (Finish(),))


def close_busy(turn: Turn, state: State, event: CloseAsked) -> Step:
    return Step(replace(turn, state=TurnState.CANCELLING, closing=True), (StopEffects(),))


def close_cancelling(turn: Turn, state: State, event: CloseAsked) -> Step:
    return Step(replace(turn, closing=True), ())


def commit_failed(turn: Turn, state: State, event: CommitFailed) -> Step:
    """Nothing more can be written: stop what runs and tell everybody who waits."""
    facts, compacting = state.facts, turn.compacting
    open_id = (facts.open_turn.turn_id,) if facts.open_turn else ()
    waiting = (*open_id, *(q.turn_id for q in facts.queue))
    asks = (*(compacting.asks if compacting else ()), *(asked.ask_id for asked in turn.wanted))
    reason = compacting.reason if compacting else Reason.MANUAL
    told = CompactionEnded(asks, CompactionOutcome.FAILED, reason, error=event.error)
    replies = tuple(ReplyTurn(turn_id, Stop.FAILED, event.error) for turn_id in waiting)
    ended = (told,) if asks or compacting else ()
    last = (Finish(),) if turn.closing else ()  # who closes waits for it, and asks only once
    return Step(Turn(state=TurnState.CLOSED), (StopEffects(), *ended, *replies, *last))


def commit_failed_closed(turn: Turn, state: State, event: CommitFailed) -> Step:
    """The last batch of a closing session was refused, so that its answers and its end were dropped."""
    return commit_failed(turn, state, event) if turn.closing else Step(turn, ())


def finish(turn: Turn, state: State, event: CloseAsked) -> Step:
    return Step(turn, (Finish(),))
