"""Rows of the wire: taking in large messages."""

from __future__ import annotations

from collections.abc import Iterator

from bodies import body_of, pieces_of, receive
from children import run_child
from floors.parse import parse
from report import Row, compare, cpu

NAMES = {"string": "one long string", "objects": "small objects"}
MOST_MEMORY = {"string": 6, "objects": 25}
"""Times its size that a message of the largest size may take in memory."""


def rows() -> Iterator[Row]:
    """Every row of this group."""
    for kind, name in NAMES.items():
        body = body_of(kind, 1)
        pieces = pieces_of(body)
        ours, floor = compare(lambda: receive(pieces), lambda: parse(body), 15, cpu)  # noqa: B023  # called at once
        yield Row(
            f"body.{kind}", f"message of 1 MiB, {name}: framed and parsed", "ms", 1e3 * ours, 1e3 * floor, most=50
        )
    for kind, name in NAMES.items():
        size = len(body_of(kind, 16)) / 2**20
        memory = run_child("receive", kind, 16)["mib"]
        what = f"memory for a message of 16 MiB, {name}, against its size"
        yield Row(f"body.memory.{kind}", what, "MiB", memory, size, MOST_MEMORY[kind])
