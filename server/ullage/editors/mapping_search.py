"""From what a search found to what stands on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.core.matching import Query, snippet
from ullage.core.passages import Passage
from ullage.editors import payloads_session as session
from ullage.editors.limits import Limits
from ullage.editors.mapping import summary_payload

if TYPE_CHECKING:
    from ullage.sessions.searching import SessionsFound


def search_payload(found: SessionsFound, limits: Limits) -> session.SearchResult:
    """What was found."""
    sessions = (
        session.FoundPayload(
            session=summary_payload(each.summary),
            hits=tuple(_hit(hit.passage, found.query, limits) for hit in each.hits),
        )
        for each in found.sessions
    )
    return session.SearchResult(sessions=tuple(sessions), complete=found.complete)


def _hit(passage: Passage, query: Query, limits: Limits) -> session.HitPayload:
    return session.HitPayload(
        seq=passage.seq,
        at=passage.at,
        message_id=passage.message_id,
        kind=passage.kind,
        label=passage.label[: limits.snippet_characters],
        snippet=snippet(passage.text, query, limits.snippet_characters),
    )
