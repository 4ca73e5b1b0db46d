"""What the maps between neutral messages and an API's JSON share.

Invariant: reading is total. Whatever JSON stands where a message should be, it is read as far as it can be, and what is
not understood becomes text that says so; nothing raises, and no lone surrogate gets in.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from ullage.core.errors import BadInput
from ullage.core.messages import BlobRef, Image, Message, Part, Role, Text, clean_text

LoadImage = Callable[[Image], bytes | None]
"""Bytes of an image, or None when they are gone."""

RAW_ARGUMENTS: Final = "_raw_arguments"
"""Key of the object that carries tool arguments which are no JSON object, as the raw text they came as."""

_WIRE_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OUTSIDE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def wire_id(call_id: str) -> str:
    """A call id as APIs take it: itself where it is valid, else made safe and told apart by a hash.

    Stable, so that a request's prefix stays the same bytes; two ids share a name only if their hashes collide.
    """
    if _WIRE_ID.fullmatch(call_id) and not _MADE.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_OUTSIDE.sub('_', call_id)[:44]}-x{digest}"


_MADE: Final = re.compile(r".*-x[0-9a-f]{16}")
"""An id that looks like one of ours is hashed as well, so that it can't meet one."""


def arguments_object(raw: str) -> dict[str, Any]:
    """Tool arguments as the object that an API wants; what is no object is carried under `RAW_ARGUMENTS`."""
    try:
        value = json.loads(raw or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {RAW_ARGUMENTS: raw}
    return value if isinstance(value, dict) else {RAW_ARGUMENTS: raw}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def arguments_text(value: Any) -> str:
    """Raw JSON text of arguments that came as a value; what was carried as raw text is that text again."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict) and value.keys() == {RAW_ARGUMENTS} and isinstance(value[RAW_ARGUMENTS], str):
        return clean_text(value[RAW_ARGUMENTS])
    return clean_text(json.dumps({} if value is None else value, ensure_ascii=False))


def string(value: Any) -> str:
    """A value as clean text: a string as it is, nothing for None, all else as JSON."""
    if isinstance(value, str):
        return clean_text(value)
    try:
        return "" if value is None else clean_text(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return "[a value that can't be told]"


def unknown_note(kind: Any, value: Any) -> Text:
    """What stands for a block of a kind that nobody knows here."""
    return Text(f"[{string(kind) or 'unknown'} block: {string(value)}]")


@dataclass(slots=True)
class ImageStore:
    """Images of one history, in memory: kept while it is read, loaded while it is written."""

    contents: dict[str, bytes] = field(default_factory=dict)

    def keep(self, media_type: Any, base64: Any) -> Image | Text:
        """The image, or a note where it is none that an API would take back."""
        try:
            content = b64decode(base64, validate=True)
        except (ValueError, TypeError):
            return Text("[an image that can't be read]")
        if media_type not in IMAGE_TYPES or not content:
            return Text(f"[{string(media_type) or 'image'} of a kind that can't be sent]")
        name = sha256(content).hexdigest()
        self.contents[name] = content
        return Image(BlobRef(name, len(content)), media_type, *pixels(content))

    def load(self, image: Image) -> bytes | None:
        return self.contents.get(image.blob.sha256)


IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


def pixels(content: bytes) -> tuple[int, int]:
    """Width and height that an image's header states; 1 x 1 where we can't read it."""
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) >= 24:
        return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if content.startswith((b"GIF87a", b"GIF89a")) and len(content) >= 10:
        return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")
    return _jpeg_pixels(content) if content.startswith(b"\xff\xd8") else (1, 1)


def _jpeg_pixels(content: bytes) -> tuple[int, int]:
    """From the first frame header: segments are a marker, a length, and so many bytes."""
    at = 2
    while at + 9 < len(content) and content[at] == 0xFF:
        if content[at + 1] in range(0xC0, 0xC4):
            height, width = content[at + 5 : at + 7], content[at + 7 : at + 9]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
        at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return 1, 1


def message(place: int, role: Role, parts: Sequence[Part]) -> Message:
    """A message of an imported history; its id is its place."""
    return Message(f"m{place}/{role}", role, tuple(parts), "")


def detect_shape(messages: list[Any]) -> str:
    """`anthropic` or `openai`, by what only one of them has; `anthropic` where nothing tells."""
    for each in messages:
        if not isinstance(each, Mapping):
            continue
        if each.get("role") in ("tool", "function", "system", "developer") or each.get("tool_calls"):
            return "openai"
        content = each.get("content")
        for block in content if isinstance(content, list) else ():
            kind = block.get("type") if isinstance(block, Mapping) else None
            if kind in ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"):
                return "anthropic"
            if kind in ("image_url", "input_audio", "refusal"):
                return "openai"
    return "anthropic"


def checked(messages: Any) -> list[Any]:
    """The messages of a body.

    Raises:
        BadInput: they are no list of objects.
    """
    if not isinstance(messages, list):
        raise BadInput("`messages` must be a list.", hint='Give {"messages": [...], "budget_tokens": N}.')
    for place, each in enumerate(messages):
        if not isinstance(each, dict):
            raise BadInput(f"Message {place} is no object.", hint="Every message is an object with role and content.")
    return messages
