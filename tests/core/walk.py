"""A session that is walked at random: people ask anything at any time, effects end in any order and any way.

The walker stands where the actor stands. It checks every command at the moment it is carried out, against what the
machine promises; a broken promise is an AssertionError that names it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ullage.core.commands import (
    Append,
    AskPermission,
    Assemble,
    CallProvider,
    Command,
    CommitCheckpoint,
    CompactionEnded,
    CompactionOutcome,
    DecideCalls,
    Finish,
    PlanCompaction,
    PlanStep,
    RefuseRewind,
    ReplyTurn,
    Rewind,
    RunTools,
    StopEffects,
    Summarise,
)
from ullage.core.context import Kept, KeptInstructions, Omission, OmissionReason, Reason, Replacement, Strategy
from ullage.core.events import (
    AnswerReceived,
    Event,
    ItemsOmitted,
    ItemsRestored,
    LogRepaired,
    PinAdded,
    PinRemoved,
    PromptMode,
    PromptQueued,
    Purpose,
    SessionConfigured,
    SessionRenamed,
    TurnEnded,
    TurnStarted,
    Unknown,
    UsageBooked,
)
from ullage.core.grants import PermissionGranted
from ullage.core.inputs import (
    Allowed,
    CallsDecided,
    CancelAsked,
    CheckpointDone,
    CheckpointFailed,
    CloseAsked,
    CommitFailed,
    CompactAsked,
    CompactionRefused,
    Denied,
    GateRejected,
    Input,
    OutputStarted,
    PromptEditAsked,
    PromptRemoveAsked,
    ProviderFailed,
    QueueResumeAsked,
    RedoAsked,
    RewindAsked,
    SampleFailed,
    StepPlanned,
    Stopped,
    ToolFinished,
    Waiting,
)
from ullage.core.messages import BlobRef, Op, Reasoning, Text, ToolCall, ToolFacts, ToolResult, Usage
from ullage.core.omission import message_units, omission, whole_items
from ullage.core.pins import known_pin, message_pin, typed_pin
from ullage.core.state import InstructionsItem, MessageItem, ended_how
from ullage.core.turn_state import TurnState
from ullage.core.units import units
from ullage.testing import playbook as book

_AT_ONCE = (Append, ReplyTurn, CompactionEnded, Rewind, RefuseRewind, Finish, book.RecordHandoff)
"""Commands that feed nothing."""


class DiskFull(Exception):
    """The disk refused an append."""


class Walk(book.Stage):
    """One random session. `step` goes on by one input; `drain` lets everything end."""

    def __init__(self, seed: int, *, breaks: bool = False) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.breaks = breaks
        self.broken = False
        self.draining = False
        self.effects: list[Command] = []
        self.prompts = self.compactions = 0
        self.accepted: list[str] = []
        self.started: list[str] = []
        self.replies: Counter[str] = Counter()
        self.owed: Counter[str] = Counter()
        self.asked: list[str] = []
        self.told: Counter[str] = Counter()
        self.verdicts: dict[str, bool] = {}
        self.ran: set[str] = set()
        self.due = self.committed = False

    # --- one step ---

    def step(self) -> None:
        """Somebody asks something, or an effect ends."""
        if self.finished:
            return
        if self.effects and (self.draining or self.rng.random() < 0.7):
            self._end_effect()
        elif not self.draining:
            self._ask()

    def drain(self) -> None:
        """Nobody asks anything any more; every effect ends."""
        self.draining = True
        for _ in range(500):
            if self.finished or not self.effects:
                return
            self.step()
        raise AssertionError(f"no end: {self.turn}")

    def feed(self, event: Input) -> None:
        """One input; a refused append drops what comes after it, and the machine is told."""
        try:
            self.send(event)
        except DiskFull:
            self.effects = [effect for effect in self.effects if not isinstance(effect, PlanStep)]
            self.send(CommitFailed(book.error("disk_full")))

    # --- carrying out, and what must hold just then ---

    def _do(self, command: Command) -> None:
        assert not self.finished, f"{command} after Finish"
        facts = self.state.facts
        match command:
            case Append(events):
                if self.breaks and not self.draining and self.rng.random() < 0.03:
                    self.broken = True
                if self.broken:
                    raise DiskFull
                for event in events:
                    self._note(event)
            case CallProvider():
                assert facts.open_turn is not None and not facts.open_turn.pending, "a call with open calls"
                assert not self.due, "a request above the compaction line (I3)"
                assert facts.sent is not None, "a call whose start is not logged"
            case RunTools(calls):
                self._check_run(calls)
            case ReplyTurn(turn_id, stop):
                self.replies[turn_id] += 1
                if stop is not None and not self.broken and turn_id in self.accepted:
                    assert ended_how(facts, turn_id) == stop, "an answer that the log does not know"
            case CompactionEnded(ask_ids, outcome, reason):
                self.told.update(ask_ids)
                if outcome is CompactionOutcome.CANCELLED and reason is not Reason.MANUAL:
                    self.due = False  # it was planned for another model: the step's next plan says
            case CommitCheckpoint():
                self._commit(command)
                return
            case StopEffects():
                if self.turn.state is TurnState.CLOSED:
                    self.effects = []  # the disk refused: nobody waits for what stops
                    return
            case _:
                pass
        super()._do(command)
        if isinstance(command, RunTools):
            self.effects += [RunTools((call,)) for call in command.calls]
        elif not isinstance(command, _AT_ONCE):
            self.effects.append(command)

    def _note(self, event: Event) -> None:
        match event:
            case PromptQueued(message):
                self.accepted.append(message.turn_id)
                self.owed[message.turn_id] += 1
            case TurnStarted(turn_id):
                self.started.append(turn_id)
            case TurnEnded():
                self.due = False
            case AnswerReceived():
                self.verdicts = {}
            case _:
                pass

    def _check_run(self, calls: tuple[ToolCall, ...]) -> None:
        opened = self.state.facts.open_turn
        assert opened is not None
        newest = next(i for i in reversed(self.state.items) if isinstance(i, MessageItem) and i.message.calls)
        undecided = [call.call_id for call in newest.message.calls if call.call_id not in self.verdicts]
        assert not undecided, f"run before all are decided: {undecided}"
        for call in calls:
            assert self.verdicts[call.call_id], "a denied call runs"
            assert call.call_id not in self.ran, "a call runs twice (S4)"
            assert call.call_id in opened.pending
            self.ran.add(call.call_id)

    def _commit(self, command: CommitCheckpoint) -> None:
        """As the actor: at once, so that no cancel comes between."""
        self.effects.append(command)
        assert command.plan.revision == self.state.facts.revision, "a checkpoint that was planned for something else"
        self.committed = not self._one_in(10)
        if not self.committed:
            return
        event = book.checkpoint(self.state, command.plan, command.replacement, command.report)
        self.record(event)
        self.due = False

    # --- people ---

    def _ask(self) -> None:
        rng = self.rng
        known = [*self.accepted, "nobody"]
        roll = rng.random()
        if self.turn.state is TurnState.IDLE and rng.random() < 0.2:
            self._go_back()
        elif roll < 0.4:
            self.prompts += 1
            mode = rng.choice(list(PromptMode))
            self.feed(book.prompt(f"t{self.prompts}", mode))
        elif roll < 0.45:
            self._repeat(rng.choice(known))
        elif roll < 0.55:
            self.feed(CancelAsked(rng.choice([None, *known[-4:], *self.asked[-2:]])))
        elif roll < 0.62:
            self.feed(PromptRemoveAsked(rng.choice(known[-5:])))
        elif roll < 0.68:
            self.feed(PromptEditAsked(book.said(rng.choice(known[-5:]), "rather this")))
        elif roll < 0.76:
            self.feed(QueueResumeAsked())
        elif roll < 0.86:
            self.compactions += 1
            self.asked.append(f"k{self.compactions}")
            self.feed(CompactAsked(self.asked[-1], rng.choice(["", "keep the plan"])))
        elif roll < 0.88:
            self.feed(self._permit(rng.choice([*sorted(self.ran), *sorted(self.turn.waiting), "t1/1/c0"]), True))
        elif roll < 0.9:
            self._go_back()
        elif roll < 0.97:
            self._aside()
            self._pin()
        elif roll < 0.98:
            self.feed(CloseAsked())

    def _go_back(self) -> None:
        """Rewind or redo, which only an idle session does."""
        name = self.rng.choice([*self.started, "nobody"])
        self.feed(RewindAsked("r", name) if self.rng.random() < 0.6 else RedoAsked("r"))

    def _repeat(self, turn_id: str) -> None:
        """The same prompt once more: an ended turn answers again, a living one has one answer for both."""
        if ended_how(self.state.facts, turn_id) is not None and self.turn.state is not TurnState.CLOSED:
            self.owed[turn_id] += 1
        if turn_id != "nobody" and self.turn.state is not TurnState.CLOSED:
            self.feed(book.prompt(turn_id))

    def _aside(self) -> None:
        """What the actor writes without asking the machine."""
        if not self.broken:
            leaving = self._leaving_out()
            back = [event for event in leaving if isinstance(event, ItemsRestored)]
            event: Event = self.rng.choice(
                back
                or [
                    SessionRenamed("a title"),
                    SessionConfigured(model=f"m{self.rng.randrange(3)}"),
                    SessionConfigured(permission_mode="auto"),
                    Unknown("later_kind", False, "{}"),
                    LogRepaired(1, 2, "kept"),
                    UsageBooked(Purpose.SUMMARY, Usage(3, 4), "m"),
                    *leaving,
                ]
            )
            self.record(event)

    def _pin(self) -> None:
        """A person pins a text or the newest message, or takes a pin back."""
        if self.broken:
            return
        pins, newest = self.state.facts.pins, self.state.items[-1] if self.state.items else None
        event: Event = PinAdded(typed_pin(f"rule {len(self.entries)}", len(self.entries)), 7, "test")
        if pins and self._one_in(2):
            event = PinRemoved(self.rng.choice(pins).pin_id)
        elif isinstance(newest, MessageItem) and newest.message.text and self._one_in(2):
            pin = message_pin(newest.message, newest.seq)
            event = event if known_pin(self.state.facts, pin) else PinAdded(pin)
        self.record(event)
        if self._one_in(4):
            self.record(PermissionGranted(self.rng.choice([Op.WRITE, Op.RUN]), f"make {self.rng.randrange(3)}"))

    def _leaving_out(self) -> list[Event]:
        """Some settled units to leave out, and some to take back, where there are any."""
        facts, found = self.state.facts, omission(self.state.items)
        before = facts.open_turn.started if facts.open_turn else facts.last_seq + 1
        seqs = [tuple(i.seq for i in unit) for unit in message_units(self.state.items) if unit[-1].seq < before]
        some = tuple(unit for unit in seqs if self._one_in(3))
        left = {left.item.seq for left in found.left_out} if found else set()
        back = tuple(
            seqs
            for unit in message_units(whole_items(self.state.items))
            if left.issuperset(seqs := tuple(item.seq for item in unit)) and self._one_in(2)
        )
        events: list[Event] = (
            [ItemsOmitted(Omission(some, self.rng.choice(list(OmissionReason)), 5, 3))] if some else []
        )
        return [*events, ItemsRestored(back)] if back else events

    # --- effects ---

    def _end_effect(self) -> None:
        at_once = [effect for effect in self.effects if isinstance(effect, CommitCheckpoint)]
        effect = at_once[0] if at_once else self.rng.choice(self.effects)
        stops = [effect for effect in self.effects if isinstance(effect, StopEffects)]
        if stops:
            self._stop()
            return
        if isinstance(effect, CallProvider) and not self.turn.delivered and self.rng.random() < 0.3:
            self.feed(OutputStarted())
            return
        self.effects.remove(effect)
        self.feed(self._result(effect))

    def _stop(self) -> None:
        tools = [effect for effect in self.effects if isinstance(effect, RunTools)]
        called = any(isinstance(effect, CallProvider) for effect in self.effects)
        self.effects = []
        for effect in tools:
            if self.rng.random() < 0.5:
                self.feed(self._finish_tool(effect.calls[0]))
        partial = (Text("half a sen"), Reasoning("hm")) if called and self.rng.random() < 0.5 else ()
        self.feed(Stopped(partial, "model"))

    def _result(self, effect: Command) -> Input:
        match effect:
            case PlanStep():
                return self._plan_step()
            case CallProvider():
                return self._call()
            case DecideCalls(calls):
                return self._decide(calls)
            case AskPermission(call):
                return self._permit(call.call_id, self.rng.random() < 0.6)
            case RunTools(calls):
                return self._finish_tool(calls[0])
            case PlanCompaction(reason):
                if self._one_in(5):
                    return CompactionRefused(book.error("nothing_to_gain"))
                strategy = self.rng.choice([Strategy.MODEL, Strategy.DETERMINISTIC])
                return book.planned(book.plan(self.state, reason, strategy))
            case Summarise(plan):
                return SampleFailed(plan, book.error("too_short")) if self._one_in(3) else book.sampled(plan)
            case Assemble(plan, summary):
                if self._one_in(4):
                    return GateRejected(plan, book.error("gate"), summary is not None)
                return book.gated(plan, self._replacement())
            case CommitCheckpoint(_, _, report):
                return CheckpointDone(report) if self.committed else CheckpointFailed(book.error("checkpoint"))
            case _:
                raise AssertionError(f"{effect} feeds nothing")

    def _permit(self, call_id: str, yes: bool) -> Input:
        """A person's answer: the first one counts, one for an old call does nothing."""
        if call_id in self.turn.waiting:
            self.verdicts[call_id] = yes
        return book.permit(call_id) if yes else book.deny(call_id)

    def _one_in(self, n: int) -> bool:
        return self.rng.random() < 1 / n

    def _plan_step(self) -> StepPlanned:
        facts = self.state.facts
        if not self.broken and self._one_in(8):
            self.record(book.instructions(f"v{facts.last_seq}"))
        if facts.attempts < 2 and self._one_in(5):
            self.due = True
            return book.compact_first()
        if facts.handoffs == 0 and self._one_in(5):
            return book.handoff_first()
        if self._one_in(20):
            return book.impossible()
        omissions = tuple(event.omission for event in self._leaving_out() if isinstance(event, ItemsOmitted))
        return book.proceed(*omissions) if self._one_in(4) else book.proceed()

    def _call(self) -> Input:
        if self._one_in(6):
            partial = (Text("half"),) if self.turn.delivered else ()
            return ProviderFailed(book.error(), overflow=self._one_in(2), partial=partial)
        usage = self.rng.choice([Usage(), Usage(100, 20), Usage(0, 0), Usage(100, 20, 130, reasoning=5)])
        if not self.draining and self._one_in(2):
            calls = [ToolCall("same", "bash", "{}", "same") for _ in range(self.rng.randint(1, 3))]
            return book.answer(Text("look"), *calls, stop="tool_use", usage=usage)
        return book.answer(Text("done"), stop=self.rng.choice(["end_turn", "max_tokens"]), usage=usage)

    def _decide(self, calls: tuple[ToolCall, ...]) -> CallsDecided:
        decisions = []
        for call in calls:
            kind = self.rng.choice([Allowed, Denied, Waiting])
            decisions.append(Denied(call.call_id, "no") if kind is Denied else kind(call.call_id))
            if kind is not Waiting:
                self.verdicts[call.call_id] = kind is Allowed
        return book.decided(*decisions)

    def _finish_tool(self, call: ToolCall) -> ToolFinished:
        number = self.rng.randrange(400)
        facts = ToolFacts(
            self.rng.choice(list(Op)), (f"f{number}.py",), self.rng.choice([None, f"make {number}"]), number % 2
        )
        full = BlobRef(f"{number:064}", 9) if self._one_in(2) else None
        return ToolFinished(ToolResult(call.call_id, "out", self._one_in(4), facts, full))

    def _replacement(self) -> Replacement:
        """A ledger and some of the newest whole units."""
        items = [item for item in self.state.items if isinstance(item, MessageItem)]
        cut = self.rng.choice([unit.start for unit in units([i.message for i in items])] or [0])
        tail = tuple(Kept(item.seq, item.message, item.tokens) for item in items[cut:])
        given = [item for item in self.state.items if isinstance(item, InstructionsItem)][-1:]
        kept = tuple(KeptInstructions(item.seq, item.instructions, item.tokens) for item in given)
        return replace(book.replacement(f"ledger {len(self.entries)}"), tail=tail, instructions=kept)

    # --- what must hold at the end ---

    def check_end(self) -> None:
        facts = self.state.facts
        assert not facts.anomalies, [self.entries[seq].event for seq in facts.anomalies]
        assert self.turn.state in (TurnState.IDLE, TurnState.CLOSED), self.turn
        if not self.broken:
            assert facts.open_turn is None
            still = {queued.turn_id for queued in facts.queue}
            assert not still or facts.held or self.finished, "a prompt waits and nobody said why"
        else:
            still = set()
        for turn_id in self.accepted:
            owed = 0 if turn_id in still else self.owed[turn_id]
            assert self.replies[turn_id] == owed, f"{turn_id} was answered {self.replies[turn_id]} times, not {owed}"
        refused = set(self.asked)
        assert all(self.told[ask] == 1 for ask in refused), f"compactions answered: {self.told}"


def walk(seed: int, *, n_steps: int = 40, breaks: bool = False, check: Callable[[Walk], None] | None = None) -> Walk:
    """A whole random session; `check` is called after each step."""
    session = Walk(seed, breaks=breaks)
    for _ in range(n_steps):
        session.step()
        if check is not None:
            check(session)
    session.drain()
    return session
