"""The reading tools of one session, behind the `Tools` port.

Whether a root is trusted enough to have tools at all is decided by whoever makes the toolbox.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.core.errors import ErrorReport, UllageError
from ullage.core.messages import BlobRef, Op, ToolFacts
from ullage.core.ports import Blobs, Recall, ToolOutcome, ToolSpec
from ullage.tools.arguments import (
    Arguments,
    GlobArguments,
    GrepArguments,
    ListArguments,
    ReadArguments,
    ReadOutputArguments,
    RecallArguments,
    parse_arguments,
    schema_of,
)
from ullage.tools.glob import glob
from ullage.tools.grep import grep
from ullage.tools.job import Job
from ullage.tools.limits import Limits
from ullage.tools.list import list_entries
from ullage.tools.read import read
from ullage.tools.read_output import read_output
from ullage.tools.recall import recall
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


def tool_specs() -> tuple[ToolSpec, ...]:
    """Every tool as the model is told of it, sorted by name."""
    return tuple(ToolSpec(name, tool.description, schema_of(tool.arguments)) for name, tool in sorted(_TOOLS.items()))


class Toolbox:
    """Implements `Tools`. The root stays the caller's: close it when no call is running any more."""

    def __init__(
        self,
        root: WorkspaceRoot,
        blobs: Blobs,
        allowed_refs: Callable[[], Collection[BlobRef]],
        recall: Recall,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._blobs = blobs
        self._allowed_refs = allowed_refs
        self._recall = recall
        self._limits = limits or Limits()
        self._clock = clock
        self._specs = tool_specs()

    def specs(self) -> Sequence[ToolSpec]:
        """Every tool, sorted by name; the same objects for the toolbox's whole life."""
        return self._specs

    async def run(self, name: str, arguments: str) -> ToolOutcome:
        """Run one call in a thread. Cancelling returns when that thread has let go of the workspace."""
        cancelled = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(self._run, name, arguments, cancelled.is_set))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait((work,))
            raise

    def _run(self, name: str, arguments: str, cancelled: Callable[[], bool]) -> ToolOutcome:
        tool = _TOOLS.get(name)
        if tool is None:
            return _failed(ErrorReport("unknown_tool", f"There is no tool '{name}'.", _known()), Op.OTHER)
        budget = Budget(self._clock, self._clock() + self._limits.seconds, cancelled)
        job = Job(self._root, self._blobs, self._allowed_refs, self._recall, self._limits, budget)
        try:
            return tool.run(job, parse_arguments(tool.arguments, name, arguments))
        except UllageError as error:
            return _failed(error.report, tool.op)
        except Exception:
            _log.exception("tool %s failed", name)
            report = ErrorReport("internal", f"'{name}' failed inside the server.", "See the server's log.")
            return _failed(report, tool.op)


def _known() -> str:
    return f"The tools are: {', '.join(sorted(_TOOLS))}."


def _failed(report: ErrorReport, op: Op) -> ToolOutcome:
    text = f"{report.message} {report.hint}".strip()
    return ToolOutcome(text, is_error=True, facts=ToolFacts(op, detail=f"{report.code}: {report.message}"))
