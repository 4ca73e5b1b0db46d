"""`list`: what is in a folder."""

from __future__ import annotations

from collections.abc import Iterator

from ullage.core.messages import Op
from ullage.core.ports import ToolOutcome
from ullage.tools.arguments import ListArguments
from ullage.tools.job import STOPPED, Job, fit, outcome
from ullage.workspace.entries import Entry, Kind
from ullage.workspace.ignore import IgnoreRules
from ullage.workspace.paths import WorkspacePath, shown
from ullage.workspace.walk import Walk


def list_entries(job: Job, arguments: ListArguments) -> ToolOutcome:
    """Show a folder, or all files below it, with sizes in bytes; ignored entries are left out.

    Raises:
        Refused: the door said no.
    """
    path = job.root.locate(arguments.path)
    rows, notes = _below(job, path) if arguments.recursive else _inside(job, path)
    limit = min(arguments.limit, job.limits.entries)
    fitted = fit(rows, limit, job.limits.result_bytes)
    if fitted.lines < len(rows):
        notes.append(f"{fitted.lines} of {len(rows)} entries are shown; list a folder below to see more")
    if not rows:
        notes.append("nothing here, or all of it is ignored")
    return outcome(Op.SEARCH, (), f"{len(rows)} entries in {shown(str(path))}", fitted.text, notes)


def _inside(job: Job, path: WorkspacePath) -> tuple[list[str], list[str]]:
    folder = job.root.list(path, sizes=True)
    rules = IgnoreRules(job.root, path)
    seen = [entry for entry in folder.entries if not rules.ignored(entry.path, entry.kind is Kind.FOLDER)]
    notes = _notes(hidden=len(folder.entries) - len(seen), unnamed=folder.unnamed, cut=folder.cut)
    return [_row(job, entry) for entry in seen], list(notes)


def _below(job: Job, path: WorkspacePath) -> tuple[list[str], list[str]]:
    walk = Walk(job.root, path, IgnoreRules(job.root, path), job.budget, sizes=True)
    rows = [f"{shown(str(entry.path))}  {entry.size}" for entry in walk]
    return rows, [STOPPED[walk.stopped]] if walk.stopped else []


def _row(job: Job, entry: Entry) -> str:
    name = shown(entry.path.name)
    match entry.kind:
        case Kind.FOLDER:
            return f"{name}/"
        case Kind.LINK:
            target = job.root.link_target(entry.path) or "?"
            return f"{name} -> {shown(target)}  (link, not followed)"
        case Kind.OTHER:
            return f"{name}  (not a regular file)"
        case Kind.FILE:
            return f"{name}  {entry.size}"


def _notes(*, hidden: int, unnamed: int, cut: bool) -> Iterator[str]:
    if hidden:
        yield f"{hidden} ignored entries are not shown"
    if unnamed:
        yield f"{unnamed} entries have a name that is not UTF-8 and cannot be reached"
    if cut:
        yield "this folder has more entries than are looked at"
