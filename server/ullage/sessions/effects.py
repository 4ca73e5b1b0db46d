"""What takes time: calling the model, running tools, reading files back, summarising.

Every effect runs as a task of this session and posts exactly one closing input. `stop` cancels them all, waits for
their end, and says what the model had said by then.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from ullage.context.instructions import folders, in_force
from ullage.core.breaker import CAP_REACHED
from ullage.core.commands import Assemble, Summarise
from ullage.core.context import InstructionFile, RestoredFile
from ullage.core.errors import ErrorReport, StorageFailed, UllageError
from ullage.core.inputs import (
    AnswerArrived,
    Decision,
    GatePassed,
    GateRejected,
    Input,
    OutputStarted,
    PermissionAnswered,
    ProviderFailed,
    SampleFailed,
    Stopped,
    ToolFinished,
)
from ullage.core.messages import BlobRef, Op, Part, Text, ToolCall, ToolFacts, ToolResult, clean_text
from ullage.core.ports import Answer, Blobs, ProviderFailure, ReasoningDelta, Retrying, TextDelta, ToolOutcome, Tools
from ullage.core.requests import Request
from ullage.core.state import State
from ullage.sessions.asking import Approvals
from ullage.sessions.engine import Engine, ResultsBudget
from ullage.sessions.notices import Delta, DeltaKind, Notice, Retried, Warned
from ullage.sessions.ports import Ask, Ports
from ullage.sessions.sampling import sample
from ullage.sessions.tasks import Tasks
from ullage.workspace.instructions import read_instructions
from ullage.workspace.restore import RecentFile, restore
from ullage.workspace.root import WorkspaceRoot

_log = logging.getLogger(__name__)


class _Live:
    """The answer being streamed."""

    def __init__(self, message_id: str, model: str) -> None:
        self.message_id, self.model = message_id, model
        self.said: dict[DeltaKind, list[str]] = {kind: [] for kind in DeltaKind}
        self.length = dict.fromkeys(DeltaKind, 0)

    def add(self, kind: DeltaKind, text: str) -> int:
        """Take a piece; its offset in code points."""
        offset = self.length[kind]
        self.said[kind].append(text)
        self.length[kind] += len(text)
        return offset

    def whole(self, kind: DeltaKind) -> str:
        return "".join(self.said[kind])


class Effects:
    """The effects of one session. `attach` ties it to its actor before anything runs."""

    def __init__(
        self,
        ports: Ports,
        engine: Engine,
        tools: Tools,
        door: WorkspaceRoot | None,
        blobs: Blobs,
        ask: Ask | None,
        trusted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ports, self._engine, self._tools = ports, engine, tools
        self._door, self._blobs, self._trusted = door, blobs, trusted
        here = None if door is None else door.identity
        self._approvals = Approvals(tools, lambda: engine.specs, ask, here, ports.home)
        self._tasks = Tasks()
        self._live: _Live | None = None
        self._printing: dict[str, Delta] = {}
        """The newest piece of what each running call prints."""
        self.model_seconds = 0.0
        """Time spent waiting for the model so far."""

    def attach(self, post: Callable[[Input], None], tell: Callable[[Notice], None], state: Callable[[], State]) -> None:
        self._post, self._tell, self._state = post, tell, state

    async def stop(self) -> Stopped:
        """Cancel everything, wait for the end, and take what was streamed."""
        await self._tasks.stop()
        live, self._live = self._live, None
        if live is None:
            return Stopped()
        return Stopped(_partial(live), live.model)

    async def close(self) -> None:
        """End what calls left running, and let go of the workspace door."""
        await self._tools.close()
        if self._door is not None:
            self._door.close()

    # --- the model ---

    def call_provider(self, message_id: str, request: Request) -> None:
        self._live = _Live(message_id, request.model)
        self._tasks.start(self._call(self._live, request))

    async def _call(self, live: _Live, request: Request) -> None:
        began = time.monotonic()
        try:
            answer = await self._stream(live, request)
        except ProviderFailure as failure:
            self._post(ProviderFailed(failure.report, failure.overflow, failure.limit, _partial(live), live.model))
        except Exception:
            _log.exception("the provider of model %s broke", request.model)
            self._post(ProviderFailed(_BROKEN, partial=_partial(live), model=live.model))
        else:
            self._post(AnswerArrived(answer.parts, answer.usage, answer.stop, answer.model))
        finally:
            self.model_seconds += time.monotonic() - began

    async def _stream(self, live: _Live, request: Request) -> Answer:
        started = False
        async with aclosing(self._engine.provider(self._state()).stream(request)) as events:
            async for event in events:
                if not started and not isinstance(event, Retrying):
                    started = True
                    self._post(OutputStarted())
                match event:
                    case Retrying():
                        self._retried(live, event)
                    case TextDelta(text):
                        self._delta(live, DeltaKind.TEXT, text)
                    case ReasoningDelta(text):
                        self._delta(live, DeltaKind.REASONING, text)
                    case Answer():
                        return event
        raise ProviderFailure(_CUT)

    def _retried(self, live: _Live, tried: Retrying) -> None:
        seq, wait = self._state().facts.last_seq, round(tried.wait * 1000)
        self._tell(Retried(seq, live.message_id, tried.attempt, tried.most, wait, tried.error))

    def _delta(self, live: _Live, kind: DeltaKind, text: str) -> None:
        text = clean_text(text)
        offset = live.add(kind, text)
        self._tell(Delta(self._state().facts.last_seq, live.message_id, kind, offset, text))

    def live(self, after_seq: int) -> tuple[Delta, ...]:
        """What was streamed of the answer under way, per kind, from its beginning; the newest of what calls print."""
        live, printing = self._live, tuple(self._printing.values())
        if live is None:
            return printing
        said = (Delta(after_seq, live.message_id, kind, 0, live.whole(kind)) for kind in DeltaKind if live.length[kind])
        return (*said, *printing)

    def forget_live(self, state: State) -> None:
        """The answer was logged, so there is no overlay any more."""
        if state.facts.sent is None:
            self._live = None

    async def missing(self, images: Sequence[BlobRef]) -> tuple[BlobRef, ...]:
        """Those of them whose bytes are not stored any more."""
        if not images:
            return ()
        return await asyncio.to_thread(lambda: tuple(ref for ref in images if not self._blobs.has(ref)))

    def summarise(self, command: Summarise) -> None:
        self._tasks.start(self._sample(command))

    async def _sample(self, command: Summarise) -> None:
        ended = await sample(command, self._state(), self._engine, self._ports)
        if isinstance(ended, SampleFailed) and ended.error.code == CAP_REACHED:
            self._tell(Warned(ended.error))
        self._post(ended)

    # --- tools ---

    def ask_permission(self, call: ToolCall) -> None:
        self._tasks.start(self._permission(call))

    async def _permission(self, call: ToolCall) -> None:
        self._post(PermissionAnswered(await self._approvals.ask(self._state().facts.session_id, call)))

    async def decide(self, calls: Sequence[ToolCall]) -> tuple[Decision, ...]:
        """Decide every call of a step."""
        return await self._approvals.decide(calls, self._state().facts)

    async def instruction_files(self) -> tuple[InstructionFile, ...]:
        """Instruction files as they are now, nearest first. Nothing is read in a root that is not trusted."""
        state = self._state()
        known = tuple(in_force(state))
        if not self._trusted():
            return tuple(InstructionFile(path, problem="untrusted", why=_UNTRUSTED) for path in known)
        names = self._ports.instructions
        if self._door is None or not (names or known):
            return ()
        return await asyncio.to_thread(read_instructions, self._door, folders(state.facts.files), names, known)

    def run_tools(self, calls: Sequence[ToolCall]) -> None:
        budget = self._engine.results_budget(self._state())
        for call in calls:
            self._tasks.start(self._run_tool(call, budget))

    def _printed(self, call: ToolCall, start: int, text: str) -> None:
        message_id = f"{call.call_id.rsplit('/', 1)[0]}/a"
        delta = Delta(self._state().facts.last_seq, message_id, DeltaKind.OUTPUT, start, clean_text(text), call.call_id)
        self._printing[call.call_id] = delta
        self._tell(delta)

    async def _run_tool(self, call: ToolCall, budget: ResultsBudget) -> None:
        try:
            session_id = self._state().facts.session_id
            outcome = await self._approvals.run(session_id, call, partial(self._printed, call))
            result = await self._fitted(call, outcome, budget)
        except UllageError as error:
            result = ToolResult(call.call_id, f"{error.report.message} {error.report.hint}".strip(), is_error=True)
        except Exception:
            _log.exception("tool %s broke", call.name)
            result = ToolResult(call.call_id, f"The tool {call.name} broke; its outcome is unknown.", is_error=True)
        finally:
            self._printing.pop(call.call_id, None)
        self._post(ToolFinished(result))

    async def _fitted(self, call: ToolCall, outcome: ToolOutcome, budget: ResultsBudget) -> ToolResult:
        """The result as the model will see it, now and after every reload; the full text goes to the blobs."""
        text = clean_text(outcome.text)
        facts = outcome.facts or ToolFacts(Op.OTHER)
        content = text.encode()
        fitted = budget.fit(text, outcome.full.sha256 if outcome.full else hashlib.sha256(content).hexdigest())
        if not fitted.shortened:
            return ToolResult(call.call_id, fitted.text, outcome.is_error, facts, outcome.full, outcome.images)
        try:
            full = outcome.full or await asyncio.to_thread(self._blobs.put, content)
        except StorageFailed as error:
            # The call did run, so the model must see how it ended; only the rest can't be paged through.
            _log.warning("the full output of %s was not stored: %s", call.name, error.report.message)
            full, budget.spent = None, budget.spent - fitted.tokens
            fitted = budget.fit(text, None)
        return ToolResult(call.call_id, fitted.text, outcome.is_error, facts, full, outcome.images)

    # --- compaction ---

    def assemble(self, command: Assemble) -> None:
        self._tasks.start(self._assemble(command))

    async def _assemble(self, command: Assemble) -> None:
        started = time.monotonic()
        plan = command.plan
        try:
            files = await asyncio.to_thread(self._restored)
            made = self._engine.assemble(self._state(), command, files, self._ports.fence())
        except UllageError as error:
            self._post(GateRejected(plan, error.report, command.summary is not None))
            return
        except Exception:
            _log.exception("a compaction could not be assembled")
            self._post(GateRejected(plan, _BROKEN, command.summary is not None))
            return
        if isinstance(made, ErrorReport):
            self._post(GateRejected(plan, made, command.summary is not None))
            return
        replacement, report = made
        spent = round((time.monotonic() - started) * 1000)
        self._post(GatePassed(plan, replacement, replace(report, duration_ms=spent)))

    def _restored(self) -> tuple[RestoredFile, ...]:
        """Recently used files, read again through the door; a workspace that is gone restores none."""
        facts = self._state().facts
        if self._door is None or not facts.files:
            return ()
        recent = [RecentFile(fact.path, facts.root) for fact in reversed(facts.files)]
        try:
            found = restore(self._door, recent).files
        except UllageError as error:
            _log.warning("no files restored: %s", error.report.code)
            return ()
        return tuple(RestoredFile(file.path, clean_text(file.text), file.cut) for file in found)


def _partial(live: _Live) -> tuple[Part, ...]:
    text = live.whole(DeltaKind.TEXT)
    return (Text(text),) if text else ()


_UNTRUSTED = "the workspace is not trusted any more."
_BROKEN = ErrorReport("internal", "Something broke inside the server.", "Look at its log, then send once more.")
_CUT = ErrorReport("stream_cut", "The answer was cut off before it ended.", "Send once more.")
