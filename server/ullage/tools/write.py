"""`write`: a file's whole content."""

from __future__ import annotations

from ullage.tools.arguments import WriteArguments
from ullage.tools.changing import Change, Plan, load
from ullage.tools.job import Job
from ullage.workspace.encoding import Decoded, encode


def write(job: Job, arguments: WriteArguments) -> Plan:
    """Plan a new file in UTF-8, or new content for one that was read, whose encoding, mark and line ends stay.

    Raises:
        Refused: what `load` says, or `not_encodable`.
        BadInput: as `load`.
    """
    path = job.root.locate(arguments.path)
    before = load(job, path)
    if before is None:
        return [Change(path, None, Decoded(arguments.content.encode(), arguments.content, "utf-8"))]
    text = arguments.content.replace("\r\n", "\n").replace("\n", before.line_end)
    return [Change(path, before, Decoded(before.mark + encode(text, before), text, before.encoding, before.mark))]
