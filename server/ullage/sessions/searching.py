"""Searching what was said: by the model in its own session, and by a person in all sessions of a workspace.

SQLite and all that needs it are loaded by the first search.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ullage.core.matching import Hit, Query, parse_query, weights
from ullage.core.passages import Passage
from ullage.core.ports import Recall, Recalled
from ullage.core.state import MessageItem, State
from ullage.sessions.ports import Ports
from ullage.storage.ids import workspace_key
from ullage.storage.index import SessionSummary

HITS_A_SESSION = 3
"""Hits shown of each session in a workspace's search."""


@dataclass(frozen=True, slots=True)
class SessionHits:
    """A session in which something was found, the best hit first."""

    summary: SessionSummary
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class SessionsFound:
    """What a workspace's search found, the best session first."""

    query: Query
    sessions: tuple[SessionHits, ...]
    complete: bool


def make_recall(ports: Ports, state: Callable[[], State]) -> Recall:
    """The search of one session, for its model: what the model sees anyway comes last."""

    def recall(text: str, limit: int, stop: Callable[[], bool]) -> Recalled:
        from ullage.storage.search import Scope, Search

        query, now = parse_query(text), state()
        session, root = now.facts.session_id, now.facts.root
        scope = Scope(query, (session,), limit, stop, in_view=_sees(now))
        searched = Search(ports.files, ports.home, workspace_key(root)).search(scope)
        ranking = searched.rankings.get(session)
        hits = [] if ranking is None else ranking.best(weights(query, [ranking]), limit)
        return Recalled(query, tuple(hits), searched.complete)

    return recall


def _sees(state: State) -> Callable[[Passage], bool]:
    """Whether the model has a passage before it. Messages from before the checkpoint may be shortened by it."""
    epoch = state.facts.epoch
    said = (item for item in state.items if isinstance(item, MessageItem) and item.seq > epoch)
    ids = {item.message.message_id for item in said}
    return lambda passage: passage.full is None and passage.message_id in ids


async def search_sessions(
    ports: Ports,
    root: str,
    summaries: Sequence[SessionSummary],
    synced: Mapping[str, int],
    text: str,
    limit: int,
) -> SessionsFound:
    """Search these sessions of a workspace; of one in `synced` only what is durable. Cancelling ends it soon."""
    ended = threading.Event()
    deadline = time.monotonic() + ports.limits.tools.seconds

    def stop() -> bool:
        return ended.is_set() or time.monotonic() > deadline

    try:
        return await asyncio.to_thread(_search_sessions, ports, root, summaries, synced, text, limit, stop)
    finally:
        ended.set()


def _search_sessions(
    ports: Ports,
    root: str,
    summaries: Sequence[SessionSummary],
    synced: Mapping[str, int],
    text: str,
    limit: int,
    stop: Callable[[], bool],
) -> SessionsFound:
    from ullage.storage.search import Scope, Search

    query, known = parse_query(text), {summary.session_id: summary for summary in summaries}
    search = Search(ports.files, ports.home, workspace_key(root))
    sessions = [session for session in search.sessions() if session in known]

    def may_show(session: str, seq: int) -> bool:
        return session not in synced or seq <= synced[session]

    searched = search.search(Scope(query, sessions, HITS_A_SESSION, stop, may_show))
    worth = weights(query, searched.rankings.values())
    found = [
        SessionHits(known[session], tuple(hits))
        for session, ranking in searched.rankings.items()
        if (hits := ranking.best(worth, HITS_A_SESSION))
    ]
    found.sort(key=lambda each: (-each.hits[0].score, -each.summary.updated_at, each.summary.session_id))
    return SessionsFound(query, tuple(found[:limit]), searched.complete)
