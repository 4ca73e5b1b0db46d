"""A toolbox over a small workspace, and the one door through which the tools' tests go."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.workspace.hostile import CANARY

from ullage.core.matching import Query, parse_query
from ullage.core.messages import BlobRef
from ullage.core.ports import Recalled, ToolOutcome
from ullage.tools.limits import Limits
from ullage.tools.toolbox import Toolbox
from ullage.workspace.root import WorkspaceRoot


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, content: bytes) -> BlobRef:
        name = hashlib.sha256(content).hexdigest()
        self.contents[name] = content
        return BlobRef(name, len(content))

    def get(self, ref: BlobRef) -> bytes | None:
        return self.contents.get(ref.sha256)

    def has(self, ref: BlobRef) -> bool:
        return ref.sha256 in self.contents


@dataclass
class Hands:
    ws: Path
    root: WorkspaceRoot
    limits: Limits = field(default_factory=Limits)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    allowed: list[BlobRef] = field(default_factory=list)
    recalled: Recalled = field(default_factory=lambda: Recalled(Query(()), ()))
    """What a search finds, whatever it is asked."""
    seen: dict[str, str] = field(default_factory=dict)
    """sha256 by path, as the session last read or left it."""

    def recall(self, text: str, limit: int, stop: Callable[[], bool]) -> Recalled:
        return replace(self.recalled, query=parse_query(text), hits=self.recalled.hits[:limit])

    def toolbox(self, **options: Any) -> Toolbox:
        options = {"seen": self.seen.get, "writes": True, "limits": self.limits} | options
        return Toolbox(self.root, self.blobs, lambda: self.allowed, self.recall, **options)

    async def run(self, tool: str, **arguments: Any) -> ToolOutcome:
        """Run one call; whatever comes out, nothing of the outside is in it and it carries facts."""
        outcome = await self.toolbox().run(tool, json.dumps(arguments))
        assert CANARY not in repr(outcome)
        assert outcome.facts is not None and outcome.facts.detail
        self.seen |= dict(zip(outcome.facts.paths, outcome.facts.hashes, strict=False))
        return outcome

    async def good(self, tool: str, **arguments: Any) -> str:
        outcome = await self.run(tool, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.text

    async def refused(self, tool: str, *codes: str, **arguments: Any) -> str:
        """The text of an error whose code is one of `codes`."""
        outcome = await self.run(tool, **arguments)
        assert outcome.is_error and outcome.facts is not None and outcome.facts.detail is not None
        assert outcome.facts.detail.split(":")[0] in codes, outcome.text
        assert outcome.facts.paths == ()
        return outcome.text

    def write(self, **files: str | bytes) -> None:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (self.ws / name).write_bytes(data)
