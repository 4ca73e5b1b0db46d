"""One live session: the only place where its state changes.

Inputs come in one at a time, the turn machine answers with commands, and they are carried out in order. What a command
finds out at once is fed back before the next input, so no cancel can come between a plan and its commit. What takes
time (a model, a tool, reading files) runs as an effect and posts its result to the inbox like everybody else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

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
    ReplyTurn,
    RunTools,
    StopEffects,
    Summarise,
)
from ullage.core.context import Occupancy
from ullage.core.errors import BadInput, ContextFailed, ErrorReport, SessionUnavailable, StorageFailed
from ullage.core.events import (
    Entry,
    Event,
    PromptMode,
    SessionConfigured,
    SessionRenamed,
    TokensRecounted,
    TurnStarted,
)
from ullage.core.inputs import (
    CallsDecided,
    CancelAsked,
    CheckpointDone,
    CheckpointFailed,
    CloseAsked,
    CommitFailed,
    CompactAsked,
    CompactionPlanned,
    CompactionRefused,
    Input,
    PromptArrived,
    PromptEditAsked,
    PromptRemoveAsked,
    QueueResumeAsked,
    StepPlanned,
)
from ullage.core.messages import Message, Part, Role
from ullage.core.state import State, queued
from ullage.core.turn import advance
from ullage.core.turn_state import Turn
from ullage.core.views import Shown, client_view, export_view
from ullage.sessions.effects import Effects
from ullage.sessions.engine import Engine
from ullage.sessions.inspection import CompactionPreview, Inspection, inspect, preview
from ullage.sessions.journal import Journal
from ullage.sessions.notices import (
    Compacted,
    CompactionAnswer,
    CompactionStatus,
    Delta,
    Listener,
    Notice,
    Occupied,
    Timing,
    TurnOutcome,
    Updated,
)
from ullage.sessions.permissions import decide
from ullage.sessions.tasks import Tasks
from ullage.storage.log import SessionLog

_STATUS = {
    CompactionOutcome.COMMITTED: CompactionStatus.COMMITTED,
    CompactionOutcome.FAILED: CompactionStatus.FAILED,
    CompactionOutcome.REFUSED: CompactionStatus.SKIPPED,
    CompactionOutcome.CANCELLED: CompactionStatus.CANCELLED,
}


class SessionActor:
    """Made by the host. Every public coroutine may be called from any task on the loop."""

    def __init__(self, journal: Journal, engine: Engine, effects: Effects, listener: Listener) -> None:
        facts = journal.state.facts
        self.session_id, self.root = facts.session_id, facts.root
        self.turn = Turn()
        self._journal, self._engine, self._effects = journal, engine, effects
        self._listener = listener
        self._inbox: asyncio.Queue[Input] = asyncio.Queue()
        self._background = Tasks()
        self._turn_waiters: dict[str, list[asyncio.Future[TurnOutcome]]] = {}
        self._compaction_waiters: dict[str, asyncio.Future[CompactionAnswer]] = {}
        self._told: Occupancy | None = None
        self._before: tuple[Event, ...] = ()
        """What closes an interrupted turn, kept back until the damage before it was accepted."""
        self._finished = asyncio.Event()
        self._began = (0.0, 0.0, 0)
        """When the turn began, and what the model had taken and how many steps there had been by then."""
        effects.attach(self._inbox.put_nowait, self._tell, lambda: self.state)

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
        """Why nothing can be written any more, or None."""
        failure = self._journal.failure
        if failure is not None:
            return failure.message
        return self.state.facts.read_only or self._journal.log.read_only

    @property
    def occupancy(self) -> Occupancy:
        """The one number, of the request that would be sent now."""
        return self._engine.occupancy(self.state)

    def history(self, from_seq: int = 0) -> Iterator[Shown]:
        """Durable updates from a seq on, read from the log: only what may have been told already."""
        entries = self._journal.log.entries(from_seq)
        return export_view(entry for entry in entries if entry.seq <= self.synced_seq)

    def live(self) -> tuple[Delta, ...]:
        """The answer that is being streamed, whole so far."""
        return self._effects.live(self.state.facts.last_seq)

    def inspect(self) -> Inspection:
        """What fills the window."""
        return inspect(self.state, self._engine, self._journal.log.entries())

    def dry_run(self, instructions: str = "") -> CompactionPreview:
        """What a manual compaction would do; nothing is written."""
        return preview(self.state, self._engine, instructions)

    # --- asking ---

    async def prompt(self, turn_id: str, parts: Sequence[Part], mode: PromptMode) -> TurnOutcome:
        """Send a prompt and wait until its own turn ends, or until it entered a running turn as steering.

        Raises:
            SessionUnavailable: the session is read-only.
        """
        self._check_writable()
        message = Message(f"{turn_id}/u", Role.USER, tuple(parts), turn_id)
        waiter: asyncio.Future[TurnOutcome] = asyncio.get_running_loop().create_future()
        self._turn_waiters.setdefault(turn_id, []).append(waiter)
        self._inbox.put_nowait(PromptArrived(message, mode))
        return await waiter

    async def compact(self, ask_id: str, instructions: str = "") -> CompactionAnswer:
        """Compact now, or before the next step of the running turn; waits for the outcome."""
        self._check_writable()
        waiter: asyncio.Future[CompactionAnswer] = asyncio.get_running_loop().create_future()
        self._compaction_waiters[ask_id] = waiter
        self._inbox.put_nowait(CompactAsked(ask_id, instructions))
        return await waiter

    def cancel(self, target: str | None = None) -> None:
        """Cancel a turn, a waiting prompt or a manual compaction by id, or whatever runs. Never fails: a late cancel
        does nothing."""
        self._inbox.put_nowait(CancelAsked(target))

    async def edit_prompt(self, turn_id: str, parts: Sequence[Part]) -> None:
        """Replace a waiting prompt.

        Raises:
            BadInput: no prompt of that turn waits.
        """
        self._check_waiting(turn_id)
        message = Message(f"{turn_id}/u", Role.USER, tuple(parts), turn_id)
        await self._ask(PromptEditAsked(message))

    async def remove_prompt(self, turn_id: str) -> None:
        """Take a waiting prompt out of the queue.

        Raises:
            BadInput: no prompt of that turn waits.
        """
        self._check_waiting(turn_id)
        await self._ask(PromptRemoveAsked(turn_id))

    async def resume_queue(self) -> None:
        """Let a held queue run again."""
        self._check_writable()
        await self._ask(QueueResumeAsked())

    async def rename(self, title: str) -> None:
        await self._record(SessionRenamed(title))

    async def configure(self, change: SessionConfigured) -> None:
        """Change model, profile, window and the like; takes effect at the next step."""
        await self._record(change)
        self._tell_occupancy()

    async def accept_damage(self) -> None:
        """Agree to go on writing after damage in the log, which stays where it is."""
        for entry in self._journal.accept_damage():
            self._publish(entry)
        before, self._before = self._before, ()
        if before:
            self._append(before)

    async def close(self) -> None:
        """Cancel what runs, write down how it ended, and let go of the log."""
        self._inbox.put_nowait(CloseAsked())
        await self._finished.wait()
        await self._background.stop()

    def _check_writable(self) -> None:
        if self._journal.log.damage:
            raise SessionUnavailable(
                "This session's log is damaged; what can be read is shown.",
                hint="Look at the damage, then accept it to go on writing, or fork the session.",
                code="session_damaged",
            )
        reason = self.read_only
        if reason is not None:
            raise SessionUnavailable(
                f"This session is read-only: {reason}.", hint="Fork it to go on.", code="session_read_only"
            )

    def _check_waiting(self, turn_id: str) -> None:
        self._check_writable()
        if queued(self.state.facts, turn_id) is None:
            raise BadInput(
                f"No prompt of turn {turn_id} is waiting.",
                hint="It may have started already; look at the queue again.",
                code="not_waiting",
            )

    async def _ask(self, event: Input) -> None:
        """Post an input and wait until what it wrote is durable."""
        done = asyncio.Event()
        self._inbox.put_nowait(event)
        self._inbox.put_nowait(_Mark(done))  # type: ignore[arg-type]  # not an input of the machine: it ends here
        await done.wait()
        await self._journal.barrier()

    async def _record(self, event: Event) -> None:
        """Write an event that needs no decision of the turn machine."""
        self._check_writable()
        self._append((event,))
        await self._journal.barrier()

    # --- the loop ---

    def start(self, before: Sequence[Event] = ()) -> None:
        """Begin to work; `before` is written first (how an interrupted turn is closed, for one)."""
        self._background.start(self._journal.run(lambda error: self._inbox.put_nowait(CommitFailed(error))))
        if self._journal.log.damage or self.read_only:
            self._before = tuple(before)
        elif before:
            self._append(before)
        self._background.start(self._run())
        self._tell_occupancy()

    async def _run(self) -> None:
        while not self._finished.is_set():
            event = await self._inbox.get()
            if isinstance(event, _Mark):
                event.done.set()
                continue
            await self._feed(event)

    async def _feed(self, event: Input) -> None:
        pending = deque([event])
        while pending:
            self.turn, commands = advance(self.turn, self.state, pending.popleft())
            for command in commands:
                try:
                    found = await self._do(command)
                except StorageFailed as error:
                    pending.append(CommitFailed(error.report))
                    break
                if found is not None:
                    pending.append(found)

    async def _do(self, command: Command) -> Input | None:
        """Carry out one command; what it finds out at once is the input to feed back."""
        effects, engine = self._effects, self._engine
        match command:
            case Append(events, barrier):
                self._append(events)
                if barrier:
                    await self._journal.barrier()
            case PlanStep():
                self._recount()
                plan = engine.plan_step(self.state)
                self._tell_occupancy(plan.occupancy)
                return StepPlanned(plan)
            case RecordHandoff(plan):
                self._append((engine.handoff(plan),))
                await self._journal.barrier()
            case CallProvider(turn_id, step, occupancy):
                effects.call_provider(f"{turn_id}/{step}/a", engine.request(self.state, occupancy))
            case DecideCalls(calls):
                return CallsDecided(decide(calls, engine.specs, self.state.facts.config.permission_mode))
            case AskPermission(call):
                effects.ask_permission(call)
            case RunTools(calls):
                if any(engine.changes(call) for call in calls):
                    await self._journal.barrier()
                effects.run_tools(calls)
            case PlanCompaction():
                return self._plan_compaction(command)
            case Summarise(plan, sample):
                retrying = CompactionStatus.RETRYING if sample > 1 else CompactionStatus.SUMMARISING
                self._tell_in_order(Compacted(retrying, plan.reason, plan.profile, plan.strategy))
                effects.summarise(plan, engine.summary_request(self.state, plan))
            case Assemble():
                effects.assemble(command)
            case CommitCheckpoint():
                return await self._commit(command)
            case StopEffects():
                return await effects.stop()
            case ReplyTurn():
                self._reply_turn(command)
            case CompactionEnded():
                self._compaction_ended(command)
            case Finish():
                await self._finish()
            case _:
                assert_never(command)
        return None

    # --- writing and telling ---

    def _append(self, events: Sequence[Event]) -> None:
        stamped = [self._engine.stamp(event) for event in events]
        for entry in self._journal.append(stamped):
            if isinstance(entry.event, TurnStarted):
                self._began = (time.monotonic(), self._effects.model_seconds, self.state.facts.steps)
            self._publish(entry)
        self._effects.forget_live(self.state)
        self._tell_occupancy()

    def _publish(self, entry: Entry) -> None:
        shown = client_view(entry)
        if shown is not None:
            self._journal.when_durable(lambda error: None if error else self._tell(Updated(shown)))

    def _tell(self, notice: Notice) -> None:
        self._listener(self.session_id, notice)

    def _tell_occupancy(self, occupancy: Occupancy | None = None) -> None:
        """Tell the number when it changed. A step's own is told as it was decided, not taken again."""
        occupancy = occupancy or self.occupancy
        if occupancy != self._told:
            self._told = occupancy
            self._tell_in_order(Occupied(occupancy, self.state.facts.turn_totals))

    def _tell_in_order(self, notice: Notice) -> None:
        """Tell it after the updates it rests on, whether the disk took them or not."""
        self._journal.when_durable(lambda error: self._tell(notice))

    def _recount(self) -> None:
        """Once the rank table is there, replace the rough counts made before."""
        counts = self._engine.recount(self.state)
        if counts:
            self._append((TokensRecounted(self._engine.counter.encoding, counts),))

    def _reply_turn(self, command: ReplyTurn) -> None:
        waiters = self._turn_waiters.pop(command.turn_id, [])
        totals, timing = self.state.facts.turn_totals, self._timing()
        self._journal.when_durable(
            lambda failure: _settle(waiters, TurnOutcome(command.stop, command.error or failure, totals, timing))
        )

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
            self._publish(await self._journal.checkpoint(event))
        except ContextFailed as refused:
            return CheckpointFailed(refused.report)
        return CheckpointDone(report)

    def _compaction_ended(self, command: CompactionEnded) -> None:
        status, profile = _STATUS[command.outcome], self._engine.profile
        strategy = command.report.strategy if command.report else None
        notice = Compacted(status, command.reason, profile, strategy, command.report, command.error)
        self._tell_in_order(notice)
        self._tell_occupancy()
        answer = CompactionAnswer(command.outcome, command.report, command.error)
        waiters = [self._compaction_waiters.pop(ask_id, None) for ask_id in command.ask_ids]
        self._journal.when_durable(lambda _: _settle(waiters, answer))

    # --- the end ---

    async def _finish(self) -> None:
        """Everything ran its course: sync, close, and answer who still waits."""
        await self._journal.drain()
        gone = ErrorReport("session_closed", "The session was closed.", "Open it again and send once more.")
        for waiters in self._turn_waiters.values():
            _settle(waiters, TurnOutcome(None, gone, self.state.facts.turn_totals))
        failed = CompactionAnswer(CompactionOutcome.CANCELLED, None, gone)
        _settle(list(self._compaction_waiters.values()), failed)
        self._effects.close()
        self._finished.set()


class _Mark:
    """Ends in the loop: everything posted before it has been fed."""

    def __init__(self, done: asyncio.Event) -> None:
        self.done = done


def _settle(waiters: Sequence[asyncio.Future[Any] | None], value: object) -> None:
    for waiter in waiters:
        if waiter is not None and not waiter.done():
            waiter.set_result(value)
