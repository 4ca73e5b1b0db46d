"""The tools of one session, behind the `Tools` port.

Whether a root is trusted enough to have tools at all, and which calls may run, is decided by whoever makes the toolbox:
without `writes` there are none that change files, without `commands` none that run any. Calls that change files run
one after the other, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from ullage.core.errors import ErrorReport, NotAsApproved, UllageError
from ullage.core.messages import BlobRef, Op, ToolFacts
from ullage.core.ports import Blobs, Intent, Recall, Tell, ToolOutcome, ToolSpec, to_nobody
from ullage.tools.arguments import parse_arguments
from ullage.tools.changing import Plan, carry_out, intent_of
from ullage.tools.job import Job
from ullage.tools.limits import Limits
from ullage.tools.table import COMMAND_TOOLS, TOOLS, WRITE_TOOLS, CommandTool, tool_specs
from ullage.workspace.commands import Commands
from ullage.workspace.root import WorkspaceRoot
from ullage.workspace.walk import Budget

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Toolbox:
    """Implements `Tools`. The root stays the caller's: close it when no call is running any more.

    `seen(path)` is the sha256 of a file as the session last read or left it.
    """

    def __init__(
        self,
        root: WorkspaceRoot,
        blobs: Blobs,
        allowed_refs: Callable[[], Collection[BlobRef]],
        recall: Recall,
        *,
        seen: Callable[[str], str | None] = lambda path: None,
        writes: bool = False,
        commands: Commands | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._blobs = blobs
        self._allowed_refs = allowed_refs
        self._recall = recall
        self._known_as = seen
        self._written: dict[str, str] = {}
        """sha256 of what calls of this session wrote, where that may not be a fact yet; empty: deleted."""
        self._writing = asyncio.Lock()
        self._limits = limits or Limits()
        self._clock = clock
        self._commands = commands
        self._specs = tool_specs(writes=writes, sandbox=None if commands is None else commands.sandbox)
        self._write_tools = WRITE_TOOLS if writes else {}

    def specs(self) -> Sequence[ToolSpec]:
        """Every tool, sorted by name; the same objects for the toolbox's whole life."""
        return self._specs

    async def intend(self, name: str, arguments: str) -> Intent | ToolOutcome:
        """What a call would change, or the error it would only give."""
        if name in self._write_tools:
            return await self._in_thread(self._intend, name, arguments)
        tool = COMMAND_TOOLS.get(name)
        if tool is None or tool.intent is None or self._commands is None:
            return _failed(ErrorReport("unknown_tool", f"There is no tool '{name}'.", self._known()), Op.OTHER)
        try:
            return tool.intent(parse_arguments(tool.arguments, name, arguments))
        except UllageError as error:
            return _failed(error.report, Op.RUN)

    async def run(self, name: str, arguments: str, tell: Tell = to_nobody, approved: str | None = None) -> ToolOutcome:
        """Run one call. Cancelling returns when it has let go of the workspace: a command is ended first.

        Raises:
            NotAsApproved: files are not as they were when a person approved of the change; nothing was written.
        """
        command_tool = COMMAND_TOOLS.get(name)
        if command_tool is not None and self._commands is not None:
            # What a command is stands in its arguments alone, which nothing changes between the question and here.
            return await self._run_command(self._commands, command_tool, name, arguments, tell)
        if name not in self._write_tools:
            return await self._in_thread(self._run, name, arguments)
        async with self._writing:
            return await self._in_thread(partial(self._write, approved), name, arguments)

    async def close(self) -> None:
        """End what earlier calls left running."""
        if self._commands is not None:
            await self._commands.close()

    async def _run_command(
        self, commands: Commands, tool: CommandTool, name: str, arguments: str, tell: Tell
    ) -> ToolOutcome:
        # Not in a thread of the pool: a command may take minutes, and logs are synced by that pool.
        try:
            return await tool.run(commands, parse_arguments(tool.arguments, name, arguments), tell)
        except UllageError as error:
            return _failed(error.report, Op.RUN)
        except Exception:
            return _broke(name, Op.RUN)

    async def _in_thread(self, work: Callable[[str, str, Job], T], name: str, arguments: str) -> T:
        cancelled = threading.Event()
        budget = Budget(self._clock, self._clock() + self._limits.seconds, cancelled.is_set)
        job = Job(self._root, self._blobs, self._allowed_refs, self._recall, self._seen, self._limits, budget)
        running = asyncio.ensure_future(asyncio.to_thread(work, name, arguments, job))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait((running,))
            raise

    def _run(self, name: str, arguments: str, job: Job) -> ToolOutcome:
        tool = TOOLS.get(name)
        if tool is None:
            return _failed(ErrorReport("unknown_tool", f"There is no tool '{name}'.", self._known()), Op.OTHER)
        try:
            return self._noted(tool.run(job, parse_arguments(tool.arguments, name, arguments)))
        except UllageError as error:
            return _failed(error.report, tool.op)
        except Exception:
            return _broke(name, tool.op)

    def _intend(self, name: str, arguments: str, job: Job) -> Intent | ToolOutcome:
        try:
            return intent_of(self._plan(name, arguments, job), self._limits.diff_characters)
        except UllageError as error:
            return _failed(error.report, Op.WRITE)
        except Exception:
            return _broke(name, Op.WRITE)

    def _plan(self, name: str, arguments: str, job: Job) -> Plan:
        tool = self._write_tools[name]
        return tool.plan(job, parse_arguments(tool.arguments, name, arguments))

    def _write(self, approved: str | None, name: str, arguments: str, job: Job) -> ToolOutcome:
        try:
            plan = self._plan(name, arguments, job)
            if approved is not None and intent_of(plan, 0).sha256 != approved:
                raise NotAsApproved("What the call would change is not what was allowed any more.")
            return self._noted(carry_out(job, plan))
        except NotAsApproved:
            raise
        except UllageError as error:
            return _failed(error.report, Op.WRITE)
        except Exception:
            return _broke(name, Op.WRITE)

    def _seen(self, path: str) -> str | None:
        return self._written[path] or None if path in self._written else self._known_as(path)

    def _noted(self, done: ToolOutcome) -> ToolOutcome:
        """Remember what was written: a call of the same step may go on from there before it is a fact."""
        facts = done.facts
        for path, sha256 in zip(facts.paths, facts.hashes, strict=False) if facts else ():
            if facts is not None and facts.op is Op.WRITE:
                self._written[path] = sha256
            else:
                self._written.pop(path, None)
        return done

    def _known(self) -> str:
        return f"The tools are: {', '.join(spec.name for spec in self._specs)}."


def _broke(name: str, op: Op) -> ToolOutcome:
    _log.exception("tool %s failed", name)
    return _failed(ErrorReport("internal", f"'{name}' failed inside the server.", "See the server's log."), op)


def _failed(report: ErrorReport, op: Op) -> ToolOutcome:
    text = f"{report.message} {report.hint}".strip()
    return ToolOutcome(text, is_error=True, facts=ToolFacts(op, detail=f"{report.code}: {report.message}"))
