"""`edit`: texts of a file replaced by others."""

from __future__ import annotations

from ullage.core.errors import BadInput
from ullage.tools.arguments import EditArguments
from ullage.tools.changing import Change, Plan, existing
from ullage.tools.job import Job
from ullage.tools.replacing import replaced
from ullage.workspace.paths import shown


def edit(job: Job, arguments: EditArguments) -> Plan:
    """Plan every edit of the call, each on what the one before it left; all of them or none.

    Raises:
        Refused: what `existing` says, or `not_encodable`.
        BadInput: as `existing`, or the place of an edit is not one place; it says which edit.
    """
    path = job.root.locate(arguments.path)
    before = after = existing(job, path)
    for number, each in enumerate(arguments.edits, 1):
        try:
            after = replaced(shown(str(path)), after, each.old_text, each.new_text, every=each.all)
        except BadInput as error:
            if len(arguments.edits) == 1:
                raise
            report = error.report
            raise BadInput(f"Edit {number}: {report.message}", hint=report.hint, code=report.code) from None
    return [Change(path, before, after)]
