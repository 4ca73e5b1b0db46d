"""A recorded session played again through our engine, for a window of choice.

Invariant: the turn machine decides and the session's engine plans, builds and gates, exactly as in a live session; only
what takes time is played: answers and results come from the recording, and nothing is called or run. So the same
recording, window and billing give the same log.

What a provider would have billed is simulated: our count of the request, times a ratio. What its cache would have held
is the part of a request that is the same as in the one before.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ullage.core.commands import (
    Append,
    Assemble,
    CallProvider,
    Command,
    CommitCheckpoint,
    DecideCalls,
    PlanCompaction,
    PlanStep,
    RecordHandoff,
    RunTools,
    StopEffects,
)
from ullage.core.context import CompactionPlan, CompactionReport, Occupancy, Phase
from ullage.core.errors import ErrorReport
from ullage.core.events import (
    CompactionFailed,
    Entry,
    Event,
    PromptMode,
    PromptQueued,
    SessionConfigured,
    SessionCreated,
    SteerEntered,
    TurnEnded,
)
from ullage.core.inputs import (
    Allowed,
    AnswerArrived,
    CallsDecided,
    CancelAsked,
    CheckpointDone,
    CompactionPlanned,
    CompactionRefused,
    GatePassed,
    GateRejected,
    Input,
    PromptArrived,
    ProviderFailed,
    StepPlanned,
    Stopped,
    ToolFinished,
)
from ullage.core.limits import Limits as CoreLimits
from ullage.core.messages import BlobRef, Message, Role, Text, ToolCall, ToolResult, Usage
from ullage.core.ports import ModelCard, TokenCounter
from ullage.core.ratio import corrected
from ullage.core.reduce import reduce
from ullage.core.requests import Block, Request
from ullage.core.state import State
from ullage.core.turn import advance
from ullage.core.turn_state import Turn, TurnState
from ullage.lab.recorded import Recorded, ports
from ullage.lab.script import Answered, Move, Prompted, Steered
from ullage.providers.measure import parts_tokens
from ullage.sessions.engine import Engine

CACHE_READ, CACHE_WRITE = 0.1, 1.25
"""Price of a prompt token that a cache held, and of one that it took in, in prices of a plain one (Anthropic's)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request: the number it was decided with, what it was billed, and how much of that a cache held. Tokens."""

    occupancy: Occupancy
    prompt: int
    cached: int
    endless: int
    """The prompt if nothing was ever left out."""


@dataclass(frozen=True, slots=True)
class Walk:
    """How a session went. `failures` ended turns; `skipped` answers of the recording came after such an end."""

    window: int
    entries: tuple[Entry, ...]
    state: State
    steps: tuple[Step, ...]
    reports: tuple[CompactionReport, ...]
    handoffs: int
    failures: tuple[ErrorReport, ...]
    skipped: int

    @property
    def phases(self) -> dict[Phase, int]:
        """Requests by the phase they were sent in."""
        return {phase: sum(step.occupancy.phase is phase for step in self.steps) for phase in Phase}

    @property
    def cost(self) -> tuple[float, float]:
        """Prompts with the cache priced: as walked, and with an endless window; in plain prompt tokens."""
        walked = sum(_priced(step.cached, step.prompt) for step in self.steps)
        before, endless = 0, 0.0
        for step in self.steps:
            endless += _priced(before, step.endless)
            before = step.endless
        return walked, endless


def _priced(cached: int, prompt: int) -> float:
    return CACHE_READ * cached + CACHE_WRITE * max(0, prompt - cached)


Watch = Callable[[Request, State, Occupancy], None]
"""Sees each request right before it would be sent, the state, and the occupancy shown at that moment."""


def walk(
    moves: Sequence[Move],
    window: int,
    counter: TokenCounter,
    *,
    model: str = "",
    billing: int = 1_000,
    root: str = "/workspace",
    watch: Watch = lambda request, state, shown: None,
) -> Walk:
    """Play a recording in a window. `billing` are the provider's tokens for a thousand of ours."""
    name = model or next((move.model for move in moves if isinstance(move, Answered)), "recorded")
    player = _Player(window, counter, name, billing, root, watch)
    for move in moves:
        player.play(move)
    player.end()
    return player.walked()


@dataclass(slots=True)
class _Told:
    """What a walk has to tell so far."""

    steps: list[Step] = field(default_factory=list)
    reports: list[CompactionReport] = field(default_factory=list)
    failures: list[ErrorReport] = field(default_factory=list)
    handoffs: int = 0
    skipped: int = 0


class _Player:
    def __init__(self, window: int, counter: TokenCounter, model: str, billing: int, root: str, watch: Watch) -> None:
        self.counter, self.billing, self.watch = counter, billing, watch
        recorded = Recorded(ModelCard(model, window, "setting"))
        self.engine = Engine(ports(recorded, counter), recorded, root)
        self.turn = Turn(limits=replace(CoreLimits(), steps_per_turn=1_000_000))
        self.state, self.entries = State(), list[Entry]()
        self.told = _Told()
        self.planning = False
        """A step is to be planned, and waits for the answer that the recording has for it."""
        self.call: CallProvider | None = None
        self.failed = False
        """The turn ended before the recording's did."""
        self.last: Request | None = None
        self.endless, self.window, self.turns = 0, window, 0
        self.append((SessionCreated("walk", root, 0, 0), SessionConfigured(model=model, window=window)))

    def walked(self) -> Walk:
        told = self.told
        return Walk(
            self.window,
            tuple(self.entries),
            self.state,
            tuple(told.steps),
            tuple(told.reports),
            told.handoffs,
            tuple(told.failures),
            told.skipped,
        )

    # --- moves ---

    def play(self, move: Move) -> None:
        match move:
            case Prompted(message):
                self.end()
                self.failed = False
                self.turns += 1
                self._prompt(message)
            case Steered(message):
                self._steer(message)
            case Answered():
                self._answer(move)

    def end(self) -> None:
        """The recording goes on elsewhere: a turn that still runs was stopped there."""
        if self.turn.state is not TurnState.IDLE:
            self.feed(CancelAsked())
        self.planning, self.call = False, None

    def _prompt(self, message: Message) -> None:
        turn_id = f"w{self.turns}"
        self.endless += self.engine_count(message)
        self.feed(PromptArrived(replace(message, message_id=f"{turn_id}/u", turn_id=turn_id), PromptMode.QUEUE))

    def _steer(self, message: Message) -> None:
        if self.failed:
            return
        self.turns += 1
        if not self.planning:
            self._prompt(message)
            return
        # Before the step that is to be planned, where the recording's own program put it.
        opened, steer = self.state.facts.open_turn, f"w{self.turns}"
        assert opened is not None, "a step is to be planned"
        own = replace(message, message_id=f"{steer}/u", turn_id=steer)
        self.endless += self.engine_count(own)
        queued = PromptQueued(own, PromptMode.STEER, 0, "")
        self.append((queued, SteerEntered(opened.turn_id, steer)))

    def _answer(self, move: Answered) -> None:
        if self.failed:
            self.told.skipped += 1
            return
        if self.turn.state is TurnState.IDLE:
            self.turns += 1
            self._prompt(Message("", Role.USER, (), "", "host"))
        self.planning = False
        self.feed(StepPlanned(self.engine.plan_step(self.state)))
        if self.call is None:
            self.failed = True
            self.told.skipped += 1
            return
        self.call = None
        usage = self._billed(move)
        said = tuple(part for part in move.message.parts if isinstance(part, Text))
        match move.stop:
            case "cancelled":
                self.feed(CancelAsked(), Stopped(said, move.model))
            case "failed":
                self.feed(ProviderFailed(_FAILED, partial=said, model=move.model))
            case _:
                self.results = deque(move.results)
                self.feed(AnswerArrived(move.message.parts, usage, move.stop, move.model))

    def _billed(self, move: Answered) -> Usage:
        step = self.told.steps[-1]
        completion = corrected(self.engine_count(move.message), self.billing) if move.message.parts else 0
        self.endless += self.engine_count(move.message) + sum(self._result_tokens(result) for result in move.results)
        return Usage(step.prompt, completion, None, step.cached, step.prompt - step.cached)

    def _result_tokens(self, result: ToolResult) -> int:
        return self.engine_count(Message("", Role.TOOL, (result,), ""))

    def engine_count(self, message: Message) -> int:
        stamped = self.engine.stamp(PromptQueued(message, PromptMode.QUEUE, 0, ""))
        assert isinstance(stamped, PromptQueued), "stamping changes figures alone"
        return stamped.tokens

    # --- the machine ---

    def feed(self, *inputs: Input) -> None:
        pending = deque(inputs)
        while pending:
            self.turn, commands = advance(self.turn, self.state, pending.popleft())
            for command in commands:
                pending.extend(self._do(command))

    def _do(self, command: Command) -> tuple[Input, ...]:
        match command:
            case Append(events):
                self.append(events)
            case PlanStep():
                return self._plan_step()
            case RecordHandoff(plan):
                self.told.handoffs += 1
                self.append(self.engine.handoff(plan))
            case CallProvider():
                self._call(command)
            case DecideCalls(calls):
                return (CallsDecided(tuple(Allowed(call.call_id) for call in calls)),)
            case RunTools(calls):
                return self._results(calls)
            case PlanCompaction():
                made = self.engine.plan_compaction(self.state, command)
                return (CompactionPlanned(made) if isinstance(made, CompactionPlan) else CompactionRefused(made),)
            case Assemble():
                return (self._assemble(command),)
            case CommitCheckpoint():
                self.append((self.engine.checkpoint(self.state, command),))
                self.told.reports.append(command.report)
                return (CheckpointDone(command.report),)
            case StopEffects():
                return (Stopped(),) if self.turn.state is TurnState.CANCELLING else ()
            case _:
                pass
        return ()

    def _plan_step(self) -> tuple[Input, ...]:
        """Right away behind a compaction or a handoff; else when the recording has an answer for it."""
        newest = self.entries[-1].event
        if type(newest).__name__ in ("CheckpointCommitted", "HandoffRecorded"):
            return (StepPlanned(self.engine.plan_step(self.state)),)
        self.planning = True
        return ()

    def _call(self, command: CallProvider) -> None:
        request = self.engine.request(self.state, command.occupancy)
        self.watch(request, self.state, self.engine.occupancy(self.state))
        ours = command.occupancy.fixed + self.state.tokens
        prompt = corrected(ours, self.billing)
        fresh = corrected(self._fresh(request), self.billing)
        endless = corrected(command.occupancy.fixed + self.endless, self.billing)
        cached = max(0, prompt - fresh) if self.last is not None else 0
        self.told.steps.append(Step(command.occupancy, prompt, cached, endless))
        self.last, self.call = request, command

    def _fresh(self, request: Request) -> int:
        """Tokens of what stands behind the part that is the same as in the last request."""
        before = _blocks(self.last) if self.last is not None else []
        blocks, same = _blocks(request), 0
        while same < min(len(before), len(blocks)) and blocks[same] == before[same]:
            same += 1
        return parts_tokens(blocks[same:], self.counter.count)

    def _results(self, calls: Sequence[ToolCall]) -> tuple[Input, ...]:
        """The recorded results, as large as they may be here."""
        budget, by_number = self.engine.results_budget(self.state), {_number(call.call_id): call for call in calls}
        finished: list[Input] = []
        for result in self.results:
            call = by_number.pop(_number(result.call_id), None)
            if call is not None:
                content = result.text.encode()
                digest = hashlib.sha256(content).hexdigest()
                fitted = budget.fit(result.text, digest)
                full = BlobRef(digest, len(content)) if fitted.shortened else None
                own = replace(result, call_id=call.call_id, text=fitted.text, full=full)
                finished.append(ToolFinished(own))
        return (*finished, *(ToolFinished(ToolResult(call.call_id, "", True)) for call in by_number.values()))

    def _assemble(self, command: Assemble) -> GatePassed | GateRejected:
        made = self.engine.assemble(self.state, command, (), "fence")
        if isinstance(made, ErrorReport):
            return GateRejected(command.plan, made, command.summary is not None)
        return GatePassed(command.plan, *made)

    def append(self, events: Sequence[Event]) -> None:
        for event in events:
            entry = Entry(len(self.entries), len(self.entries), self.engine.stamp(event))
            self.entries.append(entry)
            self.state = reduce(self.state, entry)
            match event:
                case TurnEnded(error=ErrorReport() as error) if error is not _FAILED:
                    self.told.failures.append(error)
                case CompactionFailed(error=error):
                    self.told.failures.append(error)
                case _:
                    pass


_FAILED = ErrorReport("recorded_failure", "The call failed in the recording.")


def _number(call_id: str) -> str:
    return call_id.rsplit("/", 1)[-1]


def _blocks(request: Request) -> list[Block]:
    return [block for message in request.messages for block in message.blocks]
