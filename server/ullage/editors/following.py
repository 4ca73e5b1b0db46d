"""What a client hears of sessions: only of those it opened, and of each exactly what it has not heard yet.

Invariant: durable updates of a session reach the client in ascending seq, each once for each opening, none left out
from `from_seq` on. While the past is sent, what happens meanwhile is not told but read from the log in the next round;
between the round that finds nothing new and the switch to live updates nothing is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from ullage.editors import mapping, mapping_context
from ullage.editors.limits import Limits
from ullage.editors.methods import COMPACTION, OCCUPANCY, SESSION_UPDATE, WARNING
from ullage.editors.payloads import Payload
from ullage.sessions.notices import Compacted, Delta, DeltaKind, Notice, Occupied, Retried, Updated, Warned, occupied
from ullage.wire.transport import Coalesce

if TYPE_CHECKING:
    from ullage.sessions.actor import SessionActor

Params = dict[str, Any]


class Notify(Protocol):
    """Sends a notification; with `coalesce` it may melt into others while the client does not read."""

    def __call__(self, method: str, params: Params, coalesce: Coalesce | None = None) -> None: ...


@dataclass(slots=True)
class _Follower:
    """One opening. `told` is the newest seq that was sent, `streamed` where each piece of an answer ended."""

    told: int
    live: bool = False
    streamed: dict[tuple[str, DeltaKind, str | None], int] = field(default_factory=dict)


class Following:
    """The sessions one client follows."""

    def __init__(self, notify: Notify, limits: Limits) -> None:
        self._notify = notify
        self._limits = limits
        self._followers: dict[str, _Follower] = {}

    def follows(self, session_id: str) -> bool:
        return session_id in self._followers

    async def follow(self, actor: SessionActor, from_seq: int = 0) -> None:
        """Send what was missed, then what is being streamed; from then on the session is live.

        A second opening of the same session takes the place of the first.
        """
        follower = self._followers[actor.session_id] = _Follower(min(from_seq - 1, actor.synced_seq))
        while await self._replay(actor, follower):
            if follower.told == actor.synced_seq:
                self._switch(actor, follower)
                return

    async def _replay(self, actor: SessionActor, follower: _Follower) -> bool:
        """One round over the log, up to what was durable when it began; False when another opening took over."""
        upto = actor.synced_seq
        for number, shown in enumerate(actor.history(follower.told + 1), 1):
            self._update(actor.session_id, follower, Updated(shown))
            if number % self._limits.replay_page == 0:
                await asyncio.sleep(0)
                if self._followers.get(actor.session_id) is not follower:
                    return False
        follower.told = max(follower.told, upto)
        return True

    def _switch(self, actor: SessionActor, follower: _Follower) -> None:
        follower.live = True
        for delta in actor.live():
            self._delta(actor.session_id, follower, delta)
        self.tell_occupancy(actor)

    def tell_occupancy(self, actor: SessionActor) -> None:
        """The number as it is now, to who follows the session."""
        self.hear(actor.session_id, occupied(actor.occupancy, actor.state.facts))

    def hear(self, session_id: str, notice: Notice) -> None:
        """Pass a notice on, if its session is followed."""
        follower = self._followers.get(session_id)
        if follower is None or not follower.live:
            return
        match notice:
            case Updated():
                self._update(session_id, follower, notice)
            case Delta():
                self._delta(session_id, follower, notice)
            case Retried():
                self._notify(SESSION_UPDATE, _dumped(mapping.retry_payload(session_id, notice)))
            case Occupied():
                self._occupancy(session_id, notice)
            case Compacted():
                self._notify(COMPACTION, _dumped(mapping_context.compaction_payload(session_id, notice)))
            case Warned(report):
                self._notify(WARNING, _dumped(mapping.warning_payload(session_id, report)))
            case _:
                assert_never(notice)

    def _update(self, session_id: str, follower: _Follower, notice: Updated) -> None:
        if notice.shown.seq > follower.told:
            follower.told = notice.shown.seq
            self._notify(SESSION_UPDATE, _dumped(mapping.update_payload(session_id, notice.shown, self._limits)))

    def _delta(self, session_id: str, follower: _Follower, delta: Delta) -> None:
        """What the overlay already held is left out; only the answer under way is remembered."""
        known = follower.streamed.get(delta.stream, 0)
        if delta.offset < known:
            delta = replace(delta, offset=known, text=delta.text[known - delta.offset :])
        if not delta.text:
            return
        follower.streamed = {key: end for key, end in follower.streamed.items() if key[0] == delta.message_id}
        follower.streamed[delta.stream] = delta.offset + len(delta.text)
        key = f"{session_id} {delta.message_id} {delta.kind} {delta.call_id}"
        join = join_output if delta.kind is DeltaKind.OUTPUT else join_deltas
        self._notify(SESSION_UPDATE, _dumped(mapping.delta_payload(session_id, delta)), Coalesce(key, join))

    def _occupancy(self, session_id: str, notice: Occupied) -> None:
        payload = mapping_context.occupancy_payload(session_id, notice)
        self._notify(OCCUPANCY, _dumped(payload), Coalesce(session_id, newest))


def join_deltas(parts: Sequence[Params]) -> Params:
    """Pieces that follow one another, as one piece from the first one's offset.

    Where one does not follow (a session was opened again meanwhile) what came before it is left out.
    """
    first, texts, end = parts[0], list[str](), parts[0]["update"]["offset"]
    for part in parts:
        if part["update"]["offset"] != end:
            first, texts, end = part, [], part["update"]["offset"]
        texts.append(part["update"]["text"])
        end += len(texts[-1])
    return {**first, "update": {**first["update"], "text": "".join(texts)}}


def join_output(parts: Sequence[Params]) -> Params:
    """The same of what a call prints, which may be without end: the newest of it."""
    joined = join_deltas(parts)
    update = joined["update"]
    excess = max(0, len(update["text"]) - _WAITING_OUTPUT)
    return {**joined, "update": {**update, "offset": update["offset"] + excess, "text": update["text"][excess:]}}


_WAITING_OUTPUT = 16_384
"""Most characters of a call's output that wait for a client which does not read."""


def newest(parts: Sequence[Params]) -> Params:
    """The last one says it all."""
    return parts[-1]


def _dumped(payload: Payload) -> Params:
    return payload.model_dump(mode="json", by_alias=True)
