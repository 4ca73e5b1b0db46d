"""Reconnecting: exactly what was missed, nothing twice, then live (design 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ullage.core.context import Budget, Measured, Occupancy, Phase
from ullage.core.state import State, Totals
from ullage.core.views import Shown, ShownTurnStart
from ullage.editors.following import Following, _Follower, join_output
from ullage.editors.limits import Limits
from ullage.sessions.notices import Delta, DeltaKind, Notice, Occupied, Updated

OCCUPANCY = Occupancy(1, 0, Measured.ESTIMATE, 0, 0, Phase.UNKNOWN, Budget(None, "", 0, 0, 0, 0))


@dataclass
class FakeActor:
    """A session whose log grows when `write` is called, also in the middle of a replay."""

    session_id: str = "s"
    seqs: list[int] = field(default_factory=list)
    overlay: tuple[Delta, ...] = ()
    state: State = field(default_factory=State)
    occupancy: Occupancy = OCCUPANCY
    following: Following | None = None
    on_read: Callable[[int], None] = lambda seq: None
    last: int = -1

    @property
    def synced_seq(self) -> int:
        return self.last

    def history(self, from_seq: int = 0) -> Iterator[Shown]:
        for seq in self.seqs:
            if from_seq <= seq <= self.last:
                yield shown(seq)
                self.on_read(seq)

    def live(self) -> tuple[Delta, ...]:
        return self.overlay

    def write(self, seq: int, *, hidden: bool = False) -> None:
        """Durable, and told if it may be."""
        self.last = seq
        if not hidden:
            self.seqs.append(seq)
            self.tell(Updated(shown(seq)))

    def tell(self, notice: Notice) -> None:
        if self.following:
            self.following.hear(self.session_id, notice)


def shown(seq: int) -> Shown:
    return Shown(seq, 1_000, ShownTurnStart(f"t{seq}"))


def delta(offset: int, text: str, message: str = "m") -> Delta:
    return Delta(0, message, DeltaKind.TEXT, offset, text)


class Client:
    """What a client was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, method: str, params: dict[str, Any], coalesce: Any = None) -> None:
        self.sent.append((method, params))

    @property
    def seqs(self) -> list[int]:
        return [p["seq"] for m, p in self.sent if m == "ullage/session/update" and p["seq"] is not None]

    @property
    def text(self) -> list[tuple[int, str]]:
        updates = [p["update"] for m, p in self.sent if m == "ullage/session/update" and p["seq"] is None]
        return [(each["offset"], each["text"]) for each in updates]


def make(*seqs: int, page: int = 200) -> tuple[FakeActor, Following, Client]:
    client = Client()
    following = Following(client, Limits(replay_page=page))
    actor = FakeActor(seqs=list(seqs), last=max(seqs, default=-1), following=following)
    return actor, following, client


@pytest.mark.parametrize(
    ("from_seq", "expected"),
    [(0, [0, 1, 4, 5]), (1, [1, 4, 5]), (2, [4, 5]), (5, [5]), (6, []), (99, [])],
)
async def test_what_was_missed_comes_once(from_seq: int, expected: list[int]) -> None:
    actor, following, client = make(0, 1, 4, 5)
    await following.follow(actor, from_seq)  # type: ignore[arg-type]
    assert client.seqs == expected
    actor.write(7)
    assert client.seqs == [*expected, 7]


async def test_nobody_hears_of_a_session_that_was_not_opened() -> None:
    actor, _, client = make(0)
    actor.write(1)
    actor.tell(delta(0, "x"))
    actor.tell(Occupied(OCCUPANCY, Totals(), Totals()))
    assert client.sent == []


@pytest.mark.parametrize("page", [1, 2, 200])
@pytest.mark.parametrize("hidden", [False, True])
async def test_what_happens_during_the_replay_is_neither_lost_nor_doubled(page: int, hidden: bool) -> None:
    actor, following, client = make(0, 1, 2, page=page)

    def grow(seq: int) -> None:
        if seq < 20:
            actor.write(actor.last + 1, hidden=hidden and actor.last % 2 == 0)

    actor.on_read = grow
    await following.follow(actor)  # type: ignore[arg-type]
    assert client.seqs == actor.seqs
    actor.on_read = lambda seq: None
    actor.write(actor.last + 1)
    assert client.seqs == actor.seqs


async def test_the_overlay_comes_after_the_past_and_before_the_next_piece() -> None:
    actor, following, client = make(0)
    actor.overlay = (delta(0, "whole so far"),)
    await following.follow(actor)  # type: ignore[arg-type]
    assert [method for method, _ in client.sent] == [
        "ullage/session/update",
        "ullage/session/update",
        "ullage/context/occupancy",
    ]
    actor.tell(delta(12, ", more"))
    assert client.text == [(0, "whole so far"), (12, ", more")]


@pytest.mark.parametrize(
    ("late", "heard"),
    [
        (delta(0, "whole"), []),
        (delta(3, "le"), []),
        (delta(3, "le so"), [(5, " so")]),
        (delta(5, " so"), [(5, " so")]),
        (delta(0, "new", "n"), [(0, "new")]),
    ],
)
async def test_a_piece_that_the_overlay_held_is_not_told_again(late: Delta, heard: list[tuple[int, str]]) -> None:
    """A notice may be under way when a session is opened."""
    actor, following, client = make()
    actor.overlay = (delta(0, "whole"),)
    await following.follow(actor)  # type: ignore[arg-type]
    actor.tell(late)
    assert client.text == [(0, "whole"), *heard]


async def test_a_late_notice_of_what_was_replayed_is_not_told_again() -> None:
    actor, following, client = make(0, 1)
    await following.follow(actor)  # type: ignore[arg-type]
    actor.tell(Updated(shown(1)))
    assert client.seqs == [0, 1]


async def test_opening_again_sends_what_is_asked_for_and_ends_the_first_opening() -> None:
    actor, following, client = make(0, 1, 2, page=1)
    first = following.follow(actor)  # type: ignore[arg-type]
    first.send(None)  # it sends a page and yields
    assert client.seqs == [0]
    await following.follow(actor, 2)  # type: ignore[arg-type]
    with pytest.raises(StopIteration):
        first.send(None)
    actor.write(3)
    assert client.seqs == [0, 2, 3]
    assert [method for method, _ in client.sent].count("ullage/context/occupancy") == 1


# --- what calls print ---


def piece(offset: int, text: str) -> dict[str, Any]:
    return {"sessionId": "s", "update": {"kind": "delta", "of": "output", "offset": offset, "text": text}}


@pytest.mark.parametrize(
    ("pieces", "offset", "text"),
    [
        ([(0, "ab"), (2, "c")], 0, "abc"),
        ([(0, "ab"), (9, "c"), (10, "d")], 9, "cd"),
        ([(0, "a" * 20_000)], 3_616, "a" * 16_384),
        ([(number * 4_096, "b" * 4_096) for number in range(100)], 96 * 4_096, "b" * 16_384),
    ],
)
def test_output_that_waits_is_bounded(pieces: list[tuple[int, str]], offset: int, text: str) -> None:
    """A client that does not read gets the newest of it, and sees where that begins."""
    joined = join_output([piece(*each) for each in pieces])
    assert (joined["update"]["offset"], joined["update"]["text"]) == (offset, text)


def test_outputs_of_two_calls_stay_apart() -> None:
    heard: list[dict[str, Any]] = []
    keys: list[str] = []

    def notify(method: str, params: dict[str, Any], coalesce: Any = None) -> None:
        if params.get("update", {}).get("kind") == "delta":
            heard.append(params["update"])
            keys.append(coalesce.key)

    following = Following(notify, Limits())
    following._followers["s"] = _Follower(told=0, live=True)
    for call_id in ("c1", "c2"):
        following.hear("s", Delta(0, "m", DeltaKind.OUTPUT, 0, f"{call_id} prints", call_id))
    assert [(each["callId"], each["text"]) for each in heard] == [("c1", "c1 prints"), ("c2", "c2 prints")]
    assert len(set(keys)) == 2
