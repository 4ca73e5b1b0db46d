"""Who sees what of the log is decided by event type, at one exit; nothing hidden is ever shown (W-C11)."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import get_args

import pytest
from hypothesis import given, settings
from tests.core import strategies
from tests.core.walk import walk

from ullage.core import views
from ullage.core.events import (
    DamageAccepted,
    Entry,
    Event,
    HandoffRecorded,
    ImagesLeftOut,
    ImagesMissing,
    LogRepaired,
    Parent,
    SessionForked,
    StepStarted,
    TokensRecounted,
    Unknown,
    UsageBooked,
)
from ullage.core.grants import PermissionGranted
from ullage.core.reduce import fold
from ullage.core.state import HandoffItem
from ullage.core.views import Shown, ShownWhat, client_view, export_view, fork_view, model_view
from ullage.testing import playbook as book

CANARY = "canary-5f1c"
HIDDEN = {
    HandoffRecorded,
    Unknown,
    StepStarted,
    ImagesLeftOut,
    ImagesMissing,
    PermissionGranted,
    UsageBooked,
    TokensRecounted,
}
LEFT_BEHIND = {HandoffRecorded, LogRepaired, DamageAccepted}
PROPERTY = settings(derandomize=True, max_examples=15, deadline=None)


@pytest.mark.parametrize("kind", sorted(strategies.KINDS, key=lambda kind: kind.__name__), ids=lambda k: k.__name__)
def test_every_kind_is_decided(kind: type) -> None:
    @PROPERTY
    @given(strategies.BY_KIND[kind])
    def check(event: Event) -> None:
        shown = client_view(Entry(7, 5, event))
        assert (shown is None) == (kind in HIDDEN)
        assert shown is None or ((shown.seq, shown.at) == (7, 5) and isinstance(shown.what, get_args(ShownWhat)))
        assert fork_view(event) == (kind not in LEFT_BEHIND)

    check()


def _with_canaries(log: list[Entry]) -> list[Entry]:
    """The log with a canary in everything that is hidden, and more of it between."""
    found: list[Event] = []
    for entry in log:
        event = entry.event
        found.append(replace(event, record=CANARY) if isinstance(event, HandoffRecorded) else event)
        found += [Unknown(CANARY, False, f'{{"kind": "{CANARY}"}}'), HandoffRecorded(CANARY, 3)]
    return [Entry(seq, 0, event) for seq, event in enumerate(found)]


def _texts(value: object) -> str:
    """Every field of a value, all the way down, by `repr`; what `repr` might leave out is walked as well."""
    inner = [_texts(getattr(value, f.name)) for f in fields(value)] if is_dataclass(value) else []
    return " ".join([repr(value), *inner])


def test_no_canary_is_ever_shown() -> None:
    """A hidden text that starts a log, stands between all its events and ends it, in no view but the model's."""
    n_shown = 0
    for seed in range(25):
        log = _with_canaries(walk(50_000 + seed).entries)
        for shown in export_view(log):
            assert CANARY not in _texts(shown)
            n_shown += 1
        state = fold(log)
        assert CANARY not in repr(replace(state.facts, read_only=None))
        assert not any(CANARY in repr(entry.event) for entry in log if fork_view(entry.event) and not _unknown(entry))
    assert n_shown > 300


def _unknown(entry: Entry) -> bool:
    return isinstance(entry.event, Unknown)  # copied raw: the fork's reader hides it just the same


def test_the_canary_test_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = views._shown

    def leaky(event: Event) -> ShownWhat | None:
        return views.ShownQueue(event.record) if isinstance(event, HandoffRecorded) else honest(event)

    monkeypatch.setattr(views, "_shown", leaky)
    with pytest.raises(AssertionError):
        test_no_canary_is_ever_shown()


def test_a_title_is_never_made_from_hidden_text() -> None:
    stage = book.Stage()
    stage.record(HandoffRecorded(CANARY, 3))
    stage.record(Unknown(CANARY, False, CANARY))
    for event in (book.prompt("t1"), book.handoff_first(), book.proceed(), book.answer()):
        stage.send(event)
    assert stage.state.facts.title == "do it"


def test_the_model_sees_handoffs_and_nobody_else_does() -> None:
    stage = book.Stage()
    stage.record(HandoffRecorded(CANARY, 3))
    (item,) = model_view(stage.state)
    assert isinstance(item, HandoffItem) and item.record == CANARY
    assert list(export_view(stage.entries[1:])) == []


def test_an_export_is_what_a_client_saw_and_hidden_events_leave_gaps() -> None:
    log = walk(50_003).entries
    shown = list(export_view(log))
    assert shown == [one for entry in log if (one := client_view(entry)) is not None]
    assert [one.seq for one in shown] == sorted(one.seq for one in shown)
    assert 0 < len(shown) < len(log)


def test_what_is_shown_has_no_field_for_hidden_things() -> None:
    """By type: no `Shown` value can hold a hidden event, a raw record, or the facts of a checkpoint."""
    allowed = {name for what in get_args(ShownWhat) for name in what.__slots__}
    assert not allowed & {"record", "raw", "facts", "occupancy", "entry"}
    assert Shown.__slots__ == ("seq", "at", "what")


def test_a_fork_shows_the_same_transcript() -> None:
    for seed in range(20):
        log = walk(50_100 + seed).entries
        ours = {LogRepaired, DamageAccepted}
        copied = [entry for entry in log if fork_view(entry.event)]
        assert list(export_view(copied)) == list(export_view(entry for entry in log if type(entry.event) not in ours))
        state = fold([*copied, Entry(len(log), 0, SessionForked(Parent("session", len(log) - 1)))])
        assert not any(isinstance(item, HandoffItem) for item in state.items)
