"""Limits of the workspace door. `settings` composes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on what is opened, walked and restored. The figures are ours unless a source is named."""

    path_characters: int = 4096
    """Longest path text accepted; Linux's own PATH_MAX."""

    path_names: int = 128
    """Most names in a path; each costs a look for a link and for a `.gitignore`, so thousands would stall a call."""

    file_bytes: int = 128 * 1024 * 1024
    """Biggest regular file that is opened at all; scanning this much for a line takes well under a second."""

    written_bytes: int = 8 * 1024 * 1024
    """Biggest file that is changed, before and after: more is data, not text that somebody edits."""

    folder_entries: int = 100_000
    """Most entries taken from one folder; what lies beyond is reported as cut."""

    walk_entries: int = 1_000_000
    """Most entries one walk looks at before it stops and says so."""

    walk_depth: int = 100
    """Deepest folder a walk enters; only bind mounts make loops here, since links are never followed."""

    ignore_file_bytes: int = 256 * 1024
    """Biggest `.gitignore` that is read; a bigger one counts as absent."""

    instruction_bytes: int = 64 * 1024
    """Bytes of each instruction file (AGENTS.md) that are read; what lies beyond is cut, and the model is told so."""

    instruction_folders: int = 32
    """Folders looked into for instruction files before a step: the root, and the nearest to what was touched last."""

    restored_files: int = 5
    """Files put back after a compaction, taken after filtering (the published rule: filter first, limit second)."""

    restored_lines: int = 200
    """Lines of each restored file."""

    restored_bytes: int = 8 * 1024
    """Bytes of each restored file; a line cap alone lets one minified line fill the window."""

    restored_candidates: int = 200
    """Most recent files looked at while searching for the ones to restore."""

    command_seconds: float = 600.0
    """Longest a command may run, by the clock, before it and all it started are ended; a call may ask for less."""

    command_default_seconds: float = 120.0
    """How long a command may run where its call says nothing."""

    command_grace_seconds: float = 2.0
    """Between SIGTERM and SIGKILL, when a command is ended."""

    background_commands: int = 8
    """Most commands of one session that may run in the background."""

    output_head: int = 8_000
    """Characters kept of the beginning of a long output."""

    output_tail: int = 24_000
    """Characters kept of the end of a long output; ends hold failures and counts, so this is the larger part."""

    output_bytes: int = 64 * 1024 * 1024
    """Most bytes of one command's output that are stored; what comes after is counted only."""

    live_seconds: float = 0.1
    """How often at most a running command's output is told to a client."""

    live_characters: int = 4_096
    """Most characters told at a time, the newest; a place in the output shows what was skipped."""
