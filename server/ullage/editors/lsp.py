"""The language server: one client, its workspace folders, its sessions.

It is put together from parts that know one thing each: `handlers` (our methods), `following` (what the client hears),
`roots` (folders and trust), `progress` (bars). Life cycle, cancelling and answering are the protocol class's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pydantic import ValidationError
from pygls.exceptions import JsonRpcException

from ullage import __version__
from ullage.core.commands import CompactionOutcome
from ullage.core.errors import ErrorReport, UllageError
from ullage.core.inputs import Allowed, Denied
from ullage.editors import payloads as base
from ullage.editors import payloads_context as context
from ullage.editors.following import Following
from ullage.editors.handlers import Handlers
from ullage.editors.limits import Limits
from ullage.editors.mapping_context import permission_params
from ullage.editors.methods import COMPACT_COMMAND, FORK_COMMAND, METHODS, NOTIFICATIONS, PERMISSION
from ullage.editors.progress import Progress
from ullage.editors.roots import Roots
from ullage.editors.serving import UllageServer
from ullage.sessions.notices import Compacted, Notice
from ullage.sessions.permissions import grant_for
from ullage.sessions.ports import Question
from ullage.wire import rpc
from ullage.wire.limits import Limits as WireLimits

if TYPE_CHECKING:
    from ullage.sessions.actor import SessionActor
    from ullage.sessions.host import Host

logger = logging.getLogger(__name__)

MakeHost = Callable[[Mapping[str, Any]], "Host"]
"""Makes the host from what the editor's settings say; raises BadInput for values that are none."""


class LspServer(UllageServer):
    """Speaks to one client; `close` when it has gone."""

    def __init__(
        self,
        make_host: MakeHost,
        new_id: Callable[[], str],
        limits: Limits | None = None,
        wire_limits: WireLimits | None = None,
        load_counter: Callable[[Callable[[], None]], None] = lambda loaded: None,
    ) -> None:
        """`new_id` makes turn ids and tokens; `load_counter` is called once the client is ready, and may call what it
        is given from any thread when tokens are counted otherwise than before."""
        self._limits = limits or Limits()
        self._make_host = make_host
        self._new_id = new_id
        self._load_counter = load_counter
        self._host: Host | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._following = Following(self._notify, self._limits)
        self._handlers = Handlers(self._following, self._limits, new_id)
        super().__init__("ullage", __version__, self._handlers.table(), wire_limits)
        self._progress = Progress(self.protocol, new_id)
        self._register()

    def _register(self) -> None:
        """pygls writes on what it registers, which methods do not allow; hence the functions."""
        self.protocol.fm.add_builtin_feature(types.INITIALIZE, self._initialize)

        @self.feature(types.INITIALIZED)
        def initialized(params: types.InitializedParams) -> None:
            self._load_counter(partial(self._counter_loaded, asyncio.get_running_loop()))

        @self.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
        def folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
            self._folders_changed(params)

        @self.command(COMPACT_COMMAND)
        def compact(*arguments: Any) -> dict[str, str]:
            return self._command(arguments, self._compact)

        @self.command(FORK_COMMAND)
        def fork(*arguments: Any) -> dict[str, str]:
            return self._command(arguments, self._fork)

    async def close(self) -> None:
        """The client has gone: end what runs, write it down, let go of every session."""
        await self._progress.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._host is not None:
            await self._host.close()

    # --- life ---

    def _initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """pygls' own, with our abilities added; a client's folders are open when it is answered."""
        ours = _options(params.initialization_options)
        result: types.InitializeResult = yield from self.protocol.lsp_initialize(params)
        self._host = self._open_host(ours)
        self._host.listener = self._hear
        self._host.ask = self._ask
        self._handlers.host = self._host
        self._handlers.roots = Roots(self._host, ours.trusted_roots, self._warn)
        for uri in _folders(params):
            self._handlers.roots.add(uri)
        window = params.capabilities.window
        self._progress.supported = bool(window and window.work_done_progress)
        result.capabilities.experimental = {"ullage": abilities(self._limits).model_dump(mode="json", by_alias=True)}
        return result

    def _open_host(self, ours: base.OurOptions) -> Host:
        """With the editor's settings, or without all of them when they do not go together."""
        said, problems = read_settings(ours.settings)
        try:
            host = self._make_host(said)
        except UllageError as error:
            problems.append(f"{error.report.message} {error.report.hint} Until then, so are the editor's others.")
            host = self._make_host({})
        for problem in problems:
            self._warn(f"A setting was left out: {problem}")
        return host

    def _counter_loaded(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(self._opened().counter_changed)

    def _folders_changed(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        for folder in params.event.removed:
            self._handlers.roots.remove(folder.uri)
        for folder in params.event.added:
            self._handlers.roots.add(folder.uri)

    # --- to the client ---

    def _notify(self, method: str, params: dict[str, Any], coalesce: Any = None) -> None:
        self.protocol.notify(method, params, coalesce)

    def _hear(self, session_id: str, notice: Notice) -> None:
        """What cannot be told must not stop the session that says it; opening it again tells it."""
        try:
            self._tell(session_id, notice)
        except Exception:
            logger.exception("A notice of session %s could not be passed on.", session_id)

    def _tell(self, session_id: str, notice: Notice) -> None:
        self._following.hear(session_id, notice)
        if isinstance(notice, Compacted) and self._host is not None and self._following.follows(session_id):
            self._progress.hear(session_id, notice, lambda: self._actor(session_id).cancel(None))

    async def _ask(self, question: Question) -> Allowed | Denied:
        """A person's word on a call. No word, or one that is none, means no."""
        call, params = question.call, permission_params(question)
        try:
            answer = await self.protocol.request(PERMISSION, params.model_dump(mode="json", by_alias=True))
            said = context.PermissionResult.model_validate(answer)
        except (JsonRpcException, ValidationError):
            return Denied(call.call_id, "the editor gave no answer.")
        if said.decision == "deny":
            return Denied(call.call_id, said.reason or "the user said no.")
        return Allowed(call.call_id, grant_for(question.intent) if said.scope == "session" else None)

    def _warn(self, text: str) -> None:
        logger.warning("%s", text)
        self.window_log_message(types.LogMessageParams(types.MessageType.Warning, text))

    def _show_problem(self, error: ErrorReport) -> None:
        text = f"{error.message} {error.hint}".strip()
        self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, text))

    # --- commands any editor can call ---

    def _command(self, arguments: tuple[Any, ...], work: Callable[[SessionActor], Awaitable[None]]) -> dict[str, str]:
        """Begin the work and say at once which session it is about."""
        actor = self._meant(arguments)
        task = asyncio.ensure_future(self._reporting(work(actor)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return {"sessionId": actor.session_id}

    async def _compact(self, actor: SessionActor) -> None:
        answer = await actor.compact(self._new_id())
        if answer.outcome is not CompactionOutcome.CANCELLED and answer.error is not None:
            self._show_problem(answer.error)

    async def _fork(self, actor: SessionActor) -> None:
        bar = self._progress.start("Forking the session")
        said = "Failed"
        try:
            fork = await self._opened().fork(actor.session_id, None)
            await self._following.follow(fork)
            said = f"The fork is {fork.session_id}"
        finally:
            bar.end(said)

    def _meant(self, arguments: tuple[Any, ...]) -> SessionActor:
        """The session a command is about: the one named, else the one that wrote last."""
        if not arguments or arguments[0] is None:
            return self._opened().newest_active(None)
        if not isinstance(arguments[0], str):
            raise JsonRpcException("The first argument is a session id.", rpc.INVALID_PARAMS)
        return self._actor(arguments[0])

    async def _reporting(self, work: Awaitable[None]) -> None:
        """Nobody waits for a command's work, so its errors go to the person."""
        try:
            await work
        except UllageError as error:
            self._show_problem(error.report)
        except Exception:
            logger.exception("A command failed.")
            self._show_problem(ErrorReport("internal", "The command failed.", "The server's log says why."))

    def _actor(self, session_id: str) -> SessionActor:
        return self._opened().actor(session_id)

    def _opened(self) -> Host:
        assert self._host is not None, "the protocol lets nothing through before initialize"
        return self._host


def abilities(limits: Limits) -> base.Abilities:
    """What this server can do."""
    return base.Abilities(
        version=base.PROTOCOL_VERSION,
        methods=tuple(method.name for method in METHODS),
        notifications=tuple(each.name for each in NOTIFICATIONS),
        images=False,
        update_bytes=limits.update_bytes,
    )


def read_settings(said: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The editor's settings by their own names, and a sentence on each that is unknown or wrong."""
    names = {field.alias or name: name for name, field in base.EditorSettings.model_fields.items()}
    good, problems = dict[str, Any](), list[str]()
    for key, value in said.items():
        if key not in names:
            problems.append(f"there is no setting {key[:80]!r}; docs/protocol.md has them all.")
            continue
        try:
            good[names[key]] = getattr(base.EditorSettings.model_validate({key: value}), names[key])
        except ValidationError as error:
            problems.append(f"{key}: {error.errors(include_input=False)[0]['msg']}.")
    return good, problems


def _options(given: Any) -> base.OurOptions:
    """Raises: JsonRpcException when our options are not of the types that were agreed."""
    try:
        return base.Options.model_validate(given if isinstance(given, dict) else {}).ullage
    except ValidationError as error:
        at = ".".join(str(each) for each in error.errors(include_input=False)[0]["loc"])
        message = f"initializationOptions.{at} does not fit its schema."
        raise JsonRpcException(message, rpc.INVALID_PARAMS) from error


def _folders(params: types.InitializeParams) -> list[str]:
    """URIs or paths of the client's folders; old clients name only a root."""
    if params.workspace_folders is not None:
        return [folder.uri for folder in params.workspace_folders]
    root = params.root_uri or params.root_path
    return [root] if root else []
