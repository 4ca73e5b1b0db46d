"""Messages of two kinds: one long string, and very many small objects. And taking one in."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ullage.wire import rpc
from ullage.wire.framing import Body, Framer, frame
from ullage.wire.limits import MIB, Limits

SMALL = {"path": "src/a.py", "line": 12, "kind": "changed"}


def body_of(kind: str, mib: int) -> bytes:
    """A notification whose body has just less than so many MiB; `kind` is `string` or `objects`."""
    size = mib * MIB - 100
    objects = kind == "objects"
    content = [SMALL] * (size // (len(json.dumps(SMALL)) + 2)) if objects else "lorem ipsum " * (size // 12)
    return json.dumps({"jsonrpc": "2.0", "method": "ullage/none", "params": {"content": content}}).encode("ascii")


def pieces_of(body: bytes) -> list[bytes]:
    """The body's frame in the pieces that a pipe gives."""
    data, size = frame(body), Limits().chunk
    return [data[at : at + size] for at in range(0, len(data), size)]


def receive(pieces: Sequence[bytes]) -> list[rpc.Message]:
    """Bytes to messages."""
    framer = Framer()
    frames = [each for piece in pieces for each in framer.feed(piece)]
    assert all(isinstance(each, Body) for each in frames), frames
    return [message for each in frames if isinstance(each, Body) for message in rpc.parse(each.data)]
