"""`read_output`: pages through the full text of a result that was shortened in this session."""

from __future__ import annotations

from ullage.core.errors import BadInput, Refused
from ullage.core.messages import Op
from ullage.core.ports import ToolOutcome
from ullage.tools.arguments import ReadOutputArguments
from ullage.tools.job import Job, outcome


def read_output(job: Job, arguments: ReadOutputArguments) -> ToolOutcome:
    """Show a part of the full text, by characters.

    Raises:
        Refused: this session knows no such reference, or its content is missing or damaged.
        BadInput: the offset is behind the end.
    """
    allowed = {ref.sha256: ref for ref in job.allowed_refs()}
    ref = allowed.get(arguments.reference)
    if ref is None:
        hint = "Use a reference that a shortened result of this session names."
        raise Refused("This session has no shortened result of that reference.", hint=hint, code="unknown_reference")
    content = job.blobs.get(ref)
    if content is None:
        hint = "Run the tool again."
        raise Refused("The full text is missing or damaged.", hint=hint, code="output_missing")
    text = content.decode("utf-8", "replace")
    if arguments.offset > len(text):
        hint = f"Use an offset below {len(text)}."
        raise BadInput(f"The text has {len(text)} characters; offset {arguments.offset} is behind its end.", hint=hint)
    return _page(job, text, arguments)


def _page(job: Job, text: str, arguments: ReadOutputArguments) -> ToolOutcome:
    most = min(arguments.characters, job.limits.page_characters)
    part = text[arguments.offset : arguments.offset + most]
    # The byte cap may split a character; what is left of it is dropped.
    part = part.encode()[: job.limits.result_bytes].decode("utf-8", "ignore")
    end = arguments.offset + len(part)
    where = f"characters {arguments.offset} to {end} of {len(text)}"
    note = f"{where}; read on with offset {end}" if end < len(text) else f"{where}: the end"
    return outcome(Op.READ, (), f"{where} of an earlier result", part, (note,))
