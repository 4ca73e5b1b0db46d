"""A playbook for the turn machine: a script of inputs and the commands that each must lead to.

`check_turn(row, row, ...)` is the one door. A row is an input and one line of text, the commands it must order, in
order, as `describe` writes them: `append prompt_queued turn_started; plan_step`. Between rows a `Stage` does what the
session's actor does and nothing more: it appends, so that the machine meets the state it would really meet.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ullage.core.checkpoint import VERSION
from ullage.core.commands import (
    Append,
    AskPermission,
    Assemble,
    CallProvider,
    Command,
    CommitCheckpoint,
    CompactionEnded,
    DecideCalls,
    Finish,
    PlanCompaction,
    RecordHandoff,
    RefuseRewind,
    ReplyTurn,
    Rewind,
    RunTools,
    Summarise,
)
from ullage.core.context import (
    Budget,
    CompactFirst,
    CompactionPlan,
    CompactionReport,
    HandoffFirst,
    Impossible,
    Instructions,
    Measured,
    Occupancy,
    Omission,
    Phase,
    Proceed,
    Reason,
    Replacement,
    Strategy,
)
from ullage.core.errors import BadInput, ErrorReport
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    Entry,
    Event,
    HandoffRecorded,
    InstructionsAdded,
    PromptEdited,
    PromptMode,
    PromptQueued,
    ResultReceived,
    SessionCreated,
)
from ullage.core.inputs import (
    Allowed,
    AnswerArrived,
    CallsDecided,
    CancelAsked,
    CheckpointDone,
    CheckpointFailed,
    CloseAsked,
    CommitFailed,
    CompactAsked,
    CompactionPlanned,
    CompactionRefused,
    Decision,
    Denied,
    GatePassed,
    GateRejected,
    Input,
    OutputStarted,
    PermissionAnswered,
    PromptArrived,
    PromptEditAsked,
    PromptRemoveAsked,
    ProviderFailed,
    QueueResumeAsked,
    RedoAsked,
    RewindAsked,
    SampleFailed,
    SampleFinished,
    StepPlanned,
    Stopped,
    ToolFinished,
    Waiting,
)
from ullage.core.messages import Message, Part, Role, Text, ToolCall, ToolFacts, ToolResult, Usage
from ullage.core.reduce import fold, reduce
from ullage.core.state import State
from ullage.core.turn import advance
from ullage.core.turn_state import Turn
from ullage.testing.rewinding import going

# --- the door ---

Row = tuple[Input, str]


def check_turn(*rows: Row, stage: Stage | None = None) -> Stage:
    """Play the rows and compare what each ordered; answers the stage, to be looked at or played on.

    Raises:
        AssertionError: an input led to other commands than its row says, or an event was an anomaly.
    """
    stage = stage or Stage()
    for number, (event, expected) in enumerate(rows, 1):
        found = "; ".join(map(describe, stage.send(event)))
        assert found == expected, f"row {number}, {type(event).__name__}:\n  ordered  {found}\n  expected {expected}"
        assert not stage.state.facts.anomalies, f"row {number} appended an event that can't have happened"
    return stage


def describe(command: Command) -> str:
    """One command as a playbook writes it: its name, and what tells it apart."""
    name = _snake(type(command).__name__)
    match command:
        case Append(events):
            rest = [_snake(type(event).__name__) for event in events]
        case CallProvider(_, step):
            rest = [str(step)]
        case DecideCalls(calls) | RunTools(calls):
            rest = [call.name for call in calls]
        case AskPermission(call):
            rest = [call.name]
        case ReplyTurn(turn_id, stop, error):
            rest = [turn_id, stop or "entered", error.code if error else ""]
        case PlanCompaction(reason, limit, instructions):
            rest = [reason, str(limit or ""), instructions]
        case Summarise(_, sample, shrinks, pause):
            rest = [str(sample), f"shrunk {shrinks}" if shrinks else "", f"after {pause}" if pause else ""]
        case Assemble(_, summary, _, failure):
            rest = ["with_model" if summary is not None else "without_model", failure or ""]
        case CompactionEnded(asks, outcome):
            rest = [outcome, *asks]
        case Rewind(ask_id, where):
            rest = [ask_id, where or "redo"]
        case RefuseRewind(ask_id, refused):
            rest = [ask_id, refused.code]
        case _:
            rest = []
    return " ".join(word for word in (name, *rest) if word)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# --- the stage ---

CREATED = SessionCreated("session", "/root", 1, 2)


@dataclass
class Stage:
    """A session without disk, model or tools: it appends what the machine orders, and notes the rest.

    `entries` is the log, `ordered` every command ever ordered. `count` gives a message's tokens.
    """

    entries: list[Entry] = field(default_factory=lambda: [Entry(0, 0, CREATED)])
    count: Callable[[Message], int] = lambda message: 1 + len(message.text) // 4
    turn: Turn = field(default_factory=Turn)
    ordered: list[Command] = field(default_factory=list)
    finished: bool = False

    def __post_init__(self) -> None:
        self.state: State = fold(self.entries)

    def send(self, event: Input) -> tuple[Command, ...]:
        """Feed one input and carry out what it orders, as far as that only changes the log."""
        self.turn, commands = advance(self.turn, self.state, event)
        for command in commands:
            self._do(command)
        self.ordered += commands
        return commands

    def record(self, event: Event) -> None:
        """Append one event, counted."""
        match event:
            case PromptQueued() | PromptEdited() | AnswerReceived() | ResultReceived():
                event = replace(event, tokens=self.count(event.message), encoding="test")
            case _:
                pass
        entry = Entry(self.state.facts.last_seq + 1, 1_000 * len(self.entries), event)
        self.entries.append(entry)
        self.state = reduce(self.state, entry)

    def _go(self, name: str | None) -> None:
        with suppress(BadInput):
            self.record(going(self.entries, name))

    def _do(self, command: Command) -> None:
        match command:
            case Append(events):
                for event in events:
                    self.record(event)
            case RecordHandoff(plan):
                self.record(HandoffRecorded("{}", plan.tokens))
            case CommitCheckpoint():
                self.record(checkpoint(self.state, command.plan, command.replacement, command.report))
            case Rewind(_, name):
                self._go(name)
            case Finish():
                self.finished = True
            case _:
                pass  # an effect: the script says what it found


def checkpoint(
    state: State, plan: CompactionPlan, replacement: Replacement, report: CompactionReport
) -> CheckpointCommitted:
    """The event that commits a replacement of what this state holds."""
    facts = state.facts
    return CheckpointCommitted(VERSION, plan.source_seq, plan.revision, facts.epoch, replacement, report, state.facts)


# --- inputs, in short ---

WINDOW = 100_000


def occupancy(used: int = 100) -> Occupancy:
    """An occupancy in a window of 100,000 tokens."""
    budget = Budget(WINDOW, "test", 10_000, 90_000, 63_000, 72_000)
    return Occupancy(used, used, Measured.ESTIMATE, 10, 0, Phase.BELOW_HANDOFF, budget)


def error(code: str = "provider_error") -> ErrorReport:
    return ErrorReport(code, f"It failed: {code}.", "Try again.")


def said(turn_id: str, text: str = "do it") -> Message:
    """A person's message."""
    return Message(f"{turn_id}/u", Role.USER, (Text(text),), turn_id)


def prompt(turn_id: str, mode: PromptMode = PromptMode.QUEUE) -> PromptArrived:
    return PromptArrived(said(turn_id), mode)


def steer(turn_id: str) -> PromptArrived:
    return prompt(turn_id, PromptMode.STEER)


def proceed(*omissions: Omission) -> StepPlanned:
    return StepPlanned(Proceed(occupancy(), omissions))


def handoff_first() -> StepPlanned:
    return StepPlanned(HandoffFirst(occupancy(65_000), 20))


def compact_first() -> StepPlanned:
    return StepPlanned(CompactFirst(occupancy(80_000), Reason.THRESHOLD))


def impossible() -> StepPlanned:
    return StepPlanned(Impossible(occupancy(80_000), error("does_not_fit")))


def answer(*parts: Part, stop: str = "end_turn", usage: Usage | None = None) -> AnswerArrived:
    """A whole answer; without parts it says "done"."""
    return AnswerArrived(parts or (Text("done"),), usage or Usage(100, 10), stop, "model")


def asks(*names: str) -> AnswerArrived:
    """An answer that asks for these tools."""
    return answer(*(ToolCall("", name, "{}") for name in names), stop="tool_use")


def overflow(limit: int | None = None) -> ProviderFailed:
    return ProviderFailed(error("overflow"), overflow=True, limit=limit)


def decided(*decisions: Decision) -> CallsDecided:
    return CallsDecided(decisions)


def allowed(*call_ids: str) -> CallsDecided:
    return CallsDecided(tuple(map(Allowed, call_ids)))


def waits(call_id: str) -> Waiting:
    return Waiting(call_id)


def permit(call_id: str) -> PermissionAnswered:
    return PermissionAnswered(Allowed(call_id))


def deny(call_id: str) -> PermissionAnswered:
    return PermissionAnswered(Denied(call_id, "no"))


def finished(call_id: str, text: str = "ok", facts: ToolFacts | None = None) -> ToolFinished:
    return ToolFinished(ToolResult(call_id, text, facts=facts) if facts else ToolResult(call_id, text))


def plan(
    state: State, reason: Reason = Reason.THRESHOLD, strategy: Strategy = Strategy.DETERMINISTIC
) -> CompactionPlan:
    """A plan for all that this state holds."""
    facts = state.facts
    return CompactionPlan(
        reason, strategy, "ullage", facts.last_seq, facts.revision, state.tokens, state.tokens + 10, 1_000
    )


def planned(of: CompactionPlan) -> CompactionPlanned:
    return CompactionPlanned(of)


def sampled(of: CompactionPlan) -> SampleFinished:
    return SampleFinished(of, "a ledger", Usage(50, 5), "model")


def report(of: CompactionPlan, after: int = 10) -> CompactionReport:
    return CompactionReport(of.reason, of.strategy, of.profile, of.before, after, 0, 0)


def instructions(text: str, path: str = "AGENTS.md") -> InstructionsAdded:
    """What the model is told of an instruction file; its digest is the text."""
    message = Message(f"i/{path}/{text}", Role.USER, (Text(f"of `{path}`"), Text(text)), "", "instructions")
    return InstructionsAdded(Instructions(path, message, text), 10, "test")


def replacement(ledger: str = "a ledger") -> Replacement:
    """A replacement without a tail."""
    return Replacement(ledger, (), (), (), "fence", (), 10)


def gated(of: CompactionPlan, made: Replacement | None = None) -> GatePassed:
    return GatePassed(of, made or replacement(), report(of))


def every_input(rng: random.Random, stage: Stage) -> list[Input]:
    """One of every input in the order of `Input`, with ids that may or may not mean something to this stage."""
    opened = stage.state.facts.open_turn
    turn_id, call_id = rng.choice(["t1", "t2", "x"]), rng.choice(["x", *(opened.pending if opened else ())])
    of = plan(stage.state, rng.choice(list(Reason)), rng.choice(list(Strategy)))
    return [
        rng.choice([prompt, steer])(turn_id),
        PromptEditAsked(said(turn_id)),
        PromptRemoveAsked(turn_id),
        QueueResumeAsked(),
        CompactAsked("k1"),
        RewindAsked("r1", turn_id),
        RedoAsked("r1"),
        CancelAsked(rng.choice([turn_id, "k1", None])),
        CloseAsked(),
        rng.choice([proceed, proceed, handoff_first, compact_first, impossible])(),
        OutputStarted(),
        rng.choice([answer(), asks("read", "bash")]),
        rng.choice([overflow(), ProviderFailed(error())]),
        rng.choice([allowed(call_id), decided(waits(call_id), waits(call_id)), decided()]),
        rng.choice([permit, deny])(call_id),
        finished(call_id),
        planned(of),
        CompactionRefused(error()),
        sampled(of),
        SampleFailed(of, error()),
        gated(of),
        GateRejected(of, error(), rng.random() < 0.5),
        CheckpointDone(report(of)),
        CheckpointFailed(error()),
        Stopped(),
        CommitFailed(error()),
    ]
