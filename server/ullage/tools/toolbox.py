"""The tools of one session, behind the `Tools` port.

Whether a root is trusted enough to have tools at all, and whether commands may run in it, is decided by whoever makes
the toolbox: without `commands` there are none.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.core.errors import ErrorReport, UllageError
from ullage.core.messages import BlobRef, Op, ToolFacts
from ullage.core.ports import Blobs, Recall, Tell, ToolOutcome, ToolSpec, to_nobody
from ullage.tools.arguments import (
    Arguments,
    BashArguments,
    GlobArguments,
    GrepArguments,
    JobOutputArguments,
    JobStopArguments,
    ListArguments,
    ReadArguments,
    ReadOutputArguments,
    RecallArguments,
    parse_arguments,
    schema_of,
)
from ullage.tools.bash import bash, job_output, job_stop
from ullage.tools.glob import glob
from ullage.tools.grep import grep
from ullage.tools.job import Job
from ullage.tools.limits import Limits
from ullage.tools.list import list_entries
from ullage.tools.read import read
from ullage.tools.read_output import read_output
from ullage.tools.recall import recall
from ullage.workspace.commands import Commands
from ullage.workspace.root import WorkspaceRoot
from ullage.workspace.walk import Budget

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Tool:
    """A row of the table: how a tool is described, what it takes, what it does, and which kind of act that is."""

    description: str
    arguments: type[Arguments]
    run: Callable[[Job, Any], ToolOutcome]
    op: Op


_TOOLS = {
    "glob": _Tool("Find files by path pattern. Ignored files are left out.", GlobArguments, glob, Op.SEARCH),
    "grep": _Tool(
        "Search the text of files with a regular expression. Gives path, line number and line.",
        GrepArguments,
        grep,
        Op.SEARCH,
    ),
    "list": _Tool("List a folder, or all files below it, with sizes in bytes.", ListArguments, list_entries, Op.SEARCH),
    "read": _Tool("Read lines of a text file, each with its number.", ReadArguments, read, Op.READ),
    "read_output": _Tool(
        "Read more of an earlier tool result that was shortened.", ReadOutputArguments, read_output, Op.READ
    ),
    "recall": _Tool(
        "Search this whole conversation by words, also what is no longer in your context or was shortened.",
        RecallArguments,
        recall,
        Op.SEARCH,
    ),
}


@dataclass(frozen=True, slots=True)
class _CommandTool:
    """The same for a tool that has to do with commands. `changes`: it starts one."""

    description: str
    arguments: type[Arguments]
    run: Callable[[Commands, Any, Tell], Awaitable[ToolOutcome]]
    changes: bool = False


_COMMAND_TOOLS = {
    "bash": _CommandTool(
        "Run a command line with bash in the workspace's root. There is no terminal and nothing to read on standard "
        "input; each call begins with a fresh environment in the root.",
        BashArguments,
        bash,
        changes=True,
    ),
    "job_output": _CommandTool("Show what a job printed since you last looked.", JobOutputArguments, job_output),
    "job_stop": _CommandTool("End a job and all that it started.", JobStopArguments, job_stop),
}


def tool_specs(*, commands: bool = False) -> tuple[ToolSpec, ...]:
    """Every tool as the model is told of it, sorted by name; those for commands only where they may run."""
    specs = [ToolSpec(name, tool.description, schema_of(tool.arguments)) for name, tool in _TOOLS.items()]
    for name, tool in _COMMAND_TOOLS.items() if commands else ():
        specs.append(ToolSpec(name, tool.description, schema_of(tool.arguments), tool.changes))
    return tuple(sorted(specs, key=lambda spec: spec.name))


class Toolbox:
    """Implements `Tools`. The root stays the caller's: close it when no call is running any more."""

    def __init__(
        self,
        root: WorkspaceRoot,
        blobs: Blobs,
        allowed_refs: Callable[[], Collection[BlobRef]],
        recall: Recall,
        *,
        commands: Commands | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._blobs = blobs
        self._allowed_refs = allowed_refs
        self._recall = recall
        self._limits = limits or Limits()
        self._clock = clock
        self._commands = commands
        self._specs = tool_specs(commands=commands is not None)

    def specs(self) -> Sequence[ToolSpec]:
        """Every tool, sorted by name; the same objects for the toolbox's whole life."""
        return self._specs

    async def run(self, name: str, arguments: str, tell: Tell = to_nobody) -> ToolOutcome:
        """Run one call. Cancelling returns when it has let go of the workspace: a command is ended first."""
        command_tool = _COMMAND_TOOLS.get(name)
        if command_tool is not None and self._commands is not None:
            return await self._run_command(self._commands, command_tool, name, arguments, tell)
        cancelled = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(self._run, name, arguments, cancelled.is_set))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait((work,))
            raise

    async def close(self) -> None:
        """End what earlier calls left running."""
        if self._commands is not None:
            await self._commands.close()

    async def _run_command(
        self, commands: Commands, tool: _CommandTool, name: str, arguments: str, tell: Tell
    ) -> ToolOutcome:
        # Not in a thread of the pool: a command may take minutes, and logs are synced by that pool.
        try:
            return await tool.run(commands, parse_arguments(tool.arguments, name, arguments), tell)
        except UllageError as error:
            return _failed(error.report, Op.RUN)
        except Exception:
            return _broke(name, Op.RUN)

    def _run(self, name: str, arguments: str, cancelled: Callable[[], bool]) -> ToolOutcome:
        tool = _TOOLS.get(name)
        if tool is None:
            return _failed(ErrorReport("unknown_tool", f"There is no tool '{name}'.", self._known()), Op.OTHER)
        budget = Budget(self._clock, self._clock() + self._limits.seconds, cancelled)
        job = Job(self._root, self._blobs, self._allowed_refs, self._recall, self._limits, budget)
        try:
            return tool.run(job, parse_arguments(tool.arguments, name, arguments))
        except UllageError as error:
            return _failed(error.report, tool.op)
        except Exception:
            return _broke(name, tool.op)

    def _known(self) -> str:
        return f"The tools are: {', '.join(spec.name for spec in self._specs)}."


def _broke(name: str, op: Op) -> ToolOutcome:
    _log.exception("tool %s failed", name)
    return _failed(ErrorReport("internal", f"'{name}' failed inside the server.", "See the server's log."), op)


def _failed(report: ErrorReport, op: Op) -> ToolOutcome:
    text = f"{report.message} {report.hint}".strip()
    return ToolOutcome(text, is_error=True, facts=ToolFacts(op, detail=f"{report.code}: {report.message}"))
