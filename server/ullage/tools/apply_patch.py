"""`apply_patch`: several places of several files in one call."""

from __future__ import annotations

from ullage.core.errors import BadInput, Refused
from ullage.tools.arguments import PatchArguments
from ullage.tools.changing import Change, Plan, existing
from ullage.tools.job import Job
from ullage.tools.patch import Act, FilePatch, added, parse_patch, updated
from ullage.workspace.encoding import Decoded
from ullage.workspace.paths import WorkspacePath, shown


def apply_patch(job: Job, arguments: PatchArguments) -> Plan:
    """Plan every file of a patch; nothing is written unless all of it fits.

    Raises:
        BadInput: `bad_patch`, or a hunk's lines are not in one place.
        Refused: a file is not as it must be.
    """
    plan = [_change(job, file) for file in parse_patch(arguments.patch)]
    paths = [change.path for change in plan]
    for path in paths:
        if paths.count(path) > 1:
            message = f"'{shown(str(path))}' stands twice in the patch."
            raise BadInput(message, hint="Put all its hunks below one '*** Update File'.", code="bad_patch")
    return plan


def _change(job: Job, file: FilePatch) -> Change:
    path = job.root.locate(file.path)
    match file.act:
        case Act.ADD:
            if _is_there(job, path):
                message = f"'{shown(str(path))}' is there already; nothing was changed."
                raise Refused(message, hint="Read it, then update it instead.", code="exists")
            text = added(file)
            return Change(path, None, Decoded(text.encode(), text, "utf-8"))
        case Act.UPDATE:
            before = existing(job, path)
            return Change(path, before, updated(shown(str(path)), before, file))
        case Act.DELETE:
            return Change(path, existing(job, path), None)


def _is_there(job: Job, path: WorkspacePath) -> bool:
    try:
        job.root.stat(path)
    except Refused as refused:
        if refused.report.code == "not_found":
            return False
        raise
    return True
