"""Where a turn goes next: the ways between states that several inputs share."""

from __future__ import annotations

from dataclasses import replace

from ullage.core.commands import (
    Append,
    Command,
    CompactionEnded,
    CompactionOutcome,
    Finish,
    PlanCompaction,
    PlanStep,
    ReplyTurn,
)
from ullage.core.context import Reason
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    AnswerReceived,
    Event,
    PromptMode,
    QueueHeld,
    ResultReceived,
    SteerEntered,
    Stop,
    TurnEnded,
    TurnStarted,
)
from ullage.core.messages import Message, Part, Role, Text, ToolCall, ToolResult, Usage
from ullage.core.state import Facts, OpenTurn, State
from ullage.core.turn_state import Compacting, Step, Turn, TurnState


def start_turn(turn: Turn, before: tuple[Event, ...], turn_id: str) -> Step:
    started = replace(turn, state=TurnState.CALLING, delivered=False, planned=None)
    return Step(started, (Append((*before, TurnStarted(turn_id))), PlanStep()))


def next_step(turn: Turn, state: State) -> Step:
    """Steering enters first, so that it can't be taken back any more; then a wanted compaction, or the step's plan."""
    ready = replace(
        turn, state=TurnState.CALLING, delivered=False, planned=None, calls=(), waiting=frozenset(), running=frozenset()
    )
    opened, steers = opened_turn(state), entering_steers(state)
    entered: tuple[Command, ...] = ()
    if steers:
        joined = Append(tuple(SteerEntered(opened.turn_id, steer) for steer in steers))
        entered = (joined, *(ReplyTurn(steer, None) for steer in steers))
    after = begin_manual(ready) if turn.wanted else Step(ready, (PlanStep(),))
    return Step(after.turn, (*entered, *after.commands))


def entering_steers(state: State) -> list[str]:
    """Turn ids of steering that enters the open turn: all that waits, but from a held queue only what came since."""
    facts, since = state.facts, opened_turn(state).started
    steering = [q for q in facts.queue if q.mode is PromptMode.STEER]
    return [q.turn_id for q in steering if not facts.held or q.seq > since]


def end_turn(
    turn: Turn,
    state: State,
    stop: Stop,
    error: ErrorReport | None,
    *,
    before: tuple[Event, ...] = (),
    hold: str | None = None,
) -> Step:
    """End the open turn in one batch with `before`, answer it, then take the next prompt unless held."""
    opened, facts = opened_turn(state), state.facts
    held: tuple[Event, ...] = (QueueHeld(hold),) if hold and facts.queue else ()
    ended = Append((*before, TurnEnded(opened.turn_id, stop, error), *held))
    reply = ReplyTurn(opened.turn_id, stop, error)
    rest = Turn(wanted=turn.wanted, closing=turn.closing, limits=turn.limits)
    after = settle(rest, replace(facts, held=hold or facts.held) if held else facts)
    return Step(after.turn, (ended, reply, *after.commands))


def settle(turn: Turn, facts: Facts) -> Step:
    """No turn is open any more: close, do a wanted compaction, start the next prompt, or rest."""
    turn = replace(turn, state=TurnState.IDLE, compacting=None)
    if turn.closing:
        unmet = tuple(asked.ask_id for asked in turn.wanted)
        told = (CompactionEnded(unmet, CompactionOutcome.CANCELLED, Reason.MANUAL),) if unmet else ()
        return Step(replace(turn, state=TurnState.CLOSED), (*told, Finish()))
    if turn.wanted:
        return begin_manual(turn)
    if facts.queue and not facts.held:
        return start_turn(turn, (), facts.queue[0].turn_id)
    return Step(turn, ())


def begin_compaction(turn: Turn, compacting: Compacting, plan: PlanCompaction) -> Step:
    return Step(replace(turn, state=TurnState.COMPACTING, compacting=compacting), (plan,))


def begin_manual(turn: Turn) -> Step:
    asks = tuple(asked.ask_id for asked in turn.wanted)
    instructions = "\n".join(asked.instructions for asked in turn.wanted if asked.instructions)
    turn = replace(turn, wanted=())
    plan = PlanCompaction(Reason.MANUAL, None, instructions)
    return begin_compaction(turn, Compacting(Reason.MANUAL, asks), plan)


def go_on(turn: Turn, state: State, before: tuple[Command, ...]) -> Step:
    """After a compaction: the open turn plans its step again, an idle session takes the next prompt."""
    after = next_step(turn, state) if state.facts.open_turn else settle(turn, state.facts)
    return Step(after.turn, (*before, *after.commands))


def partial_answer(state: State, parts: tuple[Part, ...], model: str, stop: str) -> tuple[Event, ...]:
    """Text that was streamed already is kept; incomplete calls and unsigned reasoning are not."""
    opened = opened_turn(state)
    said = tuple(part for part in parts if isinstance(part, Text) and part.text)
    if not said or state.facts.sent is None:
        return ()
    message = answer_message(opened.turn_id, opened.step, said)
    return (AnswerReceived(opened.turn_id, opened.step, message, 0, "", Usage(), stop, model),)


def answer_message(turn_id: str, step: int, parts: tuple[Part, ...]) -> Message:
    """The answer under our own ids: providers repeat theirs, or leave them out (bugs row 34)."""
    own: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall):
            number = sum(isinstance(earlier, ToolCall) for earlier in own)
            part = replace(part, call_id=f"{turn_id}/{step}/c{number}", provider_id=part.provider_id)
        own.append(part)
    return Message(f"{turn_id}/{step}/a", Role.ASSISTANT, tuple(own), turn_id)


def result_event(state: State, result: ToolResult) -> ResultReceived:
    opened = opened_turn(state)
    number = result.call_id.rsplit("/c", 1)[-1]
    message = Message(f"{opened.turn_id}/{opened.step}/r{number}", Role.TOOL, (result,), opened.turn_id)
    return ResultReceived(opened.turn_id, opened.step, message, 0, "")


def opened_turn(state: State) -> OpenTurn:
    assert state.facts.open_turn is not None, "only a session with an open turn gets here"
    return state.facts.open_turn
