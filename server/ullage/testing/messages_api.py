"""A scripted server that speaks the Messages API over loopback, with real server-sent events.

    async with MessagesApi([says("I look.", use("read", path="a.py")), says("Done.")], window=20_000) as api:
        ...  # point a client at api.url with the key api.key
        assert api.refused == []

It measures as the API does: tokens of a request are its canonical bytes over four, a request above the window gets the
API's own overflow error, and cache figures go by which prefix, up to a breakpoint, was sent before. Every request is
held to the API's rules (`messages_rules`) and kept. It lives in the process that scripts it; its clients may live in
others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Self

from ullage.testing.messages_rules import JSON, REQUEST_BYTES, blocks_of, problems
from ullage.testing.messages_script import (
    Ending,
    Line,
    Refuses,
    Says,
    content,
    signature,
    stop_of,
)

BYTES_PER_TOKEN = 4
LOOK_BACK = 20
"""Blocks before a breakpoint at which an earlier request's breakpoint is still found."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came; `body` is its JSON, or None when it had none."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any
    arrived: float
    """When its headers were there, in monotonic seconds."""


@dataclass(slots=True)
class MessagesApi:
    """Use it as an async context manager. `window` is what it really takes; `models` what `/v1/models/{id}` says of a
    model as (window, output cap), 404 for any other. `output_counts` makes it refuse input + max_tokens above the
    window, as older models do."""

    script: Iterable[Line] = ()
    window: int = 200_000
    models: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    key: str = "key-of-the-scripted-server"
    output_counts: bool = False
    requests: list[Asked] = field(default_factory=list)
    """All that came, oldest first."""
    refused: list[str] = field(default_factory=list)
    """What of it broke the API's rules, in words."""
    usages: list[JSON] = field(default_factory=list)
    """Usage of each answer that was begun."""
    ended: list[float] = field(default_factory=list)
    """When each stream's last event was written, in monotonic seconds."""
    left: int = 0
    """Streams that the client closed before they ended."""
    url: str = ""
    _server: asyncio.Server | None = None
    _lines: Iterator[Line] = field(init=False)
    _cached: set[bytes] = field(default_factory=set)
    _measured: tuple[JSON, list[_Place]] | None = None
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._lines = iter(self.script)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2 * REQUEST_BYTES)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    # --- what was asked ---

    @property
    def asked(self) -> list[JSON]:
        """Bodies of the requests for a message."""
        return [each.body for each in self.requests if each.path == "/v1/messages"]

    async def until(self, count: int = 0, left: int = 0) -> None:
        """Wait until that many messages were asked for and that many streams were left."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.asked) >= count and self.left >= left)

    # --- HTTP ---

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while asked := await _request(reader):
                await self._record(asked)
                if not await self._answer(asked, reader, writer):
                    break
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _record(self, asked: Asked) -> None:
        async with self._news:
            self.requests.append(asked)
            self._news.notify_all()

    async def _answer(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection must end."""
        said = self._decide(asked)
        if isinstance(said, Says) and asked.body.get("stream"):
            return await self._stream(said, asked.body, reader, writer)
        status, headers, body = self._plain(said, asked.body)
        lines = [f"HTTP/1.1 {status} Scripted", f"content-length: {len(body)}", "request-id: req_scripted"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return True

    def _decide(self, asked: Asked) -> Says | Refuses | JSON:
        """What to answer: an error of the API's own, plain JSON, or the script's next line."""
        given = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
        if given != self.key:
            return Refuses(401, "authentication_error", f"invalid x-api-key: {given}")
        path = asked.path.partition("?")[0]
        if path.startswith("/v1/models/"):
            return self._model(path.removeprefix("/v1/models/"))
        if path not in ("/v1/messages", "/v1/messages/count_tokens"):
            return Refuses(404, "not_found_error", "Not found")
        if len(asked.raw) > REQUEST_BYTES:
            return Refuses(413, "request_too_large", "Request exceeds the maximum size")
        counting = path.endswith("count_tokens")
        wrong = problems(asked.body | {"max_tokens": 1} if counting else asked.body, _signed)
        if wrong:
            self.refused += wrong
            return Refuses(400, "invalid_request_error", wrong[0])
        return {"input_tokens": tokens(asked.body)} if counting else self._next(asked.body)

    def _model(self, name: str) -> JSON | Refuses:
        if name not in self.models:
            return Refuses(404, "not_found_error", f"model: {name}")
        window, cap = self.models[name]
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": window,
            "max_tokens": cap,
        }

    def _next(self, body: JSON) -> Says | Refuses:
        """The script's next line, unless the request is too long: then the line waits for the next one."""
        size, most = self._measure(body)[-1].tokens, body["max_tokens"]
        if size > self.window:
            return Refuses(400, "invalid_request_error", f"prompt is too long: {size} tokens > {self.window} maximum")
        if self.output_counts and size + most > self.window:
            text = f"input length and `max_tokens` exceed context limit: {size} + {most} > {self.window}, "
            return Refuses(400, "invalid_request_error", text + "decrease input length or `max_tokens` and try again")
        line = next(self._lines, None)
        if line is None:
            self.refused.append(f"the script has no line for request {len(self.requests)}")
            return Refuses(500, "api_error", "The script is at its end.")
        return line(body) if callable(line) else line

    def _plain(self, said: Says | Refuses | JSON, asked: Any) -> tuple[int, Mapping[str, str], bytes]:
        if isinstance(said, Refuses):
            error = {"type": "error", "error": {"type": said.kind, "message": said.message}}
            body = json.dumps(error) if said.body is None else said.body
            return said.status, {"content-type": "application/json"} | dict(said.headers), body.encode()
        if isinstance(said, Says):
            usage = self._usage(asked) | {"output_tokens": _output(said)} | said.usage
            said = _message(asked, len(self.usages), usage) | {"content": _parsed(said), "stop_reason": stop_of(said)}
        return 200, {"content-type": "application/json"}, json.dumps(said).encode()

    # --- streams ---

    async def _stream(self, line: Says, body: JSON, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_scripted\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        async for event in self._events(line, body):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        self.ended.append(monotonic())
        match line.ending:
            case Ending.STALL:
                with suppress(ConnectionError):
                    await reader.read(1)
                async with self._news:
                    self.left += 1
                    self._news.notify_all()
                return False
            case Ending.RESET:
                return False
            case _:
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return True

    async def _events(self, line: Says, body: JSON) -> AsyncIterator[JSON]:
        usage = self._usage(body)
        yield {"type": "message_start", "message": _message(body, len(self.usages), usage | {"output_tokens": 1})}
        yield {"type": "ping"}
        for index, block in enumerate(content(line, len(self.usages))):
            for event in _block_events(index, block, line.pieces):
                yield event
        if line.ending is Ending.ERROR:
            kind, message = line.error
            yield {"type": "error", "error": {"type": kind, "message": message}}
        if line.ending is Ending.WHOLE:
            delta = {"stop_reason": stop_of(line), "stop_sequence": None}
            told = usage | {"output_tokens": _output(line)} | line.usage
            yield {"type": "message_delta", "delta": delta, "usage": told}
            yield {"type": "message_stop"}

    # --- figures ---

    def _measure(self, body: JSON) -> list[_Place]:
        """The places of a request; of the newest one they are kept, since all is asked of it at once."""
        if self._measured is None or self._measured[0] is not body:
            self._measured = (body, list(_places(body)))
        return self._measured[1]

    def _usage(self, body: JSON) -> JSON:
        """Input figures of an accepted request; its breakpoints are remembered."""
        places = self._measure(body)
        marks = [number for number, place in enumerate(places) if place.marked]
        hits = [
            place.size
            for mark in marks
            for place in places[max(0, mark - LOOK_BACK) : mark + 1]
            if place.digest in self._cached
        ]
        read = max(hits, default=0)
        written = max([places[mark].size for mark in marks if places[mark].size > read], default=read) - read
        self._cached |= {places[mark].digest for mark in marks}
        total, read, written = places[-1].tokens, read // BYTES_PER_TOKEN, written // BYTES_PER_TOKEN
        usage = {
            "input_tokens": total - read - written,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
        }
        self.usages.append(usage)
        return usage


@dataclass(frozen=True, slots=True)
class _Place:
    """The end of one block of a request: bytes and digest of all up to there."""

    size: int
    digest: bytes
    marked: bool

    @property
    def tokens(self) -> int:
        return -(-self.size // BYTES_PER_TOKEN)


def tokens(body: JSON) -> int:
    """Tokens of a request: its canonical bytes over four."""
    *_, last = _places(body)
    return last.tokens


def canonical(body: JSON) -> bytes:
    """What caches go by: tools, system, messages, block by block, without the marks themselves."""
    return b"".join(data for data, _ in _canonical(body))


def _places(body: JSON) -> Iterator[_Place]:
    size, hashed = 0, hashlib.sha256(body.get("model", "").encode())
    for data, marked in _canonical(body):
        size += len(data)
        hashed.update(data)
        yield _Place(size, hashed.digest(), marked)


def _canonical(body: JSON) -> Iterator[tuple[bytes, bool]]:
    """Each block's bytes and whether it bears a breakpoint, in the order of prefixes."""
    system = body.get("system") or []
    for tool in body.get("tools", ()):
        yield _bytes("tool", tool), "cache_control" in tool
    for block in blocks_of(system) if system else ():
        yield _bytes("system", block), "cache_control" in block
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            yield _bytes(message["role"], block), "cache_control" in block


def _bytes(role: str, block: JSON) -> bytes:
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps([role, plain], ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _signed(text: str, given: str) -> bool:
    return given == signature(text)


def _output(line: Says) -> int:
    return max(1, len(json.dumps(content(line, 0))) // BYTES_PER_TOKEN)


def _message(body: JSON, number: int, usage: JSON) -> JSON:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _parsed(line: Says) -> list[JSON]:
    """Whole blocks with inputs as objects, for an answer that is not streamed."""
    blocks = content(line, 0)
    return [block | {"input": json.loads(block["input"])} if block["type"] == "tool_use" else block for block in blocks]


_DELTAS = {"text": ("text", "text_delta", "text"), "tool_use": ("input", "input_json_delta", "partial_json")}


def _block_events(index: int, block: JSON, size: int) -> Iterator[JSON]:
    """The events of one block, in pieces of `size` characters."""

    def delta(fields: JSON) -> JSON:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    match block["type"]:
        case "text" | "tool_use" as kind:
            source, name, target = _DELTAS[kind]
            empty: Any = {} if kind == "tool_use" else ""
            yield {"type": "content_block_start", "index": index, "content_block": block | {source: empty}}
            yield from (delta({"type": name, target: piece}) for piece in _pieces(block[source], size))
        case "thinking":
            empty = block | {"thinking": "", "signature": ""}
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            yield from (
                delta({"type": "thinking_delta", "thinking": piece}) for piece in _pieces(block["thinking"], size)
            )
            yield delta({"type": "signature_delta", "signature": block["signature"]})
        case _:
            yield {"type": "content_block_start", "index": index, "content_block": block}
    yield {"type": "content_block_stop", "index": index}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    """The next request of a connection, or None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    arrived = monotonic()
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    return Asked(method, path, headers, raw, body, arrived)
