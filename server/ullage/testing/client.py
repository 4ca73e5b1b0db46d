"""A small editor for tests: starts a real server process and speaks to it over stdio.

It stands on the wire alone, not on the server's protocol class, so that it sees what a foreign client sees. Every body
the server sends is kept raw in `Client.bodies`, to be searched for what must never leave it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage.wire import rpc
from ullage.wire.framing import Body, Framer, frame
from ullage.wire.limits import MIB, Limits

Params = dict[str, Any]

PATIENCE = 60.0
"""Seconds until a wait counts as a hang: generous, since it is no measurement."""


class RpcError(Exception):
    """The server answered with an error: {code, message, data}."""

    def __init__(self, error: Params) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


def NEVER(params: Params) -> Any:
    """Stands for a handler in `Client.handlers`: the request is left unanswered and its id kept."""
    raise AssertionError("is never called")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer off the wire, as it came; `id` may be None."""

    id: Any
    message: Params


class Client:
    """One client with its server process; made by `make_client`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.bodies: list[bytes] = []
        self.notifications: list[tuple[str, Params]] = []
        self.answers: list[Answer] = []
        self.stderr = bytearray()
        self.stderr_ended = asyncio.Event()
        self.handlers: dict[str, Callable[[Params], Any]] = {}
        self.unanswered: list[rpc.RequestId] = []
        self._ids = itertools.count(1)
        self._news = asyncio.Condition()
        self._reads = asyncio.Event()
        self._reads.set()
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._read_stderr())]

    # --- sending ---------------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send_body(self, body: bytes) -> None:
        """Write a body with its header."""
        self.send_bytes(frame(body))

    def send(self, message: Params) -> None:
        """Write a message."""
        self.send_body(rpc.encode(message))

    def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    def start(self, method: str, params: Params | None = None, request_id: rpc.RequestId | None = None) -> Any:
        """Send a request without waiting; returns its id."""
        request_id = next(self._ids) if request_id is None else request_id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send(message | ({} if params is None else {"params": params}))
        return request_id

    async def request(self, method: str, params: Params | None = None) -> Any:
        """Send a request and wait for its result.

        Raises:
            RpcError: the server answered with an error.
            TimeoutError: no answer came.
        """
        return await self.result(self.start(method, params))

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def result(self, request_id: Any) -> Any:
        """The result of a started request; raises like `request`."""
        message = await self.answer(request_id)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    async def answer(self, request_id: Any) -> Params:
        """The answer to a request, as it came; None for an answer without id."""
        await self.wait_for(lambda: bool(self.answers_to(request_id)))
        return self.answers_to(request_id)[0]

    def answers_to(self, request_id: Any) -> list[Params]:
        """Every answer with this id: one, when the server keeps its word."""
        return [each.message for each in self.answers if _same(each.id, request_id)]

    async def notification(self, method: str, match: Callable[[Params], bool] = lambda params: True) -> Params:
        """The first notification of this method that matches, whether it came already or comes later."""

        def find() -> Params | None:
            found = (params for name, params in self.notifications if name == method and match(params))
            return next(found, None)

        await self.wait_for(lambda: find() is not None)
        params = find()
        assert params is not None
        return params

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something that was received makes the condition true."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(condition)

    # --- life ------------------------------------------------------------------------------------------------------

    async def initialize(self, root: Path | None = None, **params: Any) -> Params:
        """initialize and initialized; `params` replace or add members. Returns the result."""
        folders = None if root is None else [{"uri": root.as_uri(), "name": root.name}]
        basic: Params = {"processId": os.getpid(), "rootUri": None, "capabilities": {}, "workspaceFolders": folders}
        result: Params = await self.request("initialize", basic | params)
        self.notify("initialized", {})
        return result

    async def stop(self) -> int:
        """shutdown and exit; returns the exit code."""
        await self.request("shutdown")
        self.notify("exit")
        return await self.ended()

    async def ended(self) -> int:
        """Wait for the process to end and its output to be read; returns the exit code."""
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return code

    def close_input(self) -> None:
        """Close the server's stdin, as an editor that has died does."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop_reading(self) -> None:
        """Leave the server's output unread, until `read_on`."""
        self._reads.clear()

    def read_on(self) -> None:
        """Read the server's output again."""
        self._reads.set()

    async def close(self) -> None:
        """End the process, however it is doing."""
        if self.process.returncode is None:
            self.process.kill()
        self.read_on()
        await self.ended()
        assert self.process.stdin is not None
        self.process.stdin.close()
        with contextlib.suppress(ConnectionError):
            await self.process.stdin.wait_closed()

    # --- receiving -------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        assert self.process.stdout is not None
        framer = Framer(Limits(body=1024 * MIB))
        while chunk := await self.process.stdout.read(64 * 1024):
            for each in framer.feed(chunk):
                assert isinstance(each, Body), f"the server broke its stream: {each}"
                self._take(each.data)
            await self._tell()
            await self._reads.wait()

    def _take(self, body: bytes) -> None:
        self.bodies.append(body)
        [message] = rpc.parse(body)
        match message:
            case rpc.Note():
                self.notifications.append((message.method, message.params))
            case rpc.Call():
                self._serve(message)
            case rpc.Reply():
                decoded = _decoded(body)
                self.answers.append(Answer(decoded["id"], decoded))
            case rpc.Refused():
                raise AssertionError(f"the server sent no JSON-RPC: {message}")

    def _serve(self, call: rpc.Call) -> None:
        handler = self.handlers.get(call.method)
        if handler is NEVER:
            self.unanswered.append(call.id)
        elif handler:
            self.send({"jsonrpc": "2.0", "id": call.id, "result": handler(call.params)})
        else:
            self.send(rpc.error_message(call.id, rpc.METHOD_NOT_FOUND, "not in this client"))

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := await self.process.stderr.read(64 * 1024):
            self.stderr += chunk
            await self._tell()
        self.stderr_ended.set()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()


def _decoded(body: bytes) -> Params:
    message: Params = json.loads(body)
    return message


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


@asynccontextmanager
async def make_client(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """Start a server and yield a client to it; the process never outlives the block.

    `env` is added to the environment.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env={**os.environ, **(env or {})}
    )
    client = Client(process)
    try:
        yield client
    finally:
        await client.close()
