"""Runs a server over standard input and output, from the first byte to the exit code.

Invariant: however the connection ends (exit, end of input, SIGTERM, a client that died or does not read, a dead
editor), the same closing runs once: running requests are cancelled and answered, the closing hook is awaited, and
what waits is written.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from lsprotocol import converters, types
from pygls.lsp.server import LanguageServer

from ullage.editors.protocol import Handler, UllageProtocol
from ullage.wire import rpc
from ullage.wire.framing import Body, Framer, FramingError, FramingFault
from ullage.wire.limits import Limits
from ullage.wire.transport import Inbox, Outbox, take_stdio

logger = logging.getLogger(__name__)

Hook = Callable[[], Awaitable[None]]


class UllageServer(LanguageServer):
    """A language server on `UllageProtocol`; pygls' decorators register standard methods and commands."""

    protocol: UllageProtocol

    def __init__(self, name: str, version: str, methods: Mapping[str, Handler], limits: Limits | None = None) -> None:
        """`methods` maps whole names (`ullage/session/new`) to async handlers."""
        super().__init__(name, version, protocol_cls=UllageProtocol, converter_factory=converters.get_converter)
        self.protocol.methods = methods
        self.protocol.limits = limits or self.protocol.limits

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Into the log; never a pop-up in the editor."""
        logger.error("%s: %s", getattr(source, "__name__", source), error)


def run_stdio(server: UllageServer, on_close: Hook) -> int:
    """Serve one client over standard input and output; returns the exit code.

    Prints go to standard error from now on. `on_close` is awaited once before the end, `limits.closing` seconds at
    most. The code is 1 after `exit` without `shutdown`, else 0.
    """
    source, sink = take_stdio()
    return asyncio.run(serve(server, source, sink, on_close))


async def serve(server: UllageServer, source: int, sink: int, on_close: Hook) -> int:
    """Serve one client over two descriptors; see `run_stdio`."""
    limits = server.protocol.limits
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def end(code: int, reason: str) -> None:
        if not stop.done():
            logger.info("Ending: %s", reason)
            stop.set_result(code)

    def lost(reason: str) -> None:
        loop.call_soon_threadsafe(end, 0, reason)

    outbox = Outbox(sink, limits, lost)
    server.protocol.set_writer(outbox)
    server.protocol.on_exit = lambda code: end(code, "The client sent exit.")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, 0, "A signal asked for it.")

    watch: list[asyncio.Task[None]] = []

    def watch_parent(params: types.InitializeParams) -> None:
        if params.process_id is not None and not watch:
            watch.append(loop.create_task(_watch(params.process_id, limits.parent_poll, end)))

    server.protocol.on_initialize = watch_parent
    reading = loop.create_task(_read(server, Inbox(source, limits), end))
    try:
        return await stop
    finally:
        for task in (reading, *watch):
            task.cancel()
        await asyncio.gather(reading, *watch, return_exceptions=True)
        await _close(server, on_close, limits)
        outbox.close()
        if not outbox.finished:
            logger.warning("The client did not read its last messages.")


async def _read(server: UllageServer, inbox: Inbox, end: Callable[[int, str], None]) -> None:
    framer = Framer(server.protocol.limits)
    async for chunk in inbox.chunks():
        for each in framer.feed(chunk):
            match each:
                case Body():
                    server.protocol.receive(each.data)
                case FramingError():
                    _refuse(server, each)
        if framer.closed:
            end(1, "The stream cannot be read any further.")
            return
    end(0, "The client closed its end.")


def _refuse(server: UllageServer, error: FramingError) -> None:
    logger.warning("Refused a frame: %s", error.fault.value)
    oversize = error.fault is FramingFault.BODY_TOO_LONG
    code = rpc.INVALID_REQUEST if oversize else rpc.PARSE_ERROR
    server.protocol.send_error(rpc.early_id(error.start), code, f"Refused: {error.fault.value}.")


async def _close(server: UllageServer, on_close: Hook, limits: Limits) -> None:
    await server.protocol.drain()
    try:
        async with asyncio.timeout(limits.closing):
            await on_close()
    except Exception:  # the process ends whatever a hook does
        logger.exception("Closing did not finish.")


async def _watch(pid: int, poll: float, end: Callable[[int, str], None]) -> None:
    """Wait for the end of the editor's process. One that is not there at all (it may live in another pid namespace) is
    not watched: the end of input tells us then."""
    if pid <= 0 or not _alive(pid):
        logger.warning("Process %d, which the client names as its own, does not exist here.", pid)
        return
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        while _alive(pid):  # noqa: ASYNC110  # another process's end sets no event of ours
            await asyncio.sleep(poll)
    else:
        await _readable(descriptor)
    end(0, "The editor's process has ended.")


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    # Readable stays true, so the callback may come again before the reader is removed.
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
