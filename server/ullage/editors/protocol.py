"""JSON-RPC for both ends of an editor's connection: pygls for registration and LSP types, our own dispatch.

Invariant: every request is answered exactly once. The only place that answers a request which was accepted is the
end of its task (`_finish`); a request that is not accepted is refused at once and never becomes a task. The books of
the two directions are separate, so that no id of one can touch the other.

Our own methods (prefix `ullage/`) take and give plain dicts: whatever keys they hold, nothing is renamed or read as
protocol. Bodies are never logged.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, assert_never

from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    LanguageServerProtocol,
    lsp_method,
)

from ullage.core.errors import ErrorReport, UllageError
from ullage.editors.methods import PREFIX
from ullage.wire import rpc
from ullage.wire.framing import frame
from ullage.wire.limits import Limits
from ullage.wire.transport import Coalesce, Outbox

logger = logging.getLogger(__name__)

Params = dict[str, Any]
Handler = Callable[[Params], Awaitable[Any]]
"""A handler of one of our methods: params in, a dict or pydantic model (dumped by alias) or None out."""


class Phase(Enum):
    """Where a connection is in its life."""

    NEW = auto()
    INITIALIZING = auto()
    RUNNING = auto()
    SHUT = auto()


@dataclass(slots=True)
class _Running:
    """A request that was accepted and not yet answered."""

    method: str
    task: asyncio.Task[Any]
    cancelled: bool = False


class UllageProtocol(LanguageServerProtocol):
    """The server's end. `methods` holds our own methods; standard ones are registered with pygls as usual."""

    first_phase: ClassVar[Phase] = Phase.NEW

    def __init__(self, server: Any, converter: Converter) -> None:
        # pygls logs whole bodies at INFO.
        logging.getLogger("pygls").setLevel(logging.WARNING)
        super().__init__(server, converter)
        self.methods: Mapping[str, Handler] = {}
        self.limits = Limits()
        self.phase = self.first_phase
        self.on_exit: Callable[[int], None] = lambda code: None
        self.on_initialize: Callable[[types.InitializeParams], None] = lambda params: None
        self._incoming: dict[rpc.RequestId, _Running] = {}
        self._background: set[asyncio.Task[Any]] = set()

    # --- in --------------------------------------------------------------------------------------------------------

    def receive(self, body: bytes) -> None:
        """Handle one body off the wire. Never raises."""
        for message in rpc.parse(body):
            self._dispatch(message)

    def handle_message(self, message: Any) -> None:
        """Handle one decoded body: what pygls' own reader calls, with `structure_message` as object hook."""
        for each in rpc.classify(message):
            self._dispatch(each)

    def structure_message(self, data: Any) -> Any:
        """Leave every object as it is: payloads may look like protocol."""
        return data

    def get_message_type(self, method: str) -> Any:  # type: ignore[override]  # pygls wraps its own in a cache
        """The LSP type of a standard method; None for ours and for unknown ones."""
        return None if method.startswith(PREFIX) else super().get_message_type(method)

    def _dispatch(self, message: rpc.Message) -> None:
        match message:
            case rpc.Call():
                self._accept(message)
            case rpc.Note():
                self._take_note(message)
            case rpc.Reply():
                self._take_reply(message)
            case rpc.Refused():
                logger.warning("Refused a message: %s", message.message)
                self.send_error(message.id, message.code, message.message)
            case _:
                assert_never(message)

    def _accept(self, call: rpc.Call) -> None:
        try:
            self._check_phase(call.method)
            if call.id in self._incoming:
                raise JsonRpcException("A request with this id is still running.", rpc.INVALID_REQUEST)
            if not self._knows(call.method):
                raise JsonRpcException(f"Unknown method: {call.method}", rpc.METHOD_NOT_FOUND)
            params = self._structure(call.method, call.params, call.id)
        except JsonRpcException as error:
            self.send_error(call.id, error.code, error.message, error.data)
            return
        self._enter_phase(call.method)
        self._handle_request(call.id, call.method, params)

    def _take_note(self, note: rpc.Note) -> None:
        if note.method == types.EXIT:
            self.on_exit(0 if self.phase is Phase.SHUT else 1)
        elif note.method == types.CANCEL_REQUEST:
            self._cancel(note.params.get("id") if isinstance(note.params, dict) else None)
        elif self.phase in (Phase.NEW, Phase.SHUT):
            logger.warning("Ignored the notification %s outside of a session's life.", note.method)
        else:
            self._start_note(note)

    def _start_note(self, note: rpc.Note) -> None:
        try:
            params = self._structure(note.method, note.params, None)
        except JsonRpcException as error:
            logger.warning("Ignored the notification %s: %s", note.method, error.message)
            return
        self._handle_notification(note.method, params)

    def _take_reply(self, reply: rpc.Reply) -> None:
        future = self._request_futures.pop(reply.id, None) if reply.id is not None else None
        kind = self._result_types.pop(reply.id, None) if reply.id is not None else None
        if future is None or future.done():
            logger.warning("Ignored an answer to no request of ours.")
            return
        try:
            future.set_result(self._result(reply, kind))
        except JsonRpcException as error:
            future.set_exception(error)

    def _result(self, reply: rpc.Reply, kind: Any) -> Any:
        if reply.error is not None:
            code, text = reply.error.get("code"), reply.error.get("message")
            raise JsonRpcException(
                text if isinstance(text, str) else "The other side failed.",
                code if type(code) is int else rpc.INTERNAL_ERROR,
                reply.error.get("data"),
            )
        if kind is None:
            return reply.result
        return self._typed({"jsonrpc": "2.0", "id": reply.id, "result": reply.result}, kind).result

    # --- life ------------------------------------------------------------------------------------------------------

    def _check_phase(self, method: str) -> None:
        match self.phase:
            case Phase.NEW | Phase.INITIALIZING if method != types.INITIALIZE:
                raise JsonRpcException("Send initialize first, and wait for its answer.", rpc.NOT_INITIALIZED)
            case Phase.INITIALIZING | Phase.RUNNING if method == types.INITIALIZE:
                raise JsonRpcException("initialize was sent already.", rpc.INVALID_REQUEST)
            case Phase.SHUT:
                raise JsonRpcException("The server has been shut down; send exit.", rpc.INVALID_REQUEST)

    def _enter_phase(self, method: str) -> None:
        if method == types.INITIALIZE:
            self.phase = Phase.INITIALIZING
        elif method == types.SHUTDOWN:
            # At once, not when answered: exit may follow in the same read.
            self.phase = Phase.SHUT

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """pygls' own, then the process id is watched."""
        result = yield from super().lsp_initialize(params)
        self.on_initialize(params)
        return result

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """End every other request first: each gets its answer before shutdown gets its own."""
        yield self.drain, (), {}
        if handler := self.fm.features.get(types.SHUTDOWN):
            yield handler, args, {}

    async def drain(self) -> None:
        """Cancel every running request and wait until each was answered, `limits.drain` seconds at most."""
        for each in self._incoming.values():
            if each.method != types.SHUTDOWN:
                self._cancel_once(each)
        # shutdown itself may be what waits here, and is waited for when exit followed it at once.
        tasks = [each.task for each in self._incoming.values() if each.task is not asyncio.current_task()]
        if tasks:
            # Each task's answer was sent by a callback older than this wait's own, so it is out when this returns.
            await asyncio.wait(tasks, timeout=self.limits.drain)

    # --- running handlers ------------------------------------------------------------------------------------------

    def _find_handler(self, method: str) -> Any:
        return self.methods.get(method) or self.fm.builtin_features.get(method) or self.fm.features.get(method)

    def _knows(self, method: str) -> bool:
        return self._find_handler(method) is not None

    def _structure(self, method: str, params: Any, request_id: rpc.RequestId | None) -> Any:
        kind = self.get_message_type(method)
        if kind is not None:
            message = {"jsonrpc": "2.0", "id": request_id, "method": method}
            return self._typed(message if params is None else message | {"params": params}, kind).params
        if not isinstance(params, dict | None):
            raise JsonRpcException(f"The params of {method} are an object.", rpc.INVALID_PARAMS)
        return params or {}

    def _typed(self, message: Params, kind: Any) -> Any:
        try:
            return self._converter.structure(message, kind)
        except Exception as error:  # whatever a converter raises on foreign data, RecursionError included
            name = message.get("method", "an answer")
            raise JsonRpcException(f"The params of {name} do not fit its schema.", rpc.INVALID_PARAMS) from error

    def _handle_request(self, msg_id: rpc.RequestId, method_name: str, params: Any) -> None:
        task = asyncio.ensure_future(self._run(method_name, params))
        self._incoming[msg_id] = _Running(method_name, task)
        task.add_done_callback(lambda done: self._finish(msg_id, method_name, done))

    def _handle_notification(self, method_name: str, params: Any) -> None:
        if not self._knows(method_name):
            logger.debug("Ignored the unknown notification %s.", method_name)
            return
        task = asyncio.ensure_future(self._run(method_name, params))
        self._background.add(task)
        task.add_done_callback(self._finish_note)

    async def _run(self, method: str, params: Any) -> Any:
        handler = self._find_handler(method)
        try:
            return await self._call(handler, (params,), {})
        except (asyncio.CancelledError, JsonRpcException):
            raise
        except BaseException as error:  # SystemExit and foreign panics too: one bad handler is one failed request
            raise self._failure(method, error) from error

    async def _call(self, handler: Any, args: tuple[Any, ...], kwargs: Params | None) -> Any:
        if inspect.isgeneratorfunction(handler):
            return await self._drive(handler(*args))
        result = handler(*args, **(kwargs or {}))
        return await result if inspect.isawaitable(result) else result

    async def _drive(self, steps: Generator[Any, Any, Any]) -> Any:
        """Run pygls' generators: each yields (handler, args, kwargs) and gets the result sent back."""
        value = None
        while True:
            try:
                handler, args, kwargs = steps.send(value)
            except StopIteration as end:
                return end.value
            value = await self._call(handler, args, kwargs)

    def _failure(self, method: str, error: BaseException) -> JsonRpcException:
        if isinstance(error, UllageError):
            return JsonRpcException(error.report.message, rpc.OUR_ERROR, error_data(error.report))
        from pydantic_core import ValidationError

        if isinstance(error, ValidationError):
            wrong = [{"at": list(each["loc"]), "message": each["msg"]} for each in error.errors(include_input=False)]
            return JsonRpcException(f"The params of {method} do not fit its schema.", rpc.INVALID_PARAMS, wrong)
        logger.error("The handler of %s failed.", method, exc_info=error)
        return JsonRpcException(f"The server failed to handle {method}; its log says why.", rpc.INTERNAL_ERROR)

    def _finish(self, msg_id: rpc.RequestId, method: str, done: asyncio.Task[Any]) -> None:
        self._incoming.pop(msg_id)
        error = None if done.cancelled() else done.exception()
        if method == types.INITIALIZE:
            self.phase = Phase.NEW if done.cancelled() or error else Phase.RUNNING
        if done.cancelled():
            self.send_error(msg_id, rpc.CANCELLED, "The request was cancelled.")
        elif isinstance(error, JsonRpcException):
            self.send_error(msg_id, error.code, error.message, error.data)
        else:
            self._answer({"jsonrpc": "2.0", "id": msg_id, "result": done.result()})

    def _finish_note(self, done: asyncio.Task[Any]) -> None:
        self._background.discard(done)
        if not done.cancelled() and (error := done.exception()):
            logger.warning("A notification could not be handled: %s", error)

    def _cancel(self, request_id: Any) -> None:
        running = self._incoming.get(request_id) if rpc.is_id(request_id) else None
        if running is not None and running.method not in (types.INITIALIZE, types.SHUTDOWN):
            self._cancel_once(running)

    def _cancel_once(self, running: _Running) -> None:
        # A second cancel would strike the clean-up that the first one started.
        if not running.cancelled:
            running.cancelled = True
            running.task.cancel()

    # --- out -------------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Any | None = None, coalesce: Coalesce | None = None) -> None:
        """Send a notification. With `coalesce` (params must be a dict that is not changed afterwards) it may melt into
        others while the client does not read, or be dropped; without, it is durable.

        Raises:
            ValueError, TypeError: params that are not JSON.
        """
        if coalesce is None or not isinstance(self.writer, Outbox):
            super().notify(method, params)
            return
        named = Coalesce(f"{method} {coalesce.key}", coalesce.merge)
        self.writer.offer(
            params or {}, named, lambda each: self._frame({"jsonrpc": "2.0", "method": method, "params": each})
        )

    async def request(self, method: str, params: Any | None = None) -> Any:
        """Ask the other side; cancelling the caller tells it so.

        Raises:
            JsonRpcException: the other side answered with an error.
        """
        future = self.send_request(method, params)
        request_id = next(known for known, each in self._request_futures.items() if each is future)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._request_futures.pop(request_id, None)
            self._result_types.pop(request_id, None)
            self.notify(types.CANCEL_REQUEST, types.CancelParams(id=request_id))
            raise

    def send_error(self, request_id: rpc.RequestId | float | None, code: int, message: str, data: Any = None) -> None:
        """Answer with an error; without an id when it cannot be known which request failed."""
        self._answer(rpc.error_message(request_id, code, message, data))

    def _answer(self, message: Params) -> None:
        try:
            self._send_data(message)
        except (ValueError, TypeError, RecursionError):
            logger.exception("A result cannot be written as JSON.")
            text = "The server's answer cannot be written as JSON; its log says why."
            self._send_data(rpc.error_message(message["id"], rpc.INTERNAL_ERROR, text))

    def _send_data(self, data: Any) -> None:
        if self.writer is None:
            logger.warning("Nothing to write to: a message was not sent.")
            return
        self.writer.write(self._frame(data))

    def _frame(self, message: Any) -> bytes:
        return frame(rpc.encode(message, self._serialize_message))

    def _serialize_message(self, data: Any) -> Any:
        if isinstance(data, JsonRPCRequestMessage | JsonRPCNotification):
            # Not through the converter, which would walk the whole payload.
            message: Params = {"jsonrpc": "2.0", "method": data.method}
            message |= {"id": data.id} if isinstance(data, JsonRPCRequestMessage) else {}
            return message if data.params is None else message | {"params": data.params}
        if hasattr(data, "model_dump"):
            return data.model_dump(mode="json", by_alias=True)
        if hasattr(data, "__attrs_attrs__") or isinstance(data, Enum):
            return self._converter.unstructure(data)
        raise TypeError(f"{type(data).__name__} is not JSON")


class UllageClientProtocol(UllageProtocol):
    """The editor's end: there is no life cycle to hold the server to."""

    first_phase = Phase.RUNNING


def error_data(report: ErrorReport) -> Params:
    """A report as the `data` of a JSON-RPC error: {code, message, hint, data}."""
    return {"code": report.code, "message": report.message, "hint": report.hint, "data": dict(report.data)}
