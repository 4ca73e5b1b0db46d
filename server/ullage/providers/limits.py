"""Limits of the providers. `settings` composes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`explorer_*`: how much the offline explorer reads and says; `anthropic_*`: how long a model is waited for, and
    thinks. The figures are ours."""

    explorer_window: int = 32_000
    """Tokens of context it pretends to have; small, so that a session shows what happens when one fills."""

    explorer_answer_tokens: int = 1_200
    """Most tokens of one answer, tool calls included."""

    explorer_steps: int = 60
    """Most model calls for one prompt; the last one is the report."""

    explorer_files: int = 40
    """Most files begun for one prompt; a follow-up prompt goes on with others."""

    explorer_depth: int = 12
    """Deepest folder, counted from the workspace, whose files are read."""

    explorer_lines_per_step: int = 200
    """Lines asked for in one step, shared by the reads that run side by side."""

    explorer_reads_per_step: int = 2
    """Reads that run side by side."""

    explorer_lines_per_file: int = 800
    """Lines read of one file before the next one is taken."""

    explorer_file_bytes: int = 400_000
    """Bigger files are listed and not read: they are data more often than text."""

    explorer_listed: int = 300
    """Most entries asked of one listing; about 4,000 tokens."""

    explorer_hits: int = 20
    """Most hits asked of one search."""

    explorer_findings: int = 6
    """Findings of each kind carried from step to step; fewer where an answer would grow too long."""

    explorer_queue: int = 10
    """Next files named in the plan; more are taken from a new listing when these are read."""

    explorer_path_characters: int = 160
    """Files with a longer path are left out, since the plan names them in every answer."""

    explorer_excerpt_characters: int = 60
    """Characters shown of a line that was found."""

    explorer_delta_characters: int = 48
    """Characters of one piece of the streamed answer."""

    explorer_pace: float = 0.0
    """Seconds waited between two pieces, for demonstrations."""

    anthropic_tries: int = 5
    """Most times that one request is sent; after the first time, only as long as nothing was answered."""

    anthropic_first_wait: float = 1.0
    """Seconds before the second try, twice as many before each one after it, where the provider says nothing."""

    anthropic_longest_wait: float = 60.0
    """Seconds of the longest wait. A provider that asks for more is not waited for: the turn ends and says so."""

    anthropic_thinking: int = 0
    """Tokens that the model is asked to think with before it answers, half of the answer's room at most; below 1,024,
    none are asked for and the model does as it does by itself."""

    anthropic_connect: float = 10.0
    """Seconds that connecting may take, and asking for what is known of a model."""

    anthropic_silence: float = 180.0
    """Seconds without a byte after which a stream is given up; the API itself sends one at least every few seconds."""
