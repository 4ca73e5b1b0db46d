"""`glob`: paths of files whose path matches a pattern."""

from __future__ import annotations

from ullage.core.messages import Op
from ullage.core.ports import ToolOutcome
from ullage.tools.arguments import GlobArguments
from ullage.tools.job import STOPPED, Job, fit, outcome
from ullage.tools.patterns import parse_pattern
from ullage.workspace.ignore import IgnoreRules
from ullage.workspace.paths import shown
from ullage.workspace.walk import Walk


def glob(job: Job, arguments: GlobArguments) -> ToolOutcome:
    """Show matching paths by name; ignored files and links are left out.

    Raises:
        Refused: the door said no, to the folder or to the pattern.
        BadInput: the pattern cannot be used.
    """
    base = job.root.locate(arguments.path)
    pattern = parse_pattern(job, arguments.pattern, base)
    walk = Walk(job.root, base, IgnoreRules(job.root, base), job.budget)
    limit = min(arguments.limit, job.limits.entries)
    found: list[str] = []
    for entry in walk:
        if pattern.matches(entry.path):
            found.append(str(entry.path))
            if len(found) > limit:
                break
    fitted = fit((shown(path) for path in found), limit, job.limits.result_bytes)
    notes = [STOPPED[walk.stopped]] if walk.stopped else []
    if fitted.lines < len(found):
        notes.append(f"only the first {fitted.lines} paths are shown; narrow the pattern for more")
    if not found:
        notes.append("no file matches")
    detail = f"{fitted.lines} paths match '{shown(arguments.pattern)}'"
    return outcome(Op.SEARCH, found[: min(fitted.lines, job.limits.noted_paths)], detail, fitted.text, notes)
