"""All sessions of one server process: which workspaces are open and trusted, which sessions live, and who may open one.

Rules. A session belongs to the workspace in its header and to no other, whatever is active in the editor. A root that
nobody said is trusted gives its sessions no tools. At most one actor per session lives here, and the lock beside the
log sees to the other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ullage.core.errors import BadInput, SessionUnavailable, UllageError
from ullage.core.events import (
    Entry,
    Event,
    QueueHeld,
    ResultReceived,
    SessionConfigured,
    SessionCreated,
    SessionRenamed,
    Stop,
    TurnEnded,
)
from ullage.core.inputs import Allowed, Denied
from ullage.core.messages import Message, Role, ToolResult
from ullage.core.reduce import reduce
from ullage.core.rewinding import standing
from ullage.core.state import State
from ullage.core.views import export_view
from ullage.providers.keys import Source
from ullage.sessions.actor import SessionActor
from ullage.sessions.effects import Effects
from ullage.sessions.engine import Engine
from ullage.sessions.export import markdown
from ullage.sessions.hands import make_tools
from ullage.sessions.journal import Journal
from ullage.sessions.notices import Listener, Notice
from ullage.sessions.ports import Ask, Ports, Question
from ullage.sessions.searching import SessionsFound, search_sessions
from ullage.storage.blobs import BlobStore
from ullage.storage.fork import fork
from ullage.storage.ids import session_path, sessions_folder, workspace_key
from ullage.storage.index import SessionSummary, list_sessions
from ullage.storage.log import Opened, SessionLog
from ullage.workspace.root import WorkspaceRoot


@dataclass(frozen=True, slots=True)
class RootInfo:
    """An open workspace: its real path, and whether the editor trusts it."""

    path: str
    trusted: bool


@dataclass(slots=True)
class _Root:
    identity: tuple[int, int]
    trusted: bool


class Host:
    """`listener` hears every notice of every open session; `ask` asks a person for permission."""

    def __init__(self, ports: Ports, config: SessionConfigured | None = None) -> None:
        self._ports = ports
        self._config = config
        self._roots: dict[str, _Root] = {}
        self._names: dict[str, str] = {}
        self._actors: dict[str, SessionActor] = {}
        self._watched: set[str] = set()
        """Sessions that live here for reading only, because another process had them."""
        self._opening = asyncio.Lock()
        self.listener: Listener = _nobody
        self.ask: Ask | None = None

    def give_key(self, provider: str, key: str | None) -> Source | None:
        """Use this key from the next request on, None: no longer; whose key is used now. May wait for a keyring.

        Raises:
            BadInput: a provider without keys, or a key that is none.
        """
        self._ports.keys.give(provider, key)
        self._ports.keys.get(provider)
        return self._ports.keys.source(provider)

    # --- workspaces ---

    def add_root(self, path: str, *, trusted: bool = False) -> str:
        """Open a workspace; its real path.

        Raises:
            Refused: there is no such folder.
        """
        with WorkspaceRoot.open(path, limits=self._ports.limits.workspace) as door:
            identity = door.identity
        self._names[path] = identity.real
        known = self._roots.setdefault(identity.real, _Root((identity.device, identity.inode), trusted))
        known.trusted = known.trusted or trusted
        return identity.real

    def remove_root(self, path: str) -> None:
        """The editor closed this folder. Its sessions stay open until they are closed."""
        self._roots.pop(self._real(path), None)

    def set_trust(self, path: str, trusted: bool) -> None:
        """Trust a root, or no longer; tools follow at once.

        Raises:
            BadInput: the root is not open.
        """
        self._root(path).trusted = trusted

    def roots(self) -> tuple[RootInfo, ...]:
        return tuple(RootInfo(path, root.trusted) for path, root in self._roots.items())

    def _real(self, path: str) -> str:
        """The real path of a root by any name it was opened under; a name that opened none stays as it is."""
        return self._names.get(path, path)

    def _root(self, path: str) -> _Root:
        root = self._roots.get(self._real(path))
        if root is None:
            raise BadInput(
                f"The workspace {path} is not open.", hint="Open the folder in the editor first.", code="unknown_root"
            )
        return root

    def is_trusted(self, root: str) -> bool:
        known = self._roots.get(root)
        return known is not None and known.trusted

    # --- sessions ---

    async def new_session(self, root: str, *, title: str = "", config: SessionConfigured | None = None) -> SessionActor:
        """A new session in an open workspace."""
        known, real = self._root(root), self._real(root)
        at = self._ports.clock()
        session_id = self._ports.new_id(at)
        created = SessionCreated(session_id, real, *known.identity)
        log = await asyncio.to_thread(SessionLog.create, self._ports.files, self._path(real, session_id), created, at)
        state = reduce(State(), Entry(0, at, created))
        before: list[Event] = [change for change in (self._config, config) if change is not None]
        if title:
            before.append(SessionRenamed(title))
        return self._bring_up(log, state, before)

    async def open_session(self, session_id: str, root: str | None = None, *, read_only: bool = False) -> SessionActor:
        """Bring a session to life, or give the one that lives.

        Raises:
            SessionUnavailable: `unknown_session`, `wrong_root`, `session_busy`, or what the log says of itself.
        """
        async with self._opening:
            actor = self._actors.get(session_id)
            if actor is None or (session_id in self._watched and not read_only):
                path = self._find(session_id, root)
                opened = await asyncio.to_thread(self._open_log, path, read_only)
                self._check_identity(opened, session_id)
                await self.close_session(session_id)
                if read_only:
                    self._watched.add(session_id)
                actor = self._bring_up(opened.log, opened.state, _closing_events(opened.state))
            elif root is not None and self._real(root) != actor.root:
                raise _wrong_root(actor.root, root)
            return actor

    def _open_log(self, path: Path, read_only: bool) -> Opened:
        if read_only:
            return SessionLog.open_readonly(self._ports.files, path)
        return SessionLog.open(self._ports.files, path, self._ports.clock())

    def _find(self, session_id: str, root: str | None) -> Path:
        if root is not None:
            self._root(root)
        roots = [self._real(root)] if root is not None else list(self._roots)
        for real in roots:
            path = self._path(real, session_id)
            if self._ports.files.exists(path):
                return path
        owner = self._owner(session_id)
        if owner is not None:
            raise _wrong_root(owner, ", ".join(roots))
        raise SessionUnavailable(
            "There is no such session in the open workspaces.",
            hint="List the sessions of the workspace it belongs to.",
            code="unknown_session",
        )

    def _owner(self, session_id: str) -> str | None:
        """The workspace that a session's header names, wherever its log lies; None when there is no such log."""
        files, home = self._ports.files, self._ports.home
        for key in files.list(sessions_folder(home, "")):
            path = session_path(home, key, session_id)
            if files.exists(path):
                opened = SessionLog.open_readonly(files, path)
                opened.log.close()
                return opened.state.facts.root
        return None

    def _check_identity(self, opened: Opened, session_id: str) -> None:
        """Identity comes from the header alone: a file that was copied or renamed is not another session."""
        facts = opened.state.facts
        if facts.session_id == session_id and facts.root in self._roots:
            return
        opened.log.close()
        if facts.session_id != session_id:
            raise SessionUnavailable(
                f"The file of session {session_id} holds session {facts.session_id}.",
                hint="Give the file its own name again.",
                code="wrong_identity",
            )
        raise _wrong_root(facts.root, ", ".join(self._roots))

    def _path(self, root: str, session_id: str) -> Path:
        return session_path(self._ports.home, workspace_key(root), session_id)

    def _bring_up(self, log: SessionLog, state: State, before: Sequence[Event]) -> SessionActor:
        root = state.facts.root
        blobs = BlobStore(self._ports.files, self._ports.home, workspace_key(root))
        door, journal = self._door(root), Journal(log, state, self._ports.clock)
        can_ask = self.ask is not None
        tools = make_tools(self._ports, journal, door, blobs, lambda: self.is_trusted(root), can_ask=can_ask)
        engine = Engine(self._ports, tools, root)
        effects = Effects(self._ports, engine, tools, door, blobs, self._asked, lambda: self.is_trusted(root))
        actor = SessionActor(journal, engine, effects, self._heard)
        self._actors[actor.session_id] = actor
        actor.start(before)
        return actor

    def _door(self, root: str) -> WorkspaceRoot | None:
        """The workspace's door, or None where the folder is gone: the history still opens."""
        try:
            return WorkspaceRoot.open(root, limits=self._ports.limits.workspace)
        except UllageError:
            return None

    def counter_changed(self) -> None:
        """The rank table was loaded: every open session counts again and tells its number."""
        for actor in self._actors.values():
            actor.counter_changed()

    def _heard(self, session_id: str, notice: Notice) -> None:
        self.listener(session_id, notice)

    async def _asked(self, question: Question) -> Allowed | Denied:
        if self.ask is None:
            return Denied(question.call.call_id, "nobody can be asked for permission here.")
        return await self.ask(question)

    def actor(self, session_id: str) -> SessionActor:
        """A session that lives here.

        Raises:
            SessionUnavailable: `session_not_open`.
        """
        actor = self._actors.get(session_id)
        if actor is None:
            raise SessionUnavailable("This session is not open.", hint="Open it first.", code="session_not_open")
        return actor

    def newest_active(self, root: str | None = None) -> SessionActor:
        """The open session that wrote last, of one root or of all.

        Raises:
            SessionUnavailable: `session_not_open`.
        """
        real = None if root is None else self._real(root)
        candidates = [actor for actor in self._actors.values() if real in (None, actor.root)]
        if not candidates:
            raise SessionUnavailable("No session is open.", hint="Open or start one first.", code="session_not_open")
        return max(candidates, key=lambda actor: (actor.state.facts.last_at, actor.session_id))

    def list_sessions(self, root: str) -> list[SessionSummary]:
        """Sessions of one open workspace, the newest first."""
        self._root(root)
        return list_sessions(self._ports.files, self._ports.home, workspace_key(self._real(root)))

    async def search(self, root: str, text: str, limit: int) -> SessionsFound:
        """Sessions of one open workspace in which words were said, at most `limit`. Cancelling ends it soon.

        Raises:
            BadInput: the root is not open.
        """
        synced = {session_id: actor.synced_seq for session_id, actor in self._actors.items()}
        listed = await asyncio.to_thread(self.list_sessions, root)
        return await search_sessions(self._ports, self._real(root), listed, synced, text, limit)

    async def fork(self, session_id: str, at_seq: int | None = None) -> SessionActor:
        """A new session with the history of another up to a seq, opened; the parent does not change.

        Raises:
            SessionUnavailable: `session_not_open`, or what the log says of itself.
            BadInput: its workspace was closed meanwhile.
        """
        parent = self.actor(session_id)
        self._root(parent.root)  # before anything is written
        at = self._ports.clock()
        child = self._ports.new_id(at)
        upto = parent.synced_seq if at_seq is None else min(at_seq, parent.synced_seq)
        await asyncio.to_thread(fork, self._ports.files, parent.log, upto, child, at)
        return await self.open_session(child, parent.root)

    async def export(self, session_id: str) -> str:
        """The transcript as Markdown: what a client may see, without what was taken back."""
        actor = self.actor(session_id)
        synced = actor.synced_seq
        entries = (entry for entry in actor.log.entries() if entry.seq <= synced)
        shown = await asyncio.to_thread(lambda: list(standing(export_view(entries))))
        return markdown(actor.state.facts.title, shown)

    async def close_session(self, session_id: str) -> None:
        """Close one session: what runs is cancelled and written down."""
        actor = self._actors.pop(session_id, None)
        self._watched.discard(session_id)
        if actor is not None:
            await actor.close()

    async def close(self) -> None:
        """Close every session; the server ends after this."""
        actors = list(self._actors.values())
        self._actors.clear()
        await asyncio.gather(*(actor.close() for actor in actors))


def _nobody(session_id: str, notice: Notice) -> None:
    pass


def _wrong_root(root: str, active: str) -> SessionUnavailable:
    return SessionUnavailable(
        f"This session belongs to the workspace {root}, not to {active or 'an open one'}.",
        hint="Open that folder to go on with it.",
        code="wrong_root",
    )


def _closing_events(state: State) -> tuple[Event, ...]:
    """What closes a turn that its process did not end: open calls have an unknown outcome, nothing is run again."""
    turn, held = state.facts.open_turn, _held(state)
    if turn is None:
        return held
    lost = (_unknown_outcome(turn.turn_id, turn.step, call_id) for call_id in turn.pending)
    return (*lost, TurnEnded(turn.turn_id, Stop.INTERRUPTED), *held)


def _held(state: State) -> tuple[Event, ...]:
    waits = state.facts.queue and not state.facts.held
    return (QueueHeld("interrupted"),) if waits else ()


def _unknown_outcome(turn_id: str, step: int, call_id: str) -> ResultReceived:
    result = ToolResult(call_id, "Outcome unknown: the process ended before the result was recorded.", is_error=True)
    number = call_id.rsplit("/c", 1)[-1]
    message = Message(f"{turn_id}/{step}/r{number}", Role.TOOL, (result,), turn_id)
    return ResultReceived(turn_id, step, message, 0, "")
