"""pytest-lsp's client on our protocol class, with a real `ullage serve` at the other end of its pipes.

Every body the server sends is kept as it came (`Editor.bodies`) and searched for what must never leave the server:
after each test by the canary of `conftest.py`, and before a server is let go by `search_everything`, which also asks
for every title and transcript that there is.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import default_converter
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from pytest_lsp.client import register_lsp_features
from pytest_lsp.protocol import LanguageClientProtocol

from ullage.context.handoff import ID_PREFIX, HandoffRecord, parse_record, reminder_text
from ullage.context.request import Memo, build
from ullage.core.events import Entry, HandoffRecorded, SessionForked, StepStarted
from ullage.core.ports import ModelCard
from ullage.core.reduce import reduce
from ullage.core.state import State
from ullage.editors.methods import COMPACTION, METHODS, NOTIFICATIONS, OCCUPANCY, PREFIX, SESSION_UPDATE
from ullage.editors.protocol import UllageClientProtocol
from ullage.storage.files import DiskFiles
from ullage.storage.log import SessionLog
from ullage.testing.validator import problems

Params = dict[str, Any]

PATIENCE = 60.0
"""Seconds until a wait counts as a hang."""

VS_CODE = "visual-studio-code"


class EditorProtocol(LanguageClientProtocol, UllageClientProtocol):
    """pytest-lsp's checks and waits, on our dispatch."""


class Editor(LanguageClient):
    """One editor with its server process."""

    living: ClassVar[list[Editor]] = []
    """Every editor since the canary last looked."""

    def __init__(self, home: Path) -> None:
        super().__init__(protocol_cls=EditorProtocol, converter_factory=default_converter)
        register_lsp_features(self)
        self.home = home
        self.workspace = home.parent / "workspace"
        self.bodies: list[bytes] = []
        self.messages: list[Params] = []
        self.answered: set[str] = set()
        """Methods of ours that gave a result."""
        self._searched = 0
        self._ids = itertools.count(1)
        self._news = asyncio.Condition()
        self.living.append(self)

    async def start_io(self, cmd: str, *args: Any, **kwargs: Any) -> None:
        """Start the server; bodies are copied on their way to pygls' reader."""
        await super().start_io(cmd, *args, **kwargs)
        assert self._server is not None and self._server.stdout is not None
        reader = self._server.stdout
        read = reader.readexactly

        async def copied(size: int) -> bytes:
            body = await read(size)
            await self._take(body)
            return body

        reader.readexactly = copied  # type: ignore[method-assign]

    async def _take(self, body: bytes) -> None:
        async with self._news:
            self.bodies.append(body)
            self.messages.append(json.loads(body))
            self._news.notify_all()

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._server is not None
        return self._server

    # --- asking ---

    def start(self, method: str, params: Params | None = None) -> str:
        """Send a request of ours without waiting; its id. The answer is looked for among what came."""
        request_id = f"{method.removeprefix(PREFIX)} {next(self._ids)}"
        self.protocol.send_request(method, params or {}, msg_id=request_id)
        return request_id

    async def request(self, method: str, params: Params | None = None) -> Any:
        """A result as our protocol class gives it, which is what came, key for key.

        Raises:
            JsonRpcException: the server answered with an error.
        """
        request_id = f"{method.removeprefix(PREFIX)} {next(self._ids)}"
        async with asyncio.timeout(PATIENCE):
            result = await self.protocol.send_request_async(method, params or {}, msg_id=request_id)
        [answer] = self.answers(request_id)
        assert result == answer["result"]
        self.answered.add(method)
        return result

    async def ask(self, name: str, session_id: str, **params: Any) -> Any:
        """A request about one session; `name` without our prefix."""
        return await self.request(PREFIX + name, {"sessionId": session_id} | params)

    def cancel(self, request_id: str) -> None:
        self.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(id=request_id))

    # --- what came ---

    def answers(self, request_id: str) -> list[Params]:
        """Every answer with this id, as it came: one, when the server keeps its word."""
        return [each for each in self.messages if each.get("id") == request_id and "method" not in each]

    async def answer(self, request_id: str) -> Params:
        await self.until(lambda: bool(self.answers(request_id)))
        return self.answers(request_id)[0]

    def told(self, method: str, session_id: str) -> list[Params]:
        """Params of notifications about a session."""
        return [
            each["params"]
            for each in self.messages
            if each.get("method") == method and each["params"]["sessionId"] == session_id
        ]

    def updates(self, session_id: str) -> list[Params]:
        """Durable updates of a session."""
        return [each for each in self.told(SESSION_UPDATE, session_id) if each["seq"] is not None]

    def kinds(self, session_id: str) -> list[str]:
        return [each["update"]["kind"] for each in self.updates(session_id)]

    async def update(self, session_id: str, kind: str, **fields: Any) -> Params:
        """The first update of a kind with these fields, whether it came already or comes later."""

        def found() -> Iterator[Params]:
            for each in self.told(SESSION_UPDATE, session_id):
                if each["update"]["kind"] == kind and fields.items() <= each["update"].items():
                    yield each

        await self.until(lambda: any(True for _ in found()))
        return next(found())

    async def streamed(self, session_id: str, end: str) -> None:
        """Wait for the piece of an answer that ends so; pieces may come joined."""
        await self.until(
            lambda: any(
                each["update"]["kind"] == "delta" and each["update"]["text"].endswith(end)
                for each in self.told(SESSION_UPDATE, session_id)
            )
        )

    def phases(self, session_id: str) -> list[str]:
        return [each["phase"] for each in self.told(OCCUPANCY, session_id)]

    def compactions(self, session_id: str) -> list[str]:
        return [each["status"] for each in self.told(COMPACTION, session_id)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what came makes the condition true."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(condition)

    # --- life ---

    async def begin(self, profile: str = VS_CODE) -> None:
        """Initialize as an editor of this profile does, with one trusted folder; every method is announced."""
        folder = self.workspace.as_uri()
        result = await self.initialize_session(
            types.InitializeParams(
                capabilities=client_capabilities(profile),
                workspace_folders=[types.WorkspaceFolder(folder, "workspace")],
                initialization_options={"ullage": {"trustedRoots": [folder]}},
            )
        )
        ours = result.capabilities.experimental["ullage"]
        assert (ours["version"], ours["methods"]) == (1, [method.name for method in METHODS])
        assert ours["notifications"] == [each.name for each in NOTIFICATIONS]

    def check_bars(self) -> None:
        """A compaction shows a bar where the editor said that it has them, and nowhere else."""
        assert self.capabilities is not None
        window, sent = self.capabilities.window, [each.get("method") for each in self.messages]
        has_bars = bool(window and window.work_done_progress)
        if COMPACTION in sent:
            assert (types.WINDOW_WORK_DONE_PROGRESS_CREATE in sent) is has_bars

    async def new(self, **params: Any) -> str:
        """A new session; its id."""
        session = await self.request("ullage/session/new", params)
        return str(session["sessionId"])

    async def kill(self) -> None:
        """SIGKILL; what it had written before is read to the end."""
        self.process.kill()
        await self.process.wait()
        await asyncio.gather(*self._async_tasks)

    async def end(self) -> None:
        """The server goes in good order, or is ended."""
        if self.process.returncode is None and not sys.exc_info()[0]:
            await self.shutdown_session()
            assert self.process.returncode == 0
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.stop()
        self._close_pipes()

    def _close_pipes(self) -> None:
        self.process._transport.close()  # type: ignore[attr-defined]  # else its pipes are closed by the collector

    # --- the canary ---

    def search_new(self) -> None:
        """Search what came since the last look."""
        new, self._searched = self.bodies[self._searched :], len(self.bodies)
        check_bodies(new, self.home)

    async def search_everything(self) -> None:
        """Ask for every title and transcript, then search everything that ever came, and the forks' logs."""
        if self.capabilities is not None and self.process.returncode is None:
            await self.request("ullage/session/list")
            for session_id in self._open_sessions():
                await self.ask("session/export", session_id)
                await self.ask("session/export", session_id, format="jsonl")
        check_bodies(self.bodies, self.home)
        check_forks(self.home)
        check_requests(self.home)

    def _open_sessions(self) -> set[str]:
        return {each["params"]["sessionId"] for each in self.messages if each.get("method") == OCCUPANCY}


class Serving(ClientServerConfig):
    """`ullage serve --stdio` over a home, with a script of answers, or with the embedded explorer."""

    def __init__(self, home: Path, script: Sequence[Params] | None = None, window: int = 200_000) -> None:
        command = [sys.executable, "-m", "ullage", "serve", "--stdio", "--home", str(home), "--window", str(window)]
        env = dict(os.environ)
        if script is not None:
            file = home.parent / "script.json"
            file.write_text(json.dumps({"window": window, "script": script}), encoding="utf-8")
            env["ULLAGE_SCRIPT"] = str(file)
        super().__init__(server_command=command, client_factory=lambda: Editor(home), server_env=env)


@asynccontextmanager
async def serving(
    home: Path, script: Sequence[Params] | None = None, window: int = 200_000, profile: str = VS_CODE
) -> AsyncIterator[Editor]:
    """An initialized editor for the time of the block; sessions outlive it."""
    editor = await Serving(home, script, window).start()
    assert isinstance(editor, Editor)
    try:
        await editor.begin(profile)
        yield editor
        await editor.search_everything()
        editor.check_bars()
    finally:
        await editor.end()


# --- what must stay inside ---

_TEMPLATE = reminder_text(HandoffRecord("", 0, 0, 0, 0, "")).splitlines()

NEEDLES = (ID_PREFIX, "token-budget-handoff", *_TEMPLATE[1:-1], _TEMPLATE[-1].rstrip("0123456789"))
"""What any handoff would give away. No quotes or backslashes: found however often a text was wrapped in JSON."""


def entries(home: Path) -> dict[Path, list[Entry]]:
    """What the logs of a home hold, hidden events too."""
    found = {}
    for path in sorted(home.glob("sessions/*/*.jsonl")):
        log = SessionLog.open_readonly(DiskFiles(), path).log
        found[path] = list(log.entries())
        log.close()
    return found


def handoffs(home: Path) -> list[HandoffRecord]:
    """Every handoff that the sessions of a home recorded."""
    raw = [each.event for log in entries(home).values() for each in log if isinstance(each.event, HandoffRecorded)]
    return [record for event in raw if (record := parse_record(event.record)) is not None]


def hidden_in(bodies: Sequence[bytes], home: Path) -> list[str]:
    """What of the handoffs stands in these bodies: their ids, their reminders line by line, what all have in common."""
    if not bodies:
        return []
    text = b"\n".join(bodies).decode()
    assert '"' not in "".join(NEEDLES)
    ids = [record.message_id for record in handoffs(home)]
    return [needle for needle in (*ids, *NEEDLES) if needle in text]


def check_bodies(bodies: Sequence[bytes], home: Path) -> None:
    """None of these bodies gives a handoff away."""
    found = hidden_in(bodies, home)
    assert not found, f"the server sent what is hidden: {found}"


def check_forks(home: Path) -> None:
    """A fork's copied part holds no handoff, and the parents' ids stand nowhere in its file."""
    for path, log in entries(home).items():
        forked = next((each.seq for each in log if isinstance(each.event, SessionForked)), None)
        if forked is None:
            continue
        own = {each.event.record for each in log if isinstance(each.event, HandoffRecorded) and each.seq > forked}
        copied = [each for each in log if isinstance(each.event, HandoffRecorded) and each.seq <= forked]
        assert not copied, f"a fork took handoffs along: {copied}"
        text = path.read_text(encoding="ascii")
        foreign = [record for record in handoffs(home) if not any(record.message_id in raw for raw in own)]
        assert not [record for record in foreign if record.message_id in text], "a fork names its parent's handoffs"


def check_requests(home: Path) -> None:
    """Every request that a server of this home sent, built again from the log as it was then, is valid."""
    for path, log in entries(home).items():
        state, memo = State(), Memo()
        for each in log:
            if isinstance(each.event, StepStarted):
                card = ModelCard("any", None, "nobody")
                built = build(state, "system", (), card, 1_000, each.event.occupancy, memo)
                assert problems(built.request) == [], f"{path.name}: the request before event {each.seq}"
            state = reduce(state, each)


# --- errors ---


async def refusal(asked: Any) -> JsonRpcException:
    """The error that a request is answered with; a sentence, never a traceback."""
    try:
        result = await asked
    except JsonRpcException as error:
        assert error.message and "Traceback" not in f"{error.message}{json.dumps(error.data)}"
        return error
    raise AssertionError(f"answered with {result}")
