"""`recall`: finds by words what was said in this session, also what the model's context does not hold any more."""

from __future__ import annotations

from collections.abc import Collection

from ullage.core.matching import Hit, Query, snippet
from ullage.core.messages import BlobRef, Op
from ullage.core.passages import PassageKind
from ullage.core.ports import ToolOutcome
from ullage.tools.arguments import RecallArguments
from ullage.tools.job import Job, outcome
from ullage.workspace.paths import shown

_SAID = {
    PassageKind.PROMPT: "the user said",
    PassageKind.ANSWER: "you said",
    PassageKind.CALL: "you called",
    PassageKind.RESULT: "result of",
    PassageKind.TITLE: "title",
}
_LABEL_CHARS = 200


def recall(job: Job, arguments: RecallArguments) -> ToolOutcome:
    """Show the best passages, each with its place; together they keep to `recall_characters`."""
    found = job.recall(
        arguments.query, min(arguments.limit, job.limits.recall_hits), lambda: job.budget.stop() is not None
    )
    room = job.limits.recall_characters // max(1, len(found.hits))
    allowed = job.allowed_refs()
    texts = (_shown(number, hit, found.query, room, allowed) for number, hit in enumerate(found.hits, 1))
    notes = [] if found.hits else ["nothing found; other words may find it"]
    if not found.complete:
        notes.append("not everything could be searched in time")
    detail = f"{len(found.hits)} passages for '{shown(arguments.query[:_LABEL_CHARS])}'"
    return outcome(Op.SEARCH, (), detail, "\n\n".join(texts), notes)


def _shown(number: int, hit: Hit, query: Query, room: int, allowed: Collection[BlobRef]) -> str:
    passage = hit.passage
    head = f"{number}. {_SAID[passage.kind]} {shown(passage.label[:_LABEL_CHARS])}".rstrip()
    place = f"message {passage.message_id}, seq {passage.seq}" if passage.message_id else f"seq {passage.seq}"
    notes = ["still in your context"] if hit.in_view else []
    if passage.full in allowed and passage.full is not None:
        notes.append(f"for more: read_output with {passage.full.sha256}, offset {passage.offset}")
    text = snippet(passage.text, query, room)
    return f"{head} ({'; '.join([place, *notes])}):\n{text}"
