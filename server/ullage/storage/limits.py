"""Bounds of storage. They are no settings: whatever they are, a log says the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes of what is read and kept. The figures are ours unless a source is named."""

    block_bytes: int = 1024 * 1024
    """Bytes that a scan of a log reads at a time; memory is this and the longest line."""

    head_bytes: int = 4 * 1024
    """Bytes read first when a header line is looked for; a header is about 300."""

    tail_bytes: int = 32 * 1024
    """Bytes read first from the end of a log; grows while they hold no good line."""

    listing_head_bytes: int = 16 * 1024
    """Bytes read from the beginning of each log for a list; with the tail and a checkpoint's head it stays
    below the 64 KiB a file that listing a thousand sessions may cost."""

    listing_checkpoint_bytes: int = 8 * 1024
    """Bytes read from the beginning of a checkpoint line for a list: its facts begin there."""

    owner_reads: int = 50
    """How often a busy lock is looked at, a millisecond apart, before its owner counts as unknown."""

    indexed_passages: int = 3_000
    """Passages that one search puts into the index, about 2 s of work; the rest of the logs is searched as it is, and
    indexed by later searches."""


BOUNDS = Bounds()
