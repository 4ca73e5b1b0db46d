"""What a scripted Messages API answers, written down beforehand (see `testing.messages_api`).

    script = [says("I look.", use("read", path="a.py")), refuses(529, "overloaded_error"), says("Done.")]

A script is any iterable of lines, endless ones included; a function in it makes its line from the request's JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ullage.testing.messages_rules import JSON


class Ending(Enum):
    """How the stream of a line ends after its blocks."""

    WHOLE = "whole"
    CUT = "cut"
    """The connection's body just ends: no stop reason, no error."""
    RESET = "reset"
    """The connection is closed in the middle of the body."""
    STALL = "stall"
    """Nothing more comes until the client goes."""
    ERROR = "error"
    """An error event, with status 200."""


@dataclass(frozen=True, slots=True)
class Use:
    """A tool use; `arguments` is the text that is streamed as its input, valid JSON or not."""

    name: str
    arguments: str
    use_id: str | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """Thinking; it is signed by the server."""

    text: str


@dataclass(frozen=True, slots=True)
class Raw:
    """A block as it stands, streamed by its start alone (`redacted_thinking`, or a type of the future)."""

    block: JSON


Block = str | Use | Thought | Raw


@dataclass(frozen=True, slots=True)
class Says:
    """An answer. `stop` None means `tool_use` or `end_turn`; `usage` is laid over the honest figures."""

    blocks: tuple[Block, ...] = ()
    stop: str | None = None
    ending: Ending = Ending.WHOLE
    error: tuple[str, str] = ("api_error", "Internal server error")
    """Type and message of the error event that ends the stream."""
    usage: JSON = field(default_factory=dict)
    pieces: int = 24
    """Characters of one delta."""


@dataclass(frozen=True, slots=True)
class Refuses:
    """An HTTP error. `body` is sent as it is, else the API's JSON is."""

    status: int
    kind: str = "api_error"
    message: str = "Refused by the script."
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None


Line = Says | Refuses | Callable[[JSON], "Says | Refuses"]


def use(tool: str, /, **arguments: Any) -> Use:
    """A tool use with arguments as JSON."""
    return Use(tool, json.dumps(arguments))


def says(*blocks: Block, stop: str | None = None, **usage: Any) -> Says:
    """Text, thoughts and uses, in order."""
    return Says(blocks, stop, usage=usage)


def refuses(status: int, kind: str, message: str = "Refused by the script.", **headers: str) -> Refuses:
    """An HTTP error; `retry_after="1"` becomes a header."""
    return Refuses(status, kind, message, tuple((name.replace("_", "-"), value) for name, value in headers.items()))


def page(status: int, text: str = "<html><body>413 Request Entity Too Large</body></html>") -> Refuses:
    """An HTTP error of something in between: a page of HTML."""
    return Refuses(status, body=text, headers=(("content-type", "text/html"),))


def breaks(text: str, kind: str, message: str = "Overloaded") -> Says:
    """Some text, then an error event in a stream of status 200."""
    return Says((text,) if text else (), ending=Ending.ERROR, error=(kind, message))


def cut(*blocks: Block) -> Says:
    """Blocks, then the stream ends without a stop reason."""
    return Says(blocks, ending=Ending.CUT)


def reset(*blocks: Block) -> Says:
    """Blocks, then the connection is closed in the middle of the body."""
    return Says(blocks, ending=Ending.RESET)


def stalls(*blocks: Block) -> Says:
    """Blocks, then nothing."""
    return Says(blocks, ending=Ending.STALL)


def signature(text: str) -> str:
    """How the server signs thinking."""
    return "sig-" + hashlib.sha256(text.encode()).hexdigest()[:32]


def content(line: Says, answer: int) -> list[JSON]:
    """The blocks of an answer as the API gives them whole; `answer` is its number, for ids."""
    blocks: list[JSON] = []
    for place, block in enumerate(line.blocks):
        match block:
            case str():
                blocks.append({"type": "text", "text": block})
            case Thought(text):
                blocks.append({"type": "thinking", "thinking": text, "signature": signature(text)})
            case Use(name, arguments, use_id):
                blocks.append(
                    {"type": "tool_use", "id": use_id or f"toolu_{answer}_{place}", "name": name, "input": arguments}
                )
            case Raw(raw):
                blocks.append(raw)
    return blocks


def stop_of(line: Says) -> str:
    uses = any(isinstance(block, Use) for block in line.blocks)
    return line.stop or ("tool_use" if uses else "end_turn")
