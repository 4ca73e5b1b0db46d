"""One running call: what it may reach, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ullage.core.messages import BlobRef, Op, ToolFacts
from ullage.core.ports import Blobs, Recall, ToolOutcome
from ullage.tools.limits import Limits
from ullage.workspace.root import WorkspaceRoot
from ullage.workspace.walk import Budget, Stop


@dataclass(frozen=True, slots=True)
class Job:
    """The world of one call.

    `allowed_refs()` gives the shortened results this session may page through; `recall` searches what was said in it;
    `seen(path)` is the sha256 of a file as this session last read or left it.
    """

    root: WorkspaceRoot
    blobs: Blobs
    allowed_refs: Callable[[], Collection[BlobRef]]
    recall: Recall
    seen: Callable[[str], str | None]
    limits: Limits
    budget: Budget


STOPPED = {
    Stop.TIME: "the time limit was reached; what follows was not looked at",
    Stop.COUNT: "the workspace has more files than one search may visit",
    Stop.CANCELLED: "the call was cancelled",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """Lines that fit into a result: the text, and how many lines of it."""

    text: str
    lines: int


def fit(lines: Iterable[str], max_lines: int, max_bytes: int) -> Fitted:
    """As many whole lines as the caps allow."""
    kept: list[str] = []
    for line in lines:
        max_bytes -= len(line.encode()) + 1
        if len(kept) == max_lines or max_bytes < 0:
            break
        kept.append(line)
    return Fitted("\n".join(kept), len(kept))


def outcome(op: Op, paths: Iterable[str], detail: str, body: str, notes: Iterable[str] = ()) -> ToolOutcome:
    """A good outcome: the body, then each note on its own line in brackets."""
    parts = [body] if body else []
    parts += [f"[{note}]" for note in notes]
    return ToolOutcome("\n".join(parts), facts=ToolFacts(op, tuple(paths), detail=detail))
