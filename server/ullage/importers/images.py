"""Pictures in recorded sessions: base64 to bytes, and their size from the first bytes of the usual formats."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct

from ullage.core.messages import BlobRef, Image

_UNKNOWN = (1, 1)
"""The size of a picture whose header we can't read: it is sent as it is, and the provider says what it thinks of it."""


def picture(data: str, media_type: str) -> tuple[Image, bytes] | None:
    """A picture and its bytes; None when it is no base64."""
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    width, height = _size(content)
    blob = BlobRef(hashlib.sha256(content).hexdigest(), len(content))
    return Image(blob, media_type or "image/png", width, height), content


def _size(content: bytes) -> tuple[int, int]:
    """Width and height in pixels."""
    try:
        if content.startswith(b"\x89PNG\r\n\x1a\n"):
            found = struct.unpack(">II", content[16:24])
        elif content.startswith((b"GIF87a", b"GIF89a")):
            found = struct.unpack("<HH", content[6:10])
        elif content.startswith(b"\xff\xd8"):
            found = _jpeg_size(content)
        else:
            return _UNKNOWN
    except (struct.error, IndexError):
        return _UNKNOWN
    width, height = found
    return (width, height) if width and height else _UNKNOWN


def _jpeg_size(content: bytes) -> tuple[int, int]:
    """From the first start-of-frame segment."""
    at = 2
    while at + 9 <= len(content):
        marker, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        at += 2 + max(2, length)
    return _UNKNOWN
