"""The recorded sessions that ULLAGE_DATA names, each read once a process."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from ullage.cli.replay import Remembering
from ullage.core.ports import TokenCounter
from ullage.importers.reading import read
from ullage.importers.story import Imported
from ullage.providers.tokens import load_counter

DATA = os.environ.get("ULLAGE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="ULLAGE_DATA does not say where recorded sessions are")

FILES = (
    "claude-code-parallel.jsonl",
    "claude-code-3-compactions.jsonl",
    "claude-code-user-image.jsonl",
    "codex-rollout-2-compactions.jsonl",
    "pi-before-compaction.jsonl",
    "pi-large-session.jsonl",
)


@cache
def counter() -> TokenCounter:
    return Remembering(load_counter())


@cache
def session(name: str) -> Imported:
    """Fails, and does not skip, when the folder is named and the file is not there."""
    return read(Path(str(DATA)) / name, counter())
