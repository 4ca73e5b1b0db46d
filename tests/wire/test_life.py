"""The life of a connection: order of requests, every way to end, a client that does not read (J8, J12, J14)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ullage.editors import serving
from ullage.testing.client import PATIENCE, Client
from ullage.wire import rpc
from ullage.wire.framing import frame
from ullage.wire.limits import Limits

# --- order (J12) --------------------------------------------------------------------------------------------------


async def check_code(client: Client, method: str, code: int, params: Any = None) -> None:
    request_id = client.start(method, params)
    assert (await client.answer(request_id))["error"]["code"] == code


async def test_requests_before_and_while_initializing(raw: Client) -> None:
    for method in ("ullage/echo", "shutdown", "textDocument/hover", "ullage/nothing"):
        await check_code(raw, method, rpc.NOT_INITIALIZED)
    raw.notify("ullage/nothing")
    raw.notify("initialized", {})
    await check_code(raw, "initialize", rpc.INVALID_PARAMS, {"capabilities": 3})
    first = raw.start("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    second = raw.start("ullage/echo", {"a": 1})
    assert (await raw.answer(second))["error"]["code"] == rpc.NOT_INITIALIZED
    assert "result" in await raw.answer(first)
    assert await raw.request("ullage/echo", {"a": 1}) == {"a": 1}


async def test_shutdown_answers_what_runs_first_and_refuses_the_rest(client: Client) -> None:
    running = [client.start("ullage/wait"), client.start("ullage/stubborn")]
    await client.wait_for(lambda: b"waiting ." in client.stderr and b"stubborn." in client.stderr)
    shutdown = client.start("shutdown")
    refused = [client.start(method) for method in ("ullage/echo", "shutdown", "initialize")]
    client.notify("ullage/echo", {})
    client.notify("exit")
    assert await client.ended() == 0
    answered = [each.id for each in client.answers[1:]]
    assert [each for each in answered if each not in refused] == [*running, shutdown]
    assert sorted(answered) == [*running, shutdown, *refused]
    for request_id in refused:
        assert client.answers_to(request_id)[0]["error"]["code"] == rpc.INVALID_REQUEST
    assert client.answers_to(running[0])[0]["error"]["code"] == rpc.CANCELLED
    assert client.answers_to(running[1])[0]["result"] == {"stop": "cancelled"}
    assert client.answers_to(shutdown)[0]["result"] is None
    assert client.notifications == []
    assert b"closed well" in client.stderr


# --- every way to end ---------------------------------------------------------------------------------------------


def exits(client: Client) -> None:
    client.notify("exit")


def closes_input(client: Client) -> None:
    client.close_input()


def terminates(client: Client) -> None:
    client.process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("end", "code"), [(exits, 1), (closes_input, 0), (terminates, 0)], ids=("exit", "closed input", "SIGTERM")
)
async def test_every_end_answers_what_runs_and_closes_well(
    client: Client, end: Callable[[Client], None], code: int
) -> None:
    running = client.start("ullage/wait")
    await client.wait_for(lambda: b"waiting ." in client.stderr)
    end(client)
    assert await client.ended() == code
    assert client.answers_to(running)[0]["error"]["code"] == rpc.CANCELLED
    assert client.stderr.count(b"closed well") == 1
    assert b"Traceback" not in client.stderr


async def check_serve(stream: bytes, code: int, *, read: bool = True) -> bytes:
    """Serve in this process what comes through a pipe that is then closed; returns what was written.

    Without `read`, the client has closed its own end instead, and goes on sending.
    """
    (source, feed), (output, sink) = os.pipe(), os.pipe()
    closed: list[bool] = []

    async def on_close() -> None:
        closed.append(True)

    os.write(feed, stream)
    os.close(feed if read else output)
    async with asyncio.timeout(PATIENCE):
        assert await serving.serve(serving.UllageServer("t", "1", {}), source, sink, on_close) == code
    os.close(sink)
    written = os.read(output, 65536) if read else b""
    for each in (source, output if read else feed):
        os.close(each)
    assert closed == [True]
    return written


async def test_an_end_before_initialize() -> None:
    assert await check_serve(b"", 0) == b""


async def test_an_absurd_length_ends_the_server_cleanly() -> None:
    written = await check_serve(b"Content-Length: 1000000000000\r\n\r\n", 1)
    assert b'"id":null' in written and b"absurd" in written


async def test_a_client_that_closed_its_output_ends_the_server() -> None:
    await check_serve(frame(b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}'), 0, read=False)


async def test_a_closing_that_fails_or_hangs_still_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise KeyError("x")

    async def hangs() -> None:
        await asyncio.Event().wait()

    for hook in (fails, hangs):
        caplog.clear()
        source, sink = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
        server = serving.UllageServer("t", "1", {}, Limits(closing=0.01))
        assert await serving.serve(server, source, sink, hook) == 0
        assert "Closing did not finish" in caplog.text
        os.close(source)
        os.close(sink)


async def sleeper() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)


async def test_the_end_of_the_editors_process_ends_the_server(raw: Client) -> None:
    parent = await sleeper()
    await raw.initialize(processId=parent.pid)
    parent.kill()
    await parent.wait()
    assert await raw.ended() == 0
    assert b"closed well" in raw.stderr


async def test_without_process_descriptors_the_editor_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = await sleeper()  # asyncio may want one of its own for it
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    ended: list[tuple[int, str]] = []
    watching = asyncio.ensure_future(serving._watch(parent.pid, 0.01, lambda *end: ended.append(end)))
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(PATIENCE):
        await watching
    assert ended == [(0, "The editor's process has ended.")]


async def test_a_process_of_another_namespace_is_not_watched() -> None:
    gone = await sleeper()
    gone.kill()
    await gone.wait()
    ended: list[Any] = []
    for pid in (gone.pid, 0, -1, 2**40):
        await asyncio.wait_for(serving._watch(pid, 0.01, lambda *end: ended.append(end)), PATIENCE)
    assert ended == []


# --- what else writes (J14) ---------------------------------------------------------------------------------------


async def test_prints_and_children_do_not_touch_the_stream(client: Client) -> None:
    """T054."""
    assert await client.request("ullage/noise") is None
    assert await client.stop() == 0
    assert b"a stray print" in client.stderr and b"a child speaks" in client.stderr
    assert all(b"stray" not in body and b"child speaks" not in body for body in client.bodies)


# --- a client that does not read (J8) -----------------------------------------------------------------------------


async def test_a_client_that_stops_reading_is_still_heard(client: Client) -> None:
    """50 MB of deltas, unread: the cancel is handled meanwhile, deltas wait within 8 MiB, durable ones all arrive."""
    waiting = client.start("ullage/wait")
    await client.wait_for(lambda: b"waiting ." in client.stderr)
    client.stop_reading()
    flood = client.start("ullage/flood", {"count": 50_000, "size": 1000, "durableEvery": 500})
    await client.wait_for(lambda: b"flooded" in client.stderr)
    [left] = re.findall(rb"flooded waiting=(\d+) dropped=(\d+)", client.stderr)
    assert 1024 * 1024 < int(left[0]) <= 8 * 1024 * 1024 and int(left[1]) > 0
    client.notify("$/cancelRequest", {"id": waiting})
    await client.wait_for(lambda: b"cancelled ." in client.stderr)
    assert client.answers_to(flood) == []
    client.read_on()
    await client.answer(flood)
    assert (await client.answer(waiting))["error"]["code"] == rpc.CANCELLED
    durable = [params["number"] for method, params in client.notifications if method == "ullage/durable"]
    assert durable == list(range(0, 50_000, 500))
    check_deltas(client)


def check_deltas(client: Client) -> None:
    """Offsets grow, pieces do not overlap, and each lies between the durable frames it was sent between."""
    at = block = 0
    for body in client.bodies:
        message = json.loads(body)
        if message.get("method") == "ullage/durable":
            block = message["params"]["number"]
        elif message.get("method") == "ullage/delta":
            offset, length = message["params"]["offset"], len(message["params"]["text"])
            assert offset >= max(at, block * 1000) and offset + length <= (block + 500) * 1000
            at = offset + length


async def test_a_client_that_never_reads_does_not_hold_up_the_end(client: Client) -> None:
    client.stop_reading()
    client.start("ullage/flood", {"count": 2000, "size": 1000, "durableEvery": 1})
    await client.wait_for(lambda: b"flooded" in client.stderr)
    client.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        await client.stderr_ended.wait()
    assert b"closed well" in client.stderr
    client.read_on()
    assert await client.ended() == 0


# --- the log ----------------------------------------------------------------------------------------------------


async def test_bodies_are_never_logged(raw: Client) -> None:
    await raw.initialize(initializationOptions={"canary": "canary-word"}, workspaceFolders=None)
    for method in ("ullage/echo", "ullage/bounce", "ullage/nothing", "workspace/executeCommand"):
        raw.start(method, {"canary": "canary-word"})
    raw.notify("ullage/nothing", {"canary": "canary-word"})
    raw.notify("textDocument/didOpen", {"canary": "canary-word"})
    raw.send_body(b'{"jsonrpc":"2.0","id":99,"method":"canary-word","params":canary-word}')
    assert await raw.stop() == 0
    assert b"canary-word" not in raw.stderr
