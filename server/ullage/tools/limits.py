"""Limits of the tools. `settings` composes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on what one call may cost and give back. Every cap that bites is named in the result."""

    seconds: float = 20.0
    """Longest one call may work, by the clock."""

    result_bytes: int = 64 * 1024
    """Most bytes of text one call gives back: what a client takes in one update."""

    read_lines: int = 2_000
    """Most lines one `read` gives back."""

    line_characters: int = 2_000
    """Longest line shown whole by `read`; the rest of a longer one is cut."""

    entries: int = 1_000
    """Most entries, paths or hits one `list`, `glob` or `grep` gives back."""

    hit_characters: int = 240
    """Characters of a line shown around a `grep` hit."""

    searched_bytes: int = 16 * 1024 * 1024
    """Biggest file `grep` looks into; bigger ones are counted as skipped."""

    pattern_characters: int = 1_000
    """Longest pattern accepted by `glob` and `grep`."""

    alternatives: int = 64
    """Most patterns the braces of one `glob` pattern may stand for."""

    page_characters: int = 32_000
    """Most characters one `read_output` gives back."""

    recall_hits: int = 20
    """Most passages one `recall` gives back."""

    recall_characters: int = 8_000
    """Most characters of passages one `recall` gives back, shared by all of them."""

    diff_characters: int = 256 * 1024
    """Characters of the diff that a person is shown before files are changed; what is cut off is said."""

    noted_paths: int = 20
    """Most paths a search writes into its facts."""
