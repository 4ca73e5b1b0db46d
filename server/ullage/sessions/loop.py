"""How one session works: the only place where its state changes.

Inputs come in one at a time, the turn machine answers with commands, and they are carried out in order. What a command
finds out at once is fed back before the next input, so no cancel can come between a plan and its commit. What takes
time (a model, a tool, reading files) runs as an effect and posts its result to the inbox like everybody else. A write
that the machine has no part in is a job in the same inbox, so that it never comes between a checkpoint and its swap.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import assert_never

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
    RecordHandoff,
    RefuseRewind,
    ReplyTurn,
    Rewind,
    RunTools,
    StopEffects,
    Summarise,
)
from ullage.core.context import Occupancy
from ullage.core.errors import BadInput, ContextFailed, ErrorReport, StorageFailed
from ullage.core.events import (
    Entry,
    Event,
    ImagesLeftOut,
    ImagesMissing,
    Stop,
    TokensRecounted,
    TurnStarted,
)
from ullage.core.inputs import (
    FROM_EFFECTS,
    CallsDecided,
    CheckpointDone,
    CheckpointFailed,
    CommitFailed,
    CompactionPlanned,
    CompactionRefused,
    Input,
    StepPlanned,
    ToolFinished,
)
from ullage.core.state import State
from ullage.core.turn import advance
from ullage.core.turn_state import Turn
from ullage.core.views import client_view
from ullage.sessions.effects import Effects
from ullage.sessions.engine import Engine
from ullage.sessions.journal import Journal
from ullage.sessions.notices import (
    STATUS_OF,
    Compacted,
    CompactionAnswer,
    CompactionStatus,
    Listener,
    Notice,
    Occupied,
    RewindAnswer,
    Timing,
    TurnOutcome,
    Updated,
    Warned,
    occupied,
)
from ullage.sessions.rewinding import plan as plan_rewind
from ullage.sessions.tasks import Tasks
from ullage.sessions.waiting import Job, Waiting
from ullage.storage.log import SessionLog

_log = logging.getLogger(__name__)


class SessionLoop:
    """The half of a session that works; `SessionActor` is the half that others call."""

    def __init__(self, journal: Journal, engine: Engine, effects: Effects, listener: Listener) -> None:
        facts = journal.state.facts
        self.session_id, self.root = facts.session_id, facts.root
        self.turn = Turn(limits=engine.limits.core)
        self._journal, self._engine, self._effects = journal, engine, effects
        self._listener = listener
        self._inbox: asyncio.Queue[Input | Job] = asyncio.Queue()
        self._background = Tasks()
        self._waiting = Waiting()
        self._told: Occupied | None = None
        self._before: tuple[Event, ...] = ()
        """What closes an interrupted turn, kept back until the damage before it was accepted."""
        self._finished = asyncio.Event()
        self._began = (0.0, 0.0, 0)
        """When the turn began, and what the model had taken and how many steps there had been by then."""
        effects.attach(self._inbox.put_nowait, self._tell_in_order, lambda: self.state)

    # --- reading ---

    @property
    def log(self) -> SessionLog:
        """The log, for reading."""
        return self._journal.log

    @property
    def state(self) -> State:
        """The current state; frozen, so it may be kept."""
        return self._journal.state

    @property
    def synced_seq(self) -> int:
        """The newest durable seq: what clients may have been told."""
        return self._journal.synced_seq

    @property
    def read_only(self) -> str | None:
        """Why nothing can be written, or None."""
        failure = self._journal.failure
        if failure is not None:
            return failure.message
        if self._journal.log.damage:
            return "its log is damaged, which nobody accepted yet"
        return self.state.facts.read_only or self._journal.log.read_only

    @property
    def occupancy(self) -> Occupancy:
        """The one number, of the request that would be sent now."""
        return self._engine.occupancy(self.state)

    # --- the loop ---

    def start(self, before: Sequence[Event] = ()) -> None:
        """Begin to work; `before` is written first (how an interrupted turn is closed, for one)."""
        self._background.start(self._journal.run(lambda error: self._inbox.put_nowait(CommitFailed(error))))
        if self.read_only:
            self._before = tuple(before)
        elif before:
            try:
                self._append(before)
            except StorageFailed:
                pass  # the journal says so to the loop: the session comes up read-only
        self._background.start(self._run())
        self._tell_occupancy()

    def counter_changed(self) -> None:
        """The rank table was loaded: when everything posted before was fed, count again and tell the number."""
        self._inbox.put_nowait(Job(self._count_again))

    def _count_again(self) -> None:
        if self.read_only is None:
            self._recount()
        self._tell_occupancy()

    async def _run(self) -> None:
        while not self._finished.is_set():
            event = await self._inbox.get()
            if isinstance(event, Job):
                await event.run()
            else:
                await self._feed(event)
        for left in self._taken():
            if isinstance(left, Job):
                left.refuse()

    async def _feed(self, event: Input) -> None:
        pending = deque([event])
        while pending:
            event = pending.popleft()
            self.turn, commands = advance(self.turn, self.state, event)
            for command in commands:
                try:
                    pending.extend(await self._do(command))
                except StorageFailed as error:
                    pending.append(CommitFailed(error.report))
                    break
                except Exception:
                    _log.exception("session %s broke", self.session_id)
                    pending.append(CommitFailed(_BROKEN))
                    break
            if isinstance(event, CommitFailed):
                # Who asked for what was never written stands in no state.
                self._waiting.give_up(Stop.FAILED, CompactionOutcome.FAILED, event.error, self.state.facts.turn_totals)

    def _taken(self) -> list[Input | Job]:
        """Everything in the inbox, taken out."""
        return [self._inbox.get_nowait() for _ in range(self._inbox.qsize())]

    async def _stop_effects(self) -> tuple[Input, ...]:
        """Stop them. Tools that had finished did run; else nothing that was posted before may reach what comes next."""
        stopped = await self._effects.stop()
        posted = self._taken()
        for event in posted:
            if not isinstance(event, FROM_EFFECTS):
                self._inbox.put_nowait(event)
        return (*(event for event in posted if isinstance(event, ToolFinished)), stopped)

    async def _do(self, command: Command) -> tuple[Input, ...]:
        """Carry out one command; what it finds out at once are inputs to feed back."""
        effects, engine = self._effects, self._engine
        match command:
            case Append(events, barrier):
                self._append(events)
                if barrier:
                    await self._journal.barrier()
            case PlanStep():
                self._recount()
                await self._note_missing()
                await self._instruct()
                plan = engine.plan_step(self.state)
                self._tell_occupancy(plan.occupancy)
                return (StepPlanned(plan),)
            case RecordHandoff(plan):
                self._append(engine.handoff(plan))
                await self._journal.barrier()
            case CallProvider(turn_id, step, occupancy):
                built = engine.build(self.state, occupancy)
                if built.left_out:
                    self._append((ImagesLeftOut(turn_id, step, built.left_out),))
                for report in engine.spending.warnings(self.state, built.request):
                    self._tell_in_order(Warned(report))
                effects.call_provider(f"{turn_id}/{step}/a", built.request)
            case DecideCalls(calls):
                return (CallsDecided(await effects.decide(calls)),)
            case AskPermission(call):
                effects.ask_permission(call)
            case RunTools(calls):
                if any(engine.changes(call) for call in calls):
                    await self._journal.barrier()
                effects.run_tools(calls)
            case PlanCompaction():
                return (self._plan_compaction(command),)
            case Summarise(plan, sample):
                retrying = CompactionStatus.RETRYING if sample > 1 else CompactionStatus.SUMMARISING
                self._tell_in_order(Compacted(retrying, plan.reason, plan.profile, plan.strategy))
                effects.summarise(command)
            case Assemble():
                effects.assemble(command)
            case CommitCheckpoint():
                return (await self._commit(command),)
            case Rewind(ask_id, name):
                self._answer_rewind(ask_id, await self._rewind(name))
            case RefuseRewind(ask_id, error):
                self._answer_rewind(ask_id, error)
            case StopEffects():
                return await self._stop_effects()
            case ReplyTurn():
                self._reply_turn(command)
            case CompactionEnded():
                self._compaction_ended(command)
            case Finish():
                await self._finish()
            case _:
                assert_never(command)
        return ()

    # --- writing and telling ---

    def _append(self, events: Sequence[Event]) -> None:
        stamped = [self._engine.stamp(event) for event in events]
        for entry in self._journal.append(stamped):
            if isinstance(entry.event, TurnStarted):
                self._began = (time.monotonic(), self._effects.model_seconds, self.state.facts.steps)
            self._publish(entry)
            self._engine.spending.book(entry)
        self._effects.forget_live(self.state)
        self._tell_occupancy()

    def _publish(self, entry: Entry) -> None:
        shown = client_view(entry)
        if shown is not None:
            self._journal.when_durable(lambda error: None if error else self._tell(Updated(shown)))

    def _tell(self, notice: Notice) -> None:
        self._listener(self.session_id, notice)

    def _tell_occupancy(self, occupancy: Occupancy | None = None) -> None:
        """Tell the number when it or the bill changed. A step's own is told as it was decided, not taken again."""
        now = occupied(occupancy or self.occupancy, self.state.facts)
        if now != self._told:
            self._told = now
            self._tell_in_order(now)

    def _tell_in_order(self, notice: Notice) -> None:
        """Tell it after the updates it rests on, whether the disk took them or not."""
        self._journal.when_durable(lambda error: self._tell(notice))

    def _recount(self) -> None:
        """Once the rank table is there, replace the rough counts made before."""
        counts = self._engine.recount(self.state)
        if counts:
            self._append((TokensRecounted(self._engine.counter.encoding, counts),))

    async def _note_missing(self) -> None:
        """Write down which images the coming request must go without because their bytes are gone."""
        gone = await self._effects.missing(self._engine.images(self.state))
        if gone:
            self._append((ImagesMissing(gone),))

    async def _instruct(self) -> None:
        """Tell the model of instruction files that are new or changed, so that the step's number counts them."""
        files = await self._effects.instruction_files()
        told = self._engine.instructions(self.state, files)
        if told:
            self._append(told)

    def _reply_turn(self, command: ReplyTurn) -> None:
        answer = self._waiting.take_turn(command.turn_id)
        totals, timing = self.state.facts.turn_totals, self._timing()

        def reply(failure: ErrorReport | None) -> None:
            stop = Stop.FAILED if failure else command.stop
            answer(TurnOutcome(stop, failure or command.error, totals, timing))

        self._journal.when_durable(reply)

    def _timing(self) -> Timing:
        began, model, steps = self._began
        spent = time.monotonic() - began, self._effects.model_seconds - model
        return Timing(self.state.facts.steps - steps, *(round(seconds * 1000) for seconds in spent))

    # --- compaction ---

    def _plan_compaction(self, command: PlanCompaction) -> Input:
        planned = self._engine.plan_compaction(self.state, command)
        if isinstance(planned, ErrorReport):
            return CompactionRefused(planned)
        started = Compacted(CompactionStatus.STARTED, planned.reason, planned.profile, planned.strategy)
        self._tell_in_order(started)
        return CompactionPlanned(planned)

    async def _commit(self, command: CommitCheckpoint) -> Input:
        report = command.report
        self._tell_in_order(Compacted(CompactionStatus.GATED, report.reason, report.profile, report.strategy, report))
        event = self._engine.checkpoint(self.state, command)
        try:
            self._publish(await self._journal.swap(event))
        except ContextFailed as refused:
            return CheckpointFailed(refused.report)
        return CheckpointDone(report)

    def _compaction_ended(self, command: CompactionEnded) -> None:
        status, profile = STATUS_OF[command.outcome], self._engine.profile
        strategy = command.report.strategy if command.report else None
        notice = Compacted(status, command.reason, profile, strategy, command.report, command.error)
        self._tell_in_order(notice)
        self._tell_occupancy()
        answer = CompactionAnswer(command.outcome, command.report, command.error)
        reply = self._waiting.take_compactions(command.ask_ids)
        self._journal.when_durable(lambda _: reply(answer))

    async def _rewind(self, name: str | None) -> RewindAnswer | ErrorReport:
        before = self.occupancy.used
        try:
            planned = await asyncio.to_thread(plan_rewind, self.log, self.state, self._engine.counter, name)
        except (BadInput, StorageFailed) as refused:
            return refused.report  # what can't be read ends nothing
        try:
            entry = await self._journal.swap(planned.event)
        except ContextFailed as refused:
            return refused.report
        self._publish(entry)
        self._tell_occupancy()
        return RewindAnswer(planned.event.turns, planned.written, before, self.occupancy.used, entry.seq)

    def _answer_rewind(self, ask_id: str, answer: RewindAnswer | ErrorReport) -> None:
        reply = self._waiting.take_rewind(ask_id)
        self._journal.when_durable(lambda failure: reply(failure or answer))

    # --- the end ---

    async def _finish(self) -> None:
        """Everything ran its course: sync, close, and answer who still waits."""
        await self._journal.drain()
        gone = ErrorReport("session_closed", "The session was closed.", "Open it again and send once more.")
        self._waiting.give_up(None, CompactionOutcome.CANCELLED, gone, self.state.facts.turn_totals)
        await self._effects.close()
        self._finished.set()


_BROKEN = ErrorReport("internal", "Something broke inside the server.", "Look at its log, then open the session again.")
