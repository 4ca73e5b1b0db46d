"""`grep`: lines that match a regular expression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ullage.core.errors import BadInput, Refused
from ullage.core.messages import Op
from ullage.core.ports import ToolOutcome
from ullage.tools.arguments import GrepArguments
from ullage.tools.job import STOPPED, Job, fit, outcome
from ullage.tools.matcher import BudgetEnded, Matcher
from ullage.tools.patterns import PathPattern, parse_pattern
from ullage.workspace.entries import Kind
from ullage.workspace.ignore import IgnoreRules
from ullage.workspace.paths import WorkspacePath, shown
from ullage.workspace.walk import Stop, Walk

_SNIFFED = 8192  # bytes in which a NUL marks a file as binary, as git does it


@dataclass(slots=True)
class _Found:
    """What a search gathers on its way."""

    rows: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    skipped: int = 0
    unread: int = 0
    stopped: Stop | None = None


def grep(job: Job, arguments: GrepArguments) -> ToolOutcome:
    """Show matching lines as `path:line: text`; ignored, binary and linked files are left out.

    Raises:
        Refused: the door said no.
        BadInput: the pattern cannot be used.
    """
    start = job.root.locate(arguments.path)
    kind = job.root.stat(start).kind  # a missing path is an error at once
    if len(arguments.pattern) > job.limits.pattern_characters:
        raise BadInput("The pattern is too long.", hint=f"Use {job.limits.pattern_characters} characters at most.")
    base = start if kind is Kind.FOLDER else WorkspacePath(start.parts[:-1])
    only = parse_pattern(job, arguments.glob, base) if arguments.glob else None
    limit = min(arguments.limit, job.limits.entries)
    found = _Found()
    paths: Iterable[WorkspacePath] = _files(job, start, only, found) if kind is Kind.FOLDER else (start,)
    _search(job, arguments, paths, found, limit)
    fitted = fit(found.rows, limit, job.limits.result_bytes)
    detail = f"{len(found.rows)} hits for '{shown(arguments.pattern)}' in {len(found.paths)} files"
    notes = list(_notes(found, fitted.lines))
    return outcome(Op.SEARCH, found.paths[: job.limits.noted_paths], detail, fitted.text, notes)


def _files(job: Job, start: WorkspacePath, only: PathPattern | None, found: _Found) -> Iterator[WorkspacePath]:
    walk = Walk(job.root, start, IgnoreRules(job.root, start), job.budget)
    for entry in walk:
        if only is None or only.matches(entry.path):
            yield entry.path
    found.stopped = walk.stopped
    found.unread = walk.unread


def _search(job: Job, arguments: GrepArguments, paths: Iterable[WorkspacePath], found: _Found, limit: int) -> None:
    """Fill `found` until there is one hit more than the limit, which tells that more exist."""
    try:
        with Matcher(arguments.pattern, arguments.ignore_case, job.limits, job.budget) as matcher:
            for path in paths:
                content = _content(job, path, found)
                hits = matcher.hits(content) if content else []
                if hits:
                    found.paths.append(str(path))
                    found.rows += [f"{shown(str(path))}:{number}: {line}" for number, line in hits]
                if len(found.rows) > limit:
                    return
    except BudgetEnded as ended:
        found.stopped = ended.stop


def _content(job: Job, path: WorkspacePath, found: _Found) -> bytes | None:
    """The file's bytes, None for what is not searched."""
    try:
        content = job.root.read(path, at_most=job.limits.searched_bytes)
    except Refused as refused:
        if refused.report.code == "root_gone":
            raise
        found.unread += 1  # removed or swapped for a link since the walk saw it
        return None
    if content.cut or b"\0" in content.data[:_SNIFFED]:
        found.skipped += 1
        return None
    return content.data


def _notes(found: _Found, shown_rows: int) -> Iterator[str]:
    if found.stopped:
        yield STOPPED[found.stopped]
    if shown_rows < len(found.rows):
        yield f"only the first {shown_rows} hits are shown; narrow the search for more"
    if found.skipped:
        yield f"{found.skipped} binary or very big files were not searched"
    if found.unread:
        yield f"{found.unread} files or folders could not be read"
    if not found.rows:
        yield "no line matches"
