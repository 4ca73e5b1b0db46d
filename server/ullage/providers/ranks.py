"""The rank table of o200k_base, shipped with the package so that counting never needs a network.

Invariant: what `read_ranks` returns is the published table, byte for byte. The shipped file's sha256 is checked at
every load; a test rebuilds the published text from it and compares that text's sha256 with the published one.

The table is stored packed (1 MB instead of 3.6, and quicker to read than its published base64 lines): zlib over a
little-endian u32 `n`, then `n` lengths of one byte, then the `n` tokens in rank order.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.core.errors import UllageError

NAME: Final = "o200k_base"
TABLE: Final = Path(__file__).with_name("data") / "o200k_base.ranks"
TABLE_SHA256: Final = "8c866d8a9169a585a00b0b43e116668ae8636bd4ebe25be6b7ec9ab977c1dbff"
PUBLISHED_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Of the published text; stated in tiktoken's `tiktoken_ext/openai_public.py`."""

_COUNT: Final = struct.Struct("<I")


class TableDamaged(UllageError):
    """The shipped table is missing or is not the one this version was built with."""

    default_code = "tokenizer_damaged"


def read_ranks(table: Path = TABLE) -> dict[bytes, int]:
    """Token bytes to rank.

    Raises:
        TableDamaged: the file cannot be read or its sha256 is wrong.
    """
    try:
        packed = table.read_bytes()
    except OSError as error:
        raise _damaged(f"cannot be read ({error.strerror})") from error
    if hashlib.sha256(packed).hexdigest() != TABLE_SHA256:
        raise _damaged("has a wrong checksum")
    return unpack(packed)


def _damaged(what: str) -> TableDamaged:
    return TableDamaged(
        f"the tokenizer's table {what}; token counts are estimates (bytes/4)",
        hint="Install ullage again.",
    )


def unpack(packed: bytes) -> dict[bytes, int]:
    """The inverse of `pack`."""
    plain = zlib.decompress(packed)
    (n_tokens,) = _COUNT.unpack_from(plain)
    start = _COUNT.size + n_tokens
    ranks: dict[bytes, int] = {}
    for rank, length in enumerate(plain[_COUNT.size : start]):
        end = start + length
        ranks[plain[start:end]] = rank
        start = end
    return ranks


def pack(published: bytes) -> bytes:
    """The packed form of a published table: lines of a base64 token, a space and its rank, in rank order.

    Raises:
        ValueError: the text is not the published table.
    """
    if hashlib.sha256(published).hexdigest() != PUBLISHED_SHA256:
        raise ValueError("this is not the published table of o200k_base")
    tokens = [base64.b64decode(line.split()[0]) for line in published.splitlines()]
    lengths = bytes(len(token) for token in tokens)
    return zlib.compress(_COUNT.pack(len(tokens)) + lengths + b"".join(tokens), 9)


def published_text(ranks: Mapping[bytes, int]) -> bytes:
    """The published form of a table, rebuilt."""
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    return b"".join(lines)
