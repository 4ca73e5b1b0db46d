"""The tools that a session is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ullage.core.ports import Intent, Tell, ToolOutcome, Tools, ToolSpec, to_nobody
from ullage.core.state import seen_as
from ullage.sessions.journal import Journal
from ullage.sessions.ports import Ports
from ullage.sessions.searching import make_recall
from ullage.storage.blobs import BlobStore
from ullage.tools.toolbox import Toolbox
from ullage.workspace.commands import Commands
from ullage.workspace.root import WorkspaceRoot


def make_tools(
    ports: Ports,
    journal: Journal,
    door: WorkspaceRoot | None,
    blobs: BlobStore,
    trusted: Callable[[], bool],
    *,
    can_ask: bool,
) -> Tools:
    """The tools of one session, which are there while its root is trusted.

    Where nobody can be asked nothing may be changed, so the model is not told of what would.
    """
    if door is None:
        return _Trusted(_NoTools(), trusted)
    commands = Commands(door.identity, blobs.writer, ports.limits.workspace, sandbox=ports.sandbox)
    toolbox = Toolbox(
        door,
        blobs,
        lambda: journal.state.facts.outputs,
        make_recall(ports, lambda: journal.state),
        seen=lambda path: seen_as(journal.state.facts, path),
        writes=can_ask,
        commands=commands if can_ask else None,
        limits=ports.limits.tools,
    )
    return _Trusted(toolbox, trusted)


class _NoTools:
    """The tools of a workspace that is gone."""

    def specs(self) -> Sequence[ToolSpec]:
        return ()

    async def intend(self, name: str, arguments: str) -> Intent | ToolOutcome:
        return await self.run(name, arguments)

    async def run(self, name: str, arguments: str, tell: Tell = to_nobody, approved: str | None = None) -> ToolOutcome:
        return ToolOutcome("The workspace folder is gone, so no tool can run.", is_error=True)

    async def close(self) -> None:
        pass


_UNTRUSTED = ToolOutcome("This workspace is not trusted, so no tool may run in it.", is_error=True)


class _Trusted:
    """Tools that are there only while their root is trusted."""

    def __init__(self, tools: Tools, trusted: Callable[[], bool]) -> None:
        self._tools, self._trusted = tools, trusted

    def specs(self) -> Sequence[ToolSpec]:
        return self._tools.specs() if self._trusted() else ()

    async def intend(self, name: str, arguments: str) -> Intent | ToolOutcome:
        return await self._tools.intend(name, arguments) if self._trusted() else _UNTRUSTED

    async def run(self, name: str, arguments: str, tell: Tell = to_nobody, approved: str | None = None) -> ToolOutcome:
        return await self._tools.run(name, arguments, tell, approved) if self._trusted() else _UNTRUSTED

    async def close(self) -> None:
        await self._tools.close()
