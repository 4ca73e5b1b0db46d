"""One live session: what others may read of it, and ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from ullage.context.leaving import Left, Named, leave_out, take_back
from ullage.context.pinning import find_message, pinning, search_message, unknown_message
from ullage.context.resuming import Resuming
from ullage.core.context import Pin
from ullage.core.errors import BadInput, SessionUnavailable, UllageError
from ullage.core.events import (
    Event,
    PinRemoved,
    PromptMode,
    SessionConfigured,
    SessionRenamed,
)
from ullage.core.inputs import (
    CancelAsked,
    CloseAsked,
    CompactAsked,
    Input,
    PromptArrived,
    PromptEditAsked,
    PromptRemoveAsked,
    QueueResumeAsked,
    RedoAsked,
    RewindAsked,
)
from ullage.core.messages import Message, Part, Role
from ullage.core.pins import message_pin, typed_pin
from ullage.core.state import queued
from ullage.core.views import Shown, export_view
from ullage.sessions.inspection import CompactionPreview, Inspection, inspect, preview
from ullage.sessions.loop import SessionLoop
from ullage.sessions.notices import (
    CompactionAnswer,
    Delta,
    RewindAnswer,
    TurnOutcome,
)
from ullage.sessions.rewinding import plan as plan_rewind
from ullage.sessions.waiting import Job


class SessionActor(SessionLoop):
    """Made by the host. Every public coroutine may be called from any task on the loop."""

    # --- reading ---

    def history(self, from_seq: int = 0) -> Iterator[Shown]:
        """Durable updates from a seq on, read from the log: only what may have been told already."""
        entries = self._journal.log.entries(from_seq)
        return export_view(entry for entry in entries if entry.seq <= self.synced_seq)

    def live(self) -> tuple[Delta, ...]:
        """The answer that is being streamed, whole so far, and the newest of what running calls print."""
        return self._effects.live(self.state.facts.last_seq)

    def resuming(self) -> Resuming:
        """What going on with this session begins with."""
        return self._engine.resuming(self.state)

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
        waiter = self._waiting.for_turn(turn_id)
        self._inbox.put_nowait(PromptArrived(message, mode))
        return await waiter

    async def compact(self, ask_id: str, instructions: str = "") -> CompactionAnswer:
        """Compact now, or before the next step of the running turn; waits for the outcome."""
        self._check_writable()
        waiter = self._waiting.for_compaction(ask_id)
        self._inbox.put_nowait(CompactAsked(ask_id, instructions))
        return await waiter

    async def rewind(self, ask_id: str, name: str) -> RewindAnswer:
        """Go back to just before the turn with that id, or the turn of the user message with it.

        Raises:
            BadInput: no turn to go back to.
            UllageError: `turn_running`, or what kept it from being written.
        """
        return await self._go(ask_id, RewindAsked(ask_id, name))

    async def redo(self, ask_id: str) -> RewindAnswer:
        """Undo the newest rewind, while nothing was said since.

        Raises:
            UllageError: `nothing_to_redo`, `turn_running`, or what kept it from being written.
        """
        return await self._go(ask_id, RedoAsked(ask_id))

    async def _go(self, ask_id: str, asked: RewindAsked | RedoAsked) -> RewindAnswer:
        self._check_writable()
        waiter = self._waiting.for_rewind(ask_id)
        self._inbox.put_nowait(asked)
        answer = await waiter
        if isinstance(answer, RewindAnswer):
            return answer
        raise UllageError(answer.message, hint=answer.hint, code=answer.code, **dict(answer.data))

    async def rewind_preview(self, name: str) -> RewindAnswer:
        """What a rewind would do; nothing is written.

        Raises:
            BadInput: no turn to go back to.
        """
        now = self.state
        planned = await asyncio.to_thread(plan_rewind, self.log, now, self._engine.counter, name)
        after = self._engine.occupancy(planned.after(now))
        return RewindAnswer(planned.event.turns, planned.written, self._engine.occupancy(now).used, after.used)

    def cancel(self, target: str | None = None) -> None:
        """Cancel a turn, a waiting prompt or a manual compaction by id, or whatever runs. Never fails: a late cancel
        does nothing."""
        if self._why_not_writable() is None:
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

    async def pin_message(self, message_id: str) -> str:
        """Keep a message of this session in view; the pin's id, also where it is pinned already.

        Raises:
            BadInput: `unknown_message`, or what `pinning` says.
        """
        self._check_writable()
        found = find_message(self.state, message_id)
        if found is None or found[1] < self.state.facts.epoch:
            found = await asyncio.to_thread(search_message, self._journal.log.entries(), message_id) or found
        if found is None:
            raise unknown_message()
        return await self._pin(lambda: message_pin(*found))

    async def pin_text(self, text: str) -> str:
        """Keep a text in view that a person typed; the model sees it from its next request on. The pin's id.

        Raises:
            BadInput: what `pinning` says.
        """
        self._check_writable()
        return await self._pin(lambda: typed_pin(text, self.state.facts.last_seq + 1))

    async def _pin(self, wanted: Callable[[], Pin]) -> str:
        made: list[Pin] = []

        def add() -> None:
            pin, event = pinning(self.state, wanted(), self._engine.counter)
            made.append(pin)
            if event is not None:
                self._append((event,))

        await self._in_turn(add)
        return made[0].pin_id

    async def unpin(self, pin_id: str) -> None:
        """Take a pin back; one that is not there is no error."""
        self._check_writable()

        def remove() -> None:
            if any(pin.pin_id == pin_id for pin in self.state.facts.pins):
                self._append((PinRemoved(pin_id),))

        await self._in_turn(remove)

    async def leave_out(self, named: Named, *, back: bool = False) -> Left:
        """Leave messages out of what the model sees, with their units, or take them back.

        Raises:
            BadInput: what `leave_out` and `take_back` say.
        """
        self._check_writable()
        done: list[Left] = []

        def change() -> None:
            counter = self._engine.counter
            done.append(take_back(self.state, named) if back else leave_out(self.state, named, counter))
            if (event := done[0].event) is not None:
                self._append((event,))

        await self._in_turn(change)
        return done[0]

    async def accept_damage(self) -> None:
        """Agree to go on writing after damage in the log, which stays where it is."""
        await self._in_turn(self._accept)

    async def _accept(self) -> None:
        for entry in await self._journal.accept_damage():
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
        refusal = self._why_not_writable()
        if refusal is not None:
            raise refusal

    def _why_not_writable(self) -> SessionUnavailable | None:
        if self._journal.log.damage:
            return SessionUnavailable(
                "This session's log is damaged; what can be read is shown.",
                hint="Look at the damage, then accept it to go on writing, or fork the session.",
                code="session_damaged",
            )
        reason = self.read_only
        if reason is None:
            return None
        return SessionUnavailable(
            f"This session is read-only: {reason.rstrip('.')}.", hint="Fork it to go on.", code="session_read_only"
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
        self._inbox.put_nowait(event)
        await self._in_turn(lambda: None)

    async def _record(self, event: Event) -> None:
        """Write an event that needs no decision of the turn machine."""
        self._check_writable()
        await self._in_turn(lambda: self._append((event,)))

    async def _in_turn(self, work: Callable[[], Awaitable[None] | None]) -> None:
        """Do something when everything posted before was fed, never in the middle of a command; then sync."""
        job = Job(work)
        self._inbox.put_nowait(job)
        await job.done
        await self._journal.barrier()
